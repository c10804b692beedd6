//! Two flows and a link between them that loses, repeats, reorders, delays and damages frames, by a clock of its own. The
//! same seed gives the same run.

#![allow(dead_code, clippy::allow_attributes, reason = "each test uses a part of it")]

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::rc::Rc;

use dp_flow::{crc32c, Address, Config, Down, Event, Flow, NotSent, Outgoing, Part, Place};

pub const US: u64 = 1_000;
pub const MS: u64 = 1_000_000;
pub const S: u64 = 1_000_000_000;

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
        if n == 0 {
            0
        } else {
            self.next() % n
        }
    }

    /// True in so many of 1000.
    pub fn is(&mut self, of_1000: u32) -> bool {
        self.below(1000) < of_1000.into()
    }
}

/// What a link does to frames; shares in 1000.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    pub lost: u32,
    pub repeated: u32,
    pub damaged: u32,
    /// Nanoseconds, the same for all ...
    pub delay: u64,
    /// ... and random, up to: so frames overtake one another.
    pub jitter: u64,
    /// Bytes in a second, with 38 around each frame, and how many bytes may wait.
    pub speed: Option<u64>,
    pub queue: u64,
    /// Longer frames vanish.
    pub longest: usize,
}

impl Link {
    pub const GOOD: Link = Link {
        lost: 0,
        repeated: 0,
        damaged: 0,
        delay: 20 * US,
        jitter: 0,
        speed: None,
        queue: u64::MAX,
        longest: usize::MAX,
    };
}

/// When, in which order, to which side, and what.
type Arriving = (u64, u64, usize, Vec<u8>);

/// Frames on their way.
pub struct Wire {
    pub link: Link,
    pub random: Random,
    /// Until when the link is busy, per direction; several pairs may share one.
    pub busy_until: Rc<Cell<[u64; 2]>>,
    serial: u64,
    frames: BinaryHeap<Reverse<Arriving>>,
    /// Bytes that were put on the link, with what is around frames, per direction.
    pub bytes: [u64; 2],
    pub dropped: u64,
}

impl Wire {
    pub fn new(link: Link, seed: u64) -> Wire {
        let random = Random(seed);
        Wire {
            link,
            random,
            busy_until: Rc::default(),
            serial: 0,
            frames: BinaryHeap::new(),
            bytes: [0; 2],
            dropped: 0,
        }
    }

    pub fn put(&mut self, now: u64, to: usize, frame: &[u8]) {
        let around = frame.len() as u64 + 38;
        let mut leaves = now;
        if frame.len() > self.link.longest {
            self.dropped += 1;
            return;
        }
        if let Some(speed) = self.link.speed {
            let mut all = self.busy_until.get();
            let busy = all[to].max(now);
            if (busy - now) * speed / S > self.link.queue {
                self.dropped += 1;
                return;
            }
            leaves = busy + around * S / speed;
            all[to] = leaves;
            self.busy_until.set(all);
        }
        self.bytes[to] += around;
        if self.random.is(self.link.lost) {
            self.dropped += 1;
            return;
        }
        let copies = if self.random.is(self.link.repeated) { 2 } else { 1 };
        for _ in 0..copies {
            let mut frame = frame.to_vec();
            if self.random.is(self.link.damaged) {
                let (at, bit) = (self.random.below(frame.len() as u64) as usize, self.random.below(8));
                frame[at] ^= 1 << bit;
            }
            self.serial += 1;
            let at = leaves + self.link.delay + self.random.below(self.link.jitter + 1);
            self.frames.push(Reverse((at, self.serial, to, frame)));
        }
    }

    pub fn next(&self) -> Option<u64> {
        self.frames.peek().map(|Reverse((at, ..))| *at)
    }

    pub fn take(&mut self, now: u64) -> Option<(usize, Vec<u8>)> {
        if self.next()? > now {
            return None;
        }
        self.frames.pop().map(|Reverse((_, _, to, frame))| (to, frame))
    }
}

/// A message that says of itself which one it is, and whether it is whole.
pub fn message(side: usize, id: u64, len: usize) -> Vec<u8> {
    let mut random = Random(id.wrapping_mul(31) + side as u64);
    (0..len).map(|_| random.next() as u8).collect()
}

/// What a receiver's program has; it outlives the flow.
#[derive(Default)]
pub struct Inbox {
    pub messages: Vec<(Vec<u8>, Option<u64>)>,
    partial: Vec<u8>,
    /// Parts that there is room for; a program that reads makes room.
    pub room: usize,
}

