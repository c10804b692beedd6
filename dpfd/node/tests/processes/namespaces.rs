//! Nodes that are network namespaces, joined by veth pairs and a bridge. Needs root.

use std::time::Duration;

use dpfd::Addr;

use crate::kit::{
    echo, exchange, in_time, namespaces_are_possible, number_of, numbered, open, receive_all, until, Child,
    Network, Node, SEALED,
};

const ECHO: u16 = 7000;

/// Node N of so many, each on a cable to one bridge, at 10.0.0.N and 02:00:00:00:00:0N.
pub struct Cluster {
    pub networks: Vec<Network>,
    switch: Network,
    pub nodes: Vec<Node>,
}

impl Cluster {
    /// `routes` of each node, where `N` stands for its number.
    pub fn new(count: u16, routes: &str) -> Cluster {
        let node =
            |n: u16| format!("[[node]]\nnid = {n}\nroutes = [{}]\n", routes.replace('N', &n.to_string()));
        let graph: String = (1..=count).map(node).collect();
        // A key where one is needed: a graph whose routes are all trusted names none.
        let graph = if routes.contains("udp:") { SEALED.to_string() + &graph } else { graph };
        let switch = Network::new();
        switch.ip("link add bridge type bridge");
        switch.up_bridge();
        let networks: Vec<Network> = (1..=count)
            .map(|n| {
                let network = Network::new();
                network.connect(n, &switch);
                network
            })
            .collect();
        let nodes = (1..=count).zip(&networks).map(|(n, network)| Node::new(n, &graph, Some(network)));
        Cluster { nodes: nodes.collect(), switch, networks }
    }
}

impl Network {
    /// Makes interface dp0 of node N, on the cable to the bridge.
    fn connect(&self, n: u16, switch: &Network) {
        self.cable("dp0", switch, &format!("port{n}"));
        switch.ip(&format!("link set port{n} master bridge"));
        self.ip(&format!("link set dp0 address 02:00:00:00:00:0{n}"));
        self.ip(&format!("addr add 10.0.0.{n}/24 dev dp0"));
        switch.ip(&format!("link set port{n} up"));
        self.up("dp0");
    }

    fn up_bridge(&self) {
        self.ip("link set bridge type bridge forward_delay 0");
        self.ip("link set bridge up");
    }
}

fn there(nid: u16) -> Addr {
    Addr { nid, dpid: ECHO }
}

#[test]
fn three_nodes_on_a_bridge_over_udp_and_ethernet() {
    if !namespaces_are_possible("three nodes") {
        return;
    }
    for routes in ["\"udp:10.0.0.N:7411\"", "\"eth:dp0/02:00:00:00:00:0N\""] {
        let cluster = Cluster::new(3, routes);
        let gateways: Vec<Child> = cluster.nodes.iter().map(Node::gateway).collect();
        let answers: Vec<Child> = cluster.nodes.iter().map(|node| node.run(|| echo(ECHO))).collect();
        let pairs = [(0, 2), (1, 3), (2, 1), (0, 3)];
        let clients: Vec<Child> =
            pairs.iter().map(|(from, to)| cluster.nodes[*from].run(|| exchange(there(*to), 100))).collect();
        Child::all_ok(clients);
        for node in &cluster.nodes {
            let status = node.status().expect("it runs");
            assert_eq!((status.unknown, status.unsound, status.foreign), (0, 0, 0), "{routes}");
        }
        answers.into_iter().chain(gateways).for_each(Child::kill);
    }
}

#[test]
fn programs_with_gateways_inside_over_udp_and_ethernet() {
    if !namespaces_are_possible("gateways inside") {
        return;
    }
    for routes in ["\"udp:10.0.0.N:7411\"", "\"eth:dp0/02:00:00:00:00:0N\", \"udp:10.0.0.N:7411\""] {
        let cluster = Cluster::new(2, routes);
        let [one, two] = &cluster.nodes[..] else { unreachable!() };
        let answers = two.run(|| {
            let _gateway = two.inside();
            echo(ECHO)
        });
        one.run(|| {
            let _gateway = one.inside();
            exchange(there(2), 300)
        })
        .ok();
        let status = two.status().expect("it runs");
        assert_eq!((status.unknown, status.unsound, status.foreign), (0, 0, 0), "{routes}");
        answers.kill();
    }
}

fn receive_some(e: &dpfd::Endpoint, some: std::ops::Range<u64>) {
    some.for_each(|i| assert!(e.recv().expect("an answer").to_vec() == numbered(i, 64), "message {i}"));
}

