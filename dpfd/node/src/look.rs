//! Whether to look for more before sleeping, and for how long: by what that brought lately, as receivers decide it
//! ([`dp_edge::spin`]). With fewer processors than programs it keeps from running whom it waits for, and is soon left out.

use dp_edge::spin::{again, learned};

/// Looking, of one thread.
#[derive(Debug)]
pub struct Look {
    /// At most, nanoseconds; 0: never.
    longest: u32,
    /// The next time; 0: not at all.
    budget: u32,
    until: Option<u64>,
}

impl Look {
    /// For so long at most, nanoseconds.
    pub fn new(longest: u32) -> Look {
        Look { longest, budget: longest, until: None }
    }

    /// Whether to look once more now, rather than sleep.
    pub fn goes_on(&mut self, now: u64) -> bool {
        let goes_on = self.until.is_some_and(|until| now < until);
        if self.until.is_some() && !goes_on {
            self.until = None;
            self.budget = learned(self.budget, false, self.longest);
        }
        goes_on
    }

    /// Whether it is looking.
    pub fn is_on(&self) -> bool {
        self.until.is_some()
    }

    /// Something came.
    pub fn came(&mut self, now: u64) {
        if self.until.is_some() {
            self.budget = learned(self.budget, true, self.longest);
        } else if self.budget == 0 {
            // The time after this one.
            self.budget = again(self.longest);
            return;
        }
        self.until = (self.budget > 0).then(|| now + u64::from(self.budget));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether it is still looking so much later.
    fn looks(look: &mut Look, now: &mut u64, later: u64) -> bool {
        *now += later;
        look.goes_on(*now)
    }

    #[test]
    fn what_brings_nothing_is_left_out_and_tried_again_now_and_then() {
        let (mut look, mut now, mut in_vain) = (Look::new(50_000), 1_000, 0);
        for _ in 0..1000 {
            look.came(now);
            while looks(&mut look, &mut now, 100) {
                in_vain += 100;
            }
            now += 1_000_000;
        }
        assert!((100_000..2_000_000).contains(&in_vain), "{in_vain} ns in a second");
    }

    #[test]
    fn what_brings_something_is_done_for_longer() {
        let (mut look, mut now) = (Look::new(50_000), 1_000);
        look.budget = 0;
        for _ in 0..20 {
            look.came(now);
            now += 1_000;
            look.goes_on(now);
        }
        assert_eq!(look.budget, 50_000);
        look.came(now);
        assert!(looks(&mut look, &mut now, 49_999) && !looks(&mut look, &mut now, 1));
    }

    #[test]
    fn nobody_looks_who_may_not() {
        let mut look = Look::new(0);
        for now in 0..100 {
            look.came(now);
            assert!(!look.goes_on(now));
        }
    }
}
