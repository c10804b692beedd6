//! How a pool is shared out: each new sender gets half of what is left, as a power of two.
//!
//! One sender alone so has half the pool or more, and there is always something for the next, down to edges of
//! [`MIN_RING`] bytes; whoever comes after these sends through the descriptor's own buffer. An edge comes back
//! when its sender has gone and its last message was released.

use crate::edge::segment::{MAX_RING, MIN_RING};

/// Smallest pool, bytes.
pub const MIN_POOL: usize = MIN_RING;
/// Largest pool, bytes.
pub const MAX_POOL: usize = MAX_RING;
/// The pool of an endpoint that never asked for one, bytes.
pub const DEFAULT_POOL: usize = 256 * 1024;

/// A pool's bytes, and how many are out.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    size: usize,
    left: usize,
}

impl Budget {
    /// A pool of `size` bytes; `None` outside of [`MIN_POOL`]..=[`MAX_POOL`].
    pub fn new(size: usize) -> Option<Budget> {
        (MIN_POOL..=MAX_POOL).contains(&size).then_some(Budget { size, left: size })
    }

    /// All of it, bytes.
    pub fn size(&self) -> usize {
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

    /// An edge's share comes back.
    pub fn give(&mut self, share: usize) {
        self.left = (self.left + share).min(self.size);
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
        b.give(8192);
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
                    b.give(share);
                }
                prop_assert_eq!(out.iter().sum::<usize>() + b.left(), size);
            }
        }
    }
}
