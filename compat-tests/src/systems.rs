//! Everything that carries messages between two processes of one machine, measured in turns: `systems_bench`.
//!
//! A [`System`] is measured by starting two processes anew, each on its core, for a fraction of a second: [`turn`].
//! A round gives every system its turn, at every size, and every other round goes the other way round; so all meet the
//! same states of the machine, and a ratio is the median of the ratios of turns that did. Systems of others are measured with
//! the program that comes with them, or, where they bring none, by one of ours that does what `dp bench` does.
//!
//! | file | holds |
//! |---|---|
//! | [`ours`] | DP and the kernel's own ways: `dp bench` |
//! | [`ucx`] | UCX: `ucx_perftest` |
//! | [`mpi`] | Open MPI and MPICH: `systems/mpi.c` |
//! | [`libfabric`] | libfabric's shm provider: `fi_pingpong` |
//! | [`iceoryx`] | iceoryx2: a program of its own in `compat-tests/iceoryx2` |
//! | [`copying`] | memcpy, the other floor |
//! | [`survey`] | who has its turn when, and what came of it |
//! | [`numbers`] | what the number of endpoints and connections costs |
//! | [`kernel`] | the kernel driver in its guest |
//! | [`states`] | how far apart the cores were in each turn |
//! | [`goals`] | what was promised, and whether it is so |
//! | [`page`], [`plot`] | the report |
//! | [`machine`] | where it was measured, and who else was there |
//!
//! What another program prints is read strictly: words that are not the known ones are an error that names the program,
//! never a number.

pub mod copying;
pub mod goals;
pub mod iceoryx;
pub mod kernel;
pub mod libfabric;
pub mod machine;
pub mod mpi;
pub mod numbers;
pub mod ours;
pub mod page;
pub mod plot;
pub mod states;
pub mod survey;
pub mod ucx;

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use crate::measure::kit::{require, Kit, Tool};
use crate::measure::turns::Pace;
use crate::measure::Error;

/// What is measured of a system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// Half a round trip.
    Latency,
    /// Messages one way, as many as go.
    Flood,
    /// Taking a message that is there already.
    Waiting,
}

impl What {
    /// In words.
    pub fn word(self) -> &'static str {
        match self {
            What::Latency => "latency",
            What::Flood => "flood",
            What::Waiting => "waiting",
        }
    }
}

/// One turn's task.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// What to measure.
    pub what: What,
    /// Bytes of a message.
    pub size: usize,
    /// About how long, without starting and ending.
    pub time: Duration,
}

/// What came of a turn. What a system's program does not tell is None.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Median one way, or to take one; ns.
    pub p50_ns: Option<f64>,
    /// What 99 of 100 do not exceed.
    pub p99_ns: Option<f64>,
    /// What 999 of 1000 do not exceed.
    pub p999_ns: Option<f64>,
    /// Median of taking a message out of the blue: the receiver had not waited for those before; ns.
    pub unawaited_ns: Option<f64>,
    /// The mean, of programs that know no median.
    pub mean_ns: Option<f64>,
    /// Messages one way in a second.
    pub messages_per_s: Option<f64>,
    /// CPU seconds of both processes for each GiB.
    pub cpu_s_per_gib: Option<f64>,
}

impl Sample {
    /// Of a flood of so many messages.
    ///
    /// None of what is no flood at all.
    pub fn flood(size: usize, messages: u64, seconds: f64, cpu_s: f64) -> Option<Sample> {
        let gib = messages as f64 * size as f64 / f64::from(1 << 30);
        let told = |value: f64| Some(value).filter(|value| value.is_finite());
        let messages_per_s = Some(told(messages as f64 / seconds).filter(|rate| *rate > 0.0)?);
        Some(Sample { messages_per_s, cpu_s_per_gib: told(cpu_s / gib), ..Sample::default() })
    }
}

/// How a system is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A way of `dp bench`.
    Ours(&'static str),
    /// A protocol of `ucx_perftest`.
    Ucx(ucx::Protocol),
    /// An MPI.
    Mpi(mpi::Library),
    /// `fi_pingpong`.
    Libfabric,
    /// iceoryx2.
    Iceoryx(iceoryx::Touch),
    /// memcpy on one core.
    Copying,
}

