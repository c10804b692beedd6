//! Several routes, which die and come back.

use std::time::Duration;

use dp_node::places::Ends;
use dp_route::sim::{Link, State};
use dpfd::Addr;

use crate::world::{numbered, World};
use crate::SOON;

fn link(state: State) -> Link {
    Link { delay: Duration::from_micros(50), state, ..Link::default() }
}

fn sent(world: &mut World, route: usize) -> u64 {
    world.node(1).routes()[route].counters().sent
}

#[test]
fn the_next_route_comes_in_and_the_first_is_taken_back_without_loss() {
    // What one route's guard has sealed is no frame for the other's.
    let networks = [["first", "second"], ["encrypted", "second"], ["first", "authenticated"]];
    for (dead, networks) in [
        (State::Silent, networks[0]),
        (State::Down, networks[0]),
        (State::Silent, networks[1]),
        (State::Down, networks[2]),
    ] {
        let mut world = World::new(2, &networks, 11);
        world.networks.iter().for_each(|(_, network)| network.set_usual(link(State::Up)));
        world.programs(2).open(4000, usize::MAX);
        let mut next = 0;
        let mut go_on = |world: &mut World, time: u64| {
            for _ in 0..time {
                world.send((1, 4000), (2, 4000), numbered(next, 3000));
                next += 1;
                world.run(Duration::from_millis(1));
            }
            next
        };
        go_on(&mut world, 100);
        assert_eq!(sent(&mut world, 1), 0, "the first one that the node lists");
        world.networks[0].1.set_usual(link(dead));
        go_on(&mut world, 2000);
        let all = go_on(&mut world, 0) as usize;
        assert!(world.programs(2).count(4000) > all - 50, "{dead:?}: the second carries them");
        world.networks[0].1.set_usual(link(State::Up));
        go_on(&mut world, 8000);
        let second = sent(&mut world, 1);
        go_on(&mut world, 500);
        assert_eq!(sent(&mut world, 1), second, "{dead:?}: the first is taken back");
        world.until(SOON, "all", |world| world.node(1).waiting() == 0);
        let all = go_on(&mut world, 0);
        let got = world.programs(2).got(4000);
        assert!((0..all).all(|i| got[i as usize] == numbered(i, 3000)), "{dead:?}");
        assert_eq!(got.len() as u64, all);
    }
}

#[test]
fn a_route_that_works_in_one_direction_only_is_dead() {
    let mut world = World::new(2, &["first", "second"], 12);
    world.networks.iter().for_each(|(_, network)| network.set_usual(link(State::Up)));
    (1..=2).for_each(|nid| world.programs(nid).open(4000, usize::MAX));
    world.networks[0].1.set_link("n1", "n2", link(State::Silent)).unwrap();
    // Node 2 goes on being heard.
    for i in 0..4000 {
        world.send((2, 4000), (1, 4000), numbered(i, 100));
        world.send((1, 4000), (2, 4000), numbered(i, 100));
        world.run(Duration::from_millis(1));
    }
    world.until(SOON, "all", |world| world.node(1).waiting() == 0 && world.node(2).waiting() == 0);
    assert_eq!(world.programs(2).count(4000), 4000);
    assert_eq!(world.programs(1).count(4000), 4000);
}

#[test]
fn a_node_that_is_down_keeps_its_senders_waiting_and_goes_on_when_it_is_back() {
    let mut world = World::new(2, &["sim"], 13);
    world.networks[0].1.set_usual(link(State::Up));
    world.programs(2).open(4000, usize::MAX);
    for i in 0..10 {
        world.send((1, 4000), (2, 4000), numbered(i, 100));
    }
    world.until(SOON, "the first", |world| world.node(1).waiting() == 0);
    world.networks[0].1.set_usual(link(State::Silent));
    for i in 10..300 {
        world.send((1, 4000), (2, 4000), numbered(i, 2000));
    }
    world.run(Duration::from_secs(5));
    assert_eq!(world.node(1).peers()[0].current(), None, "it is down");
    let before = sent(&mut world, 0);
    world.run(Duration::from_secs(60));
    let frames = sent(&mut world, 0) - before;
    assert!(frames <= 15, "{frames} frames in a minute to a node that is down");
    world.networks[0].1.set_usual(link(State::Up));
    world.until(Duration::from_secs(8), "the others", |world| world.node(1).waiting() == 0);
    let got = world.programs(2).got(4000);
    assert_eq!(got.len(), 300);
    assert!((10..300).all(|i| got[i as usize] == numbered(i, 2000)));
}

