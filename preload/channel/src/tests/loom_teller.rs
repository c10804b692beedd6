//! A sender that says it is telling a watcher, and ends before it has, or cannot: the others do not rely on it (W3).

use dp_edge::ring::Tail;
use dp_edge::testing::explore;
use dp_edge::testing::kernel::Kernel;
use loom::sync::Arc;
use loom::thread;

use super::loom_bell::{edge, Edge};
use super::loom_group::Set;
use crate::bell::{settle, Owed, BY_BELL};

/// What becomes of a sender that says that it is telling.
#[derive(Clone, Copy, PartialEq)]
enum Teller {
    /// It is ended there, or preempted for longer than the test lasts.
    Ends,
    /// What it sends does not go out, and it says so.
    Fails,
    /// Broken: it says that it has told before it sends, and is ended there.
    SaysSoFirst,
}

/// A sender that tells nobody, beside one on another edge. The watcher must hear of what that one sends.
fn beside_a_teller(how: u32, teller: Teller) {
    let s = Arc::new(Set { edges: [edge(), edge()], groups: Default::default(), kernel: Kernel::new(2) });
    for e in &s.edges {
        assert!(e.word.heat_group(1));
    }
    let senders = [0, 1].map(|socket: usize| {
        let s = s.clone();
        thread::spawn(move || {
            let word = &s.edges[socket].word;
            match s.edges[socket].owed(&mut Tail::default(), 0, true, &s.groups) {
                Owed::Event(7, telling) | Owed::Bell(telling) if socket == 0 => match teller {
                    Teller::Ends => {}
                    Teller::Fails => word.has_told(&s.groups, telling, false),
                    Teller::SaysSoFirst => word.has_told(&s.groups, telling, true),
                },
                Owed::Event(7, telling) | Owed::Bell(telling) => {
                    s.kernel.ring(1);
                    s.has_told(1, telling);
                }
                owed => assert_eq!(owed, Owed::Nothing),
            }
            s.kernel.over();
        })
    });
    let mut seen = 0;
    while !s.edges[1].take() {
        s.edges[0].take();
        s.groups[0].doze(how);
        settle();
        if !s.edges.iter().any(Edge::waiting) {
            s.kernel.edge(&mut seen);
        }
        s.groups[0].wake();
    }
    for t in senders {
        t.join().unwrap();
    }
}

#[test]
fn loom_watcher_hears_of_what_is_sent_beside_a_sender_that_ends_before_its_event() {
    explore(Some(2), || beside_a_teller(7, Teller::Ends));
}

#[test]
fn loom_watcher_hears_of_what_is_sent_beside_a_sender_that_ends_before_its_bell() {
    explore(Some(2), || beside_a_teller(BY_BELL, Teller::Ends));
}

#[test]
fn loom_watcher_hears_of_what_is_sent_beside_an_event_that_does_not_go_out() {
    explore(Some(2), || beside_a_teller(7, Teller::Fails));
}

#[test]
fn loom_watcher_hears_of_what_is_sent_beside_a_bell_that_does_not_go_out() {
    explore(Some(2), || beside_a_teller(BY_BELL, Teller::Fails));
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn loom_broken_sender_that_has_told_before_its_event() {
    explore(Some(2), || beside_a_teller(7, Teller::SaysSoFirst));
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn loom_broken_sender_that_has_told_before_its_bell() {
    explore(Some(2), || beside_a_teller(BY_BELL, Teller::SaysSoFirst));
}
