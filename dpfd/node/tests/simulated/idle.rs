//! What nobody uses costs nothing, and ends.

use std::time::Duration;

use dp_route::sim::{Link, State};

use crate::world::{numbered, World};
use crate::SOON;

fn sent(world: &mut World, nid: u16) -> u64 {
    world.node(nid).routes()[0].counters().sent
}

fn flows(world: &mut World, nid: u16) -> usize {
    world.node(nid).peers()[0].traffic().count()
}

#[test]
fn an_idle_node_sends_nothing_and_then_sleeps() {
    for (network, seed) in [("sim", 8), ("encrypted", 9)] {
        let mut world = World::new(2, &[network], seed);
        world.programs(2).open(4000, usize::MAX);
        assert!(world.sleeps(1), "nobody wants anything");
        world.send((1, 5000), (2, 4000), b"hello".to_vec());
        world.until(SOON, "the message", |world| world.node(1).waiting() == 0);
        world.run(Duration::from_secs(5));
        let before = sent(&mut world, 1) + sent(&mut world, 2);
        assert!(before < 20, "{before} frames for one message");
        world.run(Duration::from_secs(50));
        assert_eq!(
            sent(&mut world, 1) + sent(&mut world, 2),
            before,
            "an idle flow says nothing, on {network}"
        );
        assert_eq!(flows(&mut world, 1), 1);
        world.run(Duration::from_secs(30));
        assert_eq!((flows(&mut world, 1), flows(&mut world, 2)), (0, 0), "and is forgotten");
        if network == "sim" {
            assert!(world.sleeps(1), "nothing is left to do");
        }
        // And begins anew, where it was.
        world.send((1, 5000), (2, 4000), b"again".to_vec());
        world.until(SOON, "the message", |world| world.node(1).waiting() == 0);
        assert_eq!(world.programs(2).got(4000), [b"hello", b"again"]);
    }
}

/// One that is not asked can be gone: that it is up is what was known then.
#[test]
fn how_long_nothing_was_heard_of_a_node_is_told() {
    let mut world = World::new(2, &["sim"], 19);
    world.programs(2).open(4000, usize::MAX);
    let told = |world: &mut World| {
        let now = world.now();
        let gateway = dp_node::status::Gateway::of(world.node(1), now);
        (gateway.nodes[0].by.is_some(), gateway.nodes[0].heard_ns)
    };
    assert_eq!(told(&mut world), (true, None));
    world.send((1, 5000), (2, 4000), b"hello".to_vec());
    world.until(SOON, "the message", |world| world.node(1).waiting() == 0);
    assert!(told(&mut world).1.is_some_and(|unheard| unheard < 500_000_000));
    world.run(Duration::from_secs(5));
    let before = told(&mut world).1.expect("it was heard");
    world.kill(2);
    world.run(Duration::from_secs(20));
    assert_eq!(told(&mut world), (true, Some(before + 20_000_000_000)));
    // Once somebody wants something of it, it is asked.
    world.send((1, 5000), (2, 4000), b"again".to_vec());
    world.until(Duration::from_secs(3), "that it is down", |world| !told(world).0);
}

#[test]
fn a_node_that_died_is_not_asked_for_ever() {
    let mut world = World::new(2, &["sim"], 10);
    world.programs(2).open(4000, usize::MAX);
    world.send((1, 5000), (2, 4000), b"hello".to_vec());
    world.until(SOON, "the message", |world| world.node(1).waiting() == 0);
    world.kill(1);
    world.run(Duration::from_secs(10));
    let before = sent(&mut world, 2);
    world.run(Duration::from_secs(60));
    assert_eq!(sent(&mut world, 2), before, "node 2 owes nobody anything");
}

/// Questions that had no answer when nobody wanted anything any more do not count when somebody does again.
#[test]
fn a_node_that_was_silent_while_nobody_asked_is_not_dead() {
    let link = |loss| Link { delay: Duration::from_millis(110), loss, ..Link::default() };
    let mut tried = 0;
    for seed in 0..25 {
        let mut world = World::new(2, &["sim"], 700 + seed);
        world.networks[0].1.set_usual(link(0.0));
        world.programs(2).open(4000, usize::MAX);
        world.send((1, 5000), (2, 4000), b"hello".to_vec());
        world.until(SOON, "the message", |world| world.node(1).waiting() == 0);
        world.run(Duration::from_millis(100 * seed));
        world.networks[0].1.set_usual(link(1.0));
        world.run(Duration::from_secs(4));
        world.networks[0].1.set_usual(link(0.0));
        if world.node(1).peers()[0].current().is_none() {
            continue;
        }
        tried += 1;
        world.send((1, 5000), (2, 4000), b"again".to_vec());
        world.until(SOON, "the message", |world| {
            assert!(world.node(1).peers()[0].current().is_some(), "dead after {seed}00 ms");
            world.node(1).waiting() == 0
        });
    }
    assert!(tried > 0, "it is always found out before");
}

