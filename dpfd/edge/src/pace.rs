//! How often a receiver that spins looks at its edge.
//!
//! Every look at a header that is not there yet takes its line from the sender, who wants to write it. While
//! messages are far apart that is the point of spinning. While they come as fast as they can be sent, both
//! sides move in step, two transfers of a line for each message. A receiver that looks away for a moment
//! finds several messages at once, and the sender writes them undisturbed.
//!
//! So it looks away after it took the last message there was, if it had found more than one in a row. Where
//! they come one at a time but close together, it tries; if that did not bring several, they are answers to
//! its own messages, or come at just that distance, and it does not try again for a while.

use crate::sync::relax;

/// Looks in vain before a message, below which it came close behind the one before. About 50 ns: an
/// answer to a message of ours takes twice that at least.
const CLOSE: u32 = 24;
/// Pauses that a look away lasts, about 0.1 us.
const AWAY: u32 = 8;
/// Times of going without, after a try in vain.
const PENALTY: u32 = 256;

/// One receiver's pace: [`Pace::got`] after each message, [`Pace::nothing`] after each look in vain.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pace {
    /// Messages since the last look in vain.
    run: u32,
    /// Looks in vain since the last message, and before it.
    looks: u32,
    before: u32,
    /// Looked away without knowing that it pays.
    trying: bool,
    penalty: u32,
}

impl Pace {
    /// A message was there.
    #[inline(always)]
    pub fn got(&mut self) {
        self.run += 1;
        if self.looks != 0 {
            self.before = self.looks;
            self.looks = 0;
        }
    }

    /// Nothing was there; says how often in a row.
    #[inline(always)]
    pub fn nothing(&mut self) -> u32 {
        if self.looks == 0 && self.pays() {
            (0..AWAY).for_each(|_| relax());
        }
        self.looks = self.looks.wrapping_add(1).max(1);
        self.looks
    }

    /// The first look in vain after a message: whether to look away.
    fn pays(&mut self) -> bool {
        let several = self.run > 1;
        if self.trying && !several {
            self.penalty = PENALTY;
        }
        self.trying = !several && self.penalty == 0 && self.before < CLOSE && self.run != 0;
        self.penalty = self.penalty.saturating_sub(1);
        self.run = 0;
        several || self.trying
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    /// Messages in runs of `run`, each run after so many looks in vain: how often the receiver looked away.
    fn looks_away(run: u32, looks: u32) -> u32 {
        let mut pace = Pace::default();
        let mut away = 0;
        for _ in 0..10_000 {
            (0..run).for_each(|_| pace.got());
            // What nothing() does, counting instead of pausing.
            away += u32::from(pace.pays());
            pace.looks = looks;
        }
        away
    }

    #[test]
    fn looks_away_only_where_messages_come_together() {
        assert_eq!(looks_away(4, 1), 10_000, "several at a time");
        assert!(looks_away(1, 1000) <= 1, "far apart: not after the first");
        assert!((1..100).contains(&looks_away(1, 5)), "close, but always one: tries now and then");
    }
}
