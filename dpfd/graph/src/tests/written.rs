//! Any graph, written and read back, is the same.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use crate::speed::{Speed, SPEEDS};
use crate::trust::{Mapped, Security, Trust, Users};
use crate::{Addr, Edge, Graph, Node, PeerAddr, Process, Xdp};

/// Sound graphs: nodes with all their routes, endpoints shared out to processes, edges between these.
pub fn graphs() -> impl Strategy<Value = Graph> {
    let nodes =
        prop::collection::btree_map(1u16..=65534, (prop::option::of("[a-zA-Z0-9._-]{1,20}"), 0u8..4), 1..6);
    let edges = prop::collection::vec((any::<u32>(), any::<u32>(), any::<bool>()), 0..24);
    (nodes, any::<bool>(), 1usize..9, edges, trusts())
        .prop_flat_map(|(nodes, strict, processes, edges, trusts)| {
            let n = nodes.len();
            let process = (0..n, prop::collection::btree_set(1u16.., 0..7));
            let processes = prop::collection::vec(process, processes);
            (Just(nodes), Just(strict), processes, Just(edges), Just(trusts))
        })
        .prop_map(|(nodes, strict, processes, edges, (key, trusts))| {
            let mut graph = graph(&nodes, strict, &processes, &edges);
            graph.key = Some(key);
            let used: Vec<String> = graph.routes().into_iter().map(String::from).collect();
            graph.trusts = trusts.into_iter().filter(|trust| used.contains(&trust.route)).collect();
            graph
        })
}

/// A key's file, and what is said of routes, in the order of their names.
fn trusts() -> impl Strategy<Value = (String, Vec<Trust>)> {
    let users = prop::option::of(prop::collection::vec((0..1000u32, any::<u16>()), 0..4)).prop_map(|all| {
        let mapped =
            |(i, (n, here)): (u32, (u32, u16))| Mapped { there: 1000 * i..=1000 * i + n, here: here.into() };
        all.map_or(Users::Squash, |all| Users::Map((0..).zip(all).map(mapped).collect()))
    });
    let security = prop::sample::select(vec![Security::None, Security::Authenticate, Security::Encrypt]);
    let xdp = prop::sample::select(vec![Xdp::Auto, Xdp::Always, Xdp::Never]);
    let speed = prop::option::of(SPEEDS.prop_map(|bits| Speed::of_bits(bits).expect("in the range")));
    let said = prop::option::of((security, users, speed, xdp));
    let of = |route: &str, said: Option<(Security, Users, Option<Speed>, Xdp)>| {
        let (security, users, speed, xdp) = said?;
        let xdp = if route == "eth" { xdp } else { Xdp::default() };
        let users = if security == Security::None { Users::Squash } else { users };
        Some(Trust { route: route.into(), security, users, speed, xdp })
    };
    let trusts = prop::array::uniform3(said).prop_map(move |[eth, sim, udp]| {
        [of("eth", eth), of("sim", sim), of("udp", udp)].into_iter().flatten().collect()
    });
    ("[a-z/\\\\\"'. ö]{1,20}", trusts)
}

type Ends = [(u32, u32, bool)];

fn graph(
    nodes: &BTreeMap<u16, (Option<String>, u8)>,
    strict: bool,
    processes: &[(usize, BTreeSet<u16>)],
    edges: &Ends,
) -> Graph {
    let mut graph = Graph { strict, ..Graph::default() };
    let mut names = BTreeSet::new();
    for (i, (&nid, (name, routes))) in nodes.iter().enumerate() {
        let name = name.clone().filter(|name| names.insert(name.clone()));
        let all = [
            format!("udp:192.0.2.{i}:{nid}"),
            format!("eth:eth{i}/02:00:00:00:00:{i:02x}"),
            format!("udp:[2001:db8::{i:x}]:7100"),
            format!("sim:[{i}]~%\\\"'{nid}"),
        ];
        let routes = all.iter().take(usize::from(*routes) + 1).map(|text| text.parse::<PeerAddr>().unwrap());
        graph.nodes.push(Node { nid, name, routes: routes.collect() });
    }
    let mut taken = BTreeSet::new();
    for (i, (node, endpoints)) in processes.iter().enumerate() {
        let nid = graph.nodes[*node].nid;
        let free = endpoints.iter().copied().filter(|dpid| taken.insert((nid, *dpid)));
        let endpoints: Vec<u16> = free.collect();
        graph.processes.push(Process { name: format!("P{i}"), nid, endpoints });
    }
    let ends: Vec<(usize, Addr)> = (0..)
        .zip(&graph.processes)
        .flat_map(|(i, p)| p.endpoints.iter().map(move |&dpid| (i, Addr { nid: p.nid, dpid })))
        .collect();
    let all: Vec<u16> = ends.iter().map(|(_, addr)| addr.dpid).collect();
    if let (true, Some(low), Some(high)) = (strict, all.iter().min(), all.iter().max()) {
        graph.endpoints = *low..=*high;
    }
    for (from, to, routed) in edges.iter().filter(|_| !ends.is_empty()) {
        let pick = |n: &u32| ends[*n as usize % ends.len()];
        let ((a, from), (b, to)) = (pick(from), pick(to));
        if a != b && !graph.has(from, to) {
            let route = (*routed && from.nid != to.nid).then(|| "udp".to_string());
            graph.edges.push(Edge { from, to, route, raw: *routed && from.dpid % 2 == 0 });
        }
    }
    graph
}

proptest! {
    #[test]
    fn a_graph_that_is_written_reads_back_the_same(graph in graphs()) {
        prop_assert_eq!(graph.broken(), []);
        let text = graph.to_toml();
        let back = Graph::parse(&text).map_err(|faults| TestCaseError::fail(faults.told("written")))?;
        prop_assert_eq!(back, graph);
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "(\\[\\[(node|process|edge)\\]\\]\n|[a-z]{1,9} ?= ?|\"[^\"]{0,6}\"|[0-9]{1,6}|[\\[\\],={}]|\n|\\PC){0,40}") {
        if let Err(faults) = Graph::parse(&text) {
            prop_assert!(!faults.list.is_empty());
            let _ = faults.told("any");
        }
    }

    #[test]
    fn the_library_reads_what_is_compiled_of_any_graph(graph in graphs()) {
        let text = graph.compile();
        for node in &graph.nodes {
            let part = dpfd::graph::Part::parse(&text, node.nid).map_err(TestCaseError::fail)?;
            for edge in &graph.edges {
                if edge.from.nid == node.nid {
                    prop_assert!(part.allows(edge.from.dpid, edge.to));
                    let back = part.allows(edge.to.dpid, edge.from);
                    let there = Addr { nid: node.nid, ..edge.to };
                    prop_assert_eq!(back, !graph.strict || graph.has(there, edge.from));
                }
            }
        }
    }
}
