//! Whole gateways over IPv6: by addresses of a network, and by those of a link alone. Needs root.

use std::time::Duration;

use crate::kit::{echo, exchange, in_time, namespaces_are_possible, until, Child, Network, Node, SEALED};
use crate::{there, ECHO};

/// Nodes 1 and 2 on a cable, where the interface has another number on each.
fn networks() -> [Network; 2] {
    let [left, right] = [Network::new(), Network::new()];
    right.ip("link add before type veth peer name behind");
    left.cable("dp0", &right, "dp0");
    for (n, network) in [(1, &left), (2, &right)] {
        // Nobody else has them; to find that out takes a second.
        network.ip(&format!("addr add fd00::{n}/64 dev dp0 nodad"));
        network.ip(&format!("addr add fe80::{n}/64 dev dp0 nodad"));
        network.ip("link set dp0 up");
    }
    left.up("dp0");
    right.up("dp0");
    [left, right]
}

/// The number of an interface.
fn number(network: &Network) -> u32 {
    let told = network.ip("-o link show dp0");
    told.split(':').next().and_then(|number| number.parse().ok()).expect("a number")
}

fn nodes(networks: &[Network; 2], addresses: [String; 2]) -> [Node; 2] {
    let node = |n: usize| format!("[[node]]\nnid = {}\nroutes = [\"{}\"]\n", n + 1, addresses[n]);
    let graph = format!("{SEALED}{}{}", node(0), node(1));
    [0, 1].map(|n| Node::new(n as u16 + 1, &graph, Some(&networks[n])))
}

#[test]
fn gateways_over_ipv6_by_addresses_of_a_network_and_of_a_link() {
    if !namespaces_are_possible("IPv6") {
        return;
    }
    let networks = networks();
    let numbers = [number(&networks[0]), number(&networks[1])];
    assert_ne!(numbers[0], numbers[1]);
    let of_network = [1, 2].map(|n| format!("udp:[fd00::{n}]:7411"));
    let of_link = [0, 1].map(|n| format!("udp:[fe80::{}%{}]:7411", n + 1, numbers[n]));
    let as_seen = format!("udp:[fe80::2%{}]:7411", numbers[0]);
    for (addresses, reached) in [(of_network.clone(), of_network[1].clone()), (of_link, as_seen)] {
        for inside in [false, true] {
            let [one, two] = nodes(&networks, addresses.clone());
            let gateways: Vec<Child> = match inside {
                false => vec![one.gateway(), two.gateway()],
                true => Vec::new(),
            };
            let answers = two.run(|| {
                let _gateway = inside.then(|| two.inside());
                echo(ECHO)
            });
            until("a gateway", || two.status().is_some());
            let client = one.run(|| {
                let _gateway = inside.then(|| one.inside());
                in_time(|| exchange(there(2), 600))
            });
            let mut by = None;
            for mtu in [1400, 1280, 1500] {
                until("the route", || {
                    let status = one.status();
                    by = status.and_then(|status| status.nodes[0].by.clone()).or(by.take());
                    by.is_some()
                });
                networks.iter().for_each(|network| drop(network.ip(&format!("link set dp0 mtu {mtu}"))));
                std::thread::sleep(Duration::from_millis(100));
            }
            client.ok();
            assert_eq!(by.as_ref(), Some(&reached));
            let status = two.status().expect("it runs");
            assert_eq!((status.unknown, status.unsound, status.foreign), (0, 0, 0), "{reached}");
            gateways.into_iter().chain([answers]).for_each(Child::kill);
        }
    }
}

/// Of an address without its interface nobody can send from.
#[test]
fn a_link_local_address_on_an_interface_that_is_not_there_is_told_of() {
    if !namespaces_are_possible("IPv6 without an interface") {
        return;
    }
    let networks = networks();
    let [one, _] = nodes(&networks, [1, 2].map(|n| format!("udp:[fe80::{n}%4711]:7411")));
    let said = one.try_gateway();
    assert!(
        said[0].starts_with("udp:[fe80::1%4711]:7411: ") && said[0].contains("No such device"),
        "{said:?}"
    );
    assert!(said[1].contains("no route of node 1 could be opened"), "{said:?}");
}
