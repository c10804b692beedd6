//! Medians, means, intervals, lines, turns.

use crate::stats::{
    line, median, middle, percentile, quartile_half, student, trimmed_mean, undisturbed, At, Estimate,
    Interval, Spread,
};
use crate::turns::order;

#[test]
fn medians_of_odd_and_even_counts() {
    assert_eq!(Spread::of(&[3.0, 1.0, 2.0]), Some(Spread { median: 2.0, low: 1.0, high: 3.0 }));
    assert_eq!((median(&[4.0, 1.0, 2.0, 3.0]), median(&[4.0, 1.0])), (2.5, 2.5));
    assert!(Spread::of(&[]).is_none() && median(&[]).is_nan());
}

#[test]
fn ends_of_the_interval_are_those_of_the_tables() {
    // The sign test's table: ranks 6 and 15 of 20 are 95.9 % sure; the lowest and highest of six, 96.9 %.
    let twenty: Vec<f64> = (1..=20).map(f64::from).collect();
    let interval = Interval::of(&twenty).unwrap();
    assert_eq!((interval.low, interval.median, interval.high), (6.0, 10.5, 15.0));
    assert!((interval.percent - 95.86).abs() < 0.01, "{interval:?}");
    let six: Vec<f64> = (1..=6).map(f64::from).collect();
    let interval = Interval::of(&six).unwrap();
    assert_eq!((interval.low, interval.high), (1.0, 6.0));
    assert!((interval.percent - 96.88).abs() < 0.01, "{interval:?}");
}

#[test]
fn few_values_give_all_of_them_and_say_how_sure_that_is() {
    let interval = Interval::of(&[1.0, 2.0, 3.0]).unwrap();
    assert_eq!((interval.low, interval.high, interval.percent), (1.0, 3.0, 75.0));
    let one = Interval::of(&[1.0]).unwrap();
    assert_eq!((one.low, one.high, one.percent), (1.0, 1.0, 0.0));
    assert!(Interval::of(&[]).is_none());
}

#[test]
fn many_values_stay_in_order() {
    let many: Vec<f64> = (0..500).map(f64::from).collect();
    let interval = Interval::of(&many).unwrap();
    assert!(interval.low < interval.median && interval.median < interval.high);
    assert!(interval.percent >= 95.0 && interval.percent < 97.0, "{interval:?}");
}

#[test]
fn what_so_many_of_a_thousand_do_not_exceed() {
    let mut hundred: Vec<f32> = (1..=100).map(|n| n as f32).collect();
    assert_eq!((percentile(&mut hundred, 990), percentile(&mut hundred, 500)), (99.0, 50.0));
    let mut thousands: Vec<f32> = (1..=2000).map(|n| n as f32).collect();
    assert_eq!(percentile(&mut thousands, 999), 1998.0);
    assert_eq!(percentile(&mut [7.0], 990), 7.0);
    assert!(percentile(&mut [], 990).is_nan());
}

#[test]
fn quartiles_are_of_several_turns() {
    assert_eq!(quartile_half(&[5.0, 1.0, 9.0, 2.0, 8.0]), 3.0);
    assert_eq!(quartile_half(&[4.0, 8.0]), 2.0);
    assert!(quartile_half(&[4.0]).is_nan(), "one turn has no spread");
    assert!(quartile_half(&[]).is_nan());
}

#[test]
fn half_of_the_samples_may_be_disturbed() {
    assert_eq!(undisturbed(&mut [1e9, 2.0, 4.0, 1e8]), 3.0);
    assert_eq!(undisturbed(&mut [1e9, 2.0, 1e8, 4.0, 3.0]), 3.0);
    let mut many: Vec<f64> = (0..40).map(f64::from).collect();
    assert_eq!(undisturbed(&mut many), 10.5);
    assert_eq!(undisturbed(&mut [5.0]), 5.0);
    assert!(undisturbed(&mut []).is_nan());
}

#[test]
fn a_tenth_is_trimmed_at_either_end() {
    let mut samples: Vec<f64> = (1..=10).map(f64::from).collect();
    samples[9] = 1e9;
    samples[0] = -1e9;
    assert_eq!(trimmed_mean(&mut samples), 5.5);
    assert_eq!(trimmed_mean(&mut [1.0, 2.0, 6.0]), 3.0);
    assert!(trimmed_mean(&mut []).is_nan());
}