/// Two programs, one of which names the second route.
#[test]
fn a_program_names_the_route_of_its_endpoint() {
    if !namespaces_are_possible("named routes") {
        return;
    }
    let cluster = Cluster::new(2, "\"udp:10.0.0.N:7411\", \"eth:dp0/02:00:00:00:00:0N\"");
    let mut gateways: Vec<Child> = cluster.nodes.iter().map(Node::gateway).collect();
    let answers = cluster.nodes[1].run(|| echo(ECHO));
    let sent =
        || cluster.nodes[0].status().expect("it runs").routes.iter().map(|r| r.sent).collect::<Vec<_>>();
    let exchange_by = |route: Option<&str>| {
        let before = sent();
        cluster.nodes[0]
            .run(|| {
                let e = open(0);
                let error = e.set_route(Some("wireless")).expect_err("there is none");
                assert_eq!(error.errno(), nix::libc::ENOENT);
                assert!(error.to_string().contains("eth, udp"), "{error}");
                e.set_route(route).expect("a route");
                crate::kit::exchange_by(&e, there(2), 200)
            })
            .ok();
        let after = sent();
        [after[0] - before[0], after[1] - before[1]]
    };
    let (usual, named) = (exchange_by(None), exchange_by(Some("eth")));
    assert!(usual[0] > 200 && usual[1] < 20, "{usual:?}");
    assert!(named[0] < 20 && named[1] > 200, "{named:?}");
    // Message by message, of one edge: in order, and each by the route that it names.
    let before = sent();
    cluster.nodes[0]
        .run(|| {
            let e = open(0);
            for i in 0..400u64 {
                let message = numbered(i, 64);
                let pieces = [std::io::IoSlice::new(&message)];
                let parts = dpfd::Parts::new(&pieces);
                let parts = if i % 2 == 0 { parts } else { parts.by_route("eth") };
                e.send_parts_to(parts, there(2)).expect("room");
                if i % 8 == 7 {
                    receive_some(&e, i - 7..i + 1);
                }
            }
            true
        })
        .ok();
    let after = sent();
    let turns = [after[0] - before[0], after[1] - before[1]];
    assert!(turns.iter().all(|frames| *frames > 150), "{turns:?}");
    // The next gateway is told again.
    let before = sent();
    let (mut ours, theirs) = std::os::unix::net::UnixStream::pair().expect("a pair");
    let client = cluster.nodes[0].run(|| {
        let e = open(0);
        e.set_route(Some("eth")).expect("a route");
        assert!(crate::kit::exchange_by(&e, there(2), 8));
        std::io::Write::write_all(&mut &theirs, b"x").expect("the test");
        std::io::Read::read_exact(&mut &theirs, &mut [0]).expect("the test");
        crate::kit::exchange_by(&e, there(2), 200)
    });
    std::io::Read::read_exact(&mut ours, &mut [0]).expect("the client");
    assert!(sent()[1] > before[1]);
    gateways.remove(0).kill();
    gateways.push(cluster.nodes[0].gateway());
    std::io::Write::write_all(&mut ours, b"x").expect("the client");
    client.ok();
    let after = sent();
    assert!(after[0] < 20 && after[1] > 200, "{after:?}");
    gateways.into_iter().chain([answers]).for_each(Child::kill);
}

/// A program that goes raw: what comes is whole and in order, and both gateways count.
#[test]
fn raw_messages_wait_for_nobody_and_are_counted() {
    if !namespaces_are_possible("raw messages") {
        return;
    }
    const COUNT: u64 = 2000;
    let cluster = Cluster::new(2, "\"udp:10.0.0.N:7411\"");
    let gateways: Vec<Child> = cluster.nodes.iter().map(Node::gateway).collect();
    let receiver = cluster.nodes[1].run(|| {
        let (e, mut next) = (open(ECHO), 0);
        while next < COUNT {
            let bytes = e.recv().expect("a message").to_vec();
            let i = number_of(&bytes).expect("a number");
            assert!(i >= next && bytes == numbered(i, 2000), "message {i} behind {next}");
            next = i + 1;
        }
        true
    });
    let sender = cluster.nodes[0].run(|| {
        let e = open(0);
        e.set_raw();
        for i in 0.. {
            // The last one until it came.
            e.send_to(&numbered(i.min(COUNT - 1) + i / COUNT, 2000), there(2)).expect("room");
            // The first one may still go reliably, and come behind others that do not (dp_option(3)). It has the other node asked, which
            // may not listen yet; it is asked again a second later, and until it answers raw messages go nowhere.
            let pause = if i == 0 { 2500 } else { u64::from(i % 16 == 0) };
            std::thread::sleep(Duration::from_millis(pause));
        }
        false
    });
    receiver.ok();
    sender.kill();
    let raw = |n: usize| {
        let status = cluster.nodes[n].status().expect("it runs");
        status.nodes[0].flows.iter().find_map(|flow| flow.raw).expect("it went raw")
    };
    let (here, there) = (raw(0), raw(1));
    assert!(here.messages_out >= COUNT / 2 && here.messages_out + here.dropped >= COUNT - 100, "{here:?}");
    assert!(
        there.messages_in > COUNT / 2 && there.messages_in + there.lost <= here.messages_out,
        "{there:?}"
    );
    gateways.into_iter().for_each(Child::kill);
}