/// Whose it is; how it is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// What no system can beat.
    Floor,
    /// This project's.
    Dp,
    /// The kernel's.
    Kernel,
    /// Other libraries.
    Library,
}

/// One system that carries messages, or a floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct System {
    /// What `--only` takes and JSON says.
    pub key: &'static str,
    /// As tables call it.
    pub name: &'static str,
    /// Whose it is.
    pub family: Family,
    /// How it is measured.
    pub kind: Kind,
}

const fn system(key: &'static str, name: &'static str, family: Family, kind: Kind) -> System {
    System { key, name, family, kind }
}

/// All of them, as tables list them.
pub const SYSTEMS: [System; 25] = [
    system("floor", "cache line there and back", Family::Floor, Kind::Ours("floor")),
    system("memcpy", "memcpy on one core", Family::Floor, Kind::Copying),
    system("dp", "DP dp_write/dp_recvfrom, copied", Family::Dp, Kind::Ours("endpoint")),
    system("dp-in-place", "DP dp_write/dp_read, read in place", Family::Dp, Kind::Ours("endpoint-in-place")),
    system(
        "dp-default",
        "DP dp_write/dp_recvfrom, pool of no size",
        Family::Dp,
        Kind::Ours("endpoint-default"),
    ),
    system("dp-asleep", "DP dp_write/dp_recvfrom, asleep", Family::Dp, Kind::Ours("endpoint-asleep")),
    system("dp-plain", "DP plain write/read", Family::Dp, Kind::Ours("plain")),
    system("dp-channel", "DP channel of a TCP connection", Family::Dp, Kind::Ours("channel")),
    system("ucx-tag", "UCX tag", Family::Library, Kind::Ucx(ucx::Protocol::Tag)),
    system("ucx-am", "UCX active messages", Family::Library, Kind::Ucx(ucx::Protocol::ActiveMessages)),
    system("openmpi", "Open MPI", Family::Library, Kind::Mpi(mpi::Library::OpenMpi)),
    system("mpich", "MPICH", Family::Library, Kind::Mpi(mpi::Library::Mpich)),
    system("libfabric", "libfabric shm (mean)", Family::Library, Kind::Libfabric),
    system("iceoryx2", "iceoryx2, copied", Family::Library, Kind::Iceoryx(iceoryx::Touch::Copied)),
    system(
        "iceoryx2-in-place",
        "iceoryx2, read in place",
        Family::Library,
        Kind::Iceoryx(iceoryx::Touch::InPlace),
    ),
    system(
        "iceoryx2-untouched",
        "iceoryx2, bytes not touched",
        Family::Library,
        Kind::Iceoryx(iceoryx::Touch::Untouched),
    ),
    system("tcp", "TCP", Family::Kernel, Kind::Ours("tcp")),
    system("tcp-spin", "TCP, spinning", Family::Kernel, Kind::Ours("tcp-spin")),
    system("unix-stream", "AF_UNIX stream", Family::Kernel, Kind::Ours("unix-stream")),
    system("unix-seqpacket", "AF_UNIX seqpacket", Family::Kernel, Kind::Ours("unix-seqpacket")),
    system("unix-dgram", "AF_UNIX datagrams", Family::Kernel, Kind::Ours("unix-dgram")),
    system("pipe", "pipe", Family::Kernel, Kind::Ours("pipe")),
    system("mqueue", "POSIX message queue", Family::Kernel, Kind::Ours("mqueue")),
    system("eventfd", "eventfd (wake only)", Family::Kernel, Kind::Ours("eventfd")),
    system("futex", "futex (wake only)", Family::Kernel, Kind::Ours("futex")),
];

impl System {
    /// That of this name.
    pub fn named(key: &str) -> Option<System> {
        SYSTEMS.into_iter().find(|system| system.key == key)
    }

