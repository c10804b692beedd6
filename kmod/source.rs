// SPDX-License-Identifier: GPL-2.0

//! Where a message is copied from.

use kernel::{
    alloc::flags::__GFP_NOWARN, bindings, iov::IovIterSource, page::PAGE_SIZE, prelude::*, sync::Arc,
    types::Opaque,
};

use crate::{glue, memory::Area, pool::Reservation};

/// A message that is on its way into a pool.
pub(crate) enum Source<'a, 'b> {
    Iter(&'a mut IovIterSource<'b>),
    /// In the kernel already, because a page of it was missing.
    Copy(KVVec<u8>),
    /// In memory of its own, because the pool has no room for it ever.
    OutOfLine(Arc<Area>),
}

impl<'a, 'b> Source<'a, 'b> {
    /// False: a page is missing.
    pub(crate) fn copy_to(&mut self, place: &Reservation<'_>) -> bool {
        let (to, len) = place.message();
        match self {
            // SAFETY: the place is reserved and has `len` bytes.
            Source::Iter(iter) => unsafe { copy_from(iter, to, len) },
            Source::Copy(bytes) => {
                // SAFETY: the place is reserved and has `len` bytes, as the copy has.
                unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), len) };
                true
            }
            Source::OutOfLine(area) => {
                // SAFETY: as above; the area has `len` bytes. The pool has grown meanwhile.
                unsafe { to.copy_from_nonoverlapping(area.base(), len) };
                true
            }
        }
    }

    /// All of it, `len` bytes, to be read in order.
    pub(crate) fn with_iter<R>(self, len: usize, f: impl FnOnce(&mut IovIterSource<'_>) -> R) -> R {
        let bytes = match &self {
            Source::Iter(_) => core::ptr::null(),
            Source::Copy(bytes) => bytes.as_ptr(),
            Source::OutOfLine(area) => area.base().cast_const(),
        };
        if let Source::Iter(iter) = self {
            return f(iter);
        }
        let iter = Opaque::<bindings::iov_iter>::zeroed();
        let piece = bindings::kvec { iov_base: bytes.cast_mut().cast(), iov_len: len };
        // SAFETY: the iterator is written before it is used; piece and bytes live as long.
        let message = unsafe {
            bindings::iov_iter_kvec(iter.get(), bindings::ITER_SOURCE, &piece, 1, len);
            IovIterSource::from_raw(iter.get())
        };
        f(message)
    }

    pub(crate) fn area(&self) -> Option<&Arc<Area>> {
        if let Source::OutOfLine(area) = self {
            Some(area)
        } else {
            None
        }
    }

    /// The message, in memory that can be kept as it is.
    pub(crate) fn put_apart(mut self, len: usize) -> Result<Self> {
        let area = Area::new(len.next_multiple_of(PAGE_SIZE), 1)?;
        let to = area.base();
        match &mut self {
            Source::Iter(iter) => {
                // SAFETY: the area has `len` bytes, and nobody else knows of it.
                let to = unsafe { core::slice::from_raw_parts_mut(to.cast(), len) };
                if iter.copy_from_iter_raw(to).len() < len {
                    return Err(EFAULT);
                }
            }
            // SAFETY: both have `len` bytes.
            Source::Copy(bytes) => unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), len) },
            Source::OutOfLine(_) => return Err(EIO),
        }
        Ok(Source::OutOfLine(Arc::new(area, GFP_KERNEL)?))
    }

    /// The message, in the kernel's memory.
    pub(crate) fn fetch(self, len: usize) -> Result<Self> {
        let Source::Iter(iter) = self else { return Ok(self) };
        let mut bytes = KVVec::new();
        // As in Area::new(): the program chose the length.
        if iter.copy_from_iter_vec(&mut bytes, GFP_KERNEL_ACCOUNT | __GFP_NOWARN)? < len {
            return Err(EFAULT);
        }
        Ok(Source::Copy(bytes))
    }
}

/// A program's message, or the beginning of it, to where it belongs. False: a page of it is missing, and nothing was taken.
///
/// # Safety
///
/// `to` is valid for `len` bytes.
#[inline]
pub(crate) unsafe fn copy_from(from: &mut IovIterSource<'_>, to: *mut u8, len: usize) -> bool {
    // SAFETY: by what the caller promises.
    let copied = unsafe { glue::dp_glue_copy_in(to.cast(), len, from.as_raw()) };
    if copied != len {
        // SAFETY: as many as were just taken.
        unsafe { from.revert(copied) };
    }
    copied == len
}
