//! Sending and receiving in a task.

use std::io::IoSlice;

use super::super::wait::tasks;
use super::super::Message;
use super::AsyncEndpoint;
use crate::addr::Addr;
use crate::edge::parts::Parts;
use crate::error::Result;

impl AsyncEndpoint {
    /// Sends one message of up to 16 MiB to the target. Ready when the message is with its receiver, or with the library,
    /// which delivers it even if the endpoint is closed at once; while neither has room it waits.
    ///
    /// Costs what [`crate::Endpoint::send`] costs; a copy into memory of its own, of a message longer than its sender's part of
    /// the pool, is made on the runtime's thread.
    ///
    /// Dropped before it is ready, nothing was sent.
    ///
    /// # Errors
    ///
    /// As [`crate::Endpoint::send`], without [`crate::Error::WouldBlock`] and [`crate::Error::Interrupted`].
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
        tasks::send(&self.fd, None, Parts::new(&[IoSlice::new(message)])).await
    }

    /// Sends one message to another destination than the target.
    ///
    /// Dropped before it is ready, nothing was sent.
    ///
    /// # Errors
    ///
    /// As [`AsyncEndpoint::send`]; [`crate::Error::NoRoute`], [`crate::Error::NotInGraph`].
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
        tasks::send(&self.fd, Some(to), Parts::new(&[IoSlice::new(message)])).await
    }

    /// Sends pieces of memory as one message to the target; costs and waits as [`AsyncEndpoint::send`].
    ///
    /// Dropped before it is ready, nothing was sent.
    ///
    /// # Errors
    ///
    /// As [`AsyncEndpoint::send`]; [`crate::Error::TooManyPieces`].
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
        tasks::send(&self.fd, None, Parts::new(pieces)).await
    }

    /// Sends one message with an immediate, 8 bytes beside it, or without ([`crate::Endpoint::send_parts`]).
    ///
    /// Dropped before it is ready, nothing was sent.
    ///
    /// # Errors
    ///
    /// As [`AsyncEndpoint::send_vectored`]; [`crate::Error::NoImmediate`].
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
        tasks::send(&self.fd, None, message).await
    }

    /// The same to another destination than the target.
    ///
    /// # Errors
    ///
    /// As [`AsyncEndpoint::send_parts`]; [`crate::Error::NoRoute`].
    pub async fn send_parts_to(&self, message: Parts<'_>, to: Addr) -> Result<()> {
        tasks::send(&self.fd, Some(to), message).await
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
    /// EMFILE, ENOMEM at the first call; [`crate::Error::Closed`].
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
        tasks::receive(&self.fd, |endpoint| {
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
        tasks::receive(&self.fd, |endpoint| {
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
    /// [`crate::Error::Closed`]; those of recv(2).
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
        tasks::receive(&self.fd, |endpoint| endpoint.served.read_now(endpoint.own_fd()?, into)).await
    }
}
