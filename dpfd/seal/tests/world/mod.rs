//! Two nodes and a link between them that loses, repeats, delays, damages and replays packets, by a clock of its own.

#![allow(dead_code, clippy::allow_attributes, reason = "each test uses a part of it")]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use dp_seal::{Config, GraphKey, Limits, Mode, NotSealed, Peer, HEAD, OVERHEAD, OWN_MAX};

pub const US: u64 = 1_000;
pub const MS: u64 = 1_000_000;
pub const S: u64 = 1_000_000_000;
/// What a wall clock shows at time 0.
pub const WALL: u64 = 1_790_000_000 * S;

/// Random numbers (SplitMix64).
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    /// True in so many of 1000.
    pub fn is(&mut self, of_1000: u32) -> bool {
        self.below(1000) < of_1000.into()
    }
}

/// What a link does to packets; shares in 1000.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    pub lost: u32,
    pub repeated: u32,
    pub damaged: u32,
    /// With each packet, one that was sent at any time before comes again.
    pub replayed: u32,
    /// Nanoseconds, the same for all ...
    pub delay: u64,
    /// ... and random, up to.
    pub jitter: u64,
}

impl Link {
    pub const GOOD: Link = Link { lost: 0, repeated: 0, damaged: 0, replayed: 0, delay: 20 * US, jitter: 0 };
}

pub fn key() -> GraphKey {
    GraphKey::from_bytes(std::array::from_fn(|at| at as u8 + 1))
}

/// The frame of this number, from this side: its bytes say which one it is.
pub fn frame(side: usize, id: u64) -> Vec<u8> {
    let mut random = Random(id ^ (side as u64) << 56);
    let length = 16 + random.below(if id % 5 == 0 { 1400 } else { 100 }) as usize;
    let mut bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
    bytes[..8].copy_from_slice(&id.to_be_bytes());
    bytes
}

pub struct Side {
    pub peer: Peer,
    pub config: Config,
    pub key: GraphKey,
    /// Frames that it tried to send, and that were sealed.
    pub tried: u64,
    pub sealed: u64,
    /// How often each frame of the other side came.
    pub came: BTreeMap<u64, u32>,
}

/// When, in which order, to which side, and what.
type Arriving = (u64, u64, usize, Vec<u8>);

pub struct World {
    pub now: u64,
    pub link: Link,
    pub random: Random,
    pub sides: [Side; 2],
    wire: BinaryHeap<Reverse<Arriving>>,
    serial: u64,
    /// All packets that were ever sent to each side.
    pub recorded: [Vec<Vec<u8>>; 2],
}

impl World {
    pub fn new(mode: Mode, link: Link, seed: u64) -> World {
        World::with([mode; 2], [key(), key()], Limits::DEFAULT, link, seed)
    }

    pub fn with(modes: [Mode; 2], keys: [GraphKey; 2], limits: Limits, link: Link, seed: u64) -> World {
        let mut keys = keys.into_iter();
        let sides = [0, 1].map(|side| {
            let (here, there) = [(1, 2), (2, 1)][side];
            let config = Config { limits, ..Config::new(here, there, modes[side], WALL) };
            let key = keys.next().unwrap();
            let peer = Peer::new(&key, config).unwrap();
            Side { peer, config, key, tried: 0, sealed: 0, came: BTreeMap::new() }
        });
        let (wire, recorded) = (BinaryHeap::new(), [Vec::new(), Vec::new()]);
        World { now: 0, link, random: Random(seed), sides, wire, serial: 0, recorded }
    }

    /// The node forgets everything. Its wall clock is off by so much.
    pub fn restart(&mut self, side: usize, off: i64) {
        let side = &mut self.sides[side];
        side.config.epoch = WALL.saturating_add_signed(off);
        side.peer = Peer::new(&side.key, side.config).unwrap();
    }

    /// Sends the next frame; whether it was sealed.
    pub fn send(&mut self, side: usize) -> bool {
        let id = self.sides[side].tried;
        self.sides[side].tried += 1;
        let bytes = frame(side, id);
        let mut room = vec![0; bytes.len() + OVERHEAD];
        room[HEAD..][..bytes.len()].copy_from_slice(&bytes);
        let ready = self.is_ready(side);
        let sealed = self.sides[side].peer.seal(self.now, &mut room, bytes.len());
        assert_eq!(sealed, if ready { Ok(room.len()) } else { Err(NotSealed::NoSession) });
        if ready {
            self.sides[side].sealed += 1;
            self.put(1 - side, room);
        }
        self.own(side);
        ready
    }

