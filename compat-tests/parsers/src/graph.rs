//! dp-graph.toml(5), what is made of it, and the words in it.

use dp_graph::live::Picture;
use dp_graph::trust::Mapped;
use dp_graph::{dot, svg, Graph, PeerAddr};
use dp_node::nart::Nart;
use dp_seal::GraphKey;
use dpfd::graph::Part;
use dpfd::{Addr, Nid};

/// A picture of more edges than that takes longer than the fuzzer has.
const DRAWN: usize = 24;

/// One run.
pub fn run(bytes: &[u8]) {
    let Some((&which, bytes)) = bytes.split_first() else { return };
    let text = String::from_utf8_lossy(bytes);
    match which % 8 {
        0 => {
            if let Ok(part) = Part::parse(&text, 1) {
                let _ = part.check(1, Addr { nid: 2, dpid: 3 });
            }
        }
        1 => {
            if let Ok(addr) = text.parse::<PeerAddr>() {
                assert_eq!(addr.to_string().parse(), Ok(addr));
            }
        }
        2 => {
            if let Ok(mapped) = text.parse::<Mapped>() {
                assert_eq!(mapped.to_string().parse(), Ok(mapped));
            }
        }
        3 => {
            if let Ok(key) = GraphKey::parse(&text) {
                assert!(GraphKey::parse(&key.to_text()) == Ok(key));
            }
        }
        4 => {
            if let Ok(addr) = text.parse::<Addr>() {
                assert_eq!(addr.to_string().parse().ok(), Some(addr));
            }
        }
        _ => graph(&text),
    }
}

fn graph(text: &str) {
    let graph = match Graph::parse(text) {
        Ok(graph) => graph,
        Err(faults) => {
            assert!(!faults.list.is_empty());
            let told = faults.told("any");
            assert!(told.chars().all(|c| c == '\n' || !c.is_control()), "nothing that a terminal would obey");
            return;
        }
    };
    assert!(graph.broken().is_empty());
    let again = Graph::parse(&graph.to_toml());
    assert_eq!(again.map_err(|faults| faults.told("written")), Ok(graph.clone()));
    let compiled = graph.compile();
    for node in graph.nodes.iter().take(4) {
        let part = Part::parse(&compiled, node.nid).expect("as it is compiled");
        let own = graph.edges.iter().filter(|edge| edge.from.nid == node.nid);
        own.for_each(|edge| assert!(part.allows(edge.from.dpid, edge.to)));
        narts(&graph, node.nid);
    }
    if graph.edges.len() <= DRAWN && graph.processes.len() <= DRAWN {
        let picture = Picture::of(&graph);
        assert!(!dot::text(&picture).is_empty() && !svg::text(&picture).is_empty());
    }
}

fn narts(graph: &Graph, nid: Nid) {
    if let Ok(nart) = Nart::of(graph, nid) {
        let all = nart.others.iter().flat_map(|other| &other.ways);
        all.for_each(|(own, ..)| assert!(*own < nart.own.len()));
        let _ = (nart.strict_edges(), nart.is_sealed());
    }
}

/// Graphs with everything that there is, and with faults; one of each word.
pub fn seeds() -> Vec<Vec<u8>> {
    let whole = r#"strict = true
endpoints = [1024, 9000]

[security]
key = "graph.key"

[route.udp]
security = "encrypt"
users = "map"
map = ["1000-1999:5000", "0:1"]

[route.eth]
security = "none"
xdp = "never"

[[node]]
nid = 1
name = "a"
routes = ["udp:192.0.2.1:7411", "eth:eth0/02:00:00:00:00:01"]

[[node]]
nid = 2
routes = ["udp:[2001:db8::1]:7411", "udp:192.0.2.2:7411", "eth:eth0/02:00:00:00:00:02"]

[[process]]
name = "P1"
node = 1
endpoints = [5001, 5002]

[[process]]
name = "P2"
node = 2
endpoints = [5001]

[[edge]]
from = "1/5001"
to = "2/5001"
route = "udp"
raw = true

[[edge]]
from = "2/5001"
to = "1/5002"
"#;
    let part = "dp-graph 1\nstrict\nedge 1/5001 2/5001\nedge 2/5001 1/5002\nend\n";
    let key = "0123456789abcdef".repeat(4) + "\n";
    let broken = whole
        .replace("node = 2", "node = 3")
        .replace("5002", "70000")
        .replace("name = \"a\"", "nåme = 7 # ö");
    let all = [
        (5, whole),
        (5, &broken),
        (5, "[[node]]\nnid = 1\n[[node]]\nnid = 1\nname = \"ö\n[[edge]"),
        (5, "strict = \"\"\"a\nb\"\"\"\nendpoints = [1,\n2, 3]\n[[process]]\nname=\"x\"\nnode=1\nendpoints=[1,1]\n"),
        (0, part),
        (1, "udp:192.0.2.1:7411"),
        (1, "eth:eth0/02:00:00:00:00:01"),
        (1, "name:anything"),
        (2, "1000-1999:5000"),
        (3, &key),
        (4, "1/5001"),
    ];
    all.iter().map(|(which, text)| [&[*which], text.as_bytes()].concat()).collect()
}
