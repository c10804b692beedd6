//! A user who may not attach to a program sees nothing of what it sends.

use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use compat_tests::tools::{await_that, skip, TempDir};

use crate::kit::{dp, Serves};

const NOBODY: u32 = 65_534;

/// `dp capture` as another user, from where that user may execute it.
fn as_nobody(folder: &TempDir, options: &[&str]) -> Output {
    let copy = folder.file("dp");
    if !copy.exists() {
        std::fs::copy(dp(), &copy).expect("a copy of dp");
    }
    let mut command = Command::new("timeout");
    command.args(["-s", "INT", "3"]).arg(copy).arg("capture").args(options);
    command.uid(NOBODY).gid(NOBODY).current_dir("/").stdout(Stdio::piped()).stderr(Stdio::piped());
    command.output().expect("timeout, of Debian's coreutils")
}

#[test]
fn another_user_is_refused_and_gets_no_byte() {
    if !nix::unistd::geteuid().is_root() {
        return skip("capture as another user: only root can become one");
    }
    let folder = TempDir::new();
    let paced = Serves::start(&folder).sent(&folder, [150, 300], 0.0, true);
    await_that("all was sent", Duration::from_secs(30), || paced.client.transcript().contains("holding"));
    let pid = paced.server.pid().to_string();
    let out = as_nobody(&folder, &["--pid", &pid]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("Operation not permitted") && said.contains("CAP_SYS_PTRACE"), "{said}");
    assert!(said.contains("root (0)") && said.contains("65534"), "{said}");
    assert!(out.stdout.is_empty());
    // Without a name nothing of it is found either.
    let out = as_nobody(&folder, &[]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(said.contains("0 packets with 0 bytes, of 0 channels"), "{said}");
    // What may be captured is listed with the reason why not.
    let out = Command::new(dp()).args(["capture", "--list", "--pid", &pid]).output().expect("dp starts");
    let listed = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(listed.starts_with("may ") && listed.contains(&format!("({pid})")), "{listed}");
}

#[test]
fn wrong_words_are_told() {
    let said = |options: &[&str]| {
        let out = Command::new(dp()).arg("capture").args(options).output().expect("dp starts");
        (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    for (options, code, words) in [
        (&["--pid", "999999999"][..], 1, "there is no process 999999999"),
        (&["--pid", "1x"], 2, "the number of a process, as ps shows it"),
        (&["--port", "0"], 2, "not in 1..=65535"),
        (&["--snaplen", "0"], 2, "not in 1..=262144"),
        (&["--duration", "-1"], 2, "unexpected argument"),
        (&["--duration", "soon"], 2, "a number of seconds"),
        (&["--list", "--busy"], 2, "cannot be used with"),
        (&["-w", "/nonexistent/file", "--duration", "1"], 1, "/nonexistent/file"),
    ] {
        let (status, text) = said(options);
        assert!(status == Some(code) && text.contains(words), "{options:?}: {status:?} {text}");
    }
}

#[test]
fn a_file_is_as_it_was_where_there_is_nothing_to_capture() {
    let folder = TempDir::new();
    let file = folder.file("former.pcapng");
    std::fs::write(&file, "a former capture").expect("a file");
    // This process has no shim.
    let mut dp = Command::new(dp());
    dp.args(["capture", "--pid", &std::process::id().to_string(), "-w"]).arg(&file);
    let out = dp.output().expect("dp starts");
    assert_eq!(out.status.code(), Some(1), "{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), "a former capture");
}
