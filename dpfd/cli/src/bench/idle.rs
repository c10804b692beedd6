//! What endpoints cost that nobody uses: memory, the speed of one that is used, processor time.

use std::fs;
use std::time::Duration;

use dp_measure::origin::Origin;
use dp_measure::printed::{tenth, Printed};
use dp_measure::stats::median;
use serde::Serialize;

use super::report::{half, with_half, VERSION};
use super::series::Series;
use super::{Args, What};
use crate::pair::cores::{self, Cores};
use crate::pair::endpoints;
use crate::pair::peer::Peer;
use crate::pair::transport::{ring_for, Transport};
use crate::pair::{progress, Result};

/// Bytes of a message of the endpoint that is used.
const SIZE: usize = 8;
/// Until a process that has answered waits again.
const SETTLE: Duration = Duration::from_millis(100);

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
    /// Resident memory for each, opened and never used.
    bytes_per_endpoint: u64,
    /// For each that has a pool, without a sender.
    bytes_per_pool_endpoint: u64,
    /// One way between two endpoints, alone, and beside the idle ones in both processes.
    p50_alone_ns: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    p50_alone_half_ns: Option<f64>,
    p50_beside_ns: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    p50_beside_half_ns: Option<f64>,
    /// Median over the rounds.
    slower_percent: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    slower_half_percent: Option<f64>,
    /// A process that has them and waits: processor time and context switches in `seconds`.
    idle_cpu_us: f64,
    idle_context_switches: u64,
}

pub fn run(args: &Args, cores: Cores) -> Result<String> {
    let origin = crate::origin::here();
    let count = args.endpoints() as usize;
    let seconds = Duration::from_secs_f64(args.seconds());
    // The process that measures is the parent of all others: its own core, and the folder, come first.
    let peer = Peer::start(cores.b)?;
    cores::stay(cores.a)?;
    progress(&format!("memory of {count} endpoints"));
    let bytes_per_endpoint = memory(&peer, count, false)?;
    progress("a process that does nothing");
    std::thread::sleep(SETTLE);
    let pid = peer.pid().ok_or("a process of another node")?;
    let before = Used::of(pid)?;
    std::thread::sleep(seconds);
    let used = Used::of(pid)?;
    peer.idle(0, false)?;
    drop(peer);
    // A fresh process: memory that was given back may stay with the other one.
    progress(&format!("memory of {count} endpoints with pools"));
    let mut peer = Peer::start(cores.b)?;
    let bytes_per_pool_endpoint = memory(&peer, count, true)?;
    peer.idle(0, false)?;
    let mut series = Series::open(&mut peer, Transport::Endpoint, SIZE, ring_for(SIZE), None)?;
    let mut mine = Vec::new();
    let turn = seconds / args.rounds();
    for round in 0..args.rounds() {
        progress(&format!("one endpoint beside {count}, turn {} of {}", round + 1, args.rounds()));
        for count in [0, count] {
            endpoints::idle(&mut mine, count, false)?;
            peer.idle(count, false)?;
            series.turn(&peer, What::Lat, turn)?;
        }
    }
    let p50 = series.p50();
    let each = |i: usize| p50.chunks(2).map(|both| both[i]).collect::<Vec<_>>();
    let slower: Vec<f64> = p50.chunks(2).map(|both| (both[1] / both[0] - 1.0) * 100.0).collect();
    let report = Report {
        version: VERSION,
        origin,
        what: args.what,
        cores: [cores.a, cores.b],
        endpoints: args.endpoints(),
        seconds: args.seconds(),
        rounds: args.rounds(),
        bytes_per_endpoint,
        bytes_per_pool_endpoint,
        p50_alone_ns: tenth(median(&each(0))),
        p50_alone_half_ns: half(&each(0), 10.0),
        p50_beside_ns: tenth(median(&each(1))),
        p50_beside_half_ns: half(&each(1), 10.0),
        slower_percent: tenth(median(&slower)),
        slower_half_percent: half(&slower, 10.0),
        idle_cpu_us: tenth((used.cpu_ns - before.cpu_ns) as f64 / 1e3),
        idle_context_switches: used.switches - before.switches,
    };
    Ok(args.common.printed(&report))
}

/// Bytes for each of `count`, in a process that has had none but the first.
fn memory(peer: &Peer, count: usize, pooled: bool) -> Result<u64> {
    let before = peer.idle(1, pooled)?;
    let after = peer.idle(count + 1, pooled)?;
    Ok(after.saturating_sub(before) / count as u64)
}

/// What a process has used so far, all its threads.
struct Used {
    cpu_ns: u64,
    switches: u64,
}

impl Used {
    fn of(pid: u32) -> Result<Used> {
        let mut used = Used { cpu_ns: 0, switches: 0 };
        for task in fs::read_dir(format!("/proc/{pid}/task"))? {
            let task = task?.path();
            let stat = fs::read_to_string(task.join("schedstat"))?;
            used.cpu_ns += stat.split_whitespace().next().ok_or("schedstat: empty")?.parse::<u64>()?;
            let status = fs::read_to_string(task.join("status"))?;
            let counts = status.lines().filter(|l| l.contains("ctxt_switches:"));
            used.switches +=
                counts.filter_map(|l| l.split(':').nth(1)?.trim().parse::<u64>().ok()).sum::<u64>();
        }
        Ok(used)
    }
}

impl Printed for Report {
    fn text(&self) -> String {
        let [a, b] = self.cores;
        format!(
            "{} endpoints that nobody uses, cores {a} and {b}, {} s\n\n\
             resident memory of each       {:>10} bytes\n\
             the same with a pool          {:>10} bytes\n\
             one way between two, alone    {:>10} ns\n\
             the same beside the idle ones {:>10} ns  ({:+.1} \u{b1} {} %)\n\
             processor time, all idle      {:>10.0} us\n\
             context switches, all idle    {:>10}\n\n\
             \u{b1}: half of what lies between the quartiles of the turns\n{}\n",
            self.endpoints,
            self.seconds,
            self.bytes_per_endpoint,
            self.bytes_per_pool_endpoint,
            with_half(self.p50_alone_ns, self.p50_alone_half_ns),
            with_half(self.p50_beside_ns, self.p50_beside_half_ns),
            self.slower_percent,
            self.slower_half_percent.map_or("?".to_string(), |half| format!("{half:.1}")),
            self.idle_cpu_us,
            self.idle_context_switches,
            self.origin.line(),
        )
    }
}
