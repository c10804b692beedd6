//! How a pool is shared out: each new sender gets half of what is left, as a power of two.
//!
//! One sender alone so has half the pool or more, and there is always something for the next, down to edges of
//! [`MIN_RING`] bytes; whoever comes after these sends through the descriptor's own buffer. An edge comes back
//! when its sender has gone and its last message was released.
//!
//! A pool that nobody gave a size *grows*: a sender whose edge is too short for what it sends gets a longer one in
//! its place, once, and one that sends much and came too late for an edge gets one after all, out of [`MOST_GROWN`] bytes that
//! nobody takes before that. So of many senders those few have edges that use them, and a receiver has as few to look at.

use crate::edge::segment::{MAX_RING, MIN_RING};

/// Smallest pool, bytes.
pub const MIN_POOL: usize = MIN_RING;
/// Largest pool, bytes.
pub const MAX_POOL: usize = MAX_RING;
/// The pool of an endpoint that never asked for one, bytes.
pub const DEFAULT_POOL: usize = 256 * 1024;

/// By how much such a pool grows at most, bytes.
pub const MOST_GROWN: usize = 8 << 20;
/// The longest edge that it grows by, bytes: longer than what a core's own caches hold, and shorter than what all cores
/// share. In a shorter ring each line has to be fetched from the other core's cache, twice for each message.
pub const LONGER: usize = 4 << 20;

/// How many times as long as the edge in whose place it is.
pub const TIMES: usize = 128;

/// The longest edge of a sender that came too late for a share, bytes: many messages of a page, and enough for a dozen such senders.
pub const LATE: usize = 512 << 10;

/// A pool's bytes, and how many are out.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    size: usize,
    left: usize,
    grown: usize,
    most_grown: usize,
}

/// Bytes that come back: shares, and longer edges.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Returned {
    /// Of the pool as it was made.
    pub shares: usize,
    /// Of what it grew by.
    pub grown: usize,
}

impl Returned {
    /// Nothing.
    pub fn is_nothing(&self) -> bool {
        *self == Returned::default()
    }
}

impl Budget {
    /// A pool of `size` bytes; `None` outside of [`MIN_POOL`]..=[`MAX_POOL`].
    pub fn new(size: usize) -> Option<Budget> {
        (MIN_POOL..=MAX_POOL).contains(&size).then_some(Budget { size, left: size, grown: 0, most_grown: 0 })
    }

    /// The pool of an endpoint that never asked for one.
    pub fn usual() -> Budget {
        Budget { size: DEFAULT_POOL, left: DEFAULT_POOL, grown: 0, most_grown: MOST_GROWN }
    }

    /// All of it, bytes.
    pub fn size(&self) -> usize {
        self.size + self.grown
    }

    /// The size it was made with, bytes.
    pub fn made(&self) -> usize {
        self.size
    }

    /// Bytes that no edge has.
    pub fn left(&self) -> usize {
        self.left
    }

    /// An edge's share: a power of two, or `None` when less than [`MIN_RING`] is left.
    pub fn take(&mut self) -> Option<usize> {
        if self.left < MIN_RING {
            return None;
        }
        let half = (self.left / 2).max(MIN_RING);
        let share = 1 << half.ilog2();
        self.left -= share;
        Some(share)
    }

    /// A longer edge than one of `len` bytes, at least twice as long, a power of two: half of what is
    /// left to grow by, but [`LONGER`] and [`TIMES`] as long at most.
    pub fn take_longer(&mut self, len: usize) -> Option<usize> {
        let half = ((self.most_grown - self.grown) / 2).min(LONGER).min(TIMES * len);
        let longer = 1 << half.checked_ilog2()?;
        if longer < 2 * len {
            return None;
        }
        self.grown += longer;
        Some(longer)
    }

