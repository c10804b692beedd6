//! Several routes, which die and come back.

use std::time::Duration;

use dp_route::sim::{Link, State};

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
