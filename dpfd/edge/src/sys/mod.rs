//! Raw system calls, sockets, mappings, the process, the lock of one thread: with the rest of this crate, the only room for
//! `unsafe`.

pub mod barrier;
pub mod biased;
#[cfg(not(loom))]
pub mod epoll;
#[cfg(not(loom))]
pub mod files;
#[cfg(not(loom))]
pub mod futex;
#[cfg(not(loom))]
pub mod line;
#[cfg(not(loom))]
pub mod pages;
#[cfg(not(loom))]
pub mod process;
#[cfg(not(loom))]
pub mod raw;
#[cfg(not(loom))]
pub mod sparse;
#[cfg(not(loom))]
pub mod together;
#[cfg(not(loom))]
pub mod unix;
#[cfg(not(loom))]
pub mod xattr;
