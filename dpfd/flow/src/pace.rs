//! Pacing: frames leave no faster than the link carries them, so that they do not wait, or are dropped, in a queue that is
//! somebody else's.
//!
//! Each frame moves on the moment from which the next may leave, by the time that the link is busy with it. A sender that
//! was late may catch up, but by no more than [`BURST`]: what a timer of the kernel is late by.

use core::num::NonZeroU64;

/// What may leave at once after a pause, as time on the link, nanoseconds.
const BURST: u64 = 1_000_000;
/// Where the speed is learned, that much of time on the link leaves at once, nanoseconds: a wake-up for each frame of a quick link
/// would cost more than it brings.
const AT_ONCE: u64 = 100_000;
/// Of that, what is worth waking up for: one frame is not.
const WORTH: u64 = AT_ONCE / 2;
/// And it is no less than this, bytes in a second: an answer that took seconds, as while a node was down, says nothing of the link.
const LEAST: u64 = 1_250_000;

#[derive(Clone, Debug, Hash)]
pub(crate) struct Pace {
    /// Bytes in a second; nothing: as fast as can be, until that is learned.
    link: Option<NonZeroU64>,
    /// The link's speed was told; else what is known of it comes of acknowledgements ([`Pace::learn`]).
    told: bool,
    next: u64,
}

impl Pace {
    pub fn new(link: Option<u64>) -> Pace {
        Pace { link: link.map(at_least_one), told: link.is_some(), next: 0 }
    }

    /// The link's speed is this from now on; nothing: it is learned anew. What has left is still on its way.
    pub fn tell(&mut self, link: Option<u64>) {
        (self.link, self.told) = (link.map(at_least_one), link.is_some());
    }

    /// Where nobody said how quick the link is: so many bytes may leave in a round trip, nanoseconds, and not all at once, which
    /// would fill short queues up and take deep ones from others.
    pub fn learn(&mut self, bytes: u64, round_trip: u64) {
        if !self.told {
            // No window has the 18 GB that would be too much; a kernel divides no numbers of 128 bits.
            let speed = bytes.saturating_mul(1_000_000_000) / at_least_one(round_trip);
            self.link = Some(at_least_one(speed.max(LEAST)));
        }
    }

    /// Whether the speed comes of what arrives, and so grows with the window.
    pub fn is_learned(&self) -> bool {
        !self.told
    }

    /// When to try again what may not leave now. Where the speed is learned, more than one frame may leave then.
    pub fn next(&self) -> u64 {
        if self.told {
            self.next
        } else {
            self.next.saturating_sub(AT_ONCE - WORTH)
        }
    }

    /// Whether a frame may leave.
    pub fn is_open(&self, now: u64) -> bool {
        let ahead = if self.told { 0 } else { AT_ONCE };
        self.next.saturating_sub(ahead) <= now
    }

    /// A frame leaves that takes this many bytes of the link.
    pub fn sent(&mut self, now: u64, bytes: usize) {
        if let Some(link) = self.link {
            let busy = bytes as u64 * 1_000_000_000 / link;
            self.next = self.next.max(now.saturating_sub(BURST)).saturating_add(busy);
        }
    }
}

fn at_least_one(n: u64) -> NonZeroU64 {
    NonZeroU64::new(n).unwrap_or(NonZeroU64::MIN)
}

#[cfg(any(test, kernel_tests))]
pub(crate) mod tests {
    use std::{assert, assert_eq};

    use super::*;

    cases! {
        a_link_is_used_up_and_not_more
        a_pause_is_not_saved_up
        what_arrives_in_a_round_trip_leaves_in_one
        without_a_speed_nothing_waits
        a_speed_that_is_told_later_holds_from_then_on
    }

    /// What a sender that has always something to send sends in a second, and the moment at which it stops.
    fn in_a_second(pace: &mut Pace) -> (u64, u64) {
        let (mut now, mut bytes) = (5_000_000_000, 0);
        let begin = now;
        while now < begin + 1_000_000_000 {
            while pace.is_open(now) {
                pace.sent(now, 1538);
                bytes += 1538;
            }
            assert!(pace.next() > now);
            now = pace.next();
        }
        (bytes, now)
    }

    fn a_link_is_used_up_and_not_more() {
        let (bytes, _) = in_a_second(&mut Pace::new(Some(12_500_000)));
        assert!((12_500_000..12_500_000 + 12_500 + 2 * 1538).contains(&bytes), "{bytes} in a second");
    }

    fn a_pause_is_not_saved_up() {
        let mut pace = Pace::new(Some(1_000_000));
        pace.sent(0, 1);
        let now = 3_600_000_000_000;
        let burst = (0..)
            .take_while(|_| {
                pace.is_open(now) && {
                    pace.sent(now, 100);
                    true
                }
            })
            .count();
        assert_eq!(burst, 11, "a millisecond's worth, and the one that fills it up");
    }

    fn what_arrives_in_a_round_trip_leaves_in_one() {
        let mut pace = Pace::new(None);
        pace.learn(125_000, 10_000_000);
        let (bytes, now) = in_a_second(&mut pace);
        assert!((12_500_000..12_500_000 + 25_000).contains(&bytes), "{bytes} in a second");
        // Of a quick link many frames leave at once.
        let mut pace = Pace::new(None);
        pace.learn(1_000_000, 1_000_000);
        while pace.is_open(now) {
            pace.sent(now, 1538);
        }
        let (now, mut frames) = (pace.next(), 0);
        while pace.is_open(now) {
            pace.sent(now, 1538);
            frames += 1;
        }
        assert!((32..=34).contains(&frames), "{frames} of 50 us");
        // An odd round trip stops nobody.
        pace.learn(1, u64::MAX);
        pace.sent(now, 1538);
        assert!(pace.next() < now + 2_000_000);
        // A speed that was told is not learned.
        let mut pace = Pace::new(Some(1));
        pace.learn(u64::MAX, 0);
        pace.sent(1_000_000_000, 1);
        assert!(!pace.is_open(1_000_000_000));
    }

    fn a_speed_that_is_told_later_holds_from_then_on() {
        let mut pace = Pace::new(None);
        pace.learn(1_000_000, 1_000_000);
        pace.tell(Some(12_500_000));
        let (bytes, now) = in_a_second(&mut pace);
        assert!((12_500_000..12_500_000 + 12_500 + 2 * 1538).contains(&bytes), "{bytes} in a second");
        pace.tell(None);
        assert!(pace.is_learned() && pace.is_open(now));
        pace.sent(now, 1 << 20);
        assert!(pace.is_open(now), "nothing is known yet");
    }

    fn without_a_speed_nothing_waits() {
        let mut pace = Pace::new(None);
        pace.sent(7, 1 << 20);
        assert!(pace.is_open(7) && pace.is_open(0));
    }
}
