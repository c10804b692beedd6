//! Endpoints in tokio's runtime (feature `tokio`).
//!
//! Receiving waits for the descriptor to be readable, which it is if and only if a message is there. Sending
//! waits for it to be writable, and, with the user-space driver, for news of the service where the descriptor does
//! not tell ([`crate::driver::user::sending`]). No call waits on the runtime's thread.

use std::future::{poll_fn, Future};
use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::pin::pin;
use std::task::Poll;

use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};
use tokio::task::coop::consume_budget;

use super::{Endpoint, Message};
use crate::addr::{Addr, Dpid};
use crate::driver::user::endpoint::UserEndpoint;
use crate::driver::user::sending::{Sending, Until};
use crate::driver::{kernel, Served};
use crate::edge::parts::{Parts, MOST_PIECES};
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
/// It is no `Stream` and no `Sink`. A [`Message`] borrows the endpoint whose pool it lies in, and what a `Stream` yields can
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

    /// Sends one message of up to 16 MiB to the target. Ready when the message is with its receiver, or with the library,
    /// which delivers it even if the endpoint is closed at once; while neither has room it waits.
    ///
    /// Costs what [`Endpoint::send`] costs; a copy into memory of its own, of a message longer than its sender's part of
    /// the pool, is made on the runtime's thread.
    ///
    /// Dropped before it is ready, nothing was sent.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::send`], without [`Error::WouldBlock`] and [`Error::Interrupted`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> dpfd::Result<()> {
    /// # std::env::set_var("DP_RUNTIME_DIR", std::env::temp_dir().join(format!("dp-doc-{}", std::process::id())));
    /// # use dpfd::{Addr, AsyncEndpoint, Endpoint, Error};
    /// # let (a, b) = (AsyncEndpoint::open(0).await?, AsyncEndpoint::open(0).await?);
    /// assert!(matches!(a.send(b"where to?").await, Err(Error::NoTarget)));
    /// a.target(b.addr())?;
    /// a.send(b"").await?; // an empty message is a message
    /// assert!(b.recv().await?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn send(&self, message: &[u8]) -> Result<()> {
        self.deliver(None, Parts::new(&[IoSlice::new(message)])).await
    }

    /// Sends one message to another destination than the target.
    ///
    /// Dropped before it is ready, nothing was sent.
    ///
    /// # Errors
    ///
    /// As [`AsyncEndpoint::send`]; [`Error::NoRoute`], [`Error::NotInGraph`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> dpfd::Result<()> {
    /// # std::env::set_var("DP_RUNTIME_DIR", std::env::temp_dir().join(format!("dp-doc-{}", std::process::id())));
    /// # use dpfd::{Addr, AsyncEndpoint, Endpoint, Error};
    /// # let (a, b) = (AsyncEndpoint::open(0).await?, AsyncEndpoint::open(0).await?);
    /// a.send_to(b"hello", b.addr()).await?;
    /// assert_eq!(b.recv().await?.from(), a.addr());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn send_to(&self, message: &[u8], to: Addr) -> Result<()> {
        self.deliver(Some(to), Parts::new(&[IoSlice::new(message)])).await
    }

    /// Sends pieces of memory as one message to the target; costs and waits as [`AsyncEndpoint::send`].
    ///
    /// Dropped before it is ready, nothing was sent.
    ///
    /// # Errors
    ///
    /// As [`AsyncEndpoint::send`]; [`Error::TooManyPieces`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> dpfd::Result<()> {
    /// # std::env::set_var("DP_RUNTIME_DIR", std::env::temp_dir().join(format!("dp-doc-{}", std::process::id())));
    /// # use dpfd::{Addr, AsyncEndpoint, Endpoint, Error};
    /// # let (a, b) = (AsyncEndpoint::open(0).await?, AsyncEndpoint::open(0).await?);
    /// use std::io::IoSlice;
    /// a.target(b.addr())?;
    /// a.send_vectored(&[IoSlice::new(b"head"), IoSlice::new(b" and body")]).await?;
    /// assert_eq!(b.recv().await?.to_vec(), b"head and body");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn send_vectored(&self, pieces: &[IoSlice<'_>]) -> Result<()> {
        self.deliver(None, Parts::new(pieces)).await
    }

    /// Sends one message with an immediate, 8 bytes beside it, or without ([`Endpoint::send_parts`]).
    ///
    /// Dropped before it is ready, nothing was sent.
    ///
    /// # Errors
    ///
    /// As [`AsyncEndpoint::send_vectored`]; [`Error::NoImmediate`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> dpfd::Result<()> {
    /// # std::env::set_var("DP_RUNTIME_DIR", std::env::temp_dir().join(format!("dp-doc-{}", std::process::id())));
    /// # use dpfd::{Addr, AsyncEndpoint, Endpoint, Error};
    /// # let (a, b) = (AsyncEndpoint::open(0).await?, AsyncEndpoint::open(0).await?);
    /// use dpfd::Parts;
    /// a.target(b.addr())?;
    /// a.send_parts(Parts::new(&[]).with_immediate(42)).await?;
    /// assert_eq!(b.recv().await?.immediate(), Some(42));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn send_parts(&self, message: Parts<'_>) -> Result<()> {
        self.deliver(None, message).await
    }

    /// The same to another destination than the target.
    ///
    /// # Errors
    ///
    /// As [`AsyncEndpoint::send_parts`]; [`Error::NoRoute`].
    pub async fn send_parts_to(&self, message: Parts<'_>, to: Addr) -> Result<()> {
        self.deliver(Some(to), message).await
    }

    async fn deliver(&self, to: Option<Addr>, message: Parts<'_>) -> Result<()> {
        let (count, limit) = (message.pieces().len(), MOST_PIECES);
        if count > limit {
            return Err(Error::TooManyPieces { count, limit });
        }
        consume_budget().await;
        match &self.get_ref().served {
            Served::User(inner) => self.deliver_by_library(inner, to, message).await,
            Served::Kernel(inner) => self.deliver_by_kernel(inner, to, message).await,
        }
    }

    /// The descriptor tells of room for what was refused, whoever was refused on it last.
    async fn deliver_by_kernel(
        &self,
        inner: &kernel::KernelEndpoint,
        to: Option<Addr>,
        message: Parts<'_>,
    ) -> Result<()> {
        let fd = self.get_ref().own_fd()?;
        // The target of the moment in which it is first tried.
        let mut to = to;
        let mut writable = None;
        loop {
            let sent = match (message.pieces(), message.immediate()) {
                ([piece], None) => inner.send_now(fd, to, piece),
                _ => inner.send_parts_now(fd, to, &message),
            };
            match sent {
                Err(Error::WouldBlock) => {}
                Err(Error::Interrupted) => continue,
                done => return done,
            }
            if to.is_none() {
                to = Some(inner.stat(fd).target);
            }
            if let Some(mut writable) = writable.take() {
                AsyncFdReadyGuard::clear_ready(&mut writable);
            }
            writable = Some(self.fd.writable().await.map_err(Error::io("epoll_wait"))?);
        }
    }

    async fn deliver_by_library(
        &self,
        inner: &UserEndpoint,
        to: Option<Addr>,
        message: Parts<'_>,
    ) -> Result<()> {
        let fd = self.get_ref().own_fd()?;
        let mut sending = Sending::new(inner, to, message);
        let mut stuck = sending.attempt(fd)?;
        while let Some(until) = stuck {
            let writable = self.news(&mut sending, until).await?;
            stuck = sending.attempt(fd)?;
            if let (Some(mut writable), true) = (writable, stuck.is_some_and(Until::is_polled)) {
                writable.clear_ready();
            }
        }
        Ok(())
    }

    /// Waits until a message that is stuck may be tried again; with what the descriptor said, if it was that.
    async fn news(
        &self,
        sending: &mut Sending<'_>,
        until: Until,
    ) -> Result<Option<AsyncFdReadyGuard<'_, Endpoint>>> {
        let mut writable = pin!(self.fd.writable());
        poll_fn(|cx| {
            if sending.poll_news(until, cx).is_ready() {
                return Poll::Ready(Ok(None));
            }
            if !until.is_polled() {
                return Poll::Pending;
            }
            writable.as_mut().poll(cx).map(|r| r.map(Some).map_err(Error::io("epoll_wait")))
        })
        .await
    }

    /// The next message, in place. It is released when dropped; as long as it is held its sender has that much less
    /// room.
    ///
    /// No copy; no system call where several messages are there. Where none is, it costs some before it waits, so that
    /// the next one wakes the task. The first call moves the endpoint to pool mode for good; [`AsyncEndpoint::read`]
    /// works in either.
    ///
    /// Dropped before it is ready, no message was taken.
    ///
    /// # Errors
    ///
    /// EMFILE, ENOMEM at the first call; [`Error::Closed`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> dpfd::Result<()> {
    /// # std::env::set_var("DP_RUNTIME_DIR", std::env::temp_dir().join(format!("dp-doc-{}", std::process::id())));
    /// # use dpfd::{Addr, AsyncEndpoint, Endpoint, Error};
    /// # let (a, b) = (AsyncEndpoint::open(0).await?, AsyncEndpoint::open(0).await?);
    /// use std::time::Duration;
    /// let nothing = tokio::time::timeout(Duration::from_millis(1), b.recv()).await;
    /// assert!(nothing.is_err()); // and no message was lost by that
    /// a.send_to(b"hello", b.addr()).await?;
    /// assert_eq!(b.recv().await?.to_vec(), b"hello");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn recv(&self) -> Result<Message<'_>> {
        self.receive(|endpoint| {
            let fd = endpoint.own_fd()?;
            Ok(endpoint.served.recv_now(fd)?.map(|got| Message::new(endpoint, got)))
        })
        .await
    }

    /// The next message, copied as far as `into` has room, and who sent it; for short messages the quickest. The length is
    /// the whole message's: if it is more than there was room, the rest is gone. Costs and waits as
    /// [`AsyncEndpoint::recv`], and moves the endpoint to pool mode.
    ///
    /// Dropped before it is ready, no message was taken.
    ///
    /// # Errors
    ///
    /// As [`AsyncEndpoint::recv`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> dpfd::Result<()> {
    /// # std::env::set_var("DP_RUNTIME_DIR", std::env::temp_dir().join(format!("dp-doc-{}", std::process::id())));
    /// # use dpfd::{Addr, AsyncEndpoint, Endpoint, Error};
    /// # let (a, b) = (AsyncEndpoint::open(0).await?, AsyncEndpoint::open(0).await?);
    /// a.send_to(b"hello", b.addr()).await?;
    /// let mut buf = [0; 8];
    /// let (len, from) = b.recv_from(&mut buf).await?;
    /// assert_eq!((&buf[..len], from), (&b"hello"[..], a.addr()));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn recv_from(&self, into: &mut [u8]) -> Result<(usize, Addr)> {
        self.receive(|endpoint| {
            let copied = endpoint.served.recv_from_now(endpoint.own_fd()?, into)?;
            Ok(copied.map(|copied| (copied.size(), copied.from())))
        })
        .await
    }

    /// The next message, copied, as read(2) does: its bytes as far as `into` has room, the rest is discarded. How
    /// many those were; 0 for an empty message. The endpoint stays in the mode it is in. One system call and one copy, and
    /// in pool mode what [`AsyncEndpoint::recv`] costs.
    ///
    /// Dropped before it is ready, no message was taken.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`]; those of recv(2).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> dpfd::Result<()> {
    /// # std::env::set_var("DP_RUNTIME_DIR", std::env::temp_dir().join(format!("dp-doc-{}", std::process::id())));
    /// # use dpfd::{Addr, AsyncEndpoint, Endpoint, Error};
    /// # let (a, b) = (AsyncEndpoint::open(0).await?, AsyncEndpoint::open(0).await?);
    /// a.send_to(b"hello", b.addr()).await?;
    /// let mut buf = [0; 4];
    /// let n = b.read(&mut buf).await?;
    /// assert_eq!(&buf[..n], b"hell");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn read(&self, into: &mut [u8]) -> Result<usize> {
        self.receive(|endpoint| endpoint.served.read_now(endpoint.own_fd()?, into)).await
    }

    async fn receive<'a, T>(&'a self, mut look: impl FnMut(&'a Endpoint) -> Result<Option<T>>) -> Result<T> {
        consume_budget().await;
        let endpoint = self.get_ref();
        if let Some(got) = look(endpoint)? {
            return Ok(got);
        }
        loop {
            let mut readable = self.fd.readable().await.map_err(Error::io("epoll_wait"))?;
            if let Some(got) = look(endpoint)? {
                return Ok(got);
            }
            // A look in vain leaves the descriptor unreadable, so the next message is an edge.
            readable.clear_ready();
        }
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
