//! The floor: one aligned word each way, a line of its own for each direction, loads and stores only.
//!
//! Whatever is sent between two cores, a line has to travel from the one to the other, and the answer's
//! line back. Half of that round trip is what this machine charges anybody; the rest is ours.

use std::io;
use std::os::fd::OwnedFd;

use dpfd::edge::ring::{Lines, Pos};
use dpfd::edge::segment::{Mapped, Segment};
use dpfd::sync::{AtomicU64, Ordering};

use super::peer;

/// Tells the echo to end; the words before it count from 1.
const STOP: u64 = u64::MAX;
const LOOKS: u32 = 1 << 24;

/// One end: the word it writes and the word it reads.
pub struct Floor {
    words: Mapped,
    _memory: Segment,
    first: bool,
    last: u64,
}

impl Floor {
    pub fn new([memory]: [OwnedFd; 1], first: bool) -> io::Result<Floor> {
        let memory = Segment::open(memory)?;
        Ok(Floor { words: memory.lines(), _memory: memory, first, last: 0 })
    }

    #[inline(always)]
    fn word(&self, first: bool) -> &AtomicU64 {
        // Four lines apart, or a prefetcher takes one for the other's neighbour.
        self.words.header(Pos::new(if first { 0 } else { 4 }))
    }

    #[inline(always)]
    fn wait(&self, until: impl Fn(u64) -> bool) -> io::Result<u64> {
        let theirs = self.word(!self.first);
        let mut looks = 0;
        loop {
            let word = theirs.load(Ordering::Acquire);
            if until(word) {
                return Ok(word);
            }
            looks += 1;
            if looks == LOOKS {
                looks = 0;
                peer::alive()?;
            }
        }
    }

    /// There and back.
    #[inline(always)]
    pub fn round_trip(&mut self) -> io::Result<()> {
        self.last += 1;
        self.word(self.first).store(self.last, Ordering::Release);
        let last = self.last;
        self.wait(|word| word == last)?;
        Ok(())
    }

    pub fn stop(&mut self) {
        self.word(self.first).store(STOP, Ordering::Release);
    }

    /// The other end: sends back what comes, until told to stop.
    pub fn echo(&mut self) -> io::Result<u64> {
        let mut trips = 0;
        loop {
            let last = self.last;
            let word = self.wait(|word| word != last)?;
            if word == STOP {
                self.word(!self.first).store(self.last, Ordering::Release);
                return Ok(trips);
            }
            self.word(self.first).store(word, Ordering::Release);
            self.last = word;
            trips += 1;
        }
    }
}
