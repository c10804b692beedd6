//! A buffer for calls that need more than fits on a small stack: kept, because mapping one costs more than most of
//! these calls do.
//!
//! There is one, and a call that finds it taken (by another thread, or by the call that its signal handler has
//! interrupted) maps one for itself. A call that never comes back, by longjmp or cancellation, keeps what it has.

use core::sync::atomic::{AtomicPtr, Ordering};

use dp_edge::sys::raw;

use crate::state;

/// Its size in bytes.
pub const SIZE: usize = 64 * 1024;

static KEPT: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());

/// Gives `f` a buffer of [`SIZE`] bytes, with anything in it, at the start of a page. `None`: there is no memory.
pub fn with<R>(f: impl FnOnce(*mut u8) -> R) -> Option<R> {
    lend(|place| place.map(f))
}

/// The same where `f` can do without.
pub fn lend<R>(f: impl FnOnce(Option<*mut u8>) -> R) -> R {
    // Acquire and release: whoever had it before is through with it.
    let kept = KEPT.swap(core::ptr::null_mut(), Ordering::Acquire);
    let kept = if kept.is_null() { state::reserve::<u8>(SIZE) } else { Some(kept) };
    let Some(place) = kept else { return f(None) };
    let result = f(Some(place));
    if KEPT.compare_exchange(core::ptr::null_mut(), place, Ordering::Release, Ordering::Relaxed).is_err() {
        // SAFETY: ours, and nobody refers to it any more. Not libc's call: errno is the program's by now.
        let _ = unsafe { raw::call(libc::SYS_munmap, [place as usize, SIZE, 0, 0, 0, 0]) };
    }
    result
}
