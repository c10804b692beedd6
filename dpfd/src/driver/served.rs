//! An endpoint of whichever driver: every call asks once which one it is.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use super::sleep::{Sleep, Step};
use super::{kernel, user, Driver};
use crate::addr::{Addr, Dpid};
use crate::error::{Error, Result};
use crate::stat::Stat;
use crate::sys::loaned::{Copied, Got};
use dp_edge::spin::Spin;

/// An endpoint, without its descriptor: that is named in every call.
#[derive(Debug, Clone)]
pub enum Served {
    /// By the library.
    User(Arc<user::endpoint::UserEndpoint>),
    /// By the kernel.
    Kernel(Arc<kernel::KernelEndpoint>),
}

use Served::{Kernel, User};

impl Served {
    /// By whom.
    pub fn driver(&self) -> Driver {
        match self {
            User(_) => Driver::User,
            Kernel(_) => Driver::Kernel,
        }
    }

    /// Its number.
    pub fn dpid(&self) -> Dpid {
        match self {
            User(inner) => inner.dpid,
            Kernel(inner) => inner.dpid,
        }
    }

    /// Its address: with a node's number for a proxy.
    pub fn addr(&self) -> Addr {
        match self {
            User(inner) => inner.addr(),
            Kernel(inner) => Addr::local(inner.dpid),
        }
    }

    /// The process that opened it, as forks are counted.
    #[inline(always)]
    pub fn generation(&self) -> u32 {
        match self {
            User(inner) => inner.generation,
            Kernel(inner) => inner.generation,
        }
    }

    /// Sets the default destination, or says where to sleep until that can be done.
    ///
    /// # Errors
    ///
    /// As [`crate::Endpoint::target`].
    pub fn try_target(&self, fd: i32, to: Addr) -> Result<Step<()>> {
        match self {
            User(inner) => inner.try_target(fd, to),
            Kernel(inner) => inner.set_target(fd, to).map(Step::Done),
        }
    }

    /// The next message, if it is as good as here; else [`Served::try_recv`] finds it.
    #[inline(always)]
    pub fn recv_soon(&self, fd: i32) -> Option<Got> {
        match self {
            User(inner) => inner.recv_soon(fd),
            Kernel(_) => None,
        }
    }

    /// The next message as far as `into` has room, if it is short and as good as here. Else [`Served::try_recv_from`] finds it.
    #[inline(always)]
    pub fn recv_from_soon(&self, fd: i32, into: &mut [u8]) -> Option<Copied> {
        match self {
            User(inner) => inner.recv_from_soon(fd, into),
            Kernel(_) => None,
        }
    }

    /// The next message, loaned until it is released, or where to sleep for it; the caller says when the sleep is over
    /// ([`Served::slept`]), and calls again.
    ///
    /// # Errors
    ///
    /// As [`crate::Endpoint::recv`].
    pub fn try_recv(&self, fd: i32) -> Result<Step<Got>> {
        match self {
            User(inner) => inner.try_recv(fd),
            Kernel(inner) => inner.try_recv(fd),
        }
    }

    /// The same, copied as far as `into` has room.
    ///
    /// # Errors
    ///
    /// As [`crate::Endpoint::recv`].
    pub fn try_recv_from(&self, fd: i32, into: &mut [u8]) -> Result<Step<Copied>> {
        match self {
            User(inner) => inner.try_recv_from(fd, into),
            Kernel(inner) => inner.try_recv_from(fd, into),
        }
    }

    /// The sleep is over; `woken`: not by a signal, or for want of time. The kernel driver counts when a call goes to sleep.
    pub fn slept(&self, how: Sleep, woken: bool) {
        if let User(inner) = self {
            inner.slept(how, woken);
        }
    }

    /// Whether the number still means this endpoint, as far as its driver can tell.
    pub fn is_behind(&self, fd: i32) -> bool {
        match self {
            // The descriptor is its owner's, who has it as long as it calls.
            User(_) => true,
            Kernel(inner) => inner.is_behind(fd),
        }
    }

    /// [`Served::recv_now`], copied as far as `into` has room.
    ///
    /// # Errors
    ///
    /// As [`crate::Endpoint::recv`].
    #[inline(always)]
    pub fn recv_from_now(&self, fd: i32, into: &mut [u8]) -> Result<Option<Copied>> {
        match self {
            User(inner) => inner.recv_from_now(fd, into),
            Kernel(inner) => inner.recv_from_now(fd, into),
        }
    }

    /// The next message, for one that looks again and again ([`Served::rest`] before it stops); of the library's driver without
    /// having senders ring meanwhile.
    ///
    /// # Errors
    ///
    /// As [`crate::Endpoint::recv`].
    pub fn recv_looking(&self, fd: i32) -> Result<Option<Got>> {
        match self {
            User(inner) => inner.recv_looking(fd),
            Kernel(inner) => inner.recv_now(fd),
        }
    }

    /// The next message, for a proxy whose senders step its gateway; of the library's driver without touching what senders were
    /// asked for.
    ///
    /// # Errors
    ///
    /// As [`crate::Endpoint::recv`].
    pub fn recv_aside(&self, fd: i32) -> Result<Option<Got>> {
        match self {
            User(inner) => inner.recv_aside(fd),
            Kernel(inner) => inner.recv_now(fd),
        }
    }

    /// The descriptor tells of messages again. Whether one is there.
    ///
    /// # Errors
    ///
    /// As [`crate::Endpoint::recv`].
    pub fn rest(&self, fd: i32) -> Result<bool> {
        match self {
            User(inner) => inner.rest(fd),
            Kernel(_) => Ok(false),
        }
    }

