//! Work that whoever comes by does, one at a time, and one *helper* where nobody comes: the agreements that make it so
//! (PROTOCOLS N16, N17). The lock itself is the caller's.
//!
//! ```text
//!   who has work for a thing that somebody else has     who has it
//!     left = 1                                            lets go of it
//!     fence                                               fence
//!     tries to have it                                    left?  takes it again
//!
//!   who has done something                              the helper
//!     due = when the next thing is to be done             planned = until when it sleeps
//!     fence                                               fence
//!     planned much later than due?  wakes it              due earlier than planned?  not so long
//!
//!   whom routes woke                                    the helper, while routes wake somebody
//!     leader = 0                                          relies = 1
//!     fence                                               fence
//!     relies?  wakes it                                   leader?  sleeps
//! ```
//!
//! Of each pair one sees what the other has stored.

use crate::sync::{fence, AtomicU32, AtomicU64, Ordering};

/// How much later than due the helper may do something, so that those who come by often need not wake it, ns.
pub const LATE: u64 = 1_000_000;

/// As above.
#[derive(Debug, Default)]
pub struct Turns {
    left: AtomicU32,
    due: AtomicU64,
    planned: AtomicU64,
    /// Waits of callers that began, callers that wait and take what there is, and whether there is one whom routes wake: hints, from
    /// which no message depends.
    waits: AtomicU32,
    waiting: AtomicU32,
    leader: AtomicU32,
    /// The helper sleeps for as long as that one does.
    relies: AtomicU32,
}

impl Turns {
    /// Nothing is left, and the helper does not sleep.
    pub fn new() -> Turns {
        Turns::default()
    }

    /// Says that work is left for whoever has the thing. [`Turns::visit`] must follow.
    #[inline]
    pub fn leave(&self) {
        self.left.store(1, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// Has `work` done if `get` gives the thing, and again as long as others left some, which it is told. Dropping what `get` gave
    /// lets go of it. Whether it was done here at least once; if not, whoever has the thing does what was left.
    #[inline]
    pub fn visit<G>(&self, mut get: impl FnMut() -> Option<G>, mut work: impl FnMut(&mut G, bool)) -> bool {
        let mut done = false;
        loop {
            let Some(mut thing) = get() else { return done };
            let left = self.take_left();
            work(&mut thing, left);
            drop(thing);
            done = true;
            fence(Ordering::SeqCst);
            if self.left.load(Ordering::Relaxed) == 0 {
                return true;
            }
        }
    }

    /// What was left until now is done by the caller, who has the thing.
    #[inline]
    fn take_left(&self) -> bool {
        self.left.load(Ordering::Relaxed) != 0 && self.left.swap(0, Ordering::AcqRel) != 0
    }

    /// When something is to be done next, ns; `u64::MAX`: nothing is. By who has the thing. True: the helper is to be woken.
    #[inline]
    pub fn is_due(&self, at: u64) -> bool {
        self.due.store(at, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        // Woken once: what it plans next it plans behind that.
        at.saturating_add(LATE) < self.planned.load(Ordering::Relaxed)
            && self.planned.swap(0, Ordering::Relaxed) != 0
    }

    /// What was said last.
    #[inline]
    pub fn due(&self) -> u64 {
        self.due.load(Ordering::Relaxed)
    }

    /// The helper is about to sleep until then, or for less: until when.
    pub fn plan(&self, until: u64) -> u64 {
        loop {
            let at = until.min(self.due());
            self.planned.store(at, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if until.min(self.due()) >= at {
                return at;
            }
        }
    }

    /// The helper is about to sleep until then, which is no more than [`LATE`] ahead: callers do what is due before, or it is late by
    /// no more than that.
    pub fn plan_late(&self, until: u64) {
        self.planned.store(until, Ordering::Relaxed);
    }

    /// A caller waits from here on, and steps. Whether it is the one whom routes wake if it sleeps: one at a time, and not one that
    /// `yields` where others wait, too.
    #[inline]
    pub fn begin_wait(&self, yields: bool) -> bool {
        // One that is lost is a hint less.
        self.waits.store(self.waits.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        let others = self.waiting.fetch_add(1, Ordering::Relaxed) > 0;
        !(yields && others)
            && self.leader.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// It does not any more; `led`: what [`Turns::begin_wait`] said. True: the helper is to be woken.
    #[inline]
    pub fn end_wait(&self, led: bool) -> bool {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        if !led {
            return false;
        }
        self.leader.store(0, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.relies.load(Ordering::Relaxed) != 0 && self.relies.swap(0, Ordering::Relaxed) != 0
    }

    /// How many waits began so far.
    pub fn waits(&self) -> u32 {
        self.waits.load(Ordering::Relaxed)
    }

    /// Whether routes wake a caller, or callers have waited since there were so many waits, and none does now: one of them takes what
    /// comes, or is back soon.
    pub fn are_taken(&self, since: u32) -> bool {
        self.has_leader() || self.waits() != since && self.waiting.load(Ordering::Relaxed) == 0
    }

    /// The helper is about to sleep for as long as the one whom routes wake does. False: there is none by now.
    pub fn rely(&self) -> bool {
        self.relies.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let may = self.has_leader();
        if !may {
            self.stop_relying();
        }
        may
    }

    /// It does not sleep any more.
    pub fn stop_relying(&self) {
        self.relies.store(0, Ordering::Relaxed);
    }

    /// The one whom routes wake did not come: it may never come, as a call that was cancelled does not. The next takes its place.
    pub fn forget_leader(&self) {
        self.leader.store(0, Ordering::Relaxed);
    }

    /// Whether there is one whom routes wake.
    pub fn has_leader(&self) -> bool {
        self.leader.load(Ordering::Relaxed) > 0
    }
}

#[cfg(all(test, loom))]
mod loom_turns;
#[cfg(all(test, not(loom)))]
mod tests;
