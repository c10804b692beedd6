//! Paths on which long packets vanish, and nobody says so.

use std::time::Duration;

use dp_node::places::Ends;
use dp_route::sim::{Link, State};
use dpfd::Addr;

use crate::world::{numbered, World};
use crate::SOON;

fn link(swallows: usize) -> Link {
    Link { swallows, delay: Duration::from_micros(50), rate: Some(100_000_000), ..Link::default() }
}

fn shortened(world: &mut World) -> Option<usize> {
    world.node(1).peers()[0].ways()[0].shortened()
}

/// From the start, and while messages are on their way.
#[test]
fn flows_shrink_their_frames_and_lose_nothing() {
    for (seed, network) in (50..).zip(["sim", "encrypted"]) {
        let mut world = World::new(2, &[network], seed);
        (1..=2).for_each(|nid| world.programs(nid).open(4000, usize::MAX));
        let mut next = 0;
        for carries in [1400, usize::MAX, 1100, 500] {
            world.networks[0].1.set_usual(link(carries));
            let begin = world.now();
            for _ in 0..50 {
                for (from, to) in [(1, 2), (2, 1)] {
                    world.send((from, 4000), (to, 4000), numbered(next, 8 + next as usize * 37 % 20_000));
                }
                next += 1;
                world.run(Duration::from_millis(20));
            }
            let done = |world: &mut World| (1..=2).all(|nid| world.node(nid).waiting() == 0);
            world.until(SOON, "all of it", done);
            let took = (world.now() - begin) / 1_000_000;
            assert!(took < 6000, "{took} ms for fifty messages where {carries} bytes come through");
        }
        for nid in 1..=2 {
            let got = world.programs(nid).got(4000);
            let expected: Vec<_> = (0..next).map(|i| numbered(i, 8 + i as usize * 37 % 20_000)).collect();
            assert!(got == expected, "{} of {next} at node {nid}, {network}", got.len());
        }
        // As long as come through.
        let go_on = |world: &mut World, seconds: u64| {
            for i in 0..10 * seconds {
                world.send((1, 4000), (2, 4000), numbered(i, 3000));
                world.run(Duration::from_millis(100));
            }
            shortened(world)
        };
        world.networks[0].1.set_usual(link(900));
        let found = go_on(&mut world, 90);
        assert!(found.is_some_and(|found| (880..=900).contains(&found)), "{found:?} of 900");
        world.networks[0].1.set_usual(link(usize::MAX));
        assert_eq!(go_on(&mut world, 90), None, "it carries all again");
    }
}

/// Only one direction is like that; the other one is left as it is.
#[test]
fn each_direction_is_by_itself() {
    let mut world = World::new(2, &["sim"], 60);
    world.networks[0].1.set_usual(link(usize::MAX));
    world.networks[0].1.set_link("n1", "n2", link(1000)).unwrap();
    (1..=2).for_each(|nid| world.programs(nid).open(4000, usize::MAX));
    for i in 0..200 {
        world.send((1, 4000), (2, 4000), numbered(i, 3000));
        world.send((2, 4000), (1, 4000), numbered(i, 3000));
        world.run(Duration::from_millis(20));
    }
    world.until(SOON, "all", |world| world.node(1).waiting() == 0 && world.node(2).waiting() == 0);
    assert!(shortened(&mut world).is_some_and(|found| found <= 1000));
    assert_eq!(world.node(2).peers()[0].ways()[0].shortened(), None);
    assert_eq!(world.programs(1).count(4000), 200);
    assert_eq!(world.programs(2).count(4000), 200);
}

#[test]
fn who_sends_short_messages_asks_no_long_questions() {
    let mut world = World::new(2, &["sim"], 61);
    world.networks[0].1.set_usual(link(usize::MAX));
    world.programs(2).open(4000, usize::MAX);
    for i in 0..100 {
        world.send((1, 4000), (2, 4000), numbered(i, 100));
        world.run(Duration::from_millis(100));
    }
    let bytes = world.node(1).routes()[0].counters().sent_bytes;
    assert!(bytes < 100 * 300, "{bytes} bytes for a hundred short messages");
}

