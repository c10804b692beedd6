//! An edge on the heap, whose two sides are one test.

use super::lines::{at_line, Heap};
use crate::ring::{self, Cursor, Pos, Tail};
use crate::sync::{AtomicU64, Ordering};
use crate::Error;

/// An edge without a peer: ring, cursor, the sender's tail.
pub struct Edge {
    pub ring: Heap,
    pub cursor: AtomicU64,
    pub tail: Tail,
    sent: u8,
}

impl Edge {
    pub fn new(count: u64, at: Pos) -> Edge {
        let cursor = AtomicU64::new(at_line(at).pack());
        Edge { ring: Heap::new(count), cursor, tail: Tail { pos: at, seen: at }, sent: 0 }
    }
    /// `n` bytes, each another than the one before it.
    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n)
            .map(|_| {
                self.sent = self.sent.wrapping_mul(5).wrapping_add(131);
                self.sent
            })
            .collect()
    }
    pub fn count(&self) -> u64 {
        ring::Lines::count(&self.ring)
    }
    /// Lines between the receiver's cursor and the tail.
    pub fn used(&self) -> u64 {
        self.tail.pos.since(Cursor::unpack(self.cursor.load(Ordering::Relaxed)).pos)
    }
    pub fn check(&self) {
        assert!(self.used() < self.count());
        assert_eq!(ring::look(&self.ring, self.tail.pos), Err(Error::Empty));
    }
}
