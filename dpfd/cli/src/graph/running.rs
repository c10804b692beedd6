//! What runs on this node: endpoints and edges of the registry and of the kernel driver, and channels under unmodified
//! programs, as `dp ls` lists them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use clap::ValueEnum;
use dp_graph::live::{Heard, OtherNode, Running, RunningChannels, RunningProcess};
use dp_node::status::{Gateway, Other};
use dpfd::addr::OWN_NID;
use dpfd::driver::kernel::network::Network;
use dpfd::driver::user::account::State;
use dpfd::driver::Driver;
use dpfd::{Addr, Dpid, Nid};

use crate::ls::endpoints::{Edge, Endpoint, Graph};
use crate::ls::families::{Connection, Family};
use crate::ls::flows;
use crate::ls::table::Bytes;
use crate::ls::Listing;

/// What is wanted of it.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub enum Only {
    /// Endpoints and edges.
    Endpoints,
    /// Channels under unmodified programs.
    Channels,
}

/// What there is at the moment.
pub fn look(only: Option<Only>) -> Result<Running, String> {
    let (mut listing, missing) = Listing::look()?;
    if let Some(why) = missing {
        return Err(why);
    }
    match only {
        Some(Only::Endpoints) => listing.families.clear(),
        Some(Only::Channels) => listing.graph = Graph::default(),
        None => {}
    }
    let graph = &listing.graph;
    graph.explain_gaps("graph");
    // The kernel's word, where it serves; the library goes by the environment.
    let by_kernel = graph.endpoints.iter().any(|e| e.driver == Driver::Kernel.word());
    let kernel = by_kernel.then(Network::read).and_then(Result::ok).map(|network| network.nid);
    let gateway = if only == Some(Only::Channels) { None } else { flows::look("graph") };
    let told = OWN_NID.told().map(|nid| nid as Nid).or(gateway.as_ref().map(|gateway| gateway.nid));
    let told = told.unwrap_or(OWN_NID.default as Nid);
    let mut running = of(&graph.endpoints, &graph.edges, kernel.unwrap_or(told));
    let nid = running.nid;
    // By another number this node would be one of the others.
    match &gateway {
        Some(gateway) if gateway.nid == nid => add_others(&mut running, gateway),
        Some(gateway) => eprintln!(
            "dp graph: the gateway here is that of node {}, and this is node {nid}: what it tells of others is left out",
            gateway.nid
        ),
        None => {}
    }
    add_channels(&mut running, &listing.families, network);
    Ok(running)
}

/// The network namespace of a process: addresses are one place's only within it.
fn network(pid: u32) -> u64 {
    fs::metadata(format!("/proc/{pid}/ns/net")).map_or(0, |data| data.ino())
}

fn of(endpoints: &[Endpoint], edges: &[Edge], nid: Nid) -> Running {
    let mut processes: BTreeMap<i32, RunningProcess> = BTreeMap::new();
    for endpoint in endpoints {
        let process = processes.entry(endpoint.pid).or_default();
        let program = endpoint.program.as_deref().unwrap_or("process");
        process.pid = endpoint.pid;
        process.title = format!("{program} {}", endpoint.pid);
        process.endpoints.insert(endpoint.dpid);
    }
    let named = |addr: Addr| Addr { nid: if addr.nid == 0 { nid } else { addr.nid }, ..addr };
    let addr = |text: &str| text.parse::<Addr>().ok().map(named);
    let own = |dpid: Dpid| Addr { nid, dpid };
    // With another target an endpoint has another edge, as it has with the kernel driver.
    let used = edges.iter().filter(|edge| edge.state != State::Former.word());
    let known = used.filter_map(|edge| addr(&edge.from).zip(addr(&edge.to)));
    // The kernel driver lists no edges, but each endpoint's target.
    let targets = endpoints.iter().filter(|e| e.driver == Driver::Kernel.word());
    let targets = targets.filter_map(|e| Some((own(e.dpid), addr(e.target.as_deref()?)?)));
    let edges: BTreeSet<_> = known.chain(targets).collect();
    Running { nid, processes: processes.into_values().collect(), edges, ..Running::default() }
}

