//! When to say what arrived.
//!
//! At once where the sender can do something with it: a part that came out of order or twice, a gap that closed, a
//! question, room where there was none. Else after a few parts, or a moment later: often a frame goes back anyway, and
//! takes it along. Where one did lately, each time, as in an exchange of questions and answers, the moment is longer, or a timer
//! would be set for each question and taken back.

/// Where so many acknowledgements in a row were taken along, the next one waits so many times as long.
const ALONG: u8 = 8;
const LONGER: u64 = 5;

/// After so many that parts brought along, one behind the other, the next one may wait for as long as [`longest`]: fewer than it
/// takes, since some may not have come.
pub(crate) const ALONG_LIKELY: u8 = ALONG / 2;

/// How long an acknowledgement waits at most that is put off by `delay`.
pub(crate) fn longest(delay: u64) -> u64 {
    delay.saturating_mul(LONGER)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub(crate) struct Ack {
    delay: u64,
    every: u8,
    parts: u8,
    /// Acknowledgements in a row that a part took along.
    along: u8,
    /// From when on it is due; nothing: the peer knows it all.
    due: Option<u64>,
}

impl Ack {
    /// After `every` parts, or `delay` nanoseconds after the first of them; five times as long where it is expected to be taken along.
    pub fn new(delay: u64, every: u8) -> Ack {
        Ack { delay, every: every.max(1), parts: 0, along: 0, due: None }
    }

    /// A part was taken that was next.
    pub fn count(&mut self, now: u64) {
        self.parts = self.parts.saturating_add(1);
        let delay = if self.along >= ALONG { longest(self.delay) } else { self.delay };
        let due = now.saturating_add(delay);
        self.due = Some(self.due.map_or(due, |earlier| earlier.min(due)));
        if self.parts >= self.every {
            self.hurry(now);
        }
    }

    /// It is due now.
    pub fn hurry(&mut self, now: u64) {
        self.due = Some(self.due.map_or(now, |due| due.min(now)));
    }

    /// A frame says it that was sent for that.
    pub fn said(&mut self) {
        (self.parts, self.along, self.due) = (0, 0, None);
    }

    /// A part takes it along.
    pub fn said_along(&mut self) {
        self.along = self.along.saturating_add(u8::from(self.due.is_some()));
        (self.parts, self.due) = (0, None);
    }

    pub fn is_due(&self, now: u64) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    pub fn due(&self) -> Option<u64> {
        self.due
    }
}

#[cfg(any(test, kernel_tests))]
pub(crate) mod tests {
    use std::{assert, assert_eq};

    use super::*;

    cases! {
        parts_may_come_for_ever_while_nobody_sends
        it_is_put_off_by_a_moment_from_the_first_part_or_by_some_parts
        what_is_taken_along_each_time_waits_longer_until_it_is_not
    }

    fn parts_may_come_for_ever_while_nobody_sends() {
        let mut ack = Ack::new(100, 255);
        (0..1000).for_each(|now| ack.count(now));
        assert_eq!(ack.due(), Some(100));
        assert!(Ack::new(100, 0).due().is_none());
    }

    fn it_is_put_off_by_a_moment_from_the_first_part_or_by_some_parts() {
        let mut ack = Ack::new(100, 3);
        ack.count(1000);
        ack.count(1050);
        assert_eq!(ack.due(), Some(1100));
        assert!(!ack.is_due(1099) && ack.is_due(1100));
        ack.count(1060);
        assert!(ack.is_due(1060));
        ack.said();
        assert_eq!(ack.due(), None);
        ack.count(2000);
        assert!(!ack.is_due(2000), "counted from none again");
        ack.hurry(2001);
        assert!(ack.is_due(2001));
    }

    fn what_is_taken_along_each_time_waits_longer_until_it_is_not() {
        let mut ack = Ack::new(100, 3);
        let exchange = |ack: &mut Ack, now| {
            ack.count(now);
            ack.said_along();
            // A part that takes nothing along is no sign.
            ack.said_along();
        };
        (0..u64::from(ALONG) - 1).for_each(|now| exchange(&mut ack, now));
        ack.count(1000);
        assert_eq!(ack.due(), Some(1100));
        ack.said_along();
        ack.count(2000);
        assert_eq!(ack.due(), Some(2000 + 100 * LONGER));
        ack.count(2001);
        ack.count(2002);
        assert!(ack.is_due(2002), "some parts do not wait longer");
        ack.said();
        ack.count(3000);
        assert_eq!(ack.due(), Some(3100));
    }
}
