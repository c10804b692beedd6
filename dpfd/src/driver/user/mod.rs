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
//! own truth. Nothing is dropped: a message is in a pair, in an edge, or with the service. No call of this driver sleeps:
//! it says where to ([`crate::driver::Step`]).
//!
//! The files form no circle: each uses those above it (`.ci/imports` sees to that, the methods of [`endpoint::UserEndpoint`]
//! included).
//!
//! | layer | file | holds |
//! |---|---|---|
//! | words | [`registry`] | where endpoints of a node find each other |
//! | | [`note`], [`door`] | what two services say to each other; putting it there, and asking from outside |
//! | | `tag`, `packet` | what is beside a packet; bells, and what became of a packet |
//! | | [`account`] | how what `dp ls` is told is written down |
//! | | [`shared`], `asked` | what an endpoint knows of its process; what a gateway is told |
//! | | [`inside`] | a gateway inside this process, which its calls step |
//! | a link | `out_edge`, [`link`] | an edge, its sender's side; the way to one destination |
//! | | [`wakers`], [`tx`], `load` | futures that wait on it; all links, and what waits on them; a message on its way, and how patient its sender is |
//! | an endpoint | `habit`, `sleeps` | what a receiver has learned of its waits; who sleeps |
//! | | [`endpoint`] | one endpoint |
//! | receiving | `drain` | what comes by the descriptor in pool mode |
//! | | [`doze`] | sleeping for a moment, without bells |
//! | | `readiness` | what poll sees |
//! | | `ended` | edges whose senders are gone |
//! | | `turn`, `stepping` | what a call did that found nothing; where it steps a gateway |
//! | | [`recv`], [`copied`] | a message in place; a copy, also as read(2) does |
//! | sending | `attempt` | where a message can go, once the light-weight call did not do |
//! | | [`send`], [`sending`] | the light-weight call; a message step by step, for threads and futures |
//! | | [`deposit`] | for a gateway, which has to know where a message is |
//! | a process | `stat`, [`process`] | counters and limits; what the endpoints of a process share |
//! | | [`list`] | what `dp ls` is told |
//! | | [`service`] | the thread |
//! | | `start`, [`gateway`] | this process, made and ended; one that is the proxy of other nodes' endpoints |

pub mod account;
mod asked;
mod attempt;
pub mod copied;
pub mod deposit;
pub mod door;
pub mod doze;
mod drain;
mod ended;
pub mod endpoint;
pub mod gateway;
mod habit;
pub mod inside;
pub mod link;
pub mod list;
mod load;
mod looking;
pub mod note;
mod out_edge;
mod packet;
pub mod process;
mod readiness;
pub mod recv;
pub mod registry;
pub mod route;
pub mod send;
pub mod sending;
pub mod service;
pub mod shared;
mod sleeps;
mod start;
mod stat;
mod stepping;
pub mod tag;
#[cfg(test)]
mod testing;
mod turn;
pub mod tx;
pub mod wakers;
