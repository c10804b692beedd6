//! What it costs to do nothing: a redis-server and a redis-cli that is connected and silent.

use std::process::Stdio;
use std::time::Duration;

use super::cores::Cores;
use super::counters::Family;
use super::kit::{Kit, Tool, Way};
use super::process::Process;
use super::redis::Server;
use super::scratch::{await_answer, pause};
use super::turns::{Sample, Turns};
use super::Error;

/// The idle client.
pub const CLI: Tool = Tool { program: "redis-cli", package: "redis-tools" };

/// Enough exchanges that the connection certainly is a channel, if it ever will be.
const EXCHANGES: usize = 300;
/// How long these may take.
const READY: Duration = Duration::from_secs(15);
/// Time for everybody to fall asleep before the clock starts.
const SETTLE: Duration = Duration::from_millis(300);

/// Both measures of idleness, per second of it. All ways are idle at the same time.
pub struct Idle {
    /// Milliseconds of CPU time.
    pub cpu_ms: Turns,
    /// Context switches.
    pub switches: Turns,
    /// The product's counters of the server under DP, at the end.
    pub family: Option<Family>,
}

struct Pair {
    server: Server,
    client: Process,
}

/// Looks at the ways' costs at so many equal parts of the time.
///
/// # Errors
/// A program fails, or `dp ls` does.
pub fn measure(kit: &Kit, cores: Cores, ways: &[Way], parts: usize, time: Duration) -> Result<Idle, Error> {
    let pairs = ways.iter().map(|way| start(kit, cores, *way)).collect::<Result<Vec<Pair>, Error>>()?;
    pause(SETTLE)?;
    let part = time / parts.max(1) as u32;
    let (mut cpu_ms, mut switches) = (Vec::new(), Vec::new());
    for _ in 0..parts {
        let earlier = costs(&pairs)?;
        pause(part)?;
        let samples: Vec<Sample> = costs(&pairs)?
            .into_iter()
            .zip(earlier)
            .map(|([server, client], before)| {
                let (server, client) = (server - before[0], client - before[1]);
                let cpu = (server.cpu + client.cpu).as_secs_f64() * 1000.0;
                Sample { value: cpu / part.as_secs_f64(), server, client }
            })
            .collect();
        let switched = |s: &Sample| (s.server.switches + s.client.switches) as f64 / part.as_secs_f64();
        switches.push(samples.iter().map(|s| Sample { value: switched(s), ..*s }).collect());
        cpu_ms.push(samples);
    }
    let dp = pairs.iter().find(|pair| pair.server.way() == Way::Dp);
    let family = dp.map(|pair| pair.server.family(kit)).transpose()?.flatten();
    Ok(Idle { cpu_ms: Turns::of(ways, cpu_ms), switches: Turns::of(ways, switches), family })
}

fn costs(pairs: &[Pair]) -> Result<Vec<[super::process::Cost; 2]>, Error> {
    pairs.iter().map(|pair| Ok([pair.server.cost()?, pair.client.cost()?])).collect()
}

/// A server and a client that has been busy with it, and waits for its next command.
fn start(kit: &Kit, cores: Cores, way: Way) -> Result<Pair, Error> {
    let server = Server::start(kit, way, cores)?;
    let mut command = kit.command(way, CLI);
    command.args(["-h", "127.0.0.1", "-p"]).arg(server.port().to_string());
    let what = format!("redis-cli ({})", way.name());
    let mut client = Process::start_reading(&what, command, cores.client, &kit.scratch, Stdio::piped())?;
    client.feed(&"PING\n".repeat(EXCHANGES))?;
    let answered = await_answer(READY, || {
        client.still_runs()?;
        Ok((client.said().lines().count() >= EXCHANGES).then_some(()))
    })?;
    match answered {
        Some(()) => Ok(Pair { server, client }),
        None => Err(Error::Slow {
            what: format!("{what}, {EXCHANGES} times PING,"),
            limit: READY,
            hint: "see what else uses this machine (`top`), or where the program hangs (`dp ls`)",
        }),
    }
}
