//! Means, intervals, lines, half of a peak: against numbers worked out by hand.

use crate::logp::model::{half_peak, window, LogP};
use crate::logp::stats::{line, middle, student, trimmed_mean, At, Estimate};

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
fn half_of_the_peak_lies_between_two_sizes() {
    let time = |n: usize| (n, 1000.0 + n as f64);
    // The peak is at 9000: 0.9 B/ns. Half of it: n / (1000 + n) = 0.45, n = 818.2.
    let found = half_peak(&[time(1), time(500), time(2000), time(9000)]).unwrap();
    assert!((found - 818.18).abs() < 0.01, "{found}");
    assert_eq!(half_peak(&[(100, 10.0), (200, 20.0)]), Some(100.0));
    assert_eq!(half_peak(&[(100, 10.0)]), None);
    assert_eq!(half_peak(&[]), None);
    // Time that does not grow at all: bandwidth grows with the size.
    assert_eq!(half_peak(&[(1, 10.0), (100, 10.0)]), Some(50.0));
}

#[test]
fn the_model_says_what_the_paper_says() {
    let meiko = LogP { o_s: 1.7, o_r: 1.6, l: 7.5, g: 13.6, p: 15 };
    assert!((meiko.round_trip() - 21.6).abs() < 1e-9);
    assert!((meiko.idle() - 10.3).abs() < 1e-9);
    assert_eq!(meiko.stream(0), 0.0);
    assert_eq!(meiko.stream(1), meiko.one_way());
    assert!((meiko.stream(11) - (10.8 + 136.0)).abs() < 1e-9);
    assert!((meiko.contended_gap(15) - 204.0).abs() < 1e-9);
    assert!((meiko.in_flight() - 21.6 / 13.6).abs() < 1e-9);
    let busy = LogP { g: 2.0, ..meiko };
    assert_eq!(busy.idle(), 0.0);
}

#[test]
fn a_window_holds_so_many_bytes() {
    assert_eq!([8, 8192, 16_384, 65_536, 1 << 24].map(|size| window(size, 32)), [32, 32, 16, 4, 4]);
    assert_eq!([window(0, 32), window(8, 1), window(8, 7)], [32, 4, 7]);
}
