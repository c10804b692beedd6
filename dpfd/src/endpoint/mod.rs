//! Endpoints: the application's door (Directed Point, section 3: `dp_open`, `dp_target`, `dp_write`, `dp_read`,
//! `dp_fsync`, `dp_mmap`).
//!
//! An endpoint *is* a file descriptor: plain `read`, `write`, `poll`, `select`, `epoll` and io_uring work on it,
//! in any process that holds it. The methods here are the light-weight calls: a message goes straight into the
//! receiver's pool and is read there in place.
//!
//! ```
//! # std::env::set_var("DP_RUNTIME_DIR", std::env::temp_dir().join(format!("dp-doc-{}", std::process::id())));
//! use dpfd::{Addr, Endpoint};
//!
//! let server = Endpoint::open(0)?; // any free number
//! let client = Endpoint::open(0)?;
//! client.target(server.addr())?;
//! client.send(b"ping")?;
//!
//! let ping = server.recv()?;
//! assert_eq!(ping.to_vec(), b"ping");
//! server.send_to(b"pong", ping.from())?;
//! assert_eq!(client.recv()?.to_vec(), b"pong");
//! # Ok::<(), dpfd::Error>(())
//! ```

#[cfg(feature = "tokio")]
mod asynchronous;
mod message;

use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

#[cfg(feature = "tokio")]
pub use self::asynchronous::AsyncEndpoint;
pub use self::message::Message;
use crate::addr::{Addr, Dpid};
use crate::driver::user::gateway::Gateway;
use crate::driver::{self, Driver, Served};
use crate::edge::parts::Parts;
use crate::error::{Error, Result};
use crate::stat::Stat;
use dp_edge::sys::process;

/// An open endpoint; closed when dropped, and with it its pool.
#[derive(Debug)]
pub struct Endpoint {
    fd: OwnedFd,
    served: Served,
}

impl Endpoint {
    /// Opens endpoint `dpid` on this node; 0 takes any free number. The descriptor is close-on-exec and waits;
    /// fcntl(2) changes both.
    ///
    /// The kernel driver serves it where /dev/dp can be opened, else this library; the environment's `DP_DRIVER`, `user` or
    /// `kernel`, decides otherwise. Both do the same, but endpoints of one do not reach those of the other.
    ///
    /// On the kernel driver: a descriptor, three system calls, and a pool of 128 KiB. On the library's: two descriptors,
    /// about 1 KiB, and a dozen system calls; the first endpoint of a process starts a thread, which sleeps unless it is
    /// needed.
    ///
    /// # Errors
    ///
    /// [`Error::InUse`], [`Error::Privileged`], [`Error::NoneFree`], [`Error::Folder`], [`Error::NoKernelDriver`],
    /// [`Error::BadDriver`], [`Error::PoolMemory`], [`Error::Graph`]; EMFILE.
    ///
    /// ```
    /// # std::env::set_var("DP_RUNTIME_DIR", std::env::temp_dir().join(format!("dp-doc-{}", std::process::id())));
    /// # use dpfd::{Addr, Endpoint, Error};
    /// # let (a, b) = (Endpoint::open(0)?, Endpoint::open(0)?);
    /// let fixed = Endpoint::open(2001)?;
    /// assert!(matches!(Endpoint::open(2001), Err(Error::InUse(2001))));
    /// drop(fixed);
    /// assert_eq!(Endpoint::open(2001)?.dpid(), 2001);
    /// # Ok::<(), dpfd::Error>(())
    /// ```
    pub fn open(dpid: Dpid) -> Result<Endpoint> {
        let (fd, served) = driver::open(None, dpid)?;
        Ok(Endpoint { fd, served })
    }

    /// Opens an endpoint that this driver serves.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::open`].
    ///
    /// ```
    /// # std::env::set_var("DP_RUNTIME_DIR", std::env::temp_dir().join(format!("dp-doc-{}", std::process::id())));
    /// # use dpfd::{Addr, Endpoint, Error};
    /// # let (a, b) = (Endpoint::open(0)?, Endpoint::open(0)?);
    /// use dpfd::driver::Driver;
    /// let endpoint = Endpoint::open_on(Driver::User, 0)?;
    /// # let _ = endpoint;
    /// # Ok::<(), dpfd::Error>(())
    /// ```
    pub fn open_on(driver: Driver, dpid: Dpid) -> Result<Endpoint> {
        let (fd, served) = driver::open(Some(driver), dpid)?;
        Ok(Endpoint { fd, served })
    }

    /// Opens the proxy of an endpoint of another node, where this process is the gateway.
    ///
    /// # Errors
    ///
    /// As [`Gateway::open`].
    #[doc(hidden)]
    pub fn proxy(gateway: &Gateway, addr: Addr) -> Result<Endpoint> {
        let (fd, inner) = gateway.open(addr)?;
        Ok(Endpoint { fd, served: Served::User(inner) })
    }

