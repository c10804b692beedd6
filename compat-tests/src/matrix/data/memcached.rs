//! memcached.

use super::common::{between, lost_by_all, moved, python};
use crate::matrix::http::PYTHON;
use crate::matrix::legs::{Leg, Meter};
use crate::matrix::run::{is_root, Run};
use crate::matrix::tool::{Tool, Version};
use crate::matrix::{Figure, Measured, Row};
use crate::measure::process::Process;
use crate::measure::Error;

const MEMCACHED: Tool = Tool { program: "memcached", package: "memcached" };
const SLAP: Tool = Tool { program: "memcaslap", package: "libmemcached-tools" };
/// A request of memcaslap's with its key and its value of 1024 bytes, or the answer.
const REQUEST: u64 = 1024;

/// With two threads; as nobody when root runs it.
pub const ROW: Row = Row {
    name: "memcached",
    what: "values of up to 900 kB; 108 MB to a slow reader; 108 MB each way at once; clients that vanish, also by a reset",
    tools: &[MEMCACHED, SLAP, PYTHON],
    version: Version { tool: MEMCACHED, arguments: &["--version"] },
    check,
    figures: &[
        Figure { what: "memcaslap, 1 connection", unit: "requests/s", run: |run| bench(run, 1), reason: None },
        Figure { what: "memcaslap, 8 connections", unit: "requests/s", run: |run| bench(run, 8), reason: None },
    ],
};

fn start(run: &Run, port: u16) -> Result<Process, Error> {
    let mut command = run.server(MEMCACHED)?;
    command.args(["-l", "127.0.0.1", "-m", "1024", "-t", "2", "-p", &port.to_string()]);
    if is_root() {
        command.args(["-u", "nobody"]);
        lost_by_all(run)?;
    }
    run.serve("memcached", command, port)
}

fn check(run: &Run) -> Result<Vec<Leg>, Error> {
    let port = run.port()?;
    let memcached = start(run, port)?;
    let meter = Meter::start(run, &[("client to memcached", &memcached)])?;
    let (bytes, connections) = moved(run, "memcached_client.py", &[&port.to_string(), "content"])?;
    let legs = meter.legs(bytes, connections)?;
    run.finish(
        "memcached_client.py ends",
        python(run, "memcached_client.py", &[&port.to_string(), "ends"])?,
    )?;
    Ok(legs)
}

fn bench(run: &Run, connections: u32) -> Result<Measured, Error> {
    let port = run.port()?;
    let memcached = start(run, port)?;
    let meter = Meter::start(run, &[("memcaslap to memcached", &memcached)])?;
    let mut command = run.client(SLAP)?;
    command.args(["-s", &format!("127.0.0.1:{port}"), "-T1", &format!("-c{connections}")]);
    command.arg(format!("-t{}s", run.seconds()));
    let load = parse(&run.finish("memcaslap", command)?.out)?;
    Ok(Measured { value: load.rate, legs: meter.legs(load.requests * REQUEST, connections.into())? })
}

/// What memcaslap counted.
#[derive(Debug, PartialEq)]
pub(super) struct Load {
    pub requests: u64,
    pub rate: f64,
}

/// `Run time: 3.1s Ops: 193179 TPS: 63303 Net_rate: 70.8M/s`
pub(super) fn parse(text: &str) -> Result<Load, Error> {
    let unknown = || Error::words("memcaslap", text);
    let requests = between(text, " Ops: ", " TPS:").ok_or_else(unknown)?;
    Ok(Load { requests, rate: between(text, " TPS: ", " Net_rate:").ok_or_else(unknown)? })
}
