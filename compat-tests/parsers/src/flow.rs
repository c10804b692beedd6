//! Two ends of a flow, and a wire on which anybody may write.

use std::collections::BTreeMap;

use dp_abi::frame2::{Header, HEADER, HELLO, KIND_HELLO};
use dp_abi::MESSAGE_MAX;
use dp_flow::{Address, Config, Event, Flow, Outgoing, Part, Place};

use crate::input::Input;
use crate::wire::{Arriving, Wire};

const W: usize = 16;
const PART: u16 = 200;
const ENDS: [Address; 2] = [Address { nid: 1, dpid: 1024 }, Address { nid: 2, dpid: 2048 }];
/// Frames that an end sends at one moment at most: its window, some answers, and as many again where it begins anew.
const AT_ONCE: usize = 8 * W;

/// A byte of the message of this number that this end sends.
pub fn content(side: usize, id: u64, at: usize) -> u8 {
    (id as usize * 31 + at * 7 + at / 251 + side) as u8
}

/// What an end receives.
#[derive(Debug, Default)]
pub struct Inbox {
    /// Parts for which there is room.
    pub room: usize,
    /// The number of the message, and bytes of it, of its whole, and beside it.
    current: Option<(u64, u32, u32, Option<u64>)>,
    whole: u64,
    /// What came whole, by its number in its sender's count, and how long it was.
    pub came: Vec<(Option<u64>, u32)>,
}

impl Inbox {
    /// One with room for so many parts.
    pub fn with_room(room: usize) -> Inbox {
        Inbox { room, ..Inbox::default() }
    }

    /// Takes a part, which continues what is there, whoever sent it. `from`: whose messages these are, where nobody else's can be.
    pub fn put(&mut self, part: &Part<'_>, from: Option<usize>) -> bool {
        let end = part.begin as usize + part.bytes.len();
        assert!(u64::from(part.total) <= MESSAGE_MAX && end <= part.total as usize);
        assert!(!part.bytes.is_empty() || part.total == 0);
        assert_eq!(part.message, self.whole);
        if part.begin > 0 {
            assert_eq!(self.current, Some((part.message, part.begin, part.total, part.immediate)));
        }
        if self.room == 0 {
            return false;
        }
        self.room -= 1;
        if let Some(from) = from {
            let id = part.immediate.expect("as it was sent");
            assert!((part.begin as usize..).zip(part.bytes).all(|(at, byte)| *byte == content(from, id, at)));
        }
        if part.is_last() {
            self.current = None;
            self.whole += 1;
            self.came.push((part.immediate, part.total));
        } else {
            self.current = Some((part.message, end as u32, part.total, part.immediate));
        }
        true
    }

    /// The flow was made anew; what came whole is here.
    pub fn restarted(&mut self) {
        (self.current, self.whole) = (None, 0);
    }
}

struct Side {
    flow: Flow<Vec<u8>, W>,
    config: Config,
    inbox: Inbox,
    place: Option<Place>,
    /// Lengths of all that was sent.
    lengths: Vec<u32>,
    /// Messages whose fate the flow has not told yet: our number of each, by the flow's.
    unknown: BTreeMap<u64, u64>,
    told: u64,
    delivered: Vec<u64>,
}

impl Side {
    fn new(which: usize) -> Side {
        let config = Config::new(ENDS[which], ENDS[1 - which], 77 + which as u32, None);
        // Numbers come round soon.
        let config = Config { part_max: PART, first_number: u32::MAX - 20, ..config };
        Side {
            flow: Side::flow(which, config),
            config,
            inbox: Inbox::with_room(usize::MAX),
            place: None,
            lengths: Vec::new(),
            unknown: BTreeMap::new(),
            told: 0,
            delivered: Vec::new(),
        }
    }

    fn flow(which: usize, config: Config) -> Flow<Vec<u8>, W> {
        Flow::new(config, vec![0; (W - which * W / 4) * usize::from(PART)]).expect("a flow")
    }

    fn restart(&mut self, which: usize, resumes: bool) {
        self.config.incarnation = self.config.incarnation.wrapping_mul(5).wrapping_add(0x1357);
        self.config.resume = self.place.filter(|_| resumes);
        self.flow = Side::flow(which, self.config);
        self.inbox.restarted();
        self.unknown.clear();
        self.told = 0;
    }

    fn send(&mut self, now: u64, total: u32) {
        let id = self.lengths.len() as u64;
        if let Ok(number) = self.flow.send(now, Outgoing { total, immediate: Some(id) }) {
            self.unknown.insert(number, id);
            self.lengths.push(total);
        }
    }

