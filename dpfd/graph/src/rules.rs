//! The rules of the definition, one by one: what a graph breaks, where, and the way out.
//!
//! In the paper's words: N and EP are sets of integers; each P_i is a subset of EP; NID is a function from P to N, and
//! `NID_i = NID_j -> P_i and P_j are disjoint`; E holds `<i,m> -> <j,n>` with i in P_a, j in P_b, NID_a = m, NID_b = n and
//! a != b. The rest is about the table of addresses, and how far routes are trusted.

mod rule;
mod trust;

use std::collections::HashMap;

pub use rule::{Rule, Text};

use crate::{Edge, Graph, Nid, DPIDS, NIDS};

/// A part of a graph, by its place in the lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// The range of numbers for endpoints.
    Endpoints,
    /// A route that the graph speaks of.
    Trust(usize),
    /// Who its users are.
    TrustUsers(usize),
    /// Some that are mapped.
    TrustMap(usize, usize),
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
        check.trusts();
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
                // Interfaces are the node's own; of two with the same MAC address the names do not matter.
                let Some(&(first, nid, at)) = addresses.get(route) else {
                    addresses.insert(*route, (i, node.nid, k));
                    continue;
                };
                let text = route.to_string();
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
        let on = |node: &crate::Node, name: &str| node.routes.iter().any(|route| route.route() == name);
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
            None => {
                let shared = from.nid == to.nid || from.routes.iter().any(|route| on(to, route.route()));
                if has_table && !shared {
                    self.report(Place::Edge(i), None, Rule::NoWay { edge: text });
                }
            }
        }
    }
}
