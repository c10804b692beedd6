//! The directed point graph (Directed Point, section 2): which processes of a cluster have which endpoints, and which of
//! these send to which.
//!
//! The paper defines DPG = (N, EP, P, NID, E). Here it is [`Graph`]: N are its [`Node`]s, EP a range of numbers, P its
//! [`Process`]es, NID the field of that name, E its [`Edge`]s. Two things are added for today's machines. A node has the
//! addresses at which its routes reach it, so one file is the Network Address Resolution Table of all nodes; and it says how
//! far each route is trusted. And a graph can
//! be strict: then it is not a description only, and no program that is given the graph sends along another edge.
//!
//! | module | holds |
//! |---|---|
//! | [`rules`] | the rules of the definition, each with an error of its own |
//! | [`trust`] | what is done to frames on a route, and who users of other nodes are |
//! | [`speed`] | how quick the link of a route is |
//! | [`mod@file`] | `dp-graph.toml(5)`: read, with the place of everything in it |
//! | [`faults`] | what is wrong with a file, in words, with the line and the way out |
//! | [`mod@write`] | the same file, written |
//! | [`compile`] | what a program is given: the form that the library reads |
//! | [`picture`] | what is drawn |
//! | [`live`] | what runs, and a graph beside it |
//! | [`layout`] | where everything stands in a picture |
//! | [`look`] | colours and lines |
//! | [`dot`], [`svg`] | the picture as Graphviz has it, and as browsers have it |

#![forbid(unsafe_code)]

pub mod compile;
pub mod dot;
pub mod faults;
pub mod file;
pub mod layout;
pub mod live;
pub mod look;
pub mod picture;
pub mod rules;
pub mod speed;
pub mod svg;
pub mod trust;
pub mod write;

use std::ops::RangeInclusive;

pub use dp_route::xdp::Xdp;
pub use dp_route::PeerAddr;
pub use dpfd::{Addr, Dpid, Nid};

use speed::Speed;
use trust::{Security, Trust, Users};

/// Numbers that a node may have: those that frames can carry, without the one that means all nodes.
pub const NIDS: RangeInclusive<Nid> = 1..=65534;
/// Numbers that an endpoint may have.
pub const DPIDS: RangeInclusive<Dpid> = 1..=65535;

/// A directed point graph. [`Graph::broken`] says whether it is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    /// No other edges than these may be used.
    pub strict: bool,
    /// EP: the numbers that endpoints of this graph may have.
    pub endpoints: RangeInclusive<Dpid>,
    /// The file of the key that all nodes have, as seen from the graph's own.
    pub key: Option<String>,
    /// The routes that the graph speaks of; for others the defaults hold.
    pub trusts: Vec<Trust>,
    /// N.
    pub nodes: Vec<Node>,
    /// P, and NID.
    pub processes: Vec<Process>,
    /// E.
    pub edges: Vec<Edge>,
}

impl Default for Graph {
    fn default() -> Graph {
        Graph {
            strict: false,
            endpoints: DPIDS,
            key: None,
            trusts: Vec::new(),
            nodes: Vec::new(),
            processes: Vec::new(),
            edges: Vec::new(),
        }
    }
}

/// A node of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its number.
    pub nid: Nid,
    /// What people call it.
    pub name: Option<String>,
    /// Where others reach it; the first is preferred.
    pub routes: Vec<PeerAddr>,
}

/// A process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// What people call it; no two have the same.
    pub name: String,
    /// Where it runs: the function NID of the paper.
    pub nid: Nid,
    /// Its endpoints: P_i of the paper.
    pub endpoints: Vec<Dpid>,
}

/// `from -> to`, in one direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// Who sends; its node is named.
    pub from: Addr,
    /// Who receives; its node is named.
    pub to: Addr,
    /// The route that it goes by; else the first that both nodes have.
    pub route: Option<String>,
    /// Its messages go raw: what is lost on its way between nodes is counted, and not sent again.
    pub raw: bool,
}

impl Graph {
    /// The node of this number.
    pub fn node(&self, nid: Nid) -> Option<&Node> {
        self.nodes.iter().find(|node| node.nid == nid)
    }

    /// The process that has this endpoint: at most one, as the definition says.
    pub fn owner(&self, of: Addr) -> Option<usize> {
        self.processes.iter().position(|p| p.nid == of.nid && p.endpoints.contains(&of.dpid))
    }

    /// How frames on this route are protected.
    pub fn security(&self, route: &str) -> Security {
        self.trust(route).map_or_else(|| Security::by_default(route), |trust| trust.security)
    }

    /// How users of other nodes that send by this route are mapped.
    pub fn users(&self, route: &str) -> &Users {
        self.trust(route).map_or(&Users::Squash, |trust| &trust.users)
    }

    /// How quick the link of this route is, if the graph says so.
    pub fn speed(&self, route: &str) -> Option<Speed> {
        self.trust(route).and_then(|trust| trust.speed)
    }

    /// Whether Ethernet's frames are taken by AF_XDP.
    pub fn xdp(&self) -> Xdp {
        self.trust("eth").map_or(Xdp::default(), |trust| trust.xdp)
    }

    fn trust(&self, route: &str) -> Option<&Trust> {
        self.trusts.iter().find(|trust| trust.route == route)
    }

    /// The names of all routes on which nodes have addresses, in the order of the graph.
    pub fn routes(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for route in self.nodes.iter().flat_map(|node| &node.routes) {
            if !names.contains(&route.route()) {
                names.push(route.route());
            }
        }
        names
    }

    /// Whether this edge is in the graph.
    pub fn has(&self, from: Addr, to: Addr) -> bool {
        self.edges.iter().any(|edge| (edge.from, edge.to) == (from, to))
    }
}

#[cfg(test)]
mod tests;
