//! A sender that goes over from one edge to another, longer one, in the middle of everything.
//!
//! ```text
//!   sender                            receiver
//!   publishes its last message here   looks at the longer one: something is there
//!   publishes its next one there,     looks here: nothing is
//!   and here never again              goes over: what is there comes next
//! ```
//!
//! Nothing says which message is the last one here. It need not be said: who sees a message there sees every message that
//! was published before it, so if nothing is left here then, nothing ever comes here again. Only the order of the two looks
//! matters: the other way round, a message could come here between them, and be overtaken.

use super::ring::{self, Lines, Pos};
use super::Error;

/// Whether the sender went over from `here` to `there`, of which nothing was read yet, and everything up to `at` was all it
/// sent here.
#[inline]
pub fn went_over<L: Lines + ?Sized>(here: &L, at: Pos, there: &L) -> bool {
    waits(there) && ring::look(here, at) == Err(Error::Empty)
}

/// Whether something is at the beginning of `there`, be it nonsense.
#[inline]
pub fn waits<L: Lines + ?Sized>(there: &L) -> bool {
    ring::look(there, Pos::default()) != Err(Error::Empty)
}
