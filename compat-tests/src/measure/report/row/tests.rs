use super::*;
use crate::measure::process::Cost;
use crate::measure::turns::Sample;

fn row(target: Target, baseline: &[f64], dp: &[f64]) -> Row {
    let sample = |value: &f64| Sample { value: *value, server: Cost::default(), client: Cost::default() };
    let rounds = baseline.iter().zip(dp).map(|(b, d)| vec![sample(b), sample(d)]).collect();
    let turns = Turns::of(&[Setup::Tcp, Setup::Dp], rounds);
    Row::new("a", "a and b", "req/s", target).with(&turns, Setup::Tcp, Setup::Dp)
}

#[test]
fn each_kind_of_target_is_judged_by_its_own_measure() {
    let same = [100.0; 6];
    let spread = [90.0, 95.0, 101.0, 102.0, 105.0, 110.0];
    let met = |target| row(target, &same, &spread).met.unwrap();
    assert!(met(Target::RatioAtLeast(1.0)) && !met(Target::RatioAtLeast(1.02)));
    assert!(met(Target::IntervalAtLeast(0.9)) && !met(Target::IntervalAtLeast(0.91)));
    assert!(met(Target::NotAbove(1.0)) && !met(Target::NotAbove(0.89)));
    assert!(met(Target::BaselinePlus(1.5)) && !met(Target::BaselinePlus(1.4)));
}

#[test]
fn a_row_that_was_not_measured_is_no_failure_and_says_why() {
    let mut row = Row::new("a", "a and b", "req/s", Target::RatioAtLeast(2.0));
    row.note("one core only");
    assert_eq!(row.met, None);
    let text = serde_json::to_value(&row).unwrap();
    assert!(text["met"].is_null() && text["dp"].is_null());
    assert_eq!(text["target"], serde_json::json!({ "test": "ratio_at_least", "value": 2.0 }));
    assert_eq!(row.cells().len(), Row::TITLES.len());
}

#[test]
fn numbers_that_are_not_of_dp_are_marked() {
    let measured = row(Target::RatioAtLeast(1.0), &[1.0], &[2.0]);
    assert!(measured.clone().with_part(Some(0.99), "none").notes.is_empty());
    assert!(measured.clone().with_part(Some(0.4), "3 silent").notes[0].contains("3 silent"));
    assert!(measured.with_part(None, "").notes[0].contains("no shim"));
}
