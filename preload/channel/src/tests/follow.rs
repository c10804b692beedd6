//! Somebody who follows a direction finds what was sent, and knows how much he missed.

use std::fs::File;
use std::rc::Rc;

use proptest::prelude::*;

use super::ends::{Feed, Room};
use crate::arena::{Arena, Edge, Geometry};
use crate::family::{Conn, Family, View};
use crate::follow::{After, Follower, Piece};
use crate::observed::{Memory, Observed};
use crate::slot::{Side, Tuple};
use crate::stream;
use crate::switch::{in_ring, OWN, SHORT};
use dp_edge::ring::{Lines, LINE};
use dp_edge::segment::Mapped;
use dp_edge::sync::Ordering;

const SLOT: u32 = 3;

/// A channel's client, who sends; the server takes when it is told to.
struct Bed {
    family: Family,
    view: Rc<View>,
    edge: Edge,
    observed: Rc<Observed>,
    sent: Vec<u8>,
    kernel: u64,
    _memory: Rc<Memory>,
}

impl Bed {
    fn new(lines: u32) -> Bed {
        let (arena, fd) = Arena::create(Geometry { slots: 16, lines, spare: 0 }).unwrap();
        let (family, of_family) = Family::create().unwrap();
        assert!(arena.bring(SLOT) && family.claim() == Some(0));
        let conn = family.conn(0);
        conn.reset(Side::Client as u32, Default::default(), Default::default());
        let generation = arena.slot(SLOT).unwrap().offer(&Tuple::default(), 1, 1, 1);
        assert!(conn.attach(&arena, SLOT, Side::Client, generation));
        let memory = Rc::new(Memory::open(File::from(fd)).unwrap());
        Bed {
            family,
            view: Rc::new(View::open(&File::from(of_family)).unwrap()),
            edge: arena.edge(SLOT, Side::Client).unwrap(),
            observed: Rc::new(memory.channel(SLOT).unwrap()),
            sent: Vec::new(),
            kernel: 0,
            _memory: memory,
        }
    }

    fn conn(&self) -> &'static Conn {
        self.family.conn(0)
    }

    fn ring(&self) -> Mapped {
        if self.edge.tx.ring() == SHORT {
            self.edge.short
        } else {
            self.edge.own
        }
    }

    /// Numbers that come again only after long.
    fn next(&self, len: usize) -> Vec<u8> {
        (self.sent.len()..self.sent.len() + len).map(|i| (i * 31 + i / 251) as u8).collect()
    }

    /// Sends into the ring, which has room.
    fn send(&mut self, len: usize) {
        let bytes = self.next(len);
        self.send_these(&bytes);
    }

    fn send_these(&mut self, bytes: &[u8]) {
        let c = self.conn();
        assert!(c.tx_lock.try_lock(1));
        let (mut tail, mut feed) = (c.tail(), Feed::one(bytes));
        while stream::Source::left(&feed) > 0 {
            let n = stream::push(&self.ring(), &mut tail, &self.edge.rx.cursor, &mut feed).unwrap();
            c.tx_bytes.fetch_add(n as u64, Ordering::Relaxed);
            c.set_tail(tail);
        }
        c.tx_lock.unlock();
        self.sent.extend_from_slice(bytes);
    }

    fn take_all(&self) {
        let mut room = Room::room(1 << 20, 4096);
        let _ = stream::pull(&self.ring(), &self.edge.rx.cursor, &mut room, false);
    }

    fn over_tcp(&mut self, len: usize) {
        assert!(!in_ring(self.edge.tx.epoch()));
        let bytes = self.next(len);
        self.sent.extend(bytes);
        self.kernel += len as u64;
    }

    fn bell(&mut self) {
        self.kernel += 1;
        self.edge.tx.bell_sent();
    }

    fn to_ring(&self) {
        self.edge.rx.acknowledge(self.edge.tx.epoch());
        self.conn().tx_kernel.store(self.kernel, Ordering::Relaxed);
        assert!(self.edge.tx.to_ring(self.edge.rx, self.kernel));
    }

    fn to_tcp(&self) {
        assert!(self.edge.tx.to_tcp(self.conn().tail().pos, self.kernel));
    }

    fn widen(&self) {
        self.edge.own.header(self.conn().tail().pos).store(0, Ordering::Relaxed);
        self.edge.tx.go_over(OWN);
    }

    fn follow(&self, all: bool) -> Follows {
        let direction = self.observed.direction(Side::Client);
        let follower = Follower::new(&direction, Some(&self.view.sender(0)), all).unwrap();
        Follows {
            at: follower.offset(),
            follower,
            missed: 0,
            gaps: 0,
            on_tcp: 0,
            found: 0,
            observed: self.observed.clone(),
            view: self.view.clone(),
        }
    }
}

