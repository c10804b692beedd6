//! Two nodes that seal their frames, a wire on which anybody may write, and a third node that has the key.

use std::collections::BTreeSet;

use blake2::digest::consts::{U16, U32};
use blake2::digest::{KeyInit, Mac};
use blake2::Blake2sMac;
use dp_seal::{Config, GraphKey, Limits, Mode, Peer, HEAD, OVERHEAD, OWN_MAX};

use crate::input::Input;
use crate::wire::{Arriving, Wire};

const KEY: [u8; 32] = [7; 32];
const S: u64 = 1_000_000_000;
/// What a wall clock shows at the beginning.
const WALL: u64 = 1_790_000_000_000_000_000;
/// Words of the handshake, or confirmations, that a node sends at one moment at most.
const AT_ONCE: usize = 4;
/// Of a word of the handshake, what its mac is of; and where Noise begins in it.
const SAID: usize = OWN_MAX - 16;
const NOISE: usize = 16;

/// Sessions that last some frames or seconds.
const SHORT: Limits =
    Limits { renew_after: 20 * S, renew_frames: 12, end_after: 40 * S, end_frames: 24, ..Limits::DEFAULT };

struct Side {
    peer: Peer,
    config: Config,
    /// What was sealed, and what of it was opened at the other end.
    sealed: Vec<Vec<u8>>,
    opened: BTreeSet<usize>,
}

impl Side {
    fn new(which: usize, mode: Mode, limits: Limits) -> Side {
        let (here, there) = [(1, 2), (2, 1)][which];
        let config = Config { limits, ..Config::new(here, there, mode, WALL) };
        Side { peer: peer(config), config, sealed: Vec::new(), opened: BTreeSet::new() }
    }

    /// The node forgets everything; its clock is off by so much.
    fn restart(&mut self, off: i64) {
        self.config.epoch = WALL.saturating_add_signed(off);
        self.peer = peer(self.config);
    }

    fn seal(&mut self, now: u64, length: usize) -> Option<Vec<u8>> {
        let number = self.sealed.len();
        let mut frame: Vec<u8> = (0..length).map(|at| (number * 13 + at) as u8).collect();
        if let Some(first) = frame.first_chunk_mut::<8>() {
            *first = (number as u64).to_be_bytes();
        }
        let mut room = vec![0; length + OVERHEAD];
        room[HEAD..][..length].copy_from_slice(&frame);
        let ready = self.peer.is_ready(now);
        let sealed = self.peer.seal(now, &mut room, length);
        assert_eq!(sealed.is_ok(), ready && length >= dp_seal::FRAME_MIN);
        assert!(sealed.is_err() || sealed == Ok(room.len()));
        sealed.ok()?;
        self.sealed.push(frame);
        Some(room)
    }
}

fn peer(config: Config) -> Peer {
    Peer::new(&GraphKey::from_bytes(KEY), config).expect("a peer")
}

/// The mac of a word of the handshake, as the graph's key makes it.
fn mac(said: &[u8]) -> [u8; 16] {
    let key =
        <Blake2sMac<U32> as KeyInit>::new(&KEY.into()).chain_update(b"dp-seal 1 mac").finalize().into_bytes();
    <Blake2sMac<U16> as KeyInit>::new(&key).chain_update(said).finalize().into_bytes().into()
}

struct World {
    now: u64,
    sides: [Side; 2],
    wire: Wire,
    forged: bool,
}

impl World {
    fn own(&mut self) {
        for (which, side) in self.sides.iter_mut().enumerate() {
            let mut out = [0; OWN_MAX];
            let mut n = 0;
            while let Some(length) = side.peer.poll_transmit(self.now, &mut out) {
                self.wire.put(1 - which, &out[..length]);
                n += 1;
                assert!(n < AT_ONCE, "it goes on and on");
            }
            assert!(side.peer.poll_timeout().is_none_or(|at| at > self.now), "what was due is done");
        }
    }

    fn arrive(&mut self, arriving: Option<Arriving>) {
        let Some(Arriving { to, mut frame, forged }) = arriving else { return };
        self.forged |= forged;
        let refused = self.sides[to].peer.counts().refused_sum();
        let length = frame.len();
        match self.sides[to].peer.open(self.now, &mut frame) {
            Ok(Some(opened)) => {
                assert_eq!(opened.len() + OVERHEAD, length);
                let from = &mut self.sides[1 - to];
                let number = u64::from_be_bytes(*opened.first_chunk().expect("no frame is shorter")) as usize;
                assert_eq!(
                    from.sealed.get(number).map(Vec::as_slice),
                    Some(&*opened),
                    "it is as it was sealed"
                );
                assert!(from.opened.insert(number), "it comes once");
            }
            Ok(None) => {}
            Err(_) => assert_eq!(self.sides[to].peer.counts().refused_sum(), refused + 1),
        }
    }

