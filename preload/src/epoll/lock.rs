//! A set's lock: short, known by its owner's thread. Holders never sleep in the kernel.
//!
//! It is given back by a call, and by no destructor: a thread that is ended at any instruction, by a handler or a
//! cancellation, is unwound, which ends the process where a frame has something to drop. Whoever needs the lock next finds its owner
//! dead, takes it, and mends what it guards.

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

/// How the lock was had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Had {
    /// Its last owner gave it back.
    Whole,
    /// Its last owner left it by longjmp, or with its thread: what it guards may be half done.
    Torn,
}

impl Lock {
    /// Takes it, until [`Lock::unlock`]. `None`: this is a signal handler of the very thread that has it; what it guards is half
    /// done.
    pub fn lock(&self) -> Option<Had> {
        self.lock_while(|| true)
    }

    /// The same, and waits no longer than `wanted` says: `None` then, too.
    pub fn lock_while(&self, wanted: impl Fn() -> bool) -> Option<Had> {
        let me = state::tid();
        let here = 0u8;
        let frame = &raw const here as u64;
        let had = if self.free_to(me) { Had::Whole } else { self.wait(me, frame, wanted)? };
        self.frame.store(frame, Ordering::Relaxed);
        Some(had)
    }

    /// Gives it back.
    pub fn unlock(&self) {
        self.frame.store(u64::MAX, Ordering::Relaxed);
        self.owner.store(0, Ordering::Release);
    }

    /// The same for somebody who has a connection's lock, which comes after a set's: does not wait for long. False also where
    /// another thread has it all the while.
    pub fn lock_soon(&self) -> bool {
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
        if free {
            self.frame.store(&raw const here as u64, Ordering::Relaxed);
        }
        free
    }

    fn free_to(&self, me: u32) -> bool {
        self.owner.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn wait(&self, me: u32, frame: u64, wanted: impl Fn() -> bool) -> Option<Had> {
        let mut turn = 0u32;
        while !self.free_to(me) {
            if !wanted() {
                return None;
            }
            let owner = self.owner.load(Ordering::Relaxed);
            if owner == me {
                // Stacks grow downwards: a handler lies below what it interrupted.
                let outer = self.frame.load(Ordering::Relaxed);
                let inside = frame < outer || raw::on_signal_stack_above(outer);
                return (!inside).then_some(Had::Torn);
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
                        return Some(Had::Torn);
                    }
                }
            }
        }
        Some(Had::Whole)
    }

    /// Whether its owner has ended, and nobody has taken it since.
    pub fn is_left(&self) -> bool {
        let owner = self.owner.load(Ordering::Relaxed);
        owner != 0 && !state::thread_lives(owner)
    }

    /// Free again, whoever had it: by who has it for a fork, or in the only thread of a forked child. Whether somebody had.
    pub fn reset(&self) -> bool {
        let torn = self.owner.load(Ordering::Relaxed) != 0;
        if torn {
            self.unlock();
        }
        torn
    }
}
