//! Rings without a mapping.

use crate::ring::{Cursor, Lines, Pos, LINE};
use crate::sync::{AtomicU64, Ordering};

/// A cursor at the beginning of a line.
pub fn at_line(pos: Pos) -> Cursor {
    Cursor { pos, ..Cursor::default() }
}

/// A ring on the heap. Every word is an atomic, so that Miri and loom see no data race where the real
/// ring has copies that only the protocol keeps apart.
///
/// Under loom a line has only its first two words: the one where a header stands (or payload that could
/// be taken for one) and the one where a token's payload begins. The rest would multiply the states and
/// show nothing new. A strict ring also lets loom check that no copy in races with a copy out.
pub struct Heap {
    words: Vec<AtomicU64>,
    count: u64,
    #[cfg(loom)]
    guards: Vec<loom::cell::UnsafeCell<()>>,
}

const WORDS: usize = if cfg!(loom) { 2 } else { LINE / 8 };

impl Heap {
    /// `count` lines, all zero.
    pub fn new(count: u64) -> Heap {
        assert!(count.is_power_of_two() && count >= 4);
        Heap {
            words: (0..count as usize * WORDS).map(|_| AtomicU64::new(0)).collect(),
            count,
            #[cfg(loom)]
            guards: Vec::new(),
        }
    }

    /// The same, for framings where one copy at a time touches a line.
    #[cfg(loom)]
    pub fn strict(count: u64) -> Heap {
        Heap { guards: (0..count).map(|_| loom::cell::UnsafeCell::new(())).collect(), ..Heap::new(count) }
    }

    /// Tells loom that a copy in (or out) touches the lines from byte `at` of line `pos` on.
    #[cfg(loom)]
    fn touch(&self, pos: Pos, at: usize, len: usize, write: bool) {
        for line in at / LINE..(at + len).div_ceil(LINE) {
            let i = (pos.raw() + line as u64) & (self.count - 1);
            if let Some(guard) = self.guards.get(i as usize) {
                if write {
                    guard.with_mut(|_| ());
                } else {
                    guard.with(|_| ());
                }
            }
        }
    }

    #[cfg(not(loom))]
    fn touch(&self, _pos: Pos, _at: usize, _len: usize, _write: bool) {}

    /// The word at byte `at` (a multiple of 8) after the start of line `pos`, if it is modelled.
    fn word(&self, pos: Pos, at: usize) -> Option<&AtomicU64> {
        let line = (pos.raw() + (at / LINE) as u64) & (self.count - 1);
        let word = at % LINE / 8;
        (word < WORDS).then(|| &self.words[line as usize * WORDS + word])
    }
}

// SAFETY: word() masks positions into the ring; everything else is checked indexing.
unsafe impl Lines for Heap {
    fn count(&self) -> u64 {
        self.count
    }

    fn header(&self, pos: Pos) -> &AtomicU64 {
        self.word(pos, 0).unwrap()
    }

    unsafe fn put(&self, pos: Pos, at: usize, src: *const u8, len: usize) {
        assert!(at + len <= self.count as usize * LINE);
        self.touch(pos, at, len, true);
        // SAFETY: readable for `len` bytes by the caller's contract.
        let src = unsafe { core::slice::from_raw_parts(src, len) };
        each_word(at, len, |base, lanes, from| {
            let Some(word) = self.word(pos, base) else { return };
            let mut bytes = word.load(Ordering::Relaxed).to_le_bytes();
            bytes[lanes.clone()].copy_from_slice(&src[from..from + lanes.len()]);
            word.store(u64::from_le_bytes(bytes), Ordering::Relaxed);
        });
    }

    unsafe fn get(&self, pos: Pos, at: usize, dst: *mut u8, len: usize) {
        assert!(at + len <= self.count as usize * LINE);
        self.touch(pos, at, len, false);
        each_word(at, len, |base, lanes, from| {
            let Some(word) = self.word(pos, base) else { return };
            let bytes = word.load(Ordering::Relaxed).to_le_bytes();
            // SAFETY: writable for `len` bytes by the caller's contract; from + lanes.len() <= len.
            unsafe {
                core::ptr::copy_nonoverlapping(bytes[lanes.clone()].as_ptr(), dst.add(from), lanes.len())
            };
        });
    }
}

/// Cuts `at..at + len` into words: offset of the word, bytes of it, where they stand in the copy.
fn each_word(at: usize, len: usize, mut f: impl FnMut(usize, core::ops::Range<usize>, usize)) {
    let mut done = 0;
    while done < len {
        let lane = (at + done) % 8;
        let n = (8 - lane).min(len - done);
        f(at + done - lane, lane..lane + n, done);
        done += n;
    }
}
