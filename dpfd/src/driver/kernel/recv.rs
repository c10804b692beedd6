//! Receiving: in place, without a system call while messages are there; or as read(2) does.
//!
//! poll(2) needs nothing from us: the kernel sees in the control page which token comes next, and whether it is there.

use std::sync::atomic::Ordering;
use std::sync::MutexGuard;

use super::endpoint::{many_cpus, KernelEndpoint, Rx};
use super::loaned::Pool;
use crate::driver::{Sleep, Step};
use crate::error::{Error, Result};
use crate::pool::budget::DEFAULT_POOL;
use crate::pool::SHORT;
use crate::sys::device;
use crate::sys::loaned::{Copied, Got};
use crate::sys::mapped::Ring;
use dp_edge::sys::{process, raw};

impl KernelEndpoint {
    /// `dp_read`: the next message, loaned until it is released, or where to sleep for it; nothing is held meanwhile.
    ///
    /// # Errors
    ///
    /// [`Error::WouldBlock`], [`Error::NotAnEndpoint`], [`Error::Meddled`]; ENOMEM: the message stays.
    #[inline(never)] // the library's own path stays short
    pub fn try_recv(&self, fd: i32) -> Result<Step<Got>> {
        Ok(self.find(&mut self.rx(), fd)?.map_or(Step::Wait(Sleep::Device), Step::Done))
    }

    /// The same, copied as far as `into` has room.
    ///
    /// # Errors
    ///
    /// As [`KernelEndpoint::try_recv`].
    #[inline(never)]
    pub fn try_recv_from(&self, fd: i32, into: &mut [u8]) -> Result<Step<Copied>> {
        let mut rx = self.rx();
        let found = self.find(&mut rx, fd)?;
        Ok(found.map_or(Step::Wait(Sleep::Device), |got| Step::Done(self.copy_out(rx, fd, &got, into))))
    }

    /// The next message, if one is there: the descriptor does not wait.
    ///
    /// # Errors
    ///
    /// As [`KernelEndpoint::try_recv`].
    pub fn recv_now(&self, fd: i32) -> Result<Option<Got>> {
        if_there(self.try_recv(fd))
    }

    /// The same, copied as far as `into` has room.
    ///
    /// # Errors
    ///
    /// As [`KernelEndpoint::try_recv`].
    pub fn recv_from_now(&self, fd: i32, into: &mut [u8]) -> Result<Option<Copied>> {
        if_there(self.try_recv_from(fd, into))
    }

    #[inline(always)]
    fn find(&self, rx: &mut Rx, fd: i32) -> Result<Option<Got>> {
        match rx.take(fd)? {
            None => self.spin_for_next(rx, fd),
            got => Ok(got),
        }
    }

    #[cold]
    fn spin_for_next(&self, rx: &mut Rx, fd: i32) -> Result<Option<Got>> {
        if rx.pool.is_none() {
            self.start_pool_under(rx, fd, None)?;
        }
        if raw::is_nonblocking(fd) {
            // Looked at again for what came before there was a pool.
            return match rx.take(fd)? {
                None if self.is_behind(fd) => Err(Error::WouldBlock),
                None => Err(Error::NotAnEndpoint(fd)),
                got => Ok(got),
            };
        }
        self.spin_a_while(rx);
        let got = rx.take(fd)?;
        if got.is_none() {
            self.sleeps.fetch_add(1, Ordering::Relaxed);
        }
        Ok(got)
    }

    /// Spins for as long as it paid lately.
    fn spin_a_while(&self, rx: &mut Rx) {
        let longest = self.max_spin.load(Ordering::Relaxed);
        if longest == 0 || !many_cpus() {
            return;
        }
        if let (budget @ 1.., Some(pool)) = (rx.spin.budget(longest), &rx.pool) {
            rx.spin.spin(budget, longest, || pool.waiting());
        }
    }

    /// Reading in place, one way. `size` None: the usual size, if it does not read in place yet. How large the pool is.
    ///
    /// # Errors
    ///
    /// [`Error::BadPool`], [`Error::HasPool`], [`Error::PoolMemory`], [`Error::NotAnEndpoint`]; ENOMEM.
    pub fn start_pool(&self, fd: i32, size: Option<usize>) -> Result<usize> {
        self.start_pool_under(&mut self.rx(), fd, size)
    }