    /// Which driver serves it.
    ///
    /// ```
    /// # std::env::set_var("DP_RUNTIME_DIR", std::env::temp_dir().join(format!("dp-doc-{}", std::process::id())));
    /// # use dpfd::{driver::Driver, Endpoint};
    /// let endpoint = Endpoint::open_on(Driver::User, 0)?;
    /// assert_eq!(endpoint.driver().word(), "user");
    /// # Ok::<(), dpfd::Error>(())
    /// ```
    pub fn driver(&self) -> Driver {
        self.served.driver()
    }

    /// The descriptor, in the process that opened the endpoint. In a child of a fork it is there for plain reads and
    /// writes only: an edge has one sender and one receiver.
    #[inline(always)]
    fn own_fd(&self) -> Result<RawFd> {
        self.fd_of(self.served.generation())
    }

    /// The same, where it is known already which process that was.
    #[inline(always)]
    fn fd_of(&self, generation: u32) -> Result<RawFd> {
        if generation == process::generation() {
            Ok(self.fd.as_raw_fd())
        } else {
            Err(Error::NotAnEndpoint(self.fd.as_raw_fd()))
        }
    }

    /// Its number. No system call.
    ///
    /// ```
    /// # std::env::set_var("DP_RUNTIME_DIR", std::env::temp_dir().join(format!("dp-doc-{}", std::process::id())));
    /// # use dpfd::{Addr, Endpoint, Error};
    /// # let (a, b) = (Endpoint::open(0)?, Endpoint::open(0)?);
    /// assert!(a.dpid() >= 1024 && a.dpid() != b.dpid());
    /// # Ok::<(), dpfd::Error>(())
    /// ```
    pub fn dpid(&self) -> Dpid {
        self.served.dpid()
    }

    /// Its address on this node. No system call.
    ///
    /// ```
    /// # std::env::set_var("DP_RUNTIME_DIR", std::env::temp_dir().join(format!("dp-doc-{}", std::process::id())));
    /// # use dpfd::{Addr, Endpoint, Error};
    /// # let (a, b) = (Endpoint::open(0)?, Endpoint::open(0)?);
    /// assert_eq!(a.addr(), Addr::local(a.dpid()));
    /// # Ok::<(), dpfd::Error>(())
    /// ```
    pub fn addr(&self) -> Addr {
        self.served.addr()
    }

