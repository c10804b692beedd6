use super::*;

#[test]
fn medians_of_odd_and_even_counts() {
    assert_eq!(Spread::of(&[3.0, 1.0, 2.0]), Some(Spread { median: 2.0, low: 1.0, high: 3.0 }));
    assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    assert_eq!(Spread::of(&[]), None);
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
