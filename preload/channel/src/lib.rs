//! What channels under the shim stand on, without a hook: programs that share a table of connections, the rules that choose
//! them, settings, and what a wait may say without the kernel.
//!
//! | module | holds |
//! |---|---|
//! | [`family`] | the connections that a process shares with those it forks |
//! | [`config`], [`rules`] | which connections, and where that is said |
//! | [`watch`] | what epoll, poll and select say of connections: a state machine without a system call |
//! | [`uring`] | which descriptors a ring of io_uring will touch |
//! | [`sandbox`] | whether a call installs a filter of system calls |
//! | [`leaving`] | what a sender that leaves takes back, and puts on TCP |
//! | [`limbo`] | memory that nobody new will look at, until nobody does |
//! | [`share`], [`allowance`] | what one user's clients may make a server hold |
#![deny(unsafe_code)]

#[cfg(not(loom))]
pub mod allowance;
#[cfg(not(loom))]
pub mod config;
#[cfg(not(loom))]
#[allow(unsafe_code, clippy::allow_attributes)]
pub mod family;
#[cfg(not(loom))]
pub mod leaving;
pub mod limbo;
#[cfg(not(loom))]
pub mod rules;
#[cfg(not(loom))]
pub mod sandbox;
#[cfg(not(loom))]
pub mod share;
#[cfg(not(loom))]
pub mod uring;
#[cfg(not(loom))]
pub mod watch;
