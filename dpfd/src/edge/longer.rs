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
//!
//! # Why channels grow by another mechanism
//!
//! The rings of channels grow as `spare.rs` of dp-channel says. Neither mechanism can take the other's place:
//!
//! - *Receivers.* An edge has one at a time, under the pool's lock, so two looks can decide. A channel has any number, in
//!   several processes and without a lock (L1), and each may be between its look and its commit.
//! - *Positions.* So a channel's go on in its one cursor, where a stale commit fails, and the ring must be empty at the
//!   change. An edge's ring may never be: loaned messages stay in it for as long as the program likes. Those of the longer
//!   one begin at 0, with a cursor of its own, and the former one is kept until they are released.
//! - *Memory.* A longer edge is a new memfd, charged to the receiver's pool (`pool/budget.rs`) and sent over the
//!   driver's own socket. A channel has the program's socket only, which carries no descriptors: its longer rings are parts
//!   of an arena that both sides have, shared by all their connections, and the next one's afterwards.
//! - *Decision.* An edge's receiver grants what its pool has left; a channel's sender takes what is free.

use dp_edge::ring::{self, Lines, Pos};
use dp_edge::Error;

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