/// Somebody who follows, and compares.
struct Follows {
    follower: Follower,
    at: u64,
    missed: u64,
    /// Pieces that were missed.
    gaps: u64,
    on_tcp: u64,
    found: u64,
    observed: Rc<Observed>,
    view: Rc<View>,
}

impl Follows {
    fn look(&mut self, sent: &[u8]) -> After {
        let (mut bytes, mut pieces) = (Vec::new(), Vec::new());
        let direction = self.observed.direction(Side::Client);
        let after =
            self.follower.look(&direction, Some(&self.view.sender(0)), &mut bytes, &mut pieces).unwrap();
        for piece in pieces {
            self.at += match piece {
                Piece::Bytes(range) => {
                    let here = self.at as usize..self.at as usize + range.len();
                    assert!(bytes[range.clone()] == sent[here], "other bytes at {}", self.at);
                    self.found += range.len() as u64;
                    range.len() as u64
                }
                Piece::Missed(n) => {
                    self.missed += n;
                    self.gaps += 1;
                    n
                }
                Piece::OnTcp(n) => {
                    self.on_tcp += n;
                    n
                }
            };
        }
        assert_eq!(self.at, self.follower.offset());
        after
    }
}

#[test]
#[cfg_attr(miri, ignore)]
fn all_is_found_where_somebody_looks_often_enough() {
    let mut bed = Bed::new(2048);
    bed.over_tcp(100);
    let mut follows = bed.follow(true);
    bed.to_ring();
    bed.widen();
    for round in 0..2000usize {
        // Up to 31 lines taken at once, of several tokens.
        bed.send(1 + round * 37 % 900);
        bed.take_all();
        if round % 3 == 0 {
            assert_eq!(follows.look(&bed.sent), After::On);
            assert_eq!(follows.at, bed.sent.len() as u64);
            assert!(follows.follower.is_taken(&bed.observed.direction(Side::Client)));
        }
    }
    follows.look(&bed.sent);
    assert_eq!((follows.missed, follows.on_tcp, follows.at), (0, 100, bed.sent.len() as u64));
}

#[test]
#[cfg_attr(miri, ignore)]
fn a_short_ring_keeps_what_was_taken_for_half_a_lap() {
    let mut bed = Bed::new(64);
    let mut follows = bed.follow(true);
    bed.to_ring();
    for _ in 0..1000 {
        for _ in 0..14 {
            bed.send(40);
            bed.take_all();
        }
        follows.look(&bed.sent);
    }
    assert_eq!((follows.missed, follows.at), (0, bed.sent.len() as u64));
}

#[test]
#[cfg_attr(miri, ignore)]
fn what_was_written_over_is_missed_by_its_length() {
    let mut bed = Bed::new(64);
    let mut follows = bed.follow(true);
    bed.to_ring();
    bed.widen();
    for lap in 0..50usize {
        for i in 0..20 + lap * 3 {
            bed.send(1 + (lap * 13 + i * 7) % 120);
            bed.take_all();
        }
        // The last few are not taken.
        bed.send(77);
        follows.look(&bed.sent);
        assert_eq!(follows.at, bed.sent.len() as u64, "round {lap}");
        bed.take_all();
    }
    assert!(follows.missed > 0 && follows.found > 50 * 77, "{} {}", follows.missed, follows.found);
    assert_eq!(follows.missed + follows.found, bed.sent.len() as u64);
}

