//! Who the other nodes are, and where: what a gateway takes from the graph.
//!
//! Two nodes reach each other by the routes that both have an address on, in the order in which the other node lists them;
//! where they have several on one, by the first of both, the second of both, and so on.

use std::collections::HashSet;
use std::net::IpAddr;

use dp_graph::speed::Speed;
use dp_graph::trust::{Security, Users};
use dp_graph::{Edge, Graph, Node};
use dp_route::xdp::Xdp;
use dp_route::PeerAddr;
use dpfd::{Addr, Dpid, Nid};
use thiserror::Error;

use crate::places::Ends;

/// Another node, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Other {
    /// Its number.
    pub nid: Nid,
    /// What people call it.
    pub name: Option<String>,
    /// Which of this node's own addresses leads to it, by place, its address there, and what frames between the two are to be.
    pub ways: Vec<(usize, PeerAddr, Security)>,
    /// Edges to it whose messages are to go otherwise than all do.
    pub wishes: Vec<EdgeWish>,
    /// The only edges between the two that may be used, if the graph is strict.
    pub edges: Option<Edges>,
}

/// Edges between this node and another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edges {
    /// From endpoints here.
    pub out: HashSet<Ends>,
    /// To endpoints here.
    pub into: HashSet<Ends>,
}

/// How messages of an edge are to go, as the graph says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeWish {
    /// The edge.
    pub ends: Ends,
    /// By this route while it works.
    pub route: Option<String>,
    /// Raw: nobody acknowledges them.
    pub raw: bool,
}

/// This node's view of the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nart {
    /// Its number.
    pub nid: Nid,
    /// Where others reach it.
    pub own: Vec<PeerAddr>,
    /// The others that can be reached.
    pub others: Vec<Other>,
    /// Who users are that send by these routes; by others: nobody.
    pub users: Vec<(String, Users)>,
    /// How quick the links of these routes are; of others nobody said.
    pub speeds: Vec<(String, Speed)>,
    /// Whether Ethernet's frames are taken by AF_XDP.
    pub xdp: Xdp,
}

/// Why there is none.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NoNart {
    /// The number is not in the graph.
    #[error("node {0} is not in the graph; it has {1}")]
    Unknown(Nid, String),
    /// The node has no addresses.
    #[error(
        "node {0} has no addresses in the graph; give it routes, such as routes = [\"udp:192.0.2.1:7411\"]"
    )]
    NoRoutes(Nid),
    /// No node of the graph has this machine's addresses.
    #[error("no node of the graph has an address of this machine; say which node it is: --node NID")]
    NotHere,
    /// Several have.
    #[error("nodes {0} of the graph all have addresses of this machine; say which one it is: --node NID")]
    Ambiguous(String),
}

impl Nart {
    /// That of node `nid`.
    ///
    /// # Errors
    ///
    /// [`NoNart::Unknown`], [`NoNart::NoRoutes`].
    pub fn of(graph: &Graph, nid: Nid) -> Result<Nart, NoNart> {
        let all = || graph.nodes.iter().map(|node| node.nid);
        let this = graph.node(nid).ok_or_else(|| NoNart::Unknown(nid, list(all())))?;
        if this.routes.is_empty() {
            return Err(NoNart::NoRoutes(nid));
        }
        let other = |node: &Node| {
            let way = |(place, address): (usize, &PeerAddr)| {
                // The first of a kind here with the first of that kind there, the second with the second: so both ends of
                // two networks are the same at both nodes.
                let before = node.routes[..place].iter().filter(|other| fits(other, address)).count();
                let own = this.routes.iter().enumerate().filter(|(_, own)| fits(own, address)).nth(before)?.0;
                Some((own, address.as_seen_from(&this.routes[own]), graph.security(address.route())))
            };
            let ways: Vec<_> = node.routes.iter().enumerate().filter_map(way).collect();
            let edges = graph.edges.iter().filter(|edge| (edge.from.nid, edge.to.nid) == (nid, node.nid));
            let wish = |edge: &Edge| {
                let ends = Ends { here: edge.from.dpid, there: edge.to.dpid };
                EdgeWish { ends, route: edge.route.clone(), raw: edge.raw }
            };
            let wishes = edges.map(wish).filter(|wish| wish.raw || wish.route.is_some()).collect();
            let edges = graph.strict.then(|| Edges::of(graph, nid, node.nid));
            (!ways.is_empty()).then(|| Other { nid: node.nid, name: node.name.clone(), ways, wishes, edges })
        };
        let others = graph.nodes.iter().filter(|node| node.nid != nid).filter_map(other).collect();
        let users = graph.trusts.iter().map(|trust| (trust.route.clone(), trust.users.clone())).collect();
        let speed = |route: &str| graph.speed(route).map(|speed| (route.to_string(), speed));
        let speeds = graph.routes().into_iter().filter_map(speed).collect();
        Ok(Nart { nid, own: this.routes.clone(), others, users, speeds, xdp: graph.xdp() })
    }
}

