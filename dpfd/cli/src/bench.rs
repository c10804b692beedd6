//! `dp bench`: endpoints and channels between two processes on two cores, with the kernel's ways beside them.
//!
//! All ways are measured in turns within one run: on a shared or virtual machine the cores' distance and
//! speed move from second to second, so only numbers of the same turn can be compared.
//!
//! | file | holds |
//! |---|---|
//! | [`cores`] | which cores, and staying there |
//! | [`peer`] | the second process, and what it is told |
//! | [`link`] | ways of sending: sockets, pipes |
//! | [`queues`], [`futex`] | more of the kernel's |
//! | [`endpoints`] | endpoints by the library's calls, and plain reads and writes on them |
//! | [`channel`] | a TCP connection under the shim |
//! | [`nodes`] | the other node, for what goes over Ethernet |
//! | [`idle`] | what endpoints cost that nobody uses |
//! | [`crowd`] | one that is used beside many that are not |
//! | [`floor`] | the word no protocol can beat |
//! | [`lat`] | round trips |
//! | [`flood`] | messages, or bytes, one way |
//! | [`waiting`] | messages that are there already |
//! | [`report`] | the table and the JSON |

pub mod channel;
pub mod cores;
mod crowd;
pub mod endpoints;
mod flood;
mod floor;
mod futex;
mod idle;
pub mod lat;
pub mod link;
pub mod nodes;
pub mod peer;
mod queues;
mod report;
mod waiting;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use cores::Cores;
use dpfd::edge::segment::MIN_RING;
use link::Transport;
use nodes::Nodes;
use peer::Peer;

/// What goes wrong here is the machine's or a way's; where, is told in words.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Measure endpoints and a channel between two cores, with TCP, AF_UNIX and a pipe beside them.
#[derive(clap::Args)]
pub struct Args {
    /// lat: half a round trip; bw: bytes in a second; rate: messages in a second; waiting: what it takes to take a
    /// message that is there; idle: what endpoints cost that nobody uses; crowd: what their number costs one that is used.
    what: What,
    /// Cores of the two processes; the same twice: sleeping instead of spinning [default: the first two].
    #[arg(long, value_name = "A,B", value_parser = cores::cores)]
    cores: Option<Cores>,
    /// Length of a message, or several [default: 8; of bw: 65536,1048576].
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=MAX_SIZE))]
    size: Vec<u32>,
    /// Length of the ring between two endpoints, which is half of a pool, a power of two [default: room for two messages,
    /// 4 MiB at least].
    #[arg(long, value_name = "BYTES", value_parser = ring)]
    ring: Option<usize>,
    /// Ways of sending, measured side by side [default: those of each kind that are used most].
    #[arg(long, value_name = "WAY", value_delimiter = ',', value_parser = transport)]
    ways: Vec<Transport>,
    /// How long each way of sending is measured, for each length.
    #[arg(long, value_name = "N", default_value_t = 1.0, value_parser = seconds)]
    seconds: f64,
    /// Turns this time is cut into; results are medians over them.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Endpoints that nobody uses, for idle; for crowd all of them, or connections.
    #[arg(long, value_name = "N", default_value_t = 5000, value_parser = clap::value_parser!(u32).range(1..=30_000))]
    endpoints: u32,
    /// Network namespace of the other node, for ethernet: as `ip netns` lists it, or a file.
    #[arg(long, value_name = "NAME")]
    netns: Option<PathBuf>,
    /// Print JSON, as dp-bench(1) describes it.
    #[arg(long)]
    json: bool,
    /// The second process, started by the first; its standard input is the way to it.
    #[arg(long, hide = true)]
    peer: bool,
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    Lat,
    Bw,
    Rate,
    Waiting,
    Idle,
    Crowd,
}

/// An endpoint takes more; a benchmark of it would measure memory.
const MAX_SIZE: i64 = 16 << 20;
/// Room for two of the longest messages.
const LONGEST_RING: usize = 64 << 20;

