//! Frames from anybody: whatever comes, it is dropped and counted, and what the two sides say to one another arrives.

mod sim;

use dp_flow::crc32c;
use proptest::prelude::*;
use sim::{configs, sender_len, Link, World, MS, S};

/// Nobody made this, or somebody made it from a real one.
#[derive(Clone, Debug)]
enum Forged {
    Bytes(Vec<u8>),
    /// The last frame with some bytes changed, and its checksum put right if `sealed`.
    Changed {
        bytes: Vec<(usize, u8)>,
        cut: usize,
        sealed: bool,
    },
}

fn forged(sealed: bool) -> impl Strategy<Value = Forged> {
    let changes = prop::collection::vec((0usize..64, any::<u8>()), 1..6);
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200).prop_map(Forged::Bytes),
        (changes, prop_oneof![Just(usize::MAX), 0..100usize]).prop_map(move |(bytes, cut)| Forged::Changed {
            bytes,
            cut,
            sealed
        }),
    ]
}

impl Forged {
    fn frame(&self, real: &[u8]) -> Vec<u8> {
        match self {
            Forged::Bytes(bytes) => bytes.clone(),
            Forged::Changed { bytes, cut, sealed } => {
                let mut frame = real[..real.len().min(*cut)].to_vec();
                for (at, byte) in bytes {
                    if let Some(place) = frame.get_mut(*at) {
                        // Always another one.
                        *place ^= byte | 1;
                    }
                }
                if *sealed && frame.len() >= 32 {
                    frame[28..32].fill(0);
                    let behind = usize::from(u16::from_be_bytes([frame[2], frame[3]]));
                    let sum = crc32c(0, &frame[..frame.len().min(32 + behind)]);
                    frame[28..32].copy_from_slice(&sum.to_be_bytes());
                }
                frame
            }
        }
    }
}

/// Two sides talk, and after each step somebody sends one of these to both. How many came to each that are none of the
/// sender's own.
fn talk_among(forged: &[Forged], seed: u64, until_done: bool) -> (World<16>, u64) {
    let mut configs = configs(seed);
    configs.iter_mut().for_each(|config| config.part_max = 300);
    let mut world = World::<16>::new(configs, Link { lost: 20, ..Link::GOOD }, seed);
    let mut real = vec![0; 40];
    let mut forgeries = 0;
    for forged in forged {
        for side in 0..2 {
            let id = world.sides[side].sent;
            world.send(side, sender_len(id), Some(id));
        }
        world.settle();
        let Some(next) = world.wire.next() else {
            world.step();
            continue;
        };
        world.now = next.max(world.now);
        while let Some((to, frame)) = world.wire.take(world.now) {
            world.arrive(to, &frame);
            real = frame;
        }
        let frame = forged.frame(&real);
        forgeries += u64::from(frame != real);
        for to in 0..2 {
            world.arrive(to, &frame);
        }
    }
    if until_done {
        world.run(60 * S, |world| {
            world.sides.iter().all(|side| side.delivered.len() as u64 == side.sent && side.lost.is_empty())
        });
        (0..2).for_each(|side| world.check(side));
    } else {
        // It may be led astray by frames with everything right; it comes to rest, and talks on.
        for _ in 0..1000 {
            world.step();
        }
        assert!(world.now > MS);
    }
    (world, forgeries)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn frames_without_a_checksum_change_nothing(
        forged in prop::collection::vec(forged(false), 1..60),
        seed: u64,
    ) {
        let (world, forgeries) = talk_among(&forged, seed, true);
        for side in &world.sides {
            // More, where a frame of the sender's own came late.
            assert!(side.flow.counts().refused_sum() >= forgeries);
            assert!(side.downs.is_empty() && side.ups == 1);
        }
    }
}

/// The sim's own asserts say that parts continue their messages, whoever sent them.
mod with_everything_right {
    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn frames_that_pass_the_checksum_break_nothing_but_their_flow(
            forged in prop::collection::vec(forged(true), 1..60),
            seed: u64,
        ) {
            talk_among(&forged, seed, false);
        }
    }
}
