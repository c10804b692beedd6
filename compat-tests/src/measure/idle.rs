//! What it costs to do nothing: a redis-server and a redis-cli that is connected and silent.

use std::process::Stdio;
use std::time::Duration;

use super::cores::Cores;
use super::counters::Family;
use super::kit::{Kit, Setup, Tool};
use super::process::{Cost, Process};
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

/// Both measures of idleness, per second of it. All setups are idle at the same time.
pub struct Idle {
    /// Milliseconds of CPU time.
    pub cpu_ms: Turns,
    /// Context switches.
    pub switches: Turns,
    /// The product's counters of the last server under DP.
    pub family: Option<Family>,
}

struct Pair {
    server: Server,
    client: Process,
}

/// Looks at the setups' costs for so many equal parts of the time. Each part has new processes: where they happen
/// to be in memory and in the core's time shows in such small numbers, and must not look like the shim's doing.
///
/// # Errors
/// A program fails, or `dp ls` does.
pub fn measure(
    kit: &Kit,
    cores: Cores,
    setups: &[Setup],
    parts: usize,
    time: Duration,
) -> Result<Idle, Error> {
    let part = time / parts.max(1) as u32;
    let (mut cpu_ms, mut switches, mut family) = (Vec::new(), Vec::new(), None);
    for number in 0..parts {
        let mut pairs = Vec::new();
        for i in 0..setups.len() {
            pairs.push(start(kit, cores, setups[(i + number) % setups.len()])?);
        }
        pairs.rotate_right(number % setups.len().max(1));
        pause(SETTLE)?;
        let earlier = costs(&pairs)?;
        pause(part)?;
        let later = costs(&pairs)?;
        let samples: Vec<Sample> = later.iter().zip(&earlier).map(|(l, e)| sample(*l, *e, part)).collect();
        let switched = |s: &Sample| (s.server.switches + s.client.switches) as f64 / part.as_secs_f64();
        switches.push(samples.iter().map(|s| Sample { value: switched(s), ..*s }).collect());
        cpu_ms.push(samples);
        let dp = pairs.iter().find(|pair| pair.server.setup() == Setup::Dp);
        family = dp.map(|pair| pair.server.family(kit)).transpose()?.flatten();
    }
    Ok(Idle { cpu_ms: Turns::of(setups, cpu_ms), switches: Turns::of(setups, switches), family })
}

fn costs(pairs: &[Pair]) -> Result<Vec<[Cost; 2]>, Error> {
    pairs.iter().map(|pair| Ok([pair.server.cost()?, pair.client.cost()?])).collect()
}

fn sample(later: [Cost; 2], earlier: [Cost; 2], part: Duration) -> Sample {
    let [server, client] = [0, 1].map(|i| later[i] - earlier[i]);
    let cpu = (server.cpu + client.cpu).as_secs_f64() * 1000.0;
    Sample { value: cpu / part.as_secs_f64(), server, client }
}

/// A server and a client that has been busy with it, and waits for its next command.
fn start(kit: &Kit, cores: Cores, setup: Setup) -> Result<Pair, Error> {
    let server = Server::start(kit, setup, cores)?;
    let mut command = kit.command(setup, CLI);
    command.args(["-h", "127.0.0.1", "-p"]).arg(server.port().to_string());
    let what = format!("redis-cli ({})", setup.name());
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