    /// Sets the default destination; it need not exist yet. At most one system call; it does not wait.
    ///
    /// # Errors
    ///
    /// [`Error::NoRoute`], [`Error::BadDpid`], [`Error::NotInGraph`].
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
        self.served.set_target(self.own_fd()?, to)
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
    /// [`Error::NoTarget`], [`Error::TooLong`], [`Error::WouldBlock`], [`Error::Interrupted`],
    /// [`Error::Closed`], [`Error::Denied`].
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
    /// As [`Endpoint::send`]; [`Error::NoRoute`], [`Error::NotInGraph`].
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
    /// As [`Endpoint::send`]; [`Error::TooManyPieces`].
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
    /// As [`Endpoint::send_vectored`]; [`Error::NoImmediate`]: not every receiver, module or route knows immediates.
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
    /// # Errors
    ///
    /// As [`Endpoint::send_parts`]; [`Error::NoRoute`].
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
        self.served.send_parts_for(Duration::MAX, self.fd_of(self.served.generation())?, to, message)
    }

    #[inline(always)]
    fn transmit(&self, to: Option<Addr>, message: &[u8]) -> Result<()> {
        match &self.served {
            Served::User(inner) => inner.send(self.fd_of(inner.generation)?, to, message),
            Served::Kernel(inner) => inner.send(self.fd_of(inner.generation)?, to, message),
        }
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
    /// [`Error::WouldBlock`], [`Error::Interrupted`]; EMFILE, ENOMEM at the first call, and where the next message needs
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
        let fd = self.fd_of(self.served.generation())?;
        match self.served.recv_soon(fd) {
            Some(got) => Ok(Message::new(self, got)),
            None => self.recv_late(fd),
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
        let fd = self.fd_of(self.served.generation())?;
        let copied = match self.served.recv_from_soon(fd, into) {
            Some(copied) => copied,
            None => self.served.recv_from(fd, into)?,
        };
        Ok((copied.size(), copied.from()))
    }

    #[inline(always)]
    fn release(&self, number: u64) {
        self.served.release(self.fd.as_raw_fd(), number);
    }

    #[cold]
    fn recv_late(&self, fd: RawFd) -> Result<Message<'_>> {
        Ok(Message::new(self, self.served.recv(fd)?))
    }

    /// Releases the `n` oldest messages that are loaned, as `dp_fsync` does; for messages whose guards were forgotten: no
    /// guard lives meanwhile. No system call unless their sender waits for the room.
    ///
    /// # Errors
    ///
    /// [`Error::NotLoaned`]; none is released then.
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

    /// Gives the endpoint a pool of `bytes`, 4096 to 1073741824: a budget for all its senders. Without this call the
    /// first [`Endpoint::recv`] or [`Endpoint::recv_from`] makes one of 262144 bytes, which grows by up to 8388608 for
    /// senders that need it; one that was given a size keeps it.
    ///
    /// Memory is taken as senders come: each gets half of what is left, and a page is taken when it is first written.
    /// Many messages in a row are carried several times as fast where that half is larger than a processor's second-level
    /// cache, with 8 MiB for instance.
    ///
    /// # Errors
    ///
    /// [`Error::BadPool`], [`Error::HasPool`]; EMFILE, ENOMEM.
    ///
    /// ```
    /// # std::env::set_var("DP_RUNTIME_DIR", std::env::temp_dir().join(format!("dp-doc-{}", std::process::id())));
    /// # use dpfd::{Addr, Endpoint, Error};
    /// # let (a, b) = (Endpoint::open(0)?, Endpoint::open(0)?);
    /// b.pool(1 << 20)?;
    /// assert_eq!(b.stat().pool, 1 << 20);
    /// assert!(matches!(b.pool(4096), Err(Error::HasPool(_))));
    /// # Ok::<(), dpfd::Error>(())
    /// ```
    pub fn pool(&self, bytes: usize) -> Result<()> {
        self.served.start_pool(self.own_fd()?, Some(bytes)).map(drop)
    }

    /// Whether calls wait (the default). Two system calls; the same as O_NONBLOCK by fcntl(2), for all copies of the
    /// descriptor.
    ///
    /// # Errors
    ///
    /// Those of fcntl(2).
    ///
    /// ```
    /// # std::env::set_var("DP_RUNTIME_DIR", std::env::temp_dir().join(format!("dp-doc-{}", std::process::id())));
    /// # use dpfd::{Addr, Endpoint, Error};
    /// # let (a, b) = (Endpoint::open(0)?, Endpoint::open(0)?);
    /// b.set_nonblocking(true)?;
    /// assert!(matches!(b.recv(), Err(Error::WouldBlock)));
    /// # Ok::<(), dpfd::Error>(())
    /// ```
    pub fn set_nonblocking(&self, on: bool) -> Result<()> {
        use nix::fcntl::{fcntl, FcntlArg, OFlag};
        let failed = |e: nix::Error| Error::System { call: "fcntl", errno: e as i32 };
        let old = OFlag::from_bits_retain(fcntl(&self.fd, FcntlArg::F_GETFL).map_err(failed)?);
        let mut new = old;
        new.set(OFlag::O_NONBLOCK, on);
        fcntl(&self.fd, FcntlArg::F_SETFL(new)).map_err(failed)?;
        Ok(())
    }

    /// How long a receive looks before it sleeps, at most, ns; 0: never. Default 50000. It looks for less where that did
    /// not pay lately, and not at all where its senders run on the same CPU.
    ///
    /// ```
    /// # std::env::set_var("DP_RUNTIME_DIR", std::env::temp_dir().join(format!("dp-doc-{}", std::process::id())));
    /// # use dpfd::{Addr, Endpoint, Error};
    /// # let (a, b) = (Endpoint::open(0)?, Endpoint::open(0)?);
    /// b.set_spin(0); // for a program that must not use the CPU while it waits
    /// # Ok::<(), dpfd::Error>(())
    /// ```
    pub fn set_spin(&self, ns: u32) {
        self.served.set_spin(ns);
    }

    /// Plain writes on the descriptor and [`Endpoint::send`] keep their order from the first on; each send costs a
    /// system call then. Without it a plain write that is the first after many sends can be overtaken by sends in the
    /// next moment, until the library has seen it.
    ///
    /// ```
    /// # std::env::set_var("DP_RUNTIME_DIR", std::env::temp_dir().join(format!("dp-doc-{}", std::process::id())));
    /// # use dpfd::Endpoint;
    /// let endpoint = Endpoint::open(0)?;
    /// endpoint.keep_order();
    /// # Ok::<(), dpfd::Error>(())
    /// ```
    pub fn keep_order(&self) {
        self.served.keep_order();
    }

    /// Counters and limits. Two locks and a system call; grows with the number of destinations and senders.
    ///
    /// ```
    /// # std::env::set_var("DP_RUNTIME_DIR", std::env::temp_dir().join(format!("dp-doc-{}", std::process::id())));
    /// # use dpfd::{Addr, Endpoint, Error};
    /// # let (a, b) = (Endpoint::open(0)?, Endpoint::open(0)?);
    /// a.send_to(b"12345", b.addr())?;
    /// b.recv()?;
    /// assert_eq!(b.stat().received, (1, 5));
    /// assert_eq!(b.stat().max_message, 16 << 20);
    /// # Ok::<(), dpfd::Error>(())
    /// ```
    pub fn stat(&self) -> Stat {
        self.served.stat(self.as_raw_fd())
    }
}

impl AsFd for Endpoint {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Endpoint {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}
