//! What is printed about links whose parameters are known.

use super::link::{Cost, Link};
use crate::logp::fit::fit;
use crate::logp::probe::{Plan, Survey};
use crate::logp::report::{Contended, Findings, Report};
use crate::origin::Place;
use crate::printed::Printed;
use crate::tests::here;

fn way(mut link: Link, window: u32) -> Findings {
    let plan = Plan {
        sizes: vec![8, 4096],
        window,
        bursts: vec![1, 2, 4, 64, 128, 256],
        delays: vec![0.0, 2.0, 8.0],
    };
    let mut survey = Survey::new(plan);
    let Ok(()) = survey.first(&mut link, |_| false);
    let contended = Contended::all(&[1, 2], &[vec![300.0], vec![630.0]], |senders| senders > 1);
    Findings::new("wire", &survey, &fit(&survey).unwrap(), contended)
}

#[test]
fn several_senders_are_compared_round_by_round() {
    // The machine became twice as slow behind the first round.
    let [one, three] =
        Contended::all(&[1, 3], &[vec![10.0, 20.0, 20.0], vec![31.0, 62.0, 59.0]], |k| k > 2)[..]
    else {
        panic!("two numbers of senders")
    };
    assert_eq!((one.senders, one.g, one.times, one.shared_cores), (1, 20.0, 1.0, false));
    assert_eq!((three.g_half, three.times_half), (1.5, 0.0));
    assert!(Contended::all(&[1], &[vec![10.0]], |_| false)[0].g_half.is_nan(), "of one turn");
    assert_eq!((three.senders, three.g, three.times, three.shared_cores), (3, 59.0, 3.1, true));
}

#[test]
fn the_table_has_parameters_sizes_and_senders() {
    let mut report = Report::new(here(), Place::Cores([0, 1]), 2, 8, 16);
    report.ways.push(way(Link::new(Cost(100.0, 0.0), 50.0, 500.0, Cost(300.0, 0.0)), 16));
    let text = report.text();
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(lines.contains(&"wire 100 ± 0 50 ± 1 500 ± 1 300 ± 1 650 ± 0".split(' ').collect()), "{text}");
    assert!(lines.contains(&"4096 100 ± 0 300 ± 1 1300 ± 0 3151 13653".split(' ').collect()), "{text}");
    assert!(lines.contains(&"wire 300 ± ? 1.00x 630 ± ? 2.10x".split(' ').collect()), "{text}");
    assert!(text.contains("some took turns on one") && !text.contains("wider than"), "{text}");
    assert!(report.ways[0].notes.is_empty());
    assert!(text.ends_with("\nhere, A Processor, Linux 6.12.1, 1970-01-01T00:00:00Z, dp 0.1.0\n"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
    assert_eq!(json["ways"][0]["signature"][0]["points"][5]["m"], 256);
    assert_eq!(json["ways"][0]["idle"], 150.0);
    assert_eq!(json["cores"], serde_json::json!([0, 1]));
    report.place = Place::Node(2);
    assert!(report.text().starts_with("LogP of 8-byte messages to node 2, P"), "{}", report.text());
    let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
    assert_eq!((&json["node"], json.get("cores")), (&2.into(), None));
    assert_eq!((&json["origin"]["host"], &json["origin"]["dp"]), (&"here".into(), &"0.1.0".into()));
}

#[test]
fn what_logp_does_not_hold_for_is_told() {
    let busy = way(Link::new(Cost(300.0, 0.0), 400.0, 2000.0, Cost(10.0, 0.0)), 16);
    assert!(busy.notes.len() == 1 && busy.notes[0].contains("slowest stage"), "{:?}", busy.notes);
    // A round trip of 30 gaps, and a window of 4.
    let narrow = way(Link::new(Cost(100.0, 0.0), 100.0, 5800.0, Cost(400.0, 0.0)), 4);
    assert!(narrow.g.ns > 2000.0, "{:?}", narrow.g);
    assert!(narrow.notes.iter().any(|note| note.contains("--window")), "{:?}", narrow.notes);
}