    /// Whether it has this at all: what it has not is no gap in a table.
    pub fn has(&self, what: What, size: usize) -> bool {
        let spins = self.key != "dp-asleep";
        match (self.kind, what) {
            (Kind::Copying, what) => what == What::Flood,
            // Its program sends messages to and fro, and cannot do otherwise.
            (Kind::Libfabric, what) => what == What::Latency,
            (Kind::Ours("floor" | "eventfd" | "futex"), what) => what == What::Latency && size == 8,
            // The kernel's limits of datagrams and queues.
            (Kind::Ours("unix-seqpacket" | "unix-dgram" | "plain"), _) if size > 128 << 10 => false,
            (Kind::Ours("mqueue"), _) if size > 8192 => false,
            (Kind::Ours(_), What::Waiting) => spins,
            (_, What::Waiting) => false,
            (_, What::Latency | What::Flood) => true,
        }
    }

    /// The programs of others that it needs.
    fn tools(&self) -> Vec<Tool> {
        match self.kind {
            Kind::Ours(_) | Kind::Copying | Kind::Iceoryx(_) => Vec::new(),
            Kind::Ucx(_) => vec![ucx::PERFTEST],
            Kind::Mpi(library) => library.tools().to_vec(),
            Kind::Libfabric => vec![libfabric::PINGPONG],
        }
    }

    /// Whether it can be measured here.
    ///
    /// # Errors
    /// What is missing, and how to get it.
    pub fn installed(&self) -> Result<(), Error> {
        match self.kind {
            Kind::Iceoryx(_) => iceoryx::program().map(drop),
            _ => require(&self.tools()),
        }
    }
}

/// What turns stand on.
pub struct Bench {
    /// Cores, scratch folder, `dp`.
    pub kit: Kit,
    /// Programs that were built for this run.
    built: HashMap<mpi::Library, PathBuf>,
    /// How fast programs go that want to be told a number of messages.
    paces: HashMap<(&'static str, What, usize), Pace>,
}

impl Bench {
    /// With nothing measured yet.
    pub fn new(kit: Kit) -> Bench {
        Bench { kit, built: HashMap::new(), paces: HashMap::new() }
    }

    /// Messages that take about this time, by what was seen before; None before anything was.
    fn pace(&self, system: &System, job: &Job) -> Option<u64> {
        self.paces.get(&(system.key, job.what, job.size)).map(|pace| pace.requests(job.time))
    }

    fn learn(&mut self, system: &System, job: &Job, rate: f64, least: u64) {
        let pace = self.paces.entry((system.key, job.what, job.size));
        pace.or_insert(Pace::starting_with(least)).learn(rate);
    }
}

/// Measures one system once.
///
/// # Errors
/// Its program fails, hangs, or says something unknown; an interrupt.
pub fn turn(bench: &mut Bench, system: &System, job: &Job) -> Result<Sample, Error> {
    match system.kind {
        Kind::Ours(way) => ours::turn(&bench.kit, way, job),
        Kind::Iceoryx(touch) => iceoryx::turn(&bench.kit, touch, job),
        Kind::Copying => copying::turn(bench.kit.cores.client, job),
        Kind::Mpi(library) => mpi::turn(bench, library, job),
        Kind::Ucx(protocol) => {
            paced(bench, system, job, ucx::LEAST, |kit, job, n| ucx::turn(kit, protocol, job, n))
        }
        Kind::Libfabric => paced(bench, system, job, libfabric::LEAST, libfabric::turn),
    }
}

/// For programs that are told a number of messages: the first time they get few, to see how fast it goes.
fn paced(
    bench: &mut Bench,
    system: &System,
    job: &Job,
    least: u64,
    turn: impl Fn(&Kit, &Job, u64) -> Result<(Sample, f64), Error>,
) -> Result<Sample, Error> {
    if bench.pace(system, job).is_none() {
        let (_, rate) = turn(&bench.kit, job, few(job.size, least))?;
        bench.learn(system, job, rate, least);
    }
    let number = bench.pace(system, job).unwrap_or(least);
    let (sample, rate) = turn(&bench.kit, job, number)?;
    bench.learn(system, job, rate, least);
    Ok(sample)
}

/// Messages to begin with: 20 000, or 16 MiB of them.
fn few(size: usize, least: u64) -> u64 {
    ((16 << 20) / size as u64).clamp(least, 20_000.max(least))
}

#[cfg(test)]
mod tests;
