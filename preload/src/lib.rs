//! The preload shim: moves selected TCP connections of unmodified programs onto DP channels.
//!
//! Read `table` first: what is replaced. A call goes from there by `hooks` to `ops`, which finds the descriptor in
//! `fdtable`. From there on it has a `channel`: sending is `tx`, receiving `rx`, waiting `wait` and `epoll`; how a
//! connection becomes a channel is `candidate`, with `client` and `door` for its two sides; how it goes back to TCP is
//! `leave`, and how it ends `life`.
//!
//! Modules form no circle (`.ci/imports`): who is needed from below has its call made known when the library is loaded.
// In tests nobody calls what the hooks would.
#![cfg_attr(test, allow(dead_code, unused_imports, clippy::allow_attributes))]

mod cancel;
mod candidate;
mod channel;
mod client;
mod diag;
mod door;
mod ends;
mod enforce;
mod epoll;
mod errno;
mod events;
mod exec;
mod fdtable;
mod give;
mod groups;
mod guests;
#[cfg(not(test))]
mod hooks;
mod inside;
mod intro;
mod kept;
mod leave;
mod life;
mod link;
mod log;
mod loopback;
mod lost;
mod meant;
mod note;
mod ops;
mod own;
mod plugin;
mod poke;
mod proof;
mod real;
mod relay;
mod retire;
mod retired;
mod rights;
mod rules;
mod rx;
mod signals;
mod socket;
mod spin;
#[cfg(not(test))]
mod start;
mod state;
mod table;
#[cfg(test)]
mod testing;
mod tx;
mod wait;
mod walk;
