//! The lock of one direction: short, known by its owner, taken over from the dead (PROTOCOLS L2-L5).
//!
//! It lies in the family's memory, never in the arena, so a peer cannot wedge it. Nothing waits for a peer
//! while holding it, but for a blocking sender's short naps before it hands back, where others do not want it for long, any sender's before it goes over to a
//! longer ring, which needs memory as well, and a leaver's bounded wait
//! for room on TCP; a waiter spins, then yields, then naps and asks whether the owner is alive: its process, and its
//! thread, which a handler that calls pthread_exit(3) or a cancellation ends in the middle.

use super::{member, Family};
use crate::handlers;
use dp_edge::sync::{relax, AtomicU64, Ordering};
use dp_edge::sys::raw;

/// A lock: its word is 0, or member and thread of the owner, with a mark that somebody waits.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Lock {
    word: AtomicU64,
    /// Where the owner took it ([`handlers::mark`]): tells a signal handler inside it from a lock left by longjmp.
    frame: AtomicU64,
}

/// In the word: somebody has waited for a while. An owner that takes the lock again and again, and holds it for most of the
/// time, gives way then; a waiter that naps would find it free once in hundreds of times. Thread numbers are shorter.
const WANTED: u64 = 1 << 31;

/// In the word, in place of a thread's number, which are all below 2^22: the lock is nobody's, and what it guards is as somebody
/// who died had left it. No kernel knows such a thread, so that to anybody it is one that has ended.
const NOBODY: u32 = (WANTED - 1) as u32;

/// How often an owner that gives way looks whether somebody has taken the lock, and how long it naps if nobody has, ns:
/// longer than a waiter.
const LOOKS: u32 = 10;
/// See [`LOOKS`].
const WAY: u32 = 80_000;

/// How long a waiter looks after it has marked the word: some microseconds.
const FOLLOW: u32 = 200;

/// How the lock was got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// It was free.
    Clean,
    /// Its owner, thread or process, ended, or left it by longjmp: mend what it may have left half done.
    Inherited,
    /// It was not: this very thread has it already, and we are in a signal handler inside. What it guards
    /// is half done and must be left alone, and the lock is not ours to give back.
    Mine,
}

/// The owner word of thread `tid` of member `member`.
#[cfg(test)]
pub fn owner(member: u32, tid: u32) -> u64 {
    (u64::from(member + 1) << 32) | u64::from(tid)
}

/// In place of a member's number: a process that is none, in the pid namespace that the other bits say.
const STRANGER: u32 = 1 << 31;

/// The owner word of thread `tid` of this process, which is no member: there are too many already.
pub fn stranger(tid: u32) -> u64 {
    (u64::from(STRANGER | member::space()) << 32) | u64::from(tid)
}

/// Whether the thread in an owner word, or its process, has ended.
fn gone(family: Family, word: u64) -> bool {
    let (of, tid) = ((word >> 32) as u32, thread(word));
    match of {
        _ if tid == NOBODY => true,
        // Of a process that does not know who it is.
        0 => false,
        _ if of & STRANGER != 0 => of == STRANGER | member::space() && member::is_gone_without_place(tid),
        _ => {
            let member = family.member(of as usize - 1);
            !member.alive() || !member.has_thread(tid)
        }
    }
}

/// The thread in a lock's word.
fn thread(word: u64) -> u32 {
    (word & !WANTED) as u32
}

impl Lock {
    /// Takes the lock, unless this thread has it already: see [`Held`].
    #[inline(always)]
    pub fn lock(&self, me: u64, family: Family) -> Held {
        let here = 0u8;
        let held = if self.free_to(me) { Held::Clean } else { self.wait(me, &here, family) };
        if held != Held::Mine {
            self.frame.store(handlers::mark(&here), Ordering::Relaxed);
        }
        held
    }

    /// Takes the lock only if nobody has it.
    #[inline(always)]
    pub fn try_lock(&self, me: u64) -> bool {
        let here = 0u8;
        let free = self.free_to(me);
        if free {
            self.frame.store(handlers::mark(&here), Ordering::Relaxed);
        }
        free
    }

