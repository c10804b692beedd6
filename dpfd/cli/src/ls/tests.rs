use std::collections::BTreeMap;
use std::net::IpAddr;

use dp_channel::family::{Reason, Snapshot, Stage};
use dp_channel::slot::Side;
use dp_channel::tcp::Addr;

use super::families::{address, Connection, Program};
use super::*;
use crate::page;

fn addr(ip: &str, port: u16, scope: u32) -> Addr {
    let ip = match ip.parse().unwrap() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    Addr { ip: ip.octets(), port, scope }
}

fn snapshot(stage: Stage, reason: Reason) -> Snapshot {
    Snapshot {
        entry: 0,
        pid: 71,
        fd: 8,
        stage,
        side: Some(Side::Server),
        local: addr("127.0.0.1", 7000, 0),
        peer: addr("127.0.0.1", 40000, 0),
        tx_bytes: 12,
        rx_bytes: 3456,
        bells: 2,
        back: 1,
        rx_ring: true,
        tx_ring: 131_072,
        reason,
        holders: vec![0],
        uncounted: false,
    }
}

/// A server of two processes, with a channel and a connection on TCP.
pub fn listing() -> Listing {
    let server = |pid| Program { program: "redis-server".into(), pid, uid: 1000 };
    let connections = [(Stage::Live, Reason::None), (Stage::Plain, Reason::NoOffer)]
        .map(|(stage, reason)| Connection::of(&snapshot(stage, reason), &server(71)));
    let family = Family {
        memory: Some(9),
        processes: vec![server(71), server(72)],
        state: State::On,
        shim: Some("0.1.0".into()),
        layout: Some(5),
        channels: 5,
        tx_bytes: 120,
        rx_bytes: 34560,
        doorbells: 20,
        hand_backs: 1,
        lost_wakeups: 0,
        on_tcp: BTreeMap::from([("no-offer", 3), ("rules", 1)]),
        connections: connections.into(),
    };
    Listing { version: 1, families: vec![family], graph: endpoints::Graph::default(), gateway: None }
}

fn nothing() -> Listing {
    Listing { version: 1, families: vec![], graph: endpoints::Graph::default(), gateway: None }
}

#[test]
fn the_table_lists_connections_then_families() {
    let expected = "\
PROGRAM       PID  LOCAL           PEER             STATE    TX    RX  REASON
redis-server   71  127.0.0.1:7000  127.0.0.1:40000  channel  12  3456  -
redis-server   71  127.0.0.1:7000  127.0.0.1:40000  tcp      12  3456  no-offer

PROGRAM       PID  SHIM   PROCESSES  CHANNELS   TX       RX  BACK  ON TCP
redis-server   71  0.1.0          2         5  120  33.8KiB     1  3 no-offer, 1 rules
";
    assert_eq!(table::text(&listing(), false), expected);
    assert_eq!(table::text(&nothing(), false), "");
}

#[test]
fn programs_without_connections_are_lines_of_the_last_table_alone() {
    let mut listing = listing();
    let family = &mut listing.families[0];
    family.connections.clear();
    family.on_tcp.clear();
    let line = |listing: &Listing| table::text(listing, true).lines().nth(1).unwrap().to_string();
    for (state, shim, expected) in [
        (State::Idle, Some("0.1.0"), "redis-server   71  0.1.0          2         5  120  34560     1  -"),
        (State::Idle, None, "redis-server   71  ?             2         5  120  34560     1  -"),
        (State::Disabled, Some("0.1.0"), "redis-server   71  off           2         5  120  34560     1  -"),
        (State::Unreadable, Some("0.2.0"), "redis-server   71  0.2.0          2         ?   ?   ?     ?  ?"),
    ] {
        let family = &mut listing.families[0];
        (family.state, family.shim) = (state, shim.map(str::to_string));
        assert_eq!(line(&listing), expected);
    }
}