    /// The next message, loaned until it is released, if one is there; the descriptor does not wait.
    ///
    /// # Errors
    ///
    /// As [`crate::Endpoint::recv`].
    pub fn recv_now(&self, fd: i32) -> Result<Option<Got>> {
        match self {
            User(inner) => inner.recv_now(fd),
            Kernel(inner) => inner.recv_now(fd),
        }
    }

    /// The next message, copied, as read(2) does; the descriptor does not wait.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Closed`], [`crate::Error::NotAnEndpoint`]; those of read(2).
    pub fn read_now(&self, fd: i32, into: &mut [u8]) -> Result<Option<usize>> {
        match self {
            User(inner) => inner.read_now(fd, into),
            Kernel(inner) => inner.read_now(fd, into),
        }
    }

    /// What came beside message `number`, which is loaned.
    pub fn immediate_of(&self, number: u64) -> Option<u64> {
        match self {
            User(inner) => inner.immediate_of(number),
            Kernel(inner) => inner.immediate_of(number),
        }
    }

    /// Releases message `number`.
    #[inline(always)]
    pub fn release(&self, fd: i32, number: u64) {
        match self {
            User(inner) => inner.release(number),
            Kernel(inner) => inner.release(fd, number),
        }
    }

    /// Releases the `n` oldest messages.
    ///
    /// # Errors
    ///
    /// [`crate::Error::NotLoaned`].
    pub fn release_oldest(&self, fd: i32, n: usize) -> Result<()> {
        match self {
            User(inner) => inner.release_oldest(n),
            Kernel(inner) => inner.release_oldest(fd, n),
        }
    }

    /// Gives it its pool: of this size, or of the usual one if it has none yet. How large it is.
    ///
    /// # Errors
    ///
    /// As [`crate::Endpoint::pool`].
    pub fn start_pool(&self, fd: i32, size: Option<usize>) -> Result<usize> {
        match self {
            User(inner) => inner.start_pool(size),
            Kernel(inner) => inner.start_pool(fd, size),
        }
    }

    /// Where the pool is, if it has one address.
    pub fn pool_address(&self) -> *const u8 {
        match self {
            // Each edge is a mapping of its own.
            User(_) => core::ptr::null(),
            Kernel(inner) => inner.pool_address(),
        }
    }

    /// How long a receive looks before it sleeps, at most but for attempts ([`dp_edge::spin::Pace`]), ns.
    pub fn set_spin(&self, ns: u32) {
        match self {
            User(inner) => {
                inner.max_spin.store(ns, Ordering::Relaxed);
                inner.rx().spin = Spin::new(ns);
            }
            Kernel(inner) => inner.set_spin(ns),
        }
    }

    /// The same, asked.
    pub fn spin(&self) -> u32 {
        match self {
            User(inner) => inner.max_spin.load(Ordering::Relaxed),
            Kernel(inner) => inner.max_spin.load(Ordering::Relaxed),
        }
    }

    /// Plain writes and sends keep their order from the first on.
    pub fn keep_order(&self) {
        match self {
            User(inner) => inner.keep_order(),
            // They always do: both are the kernel's.
            Kernel(_) => {}
        }
    }

    /// As [`crate::Endpoint::set_route`].
    pub fn set_route(&self, name: Option<&str>) -> Result<()> {
        match (self, name) {
            (User(inner), name) => inner.set_route(name),
            (Kernel(_), None) => Ok(()),
            (Kernel(_), Some(name)) => {
                let why = "the kernel driver has one, and no names".into();
                Err(Error::NoSuchRoute { name: name.to_string(), why })
            }
        }
    }

    /// Whether a message may name that route.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchRoute`].
    #[inline(never)]
    pub fn permit_route(&self, name: &str) -> Result<()> {
        match self {
            User(inner) => inner.permit_route(name),
            Kernel(_) => self.set_route(Some(name)),
        }
    }

    /// The code of the route that message `number` named, which is loaned; 0: none.
    pub fn route_of(&self, number: u64) -> u64 {
        match self {
            User(inner) => inner.route_of(number),
            Kernel(_) => 0,
        }
    }

    /// As [`crate::Endpoint::set_raw`].
    pub fn set_raw(&self) {
        match self {
            User(inner) => inner.set_raw(),
            // Its frames to other nodes always are.
            Kernel(_) => {}
        }
    }

    /// Whether [`Served::set_raw`] was called.
    pub fn is_raw(&self) -> bool {
        matches!(self, User(inner) if inner.raw.load(Ordering::Relaxed))
    }

    /// The sender of the message read last.
    pub fn peer(&self) -> Addr {
        match self {
            User(inner) => inner.rx().peer,
            Kernel(inner) => inner.peer(),
        }
    }

    /// What came beside the message read last.
    pub fn immediate(&self) -> Option<u64> {
        match self {
            User(inner) => inner.rx().immediate,
            Kernel(inner) => inner.immediate(),
        }
    }

    /// Whether it is known that every descriptor of it was closed.
    pub fn is_closed(&self) -> bool {
        match self {
            User(inner) => inner.is_closed(),
            Kernel(inner) => inner.is_closed(),
        }
    }

    /// Whether calls on it are over, as far as one load tells.
    #[inline(always)]
    pub fn is_retired(&self) -> bool {
        match self {
            User(inner) => inner.retired.load(Ordering::Relaxed),
            Kernel(_) => false,
        }
    }

    /// Why nothing goes there.
    pub fn why_denied(&self, to: Addr) -> Option<Error> {
        match self {
            User(inner) => inner.why_denied(to),
            // Its calls say so themselves.
            Kernel(_) => None,
        }
    }

    /// Counters and limits.
    pub fn stat(&self, fd: i32) -> Stat {
        match self {
            User(inner) => inner.stat(),
            Kernel(inner) => inner.stat(fd),
        }
    }
}
