//! Receiving as read(2) does, without waiting: a copy, and the endpoint stays in the mode it is in.

use super::inner::Inner;
use crate::error::{Error, Result};
use crate::sys::lent::Got;
use crate::sys::unix;

impl Inner {
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
        Ok(self.recv_now(fd)?.map(|got| self.copy_out(&got, into)))
    }
    #[allow(unsafe_code, clippy::allow_attributes)]
    fn copy_out(&self, got: &Got, into: &mut [u8]) -> usize {
        // SAFETY: this endpoint's, and released by nobody but below.
        let n = unsafe { got.copy_to(into) };
        self.release(got.number);
        n
    }
}
