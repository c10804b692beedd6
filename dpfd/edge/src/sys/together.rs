//! Private memory of this process that lies together, without malloc.
//!
//! A fork pays for each mapping about as much as its child does for a page that is copied. So the preloaded library keeps
//! room in a mapping that it has anyway, and what needs a few pages for good has them there, as long as there are any.
//!
//! Only the process that began takes pages and gives them back there. A fork copies memory page by page while other threads
//! go on, so in its child a page may be in use that seems to be free.

use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use super::{raw, sparse};

/// Bytes of a page.
pub const PAGE: usize = 4096;
/// Pages that lie together.
pub const PAGES: usize = u64::BITS as usize;

static ROOM: Room = Room::new();

/// From here on pages are taken at `first`.
///
/// # Safety
///
/// [`PAGES`] zeroed pages begin there, private and nobody else's for good.
pub unsafe fn begin(first: *mut u8) {
    // SAFETY: by the contract.
    unsafe { ROOM.begin(first, raw::getpid()) }
}

/// Zeroed memory of `len` bytes, at the start of a page: there, or in a mapping of its own.
pub fn take(len: usize) -> Option<*mut u8> {
    ROOM.take(len.div_ceil(PAGE), raw::getpid()).or_else(|| sparse::reserve(len))
}

/// Takes back what [`take`] gave.
///
/// # Safety
///
/// `at` came from there, for so many bytes, and nobody uses it any more.
pub unsafe fn give_back(at: *mut u8, len: usize) {
    // SAFETY: by the contract.
    if unsafe { !ROOM.give_back(at, len.div_ceil(PAGE), raw::getpid()) } {
        // SAFETY: a mapping of its own.
        unsafe { libc::munmap(at.cast(), len) };
    }
}

struct Room {
    /// Null: there is none.
    first: AtomicPtr<u8>,
    /// The process that began.
    owner: AtomicU32,
    /// A bit for each page that is in use.
    taken: AtomicU64,
}

impl Room {
    const fn new() -> Room {
        Room {
            first: AtomicPtr::new(core::ptr::null_mut()),
            owner: AtomicU32::new(0),
            taken: AtomicU64::new(0),
        }
    }

    /// # Safety
    ///
    /// As for [`begin`].
    unsafe fn begin(&self, first: *mut u8, owner: u32) {
        self.owner.store(owner, Ordering::Relaxed);
        self.first.store(first, Ordering::Release);
    }

    /// So many pages in a row, for process `me`.
    fn take(&self, pages: usize, me: u32) -> Option<*mut u8> {
        let first = self.first.load(Ordering::Acquire);
        if first.is_null() || self.owner.load(Ordering::Relaxed) != me {
            return None;
        }
        let mut taken = self.taken.load(Ordering::Relaxed);
        loop {
            let (at, row) = free_row(taken, pages)?;
            match self.taken.compare_exchange_weak(taken, taken | row, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(first.wrapping_add(at * PAGE)),
                Err(now) => taken = now,
            }
        }
    }

    /// False: `at` is not among the pages. In a child of the process that began they are left alone.
    ///
    /// # Safety
    ///
    /// As for [`give_back`].
    unsafe fn give_back(&self, at: *mut u8, pages: usize, me: u32) -> bool {
        let first = self.first.load(Ordering::Acquire) as usize;
        let Some(n) = (at as usize).checked_sub(first).map(|bytes| bytes / PAGE) else { return false };
        if first == 0 || n >= PAGES {
            return false;
        }
        // SAFETY: pages of ours that nobody uses. They are zeroed by that.
        let zeroed = unsafe { libc::madvise(at.cast(), pages * PAGE, libc::MADV_DONTNEED) } == 0;
        if zeroed && self.owner.load(Ordering::Relaxed) == me {
            self.taken.fetch_and(!(row(pages) << n), Ordering::Release);
        }
        true
    }
}

fn row(pages: usize) -> u64 {
    u64::MAX >> (PAGES - pages)
}

/// The first `pages` pages in a row of which none is in use: where they begin, and their bits.
fn free_row(taken: u64, pages: usize) -> Option<(usize, u64)> {
    if !(1..=PAGES).contains(&pages) {
        return None;
    }
    (0..=PAGES - pages).map(|at| (at, row(pages) << at)).find(|(_, bits)| taken & bits == 0)
}

#[cfg(test)]
mod tests;
