//! A pair of fences of which the one costs nothing: membarrier(2).
//!
//! Two threads that each store and then load what the other stored need a full fence in between, both of them, or
//! neither might see the other. Where the one does so millions of times a second and the other hardly ever, the other
//! can pay for both: it has the kernel put a fence into every thread of the process that runs just now. What is left
//! for the first is to keep the compiler from moving its accesses ([`light`]). A call of [`heavy`] takes one to two
//! microseconds on two CPUs, and one interrupt of each CPU on which the process runs.

#[cfg(loom)]
pub use model::{heavy, is_ready, light};
#[cfg(not(loom))]
pub use real::{heavy, is_ready, light, prepare};

/// For proofs: a full fence on either side, which is what membarrier(2) makes of the two.
#[cfg(loom)]
pub mod model {
    use core::cell::Cell;

    use crate::sync::{fence, Ordering};

    std::thread_local! {
        /// Left out by the proof that runs in this thread: the light fence, the heavy one.
        pub static WITHOUT: Cell<[bool; 2]> = const { Cell::new([false; 2]) };
    }

    /// The light one.
    pub fn light() {
        if !WITHOUT.get()[0] {
            fence(Ordering::SeqCst);
        }
    }

    /// The heavy one.
    pub fn heavy() {
        if !WITHOUT.get()[1] {
            fence(Ordering::SeqCst);
        }
    }

    /// It works.
    pub fn is_ready() -> bool {
        true
    }
}

#[cfg(not(loom))]
mod real {
    use core::sync::atomic::{compiler_fence, fence, AtomicBool, Ordering};
    use std::time::Duration;

    use crate::sys::{process, raw};

    /// Where the call has failed, this is waited instead, so often: a store leaves its CPU's buffer within a microsecond,
    /// and a CPU has been interrupted since, too.
    const MOMENTS: u32 = 20;
    const MOMENT: Duration = Duration::from_millis(1);

    static READY: AtomicBool = AtomicBool::new(false);

    /// The fence of those who do it often. Nothing at all, unless the other side calls [`heavy`].
    #[inline(always)]
    pub fn light() {
        compiler_fence(Ordering::SeqCst);
    }

    /// Whether [`heavy`] works here.
    #[inline]
    pub fn is_ready() -> bool {
        READY.load(Ordering::Relaxed)
    }

    /// Makes [`heavy`] work, where the kernel can (Linux 4.14) and may (seccomp). Takes 10 ms and more in a process with
    /// several threads.
    pub fn prepare() {
        READY.store(register() && ask(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED), Ordering::Relaxed);
    }

    /// A full fence, here and, at some moment between call and return, in every other thread of this process.
    #[cold]
    pub fn heavy() {
        // EPERM: a child of a fork whose kernel forgot. One more try.
        let ask = || ask(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED);
        if ask() || register() && ask() {
            return;
        }
        // It worked when the process began; it has given up the call since (seccomp). Nobody becomes an owner from here
        // on; those who are have to be got out without it, once each.
        READY.store(false, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        for _ in 0..MOMENTS {
            process::rest(MOMENT);
        }
        fence(Ordering::SeqCst);
    }

    fn register() -> bool {
        ask(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
    }

    fn ask(what: libc::membarrier_cmd) -> bool {
        // SAFETY: no pointer.
        unsafe { raw::call(libc::SYS_membarrier, [what as usize, 0, 0, 0, 0, 0]) }.is_ok()
    }
}
