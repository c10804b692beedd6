use super::*;
use crate::ls::tests::listing;

/// One end of a channel.
fn end(pid: u32, role: &'static str, local: u16, peer: u16, bytes: (u64, u64)) -> Connection {
    let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
    Connection {
        pid,
        program: format!("p{pid}"),
        role: Some(role),
        local: at(local),
        peer: at(peer),
        tx_bytes: bytes.0,
        rx_bytes: bytes.1,
        ..listing().families[0].connections[0].clone()
    }
}

fn running(connections: Vec<Connection>) -> Running {
    let mut families = listing().families;
    families[0].connections = connections;
    let mut running = Running::default();
    // Processes from 100 on are in another network namespace.
    add_channels(&mut running, &families, |pid| u64::from(pid / 100));
    running
}

#[test]
fn channels_of_two_processes_are_one_line() {
    let running = running(vec![
        end(7, "client", 40_000, 80, (10, 20_480)),
        end(7, "client", 40_001, 81, (5, 0)),
        end(9, "server", 80, 40_000, (20_480, 10)),
        end(9, "server", 81, 40_001, (0, 5)),
        Connection { state: "tcp", ..end(7, "client", 40_002, 82, (0, 0)) },
    ]);
    let titles: Vec<_> = running.processes.iter().map(|process| &*process.title).collect();
    assert_eq!(titles, ["p7 7", "p9 9"]);
    let expected = RunningChannels {
        client: 7,
        server: 9,
        ports: [80, 81].into(),
        channels: 2,
        client_bytes: 15,
        server_bytes: 20_480,
        label: "2 channels, 15B out, 20KiB in".into(),
    };
    assert_eq!(running.channels, [expected]);
}

#[test]
fn an_end_whose_other_one_may_not_be_seen_is_somebodys() {
    let running = running(vec![
        end(7, "client", 40_000, 80, (1, 2)),
        end(8, "server", 90, 40_009, (3, 4)),
        // The same addresses in another network namespace are not the other end.
        end(109, "server", 80, 40_000, (5, 6)),
    ]);
    let ends: Vec<_> = running.channels.iter().map(|c| (c.client, c.server, c.client_bytes)).collect();
    assert_eq!(ends, [(0, 8, 4), (0, 109, 6), (7, 0, 1)]);
}

/// A gateway that knows two other nodes; `flows`: to endpoints of the first, of which this is said.
fn gateway(flows: serde_json::Value) -> Gateway {
    let node = |nid: u16, by: Option<&str>, flows: serde_json::Value| {
        serde_json::json!({ "nid": nid, "name": format!("n{nid}"), "by": by, "routes": [], "refused": 0,
            "crowded": 0, "unsent": 0, "flows": flows, "heard_ns": 1_000_000_000u64 * u64::from(nid) })
    };
    let others = [node(2, Some("10.0.0.2:4900"), flows), node(3, None, serde_json::json!([]))];
    serde_json::from_value(
        serde_json::json!({ "version": 1, "nid": 1, "pid": 1, "routes": [], "nodes": others,
        "unknown": 0, "unsound": 0, "foreign": 0 }),
    )
    .expect("a gateway")
}

fn flow(here: &str, there: &str, out: u64, came: u64, raw: Option<[u64; 2]>) -> serde_json::Value {
    let mut flow = serde_json::json!({ "here": here, "there": there, "open": true, "messages_out": out, "messages_in": came });
    for zero in "round_trip_ns window flying room waiting frames_out frames_in repeats again timeouts refused restarts".split(' ') {
        flow[zero] = 0.into();
    }
    if let Some([out, came]) = raw {
        flow["raw"] = serde_json::json!({ "messages_out": out, "dropped": 0, "messages_in": came, "lost": 0,
            "no_room": 0, "frames_lost": 0 });
    }
    flow
}

#[test]
fn a_node_that_was_never_heard_of_is_told_from_one_of_which_an_old_gateway_says_nothing() {
    let mut node = gateway(serde_json::json!([flow("1/7", "2/20", 3, 0, None)])).nodes.remove(0);
    node.heard_ns = None;
    assert_eq!(heard(&node), Heard::Unsaid, "its flow is open");
    node.flows[0].open = false;
    assert_eq!(heard(&node), Heard::Never);
    let way = serde_json::json!({ "address": "10.0.0.2:4900", "alive": true, "round_trip_ns": 1 });
    node.routes = vec![serde_json::from_value(way).expect("a route")];
    assert_eq!(heard(&node), Heard::Unsaid, "it has answered");
}

#[test]
fn others_are_what_messages_went_to_or_came_from() {
    let process = RunningProcess { endpoints: [7].into(), ..RunningProcess::default() };
    let mut running = Running { nid: 1, processes: vec![process], ..Running::default() };
    add_others(
        &mut running,
        &gateway(serde_json::json!([
            flow("1/7", "2/20", 3, 0, None),
            flow("1/7", "2/21", 0, 3, None),
            flow("1/7", "2/22", 0, 0, Some([0, 1])),
            flow("1/7", "2/23", 0, 0, None),
            flow("1/8", "2/24", 0, 5, None),
        ])),
    );
    let [up, down] = &running.others[..] else { panic!("{running:?}") };
    assert!(up.is_up && up.name.as_deref() == Some("n2") && !down.is_up && down.endpoints.is_empty());
    assert_eq!(up.heard, Heard::Ago(Duration::from_secs(2)));
    assert!(up.endpoints.iter().eq([&20, &21, &22]), "nothing went to 23, and 8 is gone: {up:?}");
    let from: Vec<_> = running.edges.iter().map(|(from, to)| (from.dpid, to.dpid)).collect();
    assert_eq!(from, [(21, 7), (22, 7)]);
}