impl Inbox {
    fn put(&mut self, part: Part<'_>) -> bool {
        if self.room == 0 {
            return false;
        }
        self.room -= 1;
        if part.begin == 0 {
            self.partial.clear();
        }
        assert_eq!(self.partial.len(), part.begin as usize, "a part continues its message");
        self.partial.extend_from_slice(part.bytes);
        if part.is_last() {
            assert_eq!(self.partial.len(), part.total as usize);
            self.messages.push((std::mem::take(&mut self.partial), part.immediate));
        }
        true
    }
}

/// One side: a gateway's flow, and the programs before and behind it.
pub struct Side<const W: usize> {
    pub flow: Flow<Vec<u8>, W>,
    pub config: Config,
    pub inbox: Inbox,
    pub place: Option<Place>,
    /// Messages of this flow's life, by number: what `Source` reads, and the test's own number of each.
    bytes: BTreeMap<u64, (u64, Vec<u8>)>,
    pub sent: u64,
    pub delivered: Vec<u64>,
    pub lost: Vec<u64>,
    pub downs: Vec<Down>,
    pub ups: u32,
    told: u64,
}

impl<const W: usize> Side<W> {
    fn new(config: Config, parts: usize) -> Side<W> {
        Side {
            flow: Flow::new(config, vec![0; parts * usize::from(config.part_max)]).expect("a flow"),
            config,
            inbox: Inbox { room: usize::MAX, ..Inbox::default() },
            place: None,
            bytes: BTreeMap::new(),
            sent: 0,
            delivered: Vec::new(),
            lost: Vec::new(),
            downs: Vec::new(),
            ups: 0,
            told: 0,
        }
    }
}

pub struct World<const W: usize> {
    pub now: u64,
    pub wire: Wire,
    pub sides: [Side<W>; 2],
    frame: Vec<u8>,
}

pub const A: Address = Address { nid: 1, dpid: 1024 };
pub const B: Address = Address { nid: 2, dpid: 2048 };

pub fn configs(seed: u64) -> [Config; 2] {
    let config = |from, to, n: u32| {
        Config::new(from, to, (seed as u32).wrapping_mul(97).wrapping_add(n), Some(crc32c))
    };
    [config(A, B, 1), config(B, A, 2)]
}

impl<const W: usize> World<W> {
    pub fn new(configs: [Config; 2], link: Link, seed: u64) -> World<W> {
        let longest = configs.iter().map(|c| usize::from(c.part_max)).max().unwrap_or(0);
        World {
            now: 1,
            wire: Wire::new(link, seed),
            // The second grants fewer parts than the window, and not a power of two of them.
            sides: [Side::new(configs[0], W), Side::new(configs[1], W - W / 4)],
            frame: vec![0; longest + 256],
        }
    }

    /// Sends a message of this length from a side; false: not now.
    pub fn send(&mut self, from: usize, len: usize, immediate: Option<u64>) -> bool {
        let side = &mut self.sides[from];
        match side.flow.send(self.now, Outgoing { total: len as u32, immediate }) {
            Ok(number) => {
                side.bytes.insert(number, (side.sent, message(from, side.sent, len)));
                side.sent += 1;
                true
            }
            Err(NotSent::Full | NotSent::Lost) => false,
            Err(NotSent::TooLong) => panic!("too long"),
        }
    }

    /// The gateway of a side is killed, and another one starts.
    /// Sends numbered messages, the number of which is their immediate, as long as a side has sent fewer than `most` says and
    /// its flow takes them.
    pub fn send_up_to(&mut self, most: [u64; 2]) {
        for (side, most) in most.into_iter().enumerate() {
            while self.sides[side].sent < most {
                let id = self.sides[side].sent;
                if !self.send(side, sender_len(id), Some(id)) {
                    break;
                }
            }
        }
        self.settle();
    }

    pub fn restart(&mut self, which: usize, resume: bool) {
        let side = &mut self.sides[which];
        side.config.incarnation = side.config.incarnation.wrapping_mul(5).wrapping_add(0x1357);
        side.config.resume = side.place.filter(|_| resume);
        let parts = W - which * W / 4;
        side.flow =
            Flow::new(side.config, vec![0; parts * usize::from(side.config.part_max)]).expect("a flow");
        let unknown = std::mem::take(&mut side.bytes);
        side.lost.extend(unknown.into_values().map(|(id, _)| id));
        side.told = 0;
    }

    /// The way becomes so long, or short, and both sides are told: parts in bytes.
    pub fn set_way(&mut self, part_max: u16) {
        self.wire.link.longest = usize::from(part_max) + dp_abi::frame2::HEADER + dp_abi::frame2::PART_HEAD;
        self.sides.iter_mut().for_each(|side| side.flow.set_part_max(self.now, part_max));
    }

