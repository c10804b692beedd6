//! Gateways that are killed and come back.

use std::time::Duration;

use dp_route::sim::Link;

use crate::world::{numbered, World};
use crate::SOON;

fn short(i: u64) -> Vec<u8> {
    numbered(i, 8 + (i * 131 % 6000) as usize)
}

fn numbers(got: &[Vec<u8>]) -> Vec<u64> {
    got.iter().map(|bytes| u64::from_ne_bytes(bytes[..8].try_into().unwrap())).collect()
}

fn pair(seed: u64) -> World {
    // Keys are agreed on anew after each restart.
    let network = ["sim", "encrypted"][seed as usize % 2];
    let world = World::new(2, &[network], seed);
    let delay = Duration::from_micros(100);
    world.networks[0].1.set_usual(Link { delay, loss: 0.02, rate: Some(100_000_000), ..Link::default() });
    (1..=2).for_each(|nid| world.programs(nid).open(4000, usize::MAX));
    world
}

#[test]
fn a_receiving_gateway_that_is_killed_loses_nothing_and_repeats_nothing() {
    for seed in 0..20 {
        let mut world = pair(1000 + seed);
        for i in 0..300 {
            world.send((1, 4000), (2, 4000), short(i));
        }
        for kill in 0..5 {
            world.run(Duration::from_micros(3_000 + 700 * seed + 311 * kill));
            world.kill(2);
            world.run(Duration::from_millis(20 * (kill + seed % 3)));
            world.start(2);
        }
        world.until(SOON, "all", |world| world.node(1).waiting() == 0);
        let got = world.programs(2).got(4000);
        assert_eq!(numbers(&got), (0..300).collect::<Vec<_>>(), "seed {seed}");
        assert!(got.iter().zip(0..).all(|(bytes, i)| *bytes == short(i)), "seed {seed}");
    }
}

#[test]
fn a_sending_gateway_that_is_killed_takes_with_it_only_what_nobody_acknowledged() {
    for seed in 0..20 {
        let mut world = pair(2000 + seed);
        let mut next = 0;
        let mut acknowledged = Vec::new();
        for kill in 0..4 {
            let begin = next;
            for _ in 0..100 {
                world.send((1, 4000), (2, 4000), short(next));
                next += 1;
            }
            world.run(Duration::from_micros(5_000 + 900 * seed));
            let left = world.node(1).waiting() as u64;
            acknowledged.extend(begin..next - left);
            if kill < 3 {
                world.kill(1);
                world.run(Duration::from_millis(seed * 7 % 40));
                world.start(1);
            }
        }
        world.until(SOON, "the rest", |world| world.node(1).waiting() == 0);
        let got = numbers(&world.programs(2).got(4000));
        assert!(got.windows(2).all(|pair| pair[0] < pair[1]), "once, and in order: {got:?}, seed {seed}");
        assert!(acknowledged.iter().all(|i| got.contains(i)), "an acknowledged one is missing, seed {seed}");
        assert!((300..400).all(|i| got.contains(&i)), "those of the last gateway, seed {seed}");
    }
}

#[test]
fn both_ways_and_both_gateways() {
    for seed in 0..10 {
        let mut world = pair(3000 + seed);
        for i in 0..200 {
            world.send((1, 4000), (2, 4000), short(i));
        }
        world.run(Duration::from_millis(4));
        // What node 1 has is not lost by node 2's end, nor by that of node 2's messages.
        for round in 0..4 {
            for i in 0..20 {
                world.send((2, 4000), (1, 4000), short(100 * round + i));
            }
            world.run(Duration::from_micros(1500 + 100 * seed));
            world.kill(2);
            world.start(2);
        }
        world.until(SOON, "all", |world| world.node(1).waiting() == 0 && world.node(2).waiting() == 0);
        assert_eq!(numbers(&world.programs(2).got(4000)), (0..200).collect::<Vec<_>>(), "seed {seed}");
        let back = numbers(&world.programs(1).got(4000));
        assert!(back.windows(2).all(|pair| pair[0] < pair[1]), "{back:?}, seed {seed}");
    }
}

#[test]
fn without_its_file_a_gateway_repeats_but_loses_nothing() {
    let mut world = pair(4000);
    for i in 0..200 {
        world.send((1, 4000), (2, 4000), short(i));
    }
    world.run(Duration::from_millis(8));
    world.kill(2);
    std::fs::remove_file(world.places(2)).expect("its file");
    world.start(2);
    world.until(SOON, "all", |world| world.node(1).waiting() == 0);
    let mut got = numbers(&world.programs(2).got(4000));
    got.sort_unstable();
    got.dedup();
    assert_eq!(got, (0..200).collect::<Vec<_>>());
}

/// Where the HELLO is lost that begins an incarnation, a part begins it, and is the first of a message.
#[test]
fn messages_of_several_parts_are_whole_whichever_frames_are_lost_around_a_restart() {
    for seed in 0..60 {
        let mut world = pair(5000 + seed);
        let delay = Duration::from_micros(100);
        world.networks[0].1.set_usual(Link { delay, loss: 0.3, ..Link::default() });
        let long = |i: u64| numbered(i, 20_000);
        let mut next = 0;
        for _ in 0..4 {
            for _ in 0..20 {
                world.send((1, 4000), (2, 4000), long(next));
                next += 1;
            }
            world.run(Duration::from_micros(30_000 + 1700 * seed));
            world.kill(1);
            world.start(1);
        }
        world.send((1, 4000), (2, 4000), long(next));
        world.until(SOON, "the last", |world| world.node(1).waiting() == 0);
        let got = world.programs(2).got(4000);
        for (bytes, i) in got.iter().zip(numbers(&got)) {
            assert!(*bytes == long(i), "message {i} has {} bytes, seed {seed}", bytes.len());
        }
    }
}

/// What it had begun to send does not come to its end, for the same endpoints do not send again.
#[test]
fn what_a_gateway_that_is_killed_had_begun_is_soon_in_nobodys_way() {
    for answers in [false, true] {
        let mut world = World::new(2, &["sim"], 6000);
        let delay = Duration::from_micros(100);
        world.networks[0].1.set_usual(Link { delay, rate: Some(1_000_000_000), ..Link::default() });
        (1..=2).for_each(|nid| (4000..4003).for_each(|dpid| world.programs(nid).open(dpid, usize::MAX)));
        [4000, 4001].into_iter().for_each(|dpid| world.send((1, dpid), (2, dpid), numbered(0, 16 << 20)));
        world.run(Duration::from_millis(100));
        world.kill(1);
        world.start(1);
        for i in 0..10 {
            // The other way these flows go on, and so are not forgotten.
            if answers {
                [4000, 4001].into_iter().for_each(|dpid| world.send((2, dpid), (1, dpid), short(i)));
            }
            world.send((1, 4002), (2, 4002), numbered(i, 3000));
            world.run(Duration::from_millis(100));
        }
        assert_eq!(world.programs(2).count(4002), 10, "answers: {answers}");
        if answers {
            let got = [4000, 4001].map(|dpid| numbers(&world.programs(1).got(dpid)));
            assert!(got.iter().all(|got| *got == (0..10).collect::<Vec<_>>()), "once: {got:?}");
        }
    }
}
