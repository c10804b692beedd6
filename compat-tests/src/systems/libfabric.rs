//! libfabric's shared-memory provider, by the program it brings: `fi_pingpong`.
//!
//! It tells the mean of a message's way, with two digits behind the point of microseconds, and nothing of how the single
//! ones spread; it sends messages to and fro only.

use std::process::Command;
use std::time::Duration;

use super::ucx::await_server;
use super::{Job, Sample};
use crate::measure::kit::{Kit, Tool};
use crate::measure::scratch::free_port;
use crate::measure::Error;

/// The program.
pub const PINGPONG: Tool = Tool { program: "fi_pingpong", package: "libfabric-bin" };
/// Fewer round trips are no run.
pub const LEAST: u64 = 16;
const PATIENCE: Duration = Duration::from_secs(60);
const TITLES: [&str; 8] = ["bytes", "#sent", "#ack", "total", "time", "MB/sec", "usec/xfer", "Mxfers/sec"];

/// A run with so many round trips: what it brought, and round trips in a second.
///
/// # Errors
/// The program fails, hangs, or says something unknown; an interrupt.
pub fn turn(kit: &Kit, job: &Job, trips: u64) -> Result<(Sample, f64), Error> {
    let port = free_port()?.to_string();
    let name = format!("fi_pingpong, {} bytes", job.size);
    let command = |side: &str| {
        let mut command = Command::new(PINGPONG.program);
        command.args(["-p", "shm", "-e", "rdm", "-I", &trips.to_string(), "-S", &job.size.to_string()]);
        command.args([side, &port]).env("LC_ALL", "C").env_remove("LD_PRELOAD");
        command
    };
    let mut server = kit.start(command("-B"), &format!("{name}, server"), kit.cores.server)?;
    await_server(&mut server, port.parse().unwrap_or(0))?;
    let mut client = command("-P");
    client.arg("127.0.0.1");
    let finished = kit.start(client, &name, kit.cores.client)?.finish(job.time * 20 + PATIENCE)?;
    server.finish(PATIENCE)?;
    let mean = parse(&finished.out).ok_or_else(|| Error::words(name, &finished.out))?;
    Ok((Sample { mean_ns: Some(mean), ..Sample::default() }, 0.5e9 / mean))
}

/// The mean of one way, ns.
pub(super) fn parse(said: &str) -> Option<f64> {
    let mut lines = said.lines().filter(|line| !line.trim().is_empty());
    let titles = lines.next()?.split_whitespace();
    titles.eq(TITLES).then_some(())?;
    let fields: Vec<&str> = lines.next()?.split_whitespace().collect();
    if fields.len() != TITLES.len() || lines.next().is_some() {
        return None;
    }
    let mean: f64 = fields[6].parse().ok()?;
    Some(mean * 1e3).filter(|ns| *ns > 0.0)
}
