//! How many parts may be on their way, so that several senders share a link.
//!
//! As TCP's (RFC 5681): twice as many in each round trip up to the first loss, one more in each round trip after, and
//! fewer by a part of them after a loss, once in a round trip. What differs: a loss counts only while answers are late
//! ([`Rtt::is_queueing`](crate::rtt::Rtt::is_queueing)). A wire that damages one frame in a hundred is not crowded, and
//! sending less would not mend it; a crowded one has its queue full before it drops. The part that stays is 7/10, as in
//! CUBIC (RFC 9438), rather than half: the queues of a room are short, and half would leave the link idle. The same holds
//! for a time-out: the first one on a way that is not crowded changes nothing, since a window of four loses its last parts
//! so often that it would stay there. And where it turns out that answers were late, everything is as before (RFC 4015): on a
//! machine with more to do than processors that is what most time-outs are.

use crate::number::ahead;

/// What is always allowed: the fewest with which a loss is noticed by what arrives after it.
const LEAST: u32 = 4;
/// Transmissions behind the next one at which the end of a former round is kept: numbers that are half of all apart cannot be
/// compared. Far more than any are on their way.
const BEHIND: u32 = 1 << 24;

#[derive(Clone, Debug, Hash)]
pub(crate) struct Congestion {
    /// Parts, in 256ths.
    window: u32,
    /// Up to here it doubles.
    threshold: u32,
    most: u32,
    /// Losses of what was sent before this are part of the former one.
    round: u32,
    /// Window and threshold before the time-outs that came last, unless these were for nothing.
    before: Option<(u32, u32)>,
}

impl Congestion {
    pub fn new(most: u32) -> Congestion {
        let most = most.max(LEAST) << 8;
        // Ten, as TCP since RFC 6928: less than what any queue holds.
        let window = most.min(10 << 8);
        Congestion { window, threshold: most, most, round: 0, before: None }
    }

    /// Parts that may be on their way.
    pub fn window(&self) -> u32 {
        self.window >> 8
    }

    /// Whether it still doubles.
    pub fn is_probing(&self) -> bool {
        self.window < self.threshold
    }

    /// The `next`th transmission comes next: a round that was long ago stays behind it.
    pub fn follow(&mut self, next: u32) {
        if next.wrapping_sub(self.round) > 2 * BEHIND {
            self.round = next.wrapping_sub(BEHIND);
        }
    }

    /// So many arrived, while all that was allowed was on its way, or would have been but for pacing by what is allowed.
    pub fn arrived(&mut self, parts: u32) {
        let more = if self.is_probing() {
            parts << 8
        } else {
            // It is never less; said here, so that nobody has to look out for a division by nothing: a kernel's tools do.
            ((u64::from(parts) << 16) / u64::from(self.window.max(LEAST << 8))) as u32
        };
        self.window = (self.window + more).min(self.most);
    }

    /// Something was lost on a crowded way that was the `order`th transmission; the next is the `next`th.
    pub fn lost(&mut self, order: u32, next: u32) {
        if ahead(order, self.round).is_some() {
            self.window = (self.window / 10 * 7).max(LEAST << 8);
            self.threshold = self.window;
            self.round = next;
            self.before = None;
        }
    }

    /// Nothing was heard in time, for the first time since something was.
    pub fn note(&mut self) {
        self.before = Some((self.window, self.threshold));
    }

    /// It was only late. Whether that is news.
    pub fn take_back(&mut self) -> bool {
        let Some((window, threshold)) = self.before.take() else { return false };
        self.window = self.window.max(window);
        self.threshold = self.threshold.max(threshold);
        true
    }

    /// Nothing arrived any more.
    pub fn silent(&mut self, next: u32) {
        // Those after it in a run find the window that the first one left, which says nothing of the way (RFC 5681, 3.1).
        if self.window > LEAST << 8 {
            self.threshold = (self.window / 2).max(LEAST << 8);
        }
        self.window = LEAST << 8;
        self.round = next;
    }
}

#[cfg(any(test, kernel_tests))]
pub(crate) mod tests {
    use std::{assert, assert_eq};

    use super::*;

    cases! {
        it_doubles_then_grows_by_one_a_round_and_shrinks_once_a_round
        a_run_of_time_outs_halves_the_threshold_once
        time_outs_for_nothing_change_nothing
        a_loss_counts_however_many_transmissions_after_the_last_one
        it_stays_between_its_limits
    }

    fn it_doubles_then_grows_by_one_a_round_and_shrinks_once_a_round() {
        let mut congestion = Congestion::new(1024);
        assert_eq!(congestion.window(), 10);
        congestion.arrived(10);
        assert_eq!(congestion.window(), 20);
        congestion.lost(3, 20);
        congestion.lost(19, 22);
        assert_eq!(congestion.window(), 14, "the same round");
        congestion.arrived(14);
        assert_eq!(congestion.window(), 15);
        congestion.lost(20, 40);
        assert_eq!(congestion.window(), 10);
    }

    fn a_run_of_time_outs_halves_the_threshold_once() {
        let mut congestion = Congestion::new(1024);
        congestion.arrived(90);
        assert_eq!(congestion.window(), 100);
        (1..4).for_each(|n| congestion.silent(n));
        assert_eq!((congestion.window(), congestion.threshold >> 8), (LEAST, 50));
        congestion.arrived(46);
        assert!(!congestion.is_probing(), "doubles up to half of what it was");
    }

    fn time_outs_for_nothing_change_nothing() {
        let mut congestion = Congestion::new(1024);
        congestion.arrived(90);
        congestion.note();
        (1..4).for_each(|n| congestion.silent(n));
        assert!(congestion.take_back());
        assert_eq!((congestion.window(), congestion.is_probing()), (100, true));
        assert!(!congestion.take_back(), "once");
        // A loss that follows is not taken back.
        congestion.note();
        congestion.silent(5);
        congestion.lost(6, 7);
        assert!(!congestion.take_back());
    }

    fn a_loss_counts_however_many_transmissions_after_the_last_one() {
        for parts in [1 << 20, 3 << 30, u64::from(u32::MAX) + 20] {
            let mut congestion = Congestion::new(64);
            congestion.arrived(100);
            congestion.lost(9, 10);
            let before = congestion.window();
            (10..parts).step_by(1 << 16).for_each(|next| congestion.follow(next as u32));
            congestion.lost(parts as u32 - 1, parts as u32);
            assert!(congestion.window() < before, "{parts}");
        }
    }

    fn it_stays_between_its_limits() {
        let mut congestion = Congestion::new(64);
        congestion.arrived(100_000);
        assert_eq!(congestion.window(), 64);
        (0..100).for_each(|n| congestion.lost(n, n + 1));
        assert_eq!(congestion.window(), LEAST);
        congestion.silent(100);
        assert_eq!(congestion.window(), LEAST);
    }
}
