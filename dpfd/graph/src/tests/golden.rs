//! Every fault, as it is told: each text breaks one rule. `golden/faults.txt` is what a person sees.

use std::fmt::Write;

use super::FIGURE1;
use crate::{Graph, Node, Process};

/// A name, and what is changed in a sound file to break the rule of that name: words of it, and others in their place.
const BROKEN: [(&str, &str, &str); 49] = [
    ("syntax", "nid = 1\n", "nid = = 1\n"),
    ("syntax twice", "nid = 1\n", "nid = 1\nnid = 4\n"),
    ("key", "name = \"P1\"", "names = \"P1\"\nname = \"P1\""),
    ("missing", "node = 1\nendpoints = [1, 2, 3]", "endpoints = [1, 2, 3]"),
    ("type of a number", "nid = 1\n", "nid = \"1\"\n"),
    ("type of a list", "endpoints = [5, 6]", "endpoints = 5"),
    ("type of a table", "[[edge]]\nfrom = \"1/2\"", "edge = 5 #"),
    ("type of strict", "endpoints = [1, 256]", "strict = 1"),
    ("number too large", "nid = 3\n", "nid = 70000\n"),
    ("address of an edge", "from = \"1/2\"", "from = \"2\""),
    ("shape of a range", "endpoints = [1, 256]", "endpoints = [1, 2, 3]"),
    ("node-number", "nid = 3\n", "nid = 65535\n"),
    ("node-twice", "nid = 2\n", "nid = 1\n"),
    ("node-name", "nid = 2\n", "nid = 2\nname = \"a\"\n"),
    ("name", "nid = 2\n", "nid = 2\nname = \"two words\"\n"),
    ("name of a process", "name = \"P2\"", "name = \"\""),
    ("range", "endpoints = [1, 256]", "endpoints = [256, 1]"),
    ("endpoint-number", "endpoints = [5, 6]", "endpoints = [5, 6, 0]"),
    ("outside-endpoints", "endpoints = [5, 6]", "endpoints = [5, 6, 257]"),
    ("endpoint-twice", "endpoints = [5, 6]", "endpoints = [5, 6, 5]"),
    ("process-name", "name = \"P2\"", "name = \"P1\""),
    ("no-node", "node = 3", "node = 4"),
    ("shared-endpoint", "endpoints = [5, 6]", "endpoints = [5, 6, 2]"),
    ("edge-node", "to = \"2/2\"", "to = \"4/2\""),
    ("edge-endpoint", "to = \"2/2\"", "to = \"2/9\""),
    ("edge-endpoint elsewhere", "from = \"2/8\"", "from = \"1/8\""),
    ("one-process", "to = \"1/5\"", "to = \"1/2\""),
    ("edge-twice", "from = \"2/1\"\nto = \"1/3\"", "from = \"1/2\"\nto = \"2/2\""),
    ("one-address", "nid = 2\n", "nid = 2\nroutes = [\"udp:192.0.2.1:7100\"]\n"),
    (
        "address-twice",
        "nid = 3\n",
        "nid = 3\nroutes = [\"eth:a/02:00:00:00:00:01\", \"eth:b/02:00:00:00:00:01\"]\n",
    ),
    ("route-on-one-node", "to = \"1/5\"", "to = \"1/5\"\nroute = \"udp\""),
    ("no-such-route", "to = \"2/2\"", "to = \"2/2\"\nroute = \"eth\""),
    ("no-way", "nid = 3\n", "nid = 3\nroutes = [\"sim:3\"]\n"),
    (
        "route",
        "nid = 3\n",
        "nid = 3\nroutes = [\"udp:192.0.2.300:1\", \"udp\", \"shm:\", \"udp:0.0.0.0:5\", \"eth:1\", \"\"]\n",
    ),
    (
        "route of Ethernet",
        "nid = 3\n",
        "nid = 3\nroutes = [\"eth:eth1/01:00:5e:00:00:01\", \"öö:1\", \"x:a b\"]\n",
    ),
    ("no-key", KEY, ""),
    ("no-key of a route that is named", KEY, "[route.udp]\nsecurity = \"encrypt\"\n"),
    ("route-nowhere", KEY, "[security]\nkey = \"cluster.key\"\n\n[route.upd]\nsecurity = \"none\"\n"),
    (
        "users-unproven",
        KEY,
        "[route.udp]\nsecurity = \"none\"\nusers = \"map\"\nmap = [\"1000:1000\"]\n",
    ),
    (
        "user-twice",
        KEY,
        "[security]\nkey = \"cluster.key\"\n\n[route.udp]\nusers = \"map\"\nmap = [\"1500:0\", \"1000-1999:1000\"]\n",
    ),
    ("type of security", KEY, "security = \"encrypt\"\n"),
    ("type of a route", KEY, "route = \"udp\"\n"),
    ("key of security", KEY, "[security]\nkey = \"cluster.key\"\nmode = \"encrypt\"\n"),
    ("missing key", KEY, "[security]\n"),
    ("shape of a key's name", KEY, "[security]\nkey = \"\"\n"),
    ("word of xdp", KEY, "[route.eth]\nxdp = \"yes\"\n\n[route.sim]\nxdp = \"never\"\n"),
    ("word of a route", KEY, "[route.udp]\nsecurity = \"encrypted\"\n\n[route.sim]\nusers = \"squashed\"\n"),
    (
        "speed of a link",
        KEY,
        "[route.udp]\nspeed = \"1Gbps\"\n\n[route.sim]\nspeed = \"10bit\"\n\n[route.eth]\nspeed = 100\n",
    ),
    (
        "users of a map",
        KEY,
        "[route.udp]\nusers = \"map\"\n\n[route.sim]\nmap = [\"5:5\"]\n\n[route.eth]\nusers = \"map\"\nmap = [\"5\", \"7-5:1\"]\n",
    ),
];

