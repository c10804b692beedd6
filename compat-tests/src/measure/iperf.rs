//! iperf3 with one stream.

use std::time::Duration;

use serde_json::Value;

use super::cores::Cores;
use super::counters::Family;
use super::kit::{Kit, Setup, Tool};
use super::process::Process;
use super::scratch::{await_answer, free_port, listens};
use super::turns::Sample;
use super::Error;

/// The measured program, both ends.
pub const IPERF: Tool = Tool { program: "iperf3", package: "iperf3" };

const READY: Duration = Duration::from_secs(10);
/// Time for the start and the exchange of results.
const PATIENCE: Duration = Duration::from_secs(30);
const PORT_TRIES: usize = 3;

/// A running server, which counts what it received.
pub struct Server {
    process: Process,
    port: u16,
    setup: Setup,
    received: u64,
}

impl Server {
    /// Starts a server in this setup and waits until it listens.
    ///
    /// # Errors
    /// It does not get ready; no port is free.
    pub fn start(kit: &Kit, setup: Setup, cores: Cores) -> Result<Server, Error> {
        let what = format!("the iperf3 server ({})", setup.name());
        let mut port = 0;
        for _ in 0..PORT_TRIES {
            port = free_port()?;
            let mut command = kit.command(setup, IPERF);
            command.args(["-s", "-B", "127.0.0.1", "-p"]).arg(port.to_string());
            let mut process = kit.start(command, &what, cores.server)?;
            let ready = await_answer(READY, || {
                process.still_runs()?;
                Ok(listens(port).then_some(()))
            });
            match ready {
                Ok(Some(())) => return Ok(Server { process, port, setup, received: 0 }),
                Ok(None) => {
                    let hint = "see what else uses this machine (`top`)";
                    return Err(Error::Slow { what, limit: READY, hint });
                }
                Err(_) if process.last_words().contains("Address already in use") => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::Port { what, port })
    }

    /// One stream from a client to the server, for so many seconds. The value is bits in a second, as received.
    ///
    /// # Errors
    /// iperf3 fails, takes far too long or says something unknown.
    pub fn run(&mut self, kit: &Kit, cores: Cores, seconds: u32) -> Result<Sample, Error> {
        let mut command = kit.command(self.setup, IPERF);
        command.args(["-c", "127.0.0.1", "-P", "1", "-J", "-p"]).arg(self.port.to_string());
        command.arg("-t").arg(seconds.to_string());
        let earlier = self.process.cost()?;
        let client =
            kit.start(command, &format!("the iperf3 client ({})", self.setup.name()), cores.client)?;
        let finished = client.finish(Duration::from_secs(seconds.into()) + PATIENCE)?;
        let (bits_per_second, bytes) = parse(&finished.out)?;
        self.received += bytes;
        let server = self.process.cost()? - earlier;
        Ok(Sample { value: bits_per_second, server, client: finished.cost })
    }

    /// The part of the received bytes that came through DP, 0 to 1; None without the shim.
    ///
    /// # Errors
    /// `dp ls` fails.
    pub fn part(&self, kit: &Kit) -> Result<Option<(f64, Family)>, Error> {
        let family = Family::of(kit, self.process.pid())?;
        // Of the settings and results that are exchanged on a connection of their own nobody tells the length.
        Ok(family.map(|f| ((f.rx_bytes as f64 / (self.received as f64).max(1.0)).min(1.0), f)))
    }
}

/// Bits in a second and bytes in all, at the receiver.
fn parse(json: &str) -> Result<(f64, u64), Error> {
    let unknown = || Error::words(IPERF.program, json);
    let report: Value = serde_json::from_str(json).map_err(|_| unknown())?;
    let received = &report["end"]["sum_received"];
    let bits = received["bits_per_second"].as_f64().filter(|bits| *bits > 0.0);
    match (bits, received["bytes"].as_u64()) {
        (Some(bits), Some(bytes)) => Ok((bits, bytes)),
        _ => Err(unknown()),
    }
}

#[cfg(test)]
mod tests;