    /// A word of the handshake by somebody who has the key, and may have seen what was said.
    fn word(&mut self, to: usize, like: Option<Arriving>, input: &mut Input<'_>) -> Arriving {
        let mut word = like.map(|like| like.frame).unwrap_or_default();
        word.resize(OWN_MAX, 0);
        let how = input.byte();
        if how & 1 != 0 {
            let (from, there) = [(2u16, 1u16), (1, 2)][to];
            word[..2].copy_from_slice(&[0x5e, 0x10 | (input.byte() % 8)]);
            word[2..4].copy_from_slice(&from.to_be_bytes());
            word[4..6].copy_from_slice(&there.to_be_bytes());
            word[6..8].copy_from_slice(&[1 + input.byte() % 3, 0]);
        }
        if how & 2 != 0 {
            let time = if how & 4 != 0 { input.double() } else { WALL + self.now + input.time() };
            word[8..16].copy_from_slice(&time.to_be_bytes());
        }
        if how & 8 != 0 {
            for (to, from) in word[NOISE..SAID].iter_mut().zip(input.bytes()) {
                *to = *from;
            }
        }
        let mac = mac(&word[..SAID]);
        word[SAID..].copy_from_slice(&mac);
        Arriving { to, frame: word, forged: true }
    }

    /// Where nobody forged anything: from here on all goes well, and frames pass both ways.
    fn finish(&mut self) {
        for _ in 0..60 {
            for which in 0..2 {
                if let Some(packet) = self.sides[which].seal(self.now, 40) {
                    self.wire.put(1 - which, &packet);
                }
            }
            self.own();
            while let Some(next) = self.wire.take_next() {
                self.arrive(Some(next));
                self.own();
            }
            self.now += S;
        }
        let last = self.sides.each_ref().map(|side| side.sealed.len() - 1);
        assert!((0..2).all(|which| self.sides[which].opened.contains(&last[which])), "frames pass");
    }
}

/// One run.
pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let how = input.byte();
    let mode = if how & 1 == 0 { Mode::Encrypt } else { Mode::Authenticate };
    let limits = if how & 2 == 0 { Limits::DEFAULT } else { SHORT };
    let sides = [0, 1].map(|which| Side::new(which, mode, limits));
    let mut world = World { now: S, sides, wire: Wire::default(), forged: false };
    while let Some(choice) = input.choice() {
        let which = usize::from(choice >> 7);
        match choice & 15 {
            0 => world.sides[which].peer.connect(world.now),
            1 | 2 => {
                for _ in 0..1 + input.byte() % 8 {
                    let length = usize::from(input.byte());
                    if let Some(packet) = world.sides[which].seal(world.now, length) {
                        world.wire.put(1 - which, &packet);
                    }
                }
            }
            3 => world.now += input.time(),
            4 => world.sides[which].restart([0, 0, -3600, 3600][usize::from(input.byte() % 4)] * S as i64),
            5 => world.arrive(Some(Arriving { to: which, frame: input.bytes().to_vec(), forged: true })),
            6 => {
                let word = world.word(which, None, &mut input);
                world.arrive(Some(word));
            }
            7 => {
                let like = world.wire.take_next();
                let to = like.as_ref().map_or(which, |like| like.to);
                let word = world.word(to, like, &mut input);
                world.arrive(Some(word));
            }
            _ => {
                let arriving = world.wire.arrive(&mut input);
                world.arrive(arriving);
            }
        }
        world.own();
    }
    if !world.forged {
        world.finish();
    }
}

/// Runs that reach much.
pub fn seeds() -> Vec<Vec<u8>> {
    let arrive = |n: usize| [8, 0].repeat(n);
    let begin = |how: u8| [vec![how, 0], arrive(4)].concat();
    let seal = |side: u8, n: u8| [vec![side << 7 | 1, n - 1], vec![60; usize::from(n)]].concat();
    let pass = |time: u8| vec![3, time];
    let mut seeds = vec![
        [begin(0), seal(0, 3), seal(1, 2), arrive(9)].concat(),
        // Both begin at once; without a session.
        [vec![1, 0, 0x80], arrive(9), seal(0, 1), seal(1, 1), arrive(4)].concat(),
        [vec![0], seal(0, 1), arrive(4), seal(0, 1), arrive(4)].concat(),
        // Sessions are renewed, and end.
        [
            begin(3),
            seal(0, 8),
            seal(0, 8),
            arrive(30),
            pass(0x5f),
            seal(0, 2),
            arrive(9),
            pass(0x5f),
            pass(0x5f),
            seal(1, 1),
            arrive(9),
        ]
        .concat(),
        // Restarts, with clocks set back and forth.
        [
            begin(0),
            seal(0, 2),
            vec![4, 0],
            seal(1, 1),
            arrive(9),
            vec![0x84, 2],
            seal(1, 1),
            arrive(9),
            pass(0x49),
            arrive(9),
        ]
        .concat(),
        // Lost, repeated, overtaken, come again.
        [begin(0), seal(0, 6), vec![8, 1, 8, 2, 8, 3, 8, 4, 0, 8, 4, 7], arrive(9)].concat(),
    ];
    for how in 5..10u8 {
        let forged = [8, how, 0, 33, 2, 0, 35, 1, 7, 9, 9, 0, 1];
        seeds.push([begin(0), seal(0, 2), forged.to_vec(), arrive(9)].concat());
        seeds.push([vec![0, 0], forged.to_vec(), arrive(9)].concat());
    }
    // Words by somebody who has the key.
    for kind in [1u8, 2, 6] {
        let word = |head: u8| [vec![head, 11, kind, 1, 0x10, 48], (0..48).collect()].concat();
        seeds.push([vec![0], word(6), arrive(4), seal(0, 1), arrive(4)].concat());
        seeds.push([vec![0, 0], word(7), arrive(9)].concat());
    }
    seeds
}