    /// What the layer itself sends.
    pub fn own(&mut self, side: usize) {
        let mut out = [0; OWN_MAX];
        let mut n = 0;
        while let Some(length) = self.sides[side].peer.poll_transmit(self.now, &mut out) {
            self.put(1 - side, out[..length].to_vec());
            n += 1;
            assert!(n < 10, "it ends");
        }
    }

    fn put(&mut self, to: usize, packet: Vec<u8>) {
        self.recorded[to].push(packet.clone());
        if self.random.is(self.link.replayed) {
            let old = self.random.below(self.recorded[to].len() as u64) as usize;
            let old = self.recorded[to][old].clone();
            self.carry(to, old);
        }
        if self.random.is(self.link.repeated) {
            self.carry(to, packet.clone());
        }
        if self.random.is(self.link.lost) {
            return;
        }
        let mut packet = packet;
        if self.random.is(self.link.damaged) {
            match self.random.below(4) {
                0 => packet.truncate(self.random.below(packet.len() as u64) as usize),
                1 => packet.push(0),
                _ => {
                    let at = self.random.below(packet.len() as u64 * 8);
                    packet[at as usize / 8] ^= 1 << (at % 8);
                }
            }
        }
        self.carry(to, packet);
    }

    pub fn carry(&mut self, to: usize, packet: Vec<u8>) {
        let at = self.now + self.link.delay + self.random.below(self.link.jitter + 1);
        self.serial += 1;
        self.wire.push(Reverse((at, self.serial, to, packet)));
    }

    /// Takes a packet in, as it is.
    pub fn arrive(&mut self, to: usize, mut packet: Vec<u8>) {
        let now = self.now;
        let side = &mut self.sides[to];
        if let Ok(Some(got)) = side.peer.open(now, &mut packet) {
            let id = u64::from_be_bytes(got[..8].try_into().unwrap());
            assert_eq!(got, frame(1 - to, id), "a frame is whole");
            *side.came.entry(id).or_default() += 1;
        }
        self.own(to);
    }

    /// Lets time pass.
    pub fn pass(&mut self, time: u64) {
        let end = self.now + time;
        loop {
            for side in 0..2 {
                self.own(side);
            }
            let arrives = self.wire.peek().map(|Reverse((at, ..))| *at);
            let due = self.sides.iter().filter_map(|side| side.peer.poll_timeout()).min();
            let next = arrives.into_iter().chain(due).min().filter(|at| *at <= end);
            let Some(next) = next else { break };
            assert!(arrives == Some(next) || next > self.now, "what is due was done");
            self.now = self.now.max(next);
            if arrives == Some(next) {
                let Some(Reverse((_, _, to, packet))) = self.wire.pop() else { break };
                self.arrive(to, packet);
            }
        }
        self.now = end;
    }

    pub fn connect(&mut self) {
        for side in 0..2 {
            let now = self.now;
            self.sides[side].peer.connect(now);
            self.pass(S);
        }
        assert!((0..2).all(|side| self.is_ready(side)));
    }

    pub fn is_ready(&self, side: usize) -> bool {
        self.sides[side].peer.is_ready(self.now)
    }

    /// A frame each way, and both must come.
    pub fn both_pass(&mut self) {
        let ids = [0, 1].map(|side| self.sides[side].tried);
        for side in 0..2 {
            self.send(side);
        }
        self.pass(S);
        for (side, id) in ids.iter().enumerate() {
            assert_eq!(self.sides[1 - side].came.get(id), Some(&1), "from side {side}");
        }
    }

    /// Nothing came twice, or that was not sent.
    pub fn once(&self) {
        for side in 0..2 {
            let came = &self.sides[1 - side].came;
            assert!(came.values().all(|n| *n == 1), "nothing comes twice");
            assert!(came.keys().all(|id| *id < self.sides[side].tried));
            assert!(came.len() as u64 <= self.sides[side].sealed);
        }
    }
}
