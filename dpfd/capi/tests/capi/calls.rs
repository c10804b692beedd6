//! What the calls do: programs of `tests/c`, each of which checks itself.

use std::fs::{set_permissions, Permissions};
use std::os::unix::fs::{chown, PermissionsExt};
use std::process::Command;

use compat_tests::tools::needed;

use crate::kit::{package, release, Linked, Place};

const NOBODY: u32 = 65534;

fn passes(program: &str, argument: Option<&str>) {
    passes_linked(program, argument, Linked::Shared);
}

fn passes_linked(program: &str, argument: Option<&str>, linked: Linked) {
    let place = Place::new();
    let program = place.compile(&package("tests/c").join(program), linked);
    let mut command = place.command(&program);
    command.args(argument);
    place.passes(command);
}

fn is_root() -> bool {
    let id = Command::new(needed("id", "coreutils")).arg("-u").output().expect("id runs");
    id.stdout == b"0\n"
}

#[test]
fn every_failure_has_its_errno_and_a_sentence() {
    passes("errors.c", Some(if is_root() { "root" } else { "user" }));
}

#[test]
fn low_numbers_are_refused_to_users() {
    if !is_root() {
        return; // the test above did it
    }
    let place = Place::new();
    // Static: the user need not be able to read the build's folder.
    let program = place.compile(&package("tests/c/errors.c"), Linked::Static);
    set_permissions(place.path(), Permissions::from_mode(0o755)).expect("our folder");
    chown(place.path().join("dp"), Some(NOBODY), Some(NOBODY)).expect("our folder");
    let mut command = place.command(&needed("setpriv", "util-linux"));
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program).arg("user");
    place.passes(command);
}

#[test]
fn two_processes_exchange_messages_of_all_sizes() {
    passes("talk.c", Some("20000"));
}

#[test]
fn pieces_are_one_message_and_immediates_come_with_theirs() {
    passes("gather.c", None);
}

#[test]
fn whoever_is_told_only_of_what_comes_is_told_of_every_message() {
    passes("edge_triggered.c", None);
}

#[test]
fn copies_of_a_descriptor_are_the_same_endpoint_and_reused_numbers_are_not() {
    passes("copies.c", None);
}

#[test]
fn an_endpoint_ends_with_its_opener() {
    passes("copies.c", Some("opener"));
}

#[test]
fn threads_share_are_cancelled_and_meet_closing() {
    for linked in [Linked::Shared, Linked::Static] {
        passes_linked("threads.c", None, linked);
    }
}

#[test]
fn who_may_not_fence_or_sleep_loses_nothing() {
    passes_linked("forbidden.c", None, Linked::Shared);
}

#[test]
fn a_clock_that_stands_still_keeps_nobody_awake() {
    passes_linked("frozen_clock.c", None, Linked::Shared);
}

#[test]
fn no_call_is_in_the_shim() {
    let mut nm = Command::new(needed("nm", "binutils"));
    let out = nm.args(["-D", "--defined-only"]).arg(release().join("libdp_preload.so")).output();
    let text = String::from_utf8(out.expect("nm runs").stdout).expect("names");
    assert!(!text.contains(" dp_"), "{text}");
}
