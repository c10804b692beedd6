//! Redis: clients, a replica, a cluster.

use nix::sys::signal::Signal;

use super::common::{between, moved, python};
use crate::matrix::http::PYTHON;
use crate::matrix::legs::{Leg, Meter};
use crate::matrix::run::{signal, Run};
use crate::matrix::tool::{Tool, Version};
use crate::matrix::{Figure, Measured, Row};
use crate::measure::process::Process;
use crate::measure::redis::{BENCHMARK, SERVER};
use crate::measure::Error;

const CLIENT: &str = "redis_client.py";

/// What it does for clients and replicas; its own tests are a row of theirs, `redis_tests`.
pub const ROW: Row = Row {
    name: "redis",
    what: "values of up to 5 MB; 100 MB to a slow reader, 100 MB each way at once, pub/sub to 50; clients that vanish or are \
           thrown out; a replica whose link is cut and which is killed; a cluster of three whose slots move",
    tools: &[SERVER, BENCHMARK, PYTHON],
    version: Version { tool: SERVER, arguments: &["--version"] },
    check,
    figures: &[
        Figure { what: "GET, 1 client", unit: "requests/s", run: |run| bench(run, 1, 3), reason: None },
        Figure { what: "GET, 50 clients", unit: "requests/s", run: |run| bench(run, 50, 3), reason: None },
        Figure { what: "GET of 64 KiB, 8 clients", unit: "requests/s", run: |run| bench(run, 8, 65_536), reason: None },
    ],
};

fn start(run: &Run, port: u16, more: &[&str]) -> Result<Process, Error> {
    let mut command = run.server(Tool { ..SERVER })?;
    command.args([
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--enable-debug-command",
        "yes",
        "--port",
        &port.to_string(),
    ]);
    command.args(["--dbfilename", &format!("{port}.rdb"), "--repl-diskless-sync-delay", "0"]).args(more);
    run.serve(&format!("redis-server {}", more.join(" ")), command, port)
}

fn check(run: &Run) -> Result<Vec<Leg>, Error> {
    let (port, other) = (run.port()?, run.port()?);
    let [text, other_text] = [port, other].map(|port| port.to_string());
    let redis = start(run, port, &[])?;
    let meter = Meter::start(run, &[("client to redis", &redis)])?;
    let (bytes, connections) = moved(run, CLIENT, &["content", &text])?;
    let mut legs = meter.legs(bytes, connections)?;
    run.finish("redis_client.py ends", python(run, CLIENT, &["ends", &text])?)?;
    drop(redis);

    let master = start(run, port, &["--repl-backlog-size", "100mb"])?;
    let replica = start(run, other, &["--repl-backlog-size", "100mb"])?;
    // What the replica serves to the client is a leg of its own; the one to the master is the replica's only other one.
    let meter = Meter::start(run, &[("client to redis, and its replica to it", &master)])?;
    let (bytes, connections) = moved(run, CLIENT, &["replica", &text, &other_text])?;
    legs.extend(meter.legs(bytes, connections + 1)?);
    signal(replica.pid(), Signal::SIGKILL)?;
    drop(replica);
    let replicaof = format!("127.0.0.1 {port}");
    let replica = start(run, other, &["--replicaof", &replicaof])?;
    run.finish("redis_client.py same", python(run, CLIENT, &["same", &text, &other_text])?)?;
    drop((master, replica));

    legs.extend(cluster(run)?);
    Ok(legs)
}

fn cluster(run: &Run) -> Result<Vec<Leg>, Error> {
    let mut nodes = Vec::new();
    let mut arguments = vec!["cluster".to_string()];
    let mut buses = Vec::new();
    for _ in 0..3 {
        let [port, bus] = [run.port()?, run.port()?].map(|port| port.to_string());
        let file = format!("{port}.nodes");
        let more = ["--cluster-enabled", "yes", "--cluster-config-file", &file, "--cluster-port", &bus];
        nodes.push(start(run, port.parse().unwrap_or_default(), &more)?);
        arguments.push(port);
        buses.push(bus);
    }
    arguments.extend(buses);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let meter = Meter::start(run, &[("to a node of the cluster", &nodes[0])])?;
    let (bytes, _) = moved(run, CLIENT, &arguments)?;
    // From a client, for what moves to another node, and one of the bus; others of the bus may not have been used yet.
    meter.legs(bytes / 3, 3)
}

fn bench(run: &Run, clients: u32, size: usize) -> Result<Measured, Error> {
    // Requests in a second, roughly, so that it lasts about as long as it should.
    const ROUGHLY: u64 = 40_000;
    let port = run.port()?;
    let redis = start(run, port, &[])?;
    let meter = Meter::start(run, &[("redis-benchmark to redis", &redis)])?;
    let requests = ROUGHLY * run.time().as_secs().max(1) / if size > 1000 { 4 } else { 1 };
    let mut command = run.client(Tool { ..BENCHMARK })?;
    command.args([
        "-h",
        "127.0.0.1",
        "-p",
        &port.to_string(),
        "-t",
        "set,get",
        "--csv",
        "-c",
        &clients.to_string(),
    ]);
    command.args(["-n", &requests.to_string(), "-d", &size.to_string()]);
    let rate = parse(&run.finish("redis-benchmark", command)?.out)?;
    Ok(Measured { value: rate, legs: meter.legs(2 * requests * (40 + size as u64), 2 * u64::from(clients))? })
}

/// `"GET","49019.61","0.108",...`
pub(super) fn parse(text: &str) -> Result<f64, Error> {
    between(text, "\n\"GET\",\"", "\"").ok_or_else(|| Error::words("redis-benchmark", text))
}
