// SPDX-License-Identifier: GPL-2.0

//! Where a message is copied to.

use kernel::{
    ffi::{c_char, c_void},
    iov::IovIterDest,
};

use crate::glue;

/// A program's memory.
pub(crate) trait Sink {
    /// Bytes that it takes.
    fn room(&self) -> usize;

    /// Copies if it is short, and without waiting for a page: with the pool's lock held, for which senders wait. False:
    /// nothing was taken.
    ///
    /// # Safety
    ///
    /// `from` is valid for `len` bytes, which are no more than there is room for.
    unsafe fn put_at_once(&mut self, from: *const u8, len: usize) -> bool;

    /// Copies as much as can be. Returns how much that was.
    fn put(&mut self, bytes: &[u8]) -> usize;
}

impl Sink for IovIterDest<'_> {
    fn room(&self) -> usize {
        self.len()
    }

    #[inline(always)]
    unsafe fn put_at_once(&mut self, from: *const u8, len: usize) -> bool {
        // SAFETY: by what the caller promises.
        unsafe { glue::dp_glue_copy_out(self.as_raw(), from.cast(), len) }
    }

    fn put(&mut self, bytes: &[u8]) -> usize {
        self.copy_to_iter(bytes)
    }
}

/// What read(2) was given: one piece, for one message.
pub(crate) struct UserSink {
    to: *mut c_char,
    len: usize,
}

impl UserSink {
    /// # Safety
    ///
    /// Of the calling program's address space, or no address of any: vfs_read() has seen to that.
    pub(crate) unsafe fn new(to: *mut c_char, len: usize) -> Self {
        Self { to, len }
    }
}

impl Sink for UserSink {
    fn room(&self) -> usize {
        self.len
    }

    #[inline(always)]
    unsafe fn put_at_once(&mut self, from: *const u8, len: usize) -> bool {
        // SAFETY: by what the caller promises, and so did the one of new().
        unsafe { glue::dp_glue_copy_to(self.to, from.cast(), len) }
    }

    fn put(&mut self, bytes: &[u8]) -> usize {
        let len = bytes.len().min(self.len);
        // SAFETY: as above.
        unsafe { glue::dp_glue_copy_to_waiting(self.to, bytes.as_ptr().cast::<c_void>(), len) }
    }
}
