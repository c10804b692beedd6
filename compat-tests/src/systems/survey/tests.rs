use super::*;

fn lat(p50: f64) -> Sample {
    Sample { p50_ns: Some(p50), p99_ns: Some(2.0 * p50), ..Sample::default() }
}

const AT: (What, usize) = (What::Latency, 8);

#[test]
fn a_number_is_the_median_of_the_rounds() {
    let mut survey = Survey::default();
    for (round, p50) in [100.0, 300.0, 120.0].into_iter().enumerate() {
        survey.record((AT.0, AT.1, "dp"), round, lat(p50), 60.0);
    }
    let spread = survey.spread(AT.0, AT.1, "dp", Metric::Middle).unwrap();
    assert_eq!((spread.median, spread.low, spread.high), (120.0, 100.0, 300.0));
    assert_eq!(survey.spread(AT.0, AT.1, "dp", Metric::P99).unwrap().median, 240.0);
    assert_eq!(survey.spread(AT.0, AT.1, "dp", Metric::P999), None);
    assert_eq!(survey.spread(AT.0, 9, "dp", Metric::Middle), None);
}

#[test]
fn a_mean_stands_in_for_a_median_that_nobody_knows() {
    let mut survey = Survey::default();
    survey.record((AT.0, AT.1, "libfabric"), 0, Sample { mean_ns: Some(700.0), ..Sample::default() }, 60.0);
    assert_eq!(survey.spread(AT.0, AT.1, "libfabric", Metric::Middle).unwrap().median, 700.0);
}

#[test]
fn only_turns_with_the_same_distance_are_compared() {
    let mut survey = Survey::default();
    // The cores are moved apart after the first round, and back later.
    for (round, p50, floor) in [(0, 100.0, 60.0), (1, 1000.0, 250.0), (2, 1000.0, 255.0), (3, 100.0, 61.0)] {
        survey.record((AT.0, AT.1, "dp"), round, lat(p50), floor);
        survey.record((AT.0, AT.1, "tcp"), round, lat(4.0 * p50), floor);
    }
    // It had its only turn in the third round, with the cores near each other.
    survey.record((AT.0, AT.1, "pipe"), 2, lat(50.0), 62.0);
    let of = |pair| survey.compare((AT.0, AT.1, Metric::Middle), pair, |a, b| a / b);
    let ratio = of(["dp", "tcp"]).unwrap();
    assert_eq!((ratio.median, ratio.low, ratio.high), (0.25, 0.25, 0.25));
    assert_eq!(of(["dp", "pipe"]).unwrap().median, 2.0);
    assert_eq!(of(["dp", "ucx-tag"]), None);
}

#[test]
fn rows_belong_to_a_distance() {
    let mut survey = Survey::default();
    for (round, floor) in [(0, 60.0), (1, 250.0), (2, 61.0)] {
        survey.record((AT.0, AT.1, "dp"), round, lat(floor), floor);
    }
    let rows = serde_json::to_value(survey.rows()).unwrap();
    let told: Vec<_> = rows
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (&row["state"], &row["turns"], &row["p50_ns"]["high"]))
        .collect();
    assert_eq!(
        format!("{told:?}"),
        "[(Number(0), Number(2), Number(61.0)), (Number(1), Number(1), Number(250.0))]"
    );
}

#[test]
fn failures_with_one_reason_are_told_once() {
    let mut survey = Survey::default();
    survey
        .failed
        .insert((What::Latency, 8, "ucx-tag"), "ucx_perftest tag_lat, 8 bytes ended with status 1".into());
    survey
        .failed
        .insert((What::Latency, 64, "ucx-tag"), "ucx_perftest tag_lat, 64 bytes ended with status 1".into());
    survey.failed.insert((What::Flood, 64, "mpich"), "no such thing".into());
    survey.gather();
    let told: Vec<_> = survey.missing().iter().map(|m| (m.what.as_str(), m.why.as_str())).collect();
    assert_eq!(
        told,
        [
            ("MPICH: flood of 64 B", "no such thing"),
            ("UCX tag: latency of 8 B, latency of 64 B", "ucx_perftest tag_lat, N bytes ended with status 1"),
        ]
    );
}

#[test]
fn every_turn_of_a_plan_is_counted() {
    let named = |key| System::named(key).unwrap();
    let plan = Plan {
        systems: vec![named("floor"), named("pipe"), named("mqueue"), named("memcpy")],
        sizes: vec![8, 65_536],
        rounds: 3,
        time: Duration::from_millis(1),
    };
    // Floor: latency of 8. Pipe: both lengths, both ways, and waiting. Queue: one length, both ways, waiting. memcpy: two.
    assert_eq!(plan.turns(), 3 * (1 + 5 + 3 + 2));
}
