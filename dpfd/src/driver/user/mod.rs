//! The user-space driver (PROTOCOLS U): endpoints that are AF_UNIX pairs, edges in shared memory, one service
//! thread in each process that has endpoints.
//!
//! ```text
//!   program A                                          program B
//!   fd --pair-- back                                   back --pair-- fd
//!          (service of A) -- plain: sendmsg ----------> back of B        B in plain mode
//!   dp_write ------------- edge, bell on back of B ---> dp_read          B in pool mode
//! ```
//!
//! Whatever a program writes plainly waits in its own pair until the service has taken it to its target; a
//! sender whose direct way is full goes the same way, so blocking, EAGAIN and POLLOUT are always the kernel's
//! own truth. Nothing is dropped: a message is in a pair, in an edge, or with the service.
//!
//! | file | holds |
//! |---|---|
//! | [`registry`] | where endpoints of a node find each other |
//! | [`note`] | what two services say to each other |
//! | [`endpoint`] | one endpoint |
//! | [`link`] | its way to one destination |
//! | [`tx`] | its links, and what waits on them |
//! | [`send`], [`recv`] | the calls |
//! | `load` | a message on its way, and how patient its sender is |
//! | `drain` | what comes by the descriptor in pool mode |
//! | [`doze`] | sleeping for a moment, without bells |
//! | [`copied`] | receiving a copy, also as read(2) does |
//! | [`sending`] | sending without a thread that waits |
//! | [`process`] | what the endpoints of a process share |
//! | [`gateway`] | a process that is the proxy of other nodes' endpoints |
//! | [`service`] | the thread |
//! | [`list`], [`account`] | what `dp ls` is told, and how that is written down |
//! | `stat` | counters and limits |

pub mod account;
pub mod copied;
pub mod doze;
mod drain;
pub mod endpoint;
pub mod gateway;
pub mod link;
pub mod list;
mod load;
pub mod note;
pub mod process;
pub mod recv;
pub mod registry;
pub mod send;
pub mod sending;
pub mod service;
mod stat;
#[cfg(test)]
mod testing;
pub mod tx;
