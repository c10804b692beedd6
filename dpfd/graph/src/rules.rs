//! The rules of the definition, one by one: what a graph breaks, where, and the way out.
//!
//! In the paper's words: N and EP are sets of integers; each P_i is a subset of EP; NID is a function from P to N, and
//! `NID_i = NID_j -> P_i and P_j are disjoint`; E holds `<i,m> -> <j,n>` with i in P_a, j in P_b, NID_a = m, NID_b = n and
//! a != b. The rest is about the table of addresses.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use thiserror::Error;

use crate::{Addr, Dpid, Edge, Graph, Nid, DPIDS, NIDS};

/// A part of a graph, by its place in the lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// The range of numbers for endpoints.
    Endpoints,
    /// A node's number.
    Node(usize),
    /// A node's name.
    NodeName(usize),
    /// A node's route.
    NodeRoute(usize, usize),
    /// A process's name.
    Process(usize),
    /// The node of a process.
    ProcessNode(usize),
    /// An endpoint of a process.
    ProcessEndpoint(usize, usize),
    /// An edge.
    Edge(usize),
    /// Its sender.
    From(usize),
    /// Its receiver.
    To(usize),
    /// Its route.
    EdgeRoute(usize),
}

/// A rule that does not hold, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Where.
    pub place: Place,
    /// What was there before, and is in the way.
    pub first: Option<Place>,
    /// Which.
    pub rule: Rule,
}

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
        }
    }
}

/// What can be a name of a node or process.
pub fn is_name(name: &str) -> bool {
    (1..=63).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

impl Graph {
    /// All rules that do not hold, in the order of the graph's lists; none of a sound graph.
    pub fn broken(&self) -> Vec<Broken> {
        let mut check = Check { graph: self, broken: Vec::new() };
        check.numbers();
        check.nodes();
        check.processes();
        check.edges();
        check.broken
    }
}

struct Check<'a> {
    graph: &'a Graph,
    broken: Vec<Broken>,
}

