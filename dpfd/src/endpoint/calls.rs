//! Sending and receiving: what a program does with an endpoint most of the time.

use std::io::IoSlice;
use std::os::fd::AsRawFd;
use std::time::Duration;

use super::{wait, Endpoint, Message};
use crate::addr::Addr;
use crate::edge::parts::Parts;
use crate::error::Result;

impl Endpoint {
    /// Sets the default destination; it need not exist yet. At most one system call; it does not wait.
    ///
    /// # Errors
    ///
    /// [`crate::Error::NoRoute`], [`crate::Error::BadDpid`], [`crate::Error::NotInGraph`].
    ///
    /// ```
    /// # std::env::set_var("DP_RUNTIME_DIR", std::env::temp_dir().join(format!("dp-doc-{}", std::process::id())));
    /// # use dpfd::{Addr, Endpoint, Error};
    /// # let (a, b) = (Endpoint::open(0)?, Endpoint::open(0)?);
    /// a.target(b.addr())?;
    /// assert_eq!(a.stat().target, b.addr());
    /// let elsewhere = Addr { nid: 7, dpid: 1 };
    /// assert!(matches!(a.target(elsewhere), Err(Error::NoRoute(7))));
    /// # Ok::<(), dpfd::Error>(())
    /// ```
    pub fn target(&self, to: Addr) -> Result<()> {
        wait::target(&self.served, self.own_fd()?, to)
    }

    /// Sends one message of up to 16 MiB to the target. Waits while there is no room, or no receiver yet, unless the
    /// descriptor is non-blocking.
    ///
    /// Once the two have met and the receiver has a pool: one copy, and no system call unless the receiver sleeps. Before
    /// that, and where the pool is full, the message goes through the descriptor: two copies and some system calls. One
    /// that is longer than its sender's part of the pool lies in memory of its own: one copy, some system calls, and a
    /// mapping in the receiver.
    ///
    /// # Errors
    ///
    /// [`crate::Error::NoTarget`], [`crate::Error::TooLong`], [`crate::Error::WouldBlock`], [`crate::Error::Interrupted`],
    /// [`crate::Error::Closed`], [`crate::Error::Denied`].
    ///
    /// ```
    /// # std::env::set_var("DP_RUNTIME_DIR", std::env::temp_dir().join(format!("dp-doc-{}", std::process::id())));
    /// # use dpfd::{Addr, Endpoint, Error};
    /// # let (a, b) = (Endpoint::open(0)?, Endpoint::open(0)?);
    /// assert!(matches!(a.send(b"where to?"), Err(Error::NoTarget)));
    /// a.target(b.addr())?;
    /// a.send(b"")?; // an empty message is a message
    /// assert!(b.recv()?.is_empty());
    /// # Ok::<(), dpfd::Error>(())
    /// ```
    #[inline]
    pub fn send(&self, message: &[u8]) -> Result<()> {
        self.transmit(None, message)
    }

    /// Sends one message to another destination than the target, at the same cost and one look into a table.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::send`]; [`crate::Error::NoRoute`], [`crate::Error::NotInGraph`].
    ///
    /// ```
    /// # std::env::set_var("DP_RUNTIME_DIR", std::env::temp_dir().join(format!("dp-doc-{}", std::process::id())));
    /// # use dpfd::{Addr, Endpoint, Error};
    /// # let (a, b) = (Endpoint::open(0)?, Endpoint::open(0)?);
    /// a.send_to(b"hello", b.addr())?;
    /// assert_eq!(b.recv()?.from(), a.addr());
    /// # Ok::<(), dpfd::Error>(())
    /// ```
    #[inline]
    pub fn send_to(&self, message: &[u8], to: Addr) -> Result<()> {
        self.transmit(Some(to), message)
    }

