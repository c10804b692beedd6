//! Either side's gateway is killed at any moment, as often as one likes: what was told to be delivered is, nothing comes
//! twice or out of order, and what is sent afterwards arrives.

mod sim;

use dp_flow::{Down, Refused};
use proptest::prelude::*;
use sim::{configs, sender_len, Link, World, MS, S, US};

fn bad_link() -> impl Strategy<Value = Link> {
    let share = prop_oneof![Just(0u32), 1..300u32];
    (share.clone(), share.clone(), share, 0..MS, prop_oneof![Just(0), 0..3 * MS]).prop_map(
        |(lost, repeated, damaged, delay, jitter)| Link {
            lost,
            repeated,
            damaged,
            delay,
            jitter,
            ..Link::GOOD
        },
    )
}

/// Sends from both sides while restarts come at random; then a last message each way must come.
fn restarted(link: Link, seed: u64, restarts: &[(bool, u64)], resume: bool) -> World<16> {
    let mut configs = configs(seed);
    for config in &mut configs {
        config.part_max = 500;
        config.keepalive = 50 * MS;
        config.dead_after = if resume { 3600 * S } else { 400 * MS };
        config.first_number = u32::MAX - 30;
    }
    let mut world = World::<16>::new(configs, link, seed);
    for (n, (which, after)) in restarts.iter().enumerate() {
        let end = world.now + after;
        while world.now < end {
            world.send_up_to([20 * (n as u64 + 1); 2]);
            if !world.step() {
                break;
            }
        }
        world.restart(usize::from(*which), resume);
    }
    let target = [0, 1].map(|side: usize| world.sides[side].sent + 5);
    world.run(600 * S, |world| {
        world.send_up_to(target);
        (0..2).all(|s| {
            let side = &world.sides[s];
            side.sent >= target[s] && side.delivered.len() + side.lost.len() == side.sent as usize
        })
    });
    (0..2).for_each(|side| world.check(side));
    world
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn restarts_at_any_moment_leave_what_was_acknowledged(
        link in bad_link(),
        seed: u64,
        restarts in prop::collection::vec((any::<bool>(), 0..20 * MS), 1..5),
    ) {
        restarted(link, seed, &restarts, false);
    }

    #[test]
    fn a_receiver_that_kept_its_place_says_what_had_come(
        link in bad_link(),
        seed: u64,
        after in prop::collection::vec(0..20 * MS, 1..4),
    ) {
        // Only side 1 is restarted, and it has what it took.
        let restarts: Vec<(bool, u64)> = after.iter().map(|after| (true, *after)).collect();
        let world = restarted(link, seed, &restarts, true);
        let sender = &world.sides[0];
        let came = world.sides[1].inbox.messages.len();
        assert_eq!(came, sender.delivered.len(), "what is lost did not come: {:?}", sender.lost);
    }
}

/// The receiver did not know its peer yet and told its name to two: to the former sender, whose late HELLO named it first, and to the
/// one that had taken its place. What it took of the one is not what it took of the other.
#[test]
fn a_name_that_two_senders_were_told_says_nothing_of_the_second() {
    let link = |lost, damaged, delay, jitter| Link { lost, damaged, delay, jitter, ..Link::GOOD };
    let found: [(Link, u64, &[u64]); 4] = [
        (link(0, 65, 279_449, 1_938_918), 11_065_324_920_012_650_502, &[1_992_766]),
        (link(0, 103, 339_807, 2_746_075), 8_122_599_780_803_577_893, &[5_316_549]),
        (link(0, 0, 711_016, 2_885_623), 2_444_566_556_273_957_723, &[19_322_492, 4_025_560]),
        (link(42, 0, 43_114, 2_685_564), 4_534_014_929_739_270_547, &[2_985_581, 8_772_006]),
    ];
    for (link, seed, after) in found {
        let restarts: Vec<(bool, u64)> = after.iter().map(|after| (true, *after)).collect();
        restarted(link, seed, &restarts, true);
    }
}

