//! Whether to look for more before sleeping, and for how long: by what that brought lately, as receivers decide it
//! ([`dp_edge::spin`]). With fewer processors than programs it keeps from running whom it waits for, and is soon left out.

use dp_edge::spin::Pace;

/// Looking, of one thread.
#[derive(Debug)]
pub struct Look {
    /// At most, nanoseconds, but for an attempt; 0: never.
    longest: u32,
    pace: Pace,
    /// It looks since then, for so long, nanoseconds.
    on: Option<(u64, u32)>,
}

impl Look {
    /// For so long at most, nanoseconds.
    pub fn new(longest: u32) -> Look {
        Look { longest, pace: Pace::new(longest), on: None }
    }

    /// Whether to look once more now, rather than sleep.
    pub fn goes_on(&mut self, now: u64) -> bool {
        let Some((from, budget)) = self.on else { return false };
        let goes_on = now < from + u64::from(budget);
        if !goes_on {
            self.on = None;
            self.pace.learn(budget, false, budget, self.longest);
        }
        goes_on
    }

    /// Whether it is looking.
    pub fn is_on(&self) -> bool {
        self.on.is_some()
    }

    /// Something came.
    pub fn came(&mut self, now: u64) {
        if let Some((from, budget)) = self.on {
            let took = u32::try_from(now.saturating_sub(from)).unwrap_or(u32::MAX);
            self.pace.learn(budget, true, took, self.longest);
        }
        let budget = self.pace.begin(self.longest);
        self.on = (budget > 0).then_some((now, budget));
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
        assert!((100_000..3_000_000).contains(&in_vain), "{in_vain} ns in a second");
    }

    #[test]
    fn what_brings_something_is_done_for_longer() {
        let (mut look, mut now) = (Look::new(50_000), 1_000);
        look.pace = Pace::new(0);
        for _ in 0..20 {
            look.came(now);
            now += 1_000;
            look.goes_on(now);
        }
        assert_eq!(look.pace.begin(50_000), 50_000);
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
