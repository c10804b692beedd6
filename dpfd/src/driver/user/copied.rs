//! Receiving a copy: what is not to stay in the pool need not be loaned first.
//!
//! A short message that is the oldest of its edge is copied with the receiver's side held, and its lines go back at once:
//! no number, no entry among those that are loaned, no second lock to release it. Others are copied with nothing held, so
//! that threads can do so side by side: they are loaned, but to the library, and nobody else can release them.

use super::endpoint::UserEndpoint;
use super::recv::For;
use crate::driver::Step;
use crate::error::{Error, Result};
use crate::sys::loaned::{Copied, Got};
use dp_edge::sys::unix;

impl UserEndpoint {
    /// The next message as far as `into` has room, if it is short and where it usually is, or comes there in a moment. None:
    /// [`UserEndpoint::try_recv_from`] finds it.
    #[inline(always)]
    pub fn recv_from_soon(&self, fd: i32, into: &mut [u8]) -> Option<Copied> {
        let mut rx = self.begin_soon()?;
        let copied = match rx.tokens.copy_first(into) {
            None if !rx.tokens.waiting() && self.spin_briefly(&rx) => rx.tokens.copy_first(into),
            copied => copied,
        }?;
        (rx.peer, rx.immediate) = (copied.from(), None);
        if !rx.wake.is_silent() {
            self.make_truthful(&mut rx, fd);
        }
        Some(copied)
    }

    /// The next message as far as `into` has room, or where to sleep for it; where [`UserEndpoint::recv_from_soon`] found none.
    ///
    /// # Errors
    ///
    /// As [`UserEndpoint::try_recv`].
    #[cold]
    pub fn try_recv_from(&self, fd: i32, into: &mut [u8]) -> Result<Step<Copied>> {
        Ok(match self.try_recv_for(For::Copy, fd)? {
            Step::Done(got) => Step::Done(self.copy_out(&got, into)),
            Step::Wait(how) => Step::Wait(how),
        })
    }

    /// The next message as far as `into` has room, if one is there: the descriptor does not wait.
    ///
    /// # Errors
    ///
    /// As [`UserEndpoint::try_recv`].
    #[inline(always)]
    pub fn recv_from_now(&self, fd: i32, into: &mut [u8]) -> Result<Option<Copied>> {
        match self.recv_from_soon(fd, into) {
            None => self.copy_later(fd, into),
            copied => Ok(copied),
        }
    }

    #[cold]
    fn copy_later(&self, fd: i32, into: &mut [u8]) -> Result<Option<Copied>> {
        Ok(self.recv_now_for(For::Copy, fd)?.map(|got| self.copy_out(&got, into)))
    }

    /// The next message, copied as far as `into` has room; the rest is discarded. None: there is none.
    ///
    /// In pool mode it comes from the pool, so that no bell is taken for an empty message.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`], [`Error::NotAnEndpoint`]; those of recv(2).
    pub fn read_now(&self, fd: i32, into: &mut [u8]) -> Result<Option<usize>> {
        // Held meanwhile: the endpoint cannot go over to pool mode between the look and the read.
        let rx = self.rx();
        if self.inbox.get().is_none() {
            return match unix::recv_bytes(fd, into) {
                Ok(len) => Ok(Some(len.min(into.len()))),
                Err(libc::EAGAIN) => Ok(None),
                Err(libc::EBADF | libc::ENOTSOCK) => Err(Error::NotAnEndpoint(fd)),
                Err(e) => Err(Error::system("recv")(e)),
            };
        }
        drop(rx);
        let room = into.len();
        Ok(self.recv_from_now(fd, into)?.map(|copied| copied.size().min(room)))
    }

    /// Copies and releases a message that was taken to be copied.
    #[inline]
    #[allow(unsafe_code, clippy::allow_attributes)]
    fn copy_out(&self, got: &Got, into: &mut [u8]) -> Copied {
        // SAFETY: this endpoint's, and released by nobody but below ([`For::Copy`]).
        unsafe { got.copy_to(into) };
        self.release(got.number);
        got.copied()
    }
}
