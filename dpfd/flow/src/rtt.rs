//! How long an answer takes, and how long to wait for one (RFC 6298).
//!
//! The estimate is smoothed by 1/8 for each sample and its deviation by 1/4; the time-out is the estimate and four
//! deviations. These are the RFC's constants, from Jacobson (1988): shifts instead of divisions, slow enough that one
//! odd sample does not move the time-out much, and four deviations are rarely exceeded by what is only late. Only parts
//! that were sent once are samples (Karn): of others nobody knows which copy was answered. Two things differ from the
//! RFC, as its networks were the internet and its clocks ticked in tenths of seconds: the least time-out is a few
//! milliseconds, to be set; and the clock's grain, G, is taken for nothing.

use crate::ack::{longest, ALONG_LIKELY};

/// Limits of the time-out, nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Limits {
    /// Before there is a sample. 20 ms: the RFC's second is for paths over half the earth.
    pub first: u64,
    /// At least. 2 ms: above what an acknowledgement is put off by, and what a busy machine keeps a process from
    /// running; below that, what is only late would be sent again.
    pub least: u64,
    /// At most, however often it was doubled. 1 s: a link that comes back is noticed within that.
    pub most: u64,
}

impl Limits {
    /// For machines in one room.
    pub const DEFAULT: Limits = Limits { first: 20_000_000, least: 2_000_000, most: 1_000_000_000 };
}

#[derive(Clone, Debug, Hash)]
pub(crate) struct Rtt {
    limits: Limits,
    /// Nanoseconds; nothing before the first sample.
    smoothed: Option<u64>,
    deviation: u64,
    /// The shortest sample.
    shortest: u64,
    /// The last sample.
    latest: u64,
    /// How much of that the peer may have waited before it answered, beyond what is usual.
    put_off: u64,
    /// Answers in a row that a part of the peer's brought along.
    along: u8,
    /// How often the time-out was doubled.
    doubled: u32,
}

impl Rtt {
    /// `shortest`: an answer on this way took so long, once; 0: it is not known.
    pub fn new(limits: Limits, shortest: u64) -> Rtt {
        let shortest = if shortest == 0 { u64::MAX } else { shortest };
        Rtt { limits, smoothed: None, deviation: 0, shortest, latest: 0, put_off: 0, along: 0, doubled: 0 }
    }

    /// An answer took so long.
    pub fn sample(&mut self, took: u64) {
        // Longer than a minute is no answer, but a clock that jumped; and nothing below overflows.
        let took = took.min(60_000_000_000);
        (self.latest, self.put_off) = (took, 0);
        self.shortest = self.shortest.min(took);
        match self.smoothed {
            None => {
                self.smoothed = Some(took);
                self.deviation = took / 2;
            }
            Some(smoothed) => {
                self.deviation = (3 * self.deviation + smoothed.abs_diff(took)) / 4;
                self.smoothed = Some((7 * smoothed + took) / 8);
            }
        }
    }

    /// The peer, which puts off acknowledgements by `delay`, may have put off the one that was the last sample for longer than that:
    /// it does so where its parts took the former ones along, and few parts are on their way.
    pub fn may_be_put_off(&mut self, delay: u64) {
        self.put_off = if self.along >= ALONG_LIKELY { longest(delay) } else { 0 };
    }

    /// Something was answered: whether by a part, or by a frame that was sent for that.
    pub fn came(&mut self, along: bool) {
        self.along = if along { ALONG_LIKELY.min(self.along + 1) } else { 0 };
    }

    /// It is known again how long an answer takes: a time-out is as long as ever.
    pub fn answered(&mut self) {
        self.doubled = 0;
    }

    /// Nothing was answered in time: the next time-out is twice as long.
    pub fn double(&mut self) {
        self.doubled = (self.doubled + 1).min(16);
    }

    /// How long to wait, nanoseconds.
    pub fn timeout(&self) -> u64 {
        let Limits { first, least, most } = self.limits;
        let once = self.smoothed.map_or(first, |smoothed| smoothed + 4 * self.deviation);
        once.max(least).saturating_mul(1 << self.doubled).min(most.max(least))
    }

    /// The smoothed estimate, nanoseconds; 0 before there is one.
    pub fn smoothed(&self) -> u64 {
        self.smoothed.unwrap_or(0)
    }

    /// Whether answers take clearly longer than they can: something waits in a queue on the way. A quarter of a
    /// millisecond is what processes are late by, and proves nothing; nor does what the peer may have waited with its answer.
    pub fn is_queueing(&self) -> bool {
        let usual = self.shortest.saturating_add(self.shortest / 4 + 250_000).saturating_add(self.put_off);
        self.smoothed.is_some() && self.latest > usual
    }

    /// Whether an answer after so long can be one to the latest copy.
    pub fn is_plausible(&self, took: u64) -> bool {
        self.shortest == u64::MAX || took >= self.shortest - self.shortest / 4
    }
}

#[cfg(any(test, kernel_tests))]
pub(crate) mod tests {
    use std::{assert, assert_eq};

    use super::*;

    cases! {
        the_time_out_is_the_estimate_and_four_deviations
        time_outs_double_up_to_a_limit_until_something_is_answered
        a_clock_that_jumps_overflows_nothing
    }

    const MS: u64 = 1_000_000;

    fn the_time_out_is_the_estimate_and_four_deviations() {
        let mut rtt = Rtt::new(Limits { first: 20 * MS, least: MS, most: 1000 * MS }, 0);
        assert_eq!((rtt.timeout(), rtt.smoothed()), (20 * MS, 0));
        rtt.sample(8 * MS);
        assert_eq!(rtt.timeout(), (8 + 4 * 4) * MS);
        rtt.sample(16 * MS);
        // 7/8 * 8 + 1/8 * 16 = 9; 3/4 * 4 + 1/4 * 8 = 5.
        assert_eq!((rtt.smoothed(), rtt.timeout()), (9 * MS, 29 * MS));
        (0..100).for_each(|_| rtt.sample(10));
        assert_eq!(rtt.timeout(), MS, "never less than asked for");
    }

    fn time_outs_double_up_to_a_limit_until_something_is_answered() {
        let mut rtt = Rtt::new(Limits { first: 20 * MS, least: MS, most: 100 * MS }, 0);
        let mut doubled = || {
            rtt.double();
            rtt.timeout()
        };
        assert_eq!([doubled(), doubled(), doubled()], [40 * MS, 80 * MS, 100 * MS]);
        (0..100).for_each(|_| rtt.double());
        assert_eq!(rtt.timeout(), 100 * MS);
        rtt.answered();
        assert_eq!(rtt.timeout(), 20 * MS);
    }

    fn a_clock_that_jumps_overflows_nothing() {
        let mut rtt = Rtt::new(Limits::DEFAULT, 0);
        rtt.sample(u64::MAX);
        rtt.sample(0);
        rtt.sample(u64::MAX);
        assert_eq!(rtt.timeout(), Limits::DEFAULT.most);
        assert!(rtt.is_queueing() && rtt.is_plausible(0));
        let mut rtt = Rtt::new(Limits { first: u64::MAX / 2, least: 0, most: u64::MAX }, 0);
        (0..5).for_each(|_| rtt.double());
        assert_eq!(rtt.timeout(), u64::MAX);
    }
}
