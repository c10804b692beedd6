//! One directed edge in shared memory: the ring, its two framings, the wake word, the switch record.
//!
//! Directed Point (Wang et al.), section 2, calls a unidirectional channel between two endpoints an
//! *edge*. Here an edge is a single-producer ring whose receiver polls the token itself, so a small
//! message costs one cache-line transfer. All cross-process atomics of the project live in this room.
//!
//! | file | holds | rules |
//! |---|---|---|
//! | [`sync`], [`sys`] | atomics as loom sees them; system calls, mappings, sockets: the project's room for `unsafe` | |
//! | [`spin`] | how long a receiver spins before it sleeps | |
//! | [`setting`] | numbers in the environment | |
//! | [`ring`] | lines, token headers, reserve and commit, the consumer's look | R1-R4, R6 |
//! | [`stream`] | bytes over tokens; several receivers without a lock | L1, R6 |
//! | [`message`] | whole messages over tokens, the sender's side | R5, R7 |
//! | [`bell`] | the wake word, arming, groups of channels behind one sleeper | W1-W5 |
//! | [`arm`] | a receiver of many edges: does it sleep? | U3 |
//! | [`event_count`] | a receiver of one edge that sleeps for a moment | U3 |
//! | [`space`] | a sender that waits for room, and who tells it | W8 |
//! | [`longer`] | a sender that goes over to a longer edge | U4, U5 |
//! | [`switch`] | where a direction leaves TCP for the ring, and where it comes back | E5-E7 |
//! | [`slot`] | the offer and its states | E4, E11 |
//! | [`out_of_line`] | a message no edge can hold | R5 |
//! | [`inbox`] | the page with that word, which senders can only read | U3 |
//! | [`segment`] | sealed memory, mapped; rings twice in a row | E12 |
//! | [`spare`] | longer rings, for the directions that need one | E5 |
//! | `places` | which parts of an arena are mapped here | |
//! | [`arena`] | the slots of all channels between a client and a server | E9, E11 |
//!
//! Everything read from a ring or a control line may have been written by a hostile peer: it is read
//! once, checked against the mapping, then used. A bad value is an [`Error::Corrupt`], never a panic.

#[cfg(not(loom))]
pub mod arena;
pub mod arm;
pub mod bell;
pub mod event_count;
#[cfg(not(loom))]
pub mod inbox;
pub mod longer;
pub mod message;
pub mod mode;
#[cfg(not(loom))]
pub mod out_of_line;
#[cfg(not(loom))]
mod places;
#[cfg(not(loom))]
pub mod possession;
pub mod ring;
#[cfg(not(loom))]
pub mod segment;
#[cfg(not(loom))]
pub mod setting;
pub mod slot;
pub mod space;
#[cfg(not(loom))]
pub mod spare;
pub mod spin;
pub mod stream;
pub mod switch;
pub mod sync;
pub mod sys;
#[cfg(not(loom))]
pub mod unmapped;

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
