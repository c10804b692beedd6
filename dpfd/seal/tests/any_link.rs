//! Whatever a link does to packets, and whoever replays or forges some: each frame comes at most once, and whole; and as soon
//! as the link lets packets through, frames pass again.

mod world;

use dp_seal::{GraphKey, Limits, Mode, Refused, OWN_MAX};
use proptest::prelude::*;
use world::{key, Link, World, MS, S, US};

fn any_link() -> impl Strategy<Value = Link> {
    let share = || prop_oneof![Just(0u32), 1..400u32];
    let times = (0..2 * MS, prop_oneof![Just(0), 0..5 * MS, 0..2 * S]);
    (share(), share(), share(), share(), times).prop_map(
        |(lost, repeated, damaged, replayed, (delay, jitter))| Link {
            lost,
            repeated,
            damaged,
            replayed,
            delay,
            jitter,
        },
    )
}

fn any_mode() -> impl Strategy<Value = Mode> {
    prop_oneof![Just(Mode::Authenticate), Just(Mode::Encrypt)]
}

/// Sessions that last some frames or seconds, so that many come and go.
fn any_limits() -> impl Strategy<Value = Limits> {
    prop_oneof![
        Just(Limits::DEFAULT),
        (3 * S..60 * S, 1..300u64).prop_map(|(renew_after, renew_frames)| Limits {
            renew_after,
            renew_frames,
            end_after: renew_after * 2,
            end_frames: renew_frames * 4,
            ..Limits::DEFAULT
        }),
    ]
}

/// What happens: frames of a side, time, restarts.
#[derive(Clone, Copy, Debug)]
enum Step {
    Send(usize, u8),
    Pass(u64),
    Restart(usize, i64),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..2usize, 1..60u8).prop_map(|(side, n)| Step::Send(side, n)),
        6 => prop_oneof![0..2 * MS, 0..S, 0..20 * S, 0..200 * S].prop_map(Step::Pass),
        1 => (0..2usize, prop_oneof![Just(0i64), -(3600 * S as i64)..3600 * S as i64])
            .prop_map(|(side, off)| Step::Restart(side, off)),
    ]
}

fn run(world: &mut World, steps: &[Step]) {
    for step in steps {
        match *step {
            Step::Send(side, n) => {
                for _ in 0..n {
                    world.send(side);
                    world.pass(50 * US);
                }
            }
            Step::Pass(time) => world.pass(time),
            Step::Restart(side, off) => world.restart(side, off),
        }
        world.once();
    }
}

/// What went wrong between two nodes was found in one of some thousand.
fn cases() -> u32 {
    if std::env::var_os("DP_LONG").is_some() {
        20_000
    } else {
        256
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_frame_comes_at_most_once_and_whole(
        link in any_link(), mode in any_mode(), limits in any_limits(), seed: u64, steps in prop::collection::vec(any_step(), 1..40),
    ) {
        let mut world = World::with([mode; 2], [key(), key()], limits, link, seed);
        run(&mut world, &steps);
        // From here on the link is good. What is on its way yet may still be damaged; then frames pass, in both directions.
        world.link = Link::GOOD;
        world.pass(10 * S);
        for _ in 0..30 {
            world.send(0);
            world.send(1);
            world.pass(S);
        }
        world.both_pass();
        world.once();
    }

    #[test]
    fn another_key_never_delivers(link in any_link(), modes in [any_mode(), any_mode()], seed: u64, steps in prop::collection::vec(any_step(), 1..20)) {
        let other = GraphKey::from_bytes([7; 32]);
        let mut world = World::with(modes, [key(), other], Limits::DEFAULT, link, seed);
        run(&mut world, &steps);
        for side in &world.sides {
            prop_assert!(side.came.is_empty() && side.sealed == 0);
            prop_assert_eq!(side.peer.counts().sessions, 0);
        }
    }

    /// Words of the handshake with a bit turned or the end cut off.
    #[test]
    fn what_was_changed_is_refused_and_changes_nothing(mode in any_mode(), seed: u64) {
        let mut world = World::new(mode, Link::GOOD, seed);
        world.sides[0].peer.connect(0);
        let mut out = [0; OWN_MAX];
        let mut random = world::Random(seed);
        // Each word of the handshake, before it arrives.
        for to in [1, 0, 1] {
            let length = world.sides[1 - to].peer.poll_transmit(0, &mut out).unwrap();
            let packet = out[..length].to_vec();
            for _ in 0..200 {
                let mut changed = packet.clone();
                match random.below(8) {
                    0 => changed.truncate(random.below(changed.len() as u64) as usize),
                    _ => changed[random.below(packet.len() as u64) as usize] ^= 1 << random.below(8),
                }
                let refused = world.sides[to].peer.open(0, &mut changed).unwrap_err();
                let answered = world.sides[to].peer.poll_transmit(0, &mut out).is_some();
                // One that looks like a frame now may have this side begin.
                prop_assert!(!answered || refused == Refused::Session);
            }
            let _ = world.sides[to].peer.open(0, &mut packet.clone());
        }
        prop_assert!(world.is_ready(0) && world.is_ready(1));
        world.both_pass();
    }

    #[test]
    fn any_bytes_are_refused(mut packets in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..200), 0x10..0x18u8, any::<bool>()), 1..50), connected: bool) {
        let mut world = World::new(Mode::Authenticate, Link::GOOD, 1);
        if connected {
            world.connect();
        }
        for (packet, second, marked) in &mut packets {
            if let (true, [mark, kind, nodes @ ..]) = (*marked, &mut packet[..]) {
                (*mark, *kind) = (0x5e, *second);
                if let [high, low, ..] = nodes {
                    (*high, *low) = (0, 1);
                }
            }
            prop_assert!(world.sides[1].peer.open(world.now, packet).is_err());
        }
        prop_assert_eq!(world.sides[1].peer.counts().refused_sum(), packets.len() as u64);
        if connected {
            world.both_pass();
        }
    }
}

#[test]
fn a_frame_with_any_bit_turned_is_refused() {
    for mode in [Mode::Authenticate, Mode::Encrypt] {
        let mut world = World::new(mode, Link::GOOD, 1);
        world.connect();
        // Held back.
        world.link.delay = 3600 * S;
        world.send(0);
        let packet = world.recorded[1].last().unwrap().clone();
        for bit in 0..packet.len() * 8 {
            let mut changed = packet.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let now = world.now;
            let refused = world.sides[1].peer.open(now, &mut changed).unwrap_err();
            if bit >= 16 * 8 {
                assert_eq!(refused, Refused::Tag, "bit {bit}");
            }
        }
        for length in 0..packet.len() {
            let now = world.now;
            assert!(world.sides[1].peer.open(now, &mut packet[..length].to_vec()).is_err());
        }
        world.arrive(1, packet.clone());
        assert_eq!(world.sides[1].came.len(), 1, "as it was sent, it is taken");
        let again = world.sides[1].peer.counts().refused(Refused::Again);
        world.arrive(1, packet);
        world.once();
        assert_eq!(world.sides[1].peer.counts().refused(Refused::Again), again + 1);
    }
}
