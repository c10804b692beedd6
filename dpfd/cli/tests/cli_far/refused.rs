//! What cannot be measured, with a way out.

use std::fs;
use std::path::Path;

use super::two::Two;
use super::SHORT;

#[test]
fn what_cannot_be_measured_is_named_with_a_way_out() {
    let nodes = Two::at_ports("wrong");
    let lat = "bench lat --seconds 0.1 --node";
    let none = ["no gateway", "dp node", "DP_RUNTIME_DIR"];
    nodes.told(&format!("{lat} 2"), 1, &none);
    nodes.told("logp --node 2", 1, &none);
    nodes.told("cost --node 2", 1, &none);
    nodes.told("bench serve", 1, &none);
    let _here = nodes.gateway(1);
    nodes.told(&format!("{lat} 2"), 1, &["node 2 is down", "udp:127.0.0.1:", "dp node"]);
    let there = nodes.gateway(2);
    nodes.told(&format!("{lat} 2"), 1, &["nobody serves at endpoint 2/1990", "`dp bench serve`", "node 2"]);
    nodes.told(&format!("{lat} 2/5000"), 1, &["2/5000", "`dp bench serve --dpid 5000`"]);
    nodes.told(&format!("{lat} 7"), 2, &["node 7", "it has 2", "Usage: dp bench"]);
    nodes.told(&format!("{lat} 1"), 2, &["node 1 is this one", "--node"]);
    nodes.told("cost --node 7", 2, &["node 7", "it has 2", "Usage: dp cost"]);
    nodes.told(&format!("{lat} 2 --route eth"), 2, &["\"eth\"", "node 2", "these do: udp"]);
    nodes.told(&format!("{lat} beta"), 2, &["beta", "2/1990"]);
    for what in ["waiting", "idle", "crowd"] {
        nodes.told(&format!("bench {what} --node 2"), 2, &["--node is for lat, bw and rate"]);
    }
    for other in ["--ways tcp", "--cores 0,1", "--netns x"] {
        nodes.told(&format!("{lat} 2 {other}"), 2, &["cannot be used with", "--node"]);
    }
    nodes.told("bench lat --route udp", 2, &["--node"]);
    nodes.told("bench lat --dpid 5000", 2, &["--dpid is for serve"]);
    for other in
        ["--size 8", "--json", "--cores 0,1", "--netns x", "--seconds 1", "--rounds 2", "--endpoints 3"]
    {
        nodes.told(&format!("bench serve {other}"), 2, &["serve takes --dpid alone"]);
    }
    let strange = nodes.dp(1, "bench lat --node 2").env("DP_NID", "5").output().unwrap();
    let said = String::from_utf8_lossy(&strange.stderr).into_owned();
    assert!(strange.status.code() == Some(1) && said.contains("set DP_NID=1"), "{said}");
    // What was asked in vain before is no measurement when somebody serves at last.
    let served = nodes.serve(2, "");
    nodes.report(&format!("bench lat --node 2 {SHORT}"));
    let second = nodes.dp(2, "bench serve").output().unwrap();
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(second.status.code() == Some(1) && said.contains("--dpid"), "{said}");
    drop(served);
    drop(there);
}

/// Endpoints of a measurement have any numbers.
#[test]
fn a_strict_graph_is_named_as_what_refuses() {
    let nodes = Two::at_ports("strict");
    let graph = nodes.folder.path.join("graph.toml");
    let lines = fs::read_to_string(&graph).unwrap();
    fs::write(&graph, format!("strict = true\n{lines}")).unwrap();
    let _gateways = [nodes.gateway(1), nodes.gateway(2)];
    let _served = nodes.serve(2, "");
    nodes.told("bench lat --node 2 --seconds 0.1", 1, &["endpoint 2/1990", "where the graph is strict"]);
}

/// The registry's folder is what the gateway of this node is found by.
#[test]
fn a_gateway_that_ended_is_none() {
    let nodes = Two::at_ports("ended");
    drop(nodes.gateway(1));
    let folder: &Path = &nodes.registry(1);
    assert!(folder.exists());
    let (code, _, said) = nodes.ended("bench lat --node 2");
    assert!(code == Some(1) && said.contains("gateway"), "{said}");
}