    fn start_pool_under(&self, rx: &mut Rx, fd: i32, size: Option<usize>) -> Result<usize> {
        if let Some(pool) = &rx.pool {
            return match size {
                Some(n) if n != pool.size => Err(Error::HasPool(pool.size)),
                _ => Ok(pool.size),
            };
        }
        let want = size.unwrap_or(DEFAULT_POOL);
        if !(dp_abi::POOL_MIN as usize..=dp_abi::POOL_MAX as usize).contains(&want) {
            return Err(Error::BadPool(want));
        }
        let info = match device::pool(fd, want) {
            // Another process that holds the endpoint was first.
            Err(libc::EBUSY) if size.is_none() => device::pool(fd, 0),
            Err(libc::EBUSY) => {
                return Err(Error::HasPool(device::stat(fd).map_or(0, |stat| stat.pool as usize)))
            }
            Err(libc::ENOMEM) => return Err(Error::PoolMemory(want)),
            other => other,
        };
        let info = info.map_err(|errno| failed(fd, "DP_IOC_POOL", errno))?;
        let ring = Ring::map(fd, info.ring).map_err(Error::io("mmap"))?;
        rx.pool = Some(Pool::new(ring, info.size as usize, info.taken));
        Ok(info.size as usize)
    }

    /// The next message, copied as far as `into` has room, the rest is discarded; of a descriptor that does not wait.
    /// The endpoint stays in the mode it is in. None: there is none.
    ///
    /// # Errors
    ///
    /// [`Error::NotAnEndpoint`]; those of read(2).
    pub fn read_now(&self, fd: i32, into: &mut [u8]) -> Result<Option<usize>> {
        // Held meanwhile: the endpoint cannot go over to reading in place between the look and the read.
        let mut rx = self.rx();
        if rx.pool.is_some() {
            let room = into.len();
            let taken = rx.take(fd)?;
            return Ok(taken.map(|got| self.copy_out(rx, fd, &got, into).size().min(room)));
        }
        // A caller without room wants no byte, but one message less.
        let mut nothing = [0];
        let room = if into.is_empty() { &mut nothing[..] } else { &mut *into };
        match device::read(fd, room) {
            Ok(n) => Ok(Some(n.min(into.len()))),
            Err(libc::EAGAIN) => Ok(None),
            Err(errno) => Err(failed(fd, "read", errno)),
        }
    }

    /// Copies and releases a message that was just taken: a long one with nothing held, so that threads can do so side by
    /// side.
    #[allow(unsafe_code, clippy::allow_attributes)]
    fn copy_out(&self, mut rx: MutexGuard<'_, Rx>, fd: i32, got: &Got, into: &mut [u8]) -> Copied {
        if got.size() > SHORT {
            if let Some(pool) = &mut rx.pool {
                pool.copy(got.number);
            }
            drop(rx);
            // SAFETY: this pool's; nobody else can release it, as it is not loaned to the program ([`super::loaned::Pool::copy`]).
            unsafe { got.copy_to(into) };
            self.release(fd, got.number);
        } else {
            // SAFETY: this pool's, and released by nobody but below: the pool is locked.
            unsafe { got.copy_to(into) };
            self.release_under(&mut rx, fd, got.number);
        }
        got.copied()
    }

    /// What came beside message `number`, which has something beside it and is loaned.
    pub fn immediate_of(&self, number: u64) -> Option<u64> {
        self.rx().pool.as_ref()?.immediate(number)
    }

    /// Releases one message.
    #[inline(never)]
    pub fn release(&self, fd: i32, number: u64) {
        self.release_under(&mut self.rx(), fd, number);
    }

    #[inline(always)]
    fn release_under(&self, rx: &mut Rx, fd: i32, number: u64) {
        // A child of a fork has its parent's guards, and the control page is one for both.
        if let (true, Some(pool)) = (self.generation == process::generation(), &mut rx.pool) {
            pool.release(fd, number);
        }
    }

    /// `dp_fsync`: releases the `n` oldest messages.
    ///
    /// # Errors
    ///
    /// [`Error::NotLoaned`].
    pub fn release_oldest(&self, fd: i32, n: usize) -> Result<()> {
        let mut rx = self.rx();
        let released = match &mut rx.pool {
            Some(pool) => pool.release_oldest(fd, n),
            None => n == 0,
        };
        if released {
            return Ok(());
        }
        Err(Error::NotLoaned { asked: n, loaned: rx.pool.as_ref().map_or(0, Pool::loaned) })
    }
}

impl Rx {
    #[inline(always)]
    fn take(&mut self, fd: i32) -> Result<Option<Got>> {
        let Some(pool) = &mut self.pool else { return Ok(None) };
        let got = pool.take(fd)?;
        if let Some(got) = &got {
            self.peer = got.from();
            self.immediate = if got.has_immediate() { pool.immediate(got.number) } else { None };
        }
        Ok(got)
    }
}

fn if_there<T>(found: Result<Step<T>>) -> Result<Option<T>> {
    match found {
        Ok(Step::Done(found)) => Ok(Some(found)),
        Ok(Step::Wait(_)) | Err(Error::WouldBlock) => Ok(None),
        Err(e) => Err(e),
    }
}

#[cold]
fn failed(fd: i32, call: &'static str, errno: i32) -> Error {
    match errno {
        libc::EBADF | libc::ENOTTY | libc::ENXIO => Error::NotAnEndpoint(fd),
        errno => Error::system(call)(errno),
    }
}
