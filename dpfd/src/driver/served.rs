//! An endpoint of whichever driver: every call asks once which one it is.

use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

pub use super::user::doze::Sleep;
use super::{kernel, user, Driver};
use crate::addr::{Addr, Dpid};
use crate::edge::parts::{Parts, MOST_PIECES};
use crate::error::{Error, Result};
use crate::stat::Stat;
use crate::sys::loaned::{Copied, Got};

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

    /// Sets the default destination.
    ///
    /// # Errors
    ///
    /// As [`crate::Endpoint::target`].
    pub fn set_target(&self, fd: i32, to: Addr) -> Result<()> {
        match self {
            User(inner) => inner.set_target(fd, to),
            Kernel(inner) => inner.set_target(fd, to),
        }
    }

    /// Sends one message, to the target or elsewhere; a wait ends with [`crate::Error::WouldBlock`] after about
    /// `patience`.
    ///
    /// # Errors
    ///
    /// As [`crate::Endpoint::send_to`].
    #[inline(always)]
    pub fn send_for(&self, patience: Duration, fd: i32, to: Option<Addr>, message: &[u8]) -> Result<()> {
        match self {
            User(inner) => inner.send_for(patience, fd, to, message),
            Kernel(inner) => inner.send_for(patience, fd, to, message),
        }
    }

    /// Sends pieces as one message, with an immediate if it has one; as [`Served::send_for`] in all else.
    ///
    /// # Errors
    ///
    /// As [`crate::Endpoint::send_parts`].
    pub fn send_parts_for(
        &self,
        patience: Duration,
        fd: i32,
        to: Option<Addr>,
        message: Parts<'_>,
    ) -> Result<()> {
        let (count, limit) = (message.pieces().len(), MOST_PIECES);
        if count > limit {
            return Err(Error::TooManyPieces { count, limit });
        }
        match self {
            User(inner) => inner.send_parts_for(patience, fd, to, message),
            Kernel(inner) => inner.send_parts_for(patience, fd, to, message),
        }
    }

    /// The next message, if it is as good as here; else [`Served::recv`] finds it.
    #[inline(always)]
    pub fn recv_soon(&self, fd: i32) -> Option<Got> {
        match self {
            User(inner) => inner.recv_soon(fd),
            Kernel(_) => None,
        }
    }

    /// The next message as far as `into` has room, if it is short and as good as here. Else [`Served::recv_from`] finds it.
    #[inline(always)]
    pub fn recv_from_soon(&self, fd: i32, into: &mut [u8]) -> Option<Copied> {
        match self {
            User(inner) => inner.recv_from_soon(fd, into),
            Kernel(_) => None,
        }
    }

    /// The next message as far as `into` has room.
    ///
    /// # Errors
    ///
    /// As [`crate::Endpoint::recv`].
    pub fn recv_from(&self, fd: i32, into: &mut [u8]) -> Result<Copied> {
        match self {
            User(inner) => inner.recv_from(fd, into),
            Kernel(inner) => inner.recv_from(fd, into),
        }
    }

    /// [`Served::recv_or_sleep`], copied as far as `into` has room.
    ///
    /// # Errors
    ///
    /// As [`crate::Endpoint::recv`].
    #[inline(always)]
    pub fn recv_from_or_sleep(&self, fd: i32, into: &mut [u8]) -> Result<Option<Copied>> {
        match self {
            User(inner) => inner.recv_from_or_sleep(fd, into),
            Kernel(inner) => inner.recv_from_or_sleep(fd, into),
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

    /// The next message, loaned until it is released.
    ///
    /// # Errors
    ///
    /// As [`crate::Endpoint::recv`].
    pub fn recv(&self, fd: i32) -> Result<Got> {
        match self {
            User(inner) => inner.recv(fd),
            Kernel(inner) => inner.recv(fd),
        }
    }

    /// The next message, loaned until it is released. None: the caller asks where to sleep ([`Served::sleep`]), sleeps there,
    /// and calls again.
    ///
    /// # Errors
    ///
    /// As [`crate::Endpoint::recv`].
    #[inline(always)]
    pub fn recv_or_sleep(&self, fd: i32) -> Result<Option<Got>> {
        match self {
            User(inner) => inner.recv_or_sleep(fd),
            Kernel(inner) => inner.recv_or_sleep(fd),
        }
    }

    /// Where the caller of [`Served::recv_or_sleep`] sleeps. None: in a call on the device that takes nothing
    /// ([`crate::sys::device::await_message`]).
    pub fn sleep(&self) -> Option<Sleep> {
        match self {
            User(inner) => Some(inner.sleep()),
            Kernel(_) => None,
        }
    }

    /// The sleep is over; `woken`: not by a signal, or for want of time. The kernel driver counts when a call goes to sleep.
    pub fn slept(&self, how: Sleep, woken: bool) {
        if let User(inner) = self {
            inner.slept(how, woken);
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

    /// How long a receive looks before it sleeps, at most, ns.
    pub fn set_spin(&self, ns: u32) {
        match self {
            User(inner) => {
                inner.max_spin.store(ns, Ordering::Relaxed);
                inner.rx().spin = ns;
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

    /// Counters and limits.
    pub fn stat(&self, fd: i32) -> Stat {
        match self {
            User(inner) => inner.stat(),
            Kernel(inner) => inner.stat(fd),
        }
    }
}
