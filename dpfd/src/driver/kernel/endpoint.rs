//! One endpoint of the kernel driver: opening, sending, settings, counters.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use dp_abi::MESSAGE_MAX;

use super::loaned::Pool;
use super::network::Network;
use crate::addr::{Addr, Dpid, Nid, OWN_NID};
use crate::edge::parts::Parts;
use crate::error::{Error, NoImmediate, Result};
use crate::graph::Part;
use crate::stat::Stat;
use crate::sys::device;
use dp_edge::spin::Spin;
use dp_edge::sys::process;

/// How long a receive looks before it sleeps, ns, unless told otherwise.
const DEFAULT_SPIN: u32 = 50_000;

/// This node's number, as the kernel knows it.
fn own_nid() -> Nid {
    Network::read().map_or(OWN_NID.default as Nid, |network| network.nid)
}

/// Receiving: what this process has of the pool.
#[derive(Debug)]
pub(super) struct Rx {
    /// There since the endpoint reads in place here.
    pub pool: Option<Pool>,
    /// The sender of the message read last, and what came beside it.
    pub peer: Addr,
    /// As above.
    pub immediate: Option<u64>,
    /// How long to spin before sleeping: what paid lately.
    pub spin: Spin,
}

/// An endpoint.
#[derive(Debug)]
pub struct KernelEndpoint {
    /// Its number.
    pub dpid: Dpid,
    /// Tells it from all other endpoints, also from later ones with its number.
    pub serial: u64,
    /// The process that opened it, as forks are counted.
    pub generation: u32,
    /// Longest look before sleeping, ns.
    pub max_spin: AtomicU32,
    pub(super) sleeps: AtomicU64,
    /// The edges that it may use, if its process was given a strict graph.
    graph: Option<Arc<Part>>,
    rx: Mutex<Rx>,
}

impl KernelEndpoint {
    /// Gives an open file of /dev/dp its number; 0: any.
    ///
    /// # Errors
    ///
    /// [`Error::InUse`], [`Error::Privileged`], [`Error::NoneFree`], [`Error::PoolMemory`], [`Error::Graph`];
    /// [`Error::NoKernelDriver`]: /dev/dp is something else.
    pub fn open(fd: &OwnedFd, dpid: Dpid) -> Result<KernelEndpoint> {
        process::watch_forks();
        let failed = |errno| match errno {
            libc::EADDRINUSE => Error::InUse(dpid),
            libc::EACCES => Error::Privileged(dpid),
            libc::ENFILE => Error::NoneFree,
            libc::ENOMEM => Error::PoolMemory(dp_abi::POOL_DEFAULT as usize),
            libc::ENOTTY => Error::NoKernelDriver { errno },
            errno => Error::System { call: "DP_IOC_OPEN", errno },
        };
        let fd = fd.as_raw_fd();
        let dpid = device::name(fd, dpid).map_err(failed)?;
        let stat = device::stat(fd).map_err(Error::system("DP_IOC_STAT"))?;
        Ok(KernelEndpoint {
            dpid,
            serial: stat.serial,
            generation: process::generation(),
            max_spin: AtomicU32::new(DEFAULT_SPIN),
            sleeps: AtomicU64::new(0),
            graph: Part::of_environment(own_nid)?,
            rx: Mutex::new(Rx {
                pool: None,
                peer: Addr::default(),
                immediate: None,
                spin: Spin::new(DEFAULT_SPIN),
            }),
        })
    }

    /// The receiver's side. A panic under the lock cannot leave a half-made state that matters: all values are plain.
    pub(super) fn rx(&self) -> MutexGuard<'_, Rx> {
        self.rx.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `dp_target`.
    ///
    /// # Errors
    ///
    /// [`Error::NoRoute`], [`Error::BadDpid`].
    pub fn set_target(&self, fd: i32, to: Addr) -> Result<()> {
        self.permit(Some(to))?;
        device::target(fd, to.nid, to.dpid).map_err(|errno| self.failed(fd, Some(to), 0, errno))
    }

    /// `dp_write`, `dp_sendto`: one copy, into the receiver's pool, or into memory of its own where that has no room
    /// for it ever. `waits`: for room, unless the descriptor does not.
    ///
    /// # Errors
    ///
    /// [`Error::NoTarget`], [`Error::NoRoute`], [`Error::TooLong`], [`Error::WouldBlock`], [`Error::Interrupted`],
    /// [`Error::Denied`].
    #[inline]
    pub fn send(&self, fd: i32, to: Option<Addr>, message: &[u8], waits: bool) -> Result<()> {
        self.permit(to)?;
        device::send(fd, to.map(|to| (to.nid, to.dpid)), message, waits)
            .map_err(|errno| self.failed(fd, to, message.len(), errno))
    }