    fn hear(&mut self) {
        while let Some(event) = self.flow.poll_event() {
            let (from, before, delivered) = match event {
                Event::Delivered { before } => (self.told, before, true),
                Event::Lost { from, before } => (from, before, false),
                Event::Up | Event::Down(_) => continue,
            };
            assert!(from == self.told && before > from, "what is told is told once, and in order");
            for number in from..before {
                let id = self.unknown.remove(&number).expect("it was sent");
                if delivered {
                    self.delivered.push(id);
                }
            }
            self.told = before;
        }
    }
}

struct World {
    now: u64,
    sides: [Side; 2],
    wire: Wire,
    /// Somebody forged a frame.
    forged: bool,
}

impl World {
    /// Everybody sends what he has to, and hears what became of it.
    fn settle(&mut self) {
        for (which, side) in self.sides.iter_mut().enumerate() {
            let mut frame = vec![0; side.flow.frame_max()];
            let mut n = 0;
            loop {
                side.hear();
                let (unknown, lengths) = (&side.unknown, &side.lengths);
                let mut source = |number: u64, begin: u32, out: &mut [u8]| {
                    let id = unknown[&number];
                    assert!(begin as usize + out.len() <= lengths[id as usize] as usize);
                    (begin as usize..)
                        .zip(out.iter_mut())
                        .for_each(|(at, byte)| *byte = content(which, id, at));
                    out.len()
                };
                let Some(length) = side.flow.poll_transmit(self.now, &mut source, &mut frame) else { break };
                self.wire.put(1 - which, &frame[..length]);
                n += 1;
                assert!(n < AT_ONCE, "it goes on and on");
            }
            let next = side.flow.next_timeout();
            assert!(next.is_none_or(|at| at > self.now), "what was due is done");
        }
    }

    fn arrive(&mut self, arriving: Option<Arriving>) {
        let Some(Arriving { to, frame, forged }) = arriving else { return };
        self.forged |= forged;
        let from = (!self.forged).then_some(1 - to);
        let Side { flow, inbox, place, .. } = &mut self.sides[to];
        let mut sink = |part: Part<'_>| {
            assert_ne!(part.place.name, 0);
            inbox.put(&part, from)
        };
        let _ = flow.on_frame(self.now, &frame, &mut sink);
        *place = flow.place().or(*place);
    }

    fn deliver(&mut self, to: usize, room: usize) {
        let from = (!self.forged).then_some(1 - to);
        let Side { flow, inbox, place, .. } = &mut self.sides[to];
        inbox.room = room;
        flow.deliver(self.now, &mut |part: Part<'_>| inbox.put(&part, from));
        *place = flow.place().or(*place);
    }

    /// A frame between the two with some things right and others not.
    fn forge(&mut self, to: usize, input: &mut Input<'_>) -> Arriving {
        let (kind, flags) = (1 + input.byte() % 5, input.byte());
        let sender = &self.sides[1 - to];
        let known = sender.flow.tag().or(self.sides[to].flow.tag());
        let tag = if input.byte() % 4 == 0 { input.word() } else { known.unwrap_or(0) };
        let near = sender.config.first_number.wrapping_add(u32::from(input.byte()));
        let number = if input.byte() % 8 == 0 { input.word() } else { near };
        let acknowledged = self.sides[to].config.first_number.wrapping_add(u32::from(input.byte()));
        let word = u32::from(input.byte()) << 16 | u32::from(input.half());
        let mut behind = input.bytes().to_vec();
        if kind == KIND_HELLO {
            behind.resize(HELLO, 0);
        }
        let header = Header {
            kind,
            flags,
            bytes: (behind.len() as u16).wrapping_add(u16::from(input.byte() % 16 == 1)),
            from_nid: ENDS[1 - to].nid,
            from_dpid: ENDS[1 - to].dpid,
            to_nid: ENDS[to].nid,
            to_dpid: ENDS[to].dpid,
            tag,
            number,
            acknowledged,
            word,
            checksum: 0,
        };
        let mut frame = header.encode().to_vec();
        debug_assert_eq!(frame.len(), HEADER);
        frame.append(&mut behind);
        Arriving { to, frame, forged: true }
    }

    /// Where nobody forged anything: from here on all goes well, and everything that is not lost comes, whole and in order.
    fn finish(&mut self) {
        for _ in 0..20_000 {
            self.settle();
            if self.wire.is_empty() && self.sides.iter().all(|side| side.unknown.is_empty()) {
                break;
            }
            (0..2).for_each(|to| self.deliver(to, usize::MAX));
            if let Some(next) = self.wire.take_next() {
                self.arrive(Some(next));
            } else {
                let next = self.sides.iter().filter_map(|side| side.flow.next_timeout()).min();
                self.now = next.expect("something is due where something waits").max(self.now);
            }
        }
        for (which, side) in self.sides.iter().enumerate() {
            assert!(side.unknown.is_empty(), "all is delivered or lost");
            let came = &self.sides[1 - which].inbox.came;
            assert!(came.windows(2).all(|two| two[0].0 < two[1].0), "once, and in order");
            for (id, total) in came {
                assert_eq!(*total, side.lengths[id.expect("as it was sent") as usize]);
            }
            for id in &side.delivered {
                assert!(came.iter().any(|(came, _)| *came == Some(*id)), "what is told to be delivered came");
            }
        }
    }
}

