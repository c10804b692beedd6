//! A set's lock: short, known by its owner's thread. Holders never sleep in the kernel.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use dp_edge::sys::raw;

use crate::state;

/// Zero is free.
pub struct Lock {
    /// The owner's thread.
    owner: AtomicU32,
    /// Where on its stack the owner took it: tells a signal handler inside it from a lock left by longjmp.
    frame: AtomicU64,
}

/// Gives it back on drop.
pub struct Guard<'a>(&'a Lock);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.frame.store(u64::MAX, Ordering::Relaxed);
        self.0.owner.store(0, Ordering::Release);
    }
}

impl Lock {
    /// Takes it. `None`: this is a signal handler of the very thread that has it; what it guards is half done.
    pub fn lock(&self) -> Option<Guard<'_>> {
        let me = state::tid();
        let here = 0u8;
        let frame = &raw const here as u64;
        if !self.free_to(me) {
            self.wait(me, frame)?;
        }
        self.frame.store(frame, Ordering::Relaxed);
        Some(Guard(self))
    }

    /// The same for somebody who has a connection's lock, which comes after a set's: does not wait for long. `None` also
    /// where another thread has it all the while.
    pub fn lock_soon(&self) -> Option<Guard<'_>> {
        let me = state::tid();
        let here = 0u8;
        let free = (0..220).any(|turn| {
            self.free_to(me) || {
                if turn < 200 {
                    core::hint::spin_loop()
                } else {
                    raw::yield_now()
                }
                false
            }
        });
        free.then(|| {
            self.frame.store(&raw const here as u64, Ordering::Relaxed);
            Guard(self)
        })
    }

    fn free_to(&self, me: u32) -> bool {
        self.owner.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn wait(&self, me: u32, frame: u64) -> Option<()> {
        let mut turn = 0u32;
        while !self.free_to(me) {
            let owner = self.owner.load(Ordering::Relaxed);
            if owner == me {
                // Stacks grow downwards: a handler lies below what it interrupted.
                let outer = self.frame.load(Ordering::Relaxed);
                let inside = frame < outer || raw::on_signal_stack_above(outer);
                return (!inside).then_some(());
            }
            turn += 1;
            match turn {
                0..=200 => core::hint::spin_loop(),
                201..=220 => raw::yield_now(),
                _ => {
                    raw::nap(50_000);
                    // A thread that ended in the middle, by pthread_cancel or a handler's pthread_exit.
                    let gone = turn % 64 == 0 && owner != 0 && !state::thread_lives(owner);
                    let take =
                        || self.owner.compare_exchange(owner, me, Ordering::Acquire, Ordering::Relaxed);
                    if gone && take().is_ok() {
                        return Some(());
                    }
                }
            }
        }
        Some(())
    }

    /// Whether somebody has it.
    pub fn is_held(&self) -> bool {
        self.owner.load(Ordering::Relaxed) != 0
    }

    /// Free again, whoever had it: by who has it for a fork, or in the only thread of a forked child.
    pub fn reset(&self) {
        if self.owner.load(Ordering::Relaxed) != 0 {
            self.frame.store(u64::MAX, Ordering::Relaxed);
            self.owner.store(0, Ordering::Release);
        }
    }
}
