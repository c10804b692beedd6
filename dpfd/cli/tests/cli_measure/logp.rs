//! `dp logp`.

use serde_json::Value;

use super::{drawn, list, names, numbers, report, told, told_of_surveys, two_cores};

#[track_caller]
fn has(of: &Value, fields: &str) {
    super::has(include_str!("../../../../man/dp-logp.1"), of, fields);
}

#[test]
fn two_ways_have_all_the_manual_tells_of() {
    if !two_cores("logp") {
        return;
    }
    let report = report("logp", "--quick --seconds 2 --ways endpoint,pipe --sizes 8,4096,65536");
    has(&report, "version origin cores p size window batch within seconds ways");
    assert_eq!((&report["version"], &report["size"]), (&1.into(), &8.into()));
    has(&report["origin"], "host cpu kernel date dp");
    assert!(report["origin"]["kernel"].as_str().unwrap().starts_with("Linux "), "{}", report["origin"]);
    assert_eq!(report["origin"]["dp"], env!("CARGO_PKG_VERSION"));
    assert_eq!(names(&report["ways"], "way"), ["endpoint", "pipe"]);
    for way in list(&report["ways"]) {
        has(way, "way o_s o_r l g rtt alone idle n_half signature bulk k_to_1 points wide notes");
        for parameter in ["o_s", "o_r", "l", "g", "rtt", "alone"] {
            has(&way[parameter], "ns half");
            assert!(way[parameter]["ns"].is_number(), "{parameter}");
        }
        assert!(way["rtt"]["ns"].as_f64().unwrap() > 0.0);

        let curves = list(&way["signature"]);
        assert!(curves.len() >= 3 && curves[0]["d"] == 0.0, "{curves:?}");
        for curve in curves {
            has(curve, "d points");
            has(&curve["points"][0], "m ns half batches");
            assert_eq!(curve["points"][0]["m"], 1);
        }
        assert_eq!(list(&curves[0]["points"]).last().unwrap()["m"], 256);

        assert_eq!(numbers(&way["bulk"], "size"), [8, 4096, 65_536]);
        list(&way["bulk"]).iter().for_each(|b| has(b, "size window o_s g t bytes_per_s stream_bytes_per_s"));
        let senders = list(&way["k_to_1"]);
        assert_eq!(numbers(&way["k_to_1"], "senders"), [1, 2]);
        senders.iter().for_each(|k| has(k, "senders g g_half times times_half shared_cores"));
        assert!(senders[0]["times"] == 1.0 && senders[1]["times"].as_f64().unwrap() > 0.0);
        list(&way["wide"]).iter().for_each(|w| has(w, "size m d percent"));
    }
}

#[test]
fn every_way_carries_requests_and_is_drawn() {
    if !two_cores("logp") {
        return;
    }
    let all = "endpoint,plain,unix-seqpacket,unix-stream,tcp,pipe";
    for (kind, ways) in [("svg", all), ("png", "tcp")] {
        let (_, picture) = drawn("logp", "--quick --seconds 1 --sizes 8,262144", ways, kind);
        if kind == "svg" {
            for text in
                ["unix-seqpacket, 8 bytes", "M: requests in a burst", "bytes of a request", "MB/s", "o_r"]
                    .into_iter()
                    .chain(["95 % intervals", "Within 5 %: ", ", Linux ", ", dp "])
            {
                assert!(picture.contains(text), "{text}");
            }
        }
    }
}

#[test]
fn what_cannot_be_used_is_told_in_a_sentence() {
    told_of_surveys("logp");
    let told = |line, words| told("logp", line, 2, words);
    told("--sizes 0", &["0", "16777216"]);
    told("--sizes 99999999", &["99999999"]);
    told("--sizes eight", &["eight"]);
    told("--window 65", &["65", "4..=64"]);
    if two_cores("logp") {
        told("--sizes 1024,4096", &["1024", "must not be above 512", "add a smaller one", "Usage: dp logp"]);
    }
}
