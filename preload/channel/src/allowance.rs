//! What all threads of a process may do so many times a second together: none of them waits, and nobody keeps a list.

use core::sync::atomic::{AtomicU64, Ordering};

/// At most so many in each period of 2^30 ns, about a second.
#[derive(Debug)]
pub struct Allowance {
    most: u8,
    /// The period, and in its last eight bits how many it had.
    used: AtomicU64,
}

impl Allowance {
    /// At most `most` in each period.
    pub const fn new(most: u8) -> Allowance {
        Allowance { most, used: AtomicU64::new(0) }
    }

    /// One more, at `now`, ns of any clock that goes forward: false where none is left, or another thread asks at the same
    /// moment.
    pub fn one_more(&self, now: u64) -> bool {
        let period = (now >> 30) << 8;
        let used = self.used.load(Ordering::Relaxed);
        let next = if used & !0xff == period { used + 1 } else { period + 1 };
        next & 0xff <= u64::from(self.most)
            && next & 0xff != 0
            && self.used.compare_exchange(used, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_second_has_its_share() {
        for most in [0, 1, 10, u8::MAX] {
            let allowance = Allowance::new(most);
            for second in [5u64, 6, 900] {
                let granted = (0..1000).filter(|i| allowance.one_more((second << 30) + i)).count();
                assert_eq!(granted, usize::from(most));
            }
        }
    }
}
