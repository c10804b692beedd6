//! Sends at which a direction is made to go back to TCP (`DP_CHAOS`), for tests: there, what is rare otherwise happens all the time.
//!
//! Each send that could go into the ring is counted once, whichever way it takes: one that is chosen the quick way leaves to the
//! long one, which counts it. Asked twice, one send would have two numbers, and what the first forces the second would take back.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::channel::Channel;
use crate::state;

/// One send in so many is chosen.
const ONE_IN: u32 = 7;

/// Whether the `n`th send is chosen. Mixed well, so that there are several in a row, and long times without.
fn is_chosen(seed: u32, n: u32) -> bool {
    let mut x = n.wrapping_add(seed.wrapping_mul(0x9e37_79b9));
    x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
    x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
    (x ^ (x >> 16)) % ONE_IN == 0
}

/// Counts a send, and says whether it is chosen.
fn counts(seed: u32, sends: &AtomicU32) -> bool {
    is_chosen(seed, sends.fetch_add(1, Ordering::Relaxed))
}

/// Counts the next send unless it is chosen: then somebody else counts it.
fn leaves(seed: u32, sends: &AtomicU32) -> bool {
    let chosen = is_chosen(seed, sends.load(Ordering::Relaxed));
    if !chosen {
        sends.fetch_add(1, Ordering::Relaxed);
    }
    chosen
}

impl Channel {
    /// Whether the quick way leaves a send to the long one, which then asks [`Channel::is_forced_back`].
    #[inline(always)]
    pub(super) fn is_left_to_chaos(&self) -> bool {
        let seed = state::CHAOS.load(Ordering::Relaxed);
        seed != 0 && leaves(seed, &self.tx_full)
    }

    /// Whether the direction goes back to TCP now.
    #[inline(always)]
    pub(super) fn is_forced_back(&self) -> bool {
        let seed = state::CHAOS.load(Ordering::Relaxed);
        seed != 0 && counts(seed, &self.tx_full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small sends, of which the quick way has each first.
    #[test]
    fn one_send_in_seven_is_forced_whichever_way_it_takes() {
        for seed in 1..20 {
            let sends = AtomicU32::new(0);
            let forced: Vec<_> = (0..70_000).map(|_| leaves(seed, &sends) && counts(seed, &sends)).collect();
            assert_eq!(sends.into_inner(), 70_000, "each is counted once");
            let sum = forced.iter().filter(|forced| **forced).count();
            assert!((9_500..10_500).contains(&sum), "seed {seed}: {sum}");
            let in_a_row = forced.windows(3).filter(|three| three.iter().all(|forced| *forced)).count();
            assert!(in_a_row > 0, "seed {seed}: never three in a row");
        }
    }

    #[test]
    fn other_seeds_choose_other_sends() {
        let chosen = |seed| (0..64).map(|n| is_chosen(seed, n)).collect::<Vec<_>>();
        assert!((1..200).all(|seed| chosen(seed) != chosen(seed + 1)));
    }
}
