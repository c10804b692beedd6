//! What runs, beside what the file says.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{addr, FIGURE1};
use crate::live::{Heard, OtherNode, Picture, Running, RunningChannels, RunningProcess};
use crate::Graph;

fn process(title: &str, endpoints: &[u16]) -> RunningProcess {
    let pid = title.rsplit(' ').next().unwrap().parse().unwrap();
    RunningProcess { pid, title: title.into(), endpoints: endpoints.iter().copied().collect() }
}

fn running() -> Running {
    let edges = [("1/1", "1/5"), ("1/2", "2/9"), ("1/5", "1/77")];
    Running {
        nid: 1,
        processes: vec![process("one 10", &[1, 2, 4]), process("two 11", &[5]), process("odd 12", &[20])],
        edges: edges.iter().map(|(from, to)| (addr(from), addr(to))).collect::<BTreeSet<_>>(),
        ..Running::default()
    }
}

fn marks(picture: &Picture) -> Vec<String> {
    let mut marks = Vec::new();
    for node in &picture.nodes {
        for process in &node.processes {
            let mut ends: Vec<_> =
                process.endpoints.iter().map(|(dpid, mark)| format!("{dpid} {mark:?}")).collect();
            ends.extend(process.channels.iter().map(|(number, label)| format!("c{number} {label}")));
            marks.push(format!("{} [{}] {:?}: {}", node.title, process.title, process.mark, ends.join(", ")));
        }
    }
    marks.extend(picture.edges.iter().map(|e| format!("{} -> {} {:?}", e.from, e.to, e.mark)));
    marks
}

#[test]
fn without_a_file_everything_that_runs_is_drawn() {
    let drawn = Picture::live(&running(), None);
    assert!(!drawn.legend);
    assert_eq!(
        marks(&drawn),
        [
            "node 1 [one 10] Agreed: 1 Agreed, 2 Agreed, 4 Agreed",
            "node 1 [two 11] Agreed: 5 Agreed",
            "node 1 [odd 12] Agreed: 20 Agreed",
            "node 1 [not open] Agreed: 77 Agreed",
            "node 2 [not seen from here] Agreed: 9 Agreed",
            "1/1 -> 1/5 Agreed",
            "1/2 -> 2/9 Agreed",
            "1/5 -> 1/77 Agreed",
        ]
    );
}

#[test]
fn beside_a_file_differences_are_marked() {
    let drawn = Picture::live(&running(), Some(&Graph::parse(FIGURE1).unwrap()));
    assert!(drawn.legend);
    assert_eq!(
        marks(&drawn),
        [
            "node 1 [P1 = one 10] Agreed: 1 Agreed, 2 Agreed, 3 FileOnly, 4 RunningOnly",
            "node 1 [P2 = two 11] Agreed: 5 Agreed, 6 FileOnly",
            "node 1 [odd 12] RunningOnly: 20 RunningOnly",
            "node 1 [not open] RunningOnly: 77 RunningOnly",
            "node 2 [P3] Unseen: 1 Unseen, 2 Unseen, 7 Unseen, 8 Unseen",
            "node 2 [not seen from here] RunningOnly: 9 RunningOnly",
            "node 3 [P4] Unseen: 3 Unseen",
            "1/2 -> 2/2 FileOnly",
            "2/1 -> 1/3 Unseen",
            "1/1 -> 1/5 Agreed",
            "2/8 -> 3/3 Unseen",
            "1/6 -> 1/1 FileOnly",
            "1/2 -> 2/9 RunningOnly",
            "1/5 -> 1/77 RunningOnly",
        ]
    );
}