/// Adds the other nodes. Of what goes to them, senders here know better than the gateway, whose flow stays for a while when
/// they go elsewhere; of what comes from them, it tells where a receiver without a pool does not. A receiver that is gone has
/// no edges, though its flows are not forgotten yet.
fn add_others(running: &mut Running, gateway: &Gateway) {
    let nid = running.nid;
    let open: BTreeSet<Dpid> = running.processes.iter().flat_map(|p| p.endpoints.iter().copied()).collect();
    for node in &gateway.nodes {
        let is_up = node.by.is_some();
        let mut other = OtherNode {
            nid: node.nid,
            name: node.name.clone(),
            is_up,
            heard: heard(node),
            endpoints: BTreeSet::new(),
        };
        for flow in &node.flows {
            let ends = (flow.here.parse::<Addr>().ok(), flow.there.parse::<Addr>().ok());
            let (Some(here), Some(there)) = ends else { continue };
            let raw = flow.raw.as_ref();
            let came = flow.messages_in + raw.map_or(0, |raw| raw.messages_in);
            let went = flow.messages_out + raw.map_or(0, |raw| raw.messages_out);
            if is_up && open.contains(&here.dpid) && came + went > 0 {
                other.endpoints.insert(there.dpid);
            }
            if open.contains(&here.dpid) && came > 0 {
                running.edges.insert((there, Addr { nid, ..here }));
            }
        }
        running.others.push(other);
    }
}

/// A gateway that is older than its word of that has had no answer and no flow of a node that it never heard of.
fn heard(node: &Other) -> Heard {
    match node.heard_ns {
        Some(time) => Heard::Ago(Duration::from_nanos(time)),
        None if node.routes.iter().any(|way| way.round_trip_ns > 0) => Heard::Unsaid,
        None if node.flows.iter().any(|flow| flow.open) => Heard::Unsaid,
        None => Heard::Never,
    }
}

/// Adds the channels, and the processes between which they are. Of a channel whose other end may not be seen, that process
/// has number 0.
fn add_channels(running: &mut Running, families: &[Family], network: impl Fn(u32) -> u64) {
    let all = families.iter().flat_map(|family| &family.connections).filter(|c| c.state == "channel");
    let place = |c: &Connection| (network(c.pid), c.local, c.peer);
    let ends: HashMap<(u64, SocketAddr, SocketAddr), &Connection> = all.map(|c| (place(c), c)).collect();
    let mut pairs: BTreeMap<(i32, i32), RunningChannels> = BTreeMap::new();
    let mut named: BTreeMap<i32, String> = BTreeMap::new();
    for (&(space, local, peer), &end) in &ends {
        named.insert(end.pid as i32, format!("{} {}", end.program, end.pid));
        let other = ends.get(&(space, peer, local));
        let is_client = end.role == Some("client");
        // The client tells of both, unless it may not be seen.
        if !is_client && other.is_some() {
            continue;
        }
        let (own, others) = (end.pid as i32, other.map_or(0, |other| other.pid as i32));
        let (client, server) = if is_client { (own, others) } else { (others, own) };
        let (sent, received) = (end.tx_bytes, end.rx_bytes);
        let (by_client, by_server) = if is_client { (sent, received) } else { (received, sent) };
        let pair = pairs.entry((client, server)).or_default();
        (pair.client, pair.server) = (client, server);
        pair.ports.insert(if is_client { peer.port() } else { local.port() });
        pair.channels += 1;
        pair.client_bytes += by_client;
        pair.server_bytes += by_server;
    }
    for pair in pairs.values_mut() {
        let (n, s) = (pair.channels, if pair.channels == 1 { "" } else { "s" });
        let size = |bytes| {
            let text = Bytes::FOR_PEOPLE.of(bytes);
            // Of few the unit is not there.
            if text.ends_with('B') {
                text
            } else {
                text + "B"
            }
        };
        let (out, back) = (size(pair.client_bytes), size(pair.server_bytes));
        pair.label = format!("{n} channel{s}, {out} out, {back} in");
    }
    running.channels = pairs.into_values().collect();
    let known: BTreeSet<i32> = running.processes.iter().map(|process| process.pid).collect();
    let more = named.into_iter().filter(|(pid, _)| !known.contains(pid));
    running.processes.extend(more.map(|(pid, title)| RunningProcess {
        pid,
        title,
        endpoints: BTreeSet::new(),
    }));
    running.processes.sort_by_key(|process| process.pid);
}

#[cfg(test)]
mod tests;
