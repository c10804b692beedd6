//! The memory of a channel under the shim, in which its other end may have written anything: this end's calls, and somebody who
//! only follows. And the memory of a program's family, as `dp ls` reads it.

use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use dp_channel::bell::Owed;
use dp_channel::family::View;
use dp_channel::follow::{Follower, Piece};
use dp_channel::slot::{Side, State, Tuple};
use dp_channel::stream::{self, Sink, Source, MAX_TOKEN};
use dp_channel::switch;
use dp_channel::unmapped::Unmapped;
use dp_edge::ring::{max_payload, Cursor, Lines, Pos, Tail};
use dp_edge::sync::{AtomicU32, Ordering};
use dp_edge::testing::hostile::check;
use dp_edge::Error;

use crate::input::Input;

mod bed;
use bed::{Bed, GEOMETRY, SLOT, SLOT_BYTES};

/// Bytes that one look of a follower brings at most, and of a call into a buffer.
const LOOKED: usize = 512 << 10;
const MOST: usize = 20 << 10;

struct Feed<'a>(&'a [u8], usize);

impl Source for Feed<'_> {
    fn left(&self) -> usize {
        self.0.len()
    }

    fn take(&mut self, mut n: usize, mut f: impl FnMut(*const u8, usize)) {
        while n > 0 {
            let piece = n.min(self.1.max(1));
            f(self.0.as_ptr(), piece);
            self.0 = &self.0[piece..];
            n -= piece;
        }
    }
}

struct Room {
    bytes: Vec<u8>,
    piece: usize,
    full: usize,
}

impl Room {
    fn new(len: usize, piece: usize) -> Room {
        Room { bytes: vec![0; len], piece: piece.max(1), full: 0 }
    }
}

impl Sink for Room {
    fn left(&self) -> usize {
        self.bytes.len() - self.full
    }

    fn fill(&mut self, mut n: usize, mut f: impl FnMut(*mut u8, usize)) {
        assert!(n <= self.left(), "no more than there is room for");
        while n > 0 {
            let piece = n.min(self.piece);
            f(self.bytes[self.full..].as_mut_ptr(), piece);
            self.full += piece;
            n -= piece;
        }
    }

    fn rewind(&mut self) {
        self.full = 0;
    }
}

/// This end of the channel.
struct End<'a> {
    bed: &'a Bed,
    tail: Tail,
    /// Near where things happen.
    near: Pos,
    follower: Option<Follower>,
}

impl<'a> End<'a> {
    /// The other end writes into what both share.
    fn other_end(&mut self, input: &mut Input<'_>) {
        let bed = self.bed;
        let (at, word) = (input.half(), input.double());
        match input.byte() % 6 {
            0 => bed.short.poke(at, word),
            1 => bed.own.poke(at, word),
            2 => bed.spares[usize::from(at) % 2].poke(at / 2, word),
            3 => bed.first.poke(at, word),
            // This channel's own slot more than others.
            4 => bed.slots.poke(SLOT as u16 * (SLOT_BYTES / 8) as u16 + at % (SLOT_BYTES / 8) as u16, word),
            _ => bed.slots.poke(at, word),
        }
    }

    /// It puts a header there that is right, or nearly.
    fn token(&mut self, input: &mut Input<'_>) {
        let pos = self.near.add(u64::from(input.byte() % 16));
        let kind = u64::from(input.byte() % 8).saturating_sub(4);
        let length = [u64::from(input.half()), u64::from(input.word())][usize::from(input.byte() % 8 == 7)];
        let stamp = pos.raw() & 0xffff_ffff | 0x8000_0000;
        let word = stamp << 32 | kind << 30 | length & 0x3fff_ffff;
        self.bed.ring().header(pos).store(word, Ordering::Relaxed);
    }

