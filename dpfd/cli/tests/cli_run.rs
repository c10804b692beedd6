//! What `dp run` says of the environment before it becomes the program. The shim itself is silent.

use std::process::{Command, Output};

/// `dp run` of a program that says "ran", with these variables.
fn run(environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "60", env!("CARGO_BIN_EXE_dp"), "run", "--", "/bin/echo", "ran"]);
    // This file is no shim, and the loader ignores it with a word of its own; what `dp` says comes before.
    command.env("DP_SHIM", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
    command.envs(environment.iter().copied()).output().unwrap()
}

#[track_caller]
fn told(environment: &[(&str, &str)], words: &str) {
    let out = run(environment);
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{environment:?}: {said}");
    assert!(said.contains(words), "{words:?} is not in {said:?}");
    assert!(out.stdout.is_empty(), "{environment:?}: it ran");
}

#[test]
fn a_number_that_the_shim_would_not_take_is_an_error() {
    told(
        &[("DP_AFTER", "many")],
        "dp run: DP_AFTER=many: not a whole number; 0 to 1048576 calls can stand there, the default is 3: correct it, or \
         unset DP_AFTER",
    );
    told(&[("DP_RING", "1024")], "DP_RING=1024: too small; 4096 to 67108864 bytes");
    told(&[("DP_RING_LONG", "4M")], "DP_RING_LONG=4M: not a whole number; 0 to 67108864 bytes");
    told(&[("DP_SPIN", "1000001")], "DP_SPIN=1000001: too large; 0 to 1000000 nanoseconds");
    told(&[("DP_CHAOS", "-1")], "DP_CHAOS=-1: not a whole number");
    told(
        &[("DP_LOG", "stdout")],
        "dp run: DP_LOG=stdout: no place to write to; stderr, journal or the absolute path",
    );
    told(
        &[("DP_LOG", "stderr:debgu")],
        "DP_LOG=stderr:debgu: what stands behind the colon is no level; warning, info",
    );
    told(&[("DP_LOG", "/nonexistent/dp")], "dp run: DP_LOG: /nonexistent/dp: No such file or directory");
    told(&[("DP_NID", "0")], "DP_NID=0: too small; 1 to 65535");
}

#[test]
fn numbers_in_their_range_and_empty_ones_are_taken() {
    for environment in [
        &[("DP_AFTER", "0"), ("DP_RING", "4096"), ("DP_RING_LONG", "0"), ("DP_SPIN", "1000000")][..],
        &[("DP_AFTER", ""), ("DP_RING", " 8192 "), ("DP_CHAOS", "7")],
        &[("DP_LOG", ""), ("DP_LONG", "1")],
        &[("DP_LOG", "stderr:debug")],
        // Without the shim nothing reads them.
        &[("DP_AFTER", "many"), ("DP_DISABLE", "1")],
    ] {
        let out = run(environment);
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.stdout, b"ran\n", "{environment:?}: {said}");
        assert!(!said.contains("dp run"), "{said}");
    }
}

#[test]
fn a_name_with_a_slip_is_a_warning() {
    let out = run(&[("DP_AFTR", "9"), ("DP_RINGLONG", "0"), ("DP_MY_OWN", "1"), ("DP_SKIPS", "")]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.stdout, b"ran\n", "{said}");
    for words in ["warning: DP_AFTR is not known, and does nothing; is it DP_AFTER?", "DP_RING_LONG?"] {
        assert!(said.contains(words), "{said}");
    }
    assert_eq!(said.matches("warning").count(), 2, "{said}");
}

/// What `script` prints, where `DP` is what stands before a program: nothing, or `dp run`.
fn printed(script: &str, dp: &str) -> String {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "60", "sh", "-c", script]).env("DP", dp);
    let out = command.env("DP_SHIM", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).output().unwrap();
    String::from_utf8_lossy(&out.stdout).into_owned()
}

#[test]
fn the_program_begins_with_the_signals_and_descriptors_that_it_would_have_had() {
    for script in [
        // systemd ignores SIGPIPE for services.
        "trap '' PIPE; $DP grep SigIgn /proc/self/status",
        "$DP grep SigIgn /proc/self/status",
        // Descriptors that are closed are not there.
        "$DP /bin/sh -c 'test -e /proc/self/fd/0 || echo closed' <&-",
        "$DP /bin/sh -c 'test -e /proc/self/fd/2 || echo closed' 2>&-",
        "$DP /bin/sh -c 'test -e /proc/self/fd/0 && echo open' </dev/null",
    ] {
        let (natively, under) =
            (printed(script, ""), printed(script, concat!(env!("CARGO_BIN_EXE_dp"), " run --")));
        assert!(!natively.is_empty(), "{script}");
        assert_eq!(under, natively, "{script}");
    }
}
