//! Thousands of children that end without a word leave nothing behind.

use std::process::Command;
use std::time::{Duration, Instant};

use compat_tests::tools::{await_that, free_port, TempDir};
use compat_tests::{programs, Combo, Ended, Job};

use crate::product;

/// More connections than an arena has slots; in the long run more than a family has entries.
#[test]
fn children_that_only_end_give_back_what_they_had() {
    let _turn = product::alone();
    let count = if product::long() { 70_000 } else { 2000 };
    let limit = Duration::from_secs(if product::long() { 900 } else { 50 });
    let (folder, program, number) = (TempDir::new(), programs::c("fork_exits"), count.to_string());
    let start = |role| {
        let alarm = [("COMPAT_ALARM", "1000".to_string())];
        product::start(&Combo::shimmed(), &program, role, folder.path(), &["", &number, "3"], &alarm)
    };
    let (server, client) = (start("server"), start("client"));
    let deadline = Instant::now() + limit;
    let done = folder.file("port.done");
    await_that("the connections", limit, || done.exists());
    // The last child may be on its way out.
    let empty = || product::family(server.pid().as_raw()).is_some_and(|family| family.connections.is_empty());
    await_that("the end of the last child's connection", Duration::from_secs(5), empty);
    let [made, offered] = [&server, &client].map(|job| product::channels(job.pid().as_raw()));
    product::mark(&folder, "looked");
    let [server, client] = [server, client].map(|job| job.finish(deadline));
    for (who, ended) in [("client", &client), ("server", &server)] {
        assert!(ended.ok(), "{who}: {}", ended.text());
    }
    assert!(made >= count * 9 / 10 && offered >= count * 9 / 10, "{made} and {offered} channels of {count}");
    // A page holds ten entries.
    let (before, after) = memory(&server);
    assert!(after < before + count / 100 * 4 + 64, "entries are not used again: {}", server.transcript);
    // Some slots may wait for their servers, with a page of lines and short rings and both of their own rings each.
    let (before, after) = memory(&client);
    assert!(after < before + 64 * 264, "slots are not used again: {}", client.transcript);
}

/// The client cannot tell there by a number whether a process has ended. In the long run more connections than an arena has slots.
#[test]
fn children_in_another_pid_namespace_leave_no_slots() {
    let _turn = product::alone();
    let count = if product::long() { 70_000 } else { 2000 };
    let limit = Duration::from_secs(if product::long() { 900 } else { 50 });
    let (folder, program) = (TempDir::new(), programs::c("fork_exits"));
    let Some(wrapper) = product::pid_namespace("forks") else { return };
    let inside = |command: Command| {
        let mut outer = Command::new(wrapper[0]);
        outer.args(&wrapper[1..]).arg(command.get_program()).args(command.get_args());
        outer.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        outer
    };
    let start = |role: &str, arguments: &[&str]| {
        let combo = Combo::shimmed();
        let mut command = match role {
            "client" => combo.client_command(&program, folder.path()),
            _ => combo.server_command(&program, folder.path()),
        };
        command.arg(role).arg(folder.file("port")).arg("").args(arguments).env("COMPAT_ALARM", "1000");
        Job::start(role, if role == "server" { inside(command) } else { command }, folder.path())
    };
    let number = count.to_string();
    let (server, client) = (start("server", &[&number, "0"]), start("client", &[&number]));
    let done = folder.file("port.done");
    await_that("the connections", limit, || done.exists());
    let offered = product::channels(client.pid().as_raw());
    product::mark(&folder, "looked");
    let [server, client] = [server, client].map(|job| job.finish(Instant::now() + limit));
    for (who, ended) in [("client", &client), ("server", &server)] {
        assert!(ended.ok(), "{who}: {}", ended.text());
    }
    assert!(offered >= count * 9 / 10, "{offered} channels of {count}");
    // Some wait until they are looked at, with a page of lines and short rings each.
    let (before, after) = memory(&client);
    assert!(after < before + 5000, "slots are not used again: {}", client.transcript);
}

/// The shared memory that a process had at the beginning and at the end, KiB.
fn memory(ended: &Ended) -> (u64, u64) {
    let mut numbers = ended.transcript.split_whitespace().filter_map(|w| w.parse().ok());
    let two = numbers.next().zip(numbers.next());
    two.unwrap_or_else(|| panic!("{}", ended.transcript))
}

/// A program that has connections itself and forks a process for each task, which meets another server and ends by _exit: each
/// has memory for it of its own.
#[test]
fn children_that_end_leave_room_for_servers_that_others_meet() {
    let _turn = product::alone();
    let (folder, program, count) = (TempDir::new(), programs::c("tasks"), 70u64);
    let [a, b] = [free_port(), free_port()].map(|port| port.to_string());
    let start = |role, arguments: &[&str]| {
        product::start(&Combo::shimmed(), &program, role, folder.path(), arguments, &[])
    };
    let _servers = [start("server", &["", &a]), start("server", &["", &b])];
    let client = start("client", &["", &a, &b, &count.to_string()]);
    let deadline = Instant::now() + Duration::from_secs(50);
    await_that("the tasks", Duration::from_secs(40), || folder.file("port.done").exists());
    let channels = product::channels(client.pid().as_raw());
    product::mark(&folder, "looked");
    let client = client.finish(deadline);
    assert!(client.ok(), "{}", client.text());
    assert!(channels > count, "{channels} channels of a parent and {count} children");
}

/// What a child touches before it has a reason to is copied or mapped for it, a fault for each page.
#[test]
fn a_child_that_only_ends_has_few_faults_more_than_natively() {
    let _turn = product::alone();
    let faults = |combo: Combo| -> u64 {
        let (folder, program) = (TempDir::new(), programs::c("fork_cost"));
        let start = |role| product::start(&combo, &program, role, folder.path(), &[], &[]);
        let deadline = Instant::now() + Duration::from_secs(25);
        let [server, client] = [start("server"), start("client")].map(|job| job.finish(deadline));
        assert!(server.ok() && client.ok(), "{}{}", server.text(), client.text());
        let number = server.transcript.split_whitespace().nth(1).and_then(|number| number.parse().ok());
        number.unwrap_or_else(|| panic!("{}", server.transcript))
    };
    let [native, under_dp] = [Combo::native(), Combo::shimmed()].map(faults);
    // Four, and some for code that lies far apart in a build that is not optimised as a whole.
    assert!(under_dp <= native + 14, "{under_dp} faults a child, natively {native}");
}