#[test]
fn json_has_the_documented_fields() {
    let json = serde_json::to_value(listing()).unwrap();
    let family = serde_json::json!({
        "processes": [
            {"program": "redis-server", "pid": 71, "uid": 1000},
            {"program": "redis-server", "pid": 72, "uid": 1000},
        ],
        "state": "on", "shim": "0.1.0", "layout": 5,
        "channels": 5, "tx_bytes": 120, "rx_bytes": 34560, "doorbells": 20, "hand_backs": 1, "lost_wakeups": 0,
        "on_tcp": {"no-offer": 3, "rules": 1},
        "connections": [
            {
                "program": "redis-server", "pid": 71, "fd": 8, "role": "server",
                "local": "127.0.0.1:7000", "peer": "127.0.0.1:40000", "state": "channel",
                "tx_bytes": 12, "rx_bytes": 3456, "doorbells": 2, "hand_backs": 1,
                "tx_ring_bytes": 131_072, "reason": null,
            },
            {
                "program": "redis-server", "pid": 71, "fd": 8, "role": "server",
                "local": "127.0.0.1:7000", "peer": "127.0.0.1:40000", "state": "tcp",
                "tx_bytes": 12, "rx_bytes": 3456, "doorbells": 2, "hand_backs": 1,
                "tx_ring_bytes": null, "reason": "no-offer",
            },
        ],
    });
    let expected = serde_json::json!({
        "version": 1, "families": [family], "registry": null, "endpoints": [], "edges": [],
        "gateway": null,
    });
    assert_eq!(json, expected);
    let gateway =
        serde_json::json!({ "gateway": serde_json::from_str::<serde_json::Value>(GATEWAY).unwrap() });
    for of in [json, gateway] {
        // Reasons are dp-preload(7)'s.
        page::documents(include_str!("../../../../man/dp-ls.1"), &of, &["on_tcp"]);
    }
}

/// As a gateway writes it.
pub const GATEWAY: &str = r#"{
    "version": 1, "nid": 1, "pid": 70, "unknown": 0, "unsound": 0, "foreign": 0, "crowded": 4, "unkept": 6,
    "routes": [{"address": "udp:192.0.2.1:7411", "sent": 9, "sent_bytes": 900, "received": 8, "received_bytes": 800,
        "remark": null}],
    "nodes": [
        {"nid": 2, "name": "beta", "by": "udp:192.0.2.2:7411", "refused": 1, "crowded": 2, "unsent": 0,
            "routes": [{"address": "udp:192.0.2.2:7411", "security": "encrypt", "alive": true, "round_trip_ns": 31500, "longest": 1188}],
            "flows": [{"here": "5000", "there": "2/7000", "open": true, "round_trip_ns": 45000, "window": 20,
                "flying": 2, "room": 126, "waiting": 3, "messages_out": 100, "messages_in": 99, "frames_out": 200,
                "frames_in": 150, "repeats": 3, "again": 0, "timeouts": 0, "early_timeouts": 0, "refused": 0, "restarts": 1,
                "route": "udp", "user": 1000},
                {"here": "5001", "there": "2/7001", "open": false, "round_trip_ns": 0, "window": 8, "flying": 0, "room": 0,
                "waiting": 0, "messages_out": 0, "messages_in": 0, "frames_out": 0, "frames_in": 0, "repeats": 0, "again": 0,
                "timeouts": 0, "early_timeouts": 0, "refused": 0, "restarts": 0, "route": "udp", "user": null,
                "raw": {"messages_out": 50, "dropped": 4, "messages_in": 40, "lost": 3, "no_room": 1, "frames_lost": 2}}]},
        {"nid": 3, "name": null, "by": null, "refused": 0, "crowded": 0, "unsent": 7, "flows": [],
            "routes": [{"address": "udp:192.0.2.3:7411", "security": "none", "alive": false, "round_trip_ns": 0,
                "longest": null}]}
    ]
}"#;

