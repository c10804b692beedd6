//! The atomics of everything that crosses a process: core's, or loom's when a proof runs.
//!
//! Fences are written out (`fence(SeqCst)`): loom models a fence, not the order among SeqCst accesses.

#[cfg(not(loom))]
pub use core::sync::atomic::{fence, AtomicU32, AtomicU64, Ordering};
#[cfg(loom)]
pub use loom::sync::atomic::{fence, Ordering};
#[cfg(loom)]
pub use proof::{AtomicU32, AtomicU64};

#[cfg(loom)]
mod proof;

/// A full fence directly after a sequentially consistent read-modify-write.
///
/// On x86 a locked instruction already orders every earlier store before every later load (Intel SDM
/// vol. 3, 9.2.3.9), so only the compiler has to be kept from moving code; elsewhere it is a real fence.
#[inline(always)]
pub fn fence_after_rmw() {
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
    #[cfg(not(all(target_arch = "x86_64", not(loom))))]
    fence(Ordering::SeqCst);
}

/// The fence between saying "I sleep" and looking again.
#[inline]
pub fn settle() {
    fence(Ordering::SeqCst);
}

/// One turn of a spin loop: `pause`, or a yield to loom's scheduler.
#[inline(always)]
pub fn relax() {
    #[cfg(not(loom))]
    core::hint::spin_loop();
    #[cfg(loom)]
    loom::thread::yield_now();
}
