use super::*;

const LONGEST: u32 = 50_000;
const ENDS: [u32; 12] = [0, 1, 2, 15, 16, 499, 500, 999, 1_000, 50_000, u32::MAX / 2 + 1, u32::MAX];

/// What `n` waits cost, each of which brings something after `after` ns or never: ns that were spun in vain or not.
fn spun(pace: &mut Pace, n: u32, after: Option<u32>) -> u64 {
    (0..n).map(|_| one(pace, after)).sum()
}

fn one(pace: &mut Pace, after: Option<u32>) -> u64 {
    let budget = pace.begin(LONGEST);
    if budget == 0 {
        return 0;
    }
    let hit = after.filter(|after| *after <= budget);
    pace.learn(budget, hit.is_some(), hit.unwrap_or(budget), LONGEST);
    hit.unwrap_or(budget).into()
}

#[test]
fn no_bound_and_no_record_is_too_odd() {
    for longest in ENDS {
        for start in ENDS {
            for (hit, took) in [(true, 0), (true, u32::MAX), (false, 0), (false, u32::MAX)] {
                let mut pace = Pace::new(start);
                for _ in 0..100 {
                    let budget = pace.begin(longest);
                    assert!(budget <= longest.max(LONG_ENOUGH).min(longest.saturating_mul(ATTEMPT)));
                    if budget > 0 {
                        pace.learn(budget, hit, took, longest);
                    }
                    let word = Pace::unpack(pace.pack());
                    assert!(
                        word == pace || longest.max(start) >= 1 << IN_VAIN_AT,
                        "{longest}: {pace:?}, {word:?}"
                    );
                }
                assert!(
                    longest == 0 || took > 0 || !hit || pace.pays(),
                    "{longest}: what always pays goes on"
                );
            }
        }
    }
}

#[test]
fn every_record_survives_its_word_and_every_word_is_a_record() {
    let mut pace = Pace::new(LONGEST);
    for n in 0..200_000u32 {
        assert_eq!(Pace::unpack(pace.pack()), pace);
        one(&mut pace, (n % 777 == 0).then_some(100));
    }
    for word in ENDS.into_iter().chain((0..1000).map(|n| n * 4_294_967)) {
        let mut pace = Pace::unpack(word);
        spun(&mut pace, 100, None);
        spun(&mut pace, 100, Some(1));
    }
    assert_eq!(Pace::unpack(20_000), Pace::new(20_000), "as it was before there were attempts");
}

#[test]
fn spins_in_vain_are_halved_and_then_left_out() {
    let mut pace = Pace::new(LONGEST);
    let mut spins = 0;
    while pace.pays() {
        one(&mut pace, None);
        spins += 1;
    }
    assert_eq!(spins, 7);
    assert_eq!(pace, Pace::rest(0));
}

#[test]
fn a_probe_that_sees_something_leads_back() {
    let mut pace = Pace::new(0);
    spun(&mut pace, 20, Some(1_000));
    assert_eq!(pace, Spins { budget: LONGEST, in_vain: 0 });
}

#[test]
fn what_never_comes_soon_costs_less_and_less() {
    let mut pace = Pace::new(0);
    let first = spun(&mut pace, 10_000, None);
    let then = spun(&mut pace, 100_000, None);
    // A probe of 6 us in each fourth wait, and an attempt that ends with its first spin at 32, 96, 224 waits and so on.
    assert!(first < 10_000 * 1_700 + 9 * 200_000, "{first}");
    assert!(then < 100_000 * 1_700, "{then}");
}

/// Two sides, each with a record, that answer each other within `work` ns; whoever sleeps is awake `wakes` ns after the other
/// has answered. How many of `n` exchanges had no sleep on either side.
fn exchanges(pair: &mut [Pace; 2], n: u32, work: u32, wakes: u32) -> u32 {
    // When the answer to the wait that begins now comes: the other side works, and wakes up before that if it sleeps.
    let mut asleep = [true, true];
    let mut quick = 0;
    for turn in 0..2 * n {
        let (me, other) = ((turn % 2) as usize, (1 - turn % 2) as usize);
        let budget = pair[me].begin(LONGEST);
        let after = work + if asleep[other] { wakes } else { 0 };
        let hit = (after <= budget).then_some(after);
        if budget > 0 {
            pair[me].learn(budget, hit.is_some(), hit.unwrap_or(budget), LONGEST);
        }
        asleep[me] = hit.is_none();
        quick += u32::from(!asleep[0] && !asleep[1]);
    }
    quick / 2
}

#[test]
fn two_that_sleep_each_time_find_that_they_need_not() {
    let mut pair = [Pace::new(0), Pace::new(0)];
    let quick = exchanges(&mut pair, 1_000, 3_000, 70_000);
    assert!(quick > 800, "{quick} of 1000");
}

#[test]
fn one_that_never_spins_costs_the_other_little() {
    let mut pace = Pace::new(0);
    // It answers 80 us after it was asked, always.
    let all = spun(&mut pace, 100_000, Some(80_000));
    let of_waits = 100_000 * 150_000u64;
    assert!(all < of_waits / 50, "{all} of {of_waits}");
}

#[test]
fn an_attempt_that_was_broken_off_is_not_one_in_vain() {
    let mut pace = Tries { waits: IN_A_ROW, in_vain: 3 };
    pace.learn(10_000, false, 10_000, LONGEST);
    assert_eq!(pace, Pace::rest(3), "there was no more time");
    let mut pace = Tries { waits: IN_A_ROW, in_vain: 3 };
    pace.learn(attempt(LONGEST), false, attempt(LONGEST), LONGEST);
    assert_eq!(pace, Pace::rest(4));
}
