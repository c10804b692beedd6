//! A set's lock: short, known by its owner's thread. Holders never sleep in the kernel.
//!
//! It is given back by a call, and by no destructor: a thread that is ended at any instruction, by a handler or a
//! cancellation, is unwound, which ends the process where a frame has something to drop. Whoever needs the lock next finds its owner
//! dead, takes it, and mends what it guards.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use dp_channel::handlers;
use dp_edge::sys::raw;

use crate::state;

/// Zero is free.
pub struct Lock {
    /// The owner's thread.
    owner: AtomicU32,
    /// Where the owner took it ([`handlers::mark`]): tells a signal handler inside it from a lock left by longjmp. Or [`FOR_A_FORK`].
    frame: AtomicU64,
}

/// In place of a frame: nobody is in what the lock guards, and its owner keeps it so while it forks.
const FOR_A_FORK: u64 = 1;

/// How the lock was had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Had {
    /// Its last owner gave it back.
    Whole,
    /// Its last owner left it by longjmp, or with its thread: what it guards may be half done.
    Torn,
    /// This thread had it, for its fork, and has it still when this is over.
    Kept,
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
        let had = if self.free_to(me) { Had::Whole } else { self.wait(me, &here, wanted)? };
        if had != Had::Kept {
            self.frame.store(handlers::mark(&here), Ordering::Relaxed);
        }
        Some(had)
    }

    /// Gives it back.
    pub fn unlock(&self) {
        self.frame.store(u64::MAX, Ordering::Relaxed);
        self.owner.store(0, Ordering::Release);
    }

    /// The same for somebody who has a connection's lock, which comes after a set's: does not wait for long. `None` also where
    /// another thread has it all the while.
    pub fn lock_soon(&self) -> Option<Had> {
        let me = state::tid();
        let here = 0u8;
        for turn in 0..220 {
            if self.free_to(me) {
                self.frame.store(handlers::mark(&here), Ordering::Relaxed);
                return Some(Had::Whole);
            }
            if self.owner.load(Ordering::Relaxed) == me {
                return self.is_for_a_fork().then_some(Had::Kept);
            }
            if turn < 200 {
                core::hint::spin_loop()
            } else {
                raw::yield_now()
            }
        }
        None
    }

    /// What was had by [`Lock::lock_soon`] stays so while this thread forks.
    pub fn keep_for_a_fork(&self) {
        self.frame.store(FOR_A_FORK, Ordering::Release);
    }

    /// Gives it back if this thread has it for its fork. Whether it had.
    pub fn unlock_after_a_fork(&self) -> bool {
        let had = self.is_for_a_fork() && self.owner.load(Ordering::Relaxed) == state::tid();
        if had {
            self.unlock();
        }
        had
    }

    /// Whether some thread has it for its fork: what it guards is whole.
    pub fn is_for_a_fork(&self) -> bool {
        self.owner.load(Ordering::Relaxed) != 0 && self.frame.load(Ordering::Acquire) == FOR_A_FORK
    }

    fn free_to(&self, me: u32) -> bool {
        self.owner.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn wait(&self, me: u32, here: *const u8, wanted: impl Fn() -> bool) -> Option<Had> {
        let mut turn = 0u32;
        while !self.free_to(me) {
            if !wanted() {
                return None;
            }
            let owner = self.owner.load(Ordering::Relaxed);
            if owner == me {
                if self.is_for_a_fork() {
                    return Some(Had::Kept);
                }
                let inside = handlers::is_inside(self.frame.load(Ordering::Relaxed), here);
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

    /// Free again, whoever had it: in the only thread of a forked child. Whether somebody had.
    pub fn reset(&self) -> bool {
        let torn = self.owner.load(Ordering::Relaxed) != 0;
        if torn {
            self.unlock();
        }
        torn
    }
}
