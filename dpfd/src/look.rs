//! How long to look before sleeping, learned from how often looking paid.
//!
//! One rule for every receiver: both drivers and the preload shim. A look that saw something may take twice as long the
//! next time, a look in vain half as long; too short to be worth the clock's cost, it is left out altogether, and tried
//! again a little later, for traffic changes. Times are nanoseconds; `longest` is the user's bound (0: never look), any
//! value at all.

/// A look that helped lately lasts so long at least, where the bound allows it, ns.
const USEFUL: u32 = 1_000;
/// Shorter than this looking is left out, ns.
const TOO_SHORT: u32 = 500;

/// How long the next look may take, after one of `budget` saw something (`hit`) or did not. 0: none.
#[inline]
pub const fn learned(budget: u32, hit: bool, longest: u32) -> u32 {
    if !hit {
        let next = budget / 2;
        return if next < TOO_SHORT { 0 } else { next };
    }
    let next = budget.saturating_mul(2);
    let next = if next < USEFUL { USEFUL } else { next };
    if next < longest {
        next
    } else {
        longest
    }
}

/// How long the look after one that was left out may take.
#[inline]
pub const fn again(longest: u32) -> u32 {
    longest / 16
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDS: [u32; 12] = [0, 1, 2, 15, 16, 499, 500, 999, 1_000, 50_000, u32::MAX / 2 + 1, u32::MAX];

    #[test]
    fn no_bound_and_no_record_is_too_odd() {
        for longest in ENDS {
            assert!(again(longest) <= longest);
            for budget in ENDS {
                let hit = learned(budget, true, longest);
                assert!(hit <= longest, "{budget} of {longest}: {hit}");
                assert!(hit >= budget.min(longest), "{budget} of {longest}: {hit}");
                assert!(learned(budget, false, longest) <= budget / 2);
            }
        }
    }

    #[test]
    fn looking_ends_where_it_never_pays_and_grows_where_it_does() {
        let mut budget = 50_000;
        let mut looks = 0;
        while budget > 0 {
            budget = learned(budget, false, 50_000);
            looks += 1;
        }
        assert_eq!(looks, 7);
        budget = again(50_000);
        for _ in 0..5 {
            budget = learned(budget, true, 50_000);
        }
        assert_eq!(budget, 50_000);
    }
}
