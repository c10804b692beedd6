//! Nodes that receive by AF_XDP, on a cable between two network namespaces. Needs root.

use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use dpfd::Addr;
use nix::sys::signal::{kill, Signal};

use crate::inside::{fork_a_sleeper, sleeper};
use crate::kit::{
    echo, exchange, exchange_by, namespaces_are_possible, open, skip, until, Child, Network, Node,
};

const ECHO: u16 = 7000;

fn there(nid: u16) -> Addr {
    Addr { nid, dpid: ECHO }
}

/// Nodes 1 and 2, and their networks.
fn pair(xdp: &str) -> ([Network; 2], [Node; 2]) {
    let networks = [Network::new(), Network::new()];
    networks[0].cable("dp0", &networks[1], "dp0");
    let mut graph = format!("[route.eth]\nxdp = \"{xdp}\"\n");
    for n in 1..=2 {
        let network = &networks[n - 1];
        network.ip(&format!("link set dp0 address 02:00:00:00:00:0{n}"));
        network.ip(&format!("addr add 10.0.0.{n}/24 dev dp0"));
        network.ip("link set dp0 up");
        graph += &format!("[[node]]\nnid = {n}\nroutes = [\"eth:dp0/02:00:00:00:00:0{n}\"]\n");
    }
    networks.iter().for_each(|network| network.up("dp0"));
    let nodes = [1, 2].map(|n| Node::new(n, &graph, Some(&networks[usize::from(n) - 1])));
    (networks, nodes)
}

fn means(node: &Node) -> String {
    let routes = node.status().expect("it runs").routes;
    routes.into_iter().find_map(|route| route.means).expect("by which means")
}

fn has_program(network: &Network) -> bool {
    network.ip("link show dp0").contains("prog/xdp")
}

/// Whether gateways can receive so here; says so if not.
fn is_possible(test: &str) -> bool {
    if !namespaces_are_possible(test) {
        return false;
    }
    let (networks, nodes) = pair("auto");
    networks.iter().for_each(|network| drop(network.ip("addr flush dev dp0 scope global")));
    let gateway = nodes[0].gateway();
    let means = means(&nodes[0]);
    gateway.kill();
    let why = ["AF_XDP needs", "this kernel has no"].iter().any(|word| means.contains(word));
    if why {
        skip(&format!("dp-node {test}: {means}"));
    } else {
        assert!(means.starts_with("xdp: in the interface's driver"), "{means}");
    }
    !why
}

#[test]
fn messages_come_by_af_xdp_whatever_happens_to_gateways_and_cables() {
    if !is_possible("messages by AF_XDP") {
        return;
    }
    let (networks, nodes) = pair("always");
    let mut gateways = nodes.each_ref().map(Node::gateway).map(Some);
    for (node, network) in nodes.iter().zip(&networks) {
        assert!(means(node).starts_with("xdp: "), "{}", means(node));
        assert!(has_program(network));
    }
    let echoes = nodes[1].run(|| echo(ECHO));
    nodes[0].run(|| exchange(there(2), 200)).ok();
    let end = Instant::now() + Duration::from_secs(1);
    let going = nodes[0].run(|| {
        let e = open(0);
        while Instant::now() < end {
            exchange_by(&e, there(2), 16);
        }
        true
    });
    networks[1].ip("link set dp0 down");
    std::thread::sleep(Duration::from_millis(200));
    networks[1].up("dp0");
    going.ok();
    // Nothing is on its way: answers that the killed one had taken would be gone with it.
    gateways[1].take().expect("it runs").kill();
    until("no program without its gateway", || !has_program(&networks[1]));
    gateways[1] = Some(nodes[1].gateway());
    nodes[0].run(|| exchange(there(2), 100)).ok();
    assert!(means(&nodes[1]).starts_with("xdp: "), "{}", means(&nodes[1]));
    let received = |node: &Node| node.status().expect("it runs").routes[0].received;
    assert!(received(&nodes[1]) > 0);
    echoes.kill();
    for gateway in gateways.into_iter().flatten() {
        gateway.terminate();
        gateway.ok();
    }
    for network in &networks {
        assert!(!has_program(network));
    }
}

/// Else frames went on to a socket that nobody empties.
#[test]
fn a_child_of_a_program_keeps_no_frames_from_the_next_gateway() {
    if !is_possible("AF_XDP and children") {
        return;
    }
    let (networks, nodes) = pair("always");
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    nodes[0]
        .run(|| {
            let _gateway = nodes[0].inside();
            fork_a_sleeper(&theirs);
            true
        })
        .ok();
    let sleeper = sleeper(&ours);
    until("no program", || !has_program(&networks[0]));
    let gateways: Vec<Child> = nodes.iter().map(Node::gateway).collect();
    assert!(means(&nodes[0]).starts_with("xdp: "), "{}", means(&nodes[0]));
    let echoes = nodes[1].run(|| echo(ECHO));
    nodes[0].run(|| exchange(there(2), 100)).ok();
    kill(sleeper, Signal::SIGKILL).expect("it lives");
    echoes.kill();
    gateways.into_iter().for_each(Child::kill);
}

#[test]
fn a_gateway_that_is_to_use_af_xdp_and_cannot_says_why() {
    if !is_possible("AF_XDP that cannot be") {
        return;
    }
    let (networks, nodes) = pair("always");
    networks[0].ip("link set dp0 mtu 9000");
    let failed = nodes[0].try_gateway();
    assert!(
        failed.iter().any(|text| text.contains("no AF_XDP, which is asked for: frames of 9000 bytes")),
        "{failed:?}"
    );
    assert!(failed.iter().any(|text| text.contains("no route of node 1 could be opened")), "{failed:?}");
    assert!(!has_program(&networks[0]));
}

/// One with an address of its own has others' frames, which a program would slow down.
#[test]
fn an_interface_that_others_use_is_left_to_them() {
    if !is_possible("interfaces of others") {
        return;
    }
    let (networks, nodes) = pair("auto");
    let gateways: Vec<Child> = nodes.iter().map(Node::gateway).collect();
    assert!(means(&nodes[0]).starts_with("packet: the interface has an IP address"), "{}", means(&nodes[0]));
    assert!(!has_program(&networks[0]));
    gateways.into_iter().for_each(Child::kill);
}
