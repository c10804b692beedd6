mod golden;
mod laid_out;
mod seen;
mod written;

use std::str::FromStr;

use crate::{Addr, Graph};

pub const FIGURE1: &str = include_str!("../../../examples/figure1.toml");

pub fn addr(text: &str) -> Addr {
    Addr::from_str(text).unwrap()
}

/// The paper's own words, section 2.
#[test]
fn figure_1_is_the_graph_of_the_paper() {
    let graph = Graph::parse(FIGURE1).unwrap();
    assert_eq!(graph.nodes.iter().map(|n| n.nid).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(graph.endpoints, 1..=256);
    let processes: Vec<_> = graph.processes.iter().map(|p| (&*p.name, p.nid, &p.endpoints[..])).collect();
    let paper: [(&str, u16, &[u16]); 4] =
        [("P1", 1, &[1, 2, 3]), ("P2", 1, &[5, 6]), ("P3", 2, &[1, 2, 7, 8]), ("P4", 3, &[3])];
    assert_eq!(processes, paper);
    let edges: Vec<_> = graph.edges.iter().map(|e| (e.from.dpid, e.from.nid, e.to.dpid, e.to.nid)).collect();
    assert_eq!(edges, [(2, 1, 2, 2), (1, 2, 3, 1), (1, 1, 5, 1), (8, 2, 3, 3), (6, 1, 1, 1)]);
}

/// What is compiled allows what the graph has, seen from each node, and nothing else.
#[test]
fn the_library_reads_what_is_compiled() {
    let graph = Graph { strict: true, ..Graph::parse(FIGURE1).unwrap() };
    let text = graph.compile();
    let ends: Vec<Addr> = graph
        .processes
        .iter()
        .flat_map(|p| p.endpoints.iter().map(|&dpid| Addr { nid: p.nid, dpid }))
        .collect();
    let mut allowed = 0;
    for from in &ends {
        let part = dpfd::graph::Part::parse(&text, from.nid).unwrap();
        for to in &ends {
            assert_eq!(part.allows(from.dpid, *to), graph.has(*from, *to), "{from} -> {to}");
            allowed += usize::from(part.allows(from.dpid, *to));
        }
    }
    assert_eq!(allowed, 5);
}
