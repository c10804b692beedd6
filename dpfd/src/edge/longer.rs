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
//! The rings of channels grow as [`super::spare`] says. Neither mechanism can take the other's place:
//!
//! | | an endpoint's edge, here | a channel's direction, `spare` |
//! |---|---|---|
//! | receivers | one at a time, under the pool's lock: two looks can decide | any number, without a lock, in several processes (L1): each may be between its look and its commit |
//! | positions | begin at 0 in the longer edge, which has a cursor of its own | go on in the one cursor, so that a stale commit fails; therefore the ring is empty at the change |
//! | the former ring | stays while messages in it are loaned, for as long as the program likes: it may never be empty | holds nothing by then, and is used again |
//! | memory | a new memfd, charged to the receiver's pool ([`crate::pool::budget`]), sent over the driver's own socket | a part of the arena that both sides have mapped: the only socket is the program's, which carries no descriptors |
//! | the decision | the receiver's, whose memory it is; the sender asks | the sender's, out of what the two families share |

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