    /// One side is told of a way that carries no longer parts; the link itself carries all.
    pub fn set_way_of(&mut self, side: usize, part_max: u16) {
        self.sides[side].flow.set_part_max(self.now, part_max);
    }

    /// Lets both sides send what they have.
    pub fn settle(&mut self) {
        for from in 0..2 {
            let side = &mut self.sides[from];
            loop {
                while let Some(event) = side.flow.poll_event() {
                    side.on_event(event);
                }
                let bytes = &side.bytes;
                let mut source = |number: u64, begin: u32, out: &mut [u8]| {
                    let (_, bytes) = &bytes[&number];
                    out.copy_from_slice(&bytes[begin as usize..][..out.len()]);
                    out.len()
                };
                let Some(len) = side.flow.poll_transmit(self.now, &mut source, &mut self.frame) else {
                    break;
                };
                self.wire.put(self.now, 1 - from, &self.frame[..len]);
            }
        }
    }

    /// When something happens next.
    pub fn next(&self) -> Option<u64> {
        let timeouts = self.sides.iter().filter_map(|side| side.flow.next_timeout());
        timeouts.chain(self.wire.next()).min()
    }

    /// Goes on to the next thing that happens; false: nothing ever will.
    pub fn step(&mut self) -> bool {
        self.settle();
        let Some(next) = self.next() else { return false };
        self.now = next.max(self.now);
        while let Some((to, frame)) = self.wire.take(self.now) {
            self.arrive(to, &frame);
        }
        true
    }

    pub fn arrive(&mut self, to: usize, frame: &[u8]) {
        let Side { flow, inbox, place, .. } = &mut self.sides[to];
        let _ = flow.on_frame(self.now, frame, &mut |part: Part<'_>| inbox.put(part));
        *place = flow.place().or(*place);
    }

    /// The program of a side reads: there is room for so many more parts.
    pub fn make_room(&mut self, which: usize, parts: usize) {
        let Side { flow, inbox, .. } = &mut self.sides[which];
        inbox.room = inbox.room.saturating_add(parts);
        flow.deliver(self.now, &mut |part: Part<'_>| inbox.put(part));
    }

    /// Runs until `until` holds; panics after `limit` nanoseconds.
    pub fn run(&mut self, limit: u64, mut until: impl FnMut(&mut World<W>) -> bool) {
        let end = self.now + limit;
        loop {
            self.settle();
            if until(self) {
                return;
            }
            if self.now > end || !self.step() {
                let states =
                    [&self.sides[0].flow, &self.sides[1].flow].map(|f| (f.state(), f.counts().clone()));
                panic!("no end by {} ns: {states:#?}", self.now);
            }
        }
    }

    /// Whatever a side's messages became: those that came are whole, once, in order; what was told to be delivered came.
    /// Each message's immediate is its number.
    pub fn check(&self, from: usize) {
        let (sender, inbox) = (&self.sides[from], &self.sides[1 - from].inbox);
        let mut came = Vec::new();
        for (bytes, id) in &inbox.messages {
            let id = id.expect("an immediate");
            assert!(came.last().is_none_or(|last| *last < id), "{id} once, and behind those before it");
            assert!(*bytes == message(from, id, sender_len(id)), "{id} is whole");
            came.push(id);
        }
        for id in &sender.delivered {
            assert!(came.binary_search(id).is_ok(), "{id} was told to be delivered");
        }
    }
}

/// Lengths are a function of the message, so that the receiver's side can tell.
pub fn sender_len(id: u64) -> usize {
    let mut random = Random(id ^ 0xabcdef);
    match random.below(8) {
        0 => 0,
        1..=4 => random.below(300) as usize + 8,
        5 | 6 => random.below(3000) as usize + 8,
        _ => random.below(20_000) as usize + 8,
    }
}

impl<const W: usize> Side<W> {
    fn on_event(&mut self, event: Event) {
        match event {
            Event::Up => self.ups += 1,
            Event::Down(down) => self.downs.push(down),
            Event::Delivered { before } => {
                assert!(before > self.told);
                for number in self.told..before {
                    let (id, _) = self.bytes.remove(&number).expect("delivered once");
                    self.delivered.push(id);
                }
                self.told = before;
            }
            Event::Lost { from, before } => {
                assert_eq!(from, self.told, "what was lost follows what was delivered");
                for number in from..before {
                    let (id, _) = self.bytes.remove(&number).expect("lost once");
                    self.lost.push(id);
                }
                self.told = before;
            }
        }
    }
}
