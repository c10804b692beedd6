//! A connection that proved itself does not pace its bytes over TCP afterwards (`preload/src/proof.rs`).

use std::path::Path;
use std::time::{Duration, Instant};

use compat_tests::tools::{needed, TempDir};
use compat_tests::{programs, Combo, Job};

use crate::product;
use crate::users::root;

/// What the server of `handed_back` is told of its pacing rate, and what the kernel has.
fn rates(combo: &Combo) -> [String; 2] {
    rates_under(combo, &["sh", "-c"], "")
}

/// The same in a network namespace that has been prepared.
fn rates_in_a_namespace(prepare: &str) -> [String; 2] {
    let wrapper = ["unshare", "--net", "sh", "-c"];
    rates_under(&Combo::shimmed(), &wrapper, &format!("ip link set lo up && {prepare}"))
}

fn rates_under(combo: &Combo, shell: &[&str], first: &str) -> [String; 2] {
    let (folder, program) = (TempDir::new(), programs::c("handed_back"));
    let program = program.display();
    let both = format!("{first} {{ {program} server port '' & {program} client port '' && wait $!; }}");
    let mut command = combo.server_command(Path::new("/usr/bin/env"), folder.path());
    command.args(shell).arg(both).env("COMPAT_ALARM", "20");
    let ended = Job::start("both", command, folder.path()).finish(Instant::now() + Duration::from_secs(25));
    assert!(ended.ok(), "{}", ended.text());
    let after = |word: &str| {
        let mut words = ended.transcript.split_whitespace().skip_while(|other| *other != word);
        words.nth(1).unwrap_or_else(|| panic!("no {word}: {}", ended.text())).to_owned()
    };
    ["told", "has"].map(after)
}

#[test]
fn what_goes_back_to_tcp_is_sent_at_once() {
    let _turn = product::alone();
    assert_eq!(rates(&Combo::native()), ["none", "none"]);
    assert_eq!(rates(&Combo::shimmed()), ["none", "at-once"]);
}

/// There a rate of 0 may mean a byte a second.
#[test]
fn where_the_loopback_queues_it_is_paced_as_before() {
    let _turn = product::alone();
    if !root() {
        return;
    }
    let tc = needed("tc", "iproute2");
    let queue = format!("{} qdisc add dev lo root pfifo &&", tc.display());
    assert_eq!(rates_in_a_namespace(&queue), ["none", "none"]);
    assert_eq!(rates_in_a_namespace(""), ["none", "at-once"], "the test itself");
}
