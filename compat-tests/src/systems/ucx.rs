//! UCX over shared memory, by the program it brings: `ucx_perftest`.
//!
//! Its latency is half a round trip, from the processor's counter; the percentiles are those of the last 2048 messages
//! of a run, one for each run. CPU time is that of both processes with starting and ending, which in its floods is
//! little beside the rest.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::{Job, Sample, What};
use crate::measure::kit::{Kit, Tool};
use crate::measure::process::{Cost, Process};
use crate::measure::scratch::{await_answer, free_port, listens_anywhere};
use crate::measure::Error;

/// The program.
pub const PERFTEST: Tool = Tool { program: "ucx_perftest", package: "ucx-utils" };
/// Fewer messages are no run.
pub const LEAST: u64 = 16;
/// All transports through memory, and the process itself.
const TRANSPORTS: &str = "sm,self";
const PATIENCE: Duration = Duration::from_secs(60);
/// Percentiles that are asked for, each in a run of its own.
const RANKS: [&str; 3] = ["50", "99", "99.9"];
/// What follows the name and the percentile's title.
const TITLES: &str = ",avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr";

/// Ways of sending that two processes both take part in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Matched by tag, received into a buffer of the program.
    Tag,
    /// Handled where it arrives.
    ActiveMessages,
}

impl Protocol {
    fn test(self, what: What) -> &'static str {
        match (self, what == What::Flood) {
            (Protocol::Tag, false) => "tag_lat",
            (Protocol::Tag, true) => "tag_bw",
            (Protocol::ActiveMessages, false) => "ucp_am_lat",
            (Protocol::ActiveMessages, true) => "ucp_am_bw",
        }
    }
}

/// A run with so many messages: what it brought, and messages (of latency: round trips) in a second.
///
/// # Errors
/// The program fails, hangs, or says something unknown; an interrupt.
pub fn turn(kit: &Kit, protocol: Protocol, job: &Job, messages: u64) -> Result<(Sample, f64), Error> {
    let test = protocol.test(job.what);
    let ranks = if job.what == What::Flood { &RANKS[..1] } else { &RANKS[..] };
    let each = (messages / ranks.len() as u64).max(LEAST);
    let warm_up = (each / 10).clamp(1, 10_000);
    let list = kit.scratch.file("ucx-tests");
    let lines: String = ranks
        .iter()
        .map(|rank| format!("p{rank} -t {test} -s {} -n {each} -w {warm_up} -R {rank}\n", job.size))
        .collect();
    fs::write(&list, lines).map_err(Error::system(list.display()))?;
    let name = format!("ucx_perftest {test}, {} bytes", job.size);
    let (said, cost) = run(kit, &name, &list, job.time)?;
    let lines = parse(&said, ranks).ok_or_else(|| Error::words(&name, &said))?;
    let (sample, rate) = match job.what {
        What::Flood => {
            let rate = lines[0].messages_per_s;
            let sent = each + warm_up;
            (Sample::flood(job.size, sent, sent as f64 / rate, cost.cpu.as_secs_f64()), rate)
        }
        What::Latency | What::Waiting => {
            let [p50_ns, p99_ns, p999_ns] = [0, 1, 2].map(|i| lines.get(i).map(|line| line.percentile_ns));
            (Some(Sample { p50_ns, p99_ns, p999_ns, ..Sample::default() }), 0.5e9 / lines[0].mean_ns)
        }
    };
    sample.map(|sample| (sample, rate)).ok_or_else(|| Error::words(name, &said))
}

/// What the client said, and what both cost.
fn run(kit: &Kit, name: &str, list: &Path, time: Duration) -> Result<(String, Cost), Error> {
    let port = free_port()?;
    let command = || {
        let mut command = Command::new(PERFTEST.program);
        command.env("UCX_TLS", TRANSPORTS).env("LC_ALL", "C").env_remove("LD_PRELOAD");
        command
    };
    let options = |command: &mut Command| {
        command.args(["-f", "-v", "-p", &port.to_string(), "-b"]).arg(list);
    };
    let mut server = command();
    options(&mut server);
    let mut server = kit.start(server, &format!("{name}, server"), kit.cores.server)?;
    await_server(&mut server, port)?;
    let mut client = command();
    client.arg("127.0.0.1");
    options(&mut client);
    let finished = kit.start(client, name, kit.cores.client)?.finish(time * 20 + PATIENCE)?;
    let other = server.finish(PATIENCE)?;
    Ok((finished.out, finished.cost + other.cost))
}

/// Until it listens.
pub(super) fn await_server(server: &mut Process, port: u16) -> Result<(), Error> {
    let limit = Duration::from_secs(20);
    let heard = await_answer(limit, || {
        server.still_runs()?;
        Ok(listens_anywhere(port).then_some(()))
    })?;
    let hint = "see what else uses this machine (`top`)";
    heard.ok_or_else(|| Error::Slow { what: format!("a server on port {port}"), limit, hint })
}

/// One test of a list.
#[derive(Debug, PartialEq)]
pub(super) struct Line {
    pub percentile_ns: f64,
    pub mean_ns: f64,
    pub messages_per_s: f64,
}

/// A title, and a line for each rank; nothing else.
pub(super) fn parse(said: &str, ranks: &[&str]) -> Option<Vec<Line>> {
    let mut lines = said.lines();
    let title = lines.next()?;
    // Version 1.13 gives all percentiles the title of the first.
    let middle = title.strip_suffix(TITLES)?;
    let (_, percentile) = middle.split_once(",iterations,")?;
    if !percentile.ends_with("_percentile_lat") {
        return None;
    }
    let parsed: Vec<Line> = lines
        .zip(ranks)
        .map(|(line, rank)| {
            let fields: Vec<&str> = line.split(',').collect();
            let [name, _, percentile, mean, _, _, _, _, rate] = fields[..] else { return None };
            // Microseconds, and 0.000 for what is no number of them.
            let number = |text: &str| text.trim().parse::<f64>().ok().filter(|number| *number > 0.0);
            let ns = |text: &str| number(text).map(|us| us * 1e3);
            (name == format!("p{rank}")).then_some(())?;
            Some(Line { percentile_ns: ns(percentile)?, mean_ns: ns(mean)?, messages_per_s: number(rate)? })
        })
        .collect::<Option<_>>()?;
    (parsed.len() == ranks.len()).then_some(parsed)
}
