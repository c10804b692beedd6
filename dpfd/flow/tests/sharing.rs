//! Senders that share a link: each gets its part of it, and nothing is left idle.

mod sim;

use sim::{configs, Link, World, MS, S, US};

/// Bytes in a second, and what of it framing leaves.
const SPEED: u64 = 12_500_000;
const PART: u16 = 1456;
const FRAMING: f64 = 1456.0 / 1526.0;

/// Shares of the link that so many senders of 64 KiB messages get within two seconds, after a moment.
fn shares(senders: usize, lost: u32, queue: u64, paced: bool) -> Vec<f64> {
    let link = Link { lost, delay: 40 * US, speed: Some(SPEED), queue, ..Link::GOOD };
    let mut worlds: Vec<World<128>> = (0..senders as u64)
        .map(|n| {
            let mut configs = configs(n);
            for config in &mut configs {
                config.part_max = PART;
                config.link = paced.then_some(SPEED);
            }
            World::new(configs, link, n)
        })
        .collect();
    let busy = worlds[0].wire.busy_until.clone();
    // One begins after the other.
    for (n, world) in worlds.iter_mut().enumerate() {
        world.wire.busy_until = busy.clone();
        world.now = 1 + n as u64 * 7 * MS;
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
        let share = shares(1, 0, 64 << 10, paced)[0];
        assert!(share > 0.97 * FRAMING, "{share} of {FRAMING}, paced: {paced}");
    }
}

#[test]
fn losses_that_come_of_no_crowd_slow_nobody_down() {
    let share = shares(1, 10, 64 << 10, true)[0];
    assert!(share > 0.9, "{share}");
}

#[test]
fn three_senders_share_a_link() {
    // A short queue is full at once and tells little; seen are 23 %, 9 % and 7 %. Where nobody told them how quick it is, 4 %, 8 %
    // and 5 %, and with other seeds 24 %, 49 % and 14 % at worst; without pacing a deep queue had them wait for one another's time-outs, and a third of the link was idle.
    for (paced, queue, apart) in [
        (true, 32 << 10, 0.4),
        (true, 64 << 10, 0.25),
        (true, 256 << 10, 0.25),
        (false, 32 << 10, 0.4),
        (false, 64 << 10, 0.4),
        (false, 256 << 10, 0.25),
    ] {
        let shares = shares(3, 0, queue, paced);
        let sum: f64 = shares.iter().sum();
        println!("{shares:.3?} {sum:.3} of {FRAMING:.3}, a queue of {} KiB, paced: {paced}", queue >> 10);
        assert!(sum > 0.95 * FRAMING, "{shares:?}");
        assert!(shares.iter().all(|share| (share / (sum / 3.0) - 1.0).abs() < apart), "{shares:?}");
    }
}
