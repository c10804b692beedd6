//! A peer that writes rubbish: errors, never a panic, an access outside the ring, or an endless call.
//!
//! A second thread overwrites every word that a peer can reach, at random and with chosen values, while
//! this side sends and receives. The ring stands between pages without access, so a byte outside faults;
//! what lies in an arena stands between pages with a pattern that is looked at afterwards.

use std::sync::atomic::{AtomicBool, AtomicU64 as Plain, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::lines::{at_line, Feed, Receiver, Room};
use crate::arena::{Arena, Geometry, GROUPS, SHORT};
use crate::bell::{settle, Group, Owed, Word};
use crate::message;
use crate::ring::{self, max_payload, Pos, Tail, LINE, MAX_LEN};
use crate::segment::{Mapped, Segment};
use crate::slot::{Side, Slot, State, Tuple};
use crate::spare::SPARES;
use crate::stream;
use crate::switch::{self, RxLine, TxLine};
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::Error;

const LINES: u64 = 64;
const PAGE: usize = 4096;

/// How long each attack goes on.
const ATTACK: Duration = Duration::from_millis(if cfg!(debug_assertions) { 700 } else { 400 });
/// What no single call may take. Calls take microseconds; the machine may be busy.
const ENDLESS: Duration = Duration::from_secs(20);

/// xorshift64*: the same attack in every run, as far as two threads allow.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
    /// Words that have broken such code before: limits, off by one, other laps, half of a good header.
    fn word(&mut self, near: u64) -> u64 {
        let stamp = |pos: u64| (pos & 0xffff_ffff | 0x8000_0000) << 32;
        let most = max_payload(LINES) as u64;
        let len = [0, 1, 8, 56, 57, most - 1, most, most + 1, LINES * 64, MAX_LEN as u64, 16_376, 16_377]
            [self.below(12)];
        let pos = near.wrapping_add(
            [0, 1, 2, LINES - 1, LINES, LINES + 1, 0u64.wrapping_sub(1), 0u64.wrapping_sub(LINES), 1 << 31]
                [self.below(9)],
        );
        match self.below(12) {
            0 => 0,
            1 => u64::MAX,
            2 => self.next(),
            3 => 1 << self.below(64),
            4 => stamp(pos) | len,
            5 => stamp(pos) | 1 << 30 | len,
            6 => stamp(pos) | self.next() & 0xffff_ffff,
            7 => stamp(near) | len,
            8 => at_line(Pos::new(pos)).pack() | self.next() & 0xffff,
            9 => at_line(Pos::new(near)).pack() | [0, 1, 56, 0x7fff, 0x8000][self.below(5)],
            10 => near.wrapping_add(self.below(3) as u64),
            _ => pos << 8 | self.below(6) as u64,
        }
    }
}

/// Words of shared memory that a peer can write, and a hint of where this side is.
struct Target<'a> {
    words: Vec<&'a AtomicU64>,
    near: Plain,
}

impl Target<'_> {
    /// Every word of `len` bytes at `at`.
    ///
    /// # Safety
    ///
    /// Mapped, 8-aligned, and reached by everybody through atomics or copies, for as long as it is used.
    unsafe fn add(&mut self, at: *const u8, len: usize) {
        // SAFETY: by the caller's contract.
        self.words.extend((0..len / 8).map(|i| unsafe { &*at.cast::<AtomicU64>().add(i) }));
    }

    fn attack(&self, stop: &AtomicBool, seed: u64) {
        let mut random = Random(seed);
        while !stop.load(Relaxed) {
            for _ in 0..64 {
                let near = self.near.load(Relaxed);
                // Half of the attack where this side looks: the headers around its position.
                let i = match random.below(2) {
                    0 => ((near as usize + random.below(3)) % LINES as usize) * LINE / 8,
                    _ => random.below(self.words.len()),
                };
                self.words[i % self.words.len()].store(random.word(near), Ordering::Relaxed);
            }
            // Now and then hold still, so that both sides also get on.
            (0..random.below(200)).for_each(|_| core::hint::spin_loop());
        }
    }
}

/// Runs `victim` over and over beside the attack; how often it ran.
fn under_attack(target: &Target<'_>, seed: u64, mut victim: impl FnMut()) -> u64 {
    /// Ends the attack also when the victim panics.
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }
    let stop = AtomicBool::new(false);
    let mut rounds = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| target.attack(&stop, seed));
        let _stop = Stop(&stop);
        let start = Instant::now();
        while start.elapsed() < ATTACK {
            let call = Instant::now();
            for _ in 0..64 {
                victim();
            }
            assert!(call.elapsed() < ENDLESS, "calls that hardly end");
            rounds += 64;
        }
    });
    rounds
}

