// SPDX-License-Identifier: GPL-2.0

//! Messages of other nodes of which not all parts have come.
//!
//! Parts come in order, or one was lost. The frames themselves are kept, so that a message goes into its pool in one
//! go: one that stays incomplete stands in nobody's way there.

use core::array;

use kernel::prelude::*;

use crate::{ether::Part, frame::Frame};

#[cfg(CONFIG_KUNIT = "y")]
mod tests;

/// Messages on their way in at once. One more, and the one that began first is given up.
const PARTIALS: usize = 32;

pub(crate) struct Assembly {
    partials: [Option<Partial>; PARTIALS],
    begun: u64,
}

struct Partial {
    /// Of its first part; `bytes` is what has come of it.
    frame: Frame,
    came: u32,
    parts: KVec<Part>,
    /// Counts up.
    since: u64,
}

/// What a part was for its message.
pub(crate) enum Added {
    /// More is to come. How many messages were given up for it.
    Partly(u64),
    /// The last.
    Whole(KVec<Part>),
    /// What it belongs to is not there: a part before it was lost. How many messages were given up.
    Lost(u64),
}

impl Partial {
    fn is_of(&self, frame: &Frame) -> bool {
        (self.frame.from_nid, self.frame.from_dpid, self.frame.to_nid, self.frame.to_dpid)
            == (frame.from_nid, frame.from_dpid, frame.to_nid, frame.to_dpid)
    }
}

impl Assembly {
    pub(crate) fn new() -> Self {
        Self { partials: array::from_fn(|_| None), begun: 0 }
    }

    /// One more part. What is dropped of others is given to the caller, who has the lock.
    pub(crate) fn add(&mut self, frame: &Frame, part: Part) -> Added {
        let place = self.partials.iter().position(|p| p.as_ref().is_some_and(|p| p.is_of(frame)));
        if frame.begin == 0 {
            return self.begin(place, frame, part);
        }
        let Some(place) = place else { return Added::Lost(0) };
        let partial = self.partials[place].as_mut().filter(|p| {
            p.frame.number == frame.number
                && p.frame.total == frame.total
                && p.came == frame.begin
                && p.frame.uid == frame.uid
        });
        let Some(partial) = partial else {
            // Part of one that came later than the one here, or of one that was given up.
            self.partials[place] = None;
            return Added::Lost(1);
        };
        if partial.parts.push(part, GFP_ATOMIC).is_err() {
            self.partials[place] = None;
            return Added::Lost(1);
        }
        partial.came += u32::from(frame.bytes);
        if partial.came < partial.frame.total {
            return Added::Partly(0);
        }
        match self.partials[place].take() {
            Some(partial) => Added::Whole(partial.parts),
            None => Added::Lost(0),
        }
    }

    fn begin(&mut self, place: Option<usize>, frame: &Frame, part: Part) -> Added {
        let free = || self.partials.iter().position(Option::is_none);
        let oldest = || (0..PARTIALS).min_by_key(|i| self.partials[*i].as_ref().map_or(0, |p| p.since));
        let Some(place) = place.or_else(free).or_else(oldest) else { return Added::Lost(0) };
        let given_up = u64::from(self.partials[place].take().is_some());
        let mut parts = KVec::new();
        if parts.push(part, GFP_ATOMIC).is_err() {
            return Added::Lost(given_up + 1);
        }
        self.begun += 1;
        let came = frame.bytes.into();
        self.partials[place] = Some(Partial { frame: *frame, came, parts, since: self.begun });
        Added::Partly(given_up)
    }
}
