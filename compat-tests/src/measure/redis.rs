//! redis-server and redis-benchmark, as Debian ships them.

mod control;
mod session;

pub use self::session::{Session, Shared};

use std::path::{Path, PathBuf};
use std::time::Duration;

use self::control::Control;
use super::cores::Cores;
use super::counters::Family;
use super::kit::{Kit, Setup, Tool};
use super::process::{Cost, Process};
use super::scratch::{await_answer, free_port, listens};
use super::Error;

/// The measured server.
pub const SERVER: Tool = Tool { program: "redis-server", package: "redis-server" };
/// The measuring client.
pub const BENCHMARK: Tool = Tool { program: "redis-benchmark", package: "redis-tools" };

/// What redis-benchmark asks for, without `-r`, and what it sets.
const KEY: &str = "key:__rand_int__";
const VALUE: &str = "VXK";
/// A server is ready within this, or something is wrong.
const READY: Duration = Duration::from_secs(10);
/// A free port can be taken by somebody else before the server gets it.
const PORT_TRIES: usize = 3;

/// A running server with one key in it, reachable by TCP and by an AF_UNIX socket.
pub struct Server {
    control: Control,
    process: Process,
    port: u16,
    socket: PathBuf,
    setup: Setup,
}

/// Bytes of the measured clients, as redis itself counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// From clients.
    pub received: u64,
    /// To clients.
    pub sent: u64,
}

impl Server {
    /// Starts a server in this setup and waits until it serves.
    ///
    /// # Errors
    /// It does not get ready; no port is free.
    pub fn start(kit: &Kit, setup: Setup, cores: Cores) -> Result<Server, Error> {
        let what = format!("redis-server ({})", setup.name());
        let mut port = 0;
        for _ in 0..PORT_TRIES {
            port = free_port()?;
            // Paths in AF_UNIX addresses are short: the file is named after the port, in the process's own folder.
            let socket = PathBuf::from(format!("{port}.sock"));
            let mut process = kit.start(command(kit, setup, port, &socket), &what, cores.server)?;
            let path = kit.scratch.path().join(&socket);
            match await_ready(&mut process, port, &path) {
                Ok(control) => return Ok(Server { control, process, port, socket, setup }),
                Err(_) if process.last_words().contains("Address already in use") => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::Port { what, port })
    }

    /// How it was started.
    pub fn setup(&self) -> Setup {
        self.setup
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Its TCP port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What it has cost since its start.
    ///
    /// # Errors
    /// It is gone.
    pub fn cost(&self) -> Result<Cost, Error> {
        self.process.cost()
    }

    /// What its clients have sent and received, this function's own questions left out.
    ///
    /// # Errors
    /// It does not answer.
    pub fn traffic(&mut self) -> Result<Traffic, Error> {
        self.control.traffic()
    }

    /// The product's counters of it; None without the shim.
    ///
    /// # Errors
    /// See [`Family::of`].
    pub fn family(&self, kit: &Kit) -> Result<Option<Family>, Error> {
        Family::of(kit, self.pid())
    }
}

fn command(kit: &Kit, setup: Setup, port: u16, socket: &Path) -> std::process::Command {
    let mut command = kit.command(setup, SERVER);
    // Without configuration file; snapshots would start in the middle of a measurement.
    command.args(["--bind", "127.0.0.1", "--port"]).arg(port.to_string());
    command.arg("--unixsocket").arg(socket).args(["--save", "", "--appendonly", "no"]);
    command.args(["--daemonize", "no", "--loglevel", "warning"]);
    command
}

fn await_ready(process: &mut Process, port: u16, socket: &Path) -> Result<Control, Error> {
    let ready = await_answer(READY, || {
        process.still_runs()?;
        Ok(if listens(port) { Control::connect(socket).ok() } else { None })
    })?;
    let slow = || Error::Slow {
        what: "redis-server, starting,".to_string(),
        limit: READY,
        hint: "see what else uses this machine (`top`)",
    };
    let mut control = ready.ok_or_else(slow)?;
    control.ask(&format!("SET {KEY} {VALUE}"))?;
    Ok(control)
}

/// What redis-benchmark is to do: GET of one key, without pipelining.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Load {
    /// Connections at the same time.
    pub clients: u32,
    /// Whether they stay for the whole run, instead of one request only.
    pub keep: bool,
}

/// What a run of redis-benchmark came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    /// How many there were.
    pub requests: u64,
    /// Requests in a second.
    pub rate: f64,
    /// Median time of a request in milliseconds.
    pub p50_ms: f64,
    /// What 99 of 100 requests do not exceed, in milliseconds.
    pub p99_ms: f64,
    /// Of the server, during the run.
    pub server: Cost,
    /// Of redis-benchmark.
    pub client: Cost,
}

impl Run {
    /// Seconds of CPU time, server and client together.
    pub fn cpu_of_a_request(&self) -> f64 {
        (self.server.cpu + self.client.cpu).as_secs_f64() / self.requests as f64
    }
}

/// redis-benchmark at work.
pub struct Benchmark<'a> {
    server: &'a Server,
    process: Process,
    requests: u64,
    earlier: Cost,
}

impl<'a> Benchmark<'a> {
    /// Starts it. Under the shim when the server is, over AF_UNIX when that is asked of a server without it.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(
        kit: &Kit,
        server: &'a Server,
        setup: Setup,
        load: Load,
        requests: u64,
        cores: Cores,
    ) -> Result<Benchmark<'a>, Error> {
        let mut command = kit.command(setup, BENCHMARK);
        match setup {
            Setup::Unix => command.arg("-s").arg(&server.socket),
            _ => command.args(["-h", "127.0.0.1", "-p"]).arg(server.port.to_string()),
        };
        command.args(["-t", "get", "--csv", "-c"]).arg(load.clients.to_string());
        command.arg("-n").arg(requests.to_string()).arg("-k").arg(u8::from(load.keep).to_string());
        let what =
            format!("redis-benchmark ({}, {} clients, {requests} requests)", setup.name(), load.clients);
        let earlier = server.cost()?;
        let process = kit.start(command, &what, cores.client)?;
        Ok(Benchmark { server, process, requests, earlier })
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// It fails or takes longer than the limit.
    pub fn finish(self, limit: Duration) -> Result<Run, Error> {
        let finished = self.process.finish(limit)?;
        let server = self.server.cost()? - self.earlier;
        let [rate, p50_ms, p99_ms] = parse(&finished.out)?;
        Ok(Run { requests: self.requests, rate, p50_ms, p99_ms, server, client: finished.cost })
    }
}

/// Rate, median and 99th percentile in a table of comma-separated values with a line of titles.
fn parse(csv: &str) -> Result<[f64; 3], Error> {
    let unknown = || Error::words(BENCHMARK.program, csv);
    let cells = |line: &str| -> Vec<String> {
        line.split(',').map(|cell| cell.trim().trim_matches('"').to_string()).collect()
    };
    let mut lines = csv.lines().skip_while(|line| !line.starts_with("\"test\""));
    let titles = cells(lines.next().ok_or_else(unknown)?);
    let values = cells(lines.next().ok_or_else(unknown)?);
    let value = |title: &str| -> Option<f64> {
        let column = titles.iter().position(|found| found == title)?;
        values.get(column)?.parse().ok().filter(|number: &f64| number.is_finite())
    };
    let wanted = ["rps", "p50_latency_ms", "p99_latency_ms"].map(value);
    match wanted {
        [Some(rate), Some(p50), Some(p99)] if rate > 0.0 => Ok([rate, p50, p99]),
        _ => Err(unknown()),
    }
}

#[cfg(test)]
mod tests;