fn transport(text: &str) -> std::result::Result<Transport, String> {
    Transport::ALL.into_iter().find(|transport| transport.name() == text).ok_or_else(|| {
        format!("not a way of sending; these are: {}", Transport::ALL.map(Transport::name).join(", "))
    })
}

fn ring(text: &str) -> std::result::Result<usize, String> {
    match text.parse::<usize>() {
        Ok(n) if n.is_power_of_two() && (MIN_RING..=LONGEST_RING).contains(&n) => Ok(n),
        _ => Err(format!("a power of two from {MIN_RING} to {LONGEST_RING}")),
    }
}

fn seconds(text: &str) -> std::result::Result<f64, String> {
    match text.parse() {
        Ok(n) if (0.01..=3600.0).contains(&n) => Ok(n),
        _ => Err("a number from 0.01 to 3600".into()),
    }
}

pub fn main(args: Args) -> ExitCode {
    if args.peer {
        return peer::serve();
    }
    let cores = crate::asked(args.cores.map_or_else(Cores::first, Ok));
    let transports = if args.ways.is_empty() { Transport::usual() } else { args.ways.clone() };
    let sends = !matches!(args.what, What::Idle | What::Crowd);
    crate::asked(if sends { channel::with_shim(&transports) } else { Ok(()) });
    let nodes = crate::asked(Nodes::of(args.netns.as_ref(), if sends { &transports } else { &[] }));
    crate::asked(if sends { Ok(()) } else { without_lengths(&args) });
    let _folder = endpoints::Folder::new();
    let text = match args.what {
        What::Idle => idle::run(&args, cores),
        What::Crowd => crowd::run(&args, cores),
        _ => run(&args, cores, &transports, nodes.as_ref()),
    };
    match text {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("dp bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Endpoints that nobody uses, and the one beside them, have lengths of their own.
fn without_lengths(args: &Args) -> std::result::Result<(), String> {
    match (&args.size[..], args.ring) {
        ([], None) => Ok(()),
        (_, Some(_)) => Err("--ring is for lat, bw, rate and waiting".into()),
        (_, None) => Err("--size is for lat, bw, rate and waiting".into()),
    }
}

fn run(args: &Args, cores: Cores, wanted: &[Transport], nodes: Option<&Nodes>) -> Result<String> {
    let sizes: Vec<usize> = match (&args.size[..], args.what) {
        ([], What::Bw) => vec![65_536, 1_048_576],
        ([], _) => vec![8],
        (given, _) => given.iter().map(|&n| n as usize).collect(),
    };
    let turn = Duration::from_secs_f64(args.seconds / f64::from(args.rounds));
    let origin = crate::origin::here();
    let mut peer = Peer::start(cores)?;
    cores::stay(cores.a)?;
    let mut results = Vec::new();
    for size in sizes {
        let ring = args.ring.unwrap_or_else(|| link::ring_for(size));
        let transports = wanted.iter().filter(|transport| transport.fits(args.what, cores, size, ring));
        let mut series = transports
            .map(|&transport| peer.open(transport, size, ring, nodes))
            .collect::<Result<Vec<_>>>()?;
        for round in 0..args.rounds {
            progress(&format!("{size} bytes, turn {} of {}", round + 1, args.rounds));
            for one in &mut series {
                one.turn(&mut peer, args.what, turn)?;
            }
        }
        peer.close_all()?;
        results.push(report::Size::new(size, series));
    }
    progress("");
    if results.iter().all(report::Size::is_empty) {
        let transports: Vec<_> = wanted.iter().map(|transport| transport.name()).collect();
        return Err(format!(
            "{}: not for this, for messages of this length, or on these cores",
            transports.join(", ")
        )
        .into());
    }
    let report = report::Report::new(args, origin, cores, results);
    Ok(if args.json { report.json() } else { report.text() })
}

/// One line that replaces the one before it, for people only.
pub fn progress(line: &str) {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K{line}");
    }
}
