//! The one page of an endpoint in pool mode that all its senders share: is its receiver asleep?
//!
//! ```text
//!   line 0   asleep | taken       one group for all edges (bell.rs): a burst over many edges is one bell
//!   line 1   bells                bells and messages put on the endpoint's descriptor, in all, modulo 2^32
//! ```
//!
//! PROTOCOLS U3: one wake word per endpoint, in the order of W4. The receiver says ASLEEP, fences, looks at
//! every edge again, sleeps; a sender publishes, fences, loads, and the one that clears ASLEEP rings. The count
//! of bells tells a receiver that looks by itself to look at its descriptor, too.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::bell::Group;
use super::ring::LINE;
use super::segment::{map_flat, sealed_len, sealed_memory};
use crate::sync::{AtomicU32, Ordering};

/// Bytes of the page.
pub const PAGE: usize = 4096;

/// The mapped page.
pub struct Inbox {
    fd: OwnedFd,
    base: *mut u8,
}

// SAFETY: the mapping belongs to the value, and everything in it is an atomic.
unsafe impl Send for Inbox {}
// SAFETY: as above.
unsafe impl Sync for Inbox {}

impl Inbox {
    /// A new page, its receiver asleep: the first message rings.
    ///
    /// # Errors
    ///
    /// Those of memfd_create(2) and mmap(2).
    pub fn create() -> io::Result<Inbox> {
        let fd = sealed_memory(c"dp-inbox", PAGE)?;
        let inbox = Inbox { base: map_flat(fd.as_fd(), PAGE)?, fd };
        inbox.group().doze();
        Ok(inbox)
    }

    /// A receiver's page; its seals and size are checked first.
    ///
    /// # Errors
    ///
    /// EBADMSG when the memory is no inbox; else those of mmap(2).
    pub fn open(fd: OwnedFd) -> io::Result<Inbox> {
        if sealed_len(fd.as_fd())? != PAGE {
            return Err(io::Error::from_raw_os_error(libc::EBADMSG));
        }
        Ok(Inbox { base: map_flat(fd.as_fd(), PAGE)?, fd })
    }

    /// The memory, to hand to a sender.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Whether the receiver sleeps.
    #[inline(always)]
    pub fn group(&self) -> &Group {
        // SAFETY: the page's first line; any bits are atomics.
        unsafe { &*self.base.cast::<Group>() }
    }

    #[inline(always)]
    fn bells_word(&self) -> &AtomicU32 {
        // SAFETY: the page's second line; any bits are an atomic.
        unsafe { &*self.base.add(LINE).cast::<AtomicU32>() }
    }

    /// Bells and messages put on the descriptor so far; a hint, the kernel has the truth.
    #[inline(always)]
    pub fn bells(&self) -> u32 {
        self.bells_word().load(Ordering::Acquire)
    }

    /// One more.
    pub fn count_bell(&self) {
        self.bells_word().fetch_add(1, Ordering::AcqRel);
    }

    /// After a message was published and fenced: whether the caller is the one to ring.
    #[inline(always)]
    pub fn rouse(&self) -> bool {
        self.group().rouse()
    }
}

impl core::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Inbox")
            .field("asleep", &self.group().is_asleep())
            .field("bells", &self.bells())
            .finish_non_exhaustive()
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        // SAFETY: the page is ours; references into it borrow self.
        unsafe { libc::munmap(self.base.cast(), PAGE) };
    }
}
