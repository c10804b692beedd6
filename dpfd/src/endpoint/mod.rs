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
mod calls;
mod held;
mod message;
#[doc(hidden)]
pub mod wait;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::Ordering;

#[cfg(feature = "tokio")]
pub use self::asynchronous::AsyncEndpoint;
#[doc(hidden)]
pub use self::held::Held;
pub use self::message::Message;
use crate::addr::{Addr, Dpid};
use crate::driver::user::deposit::Deposit;
use crate::driver::user::gateway::Gateway;
use crate::driver::user::shared::Command;
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

    /// Gives the endpoint the pool that the first [`Endpoint::recv`] would make.
    ///
    /// # Errors
    ///
    /// EMFILE, ENOMEM.
    #[doc(hidden)]
    pub fn usual_pool(&self) -> Result<()> {
        self.served.start_pool(self.own_fd()?, None).map(drop)
    }

    /// Hands a message to its receiver, or keeps it from going anywhere: for a proxy.
    ///
    /// # Errors
    ///
    /// [`Error::Denied`], [`Error::NotAnEndpoint`] (of the kernel driver); EMFILE, ENOMEM.
    #[doc(hidden)]
    pub fn deposit(&self, message: Parts<'_>, to: Addr, published: &mut dyn FnMut()) -> Result<Deposit> {
        match &self.served {
            Served::User(inner) => {
                self.fd_of(inner.generation).and_then(|_| inner.deposit(to, message, published))
            }
            Served::Kernel(_) => Err(Error::NotAnEndpoint(self.fd.as_raw_fd())),
        }
    }

    /// Whether that endpoint is open, as far as is known: for a proxy.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::deposit`].
    #[doc(hidden)]
    pub fn reaches(&self, to: Addr) -> Result<bool> {
        match &self.served {
            Served::User(inner) => self.fd_of(inner.generation).and_then(|_| inner.reaches(to)),
            Served::Kernel(_) => Err(Error::NotAnEndpoint(self.fd.as_raw_fd())),
        }
    }

    /// Whether one that is open has room for a message of so many bytes: for a proxy.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::deposit`].
    #[doc(hidden)]
    pub fn has_room(&self, to: Addr, bytes: usize) -> Result<bool> {
        match &self.served {
            Served::User(inner) => self.fd_of(inner.generation).and_then(|_| inner.has_room(to, bytes)),
            Served::Kernel(_) => Err(Error::NotAnEndpoint(self.fd.as_raw_fd())),
        }
    }

    /// Has a proxy end all of whose messages are with their receivers, once the endpoints of this node that can send to it have
    /// let go: those do all of whose messages the proxy has released. [`Endpoint::has_ended`] tells; until then it can be used.
    #[doc(hidden)]
    pub fn end_unused(&self) {
        if let Served::User(inner) = &self.served {
            inner.process.command(Command::EndUnused(inner.entry.serial));
        }
    }

    /// Whether endpoints of this node can send to it, as far as is known: for a proxy.
    #[doc(hidden)]
    pub fn has_senders(&self) -> bool {
        matches!(&self.served, Served::User(inner) if inner.senders.load(Ordering::Relaxed) > 0)
    }

    /// Whether it has ended: what is sent to its address from now on goes to another proxy.
    #[doc(hidden)]
    pub fn has_ended(&self) -> bool {
        matches!(&self.served, Served::User(inner) if inner.is_retired())
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

    /// Messages to endpoints of other nodes go by the route of this name from now on, as long as that works; none, the
    /// default: by the one that the graph says. What is on its way already may still come by another. All messages keep
    /// their order.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchRoute`]: this node's gateway has none of that name, there is no gateway, or it is an endpoint of the kernel
    /// driver, which has one route without a name.
    ///
    /// ```
    /// # std::env::set_var("DP_RUNTIME_DIR", std::env::temp_dir().join(format!("dp-doc-{}", std::process::id())));
    /// # use dpfd::{driver::Driver, Endpoint, Error};
    /// let endpoint = Endpoint::open_on(Driver::User, 0)?;
    /// // No gateway runs here.
    /// assert!(matches!(endpoint.set_route(Some("eth")), Err(Error::NoSuchRoute { .. })));
    /// endpoint.set_route(None)?;
    /// # Ok::<(), dpfd::Error>(())
    /// ```
    pub fn set_route(&self, name: Option<&str>) -> Result<()> {
        self.served.set_route(name)
    }

    /// Messages to endpoints of other nodes go *raw* from now on. It cannot be turned off again. An edge of the graph can say
    /// the same. What is sent in the moment after this call may still go reliably, and so may the first
    /// messages to each destination, since the gateway hears of it beside them.
    ///
    /// A raw message waits for room in this machine's own queue and for nobody else: not for an acknowledgement, a receiver that
    /// does not read, or a node that is down. It comes once, whole, and behind those sent raw before it, or not at all. What
    /// is lost is counted, as dp_option(3) says, and shown by `dp ls`. What is sent
    /// raw and what is not keep no order among each other. Within a node nothing changes, and nothing is lost. Endpoints of
    /// the kernel driver always send so to other nodes.
    ///
    /// ```
    /// # std::env::set_var("DP_RUNTIME_DIR", std::env::temp_dir().join(format!("dp-doc-{}", std::process::id())));
    /// # use dpfd::{driver::Driver, Endpoint};
    /// let endpoint = Endpoint::open_on(Driver::User, 0)?;
    /// endpoint.set_raw(); // the next measurement is worth more than one that is late
    /// # Ok::<(), dpfd::Error>(())
    /// ```
    pub fn set_raw(&self) {
        self.served.set_raw();
    }

    /// Why what was sent to `to` waits, where that is not for room: [`Error::Denied`], [`Error::NotItsGateway`],
    /// [`Error::NoEdge`] or [`Error::NoRoute`], as the next call of [`Endpoint::send`] would say; none: nobody said that it may
    /// not go. One lock.
    pub fn why_denied(&self, to: Addr) -> Option<Error> {
        self.served.why_denied(to)
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
