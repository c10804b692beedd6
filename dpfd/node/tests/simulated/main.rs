//! Whole gateways over a network in memory whose every chance comes from a seed: what is lost, repeated, overtaken and
//! damaged, gateways that are killed, routes that die, strangers.

mod black_holes;
mod broken;
mod idle;
mod late;
mod raw;
mod restarts;
mod routes;
mod speed;
mod strangers;
mod world;

use std::time::Duration;

use dp_route::sim::Link;
use dpfd::Addr;

use world::{length, numbered, World};

const SOON: Duration = Duration::from_secs(60);

fn bad_link() -> Link {
    Link {
        loss: 0.05,
        duplicate: 0.05,
        reorder: 0.1,
        hold: Duration::from_micros(500),
        corrupt: 0.02,
        delay: Duration::from_micros(40),
        rate: Some(1_000_000_000),
        queue: 8 << 20,
        ..Link::default()
    }
}

#[test]
fn messages_of_all_lengths_come_once_whole_and_in_order_over_a_bad_network() {
    for (seed, network) in (0..).zip(["sim", "sim", "authenticated", "encrypted"]) {
        let mut world = World::new(3, &[network], 100 + seed);
        world.networks[0].1.set_usual(bad_link());
        (1..=3).for_each(|nid| world.programs(nid).open(4000, usize::MAX));
        let count = 80;
        for i in 0..count {
            for (from, to) in [(1, 2), (2, 1), (3, 2), (1, 3)] {
                world.send((from, 4000), (to, 4000), numbered(i, length(i)));
            }
        }
        let total = 4 * count as usize;
        world.until(SOON, "all of it", |world| {
            (1..=3).map(|nid| world.programs(nid).count(4000)).sum::<usize>() == total
                && (1..=3).all(|nid| world.node(nid).waiting() == 0)
        });
        for (to, froms) in [(1, &[2][..]), (2, &[1, 3]), (3, &[1])] {
            let pools = world.programs(to).0.borrow();
            for &from in froms {
                let from = Addr { nid: from, dpid: 4000 };
                let got = pools[&4000].messages.iter().filter(|message| message.0 == from);
                let mut n = 0;
                for (i, (_, bytes, immediate)) in (0..).zip(got) {
                    assert!(*bytes == numbered(i, length(i)), "message {i} from {from}, seed {seed}");
                    assert_eq!(*immediate, (bytes.len() % 2 == 1).then_some(bytes.len() as u64));
                    n = i + 1;
                }
                assert_eq!(n, count);
            }
        }
    }
}

#[test]
fn who_does_not_read_stops_his_senders_and_nobody_else() {
    let mut world = World::new(2, &["sim"], 7);
    world.networks[0].1.set_usual(Link { delay: Duration::from_micros(20), ..Link::default() });
    world.programs(2).open(4000, 3);
    world.programs(2).open(4001, usize::MAX);
    for i in 0..500 {
        world.send((1, 5000), (2, 4000), numbered(i, 2000));
        world.send((1, 5000), (2, 4001), numbered(i, 2000));
        world.send((1, 5001), (2, 4999), numbered(i, 5000));
    }
    world.until(SOON, "the one who reads", |world| world.programs(2).count(4001) == 500);
    world.run(Duration::from_millis(500));
    assert_eq!(world.programs(2).count(4000), 3);
    assert_eq!(world.node(1).waiting(), 497 + 500, "what is not taken stays with its sender");
    // One reads, and the other is opened after all.
    world.programs(2).give_room(4000, 1000);
    world.programs(2).open(4999, usize::MAX);
    world.until(SOON, "the others", |world| world.node(1).waiting() == 0);
    for (dpid, len) in [(4000, 2000), (4001, 2000), (4999, 5000)] {
        let expected: Vec<_> = (0..500).map(|i| numbered(i, len)).collect();
        assert!(world.programs(2).got(dpid) == expected, "endpoint {dpid}");
    }
}

/// Its messages are on their way, with its gateway, or kept there in part.
#[test]
fn who_comes_after_one_who_did_not_read_gets_what_that_one_had_not_and_others_go_on() {
    for away in [0, 1, 120] {
        let mut world = World::new(2, &["sim"], 9);
        world.networks[0].1.set_usual(Link { delay: Duration::from_micros(20), ..Link::default() });
        world.programs(2).open(4000, 3);
        world.programs(2).open(4001, usize::MAX);
        for i in 0..60 {
            world.send((1, 5000), (2, 4000), numbered(i, length(i)));
        }
        world.run(Duration::from_secs(2));
        assert_eq!(world.programs(2).count(4000), 3);
        world.programs(2).0.borrow_mut().remove(&4000);
        for i in 60..80 {
            world.send((1, 5000), (2, 4000), numbered(i, length(i)));
        }
        world.run(Duration::from_secs(away));
        for i in 0..20 {
            world.send((1, 5000), (2, 4001), numbered(i, 3000));
        }
        world.until(Duration::from_secs(1), "who reads", |world| world.programs(2).count(4001) == 20);
        world.programs(2).open(4000, usize::MAX);
        world.until(Duration::from_secs(5), "the next one", |world| world.node(1).waiting() == 0);
        let expected: Vec<_> = (3..80).map(|i| numbered(i, length(i))).collect();
        assert!(world.programs(2).got(4000) == expected, "away for {away} s");
    }
}

#[test]
fn receivers_that_do_not_read_leave_room_for_messages_to_others() {
    for bytes in [64 << 20, 1 << 20] {
        let mut world = World::new(2, &["sim"], 8);
        world.limits.bytes = bytes;
        (1..=2).for_each(|nid| world.start(nid));
        world.networks[0].1.set_usual(Link { delay: Duration::from_micros(20), ..Link::default() });
        for dpid in [4000, 4001] {
            world.programs(2).open(dpid, 0);
            world.send((1, 5000), (2, dpid), numbered(0, 16 << 20));
        }
        world.programs(2).open(4002, usize::MAX);
        world.run(Duration::from_millis(500));
        for i in 0..100 {
            world.send((1, 5000), (2, 4002), numbered(i, 3000));
        }
        world.until(Duration::from_secs(1), "who reads", |world| world.programs(2).count(4002) == 100);
        [4000, 4001].into_iter().for_each(|dpid| world.programs(2).give_room(dpid, 1));
        world.until(SOON, "the others after all", |world| world.node(1).waiting() == 0);
        [4000, 4001]
            .into_iter()
            .for_each(|dpid| assert!(world.programs(2).got(dpid)[0] == numbered(0, 16 << 20)));
    }
}
