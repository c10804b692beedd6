//! Half of a peak, windows, what the model says: against numbers worked out by hand.

use crate::logp::model::{half_peak, window, LogP};

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