/// Questions follow one another quicker than answers come.
#[test]
fn a_long_way_is_not_a_dead_one() {
    let mut world = World::new(2, &["first", "second"], 14);
    world.networks.iter().for_each(|(_, network)| network.set_usual(link(State::Up)));
    world.networks[0].1.set_usual(Link { delay: Duration::from_millis(300), ..Link::default() });
    world.programs(2).open(4000, usize::MAX);
    for i in 0..100 {
        world.send((1, 4000), (2, 4000), numbered(i, 100));
        world.run(Duration::from_millis(100));
    }
    world.until(SOON, "all", |world| world.node(1).waiting() == 0);
    assert_eq!(sent(&mut world, 1), 0, "nothing by the other one");
    assert!(world.node(1).peers()[0].ways()[0].round_trip >= 600_000_000);
}

/// While frames are on their way, and of all lengths.
#[test]
fn paths_that_become_shorter_and_longer_stop_nobody() {
    for (seed, network) in (20..).zip(["sim", "encrypted", "authenticated"]) {
        let mut world = World::new(2, &[network], seed);
        let with = |mtu| Link { mtu, rate: Some(1_000_000_000), ..link(State::Up) };
        world.networks[0].1.set_usual(with(1500));
        (1..=2).for_each(|nid| world.programs(nid).open(4000, usize::MAX));
        let mut next = 0;
        for mtu in [1500, 900, 1400, 300, 1500, 576] {
            world.networks[0].1.set_usual(with(mtu));
            for _ in 0..100 {
                for (from, to) in [(1, 2), (2, 1)] {
                    world.send((from, 4000), (to, 4000), numbered(next, 8 + next as usize * 37 % 20_000));
                }
                next += 1;
            }
            world.run(Duration::from_millis(2));
        }
        let done = |world: &mut World| (1..=2).all(|nid| world.node(nid).waiting() == 0);
        world.until(SOON, "all of it", done);
        for nid in 1..=2 {
            let got = world.programs(nid).got(4000);
            let expected: Vec<_> = (0..next).map(|i| numbered(i, 8 + i as usize * 37 % 20_000)).collect();
            assert!(got == expected, "{} of {next} at node {nid}, {network}", got.len());
        }
    }
}

/// An edge's route in the graph: one flow goes by the second route, another by the first, and by each other's where one dies.
#[test]
fn a_flow_goes_by_the_route_that_its_edge_names_while_that_works() {
    for (seed, networks) in (30..).zip([["first", "second"], ["first", "encrypted"]]) {
        let mut world = World::new(2, &networks, seed);
        world.networks.iter().for_each(|(_, network)| network.set_usual(link(State::Up)));
        world.wishes = vec![(Ends { here: 4001, there: 4001 }, networks[1])];
        world.start(1);
        (4000..=4001).for_each(|dpid| world.programs(2).open(dpid, usize::MAX));
        let mut next = 0;
        let mut by = |world: &mut World, dpid: u16| {
            let before = [sent(world, 0), sent(world, 1)];
            for _ in 0..300 {
                world.send((1, dpid), (2, dpid), numbered(next, 3000));
                next += 1;
                world.run(Duration::from_millis(1));
            }
            [sent(world, 0) - before[0], sent(world, 1) - before[1]]
        };
        let (usual, named) = (by(&mut world, 4000), by(&mut world, 4001));
        assert!(usual[0] > 600 && usual[1] < 10, "{usual:?}");
        assert!(named[0] < 10 && named[1] > 600, "{named:?}");
        // It is found dead though nothing else goes by it.
        world.networks[1].1.set_usual(link(State::Silent));
        let lost = (0..4).map(|_| by(&mut world, 4001)).last().unwrap_or_default();
        assert!(lost[0] > 300, "the other one carries them: {lost:?}");
        world.networks[1].1.set_usual(link(State::Up));
        let back = (0..31).map(|_| by(&mut world, 4001)).last().unwrap_or_default();
        assert!(back[0] < 10 && back[1] > 600, "taken back: {back:?}");
        world.until(SOON, "all", |world| world.node(1).waiting() == 0);
        let got = |dpid| {
            world.programs(2).got(dpid).iter().map(|m| m[0] as u64 + ((m[1] as u64) << 8)).collect::<Vec<_>>()
        };
        assert!(got(4001).windows(2).all(|pair| pair[0] < pair[1]), "once, and in order");
        assert_eq!(got(4000).len() + got(4001).len(), 300 * 37);
    }
}

