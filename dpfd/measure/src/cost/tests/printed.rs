//! What is printed about a system whose parameters are known.

use super::pipeline::{linear, Pipeline};
use crate::cost::fit::{Border, Model};
use crate::cost::probe::{Plan, Survey};
use crate::cost::report::{Bandwidth, Errors, Findings, Parameter, Rate, Report};
use crate::origin::Place;
use crate::printed::Printed;
use crate::tests::here;

fn report(system: Pipeline) -> Report {
    report_with(system, &[Border { name: "L1", upto: 4096 }, Border { name: "far", upto: usize::MAX }])
}

fn report_with(mut system: Pipeline, borders: &[Border]) -> Report {
    let mut survey = Survey::new(Plan::new(1024, 1 << 16, true));
    for _ in 0..2 {
        let Ok(()) = survey.round(&mut system, |_| false);
    }
    let model = Model::fit(&survey, borders).unwrap();
    let way = Findings::new("endpoint", Some("user"), &survey, borders, &model);
    let copies = vec![Parameter { name: "M_ctc".to_string(), ..way.parameters[0].clone() }];
    Report {
        version: 2,
        origin: here(),
        place: Place::Cores([2, 3]),
        p: 2,
        caches: [32 << 10, 512 << 10, 32 << 20],
        packet: 1024,
        seconds: 7.4,
        copies,
        ways: vec![way],
    }
}

fn network() -> Pipeline {
    let overheads = [linear(1000.0, 0.0), linear(6000.0, 0.0), linear(9000.0, 0.0)];
    Pipeline::new([overheads[0], overheads[1], overheads[2], linear(400.0, 0.0), linear(600.0, 0.0)])
}

#[test]
fn the_table_has_pieces_the_condition_and_messages() {
    let mut report = report(network());
    report.ways[0].bandwidth = vec![Bandwidth {
        packet: 1500,
        one_direction: Rate { mb_per_s: 80.2, half: 1.0 },
        one_direction_eagain: None,
        exchange: Rate { mb_per_s: 47.0, half: 2.0 },
        exchange_threads: Some(Rate { mb_per_s: 58.0, half: 3.0 }),
    }];
    let text = report.text();
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    let has = |line: &str| assert!(lines.contains(&line.split(' ').collect()), "{line}\n{text}");
    has("M_ctc far 4097 to up 1000.0 0.00 0.0 0.0 % 0.0 %");
    has("g_s far 4097 to up 6000.0 0.00 0.2 0.0 % 0.0 %");
    assert!(text.contains("O_s 1.00 µs + O_r 400 ns + U_r 600 ns < g 6.00 µs < L 9.00 µs holds"), "{text}");
    has("64 1 L1 11.00 µs 11.00 µs +0.0 % 0.0 %");
    // 16 packets: 11 us and 15 gaps.
    has("16384 16 network 101.00 µs 101.00 µs +0.0 % 0.0 %");
    has("1500 80 ± 1 - 47 ± 2 58 ± 3");
    assert!(text.contains("median error 0.0 %; of one packet 0.0 % (L1 0.0 %, far 0.0 %), of several 0.0 %"));
    assert!(text.ends_with("here, A Processor, Linux 6.12.1, 1970-01-01T00:00:00Z, dp 0.1.0\n"), "{text}");
    assert!(report.ways[0].notes.is_empty(), "{:?}", report.ways[0].notes);
}

#[test]
fn json_has_what_the_table_has() {
    let json: serde_json::Value = serde_json::from_str(&report(network()).json()).unwrap();
    let way = &json["ways"][0];
    assert_eq!((&json["version"], &json["p"], &way["driver"]), (&2.into(), &2.into(), &"user".into()));
    assert_eq!(json["origin"]["cpu"], "A Processor");
    assert_eq!(way["parameters"][0]["name"], "O_s");
    assert_eq!(way["parameters"][0]["pieces"][1]["to"], serde_json::Value::Null);
    assert_eq!(way["condition"]["bound"], "network");
    let cut = way["messages"].as_array().unwrap().iter().find(|m| m["k"] == 16).unwrap();
    assert_eq!(
        (&cut["size"], &cut["bound"], &cut["predicted"]),
        (&16_384.into(), &"network".into(), &101e3.into())
    );
    assert_eq!((&cut["network_bound"], &cut["receiver_bound"]), (&101e3.into(), &26e3.into()));
}

#[test]
fn what_is_unknown_is_told_and_null() {
    // Nothing but the message of 64 KiB lies behind the last border.
    let borders = [Border { name: "L1", upto: 60_000 }, Border { name: "far", upto: usize::MAX }];
    let report = report_with(network(), &borders);
    let text = report.text();
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    let has = |line: &str| assert!(lines.contains(&line.split(' ').collect()), "{line}\n{text}");
    has("O_s far 60001 to up unknown ? ? - -");
    has("65536 1 far unknown 11.00 µs - ?");
    assert!(text.contains("so they are not predicted: 65536 (far)"), "{text}");
    // The others are.
    assert!(text.contains("median error 0.0 %; of one packet 0.0 % (L1 0.0 %, far -)"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
    let way = &json["ways"][0];
    let piece = &way["parameters"][0]["pieces"][1];
    assert!(piece["piece"] == "far" && piece["k"].is_null() && piece["worst"].is_null(), "{piece}");
    let far = way["messages"].as_array().unwrap().iter().find(|m| m["piece"] == "far" && m["k"] == 1);
    let far = far.unwrap();
    assert!(far["predicted"].is_null() && far["error"].is_null() && far["measured"] == 11e3, "{far}");
}

#[test]
fn what_the_model_does_not_hold_for_is_told() {
    let mut system = network();
    (system.u_r, system.o_r, system.l) = (linear(7000.0, 0.0), linear(0.0, 0.0), linear(100.0, 0.0));
    let notes = report(system).ways.remove(0).notes;
    assert!(
        notes.iter().any(|note| note.contains("does not hold") && note.contains("equation (2)")),
        "{notes:?}"
    );
    assert!(notes.iter().any(|note| note.contains("O_r cannot be told from 0")), "{notes:?}");
    let mut system = network();
    system.l = linear(-500.0, 0.0);
    let notes = report(system).ways.remove(0).notes;
    assert!(notes.iter().any(|note| note.contains("L is below 0")), "{notes:?}");
}

#[test]
fn errors_are_medians_without_sign() {
    let way = report(network()).ways.remove(0);
    let mut messages: Vec<_> = way.messages.into_iter().take(3).collect();
    for (m, error) in messages.iter_mut().zip([-30.0, 5.0, 8.0]) {
        m.error = error;
        (m.k, m.piece) = (1, "L1".to_string());
    }
    messages[2].k = 4;
    let found = Errors::of(&messages);
    assert_eq!((found.all, found.whole, found.cut), (8.0, 17.5, 8.0));
    assert_eq!(found.pieces, [("L1".to_string(), 17.5)]);
    assert!(Errors::of(&messages[..1]).cut.is_nan());
}

#[test]
fn rates_are_megabytes() {
    assert_eq!(Rate::of(&[79.52e6, 60e6, 80e6, 10e6, 90e6]), Rate { mb_per_s: 79.5, half: 10.0 });
    assert!(Rate::of(&[79.52e6]).half.is_nan());
}
