//! Messages that nobody acknowledges: whole, once and in order, or lost and counted.

use std::time::Duration;

use dp_node::places::Ends;
use dp_node::status::{Gateway, Raw};
use dp_route::sim::{Link, State};
use dpfd::Addr;

use crate::world::{length, numbered, World};
use crate::{bad_link, SOON};

const EDGE: Ends = Ends { here: 4000, there: 4000 };

fn good() -> Link {
    Link { delay: Duration::from_micros(50), rate: Some(1_000_000_000), ..Link::default() }
}

/// Node 1's edge to node 2 goes raw, as the graph says.
fn world(networks: &[&str], seed: u64) -> World {
    let mut world = World::new(2, networks, seed);
    world.networks.iter().for_each(|(_, network)| network.set_usual(good()));
    world.raw = vec![EDGE];
    world.start(1);
    world.programs(2).open(4000, usize::MAX);
    world
}

/// What `dp ls` shows of node `nid`'s edge.
fn shown(world: &mut World, nid: u16) -> Raw {
    let now = world.now();
    let gateway = Gateway::of(world.node(nid), now);
    let flow = gateway.nodes[0].flows.iter().find(|flow| flow.here == "4000").expect("it was used");
    flow.raw.expect("it went raw")
}

fn send(world: &mut World, i: u64, len: usize) {
    world.send((1, 4000), (2, 4000), numbered(i, len));
}

/// Numbers of those that came, each of which is as it was sent.
fn came(world: &World, len: impl Fn(u64) -> usize) -> Vec<u64> {
    let number = |message: Vec<u8>| {
        let i = u64::from_ne_bytes(*message.first_chunk().expect("a number"));
        assert!(message == numbered(i, len(i)), "message {i} is whole");
        i
    };
    world.programs(2).got(4000).into_iter().map(number).collect()
}

#[test]
fn over_a_bad_network_messages_come_whole_once_and_in_order_or_are_counted() {
    for (seed, network) in (200..).zip(["sim", "authenticated", "encrypted"]) {
        let mut world = world(&[network], seed);
        let long = |i: u64| length(i).max(8);
        // Counting begins with the first frame that comes, and ends with the last one.
        send(&mut world, 0, 8);
        world.until(SOON, "the first", |world| world.programs(2).count(4000) == 1);
        world.networks[0].1.set_usual(bad_link());
        for i in 1..2000 {
            send(&mut world, i, if i % 100 == 50 { long(i) } else { 8 + i as usize % 2500 });
            world.run(Duration::from_micros(100));
        }
        world.networks[0].1.set_usual(good());
        world.run(Duration::from_millis(50));
        send(&mut world, 2000, 8);
        world.until(SOON, "the last", |world| {
            world.programs(2).got(4000).last().is_some_and(|m| *m == numbered(2000, 8))
        });
        let all = came(&world, |i| match i {
            0 | 2000 => 8,
            i if i % 100 == 50 => long(i),
            i => 8 + i as usize % 2500,
        });
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]), "once, and in order");
        let there = shown(&mut world, 2);
        assert_eq!(there.messages_in, all.len() as u64);
        let here = shown(&mut world, 1);
        assert_eq!((here.messages_out + here.dropped, world.node(1).waiting()), (2001, 0));
        assert_eq!(there.messages_in + there.lost, here.messages_out, "each loss is counted: {there:?}");
        assert!((1000..1990).contains(&all.len()), "{} of 2001, {network}: {here:?}", all.len());
    }
}

#[test]
fn who_does_not_read_loses_them_and_holds_nobody_up() {
    let mut world = world(&["sim"], 210);
    world.programs(2).open(4000, 3);
    for i in 0..100 {
        send(&mut world, i, 3000);
    }
    world.until(SOON, "their leaving", |world| world.node(1).waiting() == 0);
    world.run(Duration::from_millis(10));
    assert_eq!(came(&world, |_| 3000), [0, 1, 2]);
    let there = shown(&mut world, 2);
    assert_eq!((there.messages_in, there.lost, there.no_room), (3, 97, 97));
    world.programs(2).give_room(4000, 1);
    send(&mut world, 100, 3000);
    world.until(SOON, "one more", |world| world.programs(2).count(4000) == 4);
}

