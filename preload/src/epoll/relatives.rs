//! Whether a relative waits on a set of this process's, too: then nothing in it is hot.
//!
//! A forked child has its parent's kernel set. What the parent has hot and the child does not know, a bell or an event tells
//! the kernel's set, and the kernel wakes one of the two. Most children never look, so the parent's connections stay hot
//! until one does: it counts that in the family's memory, and then, if somebody sleeps there, wakes him and waits until he is awake.
//! The parent counts itself before it sleeps, and looks at the child's count behind that: one of the two sees the other.
//!
//! A set gets a number when a process is forked. The counts are those of [`FORKED_SETS`] sets: two with the same ones are taken for one
//! another, which costs what is hot, and a moment for who begins.

use core::sync::atomic::{AtomicU32, Ordering};

use dp_channel::family::{ForkedSet, FORKED_SETS};
use dp_edge::sys::raw;

use super::event::{self, Event};
use crate::state;

/// All zero: no process was forked since the set was made.
pub struct Relatives {
    /// By which parent and child know the set; 0: none.
    number: AtomicU32,
    /// Relatives that had begun to use it when it got its number; or [`KNOWN`].
    begun: AtomicU32,
}

/// One has begun since, and no more is to be learnt.
const KNOWN: u32 = u32::MAX;

/// How often whoever sleeps is looked at until he is awake, and how long is waited in between, ns: some 10 ms in all. He may be
/// stopped, or have been ended in his sleep.
const TRIES: u32 = 200;
const TRY: u32 = 50_000;

fn counts(number: u32) -> Option<&'static ForkedSet> {
    let sets = &state::family()?.header().sets;
    (number != 0).then(|| &sets[number as usize % FORKED_SETS])
}

fn begun(of: &ForkedSet) -> u32 {
    of.begun.load(Ordering::SeqCst) % KNOWN
}

/// Whoever sleeps in a set that relatives may begin to use.
#[must_use]
pub struct Asleep(Option<&'static ForkedSet>);

impl Asleep {
    /// He is awake.
    pub fn ends(self) {
        if let Some(counts) = self.0 {
            counts.asleep.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Relatives {
    /// A new set.
    pub fn renew(&self) {
        self.number.store(0, Ordering::Relaxed);
        self.begun.store(0, Ordering::Relaxed);
    }

    /// A process is about to be forked.
    pub fn may_be(&self) {
        if self.number.load(Ordering::Relaxed) != 0 {
            return;
        }
        let number = event::next_number().unwrap_or(0);
        if let Some(counts) = counts(number) {
            self.begun.store(begun(counts), Ordering::Relaxed);
            self.number.store(number, Ordering::Release);
        }
    }

    /// Whether one may begin to use the set while this process sleeps in it.
    pub fn may_come(&self) -> bool {
        self.number.load(Ordering::Relaxed) != 0 && self.begun.load(Ordering::Relaxed) != KNOWN
    }

    /// Whether one has begun to use the set since.
    pub fn began(&self) -> bool {
        let (number, known) = (self.number.load(Ordering::Relaxed), self.begun.load(Ordering::Relaxed));
        number != 0 && (known == KNOWN || counts(number).is_some_and(|counts| begun(counts) != known))
    }

    /// This process is about to sleep in the set; `hot`: something in it is. `None`: a relative has begun to use it, so nothing may
    /// be; that is said once.
    pub fn falls_asleep(&self, hot: bool) -> Option<Asleep> {
        let known = || self.begun.load(Ordering::Relaxed);
        let looks_out = hot && self.may_come();
        let Some(counts) = counts(self.number.load(Ordering::Relaxed)).filter(|_| looks_out) else {
            return Some(Asleep(None));
        };
        counts.asleep.fetch_add(1, Ordering::SeqCst);
        let asleep = Asleep(Some(counts));
        if begun(counts) == known() {
            return Some(asleep);
        }
        asleep.ends();
        self.begun.store(KNOWN, Ordering::Relaxed);
        None
    }

    /// This process begins to use a set that it has inherited. `wakes`: by an event of its in the kernel's set, which is known there
    /// by its value as the parent's is.
    pub fn begin(&self, wakes: Option<(&Event, i32)>) {
        let Some(counts) = counts(self.number.load(Ordering::Relaxed)) else { return };
        counts.begun.fetch_add(1, Ordering::SeqCst);
        let is_asleep = || counts.asleep.load(Ordering::SeqCst) != 0;
        let Some((event, set)) = wakes.filter(|_| is_asleep()) else { return };
        let Some((_, fd)) = event.of(set) else { return };
        raw::signal_event(fd);
        // The kernel tells it to whoever asks first: not to this process, which is about to.
        for _ in 0..TRIES {
            if !is_asleep() {
                event.end(set);
                return;
            }
            raw::nap(TRY);
        }
    }
}
