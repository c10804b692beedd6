//! `systems_bench` in short: a report of what was asked for, and words about what could not be measured.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Output};

use compat_tests::programs::target_dir;
use compat_tests::tools::TempDir;
use serde_json::Value;

fn bench(line: &str, out: &TempDir, path: Option<&str>) -> Output {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "200", env!("CARGO_BIN_EXE_systems_bench")]).args(line.split_whitespace());
    command.arg("--dp").arg(target_dir().join("release/dp")).arg("--out").arg(out.path());
    if let Some(path) = path {
        command.env("PATH", path);
    }
    command.output().unwrap()
}

#[test]
fn what_is_asked_for_is_in_the_report_and_nothing_else() {
    let out = TempDir::new();
    let said =
        bench("--quick --only pipe memcpy --sizes 8,4096 --seconds 0.02 --rounds 2 --json", &out, None);
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let report: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!(report["version"], 1);
    let rows = report["systems"].as_array().unwrap();
    let has = |system: &str, what: &str, size: u64, number: &str| {
        let row = rows.iter().find(|r| r["system"] == system && r["what"] == what && r["size"] == size);
        let row = row.unwrap_or_else(|| panic!("{system}, {what}, {size}: {report}"));
        assert!(row[number]["median"].as_f64().unwrap() > 0.0, "{row}");
    };
    has("floor", "latency", 8, "p50_ns");
    has("pipe", "waiting", 8, "p50_ns");
    for size in [8, 4096] {
        has("pipe", "latency", size, "p999_ns");
        has("pipe", "flood", size, "messages_per_s");
        has("memcpy", "flood", size, "cpu_s_per_gib");
    }
    // A turn may have met another distance of the cores, and have a row of its own.
    let whats: BTreeSet<String> =
        rows.iter().map(|row| format!("{} {} {}", row["system"], row["what"], row["size"])).collect();
    assert_eq!(whats.len(), 8, "{whats:?}");
    assert!(!report["states"].as_array().unwrap().is_empty());
    assert_eq!(report["missing"], Value::Array(Vec::new()));
    assert!(report["programs"].as_array().unwrap().is_empty());
    let page = fs::read_to_string(out.file("report.md")).unwrap();
    assert!(page.contains("| pipe |") && !page.contains("| TCP |"), "{page}");
    assert!(out.file("report.json").exists());
    // A curve needs two lengths that were measured with the cores as far apart as in most turns.
    let is_curve = |system: &str, what: &str| {
        let row = |r: &&Value| r["state"] == 0 && r["system"] == system && r["what"] == what;
        rows.iter().filter(row).count() > 1
    };
    for (file, what) in [("latency.svg", "latency"), ("bandwidth.svg", "flood")] {
        let curves = ["pipe", "memcpy"].iter().filter(|system| is_curve(system, what)).count();
        assert_eq!(out.file(file).exists(), curves > 0, "{file}: {report}");
        assert_eq!(page.contains(&format!("({file})")), curves > 0, "{file}: {page}");
    }
}

#[test]
fn a_system_that_is_not_installed_is_told_and_does_not_stop_the_others() {
    let out = TempDir::new();
    let line = "--only ucx-tag libfabric pipe --sizes 8 --seconds 0.02 --rounds 1";
    // A folder with what is needed, and with nothing of others.
    let tools = TempDir::new();
    for tool in ["timeout", "date", "true"] {
        std::os::unix::fs::symlink(format!("/usr/bin/{tool}"), tools.file(tool)).unwrap();
    }
    let said = bench(line, &out, tools.path().to_str());
    let words = String::from_utf8_lossy(&said.stdout);
    assert!(said.status.success(), "{words}{}", String::from_utf8_lossy(&said.stderr));
    assert!(words.contains("UCX tag: ucx_perftest: not found") && words.contains("libfabric"), "{words}");
    let report: Value = serde_json::from_str(&fs::read_to_string(out.file("report.json")).unwrap()).unwrap();
    assert!(report["systems"].as_array().unwrap().iter().any(|row| row["system"] == "pipe"));
    assert_eq!(report["missing"].as_array().unwrap().len(), 2);
}

#[test]
fn a_system_nobody_knows_is_an_error_that_names_those_that_are() {
    let out = TempDir::new();
    let said = bench("--only smoke-signals", &out, None);
    assert_eq!(said.status.code(), Some(2));
    let words = String::from_utf8_lossy(&said.stderr);
    assert!(words.contains("smoke-signals") && words.contains("ucx-tag"), "{words}");
}