/// While messages are on their way: a program names the second route, and then none.
#[test]
fn a_flow_goes_by_the_route_that_its_program_names() {
    let mut world = World::new(2, &["first", "second"], 35);
    world.networks.iter().for_each(|(_, network)| network.set_usual(link(State::Up)));
    // The graph says the first; the program's word counts for more.
    world.wishes = vec![(Ends { here: 4001, there: 4001 }, "first")];
    world.start(1);
    (4000..=4001).for_each(|dpid| world.programs(2).open(dpid, usize::MAX));
    let to = |dpid| Addr { nid: 2, dpid };
    let mut next = 0;
    let mut by = |world: &mut World, named: Option<&str>| {
        // What is on its way already leaves as it will.
        world.node(1).ask_for(4001, to(4001), named);
        let before = [sent(world, 0), sent(world, 1)];
        for _ in 0..300 {
            for dpid in 4000..=4001 {
                world.send((1, dpid), (2, dpid), numbered(next, 3000));
            }
            next += 1;
            world.run(Duration::from_millis(1));
        }
        [sent(world, 0) - before[0], sent(world, 1) - before[1]]
    };
    let (first, second, again) = (by(&mut world, None), by(&mut world, Some("second")), by(&mut world, None));
    assert!(first[1] < 10 && again[1] < 10, "{first:?} {again:?}");
    assert!(second[0] > 600 && second[1] > 600, "the other flow stays: {second:?}");
    // Before there is a flow.
    world.programs(2).open(4002, usize::MAX);
    world.node(1).ask_for(4001, to(4002), Some("second"));
    let before = sent(&mut world, 1);
    (0..100).for_each(|i| world.send((1, 4001), (2, 4002), numbered(i, 3000)));
    world.until(SOON, "all", |world| world.node(1).waiting() == 0);
    assert!(sent(&mut world, 1) - before >= 300);
    for dpid in 4000..=4001 {
        let got = world.programs(2).got(dpid);
        assert!((0..900).all(|i| got[i as usize] == numbered(i, 3000)) && got.len() == 900);
    }
}

/// A program names the second route, sends, and ends before the gateway has taken anything of it.
#[test]
fn what_a_program_sent_before_it_ended_goes_by_the_route_that_it_named() {
    let mut world = World::new(2, &["first", "second"], 36);
    world.networks.iter().for_each(|(_, network)| network.set_usual(link(State::Up)));
    world.programs(2).open(4000, usize::MAX);
    let to = Addr { nid: 2, dpid: 4000 };
    let by_second = |world: &mut World| {
        let before = sent(world, 1);
        (0..100).for_each(|i| world.send((1, 4000), (2, 4000), numbered(i, 3000)));
        world.until(SOON, "all", |world| world.node(1).waiting() == 0);
        sent(world, 1) - before
    };
    let ends = |world: &mut World| {
        let now = world.now();
        world.node(1).link_ended(now, 4000, to);
    };
    world.node(1).ask_for(4000, to, Some("second"));
    ends(&mut world);
    assert!(by_second(&mut world) >= 300);
    // The next one with that number names the same before that is dropped, and keeps it.
    world.node(1).ask_for(4000, to, Some("second"));
    world.run(Duration::from_secs(30));
    assert!(by_second(&mut world) >= 300);
    // One that names none has none of its.
    ends(&mut world);
    world.run(Duration::from_secs(30));
    assert!(by_second(&mut world) < 10);
    // Nothing is left of it, and nobody is woken for it.
    world.run(Duration::from_secs(100));
    assert!(world.sleeps(1));
}

/// One flow goes by a route that is so slow that its queue is always full, and another by the other.
#[test]
fn a_route_that_has_no_room_holds_up_only_what_goes_by_it() {
    let time = |crowded: bool| {
        let mut world = World::new(2, &["first", "second"], 40);
        world.networks[0].1.set_usual(link(State::Up));
        world.networks[1].1.set_usual(Link { rate: Some(1_000_000), queue: 3000, ..link(State::Up) });
        world.wishes = vec![(Ends { here: 4001, there: 4001 }, "second")];
        world.start(1);
        (4000..=4001).for_each(|dpid| world.programs(2).open(dpid, usize::MAX));
        for i in 0..300 {
            if crowded {
                world.send((1, 4001), (2, 4001), numbered(i, 3000));
            }
            world.send((1, 4000), (2, 4000), numbered(i, 3000));
        }
        let begin = world.now();
        world.until(SOON, "the first route's", |world| world.programs(2).count(4000) == 300);
        let took = world.now() - begin;
        world.until(SOON, "all", |world| world.node(1).waiting() == 0);
        assert_eq!(world.programs(2).count(4001), if crowded { 300 } else { 0 });
        took
    };
    let (alone, beside) = (time(false), time(true));
    assert!(beside < 2 * alone + 1_000_000, "{beside} ns beside a full route, {alone} ns alone");
}

