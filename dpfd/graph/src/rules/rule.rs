//! Each rule as it was broken: in words, with the way out.

use std::ops::RangeInclusive;

use thiserror::Error;

use crate::trust::Security;
use crate::{Addr, Dpid, Nid, DPIDS, NIDS};

/// A rule, as it was broken. The text says what is wrong, [`Rule::way_out`] what to do.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Rule {
    /// N is a subset of the numbers.
    #[error("{0} is no number of a node")]
    NodeNumber(Nid),
    /// N is a set.
    #[error("node {0} is there twice")]
    NodeTwice(Nid),
    /// No two nodes have one name.
    #[error("two nodes are called {0}")]
    NodeName(String),
    /// What can be a name.
    #[error("{0:?} cannot be a name")]
    BadName(String),
    /// EP is a range of numbers.
    #[error("{} to {} is no range of endpoints", .0.start(), .0.end())]
    Range(RangeInclusive<Dpid>),
    /// EP is a subset of the numbers.
    #[error("0 is no number of an endpoint")]
    EndpointNumber,
    /// P_i is a subset of EP.
    #[error("endpoint {dpid} of process {process} is not among the endpoints of this graph, {} to {}", range.start(), range.end())]
    OutsideEndpoints {
        /// It.
        dpid: Dpid,
        /// Its process.
        process: String,
        /// EP.
        range: RangeInclusive<Dpid>,
    },
    /// P_i is a set.
    #[error("process {process} has endpoint {dpid} twice")]
    EndpointTwice {
        /// It.
        dpid: Dpid,
        /// Its process.
        process: String,
    },
    /// Every process has a name of its own.
    #[error("two processes are called {0}")]
    ProcessName(String),
    /// NID is a function into N.
    #[error("process {process} is on node {nid}, which is not in the graph")]
    NoNode {
        /// Which process.
        process: String,
        /// The node that is missing.
        nid: Nid,
    },
    /// `NID_i = NID_j -> P_i and P_j are disjoint`.
    #[error(
        "endpoint {dpid} of process {process} is one of process {owner} already, and both run on node {nid}"
    )]
    Shared {
        /// The endpoint.
        dpid: Dpid,
        /// The second that has it.
        process: String,
        /// The first.
        owner: String,
        /// Where both run.
        nid: Nid,
    },
    /// `i in P_a and NID_a = m`, or the same of the other end: no such node.
    #[error("the edge {edge} {ends} at node {nid}, which is not in the graph", ends = ends(*sender))]
    EdgeNode {
        /// Which edge.
        edge: Text,
        /// The node that is missing.
        nid: Nid,
        /// Which end it is.
        sender: bool,
    },
    /// `i in P_a and NID_a = m`, or the same of the other end: no process has it.
    #[error("the edge {edge} {ends} at {end}, but no process of node {} has an endpoint {}", end.nid, end.dpid, ends = ends(*sender))]
    EdgeEndpoint {
        /// Which edge.
        edge: Text,
        /// The endpoint that is missing.
        end: Addr,
        /// Which end it is.
        sender: bool,
        /// Nodes on which some process has such an endpoint.
        elsewhere: Vec<Nid>,
    },
    /// `a != b`.
    #[error("both ends of the edge {edge} are in process {process}")]
    OneProcess {
        /// Which edge.
        edge: Text,
        /// The process.
        process: String,
    },
    /// E is a set.
    #[error("the edge {0} is there twice")]
    EdgeTwice(Text),
    /// Two nodes cannot be at one place.
    #[error("nodes {first} and {second} have the same address, {route}")]
    OneAddress {
        /// The node that has it already.
        first: Nid,
        /// The other.
        second: Nid,
        /// Route and address.
        route: String,
    },
    /// A node names an address once.
    #[error("node {nid} has the address {route} twice")]
    AddressTwice {
        /// The node.
        nid: Nid,
        /// Route and address.
        route: String,
    },
    /// A route is between two nodes.
    #[error("the edge {edge} is to go by {route}, but both its ends are on one node")]
    RouteOnOneNode {
        /// Which edge.
        edge: Text,
        /// The route.
        route: String,
    },
    /// An edge goes by a route that both its nodes have.
    #[error("the edge {edge} is to go by {route}, but node {nid} has no address there")]
    NoSuchRoute {
        /// Which edge.
        edge: Text,
        /// The route.
        route: String,
        /// The node without it.
        nid: Nid,
    },
    /// Two nodes with an edge have a route in common.
    #[error("the edge {edge} has no way: nodes {} and {} have no route in common", edge.0.nid, edge.1.nid)]
    NoWay {
        /// Which edge.
        edge: Text,
    },
    /// What is said of a route is of use to somebody.
    #[error("no node has an address on {route:?}")]
    RouteNowhere {
        /// The route.
        route: String,
        /// Those on which some node has an address.
        used: Vec<String>,
    },
    /// What is authenticated or encrypted needs a key.
    #[error("frames on {route} are to be {}, but the graph names no key", done(*security))]
    NoKey {
        /// The route.
        route: String,
        /// What is to be done.
        security: Security,
    },
    /// Users are believed only of those who have the key.
    #[error("users on {route} are mapped, but anybody at its wire can say that he is one of them")]
    UsersUnproven {
        /// The route.
        route: String,
    },
    /// A user there is one user here.
    #[error("user {user} is mapped twice")]
    UserTwice {
        /// The user there.
        user: u32,
    },
}