/// Node 2's endpoint 2 took messages, 30 is not in the file; node 3 is down.
#[test]
fn what_the_gateway_tells_of_other_nodes_is_drawn() {
    let mut running = running();
    let other = |nid, name: &str, endpoints: &[u16]| OtherNode {
        nid,
        name: Some(name.into()),
        is_up: nid == 2,
        heard: Heard::Unsaid,
        endpoints: endpoints.iter().copied().collect(),
    };
    running.others = vec![other(2, "beta", &[2, 30]), other(3, "gamma", &[])];
    running.edges.insert((addr("2/30"), addr("1/5")));
    let drawn = marks(&Picture::live(&running, None));
    for line in [
        "node 2 beta [not seen from here] Agreed: 9 Agreed",
        "node 2 beta [told by the gateway] Agreed: 30 Agreed, 2 Agreed",
        "2/30 -> 1/5 Agreed",
    ] {
        assert!(drawn.iter().any(|drawn| drawn == line), "{line}: {drawn:#?}");
    }
    assert!(!drawn.iter().any(|line| line.contains("gamma")), "nothing is known of it: {drawn:#?}");
    let compared = marks(&Picture::live(&running, Some(&Graph::parse(FIGURE1).unwrap())));
    for line in [
        "node 2 [P3] Agreed: 1 Unseen, 2 Agreed, 7 Unseen, 8 Unseen",
        "node 2 [told by the gateway] RunningOnly: 30 RunningOnly",
        "node 3, down [P4] Unseen: 3 Unseen",
        "2/30 -> 1/5 RunningOnly",
    ] {
        assert!(compared.iter().any(|drawn| drawn == line), "{line}: {compared:#?}");
    }
}

/// Nobody asks it whether it is there, so nobody knows.
#[test]
fn a_node_that_was_not_heard_of_is_not_drawn_as_if_it_were_up() {
    let mut running = running();
    let other = OtherNode { nid: 2, name: Some("beta".into()), is_up: true, ..OtherNode::default() };
    let title = |drawn: Picture| drawn.nodes.into_iter().find(|node| node.nid == 2).expect("drawn").title;
    for (ms, told) in [(2999, ""), (3000, ", not heard of for 3 s"), (20_900, ", not heard of for 20 s")] {
        running.others = vec![OtherNode { heard: Heard::Ago(Duration::from_millis(ms)), ..other.clone() }];
        assert_eq!(title(Picture::live(&running, None)), format!("node 2 beta{told}"));
    }
    running.others[0].heard = Heard::Never;
    assert_eq!(title(Picture::live(&running, None)), "node 2 beta, not heard of yet");
    running.others[0].is_up = false;
    assert_eq!(title(Picture::live(&running, None)), "node 2 beta, down");
}

#[test]
fn nothing_that_runs_is_an_empty_picture() {
    assert_eq!(Picture::live(&Running { nid: 1, ..Running::default() }, None).nodes, []);
}

/// Two clients of one server, which is a client of itself, and one whose server may not be seen.
fn with_channels() -> Running {
    let channels = |client, server, port, label: &str| RunningChannels {
        client,
        server,
        ports: [port].into(),
        label: label.into(),
        ..RunningChannels::default()
    };
    Running {
        channels: vec![
            channels(11, 30, 7000, "2 channels"),
            channels(30, 30, 7001, "1 channel"),
            channels(31, 0, 80, "1 channel"),
        ],
        processes: [running().processes, vec![process("redis 30", &[])]].concat(),
        ..running()
    }
}

#[test]
fn channels_are_edges_between_processes() {
    let drawn = marks(&Picture::live(&with_channels(), None));
    for line in [
        "node 1 [two 11] Agreed: 5 Agreed, c3 2 channels",
        "node 1 [redis 30] Agreed: c2 :7000 :7001, c4 1 channel",
        "node 1 [not to be seen] Agreed: c1 :80",
        "node 1 [process 31] Agreed: c5 1 channel",
        "c3 -> c2 Agreed",
        "c4 -> c2 Agreed",
        "c5 -> c1 Agreed",
    ] {
        assert!(drawn.iter().any(|drawn| drawn == line), "{line}: {drawn:#?}");
    }
    // A file knows nothing of them, so a comparison has none.
    let compared = marks(&Picture::live(&with_channels(), Some(&Graph::parse(FIGURE1).unwrap())));
    assert!(!compared.iter().any(|line| line.contains("channel") || line.contains("redis")), "{compared:#?}");
}
