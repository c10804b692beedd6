//! Connections that could easily be left without a channel.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use compat_tests::tools::{await_that, free_port, TempDir};
use compat_tests::{programs, Combo};

use crate::product;

/// How many doors a process has open.
fn doors_of(pid: i32) -> usize {
    let sockets = fs::read_to_string("/proc/net/unix").expect("/proc/net/unix");
    // Flags of one that listens; a connection that came through it has its name.
    let doors = sockets.lines().filter(|line| line.contains("@dp-door-") && line.contains(" 00010000 "));
    let inodes: Vec<String> =
        doors.filter_map(|line| Some(format!("socket:[{}]", line.split_whitespace().nth(6)?))).collect();
    let open = product::descriptors(Path::new(&format!("/proc/{pid}")));
    open.iter().filter(|(_, target)| inodes.contains(target)).count()
}

/// How many arenas a process has mapped.
fn arenas_of(pid: i32) -> usize {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let lines = maps.lines().filter(|line| line.contains("dp-arena"));
    lines.filter_map(|line| line.split_whitespace().nth(4)).collect::<BTreeSet<_>>().len()
}

/// Runs the mode natively and under the shim; what the client made, and what became of its last connection.
/// Where all is in one process, its doors are those of its open listeners.
fn becomes_a_channel(mode: &str, listeners: Option<usize>) {
    let _turn = product::alone();
    for combo in [Combo::native(), Combo::shimmed()] {
        let (folder, program) = (TempDir::new(), programs::c("missed"));
        let start = |role| product::start(&combo, &program, role, folder.path(), &[mode, "30", "100"], &[]);
        let (server, mut client) = (start("server"), start("client"));
        let done = folder.file("port.done");
        await_that("the exchanges", Duration::from_secs(20), || done.exists() || client.ended().is_some());
        let serving = fs::read_to_string(folder.file("port.serving")).unwrap_or_default();
        let serving: i32 = serving.trim().parse().unwrap_or_default();
        let families = [serving, client.pid().as_raw()].map(product::family);
        let (doors, arenas) = (doors_of(serving), arenas_of(client.pid().as_raw()));
        product::mark(&folder, "looked");
        let deadline = Instant::now() + Duration::from_secs(10);
        let [client, server] = [client, server].map(|job| job.finish(deadline));
        assert!(client.ok() && client.transcript == "fine\n", "{}", client.text());
        assert!(server.ok(), "{}", server.text());
        if combo.name == "native" {
            continue;
        }
        // Those that were closed early say nothing, nor those whose server was gone when they got going.
        let early = ["closed", "no-door"];
        let early = &early[..if mode == "again" { 2 } else { 1 }];
        let all_channels = |family: &product::Family| {
            family.on_tcp.keys().all(|why| early.contains(&why.as_str()))
                && family.connections.iter().all(|c| c.tx_ring_bytes.is_some())
        };
        let both = families.iter().all(|family| family.as_ref().is_some_and(all_channels));
        assert!(both, "{mode}: no channel: {families:?}");
        // One for the server, however many ports it has.
        assert_eq!(arenas, 1, "{mode}: arenas of the client");
        if let Some(listeners) = listeners {
            assert_eq!(doors, listeners, "{mode}: doors without a listener");
        }
    }
}

#[test]
fn a_listener_closed_right_after_accept() {
    becomes_a_channel("closes", Some(0));
}

#[test]
fn data_connections_on_ports_of_their_own() {
    becomes_a_channel("ports", Some(1));
}

/// Nobody has a door there for a while, but an arena is known there, so it is tried.
#[test]
fn a_port_that_is_opened_again_for_each_transfer() {
    becomes_a_channel("again", Some(1));
}

#[test]
fn a_child_that_accepts_what_its_parent_listens_for() {
    becomes_a_channel("child", None);
}

#[test]
fn a_child_whose_parent_ended() {
    becomes_a_channel("daemon", None);
}

#[test]
fn a_child_that_is_handed_a_connection_when_the_listener_is_gone() {
    becomes_a_channel("handed", None);
}

#[test]
fn a_listener_that_another_program_opened() {
    becomes_a_channel("executed", None);
}

#[test]
fn a_client_that_sends_before_the_server_accepts() {
    becomes_a_channel("hurry", None);
}

#[test]
fn a_client_that_only_sends() {
    becomes_a_channel("upload", Some(0));
}

#[test]
fn a_client_that_only_receives() {
    becomes_a_channel("download", Some(0));
}