/// An edge in messages: `1/2 -> 2/2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Text(pub Addr, pub Addr);

impl std::fmt::Display for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} -> {}", self.0, self.1)
    }
}

fn ends(sender: bool) -> &'static str {
    if sender {
        "begins"
    } else {
        "ends"
    }
}

fn done(security: Security) -> &'static str {
    match security {
        Security::None => "left as they are",
        Security::Authenticate => "authenticated",
        Security::Encrypt => "encrypted",
    }
}

impl Rule {
    /// A short name for it, for programs; it does not change.
    pub fn word(&self) -> &'static str {
        match self {
            Rule::NodeNumber(_) => "node-number",
            Rule::NodeTwice(_) => "node-twice",
            Rule::NodeName(_) => "node-name",
            Rule::BadName(_) => "name",
            Rule::Range(_) => "range",
            Rule::EndpointNumber => "endpoint-number",
            Rule::OutsideEndpoints { .. } => "outside-endpoints",
            Rule::EndpointTwice { .. } => "endpoint-twice",
            Rule::ProcessName(_) => "process-name",
            Rule::NoNode { .. } => "no-node",
            Rule::Shared { .. } => "shared-endpoint",
            Rule::EdgeNode { .. } => "edge-node",
            Rule::EdgeEndpoint { .. } => "edge-endpoint",
            Rule::OneProcess { .. } => "one-process",
            Rule::EdgeTwice(_) => "edge-twice",
            Rule::OneAddress { .. } => "one-address",
            Rule::AddressTwice { .. } => "address-twice",
            Rule::RouteOnOneNode { .. } => "route-on-one-node",
            Rule::NoSuchRoute { .. } => "no-such-route",
            Rule::NoWay { .. } => "no-way",
            Rule::RouteNowhere { .. } => "route-nowhere",
            Rule::NoKey { .. } => "no-key",
            Rule::UsersUnproven { .. } => "users-unproven",
            Rule::UserTwice { .. } => "user-twice",
        }
    }

    /// What to do.
    pub fn way_out(&self) -> String {
        match self {
            Rule::NodeNumber(_) => format!("nodes have numbers from {} to {}", NIDS.start(), NIDS.end()),
            Rule::NodeTwice(_) => "give one of the two another nid, or join them".into(),
            Rule::NodeName(_) => "give one of the two another name, or none".into(),
            Rule::BadName(_) => "write 1 to 63 letters, digits, -, _ and . of ASCII".into(),
            Rule::Range(_) => {
                format!("write [FIRST, LAST] with {} <= FIRST <= LAST <= {}", DPIDS.start(), DPIDS.end())
            }
            Rule::EndpointNumber => {
                format!("endpoints have numbers from {} to {}", DPIDS.start(), DPIDS.end())
            }
            Rule::OutsideEndpoints { .. } => "choose a number in that range, or widen it".into(),
            Rule::EndpointTwice { .. } => "take one of the two away".into(),
            Rule::ProcessName(_) => "give one of the two another name".into(),
            Rule::NoNode { nid, .. } => {
                format!("add [[node]] with nid = {nid}, or put the process on another node")
            }
            Rule::Shared { .. } => {
                "an endpoint's number is one process's on its node: choose another number for one of the two"
                    .into()
            }
            Rule::EdgeNode { .. } => {
                "name an endpoint as NID/DPID, with the nid of a [[node]] of this file".into()
            }
            Rule::EdgeEndpoint { end, elsewhere, .. } if elsewhere.is_empty() => {
                format!("add {} to the endpoints of a process on node {}", end.dpid, end.nid)
            }
            Rule::EdgeEndpoint { end, elsewhere, .. } => {
                let there: Vec<_> = elsewhere.iter().map(|nid| format!("{nid}/{}", end.dpid)).collect();
                let there = there.join(" or ");
                format!(
                    "was {there} meant? else add {} to the endpoints of a process on node {}",
                    end.dpid, end.nid
                )
            }
            Rule::OneProcess { .. } => {
                "an edge connects two processes: within one, memory is shared already; take the edge away"
                    .into()
            }
            Rule::EdgeTwice(_) => {
                "take one of the two away; an edge is one direction, the way back is another".into()
            }
            Rule::OneAddress { .. } => "correct one of the two".into(),
            Rule::AddressTwice { .. } => "take one of the two away".into(),
            Rule::RouteOnOneNode { .. } => {
                "within a node messages go through shared memory: take the route away".into()
            }
            Rule::NoSuchRoute { route, nid, .. } => {
                format!("add an address on {route} to the routes of node {nid}, or choose another route")
            }
            Rule::NoWay { .. } => "give both an address on the same route".into(),
            Rule::RouteNowhere { used, .. } if used.is_empty() => {
                "add addresses to the nodes' routes, or take the table away".into()
            }
            Rule::RouteNowhere { used, .. } => format!("was {} meant?", used.join(" or ")),
            Rule::NoKey { route, .. } => format!(
                "make one with `dp graph key cluster.key`, give it to all nodes, and add [security] with key = \"cluster.key\"; \
                 or where every machine on the way is trusted, [route.{route}] with security = \"none\""
            ),
            Rule::UsersUnproven { .. } => "write security = \"authenticate\", or users = \"squash\"".into(),
            Rule::UserTwice { .. } => "take the number out of one of the two ranges".into(),
        }
    }
}
