//! A hostile peer that wins every race: it acts whenever this side looks at a header. No threads, so what
//! it does is the same in every run, and Miri can run it.

use dp_edge::ring::{self, Lines, Pos, Tail};
use dp_edge::sync::{AtomicU64, Ordering};
use dp_edge::testing::lines::Heap;
use dp_edge::Error;

use super::ends::Room;
use crate::stream;

/// A ring whose peer acts whenever this side looks at a header.
struct Meddled<F: Fn(&Heap, Pos)> {
    ring: Heap,
    peer: F,
}

// SAFETY: Heap's own.
unsafe impl<F: Fn(&Heap, Pos)> Lines for Meddled<F> {
    fn count(&self) -> u64 {
        self.ring.count()
    }
    fn header(&self, pos: Pos) -> &AtomicU64 {
        (self.peer)(&self.ring, pos);
        self.ring.header(pos)
    }
    unsafe fn put(&self, pos: Pos, at: usize, src: *const u8, len: usize) {
        // SAFETY: the caller's contract.
        unsafe { self.ring.put(pos, at, src, len) };
    }
    unsafe fn get(&self, pos: Pos, at: usize, dst: *mut u8, len: usize) {
        // SAFETY: the caller's contract.
        unsafe { self.ring.get(pos, at, dst, len) };
    }
}

fn token(pos: Pos, kind: u64, len: u64) -> u64 {
    (pos.raw() & 0xffff_ffff | 0x8000_0000) << 32 | kind << 30 | len
}

/// The peer wins every race for the cursor: each receive ends nevertheless.
#[test]
fn hostile_cursor_cannot_hold_a_receiver() {
    for (kind, len) in [(0, 8), (0, 0), (1, 0), (3, 0)] {
        let cursor = AtomicU64::new(0);
        let ring = Meddled {
            ring: Heap::new(16),
            peer: |ring, pos| {
                ring.header(pos).store(token(pos, kind, len), Ordering::Relaxed);
                cursor.fetch_add(1 << 16, Ordering::Relaxed);
            },
        };
        for peek in [false, true] {
            let got = stream::pull(&ring, &cursor, &mut Room::room(8, 8), peek);
            assert_eq!(got, Err(Error::Corrupt));
        }
        // A brief piece is for who can find out what is behind it.
        let got = stream::pull_quickly(|| &ring, || true, &cursor, &mut Room::room(8, 8));
        assert_eq!(got, Err(Error::Empty));
    }
}

/// Tokens without end, each put there as it is looked at: every walk over them ends.
#[test]
fn hostile_tokens_without_end() {
    for kind in [0, 1] {
        let data = kind == 0;
        let ring = Meddled {
            ring: Heap::new(16),
            peer: |ring, pos| ring.header(pos).store(token(pos, kind, 0), Ordering::Relaxed),
        };
        let cursor = AtomicU64::new(0);
        let mut tail = Tail::default();
        stream::recover(&ring, &mut tail);
        assert!(tail.pos.raw() < 16 && (data || tail.pos.raw() == 0));
        assert!(stream::frontier(&ring, &cursor, Pos::default()).raw() <= 16);
        assert_eq!(stream::bytes_waiting(&ring, &cursor, usize::MAX), 0);
        let got = stream::pull(&ring, &cursor, &mut Room::room(8, 8), false);
        assert_eq!(got, Err(Error::Corrupt));
        let look = ring::look(&ring, Pos::default()).map(|token| token.len);
        assert_eq!(look, if data { Ok(0) } else { Err(Error::Corrupt) });
    }
}

/// What a receive copies in all before it ends.
struct Counted {
    room: Room,
    copied: usize,
}

impl stream::Sink for Counted {
    fn left(&self) -> usize {
        self.room.left()
    }
    fn fill(&mut self, n: usize, f: impl FnMut(*mut u8, usize)) {
        self.copied += n;
        self.room.fill(n, f);
    }
    fn rewind(&mut self) {
        self.room.rewind();
    }
}

/// The peer moves the cursor under `wins` receives that would each fill a large buffer.
fn moved_under(wins: u64) -> (Result<usize, Error>, Counted) {
    let cursor = AtomicU64::new(0);
    let ring = Meddled {
        ring: Heap::new(2048),
        peer: |ring, pos| {
            ring.header(pos).store(token(pos, 0, 1016), Ordering::Relaxed);
            if cursor.load(Ordering::Relaxed) >> 16 < wins * 64 {
                cursor.fetch_add(1 << 16, Ordering::Relaxed);
            }
        },
    };
    let mut dst = Counted { room: Room::room(64 << 10, 64 << 10), copied: 0 };
    let got = stream::pull(&ring, &cursor, &mut dst, false);
    (got, dst)
}

/// A cursor that is moved again and again costs no more than a few copies of what is there.
#[test]
fn hostile_cursor_does_not_have_a_receiver_copy_for_long() {
    let (got, dst) = moved_under(u64::MAX >> 20);
    assert_eq!(got, Err(Error::Corrupt));
    assert!(dst.copied <= 8 << 20, "{} bytes copied", dst.copied);
}

/// A receive that lost a race or two gets all there is; one that lost many gets a piece of it.
#[test]
fn quicker_neighbours_leave_a_receiver_something() {
    let (got, dst) = moved_under(1);
    assert_eq!((got, dst.room.got().len()), (Ok(64 << 10), 64 << 10));
    let (got, dst) = moved_under(10);
    let n = got.unwrap();
    assert!(n > 0 && n <= 1024, "{n}");
    assert_eq!(dst.room.got().len(), n);
}
