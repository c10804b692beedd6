//! Whatever a link does to frames: each message comes once, in order, whole.

mod sim;

use proptest::prelude::*;
use sim::{configs, sender_len, Link, World, MS, S, US};

fn any_link() -> impl Strategy<Value = Link> {
    let share = prop_oneof![Just(0u32), 1..300u32];
    let times = (0..2 * MS, prop_oneof![Just(0), 0..5 * MS]);
    let speed = prop_oneof![2 => Just(None), 1 => (1_000_000..100_000_000u64).prop_map(Some)];
    (share.clone(), share.clone(), share, times, speed, 2_000..200_000u64).prop_map(
        |(lost, repeated, damaged, (delay, jitter), speed, queue)| Link {
            lost,
            repeated,
            damaged,
            delay,
            jitter,
            speed,
            queue,
            ..Link::GOOD
        },
    )
}

/// Both sides send so many messages; all must come. Programs read now and then, a few parts at a time, if `slow`.
fn both_ways<const W: usize>(mut world: World<W>, messages: [u64; 2], slow: bool) -> World<W> {
    if slow {
        world.sides.iter_mut().for_each(|side| side.inbox.room = 0);
    }
    world.run(3600 * S, |world| {
        for (side, messages) in messages.iter().enumerate() {
            while world.sides[side].sent < *messages {
                let id = world.sides[side].sent;
                let immediate = (id % 3 == 0).then_some(id << 40 | 7);
                if !world.send(side, sender_len(id), immediate) {
                    break;
                }
            }
            if slow && world.wire.random.is(300) {
                let parts = world.wire.random.below(20) as usize;
                world.make_room(side, parts);
            }
        }
        world.settle();
        (0..2).all(|side| world.sides[side].delivered.len() as u64 == messages[side])
    });
    for side in 0..2 {
        let came = &world.sides[1 - side].inbox.messages;
        assert_eq!(came.len() as u64, messages[side]);
        for (id, (bytes, immediate)) in came.iter().enumerate() {
            let id = id as u64;
            assert!(*bytes == sim::message(side, id, sender_len(id)), "message {id} is whole");
            assert_eq!(*immediate, (id % 3 == 0).then_some(id << 40 | 7));
        }
        assert!(world.sides[side].lost.is_empty() && world.sides[side].downs.is_empty());
        assert_eq!(world.sides[side].ups, u32::from(messages != [0, 0]));
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_message_comes_once_in_order_and_whole(
        link in any_link(),
        seed: u64,
        numbers in prop::array::uniform2(prop_oneof![Just(0), (u32::MAX - 200)..=u32::MAX]),
        part_max in prop::array::uniform2(1u16..1500),
        messages in prop::array::uniform2(0..40u64),
        slow: bool,
    ) {
        let mut configs = configs(seed);
        for side in 0..2 {
            configs[side].first_number = numbers[side];
            // The whole of a message must not take a million parts.
            configs[side].part_max = part_max[side].max(64);
            configs[side].dead_after = 3600 * S;
        }
        both_ways(World::<64>::new(configs, link, seed), messages, slow);
    }

    #[test]
    fn the_smallest_windows_do_as_well(link in any_link(), seed: u64, number in (u32::MAX - 20)..=u32::MAX) {
        let mut configs = configs(seed);
        for config in &mut configs {
            config.first_number = number;
            config.part_max = 700;
            config.dead_after = 3600 * S;
        }
        both_ways(World::<4>::new(configs, link, seed), [10, 10], false);
    }
}

#[test]
fn a_good_link_carries_everything_once() {
    let world = both_ways(World::<64>::new(configs(1), Link::GOOD, 1), [200, 200], false);
    for side in &world.sides {
        let counts = side.flow.counts();
        assert_eq!((counts.repeats, counts.again, counts.out_of_order, counts.timeouts), (0, 0, 0, 0));
        assert_eq!(counts.refused_sum(), 0, "{counts:?}");
        assert!(side.flow.state().round_trip < 200 * US);
    }
}

#[test]
fn losses_are_repeated_one_by_one() {
    let link = Link { lost: 10, ..Link::GOOD };
    let world = both_ways(World::<64>::new(configs(2), link, 2), [2000, 0], false);
    let counts = world.sides[0].flow.counts();
    let lost = counts.frames_out / 100;
    // A go-back of all that fly would be tens for each.
    assert!(counts.repeats < 3 * lost, "{} repeats for about {lost} losses", counts.repeats);
    assert!(counts.timeouts < lost / 4, "{} time-outs", counts.timeouts);
}
