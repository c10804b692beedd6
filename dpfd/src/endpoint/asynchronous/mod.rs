//! Endpoints in tokio's runtime (feature `tokio`).
//!
//! What they wait for is in [`super::wait::tasks`]. No call waits on the runtime's thread.

mod calls;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use tokio::io::unix::AsyncFd;

use super::Endpoint;
use crate::addr::{Addr, Dpid};
use crate::error::{Error, Result};

/// An endpoint whose calls are futures.
///
/// All calls take `&self`: any number of tasks can send and receive on one endpoint. Each message goes to one of
/// those that receive; messages that one task sends, one after the other, arrive in this order.
///
/// Every call is *cancel-safe*: a future that is dropped before it was ready has taken no message and sent none,
/// as in `tokio::select!` or under a timeout. A message that [`AsyncEndpoint::recv`] gave and that nobody looked
/// at is gone, as ever, when its guard is dropped.
///
/// It is no `Stream` and no `Sink`. A [`super::Message`] borrows the endpoint whose pool it lies in, and what a `Stream` yields can
/// borrow nothing of it: each message would be copied first. A `Sink` owns what it is given until it is flushed, where
/// [`AsyncEndpoint::send`] takes bytes of the caller's own. `futures::stream::unfold` and `futures::sink::unfold` make both of these
/// calls where the copies do not matter.
///
/// Calls take part in tokio's cooperative scheduling: a task that always finds a message yields now and then.
///
/// ```
/// use dpfd::AsyncEndpoint;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> dpfd::Result<()> {
/// # std::env::set_var("DP_RUNTIME_DIR", std::env::temp_dir().join(format!("dp-doc-async-{}", std::process::id())));
/// let server = AsyncEndpoint::open(0).await?; // any free number
/// let client = AsyncEndpoint::open(0).await?;
/// client.target(server.addr())?;
///
/// let serve = async {
///     let ping = server.recv().await?; // in place: its memory is the sender's again once it is dropped
///     server.send_to(b"pong", ping.from()).await
/// };
/// let ask = async {
///     client.send(b"ping").await?;
///     Ok(client.recv().await?.to_vec())
/// };
/// let (served, answer) = tokio::join!(serve, ask);
/// served?;
/// assert_eq!(answer?, b"pong");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct AsyncEndpoint {
    fd: AsyncFd<Endpoint>,
}

