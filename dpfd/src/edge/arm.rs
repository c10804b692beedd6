//! The word that says whether a receiver of many edges sleeps; nobody but the receiver can write it (PROTOCOLS U3).
//!
//! ```text
//!   receiver                               sender, to whichever edge
//!   takes the bells that are there         publishes
//!   word = armed, a new number             fence
//!   fence                                  loads the word: armed, and not the number
//!   looks at every edge; sleeps            it rang for last? Remembers it, rings
//! ```
//!
//! One of the two sees the other, so no wake-up is lost; and a sender rings once for each time the receiver goes
//! to sleep, however much it sends meanwhile. Bells are taken *before* the word is armed: one that is taken behind
//! it may be the only one its sender will ring for this number.
//!
//! Senders only load, so the page is theirs to read and not to write: a hostile one cannot make the receiver
//! deaf to others by clearing what it never sees again. That is why a sender's own memory of having rung replaces
//! a flag that the first one clears; several senders ring several bells at most where one would have done.

use super::bell;
use crate::sync::{AtomicU64, Ordering};

/// Even: the receiver looks by itself. Odd: it sleeps, or is about to, for the n-th time.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Arm(AtomicU64);

/// What a sender remembers of a receiver: the number it rang for last.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rung(u64);

impl Arm {
    /// The receiver wants a bell for what comes from now on. [`bell::settle`] and a look at every edge must follow.
    ///
    /// Only the receiver calls this, one thread at a time: no read-modify-write is needed.
    #[inline]
    pub fn arm(&self) {
        let n = self.0.load(Ordering::Relaxed);
        self.0.store((n | 1).wrapping_add(2), Ordering::Relaxed);
    }

    /// The receiver looks by itself.
    #[inline]
    pub fn disarm(&self) {
        let n = self.0.load(Ordering::Relaxed);
        // Stored only if need be: every sender reads that line after every message.
        if n & 1 != 0 {
            self.0.store(n & !1, Ordering::Relaxed);
        }
    }

    /// Whether a sender would ring.
    #[inline]
    pub fn is_armed(&self) -> bool {
        self.0.load(Ordering::Relaxed) & 1 != 0
    }

    /// The sender's side, after it published and fenced: whether it owes a bell. Remembered as rung.
    #[inline(always)]
    pub fn owes(&self, rung: &mut Rung) -> bool {
        let n = self.0.load(Ordering::Relaxed);
        if n & 1 == 0 || n == rung.0 {
            return false;
        }
        rung.0 = n;
        true
    }

    /// The receiver's way to sleep: takes what the descriptor holds, arms, looks at everything once more. Whether
    /// something is there, so that it must not sleep.
    ///
    /// # Errors
    ///
    /// Those of `drain`; the word is as it was then.
    #[inline]
    pub fn settle<C, E>(
        &self,
        receiver: &mut C,
        drain: impl FnOnce(&mut C) -> Result<(), E>,
        waiting: impl FnOnce(&C) -> bool,
    ) -> Result<bool, E> {
        drain(receiver)?;
        self.arm();
        bell::settle();
        Ok(waiting(receiver))
    }
}
