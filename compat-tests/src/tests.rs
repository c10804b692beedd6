use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::kill;
use nix::unistd::Pid;

use crate::tools::{await_that, generated, TempDir};
use crate::{difference, Ended, Job};

fn shell(script: &str, limit: Duration) -> Ended {
    let folder = TempDir::new();
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]).env("RUN", folder.path()).current_dir("/");
    Job::start("shell", command, folder.path()).finish(Instant::now() + limit)
}

/// Whether a process is there and not only waiting to be reaped.
fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    let number = Pid::from_raw(pid.parse().expect("a process id"));
    kill(number, None).is_ok() && !stat.contains(") Z ")
}

#[test]
fn status_and_both_outputs_are_kept() {
    let ended = shell("echo out; echo err >&2; exit 3", Duration::from_secs(10));
    assert_eq!(
        (ended.status.as_str(), ended.transcript.as_str(), ended.errors.as_str()),
        ("exit 3", "out\n", "err\n")
    );
    assert_eq!(shell("kill -SEGV $$", Duration::from_secs(10)).status, "signal 11");
}

#[test]
fn a_hung_process_is_killed_with_what_it_started() {
    let start = Instant::now();
    let ended = shell("sleep 1000 & echo $!; wait", Duration::from_millis(300));
    assert!(start.elapsed() < Duration::from_secs(10));
    assert!(ended.status.starts_with("timed out"), "{}", ended.status);
    assert_eq!(ended.status.matches("wchan").count(), 2, "{}", ended.status);
    await_that("its child is gone", Duration::from_secs(5), || !lives(ended.transcript.trim()));
}

#[test]
fn what_a_process_leaves_behind_is_killed() {
    let ended = shell("sleep 1000 & echo $!", Duration::from_secs(10));
    assert!(ended.ok());
    await_that("its child is gone", Duration::from_secs(5), || !lives(ended.transcript.trim()));
}

#[test]
fn a_run_that_lost_a_wake_up_has_failed() {
    // What the shim does with the name that it is given (combo.rs).
    let ended = shell("cd \"$RUN\" && echo server >> lost; exit 0", Duration::from_secs(10));
    assert_eq!(ended.status, "exit 0; wake-ups were lost: server");
    assert!(!ended.ok());
}

#[test]
fn equal_texts_show_no_difference() {
    assert_eq!(difference("a\nb\n", "a\nb\n"), "");
}

#[test]
fn only_the_differing_lines_and_two_around_are_shown() {
    let shown = difference("1\n2\n3\nold\n4\n5\n6\n", "1\n2\n3\nnew\nmore\n4\n5\n6\n");
    assert_eq!(shown, "    2\n    3\n  - old\n  + new\n  + more\n    4\n    5\n");
}

#[test]
fn a_missing_end_is_shown() {
    assert_eq!(difference("a\nb\n", "a\n"), "    a\n  - b\n");
    assert_ne!(difference("a\n", "a"), "");
}

#[test]
fn generated_bytes_are_the_same_every_time() {
    assert_eq!(generated(1001), generated(2000)[..1001]);
}
