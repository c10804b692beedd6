//! What runs, beside what the file says.

use std::collections::BTreeSet;

use super::{addr, FIGURE1};
use crate::live::{Picture, Running, RunningProcess};
use crate::Graph;

fn process(title: &str, endpoints: &[u16]) -> RunningProcess {
    RunningProcess { title: title.into(), endpoints: endpoints.iter().copied().collect() }
}

fn running() -> Running {
    let edges = [("1/1", "1/5"), ("1/2", "2/9"), ("1/5", "1/77")];
    Running {
        nid: 1,
        processes: vec![process("one 10", &[1, 2, 4]), process("two 11", &[5]), process("odd 12", &[20])],
        edges: edges.iter().map(|(from, to)| (addr(from), addr(to))).collect::<BTreeSet<_>>(),
    }
}

fn marks(picture: &Picture) -> Vec<String> {
    let mut marks = Vec::new();
    for node in &picture.nodes {
        for process in &node.processes {
            let ends: Vec<_> =
                process.endpoints.iter().map(|(dpid, mark)| format!("{dpid} {mark:?}")).collect();
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

#[test]
fn nothing_that_runs_is_an_empty_picture() {
    assert_eq!(Picture::live(&Running { nid: 1, ..Running::default() }, None).nodes, []);
}