    /// Sends pieces as one message, with an immediate if it has one; the kernel copies each piece to where it belongs.
    ///
    /// # Errors
    ///
    /// As [`KernelEndpoint::send`]; [`Error::NoImmediate`].
    #[inline(never)]
    pub fn send_parts(&self, fd: i32, to: Option<Addr>, message: &Parts<'_>, waits: bool) -> Result<()> {
        let address = to.map(|to| (to.nid, to.dpid));
        self.permit(to)?;
        match device::send_parts(fd, address, message.pieces(), message.immediate(), waits) {
            Ok(()) => Ok(()),
            // A module that is older than the call.
            Err(libc::ENOTTY) if self.is_behind(fd) => match message.immediate() {
                None => self.send(fd, to, &message.to_vec(), waits),
                Some(_) => Err(Error::NoImmediate(to.unwrap_or_default(), NoImmediate::OldModule)),
            },
            Err(errno) => Err(self.failed(fd, to, message.len(), errno)),
        }
    }

    /// Refuses a destination to which a strict graph has no edge; the target was asked about when it was set.
    #[inline]
    fn permit(&self, to: Option<Addr>) -> Result<()> {
        match (&self.graph, to) {
            (Some(graph), Some(to)) => graph.check(self.dpid, to),
            _ => Ok(()),
        }
    }

    /// What the kernel means by an errno.
    #[cold]
    fn failed(&self, fd: i32, to: Option<Addr>, len: usize, errno: i32) -> Error {
        let to = || to.unwrap_or_else(|| self.stat(fd).target);
        match errno {
            libc::EDESTADDRREQ => Error::NoTarget,
            libc::EHOSTUNREACH => Error::NoRoute(to().nid),
            libc::EACCES => Error::Denied(to()),
            libc::EINVAL => Error::BadDpid(to().dpid.into()),
            libc::EPROTONOSUPPORT => Error::NoImmediate(to(), NoImmediate::OldReceiver),
            libc::EOPNOTSUPP => Error::NoImmediate(to(), NoImmediate::OtherNode),
            libc::EMSGSIZE => {
                // Only messages for other nodes have a limit below the one that all have.
                let away = to().nid != 0 && len as u64 <= MESSAGE_MAX;
                let limit = if away { dp_abi::frame::REMOTE_MAX.into() } else { MESSAGE_MAX };
                Error::TooLong { len, to: to(), limit: limit as usize }
            }
            libc::EBADF | libc::ENOTTY | libc::ENXIO => Error::NotAnEndpoint(fd),
            errno => Error::system("ioctl")(errno),
        }
    }

    /// How long a receive looks before it sleeps, at most but for attempts ([`dp_edge::spin::Pace`]), ns.
    pub fn set_spin(&self, ns: u32) {
        self.max_spin.store(ns, Ordering::Relaxed);
        self.rx().spin = Spin::new(ns);
    }

    /// The sender of the message read last.
    pub fn peer(&self) -> Addr {
        self.rx().peer
    }

    /// What came beside the message read last.
    pub fn immediate(&self) -> Option<u64> {
        self.rx().immediate
    }

    /// Where the mapped ring begins; null if it is not mapped.
    pub fn pool_address(&self) -> *const u8 {
        self.rx().pool.as_ref().map_or(core::ptr::null(), Pool::address)
    }

    /// Whether the endpoint is over, as far as that can be seen without its descriptor, and without waiting for a
    /// receiver: a mapped pool tells.
    pub fn is_closed(&self) -> bool {
        self.rx.try_lock().is_ok_and(|rx| rx.pool.as_ref().is_some_and(Pool::is_closed))
    }

    /// Whether `fd` is this endpoint's.
    pub fn is_behind(&self, fd: i32) -> bool {
        device::stat(fd).is_ok_and(|stat| stat.serial == self.serial)
    }

    /// Counters and limits.
    pub fn stat(&self, fd: i32) -> Stat {
        let mut s = Stat { dpid: self.dpid, max_message: MESSAGE_MAX as usize, ..Stat::default() };
        s.max_plain = s.max_message;
        s.sleeps = self.sleeps.load(Ordering::Relaxed);
        if let Some(pool) = &self.rx().pool {
            (s.loaned, s.received, s.corrupt) = (pool.loaned(), pool.taken, pool.corrupt);
        }
        let Ok(told) = device::stat(fd) else { return s };
        if told.serial != self.serial {
            return s;
        }
        s.target = Addr { nid: told.target_nid as u16, dpid: told.target_dpid as u16 };
        // Those that nobody has opened an endpoint for are not with their receivers.
        s.sent.0 = told.sent.saturating_sub(told.backlog + told.lost);
        s.sent.1 = told.sent_bytes;
        s.denied = usize::from(told.lost > 0);
        s.next_len = usize::try_from(told.next_len).ok().filter(|n| *n <= s.max_message);
        (s.pool, s.pool_left) = (told.pool as usize, told.pool_left as usize);
        s.full = told.full;
        s.corrupt += told.corrupt;
        s
    }
}

/// Whether another CPU could run the other side.
pub(super) fn many_cpus() -> bool {
    static MANY: OnceLock<bool> = OnceLock::new();
    *MANY.get_or_init(|| process::cpus() > 1)
}
