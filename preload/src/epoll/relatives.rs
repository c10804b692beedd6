//! Whether a relative waits on a set of this process's, too: then nothing in it is hot.
//!
//! A forked child has its parent's kernel set. What the parent has hot and the child does not know, a bell or an event tells
//! the kernel's set, and the kernel wakes one of the two. Most children never look, so the parent's connections stay hot
//! until one does: it counts that in the family's memory, and wakes who sleeps there. The parent looks at the count
//! before it sleeps, behind the word by which it says so.

use core::sync::atomic::{fence, AtomicU32, Ordering};

use dp_edge::sys::raw;

use super::event::Event;
use crate::state;

/// Zero: no process was forked since the set was made.
pub struct Relatives(AtomicU32);

/// No more is to be learnt of the set.
const KNOWN: u32 = u32::MAX;

/// How long whoever sleeps in a set has to wake before the relative that woke it waits there itself, ns; once for each set.
const OTHERS_FIRST: u32 = 1_000_000;

/// Sets that relatives have begun to use, from 1 on.
fn count() -> u32 {
    let sets = state::family().map_or(0, |family| family.header().sets.load(Ordering::Relaxed));
    sets % (KNOWN - 1) + 1
}

impl Relatives {
    /// A new set.
    pub fn renew(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// A process is about to be forked.
    pub fn may_be(&self) {
        if self.0.load(Ordering::Relaxed) == 0 {
            self.0.store(count(), Ordering::Relaxed);
        }
    }

    /// Whether one may begin to use the set while this process sleeps in it.
    pub fn may_come(&self) -> bool {
        !matches!(self.0.load(Ordering::Relaxed), 0 | KNOWN)
    }

    /// Whether one has begun to use a set since: perhaps this one. Says so once. The caller has said that it sleeps, and
    /// fenced.
    pub fn wait(&self) -> bool {
        let before = self.0.load(Ordering::Relaxed);
        let news = before != 0 && before != KNOWN && before != count();
        if news {
            self.0.store(KNOWN, Ordering::Relaxed);
        }
        news
    }
}

/// This process begins to use a set that it has inherited. Who sleeps in it is woken by the set's own event, where `wakes` says
/// so: by an event of this process in the kernel's set, which is known by its value as the parent's is.
pub fn begin(wakes: Option<(&Event, i32)>) {
    let Some(family) = state::family() else { return };
    family.header().sets.fetch_add(1, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    if let Some((_, fd)) = wakes.and_then(|(event, set)| event.of(set)) {
        raw::signal_event(fd);
        // The kernel tells it to whoever asks first: not to this process, which is about to.
        raw::nap(OTHERS_FIRST);
    }
}
