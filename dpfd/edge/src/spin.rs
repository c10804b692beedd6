//! How long to spin before sleeping, learned from how often spinning paid.
//!
//! One rule for every receiver: both drivers and the preload shim. A spin that saw something may take twice as long the
//! next time, a spin in vain half as long; too short to be worth the clock's cost, it is left out altogether, and tried
//! again a little later, for traffic changes ([`Pace`]). Times are nanoseconds; `longest` is the user's bound, which attempts
//! alone may pass (0: never spin), any value at all.

mod pace;

pub use pace::Pace;

use crate::sys::process;

/// Looks before the clock is asked: what comes in a moment costs no more than that.
const FIRST: u32 = 64;

/// What a receiver has learned of its spins; the loop of every endpoint that spins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spin(Pace);

impl Spin {
    /// The next spin takes up to `ns`.
    pub const fn new(ns: u32) -> Spin {
        Spin(Pace::new(ns))
    }

    /// Whether the next one is not left out.
    #[inline(always)]
    pub const fn pays(self) -> bool {
        self.0.pays()
    }

    /// How long the next one takes, ns. 0: it is left out.
    #[inline]
    pub fn budget(&mut self, longest: u32) -> u32 {
        self.0.begin(longest)
    }

    /// Spins for as long as [`Spin::budget`] said, until `came`; whether it came.
    #[inline]
    pub fn spin(&mut self, budget: u32, longest: u32, came: impl FnMut() -> bool) -> bool {
        self.0.spin(budget, longest, process::now, || process::spin_for(budget.into(), came))
    }

    /// The first moment of a spin, from which nothing is learned.
    #[inline(always)]
    pub fn spin_briefly(self, mut came: impl FnMut() -> bool) -> bool {
        self.pays() && process::looks(FIRST, &mut came)
    }
}

/// A program whose spin took somebody's time does not spin for so long, ns: at least, and at most. The kernel's own threads
/// and interrupts take a processor some ten times a second for some 10 us, and seem to be somebody: the first rest is short
/// enough not to be felt then, and five in a row are what rivals make.
const REST_LEAST: u64 = 1_000_000;
const REST_MOST: u64 = 1_024_000_000;

/// How long the next rest is, after a spin that took the processor from somebody (`taken`) or from nobody; `rest` was that of
/// the last time. It begins anew, four times as long, only where it was taken: elsewhere it is forgotten slowly, so that a
/// program among many rests again and again for longer, and one that was disturbed once goes on (W19).
#[inline]
pub const fn rested(rest: u64, taken: bool) -> u64 {
    if taken {
        let next = rest.saturating_mul(4);
        return if next < REST_LEAST {
            REST_LEAST
        } else if next > REST_MOST {
            REST_MOST
        } else {
            next
        };
    }
    if rest < REST_LEAST / 4 {
        0
    } else {
        rest - rest / 32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spin_in_vain_is_shorter_the_next_time_and_then_left_out_for_once() {
        const LONGEST: u32 = 1 << 14;
        let mut spin = Spin::new(LONGEST);
        for expected in [14, 13, 12, 11, 10, 9].map(|log| 1 << log) {
            let budget = spin.budget(LONGEST);
            assert_eq!(budget, expected);
            assert!(spin.pays() && !spin.spin(budget, LONGEST, || false));
        }
        assert!(!spin.pays() && !spin.spin_briefly(|| panic!("no look")));
        assert_eq!(spin.budget(LONGEST), 0);
        let probe = (1..8).map(|_| spin.budget(LONGEST)).find(|budget| *budget > 0).expect("a probe");
        assert!(spin.spin(probe, LONGEST, || true) && spin.spin_briefly(|| true));
        assert_eq!(spin, Spin::new(2 * probe));
        assert_eq!(spin.budget(10), 10, "the user's bound holds");
    }

    #[test]
    fn rests_grow_where_others_have_work_and_are_forgotten_slowly() {
        let mut rest = 0;
        for expected in [1, 4, 16, 64, 256, 1_024, 1_024].map(|ms| ms * 1_000_000) {
            rest = rested(rest, true);
            assert_eq!(rest, expected);
        }
        // Half of the spins take somebody's time: it stays as long as it is.
        for _ in 0..100 {
            rest = rested(rested(rest, false), true);
        }
        assert_eq!(rest, 1_024_000_000);
        let mut spins = 0;
        while rest > 0 {
            rest = rested(rest, false);
            spins += 1;
        }
        assert!((100..400).contains(&spins), "{spins}");
        assert_eq!(rested(0, false), 0);
        assert_eq!(rested(u64::MAX, true), REST_MOST);
    }
}
