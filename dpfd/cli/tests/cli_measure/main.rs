//! `dp bench`, `dp logp` and `dp cost` in short: what is printed is what the manual says, what is drawn can be read, and what
//! cannot be used is told in a sentence. No number is judged here: the machine may be busy.

mod bench;
mod cost;
#[path = "../kit/mod.rs"]
mod kit;
mod logp;
#[path = "../page/mod.rs"]
mod page;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::{PoisonError, RwLock};

use serde_json::Value;

/// What a verb does with a line of options. Surveys want the same two cores for themselves.
fn dp(verb: &str, line: &str) -> Output {
    static CORES: RwLock<()> = RwLock::new(());
    let (_alone, _among_others);
    match verb {
        "bench" => _among_others = CORES.read().unwrap_or_else(PoisonError::into_inner),
        _ => _alone = CORES.write().unwrap_or_else(PoisonError::into_inner),
    }
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "300", env!("CARGO_BIN_EXE_dp"), verb]).args(line.split_whitespace());
    command.output().unwrap()
}

/// What it printed, where it did what it was to do.
#[track_caller]
fn printed(verb: &str, line: &str) -> String {
    let out = dp(verb, line);
    assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

/// The same as JSON.
#[track_caller]
fn report(verb: &str, line: &str) -> Value {
    serde_json::from_str(&printed(verb, &format!("{line} --json"))).unwrap()
}

/// Fails with this status and these words.
#[track_caller]
fn told(verb: &str, line: &str, code: i32, words: &[&str]) {
    let out = dp(verb, line);
    let text = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(code), "{line}: {text}");
    assert!(words.iter().all(|word| text.contains(word)), "{line}: {text}");
    assert!(out.stdout.is_empty(), "{line}");
}

/// What no survey takes.
fn told_of_surveys(verb: &str) {
    told(
        verb,
        "--ways endpoint,carrier-pigeon",
        2,
        &["carrier-pigeon", "not a way of sending", "unix-stream"],
    );
    told(verb, "--seconds 0", 2, &["from 1 to 3600"]);
    told(verb, "--plot picture.gif", 2, &[".svg or .png"]);
    told(verb, "--cores 0", 2, &["two numbers of cores"]);
    let usage = format!("Usage: dp {verb}");
    told(verb, "--cores 0,99999", 2, &["core 99999 is not there", "give two of these", &usage]);
    let may = |core: &usize| {
        let run = Command::new("taskset").args(["-c", &core.to_string(), "true"]).output();
        run.is_ok_and(|out| out.status.success())
    };
    if let Some(core) = (0..1024).find(may) {
        let words = ["take turns on core", "--cores", "dp bench"];
        told(verb, &format!("--cores {core},{core}"), 2, &words);
    }
    if two_cores(verb) {
        let words = [format!("dp {verb}: /nowhere/at/all.svg"), "nothing was measured".into()];
        told(verb, "--plot /nowhere/at/all.svg", 1, &words.each_ref().map(String::as_str));
    }
}

/// Whether two processes can have a core each; a line for the summary if not.
fn two_cores(verb: &str) -> bool {
    let two = std::thread::available_parallelism().is_ok_and(|n| n.get() > 1);
    if !two {
        kit::skip(&format!("dp {verb}: one core, and two are needed"));
    }
    two
}

/// Has exactly these fields, and the manual page tells of them.
#[track_caller]
fn has(page: &str, of: &Value, fields: &str) {
    let mut found: Vec<&str> = of.as_object().unwrap().keys().map(String::as_str).collect();
    let mut wanted = fields.split(' ').collect::<Vec<_>>();
    found.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(found, wanted);
    let told = page::words(page);
    assert!(found.iter().all(|field| told.contains(field)), "the page does not tell of all of {found:?}");
}

fn list(of: &Value) -> &Vec<Value> {
    of.as_array().unwrap()
}

fn names<'a>(of: &'a Value, field: &str) -> Vec<&'a str> {
    list(of).iter().map(|one| one[field].as_str().unwrap()).collect()
}

fn numbers(of: &Value, field: &str) -> Vec<u64> {
    list(of).iter().map(|one| one[field].as_u64().unwrap()).collect()
}

/// What was drawn, as text if it is SVG; a line of the table begins with each way.
#[track_caller]
fn drawn(verb: &str, options: &str, ways: &str, kind: &str) -> (String, String) {
    let path: PathBuf = std::env::temp_dir().join(format!("dp-{verb}-test-{}.{kind}", std::process::id()));
    let text = printed(verb, &format!("{options} --ways {ways} --plot {}", path.display()));
    assert!(ways.split(',').all(|way| text.lines().any(|line| line.starts_with(way))), "{text}");
    let picture = fs::read(&path).unwrap();
    fs::remove_file(path).unwrap();
    let begin: &[u8] = if kind == "svg" { b"<svg" } else { b"\x89PNG" };
    assert!(picture.starts_with(begin), "{kind}");
    (text, String::from_utf8_lossy(&picture).into_owned())
}
