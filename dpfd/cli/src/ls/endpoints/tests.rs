use dpfd::driver::user::list::{EdgeAccount, LinkAccount};

use super::*;
use crate::ls::{table, Listing};

/// 5000 sends to 5001 and to 5002, which nobody has; 5003 is stopped and sends to 5001 too; 5004 is another's.
fn seen() -> Vec<Seen> {
    let link = |to, state, waiting, sent| LinkAccount { to: (0, to), state, waiting, sent };
    let account = |account| Said::Account(Box::new(account));
    let one = |dpid, pid, said| Seen { dpid, pid, uid: Some(1000), said };
    let client = EndpointAccount {
        dpid: 5000,
        target: Some((0, 5001)),
        received: None,
        loaned: Some(0),
        to: Some(vec![link(5001, State::Edge, 0, (10, 80)), link(5002, State::Absent, 2, (0, 0))]),
        from: Some(vec![]),
        ..EndpointAccount::default()
    };
    let edge = |from, received| EdgeAccount { from: (0, from), received };
    let server = EndpointAccount {
        dpid: 5001,
        pooled: true,
        pool: Some((262_144, 65_536)),
        received: Some((13, 100)),
        loaned: Some(1),
        to: Some(vec![]),
        from: Some(vec![edge(5000, (9, 72)), edge(5003, (4, 28))]),
        ..EndpointAccount::default()
    };
    vec![
        one(5000, 71, account(client)),
        one(5001, 72, account(server)),
        one(5003, 73, Said::Nothing),
        one(5004, 74, Said::Denied),
    ]
}

/// 5005, which the kernel serves, sends to 5006.
fn by_kernel() -> kernel::list::Seen {
    kernel::list::Seen {
        dpid: 5005,
        serial: 1,
        pid: 75,
        uid: 1000,
        target: Some(dpfd::Addr::local(5006)),
        sent: (2, 11),
        received: (1, 5),
        pool: (131_072, 131_008),
        in_place: true,
    }
}

fn listing() -> Listing {
    let program = |pid| (pid != 74).then(|| format!("p{pid}\u{1b}"));
    Listing {
        version: 1,
        families: vec![],
        graph: Graph::of(&seen(), &[by_kernel()], program),
        gateway: None,
    }
}

#[test]
fn the_tables_list_endpoints_then_edges() {
    let expected = "\
DPID  PROGRAM  PID  DRIVER  MODE    TARGET    POOL    LEFT  HELD  SENT  BYTES  RECEIVED  BYTES
5000  p71?      71  user    plain     5001       -       -     -    10     80         -      -
5001  p72?      72  user    pool         -  262144   65536     1     0      0        13    100
5003  p73?      73  user    silent       -       -       -     -     -      -         -      -
5004  -         74  user    denied       -       -       -     -     -      -         -      -
5005  p75?      75  kernel  pool      5006  131072  131008     -     2     11         1      5

FROM    TO  STATE   WAITING  MESSAGES  BYTES
5000  5001  edge          0        10     80
5000  5002  absent        2         0      0
5003  5001  edge          -         4     28
";
    assert_eq!(table::text(&listing(), true), expected);
}

#[test]
fn json_has_the_documented_fields() {
    let json = serde_json::to_value(listing()).unwrap();
    let page = include_str!("../../../../../man/dp-ls.1");
    let server = serde_json::json!({
        "dpid": 5001, "program": "p72\u{1b}", "pid": 72, "uid": 1000, "driver": "user", "mode": "pool", "target": null,
        "pool_bytes": 262_144, "pool_left": 65_536, "held": 1, "sent_messages": 0, "sent_bytes": 0,
        "received_messages": 13, "received_bytes": 100,
    });
    assert_eq!(json["endpoints"][1], server);
    let edge = serde_json::json!({
        "from": "5003", "to": "5001", "state": "edge", "waiting": null, "messages": 4, "bytes": 28,
    });
    assert_eq!(json["edges"][2], edge);
    crate::page::documents(page, &json, &[]);
    let edges = page.split(".Ss Edges\n").nth(1).and_then(|rest| rest.split(".Ss ").next()).unwrap();
    for state in [State::Absent, State::Denied, State::Former, State::Plain, State::Edge, State::Crowded] {
        assert!(edges.contains(&format!(".It Cm {}\n", state.word())), "dp-ls(1): {}", state.word());
    }
}