    /// Sends pieces of memory as one message to the target: what [`Endpoint::send`] would do with all of them in a row, at the
    /// same cost, without putting them together first. Up to 1024 pieces, some of which may be empty.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::send`]; [`crate::Error::TooManyPieces`].
    ///
    /// ```
    /// # std::env::set_var("DP_RUNTIME_DIR", std::env::temp_dir().join(format!("dp-doc-{}", std::process::id())));
    /// # use dpfd::{Addr, Endpoint, Error};
    /// # let (a, b) = (Endpoint::open(0)?, Endpoint::open(0)?);
    /// use std::io::IoSlice;
    /// a.target(b.addr())?;
    /// a.send_vectored(&[IoSlice::new(b"head"), IoSlice::new(b" and body")])?;
    /// assert_eq!(b.recv()?.to_vec(), b"head and body");
    /// # Ok::<(), dpfd::Error>(())
    /// ```
    #[inline]
    pub fn send_vectored(&self, pieces: &[IoSlice<'_>]) -> Result<()> {
        self.transmit_parts(None, Parts::new(pieces))
    }

    /// Sends one message with an *immediate*: 8 bytes beside it, which [`Message::immediate`] tells its receiver. They have
    /// no part in the message's length, and who reads the descriptor plainly sees nothing of them.
    ///
    /// Costs what [`Endpoint::send`] costs once the two have met and the receiver has a pool. Before that, and where the pool
    /// is full of messages of other senders, it costs some system calls more.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::send_vectored`]; [`crate::Error::NoImmediate`]: not every receiver, module or route knows immediates.
    ///
    /// ```
    /// # std::env::set_var("DP_RUNTIME_DIR", std::env::temp_dir().join(format!("dp-doc-{}", std::process::id())));
    /// # use dpfd::{Addr, Endpoint, Error};
    /// # let (a, b) = (Endpoint::open(0)?, Endpoint::open(0)?);
    /// use std::io::IoSlice;
    /// use dpfd::Parts;
    /// a.target(b.addr())?;
    /// a.send_parts(Parts::new(&[IoSlice::new(b"done")]).with_immediate(42))?;
    /// a.send(b"nothing beside it")?;
    /// assert_eq!(b.recv()?.immediate(), Some(42));
    /// assert_eq!(b.recv()?.immediate(), None);
    /// # Ok::<(), dpfd::Error>(())
    /// ```
    #[inline]
    pub fn send_parts(&self, message: Parts<'_>) -> Result<()> {
        self.transmit_parts(None, message)
    }

    /// The same to another destination than the target.
    ///
    /// One message can name its route to another node ([`Parts::by_route`]), as [`Endpoint::set_route`] does for all.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::send_parts`]; [`crate::Error::NoRoute`]; [`crate::Error::NoSuchRoute`].
    ///
    /// ```
    /// # std::env::set_var("DP_RUNTIME_DIR", std::env::temp_dir().join(format!("dp-doc-{}", std::process::id())));
    /// # use dpfd::{Addr, Endpoint, Error};
    /// # let (a, b) = (Endpoint::open(0)?, Endpoint::open(0)?);
    /// use dpfd::Parts;
    /// a.send_parts_to(Parts::new(&[]).with_immediate(7), b.addr())?; // nothing but the immediate
    /// let message = b.recv()?;
    /// assert_eq!((message.len(), message.immediate()), (0, Some(7)));
    /// # Ok::<(), dpfd::Error>(())
    /// ```
    #[inline]
    pub fn send_parts_to(&self, message: Parts<'_>, to: Addr) -> Result<()> {
        self.transmit_parts(Some(to), message)
    }

    #[inline(always)]
    fn transmit_parts(&self, to: Option<Addr>, message: Parts<'_>) -> Result<()> {
        wait::send_parts(&self.served, Duration::MAX, self.own_fd()?, to, message)
    }

    #[inline(always)]
    fn transmit(&self, to: Option<Addr>, message: &[u8]) -> Result<()> {
        wait::send(&self.served, Duration::MAX, self.own_fd()?, to, message)
    }

    /// The next message, in place. It is released when dropped; messages may be held and dropped in any order,
    /// but as long as one is held its sender has that much less room.
    ///
    /// No copy, and no system call where a message is there already or comes while the call looks
    /// ([`Endpoint::set_spin`]). The first call moves the endpoint to pool mode for good: plain reads are told by empty
    /// packets then.
    ///
    /// # Errors
    ///
    /// [`crate::Error::WouldBlock`], [`crate::Error::Interrupted`]; EMFILE, ENOMEM at the first call, and where the next message needs
    /// what the process has none left of: it stays the next one.
    ///
    /// ```
    /// # std::env::set_var("DP_RUNTIME_DIR", std::env::temp_dir().join(format!("dp-doc-{}", std::process::id())));
    /// # use dpfd::{Addr, Endpoint, Error};
    /// # let (a, b) = (Endpoint::open(0)?, Endpoint::open(0)?);
    /// for text in ["first", "second"] {
    ///     a.send_to(text.as_bytes(), b.addr())?;
    /// }
    /// let first = b.recv()?;
    /// let second = b.recv()?;
    /// drop(first);
    /// assert_eq!(second.to_vec(), b"second");
    /// # Ok::<(), dpfd::Error>(())
    /// ```
    #[inline(always)]
    pub fn recv(&self) -> Result<Message<'_>> {
        let fd = self.own_fd()?;
        match self.served.recv_soon(fd) {
            Some(got) => Ok(Message::new(self, got)),
            None => Ok(Message::new(self, wait::recv(&self.served, fd)?)),
        }
    }