    fn receive(&mut self, input: &mut Input<'_>) {
        let (bed, cursor) = (self.bed, &self.bed.edge.rx.cursor);
        let (room, piece) = (usize::from(input.half()) % MOST, usize::from(input.half()));
        let mut to = Room::new(room, piece);
        let peeks = input.byte() % 4 == 0;
        let got = stream::pull_where(|| bed.ring(), || true, cursor, &mut to, peeks);
        check(got, room);
        if let Ok(n) = got {
            assert_eq!(n, to.full);
        }
        self.near = Cursor::unpack(cursor.load(Ordering::Relaxed)).pos;
    }

    fn send(&mut self, input: &mut Input<'_>) {
        let (length, piece) = (usize::from(input.half()) % MOST, usize::from(input.half()));
        let bytes = vec![0xab; length];
        let cursor = &self.bed.edge.rx.cursor;
        let put = stream::push(&self.bed.ring(), &mut self.tail, cursor, &mut Feed(&bytes, piece));
        check(put, length);
        if put == Err(Error::Corrupt) {
            // The connection is over; a new one begins somewhere.
            let at = Pos::new(input.double());
            self.tail = Tail { pos: at, seen: at };
            self.bed.edge.rx.reset(at);
        }
        self.near = self.tail.pos;
    }

    fn look_around(&mut self, input: &mut Input<'_>) {
        let (ring, cursor) = (self.bed.ring(), &self.bed.edge.rx.cursor);
        stream::waiting(&ring, cursor);
        assert!(stream::bytes_waiting(&ring, cursor, 100) <= 100 * max_payload(ring.count()));
        stream::frontier(&ring, cursor, Pos::new(input.double()));
        match input.byte() % 3 {
            0 => stream::recover(&ring, &mut self.tail),
            1 => {
                let mut rest = stream::freeze(cursor);
                let mut to = Room::new(usize::from(input.half()) % MOST, 4096);
                let most = to.left();
                check(stream::retrieve(&ring, &mut rest, &mut to), most);
            }
            _ => {}
        }
    }

    fn follow(&mut self, input: &mut Input<'_>) {
        let how = input.byte();
        let direction = self.bed.observed.direction(Side::Client);
        let sender = self.bed.view.sender(0);
        let sender = (how & 1 == 0).then_some(&sender);
        if how & 2 == 0 || self.follower.is_none() {
            self.follower = Follower::new(&direction, sender, how & 4 == 0);
        }
        let Some(follower) = &mut self.follower else { return };
        let (mut bytes, mut pieces) = (Vec::new(), Vec::new());
        follower.look(&direction, sender, &mut bytes, &mut pieces).expect("room for mappings");
        assert!(bytes.len() <= 8 * LOOKED);
        let mut end = 0;
        for piece in &pieces {
            if let Piece::Bytes(range) = piece {
                assert!(end <= range.start && range.start <= range.end && range.end <= bytes.len());
                assert!(range.len() <= MAX_TOKEN);
                end = range.end;
            }
        }
        let _ = (follower.offset(), follower.on_tcp(), follower.is_at_start(), follower.is_taken(&direction));
    }

    fn switch(&mut self, input: &mut Input<'_>) {
        let (tx, rx, arena) = (self.bed.edge.tx, self.bed.edge.rx, &self.bed.arena);
        let epoch = tx.epoch();
        for at in [epoch, epoch.wrapping_sub(1), epoch.wrapping_sub(2), input.double()] {
            if let Err(error) = tx.view(at) {
                assert_eq!(error, Error::Corrupt);
            }
        }
        let spares = arena.spares().expect("there are some");
        match input.byte() % 8 {
            0 => drop(tx.to_ring(rx, input.double())),
            1 => drop(tx.to_tcp(Pos::new(input.double()), input.double())),
            2 => rx.acknowledge(epoch),
            3 => tx.go_over([switch::SHORT, switch::OWN, 1, 2][usize::from(input.byte() % 4)]),
            4 => spares.give_back(input.word() % 20),
            5 => drop(spares.claim().filter(|n| spares.ring(*n).is_some()).map(|n| tx.go_over(n))),
            6 => drop((
                rx.caught_up(tx),
                tx.moved(epoch),
                tx.beyond(epoch),
                tx.bells_in_front(input.word(), epoch),
            )),
            _ => tx.bell_sent(),
        }
    }

