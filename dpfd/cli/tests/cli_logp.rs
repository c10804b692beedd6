//! `dp logp` in short: what is printed is what the manual says, what is drawn can be read, and what cannot be used is
//! told in a sentence. No number is judged here: the machine may be busy.

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;

fn logp(line: &str) -> Output {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "240", env!("CARGO_BIN_EXE_dp"), "logp"]).args(line.split_whitespace());
    command.output().unwrap()
}

/// Whether two processes can have a core each; a line for the summary if not.
fn two_cores() -> bool {
    let two = std::thread::available_parallelism().is_ok_and(|n| n.get() > 1);
    if !two {
        if let Some(skips) = std::env::var_os("DP_SKIPS") {
            let line = "dp logp: one core, and LogP needs two\n";
            let old = fs::read_to_string(&skips).unwrap_or_default();
            fs::write(skips, old + line).unwrap();
        }
    }
    two
}

fn keys(of: &Value) -> Vec<&str> {
    of.as_object().unwrap().keys().map(String::as_str).collect()
}

#[track_caller]
fn has(of: &Value, fields: &str) {
    let (mut found, mut wanted) = (keys(of), fields.split(' ').collect::<Vec<_>>());
    found.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(found, wanted);
    let page = include_str!("../../../man/dp-logp.1");
    assert!(found.iter().all(|field| page.contains(field)), "dp-logp(1) does not tell of all of {found:?}");
}

#[test]
fn two_ways_have_all_the_manual_tells_of() {
    if !two_cores() {
        return;
    }
    let out = logp("--quick --seconds 2 --ways endpoint,pipe --sizes 8,4096,65536 --json");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let report: Value = serde_json::from_slice(&out.stdout).unwrap();
    has(&report, "version origin cores p size window batch within seconds ways");
    assert_eq!((&report["version"], &report["size"]), (&1.into(), &8.into()));
    has(&report["origin"], "host cpu kernel date dp");
    assert!(report["origin"]["kernel"].as_str().unwrap().starts_with("Linux "), "{}", report["origin"]);
    assert_eq!(report["origin"]["dp"], env!("CARGO_PKG_VERSION"));
    let ways = report["ways"].as_array().unwrap();
    assert_eq!(ways.iter().map(|w| w["way"].as_str().unwrap()).collect::<Vec<_>>(), ["endpoint", "pipe"]);
    for way in ways {
        has(way, "way o_s o_r l g rtt alone idle n_half signature bulk k_to_1 points wide notes");
        for parameter in ["o_s", "o_r", "l", "g", "rtt", "alone"] {
            has(&way[parameter], "ns half");
            assert!(way[parameter]["ns"].is_number(), "{parameter}");
        }
        assert!(way["rtt"]["ns"].as_f64().unwrap() > 0.0);

        let curves = way["signature"].as_array().unwrap();
        assert!(curves.len() >= 3 && curves[0]["d"] == 0.0, "{curves:?}");
        for curve in curves {
            has(curve, "d points");
            has(&curve["points"][0], "m ns half batches");
            assert_eq!(curve["points"][0]["m"], 1);
        }
        assert_eq!(curves[0]["points"].as_array().unwrap().last().unwrap()["m"], 256);

        let bulk = way["bulk"].as_array().unwrap();
        assert_eq!(bulk.iter().map(|b| b["size"].as_u64().unwrap()).collect::<Vec<_>>(), [8, 4096, 65_536]);
        bulk.iter().for_each(|b| has(b, "size window o_s g t bytes_per_s stream_bytes_per_s"));
        let senders = way["k_to_1"].as_array().unwrap();
        assert_eq!(senders.iter().map(|k| k["senders"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2]);
        senders.iter().for_each(|k| has(k, "senders g g_half times times_half shared_cores"));
        assert!(senders[0]["times"] == 1.0 && senders[1]["times"].as_f64().unwrap() > 0.0);
        way["wide"].as_array().unwrap().iter().for_each(|w| has(w, "size m d percent"));
    }
}

#[test]
fn every_way_carries_requests_and_is_drawn() {
    if !two_cores() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("dp-logp-test-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    for (file, begin, ways) in [
        ("all.svg", &b"<svg"[..], "endpoint,plain,unix-seqpacket,unix-stream,tcp,pipe"),
        ("one.png", &b"\x89PNG"[..], "tcp"),
    ] {
        let path = folder.join(file);
        let out =
            logp(&format!("--quick --seconds 1 --sizes 8,262144 --ways {ways} --plot {}", path.display()));
        let text = String::from_utf8_lossy(&out.stdout);
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        assert!(ways.split(',').all(|way| text.lines().any(|line| line.starts_with(way))), "{text}");
        let picture = fs::read(&path).unwrap();
        assert!(picture.starts_with(begin), "{file}");
        if file.ends_with("svg") {
            let picture = String::from_utf8(picture).unwrap();
            for text in
                ["unix-seqpacket, 8 bytes", "M: requests in a burst", "bytes of a request", "MB/s", "o_r"]
                    .into_iter()
                    .chain(["95 % intervals", "Within 5 %: ", ", Linux ", ", dp "])
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
        let out = logp(line);
        let text = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(code), "{line}: {text}");
        assert!(words.iter().all(|word| text.contains(word)), "{line}: {text}");
        assert!(out.stdout.is_empty());
    };
    told("--ways endpoint,carrier-pigeon", 2, &["carrier-pigeon", "not a way of sending", "unix-stream"]);
    told("--sizes 0", 2, &["0", "16777216"]);
    told("--sizes 99999999", 2, &["99999999"]);
    told("--sizes eight", 2, &["eight"]);
    told("--window 65", 2, &["65", "4..=64"]);
    told("--seconds 0", 2, &["from 1 to 3600"]);
    told("--plot picture.gif", 2, &[".svg or .png"]);
    told("--cores 0", 2, &["two numbers of cores"]);
    told("--cores 0,99999", 2, &["core 99999 is not there", "give two of these", "Usage: dp logp"]);
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
        told(
            "--sizes 1024,4096",
            2,
            &["1024", "must not be above 512", "add a smaller one", "Usage: dp logp"],
        );
        told("--plot /nowhere/at/all.svg", 1, &["dp logp: /nowhere/at/all.svg", "nothing was measured"]);
    }
}