impl AsyncEndpoint {
    /// Opens endpoint `dpid`; 0 takes any free number.
    ///
    /// This is [`Endpoint::open`] on one of the runtime's threads for calls that block: where the number seems to be
    /// taken, another process is asked, which may take a second to answer. Dropped before it is ready, the endpoint is
    /// closed as soon as it is open.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::open`]; [`Error::Closed`] when the runtime shuts down.
    ///
    /// # Panics
    ///
    /// As [`AsyncEndpoint::new`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> dpfd::Result<()> {
    /// # std::env::set_var("DP_RUNTIME_DIR", std::env::temp_dir().join(format!("dp-doc-{}", std::process::id())));
    /// # use dpfd::{Addr, AsyncEndpoint, Endpoint, Error};
    /// # let (a, b) = (AsyncEndpoint::open(0).await?, AsyncEndpoint::open(0).await?);
    /// assert!(matches!(AsyncEndpoint::open(a.dpid()).await, Err(Error::InUse(_))));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn open(dpid: Dpid) -> Result<AsyncEndpoint> {
        let opened = tokio::task::spawn_blocking(move || Endpoint::open(dpid)).await;
        match opened {
            Ok(endpoint) => AsyncEndpoint::new(endpoint?),
            Err(e) if e.is_panic() => std::panic::resume_unwind(e.into_panic()),
            Err(_) => Err(Error::Closed),
        }
    }

    /// Takes an endpoint into the runtime of the caller: two system calls. Its descriptor is non-blocking from here on,
    /// for all who hold it.
    ///
    /// # Errors
    ///
    /// Those of fcntl(2) and epoll_ctl(2): ENOMEM, ENOSPC.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime, or in one built without `enable_io`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> dpfd::Result<()> {
    /// # std::env::set_var("DP_RUNTIME_DIR", std::env::temp_dir().join(format!("dp-doc-{}", std::process::id())));
    /// # use dpfd::{Addr, AsyncEndpoint, Endpoint, Error};
    /// # let (a, b) = (AsyncEndpoint::open(0).await?, AsyncEndpoint::open(0).await?);
    /// let endpoint = Endpoint::open(0)?;
    /// endpoint.pool(1 << 20)?;
    /// let endpoint = AsyncEndpoint::new(endpoint)?;
    /// # let _ = endpoint;
    /// # Ok(())
    /// # }
    /// ```
    #[allow(unsafe_code, clippy::allow_attributes)]
    pub fn new(endpoint: Endpoint) -> Result<AsyncEndpoint> {
        endpoint.set_nonblocking(true)?;
        // SAFETY: an endpoint owns its descriptor, tells the same number all its life, and closes it when dropped;
        // what is registered here gives it out by `into_inner` only, which ends the registration first.
        let registered = unsafe { AsyncFd::register(endpoint) };
        Ok(AsyncEndpoint { fd: registered.map_err(|e| Error::io("epoll_ctl")(e.into()))? })
    }

    /// Its number. No system call.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> dpfd::Result<()> {
    /// # std::env::set_var("DP_RUNTIME_DIR", std::env::temp_dir().join(format!("dp-doc-{}", std::process::id())));
    /// # use dpfd::{Addr, AsyncEndpoint, Endpoint, Error};
    /// # let (a, b) = (AsyncEndpoint::open(0).await?, AsyncEndpoint::open(0).await?);
    /// assert!(a.dpid() != b.dpid());
    /// # Ok(())
    /// # }
    /// ```
    pub fn dpid(&self) -> Dpid {
        self.get_ref().dpid()
    }

    /// Its address on this node. No system call.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> dpfd::Result<()> {
    /// # std::env::set_var("DP_RUNTIME_DIR", std::env::temp_dir().join(format!("dp-doc-{}", std::process::id())));
    /// # use dpfd::{Addr, AsyncEndpoint, Endpoint, Error};
    /// # let (a, b) = (AsyncEndpoint::open(0).await?, AsyncEndpoint::open(0).await?);
    /// assert_eq!(a.addr(), Addr::local(a.dpid()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn addr(&self) -> Addr {
        self.get_ref().addr()
    }

    /// Sets the default destination; it need not exist yet. Does not wait.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::target`]; [`Error::WouldBlock`] while the descriptor is full of plain writes to the former target.
    /// [`AsyncEndpoint::send_to`] needs none.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> dpfd::Result<()> {
    /// # std::env::set_var("DP_RUNTIME_DIR", std::env::temp_dir().join(format!("dp-doc-{}", std::process::id())));
    /// # use dpfd::{Addr, AsyncEndpoint, Endpoint, Error};
    /// # let (a, b) = (AsyncEndpoint::open(0).await?, AsyncEndpoint::open(0).await?);
    /// a.target(b.addr())?;
    /// a.send(b"hello").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn target(&self, to: Addr) -> Result<()> {
        self.get_ref().target(to)
    }

    /// The endpoint, for everything else: [`Endpoint::stat`], [`Endpoint::pool`]. Its own sends and receives do not wait
    /// either, and say [`Error::WouldBlock`] instead.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> dpfd::Result<()> {
    /// # std::env::set_var("DP_RUNTIME_DIR", std::env::temp_dir().join(format!("dp-doc-{}", std::process::id())));
    /// # use dpfd::{Addr, AsyncEndpoint, Endpoint, Error};
    /// # let (a, b) = (AsyncEndpoint::open(0).await?, AsyncEndpoint::open(0).await?);
    /// assert!(matches!(a.get_ref().recv(), Err(Error::WouldBlock)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_ref(&self) -> &Endpoint {
        self.fd.get_ref()
    }

    /// Takes it out of the runtime: one system call. It stays non-blocking.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> dpfd::Result<()> {
    /// # std::env::set_var("DP_RUNTIME_DIR", std::env::temp_dir().join(format!("dp-doc-{}", std::process::id())));
    /// # use dpfd::{Addr, AsyncEndpoint, Endpoint, Error};
    /// # let (a, b) = (AsyncEndpoint::open(0).await?, AsyncEndpoint::open(0).await?);
    /// let endpoint = a.into_inner();
    /// endpoint.set_nonblocking(false)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_inner(self) -> Endpoint {
        self.fd.into_inner()
    }
}

impl AsFd for AsyncEndpoint {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.get_ref().as_fd()
    }
}

impl AsRawFd for AsyncEndpoint {
    fn as_raw_fd(&self) -> RawFd {
        self.get_ref().as_raw_fd()
    }
}