    fn slot(&mut self, input: &mut Input<'_>) {
        let arena = &self.bed.arena;
        let tuple = Tuple { client_port: input.half(), server_port: 1, ..Tuple::default() };
        let hash = tuple.hash(arena.index_len());
        arena.publish(hash, SLOT);
        let generation = arena.slot(SLOT).expect("it is mapped").offer(&tuple, 1, 2, 0);
        for found in arena.candidates(hash) {
            assert!(found < GEOMETRY.slots);
            let Some(slot) = arena.slot(found) else { continue };
            let (matches, ends) = (slot.matches(&tuple, 2), slot.ends());
            if let Some((generation, state)) = slot.get() {
                match state {
                    State::Offered if matches => drop(slot.accept(generation)),
                    State::Accepted => drop(slot.confirm(generation)),
                    _ if ends.is_some() => slot.kill(generation),
                    _ => {}
                }
            }
        }
        let slot = arena.slot(SLOT).expect("it is mapped");
        slot.leave(generation, [Side::Client, Side::Server][usize::from(input.byte() % 2)]);
        let _ = (slot.fate(generation), slot.both_left());
        arena.unpublish(hash, SLOT);
    }

    fn bell(&mut self, input: &mut Input<'_>) {
        let (word, groups) = (self.bed.edge.word, self.bed.arena.groups(Side::Server));
        match input.byte() % 10 {
            0 => drop(word.sleep()),
            1 => word.awake(),
            2 => drop(word.arm()),
            3 => word.unarm(),
            4 => drop(word.make_hot()),
            5 => drop(word.heat_group(input.byte())),
            6 => drop(word.make_cold()),
            7 => word.undo_bell(),
            8 => drop(word.count_bell()),
            _ => groups[usize::from(input.byte()) % groups.len()].doze(u32::from(input.byte() % 4)),
        }
        let owed = word.after_publish(groups, &AtomicU32::new(0));
        assert!(matches!(owed, Owed::Nothing | Owed::Bell | Owed::Event(..) | Owed::Left));
    }

    /// As one looks who has not mapped it.
    fn unmapped(&self, input: &mut Input<'_>) {
        let Ok((unmapped, _)) = Unmapped::look(self.bed.file.as_fd(), usize::MAX) else { return };
        assert_eq!(unmapped.geometry(), GEOMETRY, "its size says so");
        for slot in unmapped.candidates(input.half().into()) {
            assert!(slot < GEOMETRY.slots);
            let _ = unmapped.slot(slot).expect("it is there").get();
        }
    }
}

/// What somebody reads of a family's memory.
fn look_at(view: &View) {
    let _ =
        (view.is_readable(), view.shim(), view.totals(), view.lost(), view.reasons(), view.members().count());
    for connection in view.connections() {
        let i = connection.entry;
        let _ = (view.bytes(i), view.offer(i), view.place(i), connection.holders.len());
    }
}

/// One run.
pub fn run(bytes: &[u8]) {
    thread_local!(static BED: Bed = Bed::new());
    BED.with(|bed| run_in(bed, bytes));
}

