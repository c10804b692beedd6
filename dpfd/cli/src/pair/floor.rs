//! The floor: one aligned word each way, a line of its own for each direction, loads and stores only.
//!
//! Whatever is sent between two cores, a line has to travel from the one to the other, and the answer's
//! line back. Half of that round trip is what this machine charges anybody; the rest is ours.

use std::io;
use std::os::fd::OwnedFd;

use dp_edge::ring::{Lines, Pos};
use dp_edge::segment::Mapped;
use dp_edge::sync::{AtomicU64, Ordering};
use dpfd::edge::segment::Segment;

use super::helper::alive;

/// Tells the echo to end; the words before it count from 1.
const STOP: u64 = u64::MAX;
const LOOKS: u32 = 1 << 24;

/// A word each way in shared memory.
pub struct Words {
    words: Mapped,
    _memory: Segment,
    first: bool,
}

impl Words {
    pub fn new([memory]: [OwnedFd; 1], first: bool) -> io::Result<Words> {
        let memory = Segment::open(memory)?;
        Ok(Words { words: memory.lines(), _memory: memory, first })
    }

    /// The word this side writes, and the one it reads.
    #[inline(always)]
    pub fn both(&self) -> [&AtomicU64; 2] {
        // Four lines apart, or a prefetcher takes one for the other's neighbour.
        let (a, b) = (self.words.header(Pos::new(0)), self.words.header(Pos::new(4)));
        if self.first {
            [a, b]
        } else {
            [b, a]
        }
    }
}

/// One end.
pub struct Floor {
    words: Words,
    last: u64,
}

impl Floor {
    pub fn new(memory: [OwnedFd; 1], first: bool) -> io::Result<Floor> {
        Ok(Floor { words: Words::new(memory, first)?, last: 0 })
    }

    /// There and back.
    #[inline(always)]
    pub fn round_trip(&mut self) -> io::Result<()> {
        let last = self.last;
        self.last = last + 1;
        let [mine, theirs] = self.words.both();
        mine.store(last + 1, Ordering::Release);
        other_than(theirs, last)?;
        Ok(())
    }

    pub fn stop(&mut self) {
        self.words.both()[0].store(STOP, Ordering::Release);
    }

    /// The other end: sends back what comes, until told to stop.
    pub fn echo(&mut self) -> io::Result<()> {
        let [mine, theirs] = self.words.both();
        let mut last = self.last;
        loop {
            let word = other_than(theirs, last)?;
            if word == STOP {
                break;
            }
            mine.store(word, Ordering::Release);
            last = word;
        }
        // The next turn goes on from here.
        theirs.store(last, Ordering::Release);
        self.last = last;
        Ok(())
    }
}

/// Looks until the word is another than `old`.
#[inline(always)]
fn other_than(word: &AtomicU64, old: u64) -> io::Result<u64> {
    loop {
        for _ in 0..LOOKS {
            let now = word.load(Ordering::Acquire);
            if now != old {
                return Ok(now);
            }
        }
        alive()?;
    }
}