#[test]
fn an_idle_flow_notices_a_restart_and_goes_on() {
    let mut world = World::<16>::new(configs(3), Link::GOOD, 3);
    world.send(0, sender_len(0), Some(0));
    world.run(S, |world| world.sides[0].delivered.len() == 1);
    world.restart(1, false);
    // The sender's question goes to somebody who does not know it, who says so.
    world.run(5 * S, |world| world.sides[0].ups == 2);
    assert_eq!(world.sides[0].downs, [Down::Restarted]);
    assert!(world.sides[0].lost.is_empty());
    world.send(0, sender_len(1), Some(1));
    world.run(S, |world| world.sides[0].delivered.len() == 2);
}

#[test]
fn a_peer_that_is_gone_is_noticed_and_found_again() {
    let mut configs = configs(4);
    configs.iter_mut().for_each(|config| config.dead_after = 300 * MS);
    let mut world = World::<16>::new(configs, Link::GOOD, 4);
    world.send(0, sender_len(0), Some(0));
    world.run(S, |world| world.sides[0].delivered.len() == 1);
    world.wire.link.lost = 1000;
    world.send(0, sender_len(1), Some(1));
    let from = world.now;
    world.run(5 * S, |world| world.sides[0].downs == [Down::Silent]);
    assert!((300 * MS..1500 * MS).contains(&(world.now - from)), "after {} ms", (world.now - from) / MS);
    assert_eq!(world.sides[0].lost, [1]);
    world.wire.link.lost = 0;
    world.send(0, sender_len(2), Some(2));
    world.run(5 * S, |world| world.sides[0].delivered.len() == 2);
    world.check(0);
}

#[test]
fn both_may_begin_at_once() {
    for seed in 0..50 {
        let link = Link { lost: 200, repeated: 200, jitter: 30 * MS, ..Link::GOOD };
        let mut world = World::<16>::new(configs(seed), link, seed);
        world.send(0, sender_len(0), Some(0));
        world.send(1, sender_len(0), Some(0));
        world.run(60 * S, |world| world.sides.iter().all(|side| side.delivered.len() == 1));
        assert!(world.sides.iter().all(|side| side.ups == 1 && side.lost.is_empty()));
    }
}

#[test]
fn frames_of_earlier_incarnations_are_dropped_and_change_nothing() {
    let mut world = World::<16>::new(configs(5), Link::GOOD, 5);
    // All that the first incarnations said is kept, and comes again later.
    let mut old = Vec::new();
    for round in 0..3 {
        world.send(0, sender_len(round), Some(round));
        world.send(1, sender_len(round), Some(round));
        for _ in 0..200 {
            world.settle();
            let Some(at) = world.wire.next() else { break };
            world.now = at.max(world.now);
            while let Some((to, frame)) = world.wire.take(world.now) {
                world.arrive(to, &frame);
                old.push((to, frame));
            }
            world.now += 150 * US;
        }
        world.restart(round as usize % 2, false);
    }
    world.send(0, sender_len(3), Some(3));
    world.send(1, sender_len(3), Some(3));
    world.run(S, |world| world.sides.iter().all(|side| side.flow.counts().messages_out == 1));
    let before = [0, 1].map(|side: usize| world.sides[side].inbox.messages.len());
    for (to, frame) in &old {
        world.arrive(*to, frame);
        world.settle();
    }
    world.send(0, sender_len(4), Some(4));
    world.send(1, sender_len(4), Some(4));
    world.run(S, |world| world.sides.iter().all(|side| side.flow.counts().messages_out == 2));
    for (side, before) in before.into_iter().enumerate() {
        assert_eq!(world.sides[side].inbox.messages.len(), before + 1);
        assert!(world.sides[side].flow.counts().refused(Refused::Incarnation) > 0);
        world.check(side);
    }
}
