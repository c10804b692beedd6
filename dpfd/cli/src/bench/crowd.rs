//! Connections or endpoints that nobody uses, beside the one that is measured: what their number costs.
//! Endpoints for which the second process's descriptors do not suffice are in further processes.

use std::time::Duration;

use dp_measure::origin::Origin;
use dp_measure::printed::Printed;
use dp_measure::stats::median;
use serde::Serialize;

use super::report::{half, with_half, VERSION};
use super::series::Series;
use super::{Args, What};
use crate::pair::cores::{self, Cores};
use crate::pair::crowd::endpoints_here;
use crate::pair::peer::Peer;
use crate::pair::transport::{ring_for, Transport};
use crate::pair::{progress, Result};

/// Bytes of a message of the one that is used.
const SIZE: usize = 8;
/// Fewer do not show in the kernel's memory, which others use as well.
const SHOWS: usize = 1000;

/// What `--json` prints.
#[derive(Serialize)]
struct Report {
    version: u32,
    origin: Origin,
    what: What,
    cores: [usize; 2],
    endpoints: u32,
    seconds: f64,
    rounds: u32,
    results: Vec<Outcome>,
}

#[derive(Serialize)]
struct Outcome {
    #[serde(rename = "way")]
    transport: Transport,
    /// One way of the one that is used.
    p50_ns: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    p50_half_ns: Option<f64>,
    p99_ns: f64,
    /// By so much the second process grew for each of the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    resident_bytes_each: Option<f64>,
    /// And the kernel, for both ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel_bytes_each: Option<f64>,
    /// Processes that have one end of the others.
    processes: u32,
}

pub fn run(args: &Args, cores: Cores) -> Result<String> {
    const USUAL: [Transport; 4] =
        [Transport::Endpoint, Transport::Plain, Transport::UnixStream, Transport::Tcp];
    let transports = if args.ways.is_empty() { &USUAL[..] } else { &args.ways[..] };
    if let Some(transport) = transports.iter().find(|transport| !USUAL.contains(transport)) {
        let names = USUAL.map(Transport::name).join(", ");
        return Err(format!(
            "{}: its number cannot be measured; that of these can: {names}",
            transport.name()
        )
        .into());
    }
    let (origin, mut results) = (crate::origin::here(), Vec::new());
    for transport in transports {
        results.push(one(args, cores, *transport).map_err(|e| format!("{}: {e}", transport.name()))?);
    }
    let report = Report {
        version: VERSION,
        origin,
        what: args.what,
        cores: [cores.a, cores.b],
        endpoints: args.endpoints(),
        seconds: args.seconds(),
        rounds: args.rounds(),
        results,
    };
    Ok(args.common.printed(&report))
}

fn one(args: &Args, cores: Cores, transport: Transport) -> Result<Outcome> {
    let mut peer = Peer::start(cores.b)?;
    cores::stay(cores.a)?;
    let mut series = Series::open(&mut peer, transport, SIZE, ring_for(SIZE), None)?;
    let count = args.endpoints() as usize - 1;
    let here = if matches!(transport, Transport::Plain | Transport::Endpoint) {
        count.min(endpoints_here()?)
    } else {
        count
    };
    progress(&format!("{}, {} of them", transport.name(), args.endpoints()));
    let before = kernel_memory()?;
    let (ours, grown) = series.crowd(&peer, here)?;
    let after = kernel_memory()?;
    let mut further = Vec::new();
    let mut rest = count - here;
    while rest > 0 {
        let other = Peer::start(cores.b)?;
        let some = rest.min(endpoints_here()?);
        other.idle(some, false)?;
        further.push(other);
        rest -= some;
    }
    for round in 0..args.rounds() {
        progress(&format!("{}, {}, turn {}", transport.name(), args.endpoints(), round + 1));
        series.turn(&peer, What::Lat, Duration::from_secs_f64(args.seconds() / f64::from(args.rounds())))?;
    }
    drop(ours);
    let p50 = series.p50();
    let each = |bytes: u64| (here >= SHOWS).then(|| (bytes as f64 / here as f64).round());
    Ok(Outcome {
        transport,
        p50_ns: median(&p50),
        p50_half_ns: half(&p50, 10.0),
        p99_ns: series.percentile(990),
        resident_bytes_each: each(grown),
        kernel_bytes_each: each(after.saturating_sub(before)),
        processes: 1 + further.len() as u32,
    })
}

/// Bytes of the kernel's small objects, among them sockets and files of the whole machine.
fn kernel_memory() -> Result<u64> {
    let info = std::fs::read_to_string("/proc/meminfo")?;
    let line = info.lines().find_map(|line| line.strip_prefix("Slab:")).ok_or("/proc/meminfo: no Slab")?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib * 1024)
}

impl Printed for Report {
    fn text(&self) -> String {
        let [a, b] = self.cores;
        let mut text = format!(
            "nanoseconds one way of one beside {} others, cores {a} and {b}; bytes for each of the others\n\n\
             {:<16}{:>22}{:>12}{:>12}{:>12}\n",
            self.endpoints - 1,
            "",
            "P50",
            "P99",
            "RESIDENT",
            "KERNEL"
        );
        let bytes = |bytes: Option<f64>| bytes.map_or("-".into(), |bytes| format!("{bytes:.0}"));
        for one in &self.results {
            text += &format!(
                "{:<16}{:>22}{:>12.0}{:>12}{:>12}\n",
                one.transport.name(),
                with_half(one.p50_ns, one.p50_half_ns),
                one.p99_ns,
                bytes(one.resident_bytes_each),
                bytes(one.kernel_bytes_each)
            );
        }
        let origin = self.origin.line();
        text + &format!("\n\u{b1}: half of what lies between the quartiles of the turns\n{origin}\n")
    }
}
