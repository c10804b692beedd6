//! `dp cost`.

use serde_json::Value;

use super::{drawn, list, names, report, told, told_of_surveys, two_cores};

#[track_caller]
fn has(of: &Value, fields: &str) {
    super::has(include_str!("../../../../man/dp-cost.1"), of, fields);
}

#[test]
fn two_ways_have_all_the_manual_tells_of() {
    if !two_cores("cost") {
        return;
    }
    let line = "--quick --seconds 1 --longest 4194304 --packet 32768 --ways endpoint,unix-stream";
    let report = report("cost", line);
    has(&report, "version origin cores p caches packet seconds copies ways");
    assert_eq!((&report["version"], &report["p"], &report["packet"]), (&2.into(), &2.into(), &32_768.into()));
    has(&report["origin"], "host cpu kernel date dp");
    assert_eq!(names(&report["copies"], "name"), ["M_ctc", "M_ctm", "M_mtm"]);
    assert_eq!(names(&report["ways"], "way"), ["endpoint", "unix-stream"]);
    for way in list(&report["ways"]) {
        has(way, "way driver rounds parameters b_l spread condition messages median_error bandwidth notes");
        let endpoint = way["way"] == "endpoint";
        assert_eq!(way["driver"].is_string(), endpoint);
        assert!(way["rounds"].as_u64().unwrap() >= 1);
        assert_eq!(names(&way["parameters"], "name"), ["O_s", "g_s", "L", "g_r", "O_r", "U_r", "T"]);
        for parameter in list(&way["parameters"]).iter().chain(list(&report["copies"])) {
            has(parameter, "name pieces points");
            let pieces = list(&parameter["pieces"]);
            pieces.iter().for_each(|piece| has(piece, "piece from to k t t_half error worst"));
            // Each packet has a piece.
            assert!(pieces[0]["from"] == 1 && pieces.last().unwrap()["to"].is_null());
            for pair in pieces.windows(2) {
                assert_eq!(pair[0]["to"].as_u64().unwrap() + 1, pair[1]["from"].as_u64().unwrap());
            }
            list(&parameter["points"]).iter().for_each(|point| has(point, "size ns half"));
        }
        let pieces = names(&way["parameters"][0]["pieces"], "piece");
        assert!(pieces.contains(&"L1") && pieces.contains(&"out-of-line") == endpoint, "{pieces:?}");

        has(&way["b_l"], "bytes beside error packets");
        assert!(list(&way["b_l"]["packets"]).iter().all(|pair| pair[1].as_f64().unwrap() >= 1.0));
        list(&way["spread"]).iter().for_each(|spread| has(spread, "buffers g_s g_r"));
        has(&way["condition"], "costs holds bound");
        has(&way["condition"]["costs"], "o_s g l o_r u_r");

        let messages = list(&way["messages"]);
        let of = |k: bool| messages.iter().filter(move |m| (m["k"] == 1) == k);
        let sizes = |k| of(k).map(|m| m["size"].as_u64().unwrap()).collect::<Vec<_>>();
        assert_eq!(sizes(true), (0..=22).step_by(2).map(|n| 1u64 << n).collect::<Vec<_>>());
        assert_eq!(sizes(false), [65_536, 262_144, 1 << 20, 4 << 20]);
        for m in messages {
            has(m, "size k piece bound predicted network_bound receiver_bound measured error half");
            assert!(m["measured"].as_f64().unwrap() > 0.0 && m["error"].is_number());
            assert!(m["predicted"].is_number(), "every piece of a message was measured: {m}");
            assert_eq!(m["bound"].is_null(), m["k"] == 1);
            assert!(m["k"] == 1 || m["k"].as_u64().unwrap() * 32_768 == m["size"].as_u64().unwrap());
        }
        has(&way["median_error"], "all whole cut pieces");
        assert!(way["median_error"]["all"].as_f64().unwrap() >= 0.0);

        let bandwidth = list(&way["bandwidth"]);
        assert_eq!(bandwidth.len(), 2);
        for test in bandwidth {
            has(test, "packet one_direction one_direction_eagain exchange exchange_threads");
            for rate in ["one_direction", "exchange"] {
                has(&test[rate], "mb_per_s half");
                assert!(test[rate]["mb_per_s"].as_f64().unwrap() > 0.0);
            }
            assert_eq!(test["one_direction_eagain"].is_object(), endpoint);
            assert_eq!(test["exchange_threads"].is_object(), endpoint);
        }
    }
}

#[test]
fn tables_and_pictures_have_their_titles() {
    if !two_cores("cost") {
        return;
    }
    for (kind, ways) in [("svg", "endpoint,tcp"), ("png", "unix-stream")] {
        let (text, picture) =
            drawn("cost", "--quick --seconds 1 --longest 1048576 --packet 4096", ways, kind);
        for title in ["M_mtm", "O_s", "B_L", "predicted", "median error", "10 MB, MB/s", "reliable"] {
            assert!(text.contains(title), "{title}: {text}");
        }
        // 1 MiB has a piece of its own, in which nothing else is predicted.
        assert!(!text.contains("not predicted"), "{text}");
        if kind == "svg" {
            for text in ["tcp: one-way time", "message, bytes", "one-way time", "cost of a packet", "U_r"]
                .into_iter()
                .chain(["round", "? where there is none", ", Linux ", ", dp "])
            {
                assert!(picture.contains(text), "{text}");
            }
        }
    }
}

#[test]
fn what_cannot_be_used_is_told_in_a_sentence() {
    told_of_surveys("cost");
    let told = |line, words| told("cost", line, 2, words);
    told("--packet 63", &["63", "64..=262144"]);
    told("--packet 3000", &["--packet 3000", "power of two", "Usage: dp cost"]);
    told("--packet many", &["many"]);
    told("--longest 100000", &["--longest 100000", "power of two"]);
    told("--longest 33554432", &["33554432", "16777216"]);
    told("--packet 65536 --longest 65536", &["--packet 65536", "--longest 65536"]);
}
