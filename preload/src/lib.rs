//! The preload shim: moves selected TCP connections of unmodified programs onto DP channels.
//!
//! Read `hooks` first: the table of what is replaced. A call goes from there to `ops`, which finds the
//! descriptor in `fdtable`; sending is `tx`, receiving `rx`, waiting `wait` and `epoll`; how a
//! connection becomes a channel is `candidate`, with `client` and `door` for its two sides; how it ends
//! is `life`.

mod candidate;
mod channel;
mod client;
mod diag;
mod door;
mod ends;
mod epoll;
mod errno;
mod exec;
mod fdtable;
mod give;
mod guests;
mod hooks;
mod inside;
mod intro;
mod kept;
mod leave;
mod life;
mod link;
mod loopback;
mod lost;
mod note;
mod ops;
mod own;
mod proof;
mod real;
mod relay;
mod retire;
mod retired;
mod rx;
mod signals;
mod socket;
mod spin;
mod start;
mod state;
mod table;
mod tx;
mod wait;
mod walk;
