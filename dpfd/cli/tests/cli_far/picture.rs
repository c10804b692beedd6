//! `dp graph live` of two nodes.

use std::fs;
use std::process::Stdio;

use serde_json::Value;

use super::kit::{namespaces_are_possible, until};
use super::page;
use super::two::{Running, Two};

/// `dp graph live` of a node.
fn picture(nodes: &Two, nid: u16, words: &str) -> Value {
    let out = nodes.dp(nid, &format!("graph live {words} --json")).output().unwrap();
    assert!(out.status.success() && out.stderr.is_empty(), "{}", String::from_utf8_lossy(&out.stderr));
    let picture = serde_json::from_slice(&out.stdout).unwrap();
    page::documents(include_str!("../../../../man/dp-graph.1"), &picture, &[]);
    picture
}

/// The mark of an edge.
fn edge<'a>(picture: &'a Value, from: &str, to: &str) -> Option<&'a str> {
    let mut edges = picture["edges"].as_array().unwrap().iter();
    edges.find(|edge| edge["from"] == from && edge["to"] == to)?["mark"].as_str()
}

/// The mark of an endpoint.
fn endpoint(picture: &Value, nid: u16, dpid: u16) -> Option<String> {
    let processes = picture["processes"].as_array().unwrap().iter().filter(|process| process["node"] == nid);
    let mut endpoints = processes.flat_map(|process| process["endpoints"].as_array().unwrap());
    Some(endpoints.find(|endpoint| endpoint["dpid"] == dpid)?["mark"].as_str()?.to_string())
}

#[test]
fn the_picture_of_what_runs_has_the_ends_on_the_other_node() {
    if !namespaces_are_possible("dp graph live over routes") {
        return;
    }
    let nodes = Two::on_cables("picture");
    let _gateways = [nodes.gateway(1), nodes.gateway(2)];
    let reads = |nid, dpid: u16| {
        Running(nodes.dp(nid, &format!("recv {dpid} --count 9")).stdout(Stdio::null()).spawn().unwrap())
    };
    let _receivers = [reads(2, 7001), reads(1, 7003)];
    let sends = |nid, to: &str, from: u16| {
        let mut send = nodes.dp(nid, &format!("send {to} --lines --from {from}"));
        let mut send = Running(send.stdin(Stdio::piped()).spawn().unwrap());
        std::io::Write::write_all(send.0.stdin.as_mut().unwrap(), b"a line\n").unwrap();
        send
    };
    let _senders = [sends(1, "2/7001", 7002), sends(2, "1/7003", 7004)];
    let all = |nid, words: &str, mark: &str| {
        let picture = picture(&nodes, nid, words);
        let edges = [("1/7002", "2/7001"), ("2/7004", "1/7003")].map(|(from, to)| edge(&picture, from, to));
        let ends = [(2, 7001), (1, 7002), (1, 7003), (2, 7004)];
        edges == [Some(mark); 2]
            && ends.iter().all(|&(nid, dpid)| endpoint(&picture, nid, dpid).as_deref() == Some(mark))
    };
    for nid in [1, 2] {
        until("both edges with their ends", || all(nid, "", "agreed"));
    }
    let picture_of_one = picture(&nodes, 1, "");
    let [other] = &picture_of_one["others"].as_array().unwrap()[..] else { panic!("{picture_of_one}") };
    assert_eq!((&other["nid"], &other["name"], &other["up"]), (&2.into(), &"beta".into(), &true.into()));
    assert!(other["unheard_ns"].as_u64().is_some_and(|ns| ns < 60_000_000_000), "{other}");

    // Beside a file with the one edge, and an endpoint that nobody opened.
    let file = nodes.folder.path.join("compared.toml");
    let process = |name, nid, endpoints| {
        format!("[[process]]\nname = \"{name}\"\nnode = {nid}\nendpoints = {endpoints}\n")
    };
    let text = "[[node]]\nnid = 1\n[[node]]\nnid = 2\n".to_string()
        + &process("a", 1, "[7002, 7003]")
        + &process("b", 2, "[7001, 7009]")
        + "[[edge]]\nfrom = \"1/7002\"\nto = \"2/7001\"\n";
    fs::write(&file, text).unwrap();
    let beside = picture(&nodes, 1, file.to_str().unwrap());
    assert_eq!(edge(&beside, "1/7002", "2/7001"), Some("agreed"));
    assert_eq!(edge(&beside, "2/7004", "1/7003"), Some("running-only"));
    let ends = [7001, 7009, 7004].map(|dpid| endpoint(&beside, 2, dpid).unwrap());
    assert_eq!(ends, ["agreed", "unseen", "running-only"]);
}
