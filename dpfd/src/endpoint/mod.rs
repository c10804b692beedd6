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

mod message;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::Ordering;
use std::sync::Arc;

pub use self::message::Message;
use crate::addr::{Addr, Dpid};
use crate::driver::user::inner::{Inner, MAX_MESSAGE};
use crate::driver::user::link::plain_limit;
use crate::driver::user::process::Process;
use crate::driver::Driver;
use crate::error::{Error, Result};
use crate::sys::process;

/// An open endpoint; closed when dropped, and with it its pool.
#[derive(Debug)]
pub struct Endpoint {
    fd: OwnedFd,
    inner: Arc<Inner>,
}

/// Counters and limits of an endpoint (`dp_stat`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stat {
    /// Its number.
    pub dpid: Dpid,
    /// The target; 0 if there is none.
    pub target: Addr,
    /// Messages delivered to receivers, and their bytes.
    pub sent: (u64, u64),
    /// Messages read in pool mode, and their bytes.
    pub received: (u64, u64),
    /// Messages lent out and not released.
    pub lent: usize,
    /// Bytes of the next message, if one is there.
    pub next_len: Option<usize>,
    /// Bytes of the pool; 0 before there is one.
    pub pool: usize,
    /// Bytes of it that no edge has.
    pub pool_left: usize,
    /// Edges into it.
    pub edges: usize,
    /// Times a direct way was full.
    pub full: u64,
    /// Times the receiver slept in the kernel.
    pub sleeps: u64,
    /// Edges given up because a sender wrote nonsense.
    pub corrupt: u64,
    /// Longest message for [`Endpoint::send`], bytes.
    pub max_message: usize,
    /// Longest message for a plain write, bytes.
    pub max_plain: usize,
}

impl Endpoint {
    /// Opens endpoint `dpid` on this node; 0 takes any free number. The descriptor is close-on-exec and waits;
    /// fcntl(2) changes both.
    ///
    /// # Errors
    ///
    /// [`Error::InUse`], [`Error::Privileged`], [`Error::NoneFree`], [`Error::Folder`]; EMFILE.
    pub fn open(dpid: Dpid) -> Result<Endpoint> {
        Endpoint::open_on(Driver::default(), dpid)
    }

    /// Opens an endpoint that this driver serves.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::open`].
    pub fn open_on(driver: Driver, dpid: Dpid) -> Result<Endpoint> {
        match driver {
            Driver::User => {
                let (fd, inner) = Process::current()?.open(dpid)?;
                Ok(Endpoint { fd, inner })
            }
        }
    }

    /// The descriptor, in the process that opened the endpoint. In a child of a fork it is there for plain reads and
    /// writes only: an edge has one sender and one receiver.
    #[inline(always)]
    fn own_fd(&self) -> Result<RawFd> {
        if self.inner.generation == process::generation() {
            Ok(self.fd.as_raw_fd())
        } else {
            Err(Error::NotAnEndpoint(self.fd.as_raw_fd()))
        }
    }

    /// Its number.
    pub fn dpid(&self) -> Dpid {
        self.inner.dpid
    }

    /// Its address on this node.
    pub fn addr(&self) -> Addr {
        Addr::local(self.inner.dpid)
    }

    /// Sets the default destination; it need not exist yet.
    ///
    /// # Errors
    ///
    /// [`Error::NoRoute`], [`Error::BadDpid`].
    pub fn target(&self, to: Addr) -> Result<()> {
        self.own_fd()?;
        self.inner.set_target(to)
    }

    /// Sends one message of up to 16 MiB to the target. No system call unless the receiver sleeps; waits while
    /// there is no room, or no receiver yet, unless the descriptor is non-blocking.
    ///
    /// # Errors
    ///
    /// [`Error::NoTarget`], [`Error::TooLong`], [`Error::WouldBlock`], [`Error::Interrupted`],
    /// [`Error::Closed`], [`Error::Denied`].
    #[inline]
    pub fn send(&self, message: &[u8]) -> Result<()> {
        self.inner.send(self.own_fd()?, None, message)
    }

