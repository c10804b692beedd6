//! Senders that share a link: each gets its part of it, and nothing is left idle.

mod sim;

use sim::{configs, Link, World, MS, S, US};

/// Bytes in a second, and what of it framing leaves.
const SPEED: u64 = 12_500_000;
const PART: u16 = 1456;
const FRAMING: f64 = 1456.0 / 1526.0;

/// Shares of the link that so many senders of 64 KiB messages get within two seconds, after a moment.
fn shares(senders: usize, lost: u32, queue: u64, paced: bool, seed: u64) -> Vec<f64> {
    let link = Link { lost, delay: 40 * US, speed: Some(SPEED), queue, ..Link::GOOD };
    let mut worlds: Vec<World<128>> = (0..senders as u64)
        .map(|n| {
            let mut configs = configs(n);
            for config in &mut configs {
                config.part_max = PART;
                config.link = paced.then_some(dp_flow::Link { speed: SPEED, around: 38 });
                // As whoever drives it knows from questions on the empty link.
                config.shortest = 250 * US;
            }
            World::new(configs, link, n + 1000 * seed)
        })
        .collect();
    let busy = worlds[0].wire.busy_until.clone();
    // One begins after the other.
    for (n, world) in worlds.iter_mut().enumerate() {
        world.wire.busy_until = busy.clone();
        world.now = 1 + n as u64 * (7 + seed * 13 % 90) * MS / 3 + seed * 77_777 % MS;
    }
    let (begin, end) = (S, 3 * S);
    let mut before = vec![0; senders];
    loop {
        for world in &mut worlds {
            while world.send(0, 64 << 10, None) {}
            world.settle();
            world.sides[1].inbox.messages.clear();
        }
        let next = worlds.iter_mut().min_by_key(|world| world.next().unwrap_or(u64::MAX)).expect("a world");
        next.step();
        let now = next.now;
        if now < begin {
            before = worlds.iter().map(|world| world.sides[0].delivered.len()).collect();
        }
        if now >= end {
            break;
        }
    }
    let carried = worlds.iter().zip(before).map(|(world, before)| world.sides[0].delivered.len() - before);
    carried.map(|n| (n << 16) as f64 / (SPEED as f64 * 2.0)).collect()
}

#[test]
fn one_sender_has_the_link() {
    for paced in [true, false] {
        let share = shares(1, 0, 64 << 10, paced, 0)[0];
        assert!(share > 0.97 * FRAMING, "{share} of {FRAMING}, paced: {paced}");
    }
}

#[test]
fn losses_that_come_of_no_crowd_slow_nobody_down() {
    let share = shares(1, 10, 64 << 10, true, 0)[0];
    assert!(share > 0.9, "{share}");
}

#[test]
fn three_senders_share_a_link() {
    // Of 24 seeds are seen, in the order below: half of them up to 3 %, 7 %, 6 %, 3 %, 7 % and 5 %, all up to 9 %, 20 %, 7 %, 5 %, 12 %
    // and 15 %. A sender that did not know how short the way is took a full queue for the usual, and what it lost there for a
    // wire's doing: up to 49 %, and with told speeds everything from the others. Without pacing a third of the link was idle.
    for (paced, queue, usual, most) in [
        (true, 32 << 10, 0.08, 0.15),
        (true, 64 << 10, 0.12, 0.25),
        (true, 256 << 10, 0.1, 0.15),
        (false, 32 << 10, 0.08, 0.15),
        (false, 64 << 10, 0.12, 0.2),
        (false, 256 << 10, 0.12, 0.25),
    ] {
        // One of them had the third sender repeat all it sent, for its time-out was shorter than a round trip.
        let mut all: Vec<f64> = [0, 3, 7, 11, 19].into_iter().map(|seed| apart(queue, paced, seed)).collect();
        all.sort_by(f64::total_cmp);
        println!("{all:.3?} apart, a queue of {} KiB, paced: {paced}", queue >> 10);
        assert!(all[2] < usual && all[4] < most, "{all:.3?} of {queue} bytes, paced: {paced}");
    }
}

/// How far that one of three is from a third who is farthest; nothing is left idle.
fn apart(queue: u64, paced: bool, seed: u64) -> f64 {
    let shares = shares(3, 0, queue, paced, seed);
    let sum: f64 = shares.iter().sum();
    assert!(sum > 0.95 * FRAMING, "{shares:?}");
    shares.iter().map(|share| (share / (sum / 3.0) - 1.0).abs()).fold(0.0, f64::max)
}

/// The first answers take 2 ms, and then all take 60: longer than the time-out is by then.
#[test]
fn a_way_that_becomes_long_is_not_sent_everything_twice() {
    let link = Link { delay: MS, ..Link::GOOD };
    let mut world = World::<128>::new(configs(9), link, 9);
    world.run(S, |world| {
        while world.send(0, 1000, None) {}
        world.sides[0].delivered.len() > 1000
    });
    world.wire.link.delay = 30 * MS;
    let before = world.sides[0].flow.counts().repeats;
    world.run(20 * S, |world| {
        while world.send(0, 1000, None) {}
        world.sides[0].delivered.len() > 20_000
    });
    let repeats = world.sides[0].flow.counts().repeats - before;
    assert!(repeats < 600, "{repeats} repeats");
}
