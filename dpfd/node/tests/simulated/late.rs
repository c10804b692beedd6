//! A node that did not run for a while, as on a machine with more to do than processors.

use std::time::Duration;

use dp_route::sim::Link;

use crate::world::{numbered, World};
use crate::SOON;

const SENDERS: std::ops::Range<u16> = 5000..5100;

fn send(world: &mut World, i: u64) {
    SENDERS.for_each(|from| world.send((1, from), (2, 4000), numbered(i, 100)));
}

/// Time-outs and repeats of node 1.
fn in_vain(world: &mut World) -> (u64, u64) {
    let traffic = world.node(1).peers()[0].traffic();
    traffic.fold((0, 0), |(n, repeats), flow| (n + flow.counts().timeouts, repeats + flow.counts().repeats))
}

#[test]
fn who_did_not_run_hears_the_answers_before_taking_them_for_missing() {
    let mut world = World::new(2, &["sim"], 15);
    world.networks[0].1.set_usual(Link { delay: Duration::from_micros(50), ..Link::default() });
    world.programs(2).open(4000, usize::MAX);
    // So often that it is known how soon an answer comes.
    for i in 0..20 {
        send(&mut world, i);
        world.until(SOON, "a round", |world| world.node(1).waiting() == 0);
    }
    assert_eq!(in_vain(&mut world), (0, 0));
    send(&mut world, 20);
    let now = world.now();
    while world.node(1).turn(now) {}
    for _ in 0..20 {
        world.networks[0].1.advance(Duration::from_micros(50));
        let now = world.now();
        while world.node(2).receive(now, 0) > 0 {}
        while world.node(2).turn(now) {}
    }
    world.networks[0].1.advance(Duration::from_millis(50));
    let now = world.now();
    assert!(world.node(1).receive(now, 0) < SENDERS.len(), "some wait with the route");
    world.node(1).turn(now);
    assert_eq!(in_vain(&mut world), (0, 0));
    assert_eq!(world.node(1).waiting(), 0, "all are heard");
}