    /// The next message, copied as far as `into` has room, and who sent it; its immediate is told by [`Endpoint::recv`] only. The length is the whole message's: if it is more
    /// than there was room, the rest is gone.
    ///
    /// For short messages that are not to stay in the pool this is the quickest. Its sender has the room back at once, or
    /// with the messages before it that are loaned. It waits, and makes a pool, as [`Endpoint::recv`] does.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::recv`].
    ///
    /// ```
    /// # std::env::set_var("DP_RUNTIME_DIR", std::env::temp_dir().join(format!("dp-doc-{}", std::process::id())));
    /// # use dpfd::{Addr, Endpoint, Error};
    /// # let (a, b) = (Endpoint::open(0)?, Endpoint::open(0)?);
    /// a.send_to(b"hello", b.addr())?;
    /// let mut room = [0; 4];
    /// let (len, from) = b.recv_from(&mut room)?;
    /// assert_eq!((len, from, &room), (5, a.addr(), b"hell")); // one byte is gone
    /// # Ok::<(), dpfd::Error>(())
    /// ```
    #[inline(always)]
    pub fn recv_from(&self, into: &mut [u8]) -> Result<(usize, Addr)> {
        let fd = self.own_fd()?;
        let copied = match self.served.recv_from_soon(fd, into) {
            Some(copied) => copied,
            None => wait::recv_from(&self.served, fd, into)?,
        };
        Ok((copied.size(), copied.from()))
    }

    #[inline(always)]
    pub(super) fn release(&self, number: u64) {
        self.served.release(self.fd.as_raw_fd(), number);
    }

    /// Releases the `n` oldest messages that are loaned, as `dp_fsync` does; for messages whose guards were forgotten: no
    /// guard lives meanwhile. No system call unless their sender waits for the room.
    ///
    /// # Errors
    ///
    /// [`crate::Error::NotLoaned`]; none is released then.
    ///
    /// ```
    /// # std::env::set_var("DP_RUNTIME_DIR", std::env::temp_dir().join(format!("dp-doc-{}", std::process::id())));
    /// # use dpfd::{Addr, Endpoint, Error};
    /// # let (a, mut b) = (Endpoint::open(0)?, Endpoint::open(0)?);
    /// a.send_to(b"kept", b.addr())?;
    /// core::mem::forget(b.recv()?);
    /// assert_eq!(b.stat().loaned, 1);
    /// b.release_oldest(1)?;
    /// assert!(matches!(b.release_oldest(1), Err(Error::NotLoaned { .. })));
    /// # Ok::<(), dpfd::Error>(())
    /// ```
    pub fn release_oldest(&mut self, n: usize) -> Result<()> {
        self.served.release_oldest(self.own_fd()?, n)
    }
}
