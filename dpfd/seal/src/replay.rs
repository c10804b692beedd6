//! Which counters of a session have come: a window behind the greatest, after RFC 6479.
//!
//! The bits lie in a ring of words. When the greatest counter moves on, the words that it passes are emptied, whole ones:
//! so nothing is ever shifted, and the window is a word shorter than the ring.

use crate::Refused;

const BITS: u64 = u64::BITS as u64;
const WORDS: u64 = 64;

/// A packet may come so many later than it was sent: 4032.
pub const WINDOW: u64 = (WORDS - 1) * BITS;

#[derive(Clone, Debug)]
pub(crate) struct Replay {
    /// The greatest counter that came; 0 also before any came.
    greatest: u64,
    came: [u64; WORDS as usize],
}

impl Replay {
    pub fn new() -> Replay {
        Replay { greatest: 0, came: [0; WORDS as usize] }
    }

    /// Whether a packet with this counter may be taken.
    pub fn check(&self, counter: u64) -> Result<(), Refused> {
        if counter > self.greatest {
            return Ok(());
        }
        if self.greatest - counter >= WINDOW {
            return Err(Refused::Late);
        }
        let (word, bit) = place(counter);
        if self.came[word] & bit == 0 {
            Ok(())
        } else {
            Err(Refused::Again)
        }
    }

    /// It was taken. Only of a packet that is authentic, or anybody could push the window on.
    pub fn mark(&mut self, counter: u64) {
        if counter > self.greatest {
            let (from, to) = (self.greatest / BITS, counter / BITS);
            for passed in 1..=(to - from).min(WORDS) {
                self.came[((from + passed) % WORDS) as usize] = 0;
            }
            self.greatest = counter;
        }
        let (word, bit) = place(counter);
        self.came[word] |= bit;
    }
}

fn place(counter: u64) -> (usize, u64) {
    ((counter / BITS % WORDS) as usize, 1 << (counter % BITS))
}

#[cfg(test)]
mod tests;