/// Messages to endpoints that are not open: their flows make room for others, and come back.
#[test]
fn flows_whose_receiver_is_absent_make_room() {
    let mut world = World::new(2, &["sim"], 11);
    world.limits.flows = 8;
    world.start(1);
    world.start(2);
    for dpid in 4000..4008 {
        world.send((1, 5000), (2, dpid), numbered(0, 3000));
    }
    world.run(Duration::from_secs(15));
    assert_eq!(flows(&mut world, 2), 8);
    world.programs(2).open(4100, usize::MAX);
    // Node 1 has no place for one more either, but what its programs begin is theirs.
    world.send((1, 5001), (2, 4100), b"hello".to_vec());
    world.until(Duration::from_secs(5), "one who is there", |world| world.programs(2).count(4100) == 1);
    // One of them opens after all.
    world.programs(2).open(4003, usize::MAX);
    world.until(SOON, "the one who came late", |world| world.programs(2).count(4003) == 1);
    assert_eq!(world.programs(2).got(4003), [numbered(0, 3000)]);
}

/// A receiver that is not open is looked for by both sides, but seldom.
#[test]
fn waiting_for_a_receiver_costs_little() {
    let mut world = World::new(2, &["sim"], 12);
    let delay = Duration::from_micros(50);
    world.networks[0].1.set_usual(Link { delay, state: State::Up, ..Link::default() });
    world.send((1, 5000), (2, 4000), numbered(0, 100));
    world.run(Duration::from_secs(10));
    let before = sent(&mut world, 1);
    world.run(Duration::from_secs(20));
    let frames = sent(&mut world, 1) - before;
    assert!(frames <= 60, "{frames} frames in twenty seconds");
    world.programs(2).open(4000, usize::MAX);
    world.until(Duration::from_secs(2), "it came", |world| world.programs(2).count(4000) == 1);
}

/// Where memory for parts is used up, flows keep few. Those that come and go do not make more of it.
#[test]
fn memory_for_parts_is_as_much_as_it_was_after_many_flows() {
    let mut world = World::new(2, &["sim"], 13);
    // Half of it is for parts: as many as ten flows want.
    world.limits.bytes = 2 * 10 * dp_node::WINDOW * 1500;
    world.start(1);
    world.start(2);
    world.programs(2).open(4000, usize::MAX);
    let mut roomy = || {
        for _ in 0..20 {
            for from in 5000..5064 {
                world.send((1, from), (2, 4000), numbered(0, 100));
            }
            world.until(SOON, "the messages", |world| world.node(1).waiting() == 0);
        }
        world.run(Duration::from_millis(10));
        let n = world.node(1).peers()[0].traffic().filter(|flow| flow.state().room > 100).count();
        world.run(Duration::from_secs(90));
        assert_eq!((flows(&mut world, 1), flows(&mut world, 2)), (0, 0));
        n
    };
    let first = roomy();
    assert!((4..=10).contains(&first), "{first} flows of 64");
    assert_eq!(roomy(), first);
    assert_eq!(roomy(), first);
}

/// Hundreds of flows that were begun and do nothing leave those that are used as much memory, and so as long a window, as they have
/// alone. Milliseconds of the world for a flood by each of ten.
#[test]
fn flows_that_do_nothing_leave_the_others_their_windows() {
    let time = |idle: u16| {
        let mut world = World::new(2, &["sim"], 14);
        let link = Link { delay: Duration::from_millis(1), rate: Some(1_000_000_000), ..Link::default() };
        world.networks[0].1.set_usual(link);
        world.programs(2).open(4000, usize::MAX);
        for from in 5000..5000 + idle {
            world.send((1, from), (2, 4000), numbered(0, 100));
        }
        world.until(SOON, "the first ones", |world| world.node(1).waiting() == 0);
        let begin = world.now();
        for i in 0..1000 {
            // The last ones to begin.
            for from in 9000..9010 {
                world.send((1, from), (2, 4000), numbered(i, 1000));
            }
        }
        world.until(SOON, "the flood", |world| world.node(1).waiting() == 0);
        (world.now() - begin) / 1_000_000
    };
    let (alone, among) = (time(0), time(2000));
    assert!(among <= alone + alone / 20, "{among} ms among two thousand that are idle, {alone} ms alone");
}
