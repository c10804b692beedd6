//! A peer that writes rubbish: errors, never a panic, an access outside the ring, or an endless call.
//!
//! The ring stands between pages without access, so a byte outside faults.

use std::sync::atomic::{AtomicU64 as Plain, Ordering::Relaxed};

use dp_edge::ring::{self, max_payload, Kind, Lines as _, Pos, Tail, HEADER, LINE, MAX_LEN};
use dp_edge::sync::{AtomicU64, Ordering};
use dp_edge::testing::hostile::{check, guarded_ring, under_attack, Random, Target, LINES};
use dp_edge::testing::lines::at_line;
use dp_edge::Error;

use super::receiver::Receiver;
use crate::edge::message;
use crate::edge::segment::Segment;

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
        let put = message::send(&ring, &mut tail, &cursor, (0, n, Kind::Data), |ring, at| {
            // SAFETY: a slice, or a length that is refused.
            unsafe { ring.put(at, HEADER, bytes.as_ptr(), n) };
        });
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
