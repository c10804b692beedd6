//! One directed edge in shared memory: what both products stand on, channels and endpoints.
//!
//! Directed Point (Wang et al.), section 2, calls a unidirectional channel between two endpoints an
//! *edge*. Here an edge is a single-producer ring whose receiver polls the token itself, so a small
//! message costs one cache-line transfer. What serves endpoints only is in dpfd's `edge`, what serves channels only in
//! dp-channel. All atomics that two programs share come through [`sync`].
//!
//! | file | holds | rules |
//! |---|---|---|
//! | [`sync`], [`sys`] | atomics as loom sees them; system calls, mappings, sockets: the project's room for `unsafe` | |
//! | [`spin`] | how long a receiver spins before it sleeps | |
//! | [`setting`] | numbers in the environment | |
//! | [`turns`] | work that whoever comes by does, and a helper where nobody does | N16, N17 |
//! | [`ring`] | lines, token headers, reserve and commit, the consumer's look | R1-R4, R6 |
//! | [`segment`] | sealed memory, mapped; rings in it | E12 |
//! | `words` | a file of words, mapped: what outlives a process | |
//!
//! Everything read from a ring or a control line may have been written by a hostile peer: it is read
//! once, checked against the mapping, then used. A bad value is an [`Error::Corrupt`], never a panic.

pub mod ring;
#[cfg(not(loom))]
pub mod segment;
#[cfg(not(loom))]
pub mod setting;
#[cfg(not(loom))]
pub mod spin;
pub mod sync;
pub mod sys;
pub mod turns;
#[cfg(not(loom))]
pub mod words;

#[doc(hidden)]
pub mod testing;

#[cfg(test)]
mod tests;

/// Why an operation on an edge did not happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The ring holds no token at the cursor.
    #[error("the edge is empty")]
    Empty,
    /// The ring has no room for the token now; it will once the receiver has taken some.
    #[error("the edge is full")]
    Full,
    /// The token is larger than this ring can ever hold (EMSGSIZE).
    #[error("the message does not fit the edge: {0} bytes is the limit")]
    TooLong(usize),
    /// A header, position or length that no honest peer writes (ECONNRESET).
    #[error("the peer wrote an impossible value into the edge")]
    Corrupt,
}