    #[inline(always)]
    fn free_to(&self, me: u64) -> bool {
        self.word.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn wait(&self, me: u64, here: *const u8, family: Family) -> Held {
        let mut turn = 0u32;
        loop {
            let now = self.word.load(Ordering::Relaxed);
            if now & !WANTED == me {
                return self.held_by_me(here);
            }
            if now == 0 {
                if self.free_to(me) {
                    return Held::Clean;
                }
                continue;
            }
            if thread(now) == NOBODY {
                if self.take_from(now, me) {
                    return Held::Inherited;
                }
                continue;
            }
            turn += 1;
            match turn {
                0..=200 => relax(),
                201..=220 => raw::yield_now(),
                _ => {
                    self.want();
                    // An owner that runs sees that at once, and lets us in while we look; after a nap it may be back.
                    for _ in 0..FOLLOW {
                        if self.word.load(Ordering::Relaxed) == 0 && self.free_to(me) {
                            return Held::Clean;
                        }
                        relax();
                    }
                    raw::nap(50_000);
                    if turn % 64 == 0 && gone(family, now) && self.take_from(now, me) {
                        return Held::Inherited;
                    }
                }
            }
        }
    }

    /// How this thread, whose the lock is, has it; it is `here` on its stack now.
    fn held_by_me(&self, here: *const u8) -> Held {
        if handlers::is_inside(self.frame.load(Ordering::Relaxed), here) {
            Held::Mine
        } else {
            Held::Inherited
        }
    }

    /// Takes the lock without waiting for anybody, unless this thread has it already. `None`: another one has it, and lives.
    pub fn lock_at_once(&self, me: u64, family: Family) -> Option<Held> {
        let here = 0u8;
        let now = self.word.load(Ordering::Relaxed);
        let held = if now & !WANTED == me {
            self.held_by_me(&here)
        } else if self.free_to(me) {
            Held::Clean
        } else if now != 0 && gone(family, now) && self.take_from(now, me) {
            Held::Inherited
        } else {
            return None;
        };
        if held != Held::Mine {
            self.frame.store(handlers::mark(&here), Ordering::Relaxed);
        }
        Some(held)
    }

    /// Somebody waits for the lock. Where the owner is another by the time that this is said, it is said to none.
    pub(super) fn want(&self) {
        let now = self.word.load(Ordering::Relaxed);
        if now != 0 && now & WANTED == 0 {
            let _ = self.word.compare_exchange(now, now | WANTED, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Whether somebody has said that it waits for the lock, as it is held now.
    #[inline(always)]
    pub fn is_wanted(&self) -> bool {
        self.word.load(Ordering::Relaxed) & WANTED != 0
    }

    /// Takes the lock if its owner has ended.
    pub fn take_from_dead(&self, me: u64, family: Family) -> bool {
        let now = self.word.load(Ordering::Relaxed);
        now != 0 && now & !WANTED != me && gone(family, now) && self.take_from(now, me)
    }

    /// Takes the lock from an owner that has ended; somebody who waits may have said so since `now`.
    fn take_from(&self, now: u64, me: u64) -> bool {
        [now, now | WANTED]
            .into_iter()
            .any(|now| self.word.compare_exchange(now, me, Ordering::Acquire, Ordering::Relaxed).is_ok())
    }

    /// Gives the lock back.
    #[inline(always)]
    pub fn unlock(&self) {
        // A handler that comes before the next owner has noted its place is inside, too.
        self.frame.store(u64::MAX, Ordering::Relaxed);
        self.word.store(0, Ordering::Release);
    }

    /// The same, for an owner that may be back at once: where somebody has waited for long, it is let in first.
    #[inline(always)]
    pub fn unlock_to_others(&self) {
        // A mark that comes after this look is seen at the next end.
        let wanted = self.is_wanted();
        self.unlock();
        if wanted {
            self.give_way();
        }
    }

    #[cold]
    fn give_way(&self) {
        for _ in 0..LOOKS {
            raw::yield_now();
            if self.word.load(Ordering::Relaxed) != 0 {
                return;
            }
        }
        // A waiter that is gone by now costs this much once.
        raw::nap(WAY);
    }

    /// Gives back what was got as `held`, with nothing done under it. What was inherited is the next one's to mend.
    pub fn unlock_as_it_was(&self, held: Held) {
        match held {
            Held::Clean => self.unlock(),
            Held::Inherited => {
                let of = self.word.load(Ordering::Relaxed) >> 32 << 32;
                self.frame.store(u64::MAX, Ordering::Relaxed);
                self.word.store(of | u64::from(NOBODY), Ordering::Release);
            }
            Held::Mine => {}
        }
    }

    /// Whether it was given back for the next one to inherit: nobody is in what it guards.
    pub fn is_to_be_inherited(&self) -> bool {
        thread(self.word.load(Ordering::Acquire)) == NOBODY
    }

    /// Somebody who only looks: whether nobody has it. Acquire: whoever sees that sees all that was done under it.
    pub(super) fn is_free(&self) -> bool {
        self.word.load(Ordering::Acquire) == 0
    }

    /// For a new entry. Somebody who took the entry for what it was before may have the lock for a moment.
    pub fn renew(&self) {
        if self.word.load(Ordering::Relaxed) == 0 {
            self.frame.store(u64::MAX, Ordering::Relaxed);
        }
    }
}
