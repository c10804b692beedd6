//! The ends of a copy: where a write takes its bytes, and where a receive puts them.

use crate::stream::{Sink, Source};

/// What a write sends: slices in a row.
pub struct Feed<'a> {
    parts: Vec<&'a [u8]>,
}

impl<'a> Feed<'a> {
    pub fn one(bytes: &'a [u8]) -> Feed<'a> {
        Feed { parts: vec![bytes] }
    }
    /// The same bytes in pieces of `n`.
    #[cfg(not(loom))]
    pub fn cut(bytes: &'a [u8], n: usize) -> Feed<'a> {
        Feed { parts: bytes.chunks(n.max(1)).collect() }
    }
}

impl Source for Feed<'_> {
    fn left(&self) -> usize {
        self.parts.iter().map(|p| p.len()).sum()
    }
    fn take(&mut self, mut n: usize, mut f: impl FnMut(*const u8, usize)) {
        while n > 0 {
            let part = self.parts[0];
            let k = n.min(part.len());
            f(part.as_ptr(), k);
            n -= k;
            self.parts[0] = &part[k..];
            if self.parts[0].is_empty() {
                self.parts.remove(0);
            }
        }
    }
}

/// Where a receive puts bytes: buffers in a row.
pub struct Room {
    bytes: Vec<u8>,
    piece: usize,
    full: usize,
}

impl Room {
    /// Room for `len` bytes, filled in pieces of at most `piece`.
    #[expect(clippy::self_named_constructors, reason = "reads as the English word where it is used")]
    pub fn room(len: usize, piece: usize) -> Room {
        Room { bytes: vec![0; len], piece: piece.max(1), full: 0 }
    }
    /// What was filled.
    pub fn got(&self) -> &[u8] {
        &self.bytes[..self.full]
    }
}

impl Sink for Room {
    fn left(&self) -> usize {
        self.bytes.len() - self.full
    }
    fn fill(&mut self, mut n: usize, mut f: impl FnMut(*mut u8, usize)) {
        assert!(n <= self.left(), "asked to fill more than there is room for");
        while n > 0 {
            let k = n.min(self.piece);
            f(self.bytes[self.full..].as_mut_ptr(), k);
            self.full += k;
            n -= k;
        }
    }
    fn rewind(&mut self) {
        self.full = 0;
    }
}