fn run_in(bed: &Bed, bytes: &[u8]) {
    let mut input = Input(bytes);
    bed.clear();
    let mut end = End { bed, tail: Tail::default(), near: Pos::default(), follower: None };
    let mut former = Vec::new();
    while let Some(choice) = input.choice() {
        match choice & 15 {
            0 => end.other_end(&mut input),
            1 | 2 => end.token(&mut input),
            3 => {
                let pos = Pos::new(input.double());
                let cursor = Cursor { pos, off: input.half() & 0x7fff, frozen: input.byte() % 8 == 1 };
                bed.edge.rx.cursor.store(cursor.pack(), Ordering::Relaxed);
                end.near = pos;
            }
            4 | 5 => end.receive(&mut input),
            6 => end.send(&mut input),
            7 => end.look_around(&mut input),
            8 | 9 => end.follow(&mut input),
            10 => end.switch(&mut input),
            11 => end.slot(&mut input),
            12 => end.bell(&mut input),
            13 => {
                let (at, length) = bed.parts[usize::from(input.byte() % 3)];
                let at = at + u64::from(input.half()) % (length as u64 / 8) * 8;
                let mut before = [0; 8];
                bed.family.read_exact_at(&mut before, at).expect("it is there");
                former.push((at, before));
                bed.family.write_all_at(&input.double().to_ne_bytes(), at).expect("it is there");
            }
            14 => {
                look_at(&bed.view);
                drop(View::open(&bed.family));
            }
            _ => end.unmapped(&mut input),
        }
    }
    for (at, before) in former.into_iter().rev() {
        bed.family.write_all_at(&before, at).expect("it is there");
    }
    assert!(bed.beside.iter().all(|ring| ring.are_clear()), "a ring beside it was written");
}

/// Runs that reach much.
pub fn seeds() -> Vec<Vec<u8>> {
    let send = |n: u16| [vec![6], n.to_be_bytes().to_vec(), vec![4, 0]].concat();
    let receive = |n: u16| [vec![4], n.to_be_bytes().to_vec(), vec![4, 0, 1]].concat();
    let follow = |how: u8| vec![8, how];
    let to_ring = [10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0].to_vec();
    let token = |delta: u8, kind: u8, length: u16| {
        [vec![1, delta, kind], length.to_be_bytes().to_vec(), vec![0, 0, 0, 0, 0]].concat()
    };
    let own = [vec![10], vec![0; 8], vec![3, 1]].concat();
    let spare = [vec![10], vec![0; 8], vec![3, 2]].concat();
    let family = |part: u8, at: u16, word: u64| {
        [vec![13, part], at.to_be_bytes().to_vec(), word.to_be_bytes().to_vec()].concat()
    };
    vec![
        [
            to_ring.clone(),
            send(40),
            send(1000),
            receive(20),
            receive(2000),
            follow(0),
            send(300),
            follow(2),
            receive(5000),
        ]
        .concat(),
        [
            to_ring.clone(),
            own.clone(),
            send(3000),
            send(900),
            follow(0),
            receive(100),
            follow(6),
            receive(9000),
            vec![7],
            vec![0; 11],
        ]
        .concat(),
        [
            to_ring.clone(),
            spare.clone(),
            send(8000),
            follow(4),
            receive(9000),
            follow(6),
            vec![7],
            vec![0; 8],
            vec![1, 9, 9],
        ]
        .concat(),
        [
            token(0, 4, 100),
            token(2, 4, 60),
            receive(500),
            token(0, 5, 8),
            receive(9),
            token(0, 4, 65000),
            receive(900),
        ]
        .concat(),
        [to_ring.clone(), token(0, 4, 100), follow(1), token(2, 4, 16376), follow(3), follow(5)].concat(),
        [
            to_ring.clone(),
            spare.clone(),
            follow(1),
            token(0, 4, 16376),
            follow(3),
            follow(1),
            token(0, 4, 16377),
            follow(3),
            receive(9000),
        ]
        .concat(),
        [vec![11, 0, 9, 0], vec![15, 0, 9], vec![11, 0, 9, 1], vec![15, 0, 0]].concat(),
        (0..10).flat_map(|n| [12, n, 1, 1]).collect(),
        [
            vec![14],
            family(1, 3, 1),
            family(1, 9, u64::MAX),
            family(0, 9, u64::MAX),
            family(2, 0, 3),
            vec![14],
        ]
        .concat(),
    ]
}
