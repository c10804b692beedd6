//! A peer that writes rubbish: errors, never a panic, an access outside the ring, or an endless call.
//!
//! A ring of its own stands between pages without access, so a byte outside faults; what lies in an arena stands between
//! pages with a pattern that is looked at afterwards.

use std::sync::atomic::{AtomicU64 as Plain, Ordering::Relaxed};

use dp_edge::ring::{self, max_payload, Pos, Tail, LINE};
use dp_edge::segment::Mapped;
use dp_edge::sync::{AtomicU32, AtomicU64, Ordering};
use dp_edge::testing::hostile::{check, guarded_ring, under_attack, Random, Target, LINES};
use dp_edge::testing::lines::at_line;
use dp_edge::Error;

use super::ends::{Feed, Room};
use crate::arena::{Arena, Geometry, GROUPS, SHORT};
use crate::bell::{settle, Group, Owed, Word};
use crate::slot::{Side, Slot, State, Tuple};
use crate::spare::SPARES;
use crate::stream;
use crate::switch::{self, RxLine, TxLine};

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
        Owed::Nothing | Owed::Bell(_) | Owed::Event(..) | Owed::Left
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
        check(stream::pull_where(ring, || true, &edge.rx.cursor, &mut room, false), n);
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
