//! A word each way in shared memory, and futex(2) for who waits: the least a wake-up of another process can cost here.

use std::io;
use std::os::fd::OwnedFd;
use std::ptr;

use dp_edge::sync::{AtomicU64, Ordering};
use dp_edge::sys::futex;

use super::floor::Words;
use super::link::Link;

/// One end: the word it writes and the word it reads. What is sent are the lower 32 bits of a count.
pub struct Futex {
    words: Words,
    sent: u64,
    seen: u64,
}

/// In a message's last byte, and in its word's upper half: a turn ends here.
const STOP: u64 = 1 << 63;

impl Futex {
    pub fn new(memory: [OwnedFd; 1], first: bool) -> io::Result<Futex> {
        Ok(Futex { words: Words::new(memory, first)?, sent: 0, seen: 0 })
    }
}

impl Link for Futex {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.sent += 1;
        let stop = if message.last() == Some(&super::STOP) { STOP } else { 0 };
        let [mine, _] = self.words.both();
        mine.store(self.sent | stop, Ordering::Release);
        futex::wake(low_half(mine));
        Ok(())
    }

    fn recv(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let [_, theirs] = self.words.both();
        let word = loop {
            let word = theirs.load(Ordering::Acquire);
            if word & !STOP != self.seen {
                break word;
            }
            let _ = futex::wait(low_half(theirs), word as u32); // a signal: looks again
        };
        self.seen = word & !STOP;
        into.fill(0);
        if let Some(last) = into.last_mut().filter(|_| word & STOP != 0) {
            *last = super::STOP;
        }
        Ok(into.len())
    }
}

/// A futex has 32 bits.
fn low_half(word: &AtomicU64) -> usize {
    let word = ptr::from_ref(word).cast::<u32>();
    word.wrapping_add(usize::from(cfg!(target_endian = "big"))) as usize
}