/// One run.
pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let mut world =
        World { now: 1_000_000, sides: [0, 1].map(Side::new), wire: Wire::default(), forged: false };
    while let Some(choice) = input.choice() {
        let which = usize::from(choice >> 7);
        let now = world.now;
        match choice & 15 {
            0 | 1 => world.sides[which].send(now, u32::from(input.half() % (8 * PART))),
            8 => world.now += input.time(),
            9 => world.deliver(which, usize::from(input.byte() % 8)),
            10 => world.deliver(which, usize::MAX),
            11 => world.sides[which].flow.set_part_max(now, 20 + input.half() % 260),
            12 => match input.byte() % 4 {
                0 => world.sides[which].flow.renew(now),
                1 => world.sides[which].flow.meet(now),
                2 => world.sides[which].flow.way_changed(now, input.time()),
                _ => drop(world.sides[which].flow.grow(now, vec![0; W * usize::from(PART)])),
            },
            13 => world.sides[which].restart(which, input.byte() % 2 == 0),
            14 => world.arrive(Some(Arriving { to: which, frame: input.bytes().to_vec(), forged: true })),
            15 => {
                let forged = world.forge(which, &mut input);
                world.arrive(Some(forged));
            }
            _ => {
                let arriving = world.wire.arrive(&mut input);
                world.arrive(arriving);
            }
        }
        world.settle();
    }
    if !world.forged {
        world.finish();
    }
}

/// Runs that reach much.
pub fn seeds() -> Vec<Vec<u8>> {
    // A message of so many bytes; the next frames as they are; time.
    let send = |side: u8, length: u16| [vec![side << 7], length.to_be_bytes().to_vec()].concat();
    let arrive = |n: usize| [2, 0].repeat(n);
    let pass = |time: u8| vec![8, time];
    let hello = [send(0, 50), arrive(8)].concat();
    let talk = [hello.clone(), send(0, 1500), send(1, 700), arrive(40), pass(0x25), arrive(10)].concat();
    let mut seeds = vec![
        hello.clone(),
        talk.clone(),
        // Lost, repeated, overtaken, come again; time-outs.
        [
            hello.clone(),
            send(0, 1590),
            vec![2, 1, 2, 2, 2, 3, 2, 4, 2, 4, 7],
            arrive(30),
            pass(0x4f),
            arrive(30),
        ]
        .concat(),
        // A receiver without room, and with some.
        [
            hello.clone(),
            vec![0x89, 0],
            send(0, 1500),
            arrive(20),
            pass(0x3f),
            vec![0x89, 3],
            arrive(9),
            vec![0x8a],
            arrive(30),
        ]
        .concat(),
        // A way that becomes shorter, an end that begins anew, ends that are restarted.
        [hello.clone(), send(0, 1500), arrive(3), vec![11, 0, 20], arrive(9), vec![12, 0], arrive(30)]
            .concat(),
        [
            talk.clone(),
            vec![13, 0],
            send(0, 300),
            arrive(20),
            vec![0x8d, 1],
            arrive(9),
            pass(0x51),
            arrive(20),
        ]
        .concat(),
        // Both ways silent for long.
        [talk.clone(), pass(0x5f), pass(0x5f), pass(0x5f), pass(0x5f), pass(0x5f), send(1, 10), arrive(20)]
            .concat(),
    ];
    // Forged: a byte, a field, an end; to the wrong side; made from nothing.
    for how in 5..10u8 {
        let forged = [2, how, 0, 33, 2, 0, 35, 1, 7, 9, 9, 0, 1];
        seeds
            .push([hello.clone(), send(0, 900), forged.to_vec(), arrive(20), pass(0x25), arrive(9)].concat());
    }
    for kind in 0..5u8 {
        let forged =
            [15, kind, 0x30, 1, 21, 1, 21, 2, 0, 0, 24, 1, 2, 3, 4, 5, 6, 7, 8, 0, 200, 0, 0, 9, 9, 9, 9];
        seeds.push(
            [
                hello.clone(),
                send(1, 900),
                forged.to_vec(),
                arrive(20),
                vec![0x8f],
                forged[1..].to_vec(),
                arrive(9),
            ]
            .concat(),
        );
    }
    seeds
}
