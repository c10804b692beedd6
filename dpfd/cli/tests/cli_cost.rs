//! `dp cost` in short: what is printed is what the manual says, what is drawn can be read, and what cannot be used is
//! told in a sentence. No number is judged here: the machine may be busy.

use std::fs;
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

/// Both tests that measure want the same two cores for themselves.
static CORES: Mutex<()> = Mutex::new(());

fn cost(line: &str) -> Output {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "300", env!("CARGO_BIN_EXE_dp"), "cost"]).args(line.split_whitespace());
    command.output().unwrap()
}

/// Whether two processes can have a core each; a line for the summary if not.
fn two_cores() -> bool {
    let two = std::thread::available_parallelism().is_ok_and(|n| n.get() > 1);
    if !two {
        if let Some(skips) = std::env::var_os("DP_SKIPS") {
            let line = "dp cost: one core, and the model needs two\n";
            let old = fs::read_to_string(&skips).unwrap_or_default();
            fs::write(skips, old + line).unwrap();
        }
    }
    two
}

#[track_caller]
fn has(of: &Value, fields: &str) {
    let mut found: Vec<&str> = of.as_object().unwrap().keys().map(String::as_str).collect();
    let mut wanted = fields.split(' ').collect::<Vec<_>>();
    found.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(found, wanted);
    let page = include_str!("../../../man/dp-cost.1");
    assert!(found.iter().all(|field| page.contains(field)), "dp-cost(1) does not tell of all of {found:?}");
}

fn list(of: &Value) -> &Vec<Value> {
    of.as_array().unwrap()
}

fn names<'a>(of: &'a Value, field: &str) -> Vec<&'a str> {
    list(of).iter().map(|one| one[field].as_str().unwrap()).collect()
}

#[test]
fn two_ways_have_all_the_manual_tells_of() {
    if !two_cores() {
        return;
    }
    let _alone = CORES.lock().unwrap_or_else(PoisonError::into_inner);
    let out = cost("--quick --seconds 1 --longest 4194304 --packet 32768 --ways endpoint,unix-stream --json");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let report: Value = serde_json::from_slice(&out.stdout).unwrap();
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
    if !two_cores() {
        return;
    }
    let _alone = CORES.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = std::env::temp_dir().join(format!("dp-cost-test-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    for (file, begin, ways) in
        [("all.svg", &b"<svg"[..], "endpoint,tcp"), ("one.png", &b"\x89PNG"[..], "unix-stream")]
    {
        let path = folder.join(file);
        let out = cost(&format!(
            "--quick --seconds 1 --longest 1048576 --packet 4096 --ways {ways} --plot {}",
            path.display()
        ));
        let text = String::from_utf8_lossy(&out.stdout);
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        assert!(ways.split(',').all(|way| text.lines().any(|line| line.starts_with(way))), "{text}");
        for title in ["M_mtm", "O_s", "B_L", "predicted", "median error", "10 MB, MB/s", "reliable"] {
            assert!(text.contains(title), "{title}: {text}");
        }
        // 1 MiB has a piece of its own, in which nothing else is predicted.
        assert!(!text.contains("not predicted"), "{text}");
        let picture = fs::read(&path).unwrap();
        assert!(picture.starts_with(begin), "{file}");
        if file.ends_with("svg") {
            let picture = String::from_utf8(picture).unwrap();
            for text in ["tcp: one-way time", "message, bytes", "one-way time", "cost of a packet", "U_r"]
                .into_iter()
                .chain(["round", "? where there is none", ", Linux ", ", dp "])
            {
                assert!(picture.contains(text), "{text}");
            }
        }
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_cannot_be_used_is_told_in_a_sentence() {
    let told = |line: &str, code: i32, words: &[&str]| {
        let out = cost(line);
        let text = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(code), "{line}: {text}");
        assert!(words.iter().all(|word| text.contains(word)), "{line}: {text}");
        assert!(out.stdout.is_empty());
    };
    told("--ways endpoint,carrier-pigeon", 2, &["carrier-pigeon", "not a way of sending", "unix-stream"]);
    told("--packet 63", 2, &["63", "64..=262144"]);
    told("--packet 3000", 2, &["--packet 3000", "power of two", "Usage: dp cost"]);
    told("--packet many", 2, &["many"]);
    told("--longest 100000", 2, &["--longest 100000", "power of two"]);
    told("--longest 33554432", 2, &["33554432", "16777216"]);
    told("--packet 65536 --longest 65536", 2, &["--packet 65536", "--longest 65536"]);
    told("--seconds 0", 2, &["from 1 to 3600"]);
    told("--plot picture.gif", 2, &[".svg or .png"]);
    told("--cores 0", 2, &["two numbers of cores"]);
    told("--cores 0,99999", 2, &["core 99999 is not there", "give two of these", "Usage: dp cost"]);
    let core = (0..1024).find(|core| {
        Command::new("taskset")
            .args(["-c", &core.to_string(), "true"])
            .output()
            .is_ok_and(|o| o.status.success())
    });
    if let Some(core) = core {
        told(&format!("--cores {core},{core}"), 2, &["take turns on core", "--cores", "dp bench"]);
    }
    if two_cores() {
        told("--plot /nowhere/at/all.svg", 1, &["dp cost: /nowhere/at/all.svg", "nothing was measured"]);
    }
}
