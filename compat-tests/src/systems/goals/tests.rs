use super::super::Sample;
use super::*;

fn survey(of: &[(What, usize, &'static str, f64)]) -> Survey {
    let mut survey = Survey::default();
    for &(what, size, key, value) in of {
        let sample = match what {
            What::Flood => Sample { messages_per_s: Some(value), ..Sample::default() },
            _ => Sample { p50_ns: Some(value), ..Sample::default() },
        };
        survey.record((what, size, key), 0, sample, 60.0);
    }
    survey
}

fn goal(survey: &Survey, what: &str) -> Goal {
    let found = of(survey).into_iter().find(|goal| goal.what.contains(what));
    found.unwrap_or_else(|| panic!("no goal about {what}"))
}

#[test]
fn latency_is_judged_over_the_floor_of_the_same_round() {
    let survey = survey(&[(What::Latency, 8, "floor", 60.0), (What::Latency, 8, "dp", 101.0)]);
    let missed = goal(&survey, "dp_write/dp_recvfrom: over the floor");
    assert_eq!((missed.met, missed.value.unwrap().median), (Some(false), 41.0));
    assert_eq!(missed.verdict(), "MISSED, 1.02 times off");
    assert_eq!(missed.limit_text(), "<= 40 ns");
}

#[test]
fn the_better_of_the_ucx_protocols_is_the_measure() {
    let survey = survey(&[
        (What::Latency, 8, "dp", 120.0),
        (What::Latency, 8, "ucx-tag", 130.0),
        (What::Latency, 8, "ucx-am", 110.0),
        (What::Flood, 8, "dp", 30e6),
        (What::Flood, 8, "ucx-tag", 10e6),
        (What::Flood, 8, "ucx-am", 25e6),
    ]);
    let latency = goal(&survey, "dp_write/dp_recvfrom: of the better UCX");
    assert_eq!(latency.met, Some(false));
    let rate = goal(&survey, "8 B messages, one edge");
    assert_eq!((rate.met, rate.value.unwrap().median), (Some(false), 1.2));
    assert_eq!(rate.beside, "30.00 M/s to 25.00 M/s");
    assert_eq!(rate.verdict(), "MISSED, 1.25 times off");
}

#[test]
fn a_sleeper_is_compared_with_the_quicker_wake_up() {
    let of = |asleep| {
        survey(&[
            (What::Latency, 8, "dp-asleep", asleep),
            (What::Latency, 8, "eventfd", 5000.0),
            (What::Latency, 8, "futex", 4000.0),
        ])
    };
    assert_eq!(goal(&of(4400.0), "sleeping receiver").met, Some(true));
    assert_eq!(goal(&of(4500.0), "sleeping receiver").met, Some(false));
}

#[test]
fn another_distance_has_a_verdict_of_its_own() {
    let at = |floor: f64, dp: f64| {
        of(&survey(&[(What::Latency, 8, "floor", floor), (What::Latency, 8, "dp", dp)]))
    };
    let goal = at(260.0, 330.0)[0].clone().with_elsewhere(&at(60.0, 99.0));
    assert_eq!((goal.met, goal.met_elsewhere), (Some(false), Some(true)));
    assert_eq!((goal.value_text().as_str(), goal.elsewhere_text().as_str()), ("70.00 ns", "39.00 ns, met"));
    assert_eq!(at(260.0, 330.0)[0].elsewhere_text(), "-");
}

#[test]
fn what_was_not_measured_is_neither_met_nor_missed() {
    for goal in of(&Survey::default()) {
        assert_eq!((goal.met, goal.value), (None, None), "{}", goal.what);
        assert_eq!(goal.verdict(), "not measured");
    }
}