#[test]
fn nobody_waits_for_a_node_that_is_down() {
    let mut world = world(&["sim"], 211);
    send(&mut world, 0, 3000);
    world.until(SOON, "the first", |world| world.programs(2).count(4000) == 1);
    world.networks[0].1.set_usual(Link { state: State::Silent, ..good() });
    // What is sent until that is known is lost on its way, and what comes then is dropped here.
    for i in 1..3000 {
        send(&mut world, i, 3000);
        world.run(Duration::from_millis(1));
        assert!(world.node(1).waiting() < 10, "{} wait", world.node(1).waiting());
    }
    let here = shown(&mut world, 1);
    assert_eq!(here.messages_out + here.dropped, 3000);
    assert!(here.dropped > 1000, "{here:?}");
    world.networks[0].1.set_usual(good());
    let mut next = 3000;
    world.until(Duration::from_secs(8), "another", |world| {
        send(world, next, 3000);
        next += 1;
        world.run(Duration::from_millis(10));
        world.programs(2).count(4000) > 1
    });
}

/// A full queue below is waited for: nothing is lost that this machine could have sent.
#[test]
fn a_slow_wire_loses_nothing_of_it() {
    let mut world = world(&["sim"], 212);
    send(&mut world, 0, 3000);
    world.until(SOON, "the first", |world| world.programs(2).count(4000) == 1);
    world.networks[0].1.set_usual(Link { rate: Some(10_000_000), queue: 6000, ..good() });
    for i in 1..500 {
        send(&mut world, i, 3000);
    }
    world.until(SOON, "all", |world| world.programs(2).count(4000) == 500);
    assert_eq!(came(&world, |_| 3000), (0..500).collect::<Vec<_>>());
}

/// As a program says; whoever has its number next is not lost anything for it.
#[test]
fn a_program_says_that_it_goes_raw_and_the_next_one_does_not() {
    let mut world = World::new(2, &["sim"], 213);
    (1..=2).for_each(|nid| world.programs(nid).open(4000, usize::MAX));
    let to = Addr { nid: 2, dpid: 4000 };
    world.networks[0].1.set_usual(good());
    send(&mut world, 0, 100);
    world.until(SOON, "the first", |world| world.node(1).waiting() == 0);
    world.node(1).ask_raw(4000, to, true);
    world.networks[0].1.set_usual(Link { loss: 0.2, ..good() });
    // The way back is another edge, and reliable.
    for i in 1..1000 {
        send(&mut world, i, 100);
        world.send((2, 4000), (1, 4000), numbered(i, 100));
        world.run(Duration::from_millis(1));
    }
    let lost = 1000 - world.programs(2).count(4000);
    assert!((100..300).contains(&lost), "{lost} of a thousand lost");
    world.until(SOON, "the way back", |world| world.node(2).waiting() == 0);
    assert_eq!(world.programs(1).count(4000), 999);
    let now = world.now();
    world.node(1).link_ended(now, 4000, to);
    let before = world.programs(2).count(4000);
    for i in 1000..2000 {
        send(&mut world, i, 100);
        world.run(Duration::from_millis(1));
    }
    world.until(SOON, "all of the next one's", |world| world.node(1).waiting() == 0);
    assert_eq!(world.programs(2).count(4000), before + 1000);
}

/// Users are mapped, and the one who sends is nobody here.
#[test]
fn who_may_not_send_is_not_let_in() {
    let mut world = World::new(2, &["authenticated"], 214);
    world.networks[0].1.set_usual(good());
    world.raw = vec![EDGE];
    (world.owners, world.users) = (vec![1000, 2000], dp_graph::trust::Users::Map(Vec::new()));
    (1..=2).for_each(|nid| world.start(nid));
    world.programs(2).open(4000, usize::MAX);
    for i in 0..100 {
        send(&mut world, i, 100);
        world.run(Duration::from_millis(1));
    }
    world.run(Duration::from_millis(100));
    assert_eq!(world.programs(2).count(4000), 0);
    assert!(shown(&mut world, 2).no_room > 50);
}

/// A node that answers whether it is there and greets nobody: what would wait for that does not hold its sender up.
#[test]
fn nobody_waits_long_for_a_greeting() {
    let mut world = World::new(2, &["sim"], 215);
    world.networks[0].1.set_usual(good());
    world.limits.flows = 1;
    (1..=2).for_each(|nid| world.start(nid));
    world.programs(2).open(4001, usize::MAX);
    world.limits.flows = 100;
    world.raw = vec![EDGE];
    world.start(1);
    world.programs(2).open(4000, usize::MAX);
    // The only flow that node 2 may have.
    world.send((1, 4001), (2, 4001), numbered(0, 100));
    world.until(SOON, "it", |world| world.node(1).waiting() == 0);
    for i in 0..300 {
        send(&mut world, i, 100);
    }
    assert_eq!(world.node(1).waiting(), 128);
    for i in 1..30 {
        world.send((1, 4001), (2, 4001), numbered(i, 100));
        world.run(Duration::from_millis(100));
    }
    let here = shown(&mut world, 1);
    assert_eq!((here.dropped, here.messages_out, world.programs(2).count(4000)), (300, 0, 0));
    assert_eq!(world.node(1).waiting(), 0);
}