/// A ring of LINES lines between two pages that nobody may touch. Stays mapped.
fn guarded_ring() -> (Mapped, *const u8) {
    let len = LINES as usize * LINE;
    // SAFETY: an anonymous reservation of our own, part of which becomes accessible.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let p = libc::mmap(core::ptr::null_mut(), len + 2 * PAGE, libc::PROT_NONE, flags, -1, 0);
        assert_ne!(p, libc::MAP_FAILED);
        let base = p.cast::<u8>().add(PAGE);
        assert_eq!(libc::mprotect(base.cast(), len, libc::PROT_READ | libc::PROT_WRITE), 0);
        (Mapped::new(base, LINES), base)
    }
}

/// Any of the errors there are is right; a caller answers them by giving the edge up.
fn is_error(e: Error) -> bool {
    matches!(e, Error::Empty | Error::Full | Error::Corrupt | Error::TooLong(_))
}

/// What a receive into a buffer of `room` bytes may say.
fn check(result: Result<usize, Error>, most: usize) {
    match result {
        Ok(n) => assert!(n <= most, "{n} bytes of {most}"),
        Err(e) => assert!(is_error(e)),
    }
}

#[test]
#[cfg_attr(miri, ignore)]
fn hostile_ring_against_streams() {
    let (ring, base) = guarded_ring();
    let lines = (AtomicU64::new(0), AtomicU64::new(0));
    let mut target = Target { words: Vec::new(), near: Plain::new(0) };
    // SAFETY: the ring, mapped for good; two atomics that outlive the attack.
    unsafe { target.add(base, LINES as usize * LINE) };
    target.words.extend([&lines.0, &lines.1]);
    let mut random = Random(7);
    let mut tail = Tail::default();
    let bytes = vec![0xab; 3 * LINES as usize * LINE];
    let mut seen = [0u64; 3];
    let rounds = under_attack(&target, 11, || {
        let (n, piece) = (random.below(bytes.len()), random.below(500));
        let put = stream::push(&ring, &mut tail, &lines.0, &mut Feed::cut(&bytes[..n], piece));
        check(put, n);
        let mut room = Room::room(n, piece);
        let got = stream::pull(&ring, &lines.0, &mut room, n % 5 == 0);
        check(got, n);
        assert!(stream::bytes_waiting(&ring, &lines.0, 100) <= 100 * max_payload(LINES));
        stream::waiting(&ring, &lines.0);
        stream::frontier(&ring, &lines.0, Pos::new(random.next()));
        match (put, got) {
            (Err(Error::Corrupt), _) | (_, Err(Error::Corrupt)) => {
                seen[2] += 1;
                if n % 3 == 0 {
                    stream::recover(&ring, &mut tail);
                } else {
                    let mut rest = stream::freeze(&lines.0);
                    let mut room = Room::room(n, piece);
                    check(stream::retrieve(&ring, &mut rest, &mut room), n);
                    // A new connection on the same memory.
                    let at = Pos::new(random.next());
                    tail = Tail { pos: at, seen: at };
                    lines.0.store(at_line(at).pack(), Ordering::Relaxed);
                }
            }
            (Ok(_), _) => seen[0] += 1,
            _ => seen[1] += 1,
        }
        target.near.store(tail.pos.raw(), Relaxed);
    });
    assert!(seen[0] > 0 && seen[2] > 0, "{rounds} rounds: {seen:?}");
}

