use super::*;

const THREE: &str = r#"
[route.udp]
security = "none"
[[node]]
nid = 1
routes = ["udp:192.0.2.1:7411", "eth:eth0/02:00:00:00:00:01"]
[[node]]
nid = 2
name = "beta"
routes = ["eth:eth1/02:00:00:00:00:02", "udp:[2001:db8::2]:7411", "udp:192.0.2.2:7411"]
[[node]]
nid = 3
routes = ["udp:[2001:db8::3]:7411"]
[[node]]
nid = 4
"#;

fn graph() -> Graph {
    Graph::parse(THREE).unwrap()
}

#[test]
fn nodes_are_reached_by_the_routes_that_both_have_in_the_order_of_the_other() {
    let nart = Nart::of(&graph(), 1).unwrap();
    let routes = &graph().nodes[1].routes;
    assert_eq!(nart.own.len(), 2);
    let beta = Other {
        nid: 2,
        name: Some("beta".into()),
        ways: vec![(1, routes[0], Security::None), (0, routes[2], Security::None)],
        wishes: Vec::new(),
        edges: None,
    };
    assert_eq!(nart.others, [beta], "nodes 3 and 4 have nothing in common with it");
    assert_eq!(Nart::of(&graph(), 3).unwrap().others.len(), 1, "node 2, over IPv6");
}

#[test]
fn of_two_networks_of_a_kind_each_is_its_own_way() {
    let text = r#"
[route.udp]
security = "none"
[[node]]
nid = 1
routes = ["udp:10.0.0.1:7411", "udp:192.168.0.1:7411", "udp:172.16.0.1:7411"]
[[node]]
nid = 2
routes = ["udp:10.0.0.2:7411", "udp:192.168.0.2:7411"]
"#;
    let graph = Graph::parse(text).unwrap();
    for (here, there) in [(1, 2), (2, 1)] {
        let nart = Nart::of(&graph, here).unwrap();
        let (own, other) = (&nart.own, &graph.node(there).unwrap().routes);
        let ways: Vec<_> = nart.others[0].ways.iter().map(|way| (own[way.0], way.1)).collect();
        assert_eq!(ways, [(own[0], other[0]), (own[1], other[1])]);
    }
}

#[test]
fn link_local_nodes_are_behind_ones_own_interface() {
    let text = r#"
[route.udp]
security = "none"
[[node]]
nid = 1
routes = ["udp:[2001:db8::1]:7411", "udp:[fe80::1%7]:7411"]
[[node]]
nid = 2
routes = ["udp:[fe80::2%3]:7411", "udp:[2001:db8::2]:7411"]
"#;
    let graph = Graph::parse(text).unwrap();
    for (here, expected) in [
        (1, [(1, "udp:[fe80::2%7]:7411"), (0, "udp:[2001:db8::2]:7411")]),
        (2, [(1, "udp:[2001:db8::1]:7411"), (0, "udp:[fe80::1%3]:7411")]),
    ] {
        let nart = Nart::of(&graph, here).unwrap();
        let ways: Vec<_> = nart.others[0].ways.iter().map(|way| (way.0, way.1.to_string())).collect();
        assert_eq!(ways, expected.map(|(own, address)| (own, address.to_string())));
    }
}

#[test]
fn a_node_that_cannot_be_is_told_by_name() {
    assert_eq!(Nart::of(&graph(), 4), Err(NoNart::NoRoutes(4)));
    let error = Nart::of(&graph(), 5).unwrap_err().to_string();
    assert!(error.contains("node 5") && error.contains("1, 2, 3, 4"), "{error}");
}

#[test]
fn what_frames_are_to_be_is_the_routes() {
    let with_key = format!("[security]\nkey = \"a.key\"\n{}", THREE.replace("\"none\"", "\"encrypt\""));
    let nart = Nart::of(&Graph::parse(&with_key).unwrap(), 1).unwrap();
    let of_beta: Vec<Security> = nart.others[0].ways.iter().map(|way| way.2).collect();
    assert_eq!(of_beta, [Security::None, Security::Encrypt], "eth is trusted if nothing else is said");
    assert!(nart.is_sealed() && !Nart::of(&graph(), 1).unwrap().is_sealed());
}

#[test]
fn edges_name_routes_and_routes_map_users() {
    let text = THREE
        .replace("security = \"none\"", "users = \"map\"\nmap = [\"1000:5\"]\nspeed = \"2.5Gbit\"")
        + r#"
[security]
key = "a.key"
[[process]]
name = "a"
node = 1
endpoints = [5001, 5002]
[[process]]
name = "b"
node = 2
endpoints = [5001, 5002]
[[edge]]
from = "1/5001"
to = "2/5001"
route = "udp"
[[edge]]
from = "1/5002"
to = "2/5001"
[[edge]]
from = "1/5001"
to = "2/5002"
raw = true
"#;
    let graph = Graph::parse(&text).unwrap();
    let nart = Nart::of(&graph, 1).unwrap();
    let routed = EdgeWish { ends: Ends { here: 5001, there: 5001 }, route: Some("udp".into()), raw: false };
    let raw = EdgeWish { ends: Ends { here: 5001, there: 5002 }, route: None, raw: true };
    assert_eq!(nart.others[0].wishes, [routed, raw]);
    assert!(Nart::of(&graph, 2).unwrap().others[0].wishes.is_empty(), "the way back is another edge");
    assert_eq!(nart.users("udp").here(1000), 5);
    assert_eq!(nart.users("eth"), Users::Squash);
    assert_eq!(nart.speed("udp").map(Speed::bytes), Some(312_500_000));
    assert_eq!(nart.speed("eth"), None);
}

#[test]
fn the_machine_is_the_node_whose_addresses_it_has() {
    let mut machine = Machine { ips: vec!["127.0.0.1".parse().unwrap()], macs: vec![[2, 0, 0, 0, 0, 2]] };
    assert_eq!(machine.node_of(&graph()), Ok(2));
    machine.ips.push("192.0.2.1".parse().unwrap());
    assert_eq!(machine.node_of(&graph()), Err(NoNart::Ambiguous("1, 2".into())));
    assert_eq!(Machine::default().node_of(&graph()), Err(NoNart::NotHere));
    Machine::look().expect("this machine has interfaces");
}

#[test]
fn a_strict_graph_names_the_edges_of_each_direction() {
    let text = "[route.udp]\nsecurity = \"none\"\n[[node]]\nnid = 1\nroutes = [\"udp:192.0.2.1:7411\"]\n\
                [[node]]\nnid = 2\nroutes = [\"udp:192.0.2.2:7411\"]\n\
                [[process]]\nname = \"a\"\nnode = 1\nendpoints = [10, 11]\n\
                [[process]]\nname = \"b\"\nnode = 2\nendpoints = [20]\n\
                [[edge]]\nfrom = \"1/10\"\nto = \"2/20\"\n[[edge]]\nfrom = \"2/20\"\nto = \"1/11\"\n";
    let of = |text: &str, nid| Nart::of(&Graph::parse(text).unwrap(), nid).unwrap();
    assert_eq!((of(text, 1).others[0].edges.clone(), of(text, 1).strict_edges()), (None, None));
    let strict = format!("strict = true\n{text}");
    let edges = of(&strict, 1).others[0].edges.clone().unwrap();
    assert_eq!(edges.out, HashSet::from([Ends { here: 10, there: 20 }]));
    assert_eq!(edges.into, HashSet::from([Ends { here: 11, there: 20 }]));
    assert_eq!(of(&strict, 2).strict_edges(), Some(HashSet::from([(20, Addr { nid: 1, dpid: 11 })])));
}
