//! What a sender notes of itself, as somebody reads it who only looks (`follow.rs`).

use super::Conn;
use dp_edge::ring::Pos;
use dp_edge::sync::{fence, relax, Ordering};

/// Looks until nobody is seen to hold the lock; a stream's sender has it most of the time.
const LOOKS: u32 = 2000;

/// A connection's sender.
#[derive(Debug, Clone, Copy)]
pub struct Sender<'a> {
    c: &'a Conn,
}

/// Its counts at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Where the next token goes.
    pub tail: Pos,
    /// Bytes sent through rings.
    pub bytes: u64,
    /// Bytes on TCP, bells among them; right while the direction is in a ring.
    pub kernel: u64,
}

impl<'a> Sender<'a> {
    pub(super) fn of(c: &'a Conn) -> Sender<'a> {
        Sender { c }
    }

    fn now(&self) -> Mark {
        Mark {
            tail: self.c.tail().pos,
            bytes: self.c.tx_bytes.load(Ordering::Relaxed),
            kernel: self.c.tx_kernel.load(Ordering::Relaxed),
        }
    }

    /// Its counts, if nobody was sending. `None`: somebody was all the time.
    pub fn mark(&self) -> Option<Mark> {
        for _ in 0..LOOKS {
            if self.c.tx_lock.is_free() {
                let mark = self.now();
                // Both looks at the lock are around the first at the counts; a send in between changes one of them.
                fence(Ordering::Acquire);
                if self.c.tx_lock.is_free() && self.now() == mark {
                    return Some(mark);
                }
            }
            relax();
        }
        None
    }

    /// Its tail, seen after a moment at which nobody held the lock: all that had been begun before is complete, and lies
    /// before it. `None`: no such moment in `looks` looks.
    pub fn resting_tail(&self, looks: u32) -> Option<Pos> {
        for _ in 0..looks {
            if self.c.tx_lock.is_free() {
                return Some(self.c.tail().pos);
            }
            relax();
        }
        None
    }
}
