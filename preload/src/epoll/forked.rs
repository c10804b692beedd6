//! Forks of a process that has sets: what its child finds of them (PROTOCOLS W3, L10).
//!
//! A fork takes memory as it is, page by page, while other threads go on. So none of them is in a set meanwhile: the thread that
//! forks has the locks of all. It has them last and for the shortest time: other libraries' handlers of pthread_atfork(3),
//! which wait for locks of theirs, are called before that and behind it ([`crate::life`]). What cannot be had in time, the
//! child mends from its rows.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use dp_edge::sys::raw;

use super::places::{made, places};
use super::world::Ground;
use super::{with_index, Place};
use crate::{inside, state};

/// What other threads may do with sets while a process is forked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Others {
    /// They wait for the fork to be over.
    Wait,
    /// They go on: this fork is over only when the child has ended, or become another program.
    GoOn,
}

/// How often a fork tries to have all sets to itself, and how long is waited in between, ns: some 10 ms in all.
const TRIES: u32 = 200;
const TRY: u32 = 50_000;

/// Before a fork: parent and child are to find the same in the kernel's sets, and no other thread is in a set until [`go_on`], or the
/// child would have it half changed.
pub fn hold_still(others: Others) {
    begun().for_each(|(_, p)| p.relatives.may_be());
    let alone = inside::alone();
    ALONE.store(alone, Ordering::Relaxed);
    if others == Others::GoOn || alone {
        begun().for_each(|(i, _)| with_index(i, |set, w| set.sync(w)));
        return;
    }
    for _ in 0..TRIES {
        let Some((i, p)) = begun().find(|&(i, p)| !hold(i, p)) else { return };
        // Whoever has it may wait for another, inside of it.
        go_on();
        match p.lock.is_left() {
            true => with_index(i, |_, _| {}),
            false => raw::nap(TRY),
        }
    }
    // Its holder does not come to run, or has ended.
    for (i, p) in begun() {
        hold(i, p);
    }
}

/// Whether this thread has set `i` now, and keeps it.
fn hold(i: u32, p: &Place) -> bool {
    let Some(mut locked) = p.lock_soon(i) else { return false };
    let (set, mut w) = locked.parts();
    set.sync(&mut w);
    p.lock.keep_for_a_fork();
    true
}

/// In the parent, after a fork. Another thread may fork at the same time; and a place that is free by now was held, too, where
/// its set was closed just before.
pub fn go_on() {
    if inside::alone() {
        return;
    }
    for (i, p) in made() {
        if p.lock.unlock_after_a_fork() {
            p.wake_robbed(i);
        }
    }
}

/// Forks between the first process and this one: a set that was there before the last of them is the parent's as well.
static FORKS: AtomicU32 = AtomicU32::new(0);
/// Whether the last fork was that of a process with one thread.
static ALONE: AtomicBool = AtomicBool::new(false);
/// A thread of this child makes a set its own.
static BEGINS: AtomicU32 = AtomicU32::new(0);

/// In a forked child. Most never use the sets that they have inherited, and each page that is written to is copied, so a set is
/// its own only from its first use on.
pub fn inherited() {
    if made().next().is_some() {
        FORKS.fetch_add(1, Ordering::Relaxed);
        state::clear(&BEGINS);
    }
}

/// The sets of this process, but for those that are as its parent left them: nothing of those is to be told, kept or ended here.
pub(super) fn begun() -> impl Iterator<Item = (u32, &'static Place)> {
    places().filter(|(_, p)| p.is_begun())
}

impl Place {
    /// Before the lock is had: it is as a thread of the parent left it.
    #[inline(always)]
    pub(super) fn begin_in_child(&self, index: u32) {
        if !self.is_begun() {
            self.begin(index);
        }
    }

    /// Whether nothing of the set is as a parent left it.
    fn is_begun(&self) -> bool {
        self.forks.load(Ordering::Acquire) == FORKS.load(Ordering::Relaxed)
    }

    /// The set is the parent's, too, and its groups are the parent's alone.
    #[cold]
    fn begin(&self, index: u32) {
        let mask = raw::block_signals_but_faults();
        while BEGINS.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            raw::yield_now();
        }
        if !self.is_begun() {
            // What the lock says was so when its page was copied, and the rows may have been copied later; or it was another
            // thread's fork that held it.
            let whole = !self.lock.reset() && ALONE.load(Ordering::Relaxed);
            let mut w = Ground::new(self, index);
            w.leave_groups(true);
            // SAFETY: no thread of this process has had the lock, and the others wait for this one.
            let set = unsafe { &mut *self.set.get() };
            if !whole {
                set.rebuild(&mut w);
            }
            set.inherit(&mut w);
            self.forks.store(FORKS.load(Ordering::Relaxed), Ordering::Release);
        }
        BEGINS.store(0, Ordering::Release);
        raw::set_blocked_signals(mask);
    }
}
