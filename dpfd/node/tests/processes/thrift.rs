//! What gateways cost, and how they end.

use std::time::{Duration, Instant};

use nix::sys::resource::{setrlimit, Resource};

use crate::kit::{numbered, open, until, Node};
use crate::{there, two_nodes, ECHO};

/// Whether the node is told to be down.
fn is_down(node: &Node) -> bool {
    node.status().is_some_and(|status| status.nodes[0].by.is_none())
}

/// A node with the key names one endpoint after the other: each has a proxy, and some descriptors, for as long as it is used.
#[test]
fn endpoints_of_another_node_do_not_use_up_descriptors() {
    const COUNT: u64 = 400;
    const DESCRIPTORS: u64 = 1024;
    let [one, two] = two_nodes();
    let here = one.gateway();
    let few = || setrlimit(Resource::RLIMIT_NOFILE, DESCRIPTORS, DESCRIPTORS).expect("fewer");
    let there_ = two.gateway_after(few);
    let receiver = two.run(|| {
        let e = open(ECHO);
        let mut all: Vec<u64> = (0..COUNT)
            .map(|_| crate::number_of(&e.recv().expect("a message").to_vec()).expect("whole"))
            .collect();
        all.sort_unstable();
        all == (0..COUNT).collect::<Vec<_>>()
    });
    let sender = one.run(|| {
        // All at once: none has a number that another had.
        let all: Vec<_> = (0..COUNT).map(|_| open(0)).collect();
        for (i, e) in (0..).zip(&all) {
            e.send_to(&numbered(i, 100), there(2)).expect("room");
        }
        std::thread::sleep(Duration::from_secs(1));
        true
    });
    crate::kit::Child::all_ok(vec![receiver, sender]);
    // Those that nobody uses any more go soon, not at once.
    until("few descriptors", || there_.descriptors() < DESCRIPTORS as usize * 3 / 4);
    [here, there_].into_iter().for_each(crate::kit::Child::kill);
}

/// A server that answers has a way to each of its clients. Those that are through make room for the ones that come after them, of
/// which there are more than descriptors; and one of the first is answered again.
#[test]
fn clients_that_were_answered_do_not_keep_others_out() {
    const COUNT: u64 = 400;
    const DESCRIPTORS: u64 = 1024;
    let [one, two] = two_nodes();
    let here = one.gateway();
    let few = || setrlimit(Resource::RLIMIT_NOFILE, DESCRIPTORS, DESCRIPTORS).expect("fewer");
    let there_ = two.gateway_after(few);
    let server = two.run(|| crate::kit::echo(ECHO));
    one.run(|| {
        let all: Vec<_> = (0..COUNT).map(|_| open(0)).collect();
        for (i, e) in (0..).zip(all.iter().chain([&all[0], &all[1]])) {
            e.set_nonblocking(true).expect("a flag");
            e.send_to(&numbered(i, 100), there(2)).expect("room");
            until(&format!("the answer to client {i}"), || {
                e.recv().is_ok_and(|message| crate::number_of(&message.to_vec()) == Some(i))
            });
        }
        true
    })
    .ok();
    // Those that nobody uses any more go soon, not at once.
    until("few descriptors", || there_.descriptors() < DESCRIPTORS as usize * 3 / 4);
    server.kill();
    [here, there_].into_iter().for_each(crate::kit::Child::kill);
}

#[test]
fn one_that_is_told_to_end_does_not_wait_for_a_node_that_is_down() {
    let [one, _two] = two_nodes();
    let here = one.gateway();
    let sender = one.run(|| {
        let e = open(0);
        (0..50).for_each(|i| e.send_to(&numbered(i, 1000), there(2)).expect("room"));
        std::thread::sleep(Duration::from_secs(60));
        true
    });
    until("a node that is down", || is_down(&one));
    let begin = Instant::now();
    here.terminate();
    until("its end", || here.has_ended());
    assert!(begin.elapsed() < Duration::from_millis(500), "{:?}", begin.elapsed());
    sender.kill();
}

/// Its programs go on sending meanwhile.
#[test]
fn one_that_waits_for_acknowledgements_sleeps_and_does_not_wait_for_ever() {
    let [one, two] = two_nodes();
    let (here, there_) = (one.gateway(), two.gateway());
    // To nobody: never acknowledged.
    let sender = one.run(|| {
        let e = open(0);
        for i in 0..1_000_000 {
            e.send_to(&numbered(i, 1000), there(2)).expect("room");
            std::thread::sleep(Duration::from_micros(300));
        }
        true
    });
    until("a flow", || one.status().is_some_and(|status| status.nodes[0].flows.iter().any(|flow| flow.open)));
    std::thread::sleep(Duration::from_millis(300));
    let (begin, before) = (Instant::now(), here.used());
    here.terminate();
    std::thread::sleep(Duration::from_millis(1500));
    let used = here.used() - before;
    assert!(used < 0.1, "{used} s of a processor while it waits");
    until("its end", || here.has_ended());
    assert!((1800..3000).contains(&begin.elapsed().as_millis()), "{:?}", begin.elapsed());
    sender.kill();
    there_.kill();
}
