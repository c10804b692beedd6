//! What a gateway is sent by those who mean harm, and by those who do not know better.

use std::time::Duration;

use dp_abi::frame2::{Header, HEADER, KIND_HELLO, KIND_PART};
use dp_graph::trust::Users;
use dp_node::Limits;
use dp_route::sim::Link;
use dp_route::{Frames, PeerAddr, Route};

use crate::world::World;
use crate::SOON;

fn put(route: &mut dyn Route, bytes: &[u8]) {
    let to = PeerAddr::other("sim", "n1").unwrap();
    route.send(&to, Frames::new(bytes, &[bytes.len() as u16]).unwrap()).unwrap();
}

/// A small generator, so that a run can be repeated.
fn noise(seed: &mut u64) -> u8 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) as u8
}

#[test]
fn frames_of_strangers_are_dropped_and_counted() {
    let mut world = World::new(2, &["sim"], 21);
    let mut stranger = world.networks[0].1.attach("nobody").unwrap();
    for length in [1, 10, 32, 1400] {
        put(&mut stranger, &vec![2; length]);
    }
    world.run(Duration::from_millis(1));
    assert_eq!(world.node(1).dropped().unknown, 4);
    assert_eq!(world.node(1).peers()[0].traffic().count(), 0);
}

#[test]
fn garbage_from_a_nodes_own_address_harms_nobody() {
    let mut world = World::new(2, &["sim"], 22);
    world.programs(1).open(4000, usize::MAX);
    world.programs(2).open(4000, usize::MAX);
    world.send((1, 4000), (2, 4000), b"before".to_vec());
    world.until(SOON, "the flow", |world| world.node(1).waiting() == 0);
    // The second end at the same place is as good as somebody who forges the address.
    let mut forger = world.networks[0].1.attach("n2").unwrap();
    let mut seed = 1;
    for round in 0..20_000u32 {
        let length = 1 + usize::from(noise(&mut seed)) * 5;
        let mut bytes: Vec<u8> = (0..length).map(|_| noise(&mut seed)).collect();
        if round % 4 != 0 && length >= HEADER {
            // Sound up to its checksum.
            let header = Header {
                kind: 1 + (round % 7) as u8,
                flags: noise(&mut seed),
                bytes: (length - HEADER) as u16,
                from_nid: 2,
                from_dpid: if round % 3 == 0 { 4000 } else { noise(&mut seed).into() },
                to_nid: 1,
                to_dpid: 4000,
                tag: round,
                number: noise(&mut seed).into(),
                acknowledged: noise(&mut seed).into(),
                word: u32::from(noise(&mut seed)) << 16,
                checksum: 0,
            };
            bytes[..HEADER].copy_from_slice(&header.encode());
            let sum = dp_flow::crc32c(0, &bytes);
            bytes[28..32].copy_from_slice(&sum.to_be_bytes());
        }
        put(&mut forger, &bytes);
        if round % 100 == 0 {
            world.run(Duration::from_micros(100));
        }
    }
    world.run(Duration::from_millis(100));
    assert_eq!(world.programs(1).count(4000), 0, "nothing of it was a message");
    for i in 0..20u8 {
        world.send((1, 4000), (2, 4000), vec![i; 3000]);
    }
    world.until(SOON, "honest messages", |world| world.node(1).waiting() == 0);
    let got = world.programs(2).got(4000);
    assert_eq!(got.len(), 21);
    assert!((0..20u8).all(|i| got[usize::from(i) + 1] == vec![i; 3000]));
}

#[test]
fn a_node_cannot_have_more_flows_than_allowed() {
    let mut world = World::new(2, &["sim"], 23);
    world.limits = Limits { flows: 50, ..Limits::default() };
    world.start(1);
    let mut forger = world.networks[0].1.attach("n2").unwrap();
    for dpid in 1..=1000u16 {
        let kind = if dpid % 2 == 0 { KIND_HELLO } else { KIND_PART };
        let header =
            Header { kind, from_nid: 2, from_dpid: dpid, to_nid: 1, to_dpid: 4000, ..Header::default() };
        put(&mut forger, &header.encode());
        if dpid % 20 == 0 {
            world.run(Duration::from_micros(10));
        }
    }
    world.run(Duration::from_millis(1));
    assert_eq!(world.node(1).peers()[0].traffic().count(), 50);
    assert_eq!(world.node(1).peers()[0].counts().crowded, 950);
    // Nobody uses those, so they make room.
    world.run(Duration::from_secs(11));
    world.programs(1).open(4000, usize::MAX);
    world.send((2, 2000), (1, 4000), b"let me in".to_vec());
    world.until(SOON, "an honest one", |world| world.programs(1).count(4000) == 1);
}

