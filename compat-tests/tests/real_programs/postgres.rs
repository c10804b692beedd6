//! PostgreSQL, whose processes, one for each connection, end with the socket open: it is to say that they are gone.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use compat_tests::tools::{await_listener, await_that, free_port, not_as_root, postgresql, TempDir};
use compat_tests::{Combo, Job};
use nix::sys::signal::{kill, Signal};

/// Statements of a connection, and bytes of each answer: more than a short ring has.
const STATEMENTS: usize = 12;
const LENGTH: usize = 4000;
/// KiB of a slot that has rings of its own.
const SLOT: u64 = 264;

fn start(folder: &TempDir, port: u16) -> Job {
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    fs::set_permissions(folder.path(), open).expect("our folder");
    let mut initdb = Combo::native().server_command(&postgresql("initdb"), folder.path());
    initdb.args(["-D", "data", "-A", "trust", "-U", "postgres", "-N"]);
    not_as_root(&mut initdb);
    let made = initdb.output().expect("initdb");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mut command = Combo::shimmed().server_command(&postgresql("postgres"), folder.path());
    command.args(["-D", "data", "-h", "127.0.0.1", "-F", "-N", "20", "-p", &port.to_string(), "-k"]);
    command.arg(folder.path());
    not_as_root(&mut command);
    let postgres = Job::start("postgres", command, folder.path());
    await_listener(port);
    let port = port.to_string();
    let ask = ["-h", "127.0.0.1", "-U", "postgres", "-p", &port, "-c", "select 1", "postgres"];
    await_that("postgres answers", Duration::from_secs(20), || {
        Command::new(postgresql("psql")).args(ask).output().is_ok_and(|out| out.status.success())
    });
    postgres
}

/// KiB of shared memory that process `pid` has; 0 where it has ended.
fn shared_memory(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssShmem:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[test]
fn a_client_that_connects_again_and_again_keeps_nothing_of_connections_that_are_over() {
    let long = std::env::var("DP_LONG").is_ok_and(|value| value == "1");
    // Connections, by each of two clients.
    let count = if long { 10_000 } else { 400 };
    let (folder, port) = (TempDir::new(), free_port());
    let postgres = start(&folder, port);
    let statement = format!("select repeat('x', {LENGTH});\n");
    fs::write(folder.file("script"), statement.repeat(STATEMENTS)).expect("the script");
    let mut command = Combo::shimmed().client_command(&postgresql("pgbench"), folder.path());
    // So that each is a channel.
    command.env("DP_AFTER", "3");
    command.args(["-h", "127.0.0.1", "-U", "postgres", "-p", &port.to_string()]);
    command.args(["-n", "-C", "-c", "2", "-P", "2", "-t", &count.to_string(), "-f", "script", "postgres"]);
    let begun = Instant::now();
    let mut pgbench = Job::start("pgbench", command, folder.path());
    let (pid, mut memory) = (pgbench.pid().as_raw(), Vec::new());
    while pgbench.ended().is_none() {
        memory.push(shared_memory(pid));
        std::thread::sleep(Duration::from_millis(50));
        assert!(
            begun.elapsed() < Duration::from_secs(if long { 900 } else { 90 }),
            "{}",
            pgbench.transcript()
        );
    }
    let ended = pgbench.finish(Instant::now());
    assert!(ended.ok() && ended.transcript.contains("failed transactions: 0 "), "{}", ended.text());
    // What it prints on the way tells whether each connection takes as long as those before it.
    println!("{}", ended.text());
    kill(postgres.pid(), Signal::SIGTERM).expect("the server");
    let ended = postgres.finish(Instant::now() + Duration::from_secs(20));
    assert!(ended.ok(), "{}", ended.text());
    let (early, late) = (memory[memory.len() / 5], memory.iter().copied().max().unwrap_or(0));
    println!("KiB of shared memory: {early} early on, at most {late}");
    assert!(early > 0, "no channels");
    assert!(late < early + 64 * SLOT, "slots are not used again: {memory:?}");
}
