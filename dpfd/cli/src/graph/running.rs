//! What runs on this node: endpoints and edges of the registry and of the kernel driver, as `dp ls` lists them.

use std::collections::{BTreeMap, BTreeSet};

use dp_graph::live::{Running, RunningProcess};
use dpfd::addr::OWN_NID;
use dpfd::driver::kernel::network::Network;
use dpfd::driver::Driver;
use dpfd::{Addr, Dpid, Nid};

use crate::ls::endpoints::{Edge, Endpoint, Graph};

/// What there is at the moment.
pub fn look() -> Result<Running, String> {
    let graph = Graph::look().map_err(|error| error.to_string())?;
    graph.explain_gaps("graph");
    // The kernel's word, where it serves; the library goes by the environment.
    let by_kernel = graph.endpoints.iter().any(|e| e.driver == Driver::Kernel.word());
    let kernel = by_kernel.then(Network::read).and_then(Result::ok).map(|network| network.nid);
    let told = OWN_NID.told().unwrap_or(OWN_NID.default) as Nid;
    Ok(of(&graph.endpoints, &graph.edges, kernel.unwrap_or(told)))
}

fn of(endpoints: &[Endpoint], edges: &[Edge], nid: Nid) -> Running {
    let mut processes: BTreeMap<i32, RunningProcess> = BTreeMap::new();
    for endpoint in endpoints {
        let process = processes.entry(endpoint.pid).or_default();
        let program = endpoint.program.as_deref().unwrap_or("process");
        process.title = format!("{program} {}", endpoint.pid);
        process.endpoints.insert(endpoint.dpid);
    }
    let named = |addr: Addr| Addr { nid: if addr.nid == 0 { nid } else { addr.nid }, ..addr };
    let addr = |text: &str| text.parse::<Addr>().ok().map(named);
    let own = |dpid: Dpid| Addr { nid, dpid };
    let known = edges.iter().filter_map(|edge| addr(&edge.from).zip(addr(&edge.to)));
    // The kernel driver lists no edges, but each endpoint's target.
    let targets = endpoints.iter().filter(|e| e.driver == Driver::Kernel.word());
    let targets = targets.filter_map(|e| Some((own(e.dpid), addr(e.target.as_deref()?)?)));
    let edges: BTreeSet<_> = known.chain(targets).collect();
    Running { nid, processes: processes.into_values().collect(), edges }
}