/// Channels that a client makes of 200 connections of 8 exchanges, and then of 20 of 400.
fn channels_of_short_and_long_ones(after: Option<&str>) -> [u64; 2] {
    let (folder, program) = (TempDir::new(), programs::c("worth"));
    let environment: Vec<(&str, String)> =
        after.iter().map(|after| ("DP_AFTER", String::from(*after))).collect();
    let start =
        |role| product::start(&Combo::shimmed(), &program, role, folder.path(), &["200", "20"], &environment);
    let (server, mut client) = (start("server"), start("client"));
    let mut made = [0; 2];
    for (made, (mark, answer)) in made.iter_mut().zip([("short", "go"), ("long", "over")]) {
        let mark = folder.file(&format!("port.{mark}"));
        await_that("the exchanges", Duration::from_secs(20), || mark.exists() || client.ended().is_some());
        *made = product::channels(client.pid().as_raw());
        product::mark(&folder, answer);
    }
    let deadline = Instant::now() + Duration::from_secs(10);
    let [client, server] = [client, server].map(|job| job.finish(deadline));
    assert!(client.ok() && client.transcript == "done\n", "{}", client.text());
    assert!(server.ok(), "{}", server.text());
    [made[0], made[1] - made[0]]
}

#[test]
fn connections_too_short_to_pay_stay_on_tcp_and_long_ones_do_not() {
    let _turn = product::alone();
    let [short, long] = channels_of_short_and_long_ones(None);
    assert!((1..100).contains(&short), "{short} channels of 200 short connections");
    assert!(long > 15, "{long} channels of 20 long connections");
    let [short, long] = channels_of_short_and_long_ones(Some("3"));
    assert!(short > 150 && long > 15, "as DP_AFTER says: {short} channels of 200 and {long} of 20");
}

/// Servers that know nothing of each other listen at one address (SO_REUSEPORT): the kernel gives each of them some of the
/// connections. Each has a door there, and each connection is offered to the family that has it.
#[test]
fn many_servers_at_one_address() {
    const SERVERS: usize = 16;
    const CONNECTIONS: usize = 40;
    let _turn = product::alone();
    let (program, port) = (programs::c("copies"), free_port().to_string());
    let folders: Vec<_> = (0..=SERVERS).map(|_| TempDir::new()).collect();
    let start = |role: &str, folder: &TempDir| {
        let many = CONNECTIONS.to_string();
        product::start(&Combo::shimmed(), &program, role, folder.path(), &["-", &port, &many, "3000"], &[])
    };
    let mut servers = Vec::new();
    for folder in &folders[1..] {
        servers.push(start("server", folder));
        await_that("it listens", Duration::from_secs(10), || folder.file("port.listens").exists());
    }
    let doors: usize = servers.iter().map(|server| doors_of(server.pid().as_raw())).sum();
    assert_eq!(doors, SERVERS);
    let mut client = start("client", &folders[0]);
    let done = folders[0].file("port.done");
    await_that("the exchanges", Duration::from_secs(40), || done.exists() || client.ended().is_some());
    let family = product::family(client.pid().as_raw());
    product::mark(&folders[0], "looked");
    let client = client.finish(Instant::now() + Duration::from_secs(10));
    assert!(client.ok() && client.transcript == "fine\n", "{}", client.text());
    let channels = |family: &product::Family| {
        family.connections.iter().filter(|c| c.tx_ring_bytes.is_some()).count() == CONNECTIONS
    };
    assert!(family.as_ref().is_some_and(channels), "{family:?}");
}

/// One server with more sockets at its address than there are doors: the kernel gives each of them some of the connections.
#[test]
fn one_server_with_many_sockets_at_one_address() {
    const CONNECTIONS: usize = 60;
    let _turn = product::alone();
    let (program, port) = (programs::c("copies"), free_port().to_string());
    let folders = [TempDir::new(), TempDir::new()];
    let start = |role: &str, folder: &TempDir, rules: &str| {
        let arguments = ["-", &port, &CONNECTIONS.to_string(), "1000", "20"];
        let rules = [("DP_RULES", rules.to_string())];
        product::start(&Combo::shimmed(), &program, role, folder.path(), &arguments, &rules)
    };
    // A connection that came in without a door would be reset.
    let server = start("server", &folders[0], "require listen *");
    await_that("it listens", Duration::from_secs(10), || folders[0].file("port.listens").exists());
    assert_eq!(doors_of(server.pid().as_raw()), 1);
    let mut client = start("client", &folders[1], "channel any *");
    let done = folders[1].file("port.done");
    await_that("the exchanges", Duration::from_secs(40), || done.exists() || client.ended().is_some());
    let family = product::family(client.pid().as_raw());
    product::mark(&folders[1], "looked");
    let client = client.finish(Instant::now() + Duration::from_secs(10));
    assert!(client.ok() && client.transcript == "fine\n", "{}", client.text());
    let channels = |family: &product::Family| {
        family.connections.iter().filter(|c| c.tx_ring_bytes.is_some()).count() == CONNECTIONS
    };
    assert!(family.as_ref().is_some_and(channels), "{family:?}");
}