#[test]
fn a_cable_is_pulled_and_put_back_and_nothing_is_lost() {
    if !namespaces_are_possible("cable") {
        return;
    }
    const COUNT: u64 = 30_000;
    let cluster = Cluster::new(2, "\"eth:dp0/02:00:00:00:00:0N\", \"udp:10.1.0.N:7411\"");
    let [left, right] = &cluster.networks[..] else { unreachable!() };
    left.cable("dp1", right, "dp1");
    for (n, network) in [(1, left), (2, right)] {
        network.ip(&format!("addr add 10.1.0.{n}/24 dev dp1"));
        network.ip("link set dp1 up");
    }
    left.up("dp1");
    let gateways: Vec<Child> = cluster.nodes.iter().map(Node::gateway).collect();
    let len = |i: u64| 16 + (i * 97 % 2000) as usize;
    let receiver = cluster.nodes[1].run(|| {
        receive_all(&open(ECHO), COUNT, len);
        true
    });
    let sender = cluster.nodes[0].run(|| {
        let e = open(0);
        for i in 0..COUNT {
            e.send_to(&numbered(i, len(i)), there(2)).expect("room");
            if i % 100 == 0 {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        std::thread::sleep(Duration::from_millis(200));
        true
    });
    let by = || cluster.nodes[0].status().expect("it runs").nodes[0].by.clone().unwrap_or_default();
    until("the first route", || by().starts_with("eth:"));
    // Once at the far side of the bridge, of which nobody is told, and once here.
    for (network, interface) in [(&cluster.switch, "port2"), (left, "dp0")] {
        network.ip(&format!("link set {interface} down"));
        until("the second route", || by().starts_with("udp:"));
        std::thread::sleep(Duration::from_millis(300));
        network.ip(&format!("link set {interface} up"));
        until("the first route again", || by().starts_with("eth:"));
    }
    Child::all_ok(vec![sender, receiver]);
    gateways.into_iter().for_each(Child::kill);
}

/// Nobody sends anything meanwhile, so nothing else has the gateway look at its interface.
#[test]
fn an_interface_that_is_made_anew_is_found_by_a_gateway_that_has_nothing_to_do() {
    if !namespaces_are_possible("interface made anew") {
        return;
    }
    for inside in [false, true] {
        let cluster = Cluster::new(2, "\"eth:dp0/02:00:00:00:00:0N\"");
        let [one, two] = &cluster.nodes[..] else { unreachable!() };
        let here = one.gateway();
        let there_ = (!inside).then(|| two.gateway());
        let answers = two.run(|| {
            let _gateway = inside.then(|| two.inside());
            echo(ECHO)
        });
        until("a gateway", || two.status().is_some());
        std::thread::sleep(Duration::from_millis(1500));
        cluster.networks[1].ip("link del dp0");
        std::thread::sleep(Duration::from_millis(100));
        cluster.networks[1].connect(2, &cluster.switch);
        one.run(|| in_time(|| exchange(there(2), 50))).ok();
        there_.into_iter().chain([answers, here]).for_each(Child::kill);
    }
}

/// Interfaces of both nodes get another MTU while messages go both ways: what was on its way is cut anew.
#[test]
fn a_path_that_becomes_shorter_stops_nobody() {
    if !namespaces_are_possible("shorter path") {
        return;
    }
    for routes in ["\"udp:10.0.0.N:7411\"", "\"eth:dp0/02:00:00:00:00:0N\""] {
        let cluster = Cluster::new(2, routes);
        let gateways: Vec<Child> = cluster.nodes.iter().map(Node::gateway).collect();
        let answers = cluster.nodes[1].run(|| echo(ECHO));
        let client = cluster.nodes[0].run(|| exchange(there(2), 1500));
        for mtu in [1000, 600, 1500, 700] {
            std::thread::sleep(Duration::from_millis(300));
            cluster.networks.iter().for_each(|network| drop(network.ip(&format!("link set dp0 mtu {mtu}"))));
        }
        client.ok();
        let flows = &cluster.nodes[0].status().expect("it runs").nodes[0].flows;
        assert!(
            flows.iter().map(|flow| flow.restarts).sum::<u64>() > 0,
            "{routes}: it was not in use: {flows:?}"
        );
        gateways.into_iter().chain([answers]).for_each(Child::kill);
    }
}
