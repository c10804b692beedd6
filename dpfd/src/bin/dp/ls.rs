//! `dp ls`: endpoints and edges; channels, and connections that stayed on TCP with the reason.

mod endpoints;
mod table;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;

use dpfd::edge::slot::Side;
use dpfd::family::{Reason, Snapshot, Stage, View};
use dpfd::sys::tcp::Addr;
use serde::Serialize;

/// List endpoints and edges; channels, and the connections that stayed on TCP with the reason.
#[derive(clap::Args)]
pub struct Args {
    /// Print JSON, as dp-ls(1) describes it.
    #[arg(long)]
    json: bool,
}

/// What `--json` prints. Fields may be added; none changes its meaning while `version` stays.
#[derive(Serialize)]
struct Listing {
    version: u32,
    families: Vec<Family>,
    #[serde(flatten)]
    graph: endpoints::Graph,
}

/// A program and what it forked.
#[derive(Serialize)]
struct Family {
    processes: Vec<Process>,
    /// Since the family began, connections that are over included.
    channels: u64,
    tx_bytes: u64,
    rx_bytes: u64,
    doorbells: u64,
    hand_backs: u64,
    /// Waits that slept while a channel had something, until a second look: a fault of the shim's.
    lost_wakeups: u64,
    /// Connections that stayed on TCP or went back to it for good, by reason.
    on_tcp: BTreeMap<&'static str, u64>,
    connections: Vec<Connection>,
}

#[derive(Serialize)]
struct Process {
    program: String,
    pid: u32,
    uid: u32,
}

#[derive(Serialize)]
struct Connection {
    program: String,
    pid: u32,
    fd: u32,
    role: Option<&'static str>,
    local: SocketAddr,
    peer: SocketAddr,
    state: &'static str,
    /// Bytes through the rings; TCP's own are the kernel's to count.
    tx_bytes: u64,
    rx_bytes: u64,
    doorbells: u64,
    hand_backs: u64,
    /// Of a channel: bytes of the ring into which this end sends.
    tx_ring_bytes: Option<u64>,
    reason: Option<&'static str>,
}

pub fn main(args: Args) -> ExitCode {
    let views = match View::all() {
        Ok(views) => views,
        Err(error) => {
            eprintln!("dp ls: /proc: {error}; mount it, dp ls finds the programs there");
            return ExitCode::FAILURE;
        }
    };
    let (graph, sound) = match endpoints::Graph::look() {
        Ok(graph) => (graph, true),
        Err(error) => {
            eprintln!("dp ls: {error}; endpoints are not listed");
            (endpoints::Graph::default(), false)
        }
    };
    let listing = Listing { version: 1, families: views.iter().filter_map(Family::of).collect(), graph };
    let text = if args.json {
        serde_json::to_string_pretty(&listing).expect("a listing is plain data") + "\n"
    } else {
        table::text(&listing)
    };
    if !args.json {
        if listing.families.is_empty() && listing.graph.is_empty() && sound {
            eprintln!(
                "dp ls: no endpoint is open, and no program of yours runs with the shim (root sees those of all users)"
            );
        }
        listing.graph.explain_gaps();
        for family in listing.families.iter().filter(|family| family.lost_wakeups > 0) {
            let process = &family.processes[0];
            eprintln!(
                "dp ls: {} ({}) slept {} times over something that had come, and found it by a second look: a fault of the \
                 shim; run it without until that is mended",
                table::printable(&process.program),
                process.pid,
                family.lost_wakeups
            );
        }
    }
    match io::stdout().write_all(text.as_bytes()) {
        // Whoever reads has seen enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("dp ls: standard output: {error}; the list is not complete");
            ExitCode::FAILURE
        }
        _ if !sound => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    }
}

impl Family {
    /// None: all its processes ended while they were looked at.
    fn of(view: &View) -> Option<Family> {
        let members = view.members().into_iter();
        let processes: Vec<Process> =
            members.map(|m| Process { program: m.name(), pid: m.pid(), uid: m.uid() }).collect();
        let first = processes.first()?;
        let name = |pid| processes.iter().find(|p| p.pid == pid).unwrap_or(first).program.clone();
        let connections = view.connections().iter().map(|c| Connection::of(c, name(c.pid))).collect();
        let [channels, tx_bytes, rx_bytes, doorbells, hand_backs] = view.totals();
        let on_tcp = view.reasons().into_iter().map(|(reason, count)| (reason.word(), count)).collect();
        let lost_wakeups = view.lost();
        Some(Family {
            processes,
            channels,
            tx_bytes,
            rx_bytes,
            doorbells,
            hand_backs,
            lost_wakeups,
            on_tcp,
            connections,
        })
    }
}

impl Connection {
    fn of(seen: &Snapshot, program: String) -> Connection {
        Connection {
            program,
            pid: seen.pid,
            fd: seen.fd,
            role: seen.side.map(|side| match side {
                Side::Client => "client",
                Side::Server => "server",
            }),
            local: address(seen.local),
            peer: address(seen.peer),
            state: match seen.stage {
                Stage::Unused | Stage::Candidate => "new",
                Stage::Offered => "offered",
                Stage::Accepted => "accepted",
                Stage::Live => "channel",
                Stage::Plain => "tcp",
            },
            tx_bytes: seen.tx_bytes,
            rx_bytes: seen.rx_bytes,
            doorbells: seen.bells,
            hand_backs: seen.back,
            tx_ring_bytes: (seen.stage == Stage::Live).then_some(seen.tx_ring),
            reason: Some(seen.reason).filter(|reason| *reason != Reason::None).map(Reason::word),
        }
    }
}

fn address(addr: Addr) -> SocketAddr {
    match Ipv6Addr::from(addr.ip).to_canonical() {
        IpAddr::V4(ip) => SocketAddr::from((ip, addr.port)),
        IpAddr::V6(ip) => std::net::SocketAddrV6::new(ip, addr.port, 0, addr.scope).into(),
    }
}

#[cfg(test)]
mod tests;