/// A frame that no flow takes says nothing of the way by which its peer is reached.
#[test]
fn a_frame_that_is_refused_does_not_change_where_a_flow_comes_from() {
    let mut world = World::new(2, &["sim", "other"], 46);
    world.programs(1).open(4000, usize::MAX);
    world.send((2, 4000), (1, 4000), b"hello".to_vec());
    world.until(SOON, "the message", |world| world.programs(1).count(4000) == 1);
    let by = |world: &mut World| world.node(1).peers()[0].traffic().next().expect("a flow").by();
    assert_eq!(by(&mut world), 0);
    let mut forger = world.networks[1].1.attach_as("other", "n2").unwrap();
    let header = Header {
        kind: KIND_PART,
        from_nid: 2,
        from_dpid: 4000,
        to_nid: 1,
        to_dpid: 4000,
        ..Header::default()
    };
    let to = PeerAddr::other("other", "n1").unwrap();
    let mut bytes = header.encode().to_vec();
    let sum = dp_flow::crc32c(0, &bytes);
    bytes[28..32].copy_from_slice(&sum.to_be_bytes());
    forger.send(&to, Frames::new(&bytes, &[bytes.len() as u16]).unwrap()).unwrap();
    world.run(Duration::from_millis(10));
    assert_eq!(world.node(1).peers()[0].counts().unsound, 1);
    assert_eq!(by(&mut world), 0);
}

/// The gateway of a node is another user's from now on, and the frame that says so is lost: the next one brings a message.
#[test]
fn who_was_let_in_lets_nobody_in_who_comes_after_him() {
    for seed in 0..60 {
        let mut world = World::new(2, &["sim"], 500 + seed);
        (world.users, world.owners) = (Users::Map(vec!["1000:2000".parse().unwrap()]), vec![1000, 2000]);
        (1..=2).for_each(|nid| world.start(nid));
        world.programs(2).open(4000, usize::MAX);
        world.send((1, 4000), (2, 4000), b"hello".to_vec());
        world.until(SOON, "the first", |world| world.node(1).waiting() == 0);
        world.kill(1);
        world.owners[0] = 1001;
        world.networks[0].1.set_usual(Link { loss: 0.4, ..Link::default() });
        world.start(1);
        world.send((1, 4000), (2, 4000), b"let me in".to_vec());
        world.run(Duration::from_secs(2));
        assert_eq!(world.programs(2).got(4000), [b"hello"], "seed {seed}");
    }
}

/// Users are who the graph says, and where they are mapped only the owner of the endpoints, and root, sends to them.
#[test]
fn users_that_are_mapped_to_somebody_else_do_not_get_in() {
    let map = || Users::Map(vec!["1000:2000".parse().unwrap(), "1001:0".parse().unwrap()]);
    for (seed, users, [owner, owner_here], gets_in, here) in [
        (40, Users::Squash, [1000, 2000], true, None),
        (41, map(), [1000, 2000], true, Some(2000)),
        (42, map(), [1001, 2000], true, Some(0)),
        (43, map(), [0, 2000], false, Some(65534)),
        (44, map(), [2000, 2000], false, Some(65534)),
        // The endpoints are nobody's, and who is not mapped is not even that.
        (45, map(), [0, 65534], false, Some(65534)),
    ] {
        let mut world = World::new(2, &["authenticated"], seed);
        (world.users, world.owners) = (users, vec![owner, owner_here]);
        (1..=2).for_each(|nid| world.start(nid));
        world.programs(2).open(4000, usize::MAX);
        world.send((1, 4000), (2, 4000), b"hello".to_vec());
        world.run(Duration::from_secs(5));
        assert_eq!(world.programs(2).count(4000), usize::from(gets_in), "user {owner} there");
        let user = world.node(2).peers()[0].traffic().next().and_then(|traffic| traffic.user());
        assert_eq!(user, here, "user {owner} there");
        assert_eq!(world.node(1).waiting(), usize::from(!gets_in), "what is not taken stays with its sender");
    }
}

#[test]
fn flows_that_programs_here_begin_are_none_of_the_other_nodes() {
    let mut world = World::new(2, &["sim"], 41);
    world.limits.flows = 2;
    world.kill(1);
    world.start(1);
    (1..=2).for_each(|nid| (4000..4010).for_each(|dpid| world.programs(nid).open(dpid, usize::MAX)));
    // Node 2 may have as many as it likes.
    world.limits.flows = 100;
    world.kill(2);
    world.start(2);
    (4000..4004).for_each(|dpid| world.send((1, dpid), (2, dpid), crate::world::numbered(0, 100)));
    world.until(SOON, "them", |world| world.node(1).waiting() == 0);
    for i in 0..3 {
        world.send((2, 4005 + i), (1, 4005), crate::world::numbered(0, 100));
    }
    world.run(Duration::from_secs(2));
    assert_eq!(world.programs(1).count(4005), 2, "as many as that node may");
}
