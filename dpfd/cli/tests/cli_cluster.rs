//! `examples/cluster.sh`: three nodes in network namespaces, as somebody would start it who reads the README. Needs root.

mod kit;

use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};

use kit::{namespaces_are_possible, skip};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/cluster.sh");
/// What a run may take; it takes a second or two.
const LIMIT: &str = "60";

/// Whether it can run here; says so if not.
fn is_possible() -> bool {
    let what = "dp-cli examples/cluster.sh";
    let has_ip = Command::new("ip").arg("-V").output().is_ok_and(|out| out.status.success());
    if !has_ip {
        skip(&format!("{what}: needs ip(8), of Debian's iproute2"));
    }
    has_ip && namespaces_are_possible(what)
}

/// One at a time: the numbers in what one makes are near those of another.
static TURN: Mutex<()> = Mutex::new(());

/// Runs it with these words behind; what it made is gone afterwards. In a process group of its own, all of which is told to end
/// where it does not in time.
fn cluster(words: &[&str]) -> Output {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut command = Command::new("timeout");
    command.args(["--kill-after", "10", LIMIT, "bash", SCRIPT]).args(words);
    command.env("DP", env!("CARGO_BIN_EXE_dp")).env_remove("DP_NID").env_remove("DP_RUNTIME_DIR");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("timeout, of Debian's coreutils");
    let pid = child.id();
    let out = child.wait_with_output().expect("its end");
    // Its names have the number of the shell, whose parent is timeout(1): the next number as a rule, so all of them are looked at.
    let left = Command::new("ip").args(["netns", "list"]).output().expect("ip");
    let left = String::from_utf8(left.stdout).expect("names");
    let number = |name: &str| name.strip_prefix("dpc")?.split('-').next()?.parse::<u32>().ok();
    let ours = left.lines().filter(|name| number(name).is_some_and(|of| (pid..pid + 8).contains(&of)));
    assert_eq!(ours.collect::<Vec<_>>(), Vec::<&str>::new(), "what it left");
    out
}

fn text(out: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    (text(&out.stdout), text(&out.stderr))
}

#[test]
fn two_nodes_send_to_a_third_and_all_of_it_comes() {
    if !is_possible() {
        return;
    }
    let out = cluster(&[]);
    let (told, errors) = text(&out);
    assert!(out.status.success(), "{}: {told}{errors}", out.status);
    for n in [1, 2] {
        let of_node = |line: &&str| line.ends_with(&format!(" of node {n}"));
        let lines: Vec<_> = told.lines().filter(of_node).collect();
        let expected: Vec<_> = (1..=10).map(|i| format!("line {i} of node {n}")).collect();
        assert_eq!(lines, expected, "{told}");
        assert!(told.contains(&format!("udp:10.99.0.{n}:7411")), "dp ls tells of node {n}: {told}");
    }
}

#[test]
fn a_command_of_ones_own_runs_on_node_1_and_its_status_is_the_scripts() {
    if !is_possible() {
        return;
    }
    let out = cluster(&["sh", "-c", "echo node $DP_NID; ip -brief address show eth0; exit 7"]);
    let (told, errors) = text(&out);
    assert_eq!(out.status.code(), Some(7), "{told}{errors}");
    assert!(told.starts_with("node 1\n") && told.contains("10.99.0.1/24"), "{told}{errors}");
}

#[test]
fn without_a_dp_it_says_how_to_get_one() {
    let mut command = Command::new("/bin/bash");
    let out = command.arg(SCRIPT).env("DP", "/no/such/dp").env("PATH", "/nowhere:/usr/bin:/bin").output();
    let out = out.expect("bash");
    let (_, errors) = text(&out);
    assert!(out.status.code() == Some(1) && errors.contains("make build"), "{errors}");
}