/// Long questions find no room where short ones do, since data has it all.
#[test]
fn a_full_queue_is_no_black_hole() {
    let mut world = World::new(2, &["sim"], 62);
    let (delay, rate) = (Duration::from_micros(50), Some(1_000_000));
    world.networks[0].1.set_usual(Link { delay, rate, queue: 3500, ..Link::default() });
    world.programs(2).open(4000, usize::MAX);
    for i in 0..600 {
        world.send((1, 4000), (2, 4000), numbered(i, 3000));
    }
    for _ in 0..100 {
        world.run(Duration::from_millis(100));
        assert_eq!(shortened(&mut world), None);
    }
    assert!(world.node(1).waiting() > 0, "its queue was full all the time");
}

/// Begun while packets are shortened, in both directions.
#[test]
fn a_flow_that_began_in_the_hole_has_long_frames_once_they_come_through_again() {
    let mut world = World::new(2, &["sim"], 63);
    (1..=2).for_each(|nid| (4000..=4001).for_each(|dpid| world.programs(nid).open(dpid, usize::MAX)));
    let go_on = |world: &mut World, dpid: u16, seconds: u64| {
        for i in 0..10 * seconds {
            for (from, to) in [(1, 2), (2, 1)] {
                world.send((from, dpid), (to, dpid), numbered(i, 3000));
            }
            world.run(Duration::from_millis(100));
        }
    };
    let frames = |world: &mut World, nid| {
        let before = world.node(nid).routes()[0].counters().sent_bytes;
        let flow = |world: &mut World| {
            let mut flows = world.node(nid).peers()[0].traffic();
            flows.find(|flow| flow.ends().here == 4001).map(|flow| flow.counts().frames_out)
        };
        let begin = flow(world).expect("a flow");
        world.send((nid, 4001), (3 - nid, 4001), numbered(0, 60_000));
        world.until(SOON, "the message", |world| world.node(nid).waiting() == 0);
        assert!(world.node(nid).routes()[0].counters().sent_bytes > before + 60_000);
        flow(world).expect("a flow") - begin
    };
    world.networks[0].1.set_usual(link(600));
    go_on(&mut world, 4000, 20);
    assert!(shortened(&mut world).is_some_and(|found| found <= 600));
    go_on(&mut world, 4001, 10);
    let short = [frames(&mut world, 1), frames(&mut world, 2)];
    assert!(short.iter().all(|frames| *frames > 100), "{short:?} frames of 600 bytes");
    world.networks[0].1.set_usual(link(usize::MAX));
    go_on(&mut world, 4001, 90);
    assert_eq!(shortened(&mut world), None);
    let long = [frames(&mut world, 1), frames(&mut world, 2)];
    assert!(long.iter().all(|frames| *frames < 60), "{long:?} frames of 1500 bytes");
}

/// Frames that node 1's flow of that endpoint has sent.
fn frames_of(world: &mut World, dpid: u16) -> u64 {
    let mut flows = world.node(1).peers()[0].traffic();
    flows.find(|flow| flow.ends().here == dpid).map_or(0, |flow| flow.counts().frames_out)
}

/// Sends `count` messages of three long frames each, and says how many frames it took.
fn frames_for(world: &mut World, dpid: u16, count: u64) -> u64 {
    let (before, had) = (frames_of(world, dpid), world.programs(2).count(dpid));
    for i in 0..count {
        world.send((1, dpid), (2, dpid), numbered(i, 3000));
        world.run(Duration::from_millis(20));
    }
    world.until(SOON, "all of it", |world| world.programs(2).count(dpid) == had + count as usize);
    frames_of(world, dpid) - before
}

/// The first is dead and its path known to be short: the next one's frames are as long as it carries.
#[test]
fn a_short_path_that_is_not_in_use_shortens_nobodys_frames() {
    let mut world = World::new(2, &["first", "second"], 64);
    world.networks.iter().for_each(|(_, network)| network.set_usual(link(usize::MAX)));
    world.programs(2).open(4000, usize::MAX);
    world.networks[0].1.set_usual(link(600));
    frames_for(&mut world, 4000, 300);
    assert!(shortened(&mut world).is_some_and(|found| found <= 600));
    let short = frames_for(&mut world, 4000, 100);
    assert!(short >= 600, "{short} frames of 600 bytes");
    world.networks[0].1.set_usual(Link { state: State::Silent, ..link(600) });
    frames_for(&mut world, 4000, 100);
    assert_eq!(world.node(1).peers()[0].current(), Some(1));
    let long = frames_for(&mut world, 4000, 500);
    assert!(long <= 1600, "{long} frames for 500 messages by the second route");
    // Parts that were on their way by the second are cut anew for the first.
    world.networks[0].1.set_usual(link(600));
    world.networks[1].1.set_usual(Link { state: State::Down, ..link(usize::MAX) });
    let back = frames_for(&mut world, 4000, 300);
    assert!(back >= 1800, "{back} frames by the first route");
    let got = world.programs(2).got(4000);
    assert_eq!(got.len(), 300 + 100 + 100 + 500 + 300);
}

