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
//!
//! A receiver of one edge that expects the next message soon *dozes*: it says so in the same word, and its sender does not
//! ring, but wakes the futex ([`super::event_count`]).

use dp_edge::sync::{AtomicU64, Ordering};

const ARMED: u64 = 1;
const DOZES: u64 = 2;
const ONCE: u64 = 4;

/// How often the receiver went to sleep, and how it is now.
///
/// ```text
///   63                          2     1       0
///  +-----------------------------+-------+-------+
///  | sleeps, or was about to     | dozes | armed |   not armed: it looks by itself
///  +-----------------------------+-------+-------+
/// ```
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Arm(AtomicU64);

/// What a sender owes a receiver that sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// It looks by itself, or was told.
    Nothing,
    /// A bell on its descriptor.
    Bell,
    /// A wake-up of the futex in the edge.
    Futex,
}

/// What a sender remembers of a receiver: the number it rang for last.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rung(u64);

impl Arm {
    /// The receiver wants a bell for what comes from now on. [`dp_edge::sync::settle`] and a look at every edge must follow.
    ///
    /// Only the receiver calls this, one thread at a time: no read-modify-write is needed.
    #[inline]
    pub fn arm(&self) {
        self.sleeps(ARMED);
    }

    /// The receiver wants its futex woken instead, that of its only edge. As for [`Arm::arm`].
    #[inline]
    pub fn doze(&self) {
        self.sleeps(ARMED | DOZES);
    }

    #[inline]
    fn sleeps(&self, how: u64) {
        let n = self.0.load(Ordering::Relaxed);
        self.0.store((n & !(ARMED | DOZES)).wrapping_add(ONCE) | how, Ordering::Relaxed);
    }

    /// The receiver looks by itself.
    #[inline]
    pub fn disarm(&self) {
        let n = self.0.load(Ordering::Relaxed);
        // Stored only if need be: every sender reads that line after every message.
        if n & ARMED != 0 {
            self.0.store(n & !(ARMED | DOZES), Ordering::Relaxed);
        }
    }

    /// Whether a sender would ring, or wake the futex.
    #[inline]
    pub fn is_armed(&self) -> bool {
        self.0.load(Ordering::Relaxed) & ARMED != 0
    }

    /// Whether a sender would ring.
    #[inline]
    pub fn is_armed_for_bells(&self) -> bool {
        self.0.load(Ordering::Relaxed) & (ARMED | DOZES) == ARMED
    }

    /// The sender's side, after it published and fenced. Remembered as rung.
    #[inline(always)]
    pub fn owes(&self, rung: &mut Rung) -> Due {
        let n = self.0.load(Ordering::Relaxed);
        if n & ARMED == 0 || n == rung.0 {
            return Due::Nothing;
        }
        rung.0 = n;
        if n & DOZES == 0 {
            Due::Bell
        } else {
            Due::Futex
        }
    }
}
