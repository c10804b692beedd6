//! Programs that move much data: curl, iperf3, ncat, socat.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use compat_tests::tools::{await_listener, free_port, generated, needed, TempDir};
use compat_tests::{Combo, Ended, Job};
use serde_json::Value;

use crate::combos;

const MB: usize = 1_000_000;

fn deadline() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

fn must_be_ok(combo: &Combo, who: &str, ended: &Ended) {
    assert!(ended.ok(), "{}: {who}: {}\nstderr: {}", combo.name, ended.status, ended.errors);
}

/// Fails without printing megabytes.
fn must_be_same(combo: &Combo, sent: &[u8], arrived: &Path) {
    let arrived = fs::read(arrived).expect("the received file");
    let same = sent.iter().zip(&arrived).take_while(|(a, b)| a == b).count();
    let (sent, arrived) = (sent.len(), arrived.len());
    assert!(
        same == sent && same == arrived,
        "{}: {same} of {sent} bytes right, {arrived} arrived",
        combo.name
    );
}

/// Starts a listening server and then a client, whose stdin is the file; waits for both.
fn listen_and_send(combo: &Combo, folder: &TempDir, server: Command, port: u16, client: Command) {
    let server = Job::start("server", server, folder.path());
    await_listener(port);
    let input = File::open(folder.file("sent")).expect("the file to send");
    let client = Job::start_reading("client", client, folder.path(), input.into());
    must_be_ok(combo, "client", &client.finish(deadline()));
    must_be_ok(combo, "server", &server.finish(deadline()));
}

#[test]
fn curl_from_pythons_http_server() {
    let data = generated(50 * MB);
    for combo in combos() {
        let (folder, port) = (TempDir::new(), free_port());
        fs::write(folder.file("file"), &data).expect("the file to serve");
        let mut server = combo.server_command(&needed("python3", "python3"), folder.path());
        server.args(["-m", "http.server", &port.to_string(), "--bind", "127.0.0.1"]);
        let _server = Job::start("server", server, folder.path());
        await_listener(port);
        let url = format!("http://127.0.0.1:{port}/file");
        let curl = |arguments: &[&str]| {
            let mut command = combo.client_command(&needed("curl", "curl"), folder.path());
            command.args(["-sS", "--fail", "--noproxy", "*"]).args(arguments);
            must_be_ok(&combo, "curl", &Job::start("curl", command, folder.path()).finish(deadline()));
        };
        curl(&["-o", "whole", &url]);
        must_be_same(&combo, &data, &folder.file("whole"));
        // Two at a time, in one process.
        curl(&["--parallel", "-o", "a", &url, "-o", "b", &url]);
        must_be_same(&combo, &data, &folder.file("a"));
        must_be_same(&combo, &data, &folder.file("b"));
    }
}

#[test]
fn iperf3_in_both_directions() {
    for combo in combos() {
        for direction in
            [&["-n", "200M"][..], &["-n", "200M", "-R"], &["-n", "100M", "-P", "4"], &["-t", "1", "--bidir"]]
        {
            let (folder, port) = (TempDir::new(), free_port().to_string());
            let iperf3 = needed("iperf3", "iperf3");
            let mut server = combo.server_command(&iperf3, folder.path());
            server.args(["-s", "-1", "-B", "127.0.0.1", "-p", &port]);
            let server = Job::start("server", server, folder.path());
            await_listener(port.parse().expect("a number"));
            let mut client = combo.client_command(&iperf3, folder.path());
            client.args(["-J", "-c", "127.0.0.1", "-p", &port]).args(direction);
            let ended = Job::start("client", client, folder.path()).finish(deadline());
            must_be_ok(&combo, "iperf3 -c", &ended);
            must_be_ok(&combo, "iperf3 -s", &server.finish(deadline()));
            let told: Value = serde_json::from_str(&ended.transcript).expect("JSON");
            let bytes = |sum: &str| told["end"][sum]["bytes"].as_u64().unwrap_or(0);
            let (sent, received) = (bytes("sum_sent"), bytes("sum_received"));
            assert!(received > 0 && received <= sent, "{} {direction:?}: {sent}, {received}", combo.name);
        }
    }
}

#[test]
fn ncat_sends_a_file() {
    let data = generated(20 * MB);
    for combo in combos() {
        let (folder, port) = (TempDir::new(), free_port());
        fs::write(folder.file("sent"), &data).expect("the file to send");
        let ncat = needed("ncat", "ncat");
        let mut server = combo.server_command(&ncat, folder.path());
        server.args(["-l", "127.0.0.1", &port.to_string(), "--recv-only"]);
        let mut client = combo.client_command(&ncat, folder.path());
        client.args(["127.0.0.1", &port.to_string(), "--send-only"]);
        listen_and_send(&combo, &folder, server, port, client);
        must_be_same(&combo, &data, &folder.file("server.out"));
    }
}

#[test]
fn socat_sends_a_file() {
    let data = generated(20 * MB);
    for combo in combos() {
        let (folder, port) = (TempDir::new(), free_port());
        fs::write(folder.file("sent"), &data).expect("the file to send");
        let socat = needed("socat", "socat");
        let mut server = combo.server_command(&socat, folder.path());
        server.args(["-u", &format!("TCP4-LISTEN:{port},bind=127.0.0.1,reuseaddr"), "OPEN:arrived,creat"]);
        let mut client = combo.client_command(&socat, folder.path());
        client.args(["-u", "-", &format!("TCP4:127.0.0.1:{port}")]);
        listen_and_send(&combo, &folder, server, port, client);
        must_be_same(&combo, &data, &folder.file("arrived"));
    }
}

/// The server forks and executes cat for the connection; the client sends, ends its half, and still reads.
#[test]
fn socat_echoes_through_an_executed_cat() {
    let data = generated(20 * MB);
    for combo in combos() {
        let (folder, port) = (TempDir::new(), free_port());
        fs::write(folder.file("sent"), &data).expect("the file to send");
        let socat = needed("socat", "socat");
        let mut server = combo.server_command(&socat, folder.path());
        // nofork: cat gets the connection itself, not a pair of pipes
        server.args([&format!("TCP4-LISTEN:{port},bind=127.0.0.1,reuseaddr"), "EXEC:/bin/cat,nofork"]);
        let mut client = combo.client_command(&socat, folder.path());
        client.args(["-t", "25", "-", &format!("TCP4:127.0.0.1:{port}")]);
        listen_and_send(&combo, &folder, server, port, client);
        must_be_same(&combo, &data, &folder.file("client.out"));
    }
}