#[test]
#[cfg_attr(miri, ignore)]
fn hostile_ring_against_messages() {
    let (ring, base) = guarded_ring();
    let cursor = AtomicU64::new(0);
    let mut target = Target { words: Vec::new(), near: Plain::new(0) };
    // SAFETY: the ring, mapped for good.
    unsafe { target.add(base, LINES as usize * LINE) };
    target.words.push(&cursor);
    let mut random = Random(5);
    let (mut tail, mut receiver) = (Tail::default(), Receiver::default());
    let bytes = vec![0xcd; 2 * LINES as usize * LINE];
    let mut seen = [0u64; 2];
    let rounds = under_attack(&target, 13, || {
        let n = match random.below(4) {
            0 => usize::MAX - random.below(64), // refused before the first byte is looked at
            _ => random.below(bytes.len()),
        };
        // SAFETY: a slice, or a length that is refused.
        let put = unsafe { message::send(&ring, &mut tail, &cursor, bytes.as_ptr(), n) };
        let mut buf = vec![0; random.below(2 * LINE)];
        let got = receiver.recv(&ring, &cursor, &mut buf);
        check(put.map(|()| n), max_payload(LINES));
        check(got, max_payload(LINES));
        if let Ok(len) = receiver.look(&ring) {
            assert!(len <= max_payload(LINES));
            receiver.release(len, &cursor);
        }
        if put == Err(Error::Corrupt) || got == Err(Error::Corrupt) {
            let at = Pos::new(random.next());
            tail = Tail { pos: at, seen: at };
            receiver.at = at;
            cursor.store(at_line(at).pack(), Ordering::Relaxed);
        }
        seen[0] += u64::from(put.is_ok());
        seen[1] += u64::from(got == Err(Error::Corrupt));
        target.near.store(receiver.at.raw(), Relaxed);
    });
    assert!(seen[0] > 0 && seen[1] > 0, "{rounds} rounds: {seen:?}");
}

/// Everything that is done with a wake word, in any order.
fn use_word(random: &mut Random, word: &Word, groups: &[Group]) {
    match random.below(12) {
        0 => drop(word.sleep()),
        1 => word.awake(),
        2 => drop(word.arm()),
        3 => word.unarm(),
        4 => drop(word.make_hot()),
        5 => drop(word.heat_group(random.next() as u8)),
        6 => drop(word.make_cold()),
        7 => word.undo_bell(),
        8 => drop(word.count_bell()),
        9 => drop((word.is_hot(), word.is_rung(), word.bells(), word.has_left())),
        10 => groups.iter().for_each(|g| g.doze(random.below(4) as u32)),
        _ => {
            settle();
            groups.iter().for_each(Group::wake);
        }
    }
    assert!(matches!(
        word.after_publish(groups, &AtomicU32::new(0)),
        Owed::Nothing | Owed::Bell | Owed::Event(_) | Owed::Left
    ));
}

/// Everything that is done with the switch record.
fn use_switch(random: &mut Random, tx: &TxLine, rx: &RxLine) {
    let r = tx.epoch();
    let _ = tx.view(random.next());
    for at in [r, r.wrapping_sub(1), r.wrapping_sub(2), r.wrapping_add(1)] {
        if let Err(e) = tx.view(at) {
            assert_eq!(e, Error::Corrupt);
        }
    }
    tx.to_ring(rx, random.next());
    rx.acknowledge(r);
    rx.caught_up(tx);
    tx.to_tcp(Pos::new(random.next()), random.next());
    tx.moved(r);
}

/// The whole life of a connection in a slot, as either side.
fn use_slot(random: &mut Random, arena: &Arena, i: u32, slot: &Slot) {
    let tuple = Tuple { client_port: i as u16, server_port: 1, ..Tuple::default() };
    let hash = tuple.hash(arena.index_len());
    arena.publish(hash, i);
    let mine = slot.offer(&tuple, 1, 2, 0);
    for found in arena.candidates(hash) {
        assert!(found < arena.geometry().slots);
        let Some(slot) = arena.slot(found) else { continue };
        if let Some((generation, state)) = slot.get() {
            slot.matches(&tuple, 2);
            match state {
                State::Offered => drop(slot.accept(generation)),
                State::Accepted => drop(slot.confirm(generation)),
                _ => slot.kill(generation),
            }
        }
    }
    let _ = (slot.confirm(mine), slot.withdraw(mine), slot.both_left());
    let side = [Side::Client, Side::Server][random.below(2)];
    slot.leave(mine, side);
    arena.unpublish(hash, i);
}