/// Messages of one edge go by both: none is cut for a path that it does not fit, and the flow does not begin anew for each.
#[test]
fn messages_by_two_routes_fit_the_shorter_path() {
    let mut world = World::new(2, &["first", "second"], 66);
    world.networks.iter().for_each(|(_, network)| network.set_usual(link(usize::MAX)));
    world.programs(2).open(4000, usize::MAX);
    world.networks[1].1.set_usual(link(600));
    let go_on = |world: &mut World, from: u64| {
        for i in from..from + 300 {
            let name = (i % 2 == 0).then_some("second");
            world.send_by(name, (1, 4000), (2, 4000), numbered(i, 3000));
            world.run(Duration::from_millis(20));
        }
        world.until(SOON, "all of it", |world| world.node(1).waiting() == 0);
        world.node(1).peers()[0].traffic().map(|flow| flow.restarts()).sum::<u64>()
    };
    let begun = go_on(&mut world, 0);
    assert!(begun < 5, "{begun} incarnations while it was found out");
    assert_eq!(go_on(&mut world, 300), begun, "none since");
    let got = world.programs(2).got(4000);
    assert!((0..600).all(|i| got[i as usize] == numbered(i, 3000)) && got.len() == 600);
}

/// One edge names the route whose path is short; the other's frames are long.
#[test]
fn a_short_path_shortens_the_frames_of_those_who_go_by_it_alone() {
    let mut world = World::new(2, &["first", "second"], 65);
    world.networks.iter().for_each(|(_, network)| network.set_usual(link(usize::MAX)));
    world.wishes = vec![(Ends { here: 4001, there: 4001 }, "second")];
    world.start(1);
    (4000..=4001).for_each(|dpid| world.programs(2).open(dpid, usize::MAX));
    world.networks[1].1.set_usual(link(600));
    frames_for(&mut world, 4001, 300);
    let (usual, named) = (frames_for(&mut world, 4000, 200), frames_for(&mut world, 4001, 200));
    assert!(usual <= 640, "{usual} frames for 200 messages by the first route");
    assert!(named >= 1200, "{named} frames of 600 bytes by the second");
    // A program moves its edge to the other route, and back.
    let to = Addr { nid: 2, dpid: 4001 };
    world.node(1).ask_for(4001, to, Some("first"));
    let moved = frames_for(&mut world, 4001, 200);
    assert!(moved <= 640, "{moved} frames by the first route");
    world.node(1).ask_for(4001, to, None);
    let back = frames_for(&mut world, 4001, 200);
    assert!(back >= 1200, "{back} frames by the second route");
}

/// A flow begins while the node is down, and its path has been found to be short before.
#[test]
fn a_flow_that_began_while_the_node_was_down_fits_the_short_path_as_soon_as_it_is_back() {
    let mut world = World::new(2, &["sim"], 67);
    (4000..=4001).for_each(|dpid| world.programs(2).open(dpid, usize::MAX));
    world.networks[0].1.set_usual(link(1200));
    frames_for(&mut world, 4000, 300);
    assert!(shortened(&mut world).is_some_and(|found| found <= 1200));
    world.networks[0].1.set_usual(Link { state: State::Silent, ..link(1200) });
    world.send((1, 4000), (2, 4000), numbered(0, 3000));
    world.until(SOON, "nobody answers", |world| world.node(1).peers()[0].current().is_none());
    (0..50).for_each(|i| world.send((1, 4001), (2, 4001), numbered(i, 3000)));
    assert!(shortened(&mut world).is_some_and(|found| found <= 1200), "it is still known");
    world.networks[0].1.set_usual(link(1200));
    world.until(SOON, "the node's answer", |world| world.node(1).peers()[0].current().is_some());
    world.until(Duration::from_secs(4), "what waited", |world| world.programs(2).count(4001) == 50);
}