impl Edges {
    fn of(graph: &Graph, here: Nid, there: Nid) -> Edges {
        let between = |from: Nid, to: Nid| {
            graph.edges.iter().filter(move |edge| (edge.from.nid, edge.to.nid) == (from, to))
        };
        let out = between(here, there).map(|edge| Ends { here: edge.from.dpid, there: edge.to.dpid });
        let into = between(there, here).map(|edge| Ends { here: edge.to.dpid, there: edge.from.dpid });
        Edges { out: out.collect(), into: into.collect() }
    }
}

impl Nart {
    /// Who users are that send by this route.
    pub fn users(&self, route: &str) -> Users {
        let named = self.users.iter().find(|(name, _)| name == route);
        named.map(|(_, users)| users.clone()).unwrap_or_default()
    }

    /// How quick the link of this route is, if the graph says so.
    pub fn speed(&self, route: &str) -> Option<Speed> {
        self.speeds.iter().find(|(name, _)| name == route).map(|(_, speed)| *speed)
    }

    /// The only edges that endpoints here may send along to other nodes, if the graph is strict.
    pub fn strict_edges(&self) -> Option<HashSet<(Dpid, Addr)>> {
        let edges = |other: &Other| {
            let out = &other.edges.as_ref()?.out;
            let nid = other.nid;
            Some(out.iter().map(move |ends| (ends.here, Addr { nid, dpid: ends.there })).collect::<Vec<_>>())
        };
        self.others
            .iter()
            .map(edges)
            .collect::<Option<Vec<_>>>()
            .filter(|all| !all.is_empty())
            .map(|all| all.into_iter().flatten().collect())
    }

    /// Whether a key is needed: frames to some node are to be sealed.
    pub fn is_sealed(&self) -> bool {
        let mut ways = self.others.iter().flat_map(|other| &other.ways);
        ways.any(|(.., security)| *security != Security::None)
    }
}

/// Whether frames to that address can leave from this one.
fn fits(own: &PeerAddr, other: &PeerAddr) -> bool {
    match (own, other) {
        (PeerAddr::Udp(v), PeerAddr::Udp(w)) => {
            v.is_ipv4() == w.is_ipv4() && own.is_link_local() == other.is_link_local()
        }
        _ => own.route() == other.route(),
    }
}

/// What a machine's interfaces say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// IP addresses.
    pub ips: Vec<IpAddr>,
    /// Ethernet addresses.
    pub macs: Vec<[u8; 6]>,
}

impl Machine {
    /// This one, in this network namespace.
    ///
    /// # Errors
    ///
    /// Those of getifaddrs(3).
    pub fn look() -> nix::Result<Machine> {
        let mut machine = Machine::default();
        for address in nix::ifaddrs::getifaddrs()?.filter_map(|interface| interface.address) {
            if let Some(v4) = address.as_sockaddr_in() {
                machine.ips.push(v4.ip().into());
            } else if let Some(v6) = address.as_sockaddr_in6() {
                machine.ips.push(v6.ip().into());
            } else if let Some(mac) = address.as_link_addr().and_then(|link| link.addr()) {
                machine.macs.push(mac);
            }
        }
        Ok(machine)
    }

    fn has(&self, address: &PeerAddr) -> bool {
        match address {
            PeerAddr::Udp(at) => self.ips.contains(&at.ip()),
            PeerAddr::Eth { mac, .. } => self.macs.contains(&mac.0),
            PeerAddr::Other { .. } => false,
        }
    }

    /// Which node of the graph it is.
    ///
    /// # Errors
    ///
    /// [`NoNart::NotHere`], [`NoNart::Ambiguous`].
    pub fn node_of(&self, graph: &Graph) -> Result<Nid, NoNart> {
        let here = |node: &&Node| node.routes.iter().any(|address| self.has(address));
        let found: Vec<Nid> = graph.nodes.iter().filter(here).map(|node| node.nid).collect();
        match found[..] {
            [] => Err(NoNart::NotHere),
            [nid] => Ok(nid),
            _ => Err(NoNart::Ambiguous(list(found.into_iter()))),
        }
    }
}

fn list(nids: impl Iterator<Item = Nid>) -> String {
    nids.map(|nid| nid.to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
