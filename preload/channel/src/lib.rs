//! What channels under the shim stand on, without a hook: the memory of a channel, programs that share a table of
//! connections, and what a wait may say without the kernel.
//!
//! | module | holds | rules |
//! |---|---|---|
//! | [`stream`] | bytes over tokens; several receivers without a lock | L1, R6 |
//! | [`bell`] | the wake word, arming, groups of channels behind one sleeper | W1-W5 |
//! | [`switch`] | where a direction leaves TCP for the ring, and where it comes back | E5-E7 |
//! | [`tcp`] | what the kernel knows of a TCP socket | E5, E9 |
//! | [`slot`] | the offer and its states | E4, E11 |
//! | [`arena`] | the slots of all channels between a client and a server | E9, E11 |
//! | `places`, [`spare`] | which parts of an arena are mapped here; longer rings, for the directions that need one | E5 |
//! | [`unmapped`], [`possession`] | an arena of somebody who has proven nothing yet, and the proof | I2, I3 |
//! | [`mode`] | whether a descriptor blocks, remembered | |
//! | [`family`] | the connections that a process shares with those it forks | |
//! | [`watch`] | what an epoll set says of connections: a state machine without a system call | W3-W7, W18 |
//! | [`poll`] | what poll and select say of them | W2-W4, W11 |
//! | [`uring`] | which descriptors a ring of io_uring will touch | |
//! | [`sandbox`] | whether a call installs a filter of system calls | |
//! | [`leaving`] | what a sender that leaves takes back, and puts on TCP | |
//! | [`handlers`] | whether a lock's owner was interrupted by a signal handler, or was left | |
//! | [`layouts`] | versions of what two programs share | |
//! | [`limbo`] | memory that nobody new will look at, until nobody does | |
//! | [`observed`], [`follow`] | a channel as somebody sees it who is neither side | E5, R1 |
//! | [`share`], [`allowance`] | what one user's clients may make a server hold | |
//!
//! Everything read from a ring or a control line may have been written by a hostile peer: it is read once, checked against
//! the mapping, then used. A bad value is a [`dp_edge::Error::Corrupt`], never a panic.
#![deny(unsafe_code)]

#[cfg(not(loom))]
pub mod allowance;
#[cfg(not(loom))]
#[allow(unsafe_code, clippy::allow_attributes)]
pub mod arena;
pub mod bell;
#[cfg(not(loom))]
#[allow(unsafe_code, clippy::allow_attributes)]
pub mod family;
#[cfg(not(loom))]
pub mod follow;
#[cfg(not(loom))]
#[allow(unsafe_code, clippy::allow_attributes)]
mod geometry;
#[cfg(not(loom))]
pub mod handlers;
pub mod layouts;
#[cfg(not(loom))]
pub mod leaving;
pub mod limbo;
pub mod mode;
#[cfg(not(loom))]
#[allow(unsafe_code, clippy::allow_attributes)]
pub mod observed;
#[cfg(not(loom))]
#[allow(unsafe_code, clippy::allow_attributes)]
mod places;
#[cfg(not(loom))]
pub mod poll;
#[cfg(not(loom))]
pub mod possession;
#[cfg(not(loom))]
pub mod sandbox;
#[cfg(not(loom))]
pub mod share;
pub mod slot;
#[cfg(not(loom))]
#[allow(unsafe_code, clippy::allow_attributes)]
pub mod spare;
#[allow(unsafe_code, clippy::allow_attributes)]
pub mod stream;
pub mod switch;
#[cfg(not(loom))]
#[allow(unsafe_code, clippy::allow_attributes)]
pub mod tcp;
#[cfg(not(loom))]
#[allow(unsafe_code, clippy::allow_attributes)]
pub mod unmapped;
#[cfg(not(loom))]
pub mod uring;
#[cfg(not(loom))]
pub mod watch;

#[cfg(test)]
#[allow(unsafe_code, clippy::allow_attributes)]
mod tests;