    /// An edge for a sender that came when all was shared out, and sends much: a power of two, half of what is left to grow by,
    /// but [`LATE`] at most.
    pub fn take_late(&mut self) -> Option<usize> {
        let half = ((self.most_grown - self.grown) / 2).min(LATE);
        let late = 1 << half.checked_ilog2()?;
        if late < MIN_RING {
            return None;
        }
        self.grown += late;
        Some(late)
    }

    /// What ended edges had comes back.
    pub fn give(&mut self, returned: Returned) {
        self.left = (self.left + returned.shares).min(self.size);
        self.grown = self.grown.saturating_sub(returned.grown);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_sender_gets_half_of_what_is_left() {
        let mut b = Budget::new(64 * 1024).unwrap();
        let shares: Vec<_> = std::iter::from_fn(|| b.take()).collect();
        assert_eq!(shares, [32768, 16384, 8192, 4096, 4096]);
        assert_eq!(b.take(), None);
        b.give(Returned { shares: 8192, grown: 0 });
        assert_eq!(b.take(), Some(4096));
    }

    #[test]
    fn the_smallest_pool_has_one_edge() {
        let mut b = Budget::new(MIN_POOL).unwrap();
        assert_eq!(b.take(), Some(MIN_POOL));
        assert_eq!(b.take(), None);
    }

    #[test]
    fn sizes_outside_are_refused() {
        assert!(Budget::new(MIN_POOL - 1).is_none());
        assert!(Budget::new(MAX_POOL + 1).is_none());
        assert!(Budget::new(MAX_POOL).is_some());
    }

    #[test]
    fn the_usual_pool_grows_and_no_other() {
        let mut b = Budget::usual();
        let share = b.take().unwrap();
        assert_eq!((share, b.made()), (DEFAULT_POOL / 2, DEFAULT_POOL));
        let longer: Vec<_> = std::iter::from_fn(|| b.take_longer(share)).collect();
        assert_eq!(longer, [4 << 20, 2 << 20, 1 << 20, 1 << 19, 1 << 18]);
        assert_eq!((b.size(), b.left()), (DEFAULT_POOL + longer.iter().sum::<usize>(), DEFAULT_POOL / 2));
        assert!(b.size() <= DEFAULT_POOL + MOST_GROWN);
        b.give(Returned { shares: share, grown: longer[0] });
        assert_eq!((b.left(), b.take_longer(share)), (DEFAULT_POOL, Some(2 << 20)));
        assert_eq!(Budget::new(DEFAULT_POOL).unwrap().take_longer(4096), None);
    }

    #[test]
    fn the_usual_pool_has_edges_for_those_who_come_late_and_no_other() {
        let mut b = Budget::usual();
        while b.take().is_some() {}
        let late: Vec<_> = std::iter::from_fn(|| b.take_late()).collect();
        assert_eq!(late.iter().filter(|len| **len == LATE).count(), 15);
        assert!(late.iter().all(|len| len.is_power_of_two() && (MIN_RING..=LATE).contains(len)));
        assert!(b.size() <= DEFAULT_POOL + MOST_GROWN);
        b.give(Returned { shares: 0, grown: LATE });
        assert_eq!(b.take_late(), Some(LATE / 2));
        assert_eq!(Budget::new(DEFAULT_POOL).unwrap().take_late(), None);
    }

    proptest! {
        #[test]
        fn shares_never_exceed_the_pool(size in MIN_POOL..(8 << 20), ops in prop::collection::vec(any::<bool>(), 1..80)) {
            let mut b = Budget::new(size).unwrap();
            let mut out: Vec<usize> = Vec::new();
            for take in ops {
                if take {
                    if let Some(share) = b.take() {
                        prop_assert!(share.is_power_of_two() && share >= MIN_RING);
                        out.push(share);
                    }
                } else if let Some(share) = out.pop() {
                    b.give(Returned { shares: share, grown: 0 });
                }
                prop_assert_eq!(out.iter().sum::<usize>() + b.left(), size);
            }
        }
    }
}
