use std::time::Duration;

use super::super::numbers::Row;
use super::super::Sample;
use super::*;

fn report(survey: &Survey, missing: Vec<Missing>) -> Report {
    Report {
        version: 1,
        command: "make bench".into(),
        machine: Machine::new(),
        cores: [1, 0],
        rounds: 2,
        seconds: Duration::from_millis(100).as_secs_f64(),
        took_s: 120.0,
        states: survey.states(),
        goals: super::super::goals::of(survey),
        systems: survey.rows(),
        numbers: Numbers { crowds: vec![crowd(1, 60e3), crowd(5000, 70e3)], idle: None },
        kernel: vec!["64 bytes there and back: 9.1 us".into()],
        programs: Vec::new(),
        missing,
    }
}

fn crowd(endpoints: usize, ns: f64) -> Row {
    let spread = Spread { median: ns, low: ns, high: ns };
    let each = (endpoints >= 1000).then_some(2048.0);
    Row {
        system: "tcp",
        endpoints,
        p50_ns: spread,
        p99_ns: spread,
        resident_bytes_each: each,
        kernel_bytes_each: each,
        processes: 1,
    }
}

#[test]
fn good_and_bad_rows_are_on_the_page() {
    let mut survey = Survey::default();
    for (round, ns) in [(0, 100.0), (1, 140.0)] {
        let sample = |factor: f64| Sample {
            p50_ns: Some(ns * factor),
            p99_ns: Some(1e6),
            p999_ns: Some(2e6),
            ..Sample::default()
        };
        survey.record((What::Latency, 8, "floor"), round, sample(0.5), 60.0);
        survey.record((What::Latency, 8, "dp"), round, sample(1.0), 60.0);
        survey.record((What::Latency, 4096, "mqueue"), round, sample(200.0), 60.0);
        let flood = Sample { messages_per_s: Some(1e6), cpu_s_per_gib: Some(0.5), ..Sample::default() };
        survey.record((What::Flood, 4096, "mqueue"), round, flood, 60.0);
    }
    let missing = vec![Missing { what: "MPICH".into(), why: "not there".into() }];
    let plots = [("latency.svg".to_string(), "One way".to_string())];
    let view = View { survey: &survey, elsewhere: None, sizes: &[8, 4096], plots: &plots };
    let page = report(&survey, missing).markdown(&view);
    for line in [
        "| DP dp_write/dp_recvfrom, copied | 120.0 ns ±17% | 60.00 ns | 1.00 ms | 2.00 ms | - |",
        "|  | 8 B | 4 KiB |",
        "| DP dp_write/dp_recvfrom, copied | 120.0 ns ±17% | - |",
        "| POSIX message queue | - | 24.00 us ±17% |",
        "| POSIX message queue | 4.10 |",
        "| POSIX message queue | 0.500 |",
        "|  | 1 | 5 000 | resident | kernel |",
        "| TCP | 60.00 us | 70.00 us | 2.00 KiB | 2.00 KiB |",
        "- 64 bytes there and back: 9.1 us",
        "- MPICH: not there",
        "![One way](latency.svg)",
        "floor (a cache line from one core to the other): 60.00 ns, from 50.00 to 70.00 ns",
    ] {
        assert!(page.contains(line), "{line} is not in\n{page}");
    }
    assert!(!page.contains("UCX tag |"), "a row of nothing");
}

#[test]
fn two_distances_have_tables_of_their_own() {
    let mut survey = Survey::default();
    for (round, floor) in [(0, 260.0), (1, 60.0), (2, 250.0)] {
        let lat = |p50| Sample { p50_ns: Some(p50), ..Sample::default() };
        survey.record((What::Latency, 8, "floor"), round, lat(floor), floor);
        survey.record((What::Latency, 8, "dp"), round, lat(floor + 40.0), floor);
    }
    let states = survey.states();
    let (main, other) = (survey.within(&states[0]), survey.within(&states[1]));
    let view = View { survey: &main, elsewhere: Some(&other), sizes: &[8], plots: &[] };
    let page = report(&survey, Vec::new()).markdown(&view);
    let (first, last) = page.split_once("## While the cores").unwrap();
    assert!(first.contains("| DP dp_write/dp_recvfrom, copied | 295.0 ns ±2% | 40.00 ns |"), "{first}");
    assert!(
        first.contains(
            "in 67 % of all turns, and the tables are of those; the floor was 60.00 to 60.00 ns in 33 %"
        ),
        "{first}"
    );
    assert!(last.contains("| DP dp_write/dp_recvfrom, copied | 100.0 ns | 40.00 ns |"), "{last}");
}

#[test]
fn lengths_and_times_have_their_units() {
    assert_eq!(
        [1, 1000, 1024, 65_536, 1 << 20, 16 << 20].map(bytes).join(" "),
        "1 B 1000 B 1 KiB 64 KiB 1 MiB 16 MiB"
    );
    assert_eq!([61.5, 9999.0, 12_000.0, 2.5e6].map(time).join(", "), "61.50 ns, 9 999 ns, 12.00 us, 2.50 ms");
}