    /// Sends one message to another destination.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::send`]; [`Error::NoRoute`].
    #[inline]
    pub fn send_to(&self, message: &[u8], to: Addr) -> Result<()> {
        self.inner.send(self.own_fd()?, Some(to), message)
    }

    /// The next message, in place. It is released when dropped; messages may be held and dropped in any order,
    /// but as long as one is held its sender has that much less room.
    ///
    /// The first call moves the endpoint to pool mode for good: plain reads are told by empty packets then.
    ///
    /// # Errors
    ///
    /// [`Error::WouldBlock`], [`Error::Interrupted`]; EMFILE, ENOMEM at the first call.
    #[inline]
    pub fn recv(&self) -> Result<Message<'_>> {
        let got = self.inner.recv(self.own_fd()?)?;
        Ok(Message::new(&self.inner, got))
    }

    /// Releases the `n` oldest messages that are lent, as `dp_fsync` does; for messages whose guards were forgotten.
    ///
    /// # Errors
    ///
    /// [`Error::NotLent`]; none is released then.
    pub fn release_oldest(&self, n: usize) -> Result<()> {
        self.inner.release_oldest(n)
    }

    /// Gives the endpoint a pool of `bytes`, 4 KiB to 1 GiB: a budget for all its senders. Without this call the
    /// first [`Endpoint::recv`] makes one of 256 KiB.
    ///
    /// # Errors
    ///
    /// [`Error::BadPool`], [`Error::HasPool`]; EMFILE, ENOMEM.
    pub fn pool(&self, bytes: usize) -> Result<()> {
        self.own_fd()?;
        self.inner.start_pool(Some(bytes)).map(|_| ())
    }

    /// Whether calls wait (the default).
    ///
    /// # Errors
    ///
    /// Those of fcntl(2).
    pub fn set_nonblocking(&self, on: bool) -> Result<()> {
        use nix::fcntl::{fcntl, FcntlArg, OFlag};
        let failed = |e: nix::Error| Error::System { call: "fcntl", errno: e as i32 };
        let old = OFlag::from_bits_retain(fcntl(&self.fd, FcntlArg::F_GETFL).map_err(failed)?);
        let mut new = old;
        new.set(OFlag::O_NONBLOCK, on);
        fcntl(&self.fd, FcntlArg::F_SETFL(new)).map_err(failed)?;
        Ok(())
    }

    /// How long a receive looks before it sleeps, at most, ns; 0: never. Default 50000.
    pub fn set_spin(&self, ns: u32) {
        self.inner.max_spin.store(ns, Ordering::Relaxed);
        self.inner.rx().spin = ns;
    }

    /// Counters and limits.
    pub fn stat(&self) -> Stat {
        stat(&self.inner)
    }
}

/// Counters and limits of an endpoint.
pub fn stat(inner: &Inner) -> Stat {
    let mut s = Stat { dpid: inner.dpid, max_message: MAX_MESSAGE, ..Stat::default() };
    s.max_plain = plain_limit(&inner.back);
    s.full = inner.full.load(Ordering::Relaxed);
    s.sleeps = inner.sleeps.load(Ordering::Relaxed);
    {
        let tx = inner.tx();
        s.target = tx.target.map_or(Addr::default(), |ix| tx.links[ix].to);
        for link in &tx.links {
            s.sent = (s.sent.0 + link.sent.0, s.sent.1 + link.sent.1);
        }
    }
    {
        let rx = inner.rx();
        s.lent = rx.tokens.lent();
        s.next_len = rx.tokens.next_len();
        s.corrupt = rx.tokens.corrupt;
        s.edges = rx.tokens.edges().count();
        s.received = rx.tokens.taken();
    }
    if let Some(budget) = &inner.arrivals().budget {
        (s.pool, s.pool_left) = (budget.size(), budget.left());
    }
    s
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