#[test]
#[cfg_attr(miri, ignore)]
fn hostile_arena_against_everything() {
    let geo = Geometry { slots: 16, lines: LINES as u32, spare: 2 * LINES as u32 };
    let (arena, _fd) = Arena::create(geo).unwrap();
    let slot = 5;
    assert!(arena.bring(slot));
    let edge = arena.edge(slot, Side::Client).unwrap();
    let at = |ring: Mapped| ring.payload(Pos::default()) as usize - ring::HEADER;
    // The rings on both sides of ours, and what they must still hold afterwards.
    let neighbours = [(slot - 1, Side::Server), (slot, Side::Server)].map(|(slot, side)| {
        let edge = arena.edge(slot, side).unwrap();
        [(at(edge.short), SHORT as usize * LINE), (at(edge.own), geo.ring_bytes())]
    });
    for &(at, len) in neighbours.as_flattened() {
        // SAFETY: a ring of the arena.
        unsafe { core::ptr::write_bytes(at as *mut u8, 0x5a, len) };
    }
    let mut target = Target { words: Vec::new(), near: Plain::new(0) };
    let spares = arena.spares().unwrap();
    // SAFETY: the rings, then the header, groups and index, with the word that says which spare rings are taken, and these;
    // the mapping stays for good.
    unsafe {
        target.add(at(edge.short) as *const u8, SHORT as usize * LINE);
        target.add(at(edge.own) as *const u8, geo.ring_bytes());
        target.add(arena.first().start as *const u8, arena.first().len());
        for n in 1..=SPARES {
            assert!(spares.bring(n));
            target.add(at(spares.ring(n).unwrap()) as *const u8, 2 * geo.ring_bytes());
        }
        // The slot's own lines again, so that they get their share.
        for _ in 0..8 {
            target.add(std::ptr::from_ref(arena.slot(slot).unwrap()).cast(), 512);
        }
    }
    let mut random = Random(3);
    let mut tail = Tail::default();
    let bytes = vec![0xef; 3000];
    let mut moved = 0u64;
    under_attack(&target, 17, || {
        let n = random.below(bytes.len());
        match random.below(8) {
            0 => {
                if let Some(n) = spares.claim() {
                    edge.tx.go_over(n);
                }
            }
            1 => spares.give_back(random.next() as u32 % (SPARES + 4)),
            2 => edge.tx.go_over([switch::SHORT, switch::OWN][random.below(2)]),
            _ => {}
        }
        // As the shim asks for it at each look.
        let ring = || match edge.tx.ring() {
            switch::SHORT => edge.short,
            n => spares.ring(n).unwrap_or(edge.own),
        };
        let put = stream::push(&ring(), &mut tail, &edge.rx.cursor, &mut Feed::one(&bytes[..n]));
        check(put, n);
        moved += u64::from(put.is_ok());
        let mut room = Room::room(n, 1000);
        check(stream::pull_where(ring, &edge.rx.cursor, &mut room, false), n);
        if put == Err(Error::Corrupt) {
            let at = Pos::new(random.next());
            tail = Tail { pos: at, seen: at };
            edge.rx.reset(at);
        }
        use_word(&mut random, edge.word, arena.groups(Side::Server));
        use_switch(&mut random, edge.tx, edge.rx);
        use_slot(&mut random, &arena, slot, arena.slot(slot).unwrap());
        target.near.store(tail.pos.raw(), Relaxed);
    });
    assert!(moved > 0);
    assert_eq!(arena.groups(Side::Client).len(), GROUPS);
    assert_eq!(arena.geometry(), geo, "the geometry is ours, whatever the header says now");
    for &(at, len) in neighbours.as_flattened() {
        // SAFETY: a ring of the arena, which nobody writes any more.
        let ring = unsafe { core::slice::from_raw_parts(at as *const u8, len) };
        assert!(ring.iter().all(|&b| b == 0x5a), "another slot's ring was written");
    }
}

/// In place: what `look` allows lies inside the doubled mapping, at every position.
#[test]
#[cfg_attr(miri, ignore)]
fn hostile_length_in_place_stays_in_the_mapping() {
    let (seg, _) = Segment::create(LINES as usize * LINE).unwrap();
    let ring = seg.lines();
    let start = ring.payload(Pos::default()) as usize - ring::HEADER;
    for pos in (0..2 * LINES).map(Pos::new) {
        for len in [0, 56, 57, max_payload(LINES), max_payload(LINES) + 1, LINES as usize * LINE, MAX_LEN] {
            let header = ring::Lines::header(&ring, pos);
            header.store((pos.raw() | 0x8000_0000) << 32 | len as u64, Ordering::Relaxed);
            if let Ok(token) = ring::look(&ring, pos) {
                let end = ring.payload(pos) as usize + token.len;
                assert!(end <= start + 2 * LINES as usize * LINE);
                // SAFETY: that is the claim.
                unsafe { std::ptr::read_volatile((end as *const u8).sub(1)) };
            } else {
                assert!(len > max_payload(LINES));
            }
            header.store(0, Ordering::Relaxed);
        }
    }
}
