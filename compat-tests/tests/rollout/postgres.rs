//! PostgreSQL: connections that stay for hours, and a restart that is announced.

use std::sync::Arc;
use std::time::{Duration, Instant};

use compat_tests::tools::{await_listener, await_that, free_port, not_as_root, postgresql};
use compat_tests::Job;
use nix::sys::signal::{kill, Signal};

use crate::kit::{Host, Load};

const UNIT: &str = "postgresql@15-main.service";

fn pgbench(host: &Host, port: u16, arguments: &[&str]) {
    let mut command = host.client(&postgresql("pgbench"));
    command
        .args(["-h", "127.0.0.1", "-U", "postgres", "-p", &port.to_string()])
        .args(arguments)
        .arg("postgres");
    let out = command.output().expect("pgbench");
    let said = String::from_utf8_lossy(&out.stdout) + String::from_utf8_lossy(&out.stderr);
    let fine = out.status.success() && (arguments[0] == "-i" || said.contains("failed transactions: 0 "));
    assert!(fine, "{arguments:?}: {said}");
}

fn start(host: &Host, port: u16, environment: &[(String, String)]) -> Job {
    let mut command = host.service(&postgresql("postgres"), environment);
    command.args(["-D", "data", "-h", "127.0.0.1", "-F", "-N", "20", "-p", &port.to_string(), "-k"]);
    command.arg(host.folder.path());
    not_as_root(&mut command);
    let postgres = host.start("postgres", command);
    await_listener(port);
    await_that("postgres answers", Duration::from_secs(20), || {
        let mut ask = host.client(&postgresql("psql"));
        ask.args([
            "-h",
            "127.0.0.1",
            "-U",
            "postgres",
            "-p",
            &port.to_string(),
            "-c",
            "select 1",
            "postgres",
        ]);
        ask.output().is_ok_and(|out| out.status.success())
    });
    postgres
}

/// It ends when its clients have gone: a smart shutdown.
fn stop(postgres: Job) {
    kill(postgres.pid(), Signal::SIGTERM).expect("the server");
    let ended = postgres.finish(Instant::now() + Duration::from_secs(20));
    assert!(ended.ok(), "{}", ended.text());
}

#[test]
fn postgres_is_rolled_out_renewed_and_undone_and_no_transaction_fails() {
    let port = free_port();
    let unit = "postgresql@.service";
    let host =
        Arc::new(Host::new(unit, "[Service]\nType=forking\nExecStart=-/usr/bin/pg_ctlcluster %i start\n"));
    let mut initdb = host.service(&postgresql("initdb"), &[]);
    initdb.args(["-D", "data", "-A", "trust", "-U", "postgres", "-N"]);
    not_as_root(&mut initdb);
    let made = initdb.output().expect("initdb");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));

    host.on_tree(&["enable", "postgresql@15-main"]);
    let postgres = start(&host, port, &host.environment(UNIT));
    pgbench(&host, port, &["-i", "-q", "-s", "1"]);
    let load = |seconds: &'static str| {
        let host = Arc::clone(&host);
        Load::start(move || pgbench(&host, port, &["-n", "-S", "-T", seconds, "-c", "4"]))
    };

    // A library that is replaced while connections last, and while others begin.
    let (long, short) = (load("4"), load("1"));
    await_that("channels", Duration::from_secs(20), || {
        host.metric("dp_family_channels_total", "postgres") >= 8
    });
    for _ in 0..5 {
        host.install();
        std::thread::sleep(Duration::from_millis(300));
    }
    assert!(host.metric("dp_family_ring_bytes_total", "postgres") > 100_000);
    assert!(long.finish() + short.finish() >= 2);

    // The restart that brings the new one is announced, as any restart of a database is.
    stop(postgres);
    let postgres = start(&host, port, &host.environment(UNIT));
    pgbench(&host, port, &["-n", "-S", "-T", "1", "-c", "4"]);
    assert!(host.metric("dp_family_channels_total", "postgres") >= 4);

    host.on_tree(&["disable", "postgresql@15-main"]);
    assert!(host.is_clean());
    stop(postgres);
    let postgres = start(&host, port, &[]);
    pgbench(&host, port, &["-n", "-S", "-T", "1", "-c", "4"]);
    assert!(host.doctor(postgres.pid().as_raw()).contains("started without the shim"));
    stop(postgres);
}