/// Messages of one edge name two routes in turns, of which one is slower; then it dies, and comes back.
#[test]
fn messages_go_by_the_routes_that_they_name_and_keep_their_order() {
    for (seed, networks) in (45..).zip([["first", "second"], ["first", "encrypted"]]) {
        let mut world = World::new(2, &networks, seed);
        world.networks[0].1.set_usual(Link { loss: 0.01, ..link(State::Up) });
        let slow = Link { delay: Duration::from_millis(2), loss: 0.01, ..link(State::Up) };
        world.networks[1].1.set_usual(slow);
        (4000..=4001).for_each(|dpid| world.programs(2).open(dpid, usize::MAX));
        let mut next = 0;
        let mut by = |world: &mut World, names: &[Option<&str>]| {
            let before = [sent(world, 0), sent(world, 1)];
            for _ in 0..300 {
                for name in names {
                    world.send_by(*name, (1, 4000), (2, 4000), numbered(next, 3000));
                    next += 1;
                }
                world.run(Duration::from_millis(2));
            }
            [sent(world, 0) - before[0], sent(world, 1) - before[1]]
        };
        let named = Some(networks[1]);
        let usual = by(&mut world, &[None]);
        assert!(usual[0] >= 900 && usual[1] < 10, "{usual:?}");
        let turns = by(&mut world, &[None, named]);
        assert!(turns.iter().all(|frames| (900..1500).contains(frames)), "{turns:?}");
        let (only, unknown) = (by(&mut world, &[named]), by(&mut world, &[Some("wireless")]));
        assert!(only[0] < 30 && only[1] >= 900, "{only:?}");
        assert!(unknown[0] >= 900 && unknown[1] < 30, "the node has no such route: {unknown:?}");
        world.networks[1].1.set_usual(Link { state: State::Silent, ..slow });
        for _ in 0..2 {
            by(&mut world, &[None, named]);
        }
        let dead = by(&mut world, &[None, named]);
        assert!(dead[0] >= 1800 && dead[1] < 30, "the first carries both: {dead:?}");
        world.networks[1].1.set_usual(slow);
        for _ in 0..15 {
            by(&mut world, &[None, named]);
        }
        let back = by(&mut world, &[None, named]);
        assert!(back.iter().all(|frames| (900..1500).contains(frames)), "taken back: {back:?}");
        world.until(SOON, "all", |world| world.node(1).waiting() == 0);
        let got = world.programs(2).got(4000);
        assert_eq!(got.len() as u64, next);
        assert!((0..next).all(|i| got[i as usize] == numbered(i, 3000)), "once, and in order");
        assert_eq!(world.node(1).peers()[0].traffic().map(|flow| flow.restarts()).sum::<u64>(), 0);
    }
}

/// A flood by one route, which is slow, and short messages by the other: all of one edge, so the short ones wait for their turn,
/// but not for the slow route's queue.
#[test]
fn a_slow_route_that_some_messages_name_is_used_beside_the_other() {
    let mut world = World::new(2, &["first", "second"], 47);
    world.networks[0].1.set_usual(link(State::Up));
    world.networks[1].1.set_usual(Link { rate: Some(10_000_000), queue: 20_000, ..link(State::Up) });
    world.programs(2).open(4000, usize::MAX);
    for i in 0..1000 {
        let name = (i % 10 == 0).then_some("second");
        world.send_by(name, (1, 4000), (2, 4000), numbered(i, 1000));
    }
    let begin = world.now();
    world.until(SOON, "all", |world| world.node(1).waiting() == 0);
    let took = (world.now() - begin) / 1_000_000;
    // A hundred messages of 8.5 kbit each take 85 ms there; a thousand would 850.
    assert!(took < 400, "{took} ms");
    let got = world.programs(2).got(4000);
    assert!((0..1000).all(|i| got[i as usize] == numbered(i, 1000)) && got.len() == 1000);
}