/// What `sound` says of security.
const KEY: &str = "[security]\nkey = \"cluster.key\"\n";

/// Figure 1, with addresses and a name where a rule is about these.
fn sound(name: &str) -> String {
    let addresses = ["one-address", "no-such-route", "no-way"];
    let security = BROKEN.iter().any(|(broken, from, _)| *broken == name && *from == KEY);
    let mut text = FIGURE1.to_string();
    if addresses.contains(&name) || security {
        text = text.replacen("[[node]]", &format!("{KEY}\n[[node]]"), 1);
    }
    if name == "node-name" {
        text = text.replace("nid = 1\n", "nid = 1\nname = \"a\"\n");
    }
    if addresses.contains(&name) || security {
        text = text.replace("nid = 1\n", "nid = 1\nroutes = [\"udp:192.0.2.1:7100\", \"sim:1\"]\n");
    }
    if ["no-such-route", "no-way"].contains(&name) || security {
        text = text.replace("nid = 2\n", "nid = 2\nroutes = [\"udp:192.0.2.2:7100\"]\n");
    }
    if name == "one-address" {
        text = text.replace("nid = 3\n", "nid = 3\nroutes = [\"udp:192.0.2.3:7100\"]\n");
    }
    if name == "no-such-route" || security {
        text = text.replace("nid = 3\n", "nid = 3\nroutes = [\"udp:192.0.2.3:7100\"]\n");
    }
    text
}

#[test]
fn every_fault_is_told_with_its_line_and_the_way_out() {
    let mut told = String::new();
    for (name, from, to) in BROKEN {
        let sound = sound(name);
        if sound.contains(KEY) && !["one-address", "no-way"].contains(&name) {
            Graph::parse(&sound).unwrap_or_else(|faults| panic!("{name}: {faults}"));
        }
        assert!(sound.matches(from).count() > 0, "{name}: {from:?} is not in the file");
        let faults = Graph::parse(&sound.replacen(from, to, 1)).expect_err(name);
        let _ = write!(told, "## {name}\n\n{}", faults.told("cluster.toml"));
        for fault in &faults.list {
            assert!(name.contains(fault.word) || fault.word != name, "{name}: told as {}", fault.word);
            assert!(!fault.way_out.is_empty(), "{name}: no way out of {:?}", fault.what);
        }
        // Syntax and shapes go before; a rule of the definition is told under its name.
        if !name.contains(' ') {
            assert!(faults.list.iter().any(|f| f.word == name), "{name}: {:?}", faults.list);
        }
    }
    if std::env::var_os("DP_BLESS").is_some() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/src/tests/golden/faults.txt"), &told).unwrap();
    }
    let golden = include_str!("golden/faults.txt");
    for (now, then) in told.lines().zip(golden.lines()) {
        assert_eq!(now, then, "DP_BLESS=1 writes down what is told now");
    }
    assert_eq!(told.len(), golden.len(), "DP_BLESS=1 writes down what is told now");
}

