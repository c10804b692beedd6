//! `dp bench`: endpoints and channels between two processes on two cores, with the kernel's ways beside them.
//!
//! All ways are measured in turns within one run: on a shared or virtual machine the cores' distance and
//! speed move from second to second, so only numbers of the same turn can be compared. So are routes to another node, whose
//! other side is `dp bench serve` there.
//!
//! | file | holds |
//! |---|---|
//! | [`series`] | the turns of one way |
//! | [`lat`] | round trips |
//! | [`flood`] | messages, or bytes, one way |
//! | [`waiting`] | messages that are there already |
//! | [`idle`] | what endpoints cost that nobody uses |
//! | [`crowd`] | one that is used beside many that are not |
//! | [`report`] | the table and the JSON |

mod crowd;
mod flood;
mod idle;
mod lat;
mod report;
mod series;
mod waiting;

use std::process::ExitCode;
use std::time::Duration;

use dp_measure::origin::Place;
use dpfd::edge::segment::MIN_RING;
use dpfd::{Dpid, Nid};

use crate::pair::cores::{self, Cores};
use crate::pair::endpoints::Folder;
use crate::pair::nodes::{Nodes, OtherNode};
use crate::pair::options::Common;
use crate::pair::peer::Peer;
use crate::pair::routes::{Far, FarNode, SERVE};
use crate::pair::transport::{ring_for, Transport};
use crate::pair::{channel, finish, progress, serve, Result};
use series::Series;

/// Measure endpoints and a channel between two cores, with TCP, AF_UNIX and a pipe beside them.
#[derive(clap::Args)]
pub struct Args {
    /// lat: half a round trip; bw: bytes in a second; rate: messages in a second; waiting: what it takes to take a
    /// message that is there; idle: what endpoints cost that nobody uses; crowd: what their number costs one that is used;
    /// serve: measure nothing, but be the other side of what is measured from another node with --node.
    what: What,
    #[command(flatten)]
    common: Common,
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
    /// How long each way of sending is measured, for each length [default: 1].
    #[arg(long, value_name = "N", value_parser = seconds)]
    seconds: Option<f64>,
    /// Turns this time is cut into; results are medians over them [default: 10].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// Endpoints that nobody uses, for idle; for crowd all of them, or connections [default: 5000].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=30_000))]
    endpoints: Option<u32>,
    #[command(flatten)]
    node: OtherNode,
    #[command(flatten)]
    far: FarNode,
    /// For serve: the number of the endpoint to serve at [default: 1990].
    #[arg(long, value_name = "DPID", value_parser = clap::value_parser!(u16).range(1..))]
    dpid: Option<Dpid>,
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
    Serve,
}

/// An endpoint takes more; a benchmark of it would measure memory.
const MAX_SIZE: i64 = 16 << 20;
/// Room for two of the longest messages.
const LONGEST_RING: usize = 64 << 20;

fn transport(text: &str) -> std::result::Result<Transport, String> {
    Transport::named(text, &Transport::ALL)
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
    crate::asked(fit_together(&args));
    if args.what == What::Serve {
        return serve::serve(args.dpid.unwrap_or(SERVE));
    }
    match args.far.look("bench") {
        Ok(Some(far)) => return finish("bench", far_away(&args, far)),
        Ok(None) => {}
        Err(status) => return status,
    }
    let cores = crate::asked(args.common.cores());
    let transports = if args.ways.is_empty() { usual() } else { args.ways.clone() };
    let sends = !matches!(args.what, What::Idle | What::Crowd);
    crate::asked(if sends { channel::with_shim(&transports) } else { without_lengths(&args) });
    let nodes = crate::asked(args.node.nodes(if sends { &transports } else { &[] }));
    let _folder = Folder::new();
    finish(
        "bench",
        match args.what {
            What::Idle => idle::run(&args, cores),
            What::Crowd => crowd::run(&args, cores),
            _ => here(&args, cores, transports, nodes),
        },
    )
}

impl Args {
    fn seconds(&self) -> f64 {
        self.seconds.unwrap_or(1.0)
    }

    fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(10)
    }

    fn endpoints(&self) -> u32 {
        self.endpoints.unwrap_or(5000)
    }

    /// Whether nothing but the number to serve at is said.
    fn is_bare(&self) -> bool {
        let Args { what: _, common, size, ring, ways, seconds, rounds, endpoints, node, far, dpid: _ } = self;
        let measured = ring.is_some() || seconds.is_some() || rounds.is_some() || endpoints.is_some();
        let placed = common.is_given() || node.is_named() || far.is_named();
        !measured && !placed && size.is_empty() && ways.is_empty()
    }
}