#[test]
fn intervals_are_students() {
    // Standard deviation 1, three batches: 4.303 / sqrt 3.
    let three = Estimate::of(&[9.0, 10.0, 11.0]);
    assert_eq!(three.ns, 10.0);
    assert!((three.half - 4.303 / 3f64.sqrt()).abs() < 1e-9);
    assert!(!three.within(0.24) && three.within(0.25));
    // A batch that was disturbed is cut: 9, 9, 10, 11, 11 are left to tell the scatter, three of them the mean.
    let five = Estimate::of(&[9.0, 10.0, 11.0, 1e6, 8.0]);
    assert_eq!((five.ns, five.batches), (10.0, 5));
    assert!((five.half - 4.303 * 5f64.sqrt() / 3.0).abs() < 1e-9);
    assert!(Estimate::of(&[7.0]).half.is_infinite());
    assert!((student(1) - 12.706).abs() < 1e-9 && (student(60) - 2.000).abs() < 0.001);
    assert!((student(31) - 2.040).abs() < 0.003 && (student(100_000) - 1.960).abs() < 0.001);
}

#[test]
fn a_line_trusts_the_points_that_are_sure() {
    let at = |x: f64, y: f64, half: f64| At { x, y, half };
    let exact = line(&[at(1.0, 5.0, 0.1), at(2.0, 7.0, 0.1), at(3.0, 9.0, 0.1)]).unwrap();
    assert!((exact.slope - 2.0).abs() < 1e-9 && (exact.start - 3.0).abs() < 1e-9);
    // Two of the same weight one apart: the interval of a difference.
    let two = line(&[at(0.0, 10.0, 0.3), at(1.0, 20.0, 0.3)]).unwrap();
    assert!((two.slope_half - 0.3 * 2f64.sqrt()).abs() < 1e-9);
    let doubted = line(&[at(1.0, 5.0, 0.1), at(2.0, 7.0, 0.1), at(3.0, 90.0, f64::INFINITY)]).unwrap();
    assert!((doubted.slope - 2.0).abs() < 1e-3);
    // A point that is sure, and from another state of the machine, among points that are less so.
    let mut moved: Vec<At> =
        [64.0, 96.0, 128.0, 160.0, 192.0, 256.0].map(|m| at(m, 43.0 * m, 0.1 * 43.0 * m)).into();
    moved[3] = at(160.0, 160.0 * 160.0, 1.0);
    let found = line(&moved).unwrap();
    assert!((found.slope / 43.0 - 1.0).abs() < 0.03, "{found:?}");
    // Slopes of pairs, each with its weight: 1 (1), 1.25 (4), 1.5 (1), 1.67 (9), 2 (4), 2.5 (1). The middle of 20 is 1.67.
    let bent = [at(0.0, 0.0, 9.0), at(1.0, 1.0, 9.0), at(2.0, 2.5, 9.0), at(3.0, 5.0, 9.0)];
    assert!((line(&bent).unwrap().slope - 5.0 / 3.0).abs() < 1e-9);
    // Intervals that promise more than the points keep.
    let liars: Vec<At> = (1..=6).map(|x| at(f64::from(x), f64::from(x + x % 2 * 3), 0.001)).collect();
    let true_ones: Vec<At> = (1..=6).map(|x| at(f64::from(x), f64::from(x), 0.001)).collect();
    assert!(line(&liars).unwrap().slope_half > 100.0 * line(&true_ones).unwrap().slope_half);
    assert!(line(&[at(1.0, 5.0, 0.1)]).is_none() && line(&[at(1.0, 5.0, 0.1), at(1.0, 6.0, 0.1)]).is_none());
}

#[test]
fn the_middle_half_leaves_out_a_quarter_at_either_end() {
    let e = |ns| Estimate { ns, half: 1.0, batches: 3 };
    let found = middle(&[e(4.0), e(-1e9), e(2.0), e(1e9)]).unwrap();
    assert_eq!((found.ns, found.batches), (3.0, 6));
    assert!((found.half - 0.5f64.sqrt()).abs() < 1e-9);
    assert_eq!(middle(&[e(5.0)]), Some(e(5.0)));
    assert_eq!(middle(&[]), None);
}

#[test]
fn every_other_round_begins_with_the_last() {
    let order = |round| order(3, round).collect::<Vec<_>>();
    assert_eq!([order(0), order(1), order(2)], [[0, 1, 2], [2, 1, 0], [0, 1, 2]]);
    assert_eq!(crate::turns::order(0, 1).count(), 0);
}