impl Check<'_> {
    fn report(&mut self, place: Place, first: Option<Place>, rule: Rule) {
        self.broken.push(Broken { place, first, rule });
    }

    fn numbers(&mut self) {
        let range = &self.graph.endpoints;
        if *range.start() == 0 || range.is_empty() {
            self.report(Place::Endpoints, None, Rule::Range(range.clone()));
        }
    }

    fn nodes(&mut self) {
        let (mut numbers, mut names, mut addresses) = (HashMap::new(), HashMap::new(), HashMap::new());
        for (i, node) in self.graph.nodes.iter().enumerate() {
            if !NIDS.contains(&node.nid) {
                self.report(Place::Node(i), None, Rule::NodeNumber(node.nid));
            }
            if let Some(&first) = numbers.get(&node.nid) {
                self.report(Place::Node(i), Some(Place::Node(first)), Rule::NodeTwice(node.nid));
                continue;
            }
            numbers.insert(node.nid, i);
            if let Some(name) = &node.name {
                if !is_name(name) {
                    self.report(Place::NodeName(i), None, Rule::BadName(name.clone()));
                } else if let Some(&first) = names.get(name) {
                    let first = Some(Place::NodeName(first));
                    self.report(Place::NodeName(i), first, Rule::NodeName(name.clone()));
                } else {
                    names.insert(name, i);
                }
            }
            for (k, route) in node.routes.iter().enumerate() {
                let text = route.to_string();
                // Interfaces are the node's own, MAC addresses are not.
                let place =
                    text.rsplit_once(' ').filter(|_| route.name == "eth").map_or(&*text, |(_, mac)| mac);
                let Some(&(first, nid, at)) = addresses.get(place) else {
                    addresses.insert(place.to_string(), (i, node.nid, k));
                    continue;
                };
                let rule = if first == i {
                    Rule::AddressTwice { nid, route: text }
                } else {
                    Rule::OneAddress { first: nid, second: node.nid, route: text }
                };
                self.report(Place::NodeRoute(i, k), Some(Place::NodeRoute(first, at)), rule);
            }
        }
    }

    fn processes(&mut self) {
        let (mut names, mut owners) = (HashMap::new(), HashMap::new());
        for (i, process) in self.graph.processes.iter().enumerate() {
            let name = &process.name;
            if !is_name(name) {
                self.report(Place::Process(i), None, Rule::BadName(name.clone()));
            } else if let Some(&first) = names.get(name) {
                let first = Some(Place::Process(first));
                self.report(Place::Process(i), first, Rule::ProcessName(name.clone()));
            } else {
                names.insert(name, i);
            }
            if self.graph.node(process.nid).is_none() {
                let rule = Rule::NoNode { process: name.clone(), nid: process.nid };
                self.report(Place::ProcessNode(i), None, rule);
            }
            for (k, &dpid) in process.endpoints.iter().enumerate() {
                let place = Place::ProcessEndpoint(i, k);
                if !DPIDS.contains(&dpid) {
                    self.report(place, None, Rule::EndpointNumber);
                } else if !self.graph.endpoints.contains(&dpid) && !self.graph.endpoints.is_empty() {
                    let (process, range) = (name.clone(), self.graph.endpoints.clone());
                    self.report(place, None, Rule::OutsideEndpoints { dpid, process, range });
                }
                let addr = (process.nid, dpid);
                let Some(&(owner, at)) = owners.get(&addr) else {
                    owners.insert(addr, (i, k));
                    continue;
                };
                let rule = if owner == i {
                    Rule::EndpointTwice { dpid, process: name.clone() }
                } else {
                    let owner: &crate::Process = &self.graph.processes[owner];
                    Rule::Shared { dpid, process: name.clone(), owner: owner.name.clone(), nid: process.nid }
                };
                self.report(place, Some(Place::ProcessEndpoint(owner, at)), rule);
            }
        }
    }

    fn edges(&mut self) {
        let mut seen = HashMap::new();
        let has_table = self.graph.nodes.iter().any(|node| !node.routes.is_empty());
        for (i, edge) in self.graph.edges.iter().enumerate() {
            let text = Text(edge.from, edge.to);
            if let Some(&first) = seen.get(&(edge.from, edge.to)) {
                self.report(Place::Edge(i), Some(Place::Edge(first)), Rule::EdgeTwice(text));
                continue;
            }
            seen.insert((edge.from, edge.to), i);
            let owners = (self.end(Place::From(i), edge, true), self.end(Place::To(i), edge, false));
            let (Some(from), Some(to)) = owners else { continue };
            if from == to {
                let process = self.graph.processes[from].name.clone();
                self.report(Place::Edge(i), None, Rule::OneProcess { edge: text, process });
            } else {
                self.way(i, edge, text, has_table);
            }
        }
    }

    /// The process at one end of an edge.
    fn end(&mut self, place: Place, edge: &Edge, sender: bool) -> Option<usize> {
        let (graph, end) = (self.graph, if sender { edge.from } else { edge.to });
        let owner = graph.owner(end);
        let text = Text(edge.from, edge.to);
        if graph.node(end.nid).is_none() {
            // Of a process on a node that is not there, that was told already.
            if owner.is_none() {
                self.report(place, None, Rule::EdgeNode { edge: text, nid: end.nid, sender });
            }
            return None;
        }
        if owner.is_none() {
            let have = graph.processes.iter().filter(|p| p.endpoints.contains(&end.dpid));
            let mut elsewhere: Vec<Nid> = have.map(|p| p.nid).collect();
            elsewhere.sort_unstable();
            elsewhere.dedup();
            self.report(place, None, Rule::EdgeEndpoint { edge: text, end, sender, elsewhere });
        }
        owner
    }

    /// The route of an edge whose ends are there.
    fn way(&mut self, i: usize, edge: &Edge, text: Text, has_table: bool) {
        let graph = self.graph;
        let (Some(from), Some(to)) = (graph.node(edge.from.nid), graph.node(edge.to.nid)) else { return };
        let on = |node: &crate::Node, name: &str| node.routes.iter().any(|route| route.name == name);
        match &edge.route {
            Some(route) if from.nid == to.nid => {
                let rule = Rule::RouteOnOneNode { edge: text, route: route.clone() };
                self.report(Place::EdgeRoute(i), None, rule);
            }
            Some(route) => {
                if let Some(without) = [from, to].into_iter().find(|node| !on(node, route)) {
                    let rule = Rule::NoSuchRoute { edge: text, route: route.clone(), nid: without.nid };
                    self.report(Place::EdgeRoute(i), None, rule);
                }
            }
            // A graph without addresses describes a pattern, not a cluster.
            None if has_table && from.nid != to.nid => {
                if !from.routes.iter().any(|route| on(to, &route.name)) {
                    self.report(Place::Edge(i), None, Rule::NoWay { edge: text });
                }
            }
            None => {}
        }
    }
}