#[test]
fn the_table_lists_other_nodes_and_flows() {
    let mut listing = nothing();
    listing.gateway = Some(serde_json::from_str(GATEWAY).unwrap());
    let expected = "\
NODE  NAME  STATE  BY                  ROUND TRIP  FLOWS  REFUSED  UNSENT
   2  beta  up     udp:192.0.2.2:7411     31.5 us      2        3       0
   3  -     down   -                            -      0        0       7

HERE   THERE  STATE  ROUND TRIP  WINDOW  FLYING  WAITING  SENT  RECEIVED  REPEATS   LOSS  RESTARTS
5000  2/7000  open      45.0 us      20       2        3   100        99        3  1.5 %         1

HERE   THERE  SENT RAW  DROPPED  RECEIVED  LOST  NO ROOM  FRAMES LOST
5001  2/7001        50        4        40     3        1            2
";
    assert_eq!(table::text(&listing, false), expected);
    let told: serde_json::Value = serde_json::from_str(GATEWAY).unwrap();
    assert_eq!(serde_json::to_value(&listing).unwrap()["gateway"], told);
}

#[test]
fn addresses_are_shown_as_people_write_them() {
    assert_eq!(address(addr("127.0.0.1", 80, 0)).to_string(), "127.0.0.1:80");
    assert_eq!(address(addr("::1", 80, 0)).to_string(), "[::1]:80");
    assert_eq!(address(addr("fe80::1", 80, 2)).to_string(), "[fe80::1%2]:80");
}

#[test]
fn names_cannot_steer_the_terminal() {
    let mut listing = listing();
    listing.families[0].connections[0].program = "a\u{1b}[2J b\n".into();
    listing.families[0].processes[0].program = String::new();
    let text = table::text(&listing, true);
    assert!(text.contains("a?[2J?b?") && !text.contains('\u{1b}'));
    assert_eq!(text.lines().count(), 6);
}

#[test]
fn the_manual_explains_every_reason() {
    let page = include_str!("../../../../man/dp-preload.7");
    for reason in Reason::ALL.iter().filter(|reason| **reason != Reason::None) {
        assert!(page.contains(&format!(".It Cm {}\n", reason.word())), "{}", reason.word());
    }
}

#[test]
fn a_filter_leaves_what_it_names() {
    #[derive(clap::Parser)]
    struct Only {
        #[command(flatten)]
        filter: filter::Filter,
    }
    let left = |words: &str| {
        let words = std::iter::once("ls").chain(words.split_whitespace());
        let Ok(Only { filter }) = clap::Parser::try_parse_from(words) else { return None };
        let mut listing = listing();
        filter.apply(&mut listing);
        Some((listing.families.len(), listing.families.iter().map(|f| f.connections.len()).sum::<usize>()))
    };
    for (words, expected) in [
        ("", Some((1, 2))),
        ("--pid 71", Some((1, 2))),
        ("--pid 72,5", Some((1, 0))),
        ("--pid 5", Some((0, 0))),
        ("--program redis-*", Some((1, 2))),
        ("--program redis --program ?edis-server", Some((1, 2))),
        ("--program redis", Some((0, 0))),
        ("--state channel", Some((1, 1))),
        ("--state new,offered", Some((0, 0))),
        ("--reason no-offer", Some((1, 1))),
        ("--reason rules", Some((1, 0))),
        ("--reason no-offer --state channel", Some((1, 0))),
        ("--reason no-offer --pid 5", Some((0, 0))),
        ("--state live", None),
        ("--reason none", None),
        ("--program a/b", None),
        ("--pid redis", None),
    ] {
        assert_eq!(left(words), expected, "{words}");
    }
}

#[test]
fn a_line_of_json_says_what_it_is_of() {
    let text = lines::text(&listing());
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        lines.iter().map(|line| line["kind"].as_str().unwrap()).collect::<Vec<_>>(),
        ["family", "connection", "connection"]
    );
    assert!(lines[0].get("connections").is_none() && lines[0]["channels"] == 5);
    assert_eq!(lines[2]["reason"], "no-offer");
}