#[test]
#[cfg_attr(miri, ignore)]
fn tokens_that_were_missed_one_by_one_are_one_gap() {
    let mut bed = Bed::new(64);
    let mut follows = bed.follow(true);
    bed.to_ring();
    bed.widen();
    // Of two lines each; zeros look like headers that the sender has made invalid.
    (0..8).for_each(|_| bed.send_these(&[0; 100]));
    bed.take_all();
    // Long ones, of nine lines, leave the headers before them as they are.
    (0..4).for_each(|_| bed.send(568));
    bed.take_all();
    follows.look(&bed.sent);
    assert_eq!((follows.gaps, follows.missed, follows.at), (1, 300, 8 * 100 + 4 * 568));
}

#[test]
#[cfg_attr(miri, ignore)]
fn what_goes_over_tcp_is_a_gap_and_not_missed() {
    let mut bed = Bed::new(2048);
    let mut follows = bed.follow(true);
    let mut on_tcp = 0;
    for round in 0..40usize {
        bed.over_tcp(round * 5);
        on_tcp += round as u64 * 5;
        bed.to_ring();
        (0..round % 4).for_each(|_| bed.bell());
        (0..3).for_each(|_| bed.send(200));
        bed.take_all();
        bed.to_tcp();
        // Now and then several switches between two looks.
        if round % 5 != 2 {
            follows.look(&bed.sent);
        }
    }
    bed.to_ring();
    bed.send(1);
    follows.look(&bed.sent);
    assert_eq!(follows.at, bed.sent.len() as u64);
    assert_eq!(follows.on_tcp, on_tcp);
    assert!(follows.missed < 1000 * 2 * 40 / 5, "{}", follows.missed);
}

#[test]
#[cfg_attr(miri, ignore)]
fn a_channel_that_is_found_late_is_told_from_where_it_is_known() {
    for all in [false, true] {
        let mut bed = Bed::new(64);
        bed.over_tcp(33);
        bed.to_ring();
        (0..3).for_each(|_| bed.bell());
        for _ in 0..5 {
            bed.send(100);
            bed.take_all();
        }
        bed.conn().tx_kernel.store(bed.kernel, Ordering::Relaxed);
        let mut follows = bed.follow(all);
        let before = if all { 33 } else { 533 };
        assert_eq!((follows.follower.offset(), follows.follower.is_at_start()), (before, all));
        bed.send(10);
        follows.look(&bed.sent);
        assert_eq!((follows.at, follows.found), (543, 543 - before));
    }
}

#[test]
#[cfg_attr(miri, ignore)]
fn the_end_of_a_channel_is_seen_behind_its_last_bytes() {
    let mut bed = Bed::new(64);
    let mut follows = bed.follow(true);
    bed.to_ring();
    assert_eq!(follows.look(&bed.sent), After::On);
    bed.send(500);
    // The client puts the slot away.
    bed.edge.tx.reset();
    assert_eq!(follows.look(&bed.sent), After::Over);
    assert_eq!((follows.found, follows.missed), (500, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    #[cfg_attr(miri, ignore)]
    fn rubbish_is_followed_without_harm(words in prop::collection::vec(any::<u64>(), 64), seed in any::<u32>()) {
        let mut bed = Bed::new(64);
        bed.to_ring();
        bed.send(300);
        let (mut bytes, mut pieces) = (Vec::new(), Vec::new());
        let direction = bed.observed.direction(Side::Client);
        let mut follower = Follower::new(&direction, None, true).unwrap();
        for (i, &word) in words.iter().enumerate() {
            let pos = dp_edge::ring::Pos::new(u64::from(seed) + i as u64);
            // Whatever a peer may write: headers that nearly fit, cursors, epochs, rings.
            bed.edge.short.header(pos).store(word, Ordering::Relaxed);
            match word % 7 {
                0 => bed.edge.rx.cursor.store(word, Ordering::Relaxed),
                1 => bed.edge.tx.go_over(word as u32),
                2 => drop(bed.edge.tx.to_tcp(pos, word)),
                3 => {
                    bed.edge.rx.acknowledge(bed.edge.tx.epoch());
                    bed.edge.tx.to_ring(bed.edge.rx, word);
                }
                4 => bed.edge.tx.reset(),
                _ => {}
            }
            bytes.clear();
            pieces.clear();
            let sender = bed.view.sender(0);
            follower.look(&direction, (word % 2 == 0).then_some(&sender), &mut bytes, &mut pieces).unwrap();
            prop_assert!(bytes.len() <= 64 * LINE * 8);
        }
    }
}
