//! The lock of one direction: short, known by its owner, taken over from the dead (PROTOCOLS L2-L5).
//!
//! It lies in the family's memory, never in the arena, so a peer cannot wedge it. Nothing waits for a peer
//! while holding it, but for a blocking sender's short naps before it hands back, and a leaver's bounded wait
//! for room on TCP; a waiter spins, then yields, then naps and asks whether the owner is alive.

use super::Family;
use crate::sync::{relax, AtomicU64, Ordering};
use crate::sys::raw;

/// A lock word: 0, or member and thread of the owner.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Lock(AtomicU64);

/// How the lock was got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// It was free.
    Clean,
    /// Its owner died: mend what it may have left half done.
    Inherited,
    /// This very thread has it: we are in a signal handler inside it, or it was left by longjmp.
    Mine,
}

/// The owner word of thread `tid` of member `member`.
#[cfg(test)]
pub fn owner(member: u32, tid: u32) -> u64 {
    (u64::from(member + 1) << 32) | u64::from(tid)
}

impl Lock {
    /// Takes the lock. A thread that finds itself in it is told so, and has it.
    #[inline(always)]
    pub fn lock(&self, me: u64, family: Family) -> Held {
        if self.0.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            Held::Clean
        } else {
            self.wait(me, family)
        }
    }

    /// Takes the lock only if nobody has it.
    #[inline(always)]
    pub fn try_lock(&self, me: u64) -> bool {
        self.0.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn wait(&self, me: u64, family: Family) -> Held {
        let mut turn = 0u32;
        loop {
            let now = self.0.load(Ordering::Relaxed);
            if now == me {
                return Held::Mine;
            }
            if now == 0 {
                if self.try_lock(me) {
                    return Held::Clean;
                }
                continue;
            }
            turn += 1;
            match turn {
                0..=200 => relax(),
                201..=220 => raw::yield_now(),
                _ => {
                    raw::nap(50_000);
                    // Member 0 is a process that is no member: it cannot be asked.
                    let owner = (now >> 32) as usize;
                    let dead = turn % 64 == 0 && owner != 0 && !family.member(owner - 1).alive();
                    if dead && self.0.compare_exchange(now, me, Ordering::Acquire, Ordering::Relaxed).is_ok()
                    {
                        return Held::Inherited;
                    }
                }
            }
        }
    }

    /// Gives the lock back.
    #[inline(always)]
    pub fn unlock(&self) {
        self.0.store(0, Ordering::Release);
    }

    /// Free again, whoever had it. Only when the entry is made new.
    pub fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}
