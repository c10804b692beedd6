//! An endpoint's edge: whole messages from one sender over a ring in sealed memory, and who wakes whom. What it has in common
//! with a channel is dp-edge's.
//!
//! | module | holds | rules |
//! |---|---|---|
//! | [`message`], [`parts`] | whole messages over tokens, the sender's side; a message in pieces, with an immediate | R5, R7 |
//! | [`beside`] | what goes beside a message: an immediate, a route | U8 |
//! | [`segment`], [`lines`] | an edge's memory, its ring twice in a row; its control lines | E12 |
//! | [`out_of_line`] | a message no edge can hold | R5 |
//! | [`arm`] | a receiver of many edges: does it sleep? | U3 |
//! | [`wake`] | what a receiver has asked its senders for, one state and its steps; its two ways to sleep | U3 |
//! | [`inbox`] | the page with that word, which senders can only read | U3 |
//! | [`event_count`] | a receiver of one edge that sleeps for a moment | U3 |
//! | [`space`] | a sender that waits for room, and who tells it | W8 |
//! | [`longer`] | a sender that goes over to a longer edge | U4, U5 |
//!
//! A hostile peer may have written anything that an edge holds: it is read once, checked against the mapping, then used. A bad value is a [`dp_edge::Error::Corrupt`], never a panic.

pub mod arm;
pub mod beside;
pub mod event_count;
#[cfg(not(loom))]
#[allow(unsafe_code, clippy::allow_attributes)]
pub mod inbox;
#[cfg(not(loom))]
pub mod lines;
pub mod longer;
#[allow(unsafe_code, clippy::allow_attributes)]
pub mod message;
#[cfg(not(loom))]
#[allow(unsafe_code, clippy::allow_attributes)]
pub mod out_of_line;
pub mod parts;
#[cfg(not(loom))]
#[allow(unsafe_code, clippy::allow_attributes)]
pub mod segment;
pub mod space;
pub mod wake;

#[cfg(test)]
#[allow(unsafe_code, clippy::allow_attributes)]
mod tests;
