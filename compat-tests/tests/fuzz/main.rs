//! Every script that ever did something else under the shim than on TCP, again; and whether the fuzzer itself can tell.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::thread;

use compat_tests::fuzz::generate::generate;
use compat_tests::fuzz::interpreter::{folder, interpreter};
use compat_tests::fuzz::judge::comparable;
use compat_tests::fuzz::{Script, Shimmed, Tools, Verdict};
use compat_tests::programs::target_dir;

fn tools() -> Tools {
    let shim =
        env::var_os("DP_SHIM").map_or_else(|| target_dir().join("release/libdp_preload.so"), PathBuf::from);
    let shim = shim.canonicalize().unwrap_or_else(|error| {
        panic!("no shim at {} ({error}): run `cargo build --release` first, or set DP_SHIM", shim.display())
    });
    Tools { interpreter: interpreter(), shim }
}

fn kept() -> Vec<(String, Script)> {
    let files = fs::read_dir(folder().join("scripts")).expect("the kept scripts").flatten();
    let mut scripts: Vec<_> = files
        .map(|file| {
            let name = file.file_name().to_string_lossy().into_owned();
            let text = fs::read_to_string(file.path()).expect("a script can be read");
            let script = Script::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
            (name, script)
        })
        .collect();
    scripts.sort_by(|one, other| one.0.cmp(&other.0));
    scripts
}

/// What differs, of all kept scripts with these sides under the shim.
fn replay(sides: &[Shimmed]) -> Vec<String> {
    let (tools, scripts) = (tools(), kept());
    assert!(scripts.len() >= 12, "only {} scripts are kept", scripts.len());
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((name, script)) = scripts.get(next.fetch_add(1, Ordering::Relaxed)) {
                    for &shimmed in sides {
                        if let Verdict::Differs(difference) = tools.check(script, shimmed) {
                            failures.lock().expect("no panic").push(difference.to_text(name));
                        }
                    }
                }
            });
        }
    });
    failures.into_inner().expect("no panic")
}

#[test]
fn kept_scripts_do_the_same_with_the_shim_on_both_sides() {
    let failures = replay(&[Shimmed::BOTH]);
    assert!(failures.is_empty(), "{} scripts differ\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn kept_scripts_do_the_same_with_the_shim_on_one_side() {
    let failures = replay(&[Shimmed::SERVER, Shimmed::CLIENT]);
    assert!(failures.is_empty(), "{} scripts differ\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn kept_scripts_say_the_same_on_tcp_every_time() {
    let tools = tools();
    for (name, script) in kept() {
        let verdict = tools.check(&script, Shimmed::NONE);
        assert!(!matches!(verdict, Verdict::Differs(_)), "{name}: {verdict:?}");
    }
}

#[test]
fn the_same_seed_is_the_same_script() {
    for seed in 0..200 {
        let script = generate(seed, None);
        assert_eq!(script, generate(seed, None));
        assert_eq!(script, Script::parse(&script.to_string()).expect("what is printed can be read"));
    }
}

#[test]
fn a_warmed_up_connection_is_a_channel() {
    let script = Script::parse("B open s\nB warm s 20\nS tcp s\nC tcp s\n").expect("a script");
    let results = tools().run(&script, Shimmed::BOTH);
    let over_tcp = |at: usize| results[at].parse::<u64>().unwrap_or(u64::MAX);
    assert!(over_tcp(2) < 640 && over_tcp(3) < 640, "all 1280 bytes went over TCP: {results:?}");
}

#[test]
fn a_line_that_is_none_is_named() {
    let error = Script::parse("S send s 1\n\nX send s 1\n").expect_err("X is nobody").to_string();
    assert!(error.contains("line 3"), "{error}");
}

#[test]
fn an_echo_that_more_was_sent_to_than_was_waited_for_may_meet_any_end() {
    let told = |more: &str, end: &str| {
        let text = format!("B open s\nS thread t1 echo s\n{more}C close s\nS join t1 100\n");
        let script = Script::parse(&text).expect("a script");
        let mut results: Vec<String> = script.0.iter().map(|_| "ok".to_owned()).collect();
        *results.last_mut().expect("a line") = end.to_owned();
        comparable(&script, &results).pop()
    };
    let ends = ["0", "ECONNRESET", "EPIPE"];
    assert!(ends.iter().all(|end| told("C send s 10\n", end) == told("C send s 10\n", "EPIPE")));
    assert_ne!(told("C send s 10\n", "0 BAD at 10"), told("C send s 10\n", "0"));
    assert_ne!(told("", "0"), told("", "EPIPE"));
}
