//! Thousands of connections leave neither descriptors nor memory, and hellos that nobody takes few.

use std::path::Path;
use std::time::{Duration, Instant};

use compat_tests::tools::{await_that, TempDir};
use compat_tests::{programs, Combo, Ended};

use crate::product;

#[derive(Debug, Default)]
struct Report {
    low: u64,
    high: u64,
    kept: u64,
    size: u64,
    shared: u64,
}

/// `after 1: low 4 high 2 kept 0 VmSize 123 RssShmem 456`, and the names of the numbers.
fn reports(ended: &Ended) -> Vec<Report> {
    let number = |line: &str, name: &str| -> u64 {
        let mut words = line.split_whitespace().skip_while(|word| *word != name);
        words.nth(1).and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no {name} in {line}"))
    };
    let lines = ended.transcript.lines().filter(|line| line.starts_with("after"));
    lines
        .map(|line| Report {
            low: number(line, "low"),
            high: number(line, "high"),
            kept: number(line, "kept"),
            size: number(line, "VmSize"),
            shared: number(line, "RssShmem"),
        })
        .collect()
}

#[test]
fn closed_connections_leave_no_descriptors_and_no_memory() {
    let _turn = product::alone();
    let count = if product::long() { "20000" } else { "2000" };
    for closes_first in ["0", "1"] {
        let folder = TempDir::new();
        let program = programs::c("hygiene");
        let start = |role| {
            product::start(&Combo::shimmed(), &program, role, folder.path(), &["", count, closes_first], &[])
        };
        let (server, client) = (start("server"), start("client"));
        let deadline = Instant::now() + Duration::from_secs(55);
        for (who, job) in [("client", client), ("server", server)] {
            let ended = job.finish(deadline);
            assert!(ended.ok(), "{who}: {}", ended.text());
            let said = &ended.transcript;
            let [first, middle, last] = &reports(&ended)[..] else { panic!("{who}: {said}") };
            // One less where the other process, and with it the link to it, is gone already.
            let more = last.low > first.low || last.high > first.high;
            assert!(!more && last.low + 1 >= first.low, "{who}: descriptors\n{said}");
            assert!(last.high <= 8 && last.kept == 0, "{who}: internal descriptors\n{said}");
            assert!(last.size <= middle.size + 8 * 1024, "{who}: address space grows\n{said}");
            assert!(last.shared <= middle.shared + 2 * 1024, "{who}: shared memory grows\n{said}");
        }
    }
}

/// Each of them is a family of its own, with memory that the server fills.
#[test]
fn clients_that_ended_leave_no_memory_to_their_server() {
    let _turn = product::alone();
    let count = if product::long() { "400" } else { "60" };
    let (folder, program) = (TempDir::new(), programs::c("visitors"));
    let start =
        |role| product::start(&Combo::shimmed(), &program, role, folder.path(), &["", count, "32"], &[]);
    let (server, client) = (start("server"), start("client"));
    let deadline = Instant::now() + Duration::from_secs(if product::long() { 300 } else { 50 });
    let [client, server] = [client, server].map(|job| job.finish(deadline));
    assert!(client.ok() && server.ok(), "{}\n{}", client.text(), server.text());
    let numbers: Vec<u64> = server.transcript.split_whitespace().filter_map(|w| w.parse().ok()).collect();
    let [before, after] = numbers[..] else { panic!("{}", server.transcript) };
    assert!(before > 0, "no channels");
    // Some of them rest for a moment, with a long ring each.
    assert!(after < before + 12 * 4400, "{}", server.transcript);
}

/// Sockets of a client of many connections, to a server that passes each on before it looks for an offer, beside those connections;
/// and why the connection of a second client is on TCP.
fn of_a_server_that_takes_no_hello(connections: usize, flood: bool) -> (usize, Vec<String>) {
    let (folder, program, knock) = (TempDir::new(), programs::c("unheard"), programs::c("knock"));
    let count = connections.to_string();
    let start = |combo, program, role, arguments: &[&str]| {
        product::start(&combo, program, role, folder.path(), arguments, &[])
    };
    let server = start(Combo::shimmed(), &program, "server", &[]);
    let mut first = start(Combo::shimmed(), &program, "client", &["", &count, "100"]);
    let done = folder.file("port.done");
    await_that("the exchanges", Duration::from_secs(30), || done.exists() || first.ended().is_some());
    let open = product::descriptors(Path::new(&format!("/proc/{}", first.pid())));
    let sockets = open.iter().filter(|(_, target)| target.starts_with("socket:")).count();
    if flood {
        let mut knocks = start(Combo::native(), &knock, "client", &["flood"]);
        let knocked = folder.file("port.knocked");
        await_that("the flood", Duration::from_secs(10), || knocked.exists() || knocks.ended().is_some());
        product::mark(&folder, "over");
        assert!(knocks.finish(Instant::now() + Duration::from_secs(10)).ok());
    }
    let second = start(Combo::shimmed(), &program, "client", &["", "1", "100", "second"]);
    let why = || product::family(second.pid().as_raw()).map(|family| family.on_tcp).unwrap_or_default();
    await_that("a reason", Duration::from_secs(20), || !why().is_empty());
    let why = why().into_keys().collect();
    product::mark(&folder, "looked");
    for client in [first, second] {
        let ended = client.finish(Instant::now() + Duration::from_secs(10));
        assert!(ended.ok() && ended.transcript == "fine\n", "{}", ended.text());
    }
    drop(server);
    (sockets.saturating_sub(connections), why)
}

/// Each would cost a descriptor, and a place at the door.
#[test]
fn hellos_that_nobody_takes_are_few() {
    let _turn = product::alone();
    let (more, why) = of_a_server_that_takes_no_hello(60, false);
    assert!(more <= 5, "{more} sockets beside those of the connections");
    assert_eq!(why, ["silent"]);
}

#[test]
fn a_full_door_is_not_taken_for_none() {
    let _turn = product::alone();
    assert_eq!(of_a_server_that_takes_no_hello(1, true).1, ["silent"]);
}
