//! Ways that become shorter, and longer again, while parts are on theirs: nothing stands still, and nothing comes twice.

mod sim;

use dp_flow::Down;
use proptest::prelude::*;
use sim::{configs, Link, World, MS, S};

/// Longer than any frame that says what arrived.
const PARTS: std::ops::RangeInclusive<u16> = 120..=500;

/// Who is told of a change.
#[derive(Clone, Copy, Debug)]
enum Told {
    Both,
    Side(usize),
}

/// Sends both ways while the way changes at such moments; then everything must have come, or not come and be reported as lost.
fn changed(link: Link, seed: u64, changes: &[(Told, u16, u64)]) -> World<16> {
    let mut configs = configs(seed);
    for config in &mut configs {
        (config.part_max, config.first_number) = (*PARTS.end(), u32::MAX - 30);
        (config.keepalive, config.dead_after) = (0, u64::MAX);
    }
    let mut world = World::<16>::new(configs, link, seed);
    for (n, (told, part_max, after)) in (1..).zip(changes) {
        let end = world.now + after;
        while world.now < end {
            world.send_up_to([20 * n; 2]);
            if !world.step() {
                break;
            }
        }
        match told {
            Told::Both => world.set_way(*part_max),
            Told::Side(side) => world.set_way_of(*side, *part_max),
        }
    }
    let most = world.sides.iter().map(|side| side.sent).max().unwrap_or(0) + 5;
    world.run(600 * S, |world| {
        world.send_up_to([most; 2]);
        world
            .sides
            .iter()
            .all(|side| side.sent == most && side.delivered.len() + side.lost.len() == most as usize)
    });
    for side in 0..2 {
        world.check(side);
        let came = world.sides[1 - side].inbox.messages.len();
        assert_eq!(
            came,
            world.sides[side].delivered.len(),
            "what is lost did not come: {:?}",
            world.sides[side].lost
        );
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn messages_are_cut_anew_and_come_once(
        (lost, repeated, damaged) in (0..200u32, 0..200u32, 0..100u32),
        (delay, jitter) in (0..MS, 0..3 * MS),
        seed: u64,
        changes in prop::collection::vec((Just(Told::Both), PARTS, 0..20 * MS), 1..6),
    ) {
        changed(Link { lost, repeated, damaged, delay, jitter, ..Link::GOOD }, seed, &changes);
    }
}

proptest! {
    // Rare orders: what a HELLO said that was long on its way.
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_side_may_shorten_at_its_own_moments(
        (lost, repeated) in (0..400u32, 0..200u32),
        (delay, jitter) in (0..MS, 0..3 * MS),
        seed: u64,
        changes in prop::collection::vec(((0..2usize).prop_map(Told::Side), PARTS, 0..10 * MS), 2..10),
    ) {
        changed(Link { lost, repeated, delay, jitter, ..Link::GOOD }, seed, &changes);
    }
}

#[test]
fn a_way_that_becomes_longer_or_stays_long_enough_ends_nothing() {
    let world = changed(Link::GOOD, 1, &[(Told::Both, 500, MS), (Told::Both, 500, MS)]);
    assert!(world.sides.iter().all(|side| side.downs.is_empty() && side.ups == 1 && side.lost.is_empty()));
}

#[test]
fn parts_that_are_too_long_by_now_end_the_incarnation_once() {
    let mut world = World::<16>::new(configs(2), Link::GOOD, 2);
    assert!(world.send(0, 40_000, Some(0)));
    world.run(S, |world| world.sides[0].flow.state().flying > 4);
    world.set_way(300);
    assert!(!world.sides[0].flow.state().open);
    world.run(S, |world| world.sides[0].ups == 2);
    assert_eq!(world.sides[0].downs, [Down::Shortened]);
    assert_eq!(world.sides[1].downs, [Down::Restarted]);
    assert_eq!(world.sides[0].lost, [0], "its sender has it, and sends it again");
    assert!(world.send(0, 40_000, Some(1)));
    world.run(S, |world| world.sides[0].delivered == [1]);
    assert_eq!(world.sides[1].inbox.messages.len(), 1);
}
