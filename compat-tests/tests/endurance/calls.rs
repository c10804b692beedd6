//! What the shim asks of the kernel beyond what it must.

use std::fs;
use std::time::Duration;

use compat_tests::tools::await_that;
use compat_tests::{programs, Combo, Pair};

use crate::product;

const CALLS: u64 = 1000;

/// How often the server's side called the C library while it made [`CALLS`] calls of one kind.
fn counted(mode: &str) -> u64 {
    let _turn = product::alone();
    let shim = std::env::var("DP_SHIM")
        .unwrap_or_else(|_| programs::target_dir().join("release/libdp_preload.so").display().to_string());
    let both = format!("{shim}:{}", programs::library("counter").display());
    // Without looks in user space every wait is the kernel's.
    let pair = Pair::c("counted").arg(mode).arg(&CALLS.to_string());
    let running = pair.env("LD_PRELOAD", &both).env("DP_SPIN", "0").start(&Combo::shimmed());
    let mark = running.folder.file("port.counted");
    await_that("the calls", Duration::from_secs(20), || mark.exists());
    let told = fs::read_to_string(&mark).expect("the mark");
    for side in running.finish() {
        assert!(side.ok(), "{}", side.text());
    }
    told.trim().parse().expect("a number")
}

#[test]
fn a_poll_that_sleeps_asks_the_kernel_once() {
    let calls = counted("poll");
    assert!(calls > CALLS / 2, "only {calls}: nothing was counted");
    assert!(calls < CALLS * 5 / 4, "{calls} for {CALLS}");
}

#[test]
fn nothing_is_mapped_for_each_sendfile_or_select() {
    for mode in ["sendfile", "select"] {
        let calls = counted(mode);
        assert!(calls < CALLS / 10, "{mode}: {calls} for {CALLS}");
    }
}