/// Frames as short as questions fill it to the last byte: most questions find no room, all of the time.
#[test]
fn a_queue_that_is_full_of_short_frames_is_no_dead_route() {
    let mut world = World::new(2, &["first", "second"], 41);
    world.networks[0].1.set_usual(Link { rate: Some(1_000_000), queue: 2000, ..link(State::Up) });
    world.networks[1].1.set_usual(link(State::Up));
    world.programs(2).open(4000, usize::MAX);
    for i in 0..40_000 {
        world.send((1, 4000), (2, 4000), numbered(i, 8));
    }
    world.until(SOON, "all", |world| world.node(1).waiting() == 0);
    assert_eq!(sent(&mut world, 1), 0, "the first one lives");
    assert_eq!(world.programs(2).count(4000), 40_000);
}

/// A queue that takes nothing any more, as of a cable that is pulled while its driver waits.
#[test]
fn a_queue_that_never_has_room_is_a_dead_route() {
    let mut world = World::new(2, &["first", "second"], 42);
    world.networks.iter().for_each(|(_, network)| network.set_usual(link(State::Up)));
    world.programs(2).open(4000, usize::MAX);
    for i in 0..2000 {
        if i == 100 {
            world.networks[0].1.set_usual(Link { rate: Some(1), queue: 0, ..link(State::Up) });
        }
        world.send((1, 4000), (2, 4000), numbered(i, 3000));
        world.run(Duration::from_millis(1));
    }
    world.until(Duration::from_secs(3), "all by the second", |world| world.node(1).waiting() == 0);
    assert_eq!(world.programs(2).count(4000), 2000);
}

/// Whole batches leave by each of them, not one frame at a time.
#[test]
fn messages_that_name_two_routes_in_turn_leave_in_batches() {
    let mut world = World::new(2, &["first", "second"], 31);
    world.networks.iter().for_each(|(_, network)| network.set_usual(link(State::Up)));
    world.programs(2).open(4000, usize::MAX);
    let name = |i: u64| (i % 2 == 1).then_some("second");
    let send = |world: &mut World, i| world.send_by(name(i), (1, 4000), (2, 4000), numbered(i, 100));
    (0..100).for_each(|i| send(&mut world, i));
    world.until(SOON, "the window's growth", |world| world.node(1).waiting() == 0);
    (100..120).for_each(|i| send(&mut world, i));
    let before = [0, 1].map(|route| sent(&mut world, route));
    let now = world.now();
    world.node(1).turn(now);
    let left = [0, 1].map(|route| sent(&mut world, route) - before[route]);
    assert!(left.iter().all(|left| *left > 4), "{left:?} frames in one turn");
    world.until(SOON, "all", |world| world.node(1).waiting() == 0);
    assert_eq!(world.programs(2).got(4000), (0..120).map(|i| numbered(i, 100)).collect::<Vec<_>>());
}

/// What was learnt of a quick way makes a slow one look crowded: each loss there would count.
#[test]
fn a_flow_that_comes_to_a_slower_way_is_as_quick_as_one_that_begins_there() {
    let mut world = World::new(2, &["quick", "slow"], 77);
    let link = |delay, loss| Link {
        delay: Duration::from_micros(delay),
        loss,
        rate: Some(1_000_000_000),
        ..Link::default()
    };
    world.networks[0].1.set_usual(link(15, 0.0));
    world.networks[1].1.set_usual(link(2500, 0.01));
    [4000, 4001].into_iter().for_each(|dpid| world.programs(2).open(dpid, usize::MAX));
    for i in 0..100 {
        world.send((1, 4000), (2, 4000), numbered(i, 1000));
        world.until(SOON, "an answer", |world| world.node(1).waiting() == 0);
    }
    world.networks[0].1.set_usual(Link { state: State::Down, ..link(15, 0.0) });
    world.send((1, 4000), (2, 4000), numbered(100, 1000));
    world.until(SOON, "the other way", |world| world.node(1).waiting() == 0);
    let mut takes = |dpid: u16| {
        let begin = world.now();
        for i in 0..3000 {
            world.send((1, dpid), (2, dpid), numbered(i, 1400));
        }
        world.until(SOON, "all", |world| world.node(1).waiting() == 0);
        world.now() - begin
    };
    // One that begins opens its window first.
    takes(4001);
    let (new, old) = (takes(4001), takes(4000));
    assert!(old < new + new / 4, "{} ms, where a new one takes {}", old / 1_000_000, new / 1_000_000);
}
