use super::*;
use crate::measure::report::Target;

fn row(target: Target) -> Row {
    Row::new("endpoint", "endpoints", "ns", target)
}

#[test]
fn endpoints_are_judged_by_the_floor_of_the_same_run() {
    let json = |p50| {
        format!(
            r#"{{ "version": 2, "what": "lat", "cores": [1, 0], "p50_ns": {p50}, "floor_ns": 50.0, "over_floor_ns": 41.5,
            "results": [{{ "size": 8, "way": "floor", "p50_ns": 50.0, "p99_ns": 60.0, "cpu_s": [1.0, 0.9] }},
                        {{ "size": 8, "way": "endpoint", "p50_ns": {p50}, "p99_ns": 120.0, "cpu_s": [1.0, 0.8] }},
                        {{ "size": 8, "way": "tcp", "p50_ns": 9000.0, "p99_ns": 9900.0, "cpu_s": [0.5, 0.5] }}] }}"#
        )
    };
    let filled = fill(row(Target::BaselinePlus(60.0)), What::Lat, &json(110.0)).unwrap();
    assert_eq!(filled.met, Some(true));
    assert!(filled.notes[0].contains("41.5"));
    let dp = filled.dp.unwrap();
    assert_eq!((dp.value.median, dp.server_cpu_s, dp.client_cpu_s), (110.0, Some(0.8), Some(1.0)));
    assert_eq!(fill(row(Target::BaselinePlus(60.0)), What::Lat, &json(110.5)).unwrap().met, Some(false));
}

#[test]
fn rates_are_compared_with_datagrams() {
    let json = r#"{ "version": 2, "what": "rate", "results": [
        { "size": 8, "way": "endpoint", "messages_per_s": 32e6, "bytes_per_s": 256e6, "cpu_s": [1.0, 1.0] },
        { "size": 8, "way": "unix-stream", "messages_per_s": 1e9, "bytes_per_s": 8e9, "cpu_s": [1.0, 1.0] },
        { "size": 8, "way": "unix-dgram", "messages_per_s": 2e6, "bytes_per_s": 16e6, "cpu_s": [1.0, 1.0] }] }"#;
    let filled = fill(row(Target::RatioAtLeast(15.0)), What::Rate, json).unwrap();
    assert_eq!((filled.ratio.unwrap().median, filled.met), (16.0, Some(true)));
}

#[test]
fn what_is_not_known_is_not_guessed() {
    let rate = row(Target::RatioAtLeast(15.0));
    assert!(fill(rate.clone(), What::Rate, "dp bench: not there yet").is_none());
    assert!(fill(rate.clone(), What::Rate, r#"{ "version": 2, "results": [] }"#).is_none());
    assert!(fill(rate, What::Rate, r#"{ "version": 1, "results": [] }"#).is_none());
}