#[test]
fn several_faults_are_told_at_once_in_the_order_of_the_file() {
    let text = FIGURE1.replace("nid = 2\n", "nid = 1\n").replace("[5, 6]", "[5, 6, 2]").replace("1/6", "1/9");
    let faults = Graph::parse(&text).unwrap_err();
    let words: Vec<_> = faults.list.iter().map(|f| f.word).collect();
    assert_eq!(words, ["node-twice", "shared-endpoint", "no-node", "edge-endpoint"]);
    assert!(faults.list.windows(2).all(|w| w[0].line <= w[1].line));
}

#[test]
fn what_could_not_be_read_is_not_told_as_missing() {
    let text = FIGURE1.replace("name = \"P3\"\n", "").replace("nid = 3\n", "nid = true\n");
    let faults = Graph::parse(&text).unwrap_err();
    assert_eq!(faults.list.iter().map(|f| f.word).collect::<Vec<_>>(), ["type", "missing"]);
}

/// Whether the key's file is there is another's part; what that says stands with the rest.
#[test]
fn the_file_of_the_key_is_looked_at_if_somebody_can() {
    let text = sound("no-key").replace("nid = 2\n", "nid = 2\nname = \"\"\n");
    let mut asked = Vec::new();
    let faults = Graph::parse_with(&text, |name| {
        asked.push(name.to_string());
        Err("it is not there; make it".into())
    });
    let faults = faults.unwrap_err();
    assert_eq!(asked, ["cluster.key"]);
    let told: Vec<_> = faults.list.iter().map(|f| (f.word, &*f.what, &*f.way_out, f.column)).collect();
    assert_eq!(told[0], ("key-file", "\"cluster.key\": it is not there", "make it", 7));
    assert_eq!(told[1].0, "name");
}

/// A graph for drawing needs no key: nothing is sent.
#[test]
fn a_graph_without_addresses_needs_no_key() {
    let graph = Graph::parse(FIGURE1).unwrap();
    assert_eq!((graph.key, graph.trusts.len()), (None, 0));
}

#[test]
fn a_file_without_lines_is_a_graph_without_nodes() {
    assert_eq!(Graph::parse("").unwrap(), Graph::default());
}

#[test]
fn text_of_others_does_not_reach_the_terminal_as_it_is() {
    let faults = Graph::parse("# \u{1b}[31m\nstrict = 1 # \u{1b}[31m\n\"a\u{202e}\" = 1\n").unwrap_err();
    assert!(!faults.told("x").contains('\u{1b}'), "{}", faults.told("x"));
}

/// TOML has escapes for them, so they are where no line of the file shows them.
#[test]
fn names_with_control_characters_are_told_without_these() {
    let node = |nid: u16| {
        format!("[[node]]\nnid = {nid}\nname = \"a\\u001b[31m\"\nroutes = [\"udp:192.0.2.{nid}:1\"]\n")
    };
    let process = |nid: u16| {
        format!("[[process]]\nname = \"p\\u001b[31m\"\nnode = {nid}\nendpoints = [{nid}, {nid}]\n")
    };
    let edge = "[[edge]]\nfrom = \"1/1\"\nto = \"2/2\"\nroute = \"r\\u001b[31m\"\n";
    let nodes = [node(1), node(2), process(1), process(2), edge.into()].concat();
    for text in ["[route.\"a\\u001b[31m\"]\nxdp = \"auto\"\n".to_string(), nodes] {
        let told = Graph::parse(&text).unwrap_err().told("x");
        assert!(told.contains("\\u{1b}[31m"), "{told}");
        assert!(told.chars().all(|c| c == '\n' || !c.is_control()), "{told:?}");
    }
}

/// The checker is for graphs that no file was, too.
#[test]
fn rules_hold_for_graphs_that_programs_make() {
    let node = |nid| Node { nid, name: None, routes: Vec::new() };
    let process =
        |name: &str, nid, endpoints: &[u16]| Process { name: name.into(), nid, endpoints: endpoints.into() };
    let mut graph =
        Graph { nodes: vec![node(1)], processes: vec![process("a", 1, &[1])], ..Graph::default() };
    assert_eq!(graph.broken(), []);
    graph.processes.push(process("b", 1, &[1]));
    assert_eq!(graph.broken()[0].rule.word(), "shared-endpoint");
    graph.processes[1].nid = 2;
    assert_eq!(graph.broken()[0].rule.word(), "no-node");
    graph.nodes.push(node(2));
    assert_eq!(graph.broken(), [], "numbers are a node's own");
}