/// Checks that options go with what is measured: with another node not all can be, and `serve` takes but its number.
fn fit_together(args: &Args) -> std::result::Result<(), String> {
    let serves = args.what == What::Serve;
    if args.dpid.is_some() && !serves {
        return Err("--dpid is for serve; of a node that serves there, --node NID/DPID".into());
    }
    if serves && !args.is_bare() {
        return Err("what is measured, the other node says: serve takes --dpid alone".into());
    }
    if args.far.is_named() && !matches!(args.what, What::Lat | What::Bw | What::Rate) {
        return Err("--node is for lat, bw and rate: the others are of one machine".into());
    }
    Ok(())
}

/// The ways that are measured unless some are named, a channel among them where there is a shim.
fn usual() -> Vec<Transport> {
    channel::where_possible(&[
        Transport::Floor,
        Transport::Endpoint,
        Transport::Plain,
        Transport::Channel,
        Transport::UnixDgram,
        Transport::UnixSeqpacket,
        Transport::UnixStream,
        Transport::Tcp,
        Transport::Pipe,
    ])
}

/// Whether this can be measured of it, between these cores, with messages of this length and rings of that one.
fn fits(transport: Transport, what: What, cores: Cores, size: usize, ring: usize) -> bool {
    if what == What::Waiting && !transport.keeps(waiting::COUNT, size, ring) {
        return false;
    }
    match transport {
        Transport::Floor => what == What::Lat && !cores.shared(),
        Transport::Eventfd | Transport::Futex => what == What::Lat && size == 8,
        // More at a time than fits is lost there, and counted.
        Transport::Ethernet => matches!(what, What::Lat | What::Waiting) && transport.carries(size),
        _ => transport.carries(size),
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

/// Where the other process is, and the ways to it.
enum Ways {
    Here { cores: Cores, ways: Vec<Transport>, nodes: Option<Nodes> },
    Node { nid: Nid, routes: Vec<String> },
}

impl Ways {
    fn place(&self) -> Place {
        match self {
            Ways::Here { cores, .. } => Place::Cores([cores.a, cores.b]),
            Ways::Node { nid, .. } => Place::Node(*nid),
        }
    }

    /// All of them for messages of this length.
    fn open(&self, peer: &mut Peer, what: What, size: usize, ring: usize) -> Result<Vec<Series>> {
        match self {
            Ways::Here { cores, ways, nodes } => {
                let ways = ways.iter().filter(|way| fits(**way, what, *cores, size, ring));
                ways.map(|&way| Series::open(peer, way, size, ring, nodes.as_ref())).collect()
            }
            Ways::Node { routes, .. } => {
                routes.iter().map(|route| Series::by_route(peer, route, size, ring)).collect()
            }
        }
    }
}

fn here(args: &Args, cores: Cores, ways: Vec<Transport>, nodes: Option<Nodes>) -> Result<String> {
    let peer = Peer::start(cores.b)?;
    cores::stay(cores.a)?;
    run(args, peer, &Ways::Here { cores, ways, nodes })
}

/// To another node.
fn far_away(args: &Args, far: Far) -> Result<String> {
    let nid = far.nid();
    let (peer, routes) = far.connect("bench")?;
    run(args, peer, &Ways::Node { nid, routes })
}

fn run(args: &Args, mut peer: Peer, all: &Ways) -> Result<String> {
    let sizes: Vec<usize> = match (&args.size[..], args.what) {
        ([], What::Bw) => vec![65_536, 1_048_576],
        ([], _) => vec![8],
        (given, _) => given.iter().map(|&n| n as usize).collect(),
    };
    let turn = Duration::from_secs_f64(args.seconds() / f64::from(args.rounds()));
    let origin = crate::origin::here();
    let mut results = Vec::new();
    for size in sizes {
        let ring = args.ring.unwrap_or_else(|| ring_for(size));
        let mut series = all.open(&mut peer, args.what, size, ring)?;
        for round in 0..args.rounds() {
            progress(&format!("{size} bytes, turn {} of {}", round + 1, args.rounds()));
            for one in &mut series {
                one.turn(&peer, args.what, turn)?;
            }
        }
        peer.close()?;
        results.push(report::Size::new(size, series));
    }
    if let (true, Ways::Here { ways, .. }) = (results.iter().all(report::Size::is_empty), all) {
        let transports: Vec<_> = ways.iter().map(|transport| transport.name()).collect();
        return Err(format!(
            "{}: not for this, for messages of this length, or on these cores",
            transports.join(", ")
        )
        .into());
    }
    Ok(args.common.printed(&report::Report::new(args, origin, all.place(), results)))
}
