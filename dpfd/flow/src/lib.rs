//! Messages between two endpoints of different nodes, each once, in order and whole, over links that lose, repeat,
//! reorder and damage frames.
//!
//! The crate is a state machine: it has no I/O, no clock, no memory but what it is given, and no `unsafe`. Whoever drives
//! it (the gateway of a node, the kernel driver, a test) has sockets and clocks, and asks it what to send, and when.
//!
//! ```text
//!   sender's program                                                    receiver's program
//!        |                                                                     ^
//!        | send(total, immediate)                                              | Sink::put(part)
//!        v                                                                     |
//!   +---------------- Flow -----------------+             +----------------- Flow ---------------+
//!   | outbox   messages, cut into parts     |             | reassemble  parts back to messages   |
//!   | window   flying, arrived, lost        |   frames    | ack         what is here, and when   |
//!   | rtt, congestion, pace   when to send  | ----------> |             to say so                |
//!   | greeting   who is there: incarnations | <---------- | greeting                             |
//!   +---------------------------------------+             +--------------------------------------+
//!        | poll_transmit(now, source, out)                     ^ on_frame(now, bytes, sink)
//!        v                                                     |
//!      route: UDP, Ethernet, a test's link ------------------->+        (both ways at once)
//! ```
//!
//! # The states of a flow
//!
//! ```text
//!                       send(), or a frame for an earlier incarnation
//!       +----------+  ------------------------------------------------>  +----------+
//!       | resting  |                                                     | greeting |  HELLO, repeated
//!       +----------+  <-----------------------------+                    +----------+
//!            ^                                      |                         |  the peer's HELLO to this end
//!            | Down(Silent): nothing heard          |                         v  -> Up
//!            |   for `dead_after`, three            |                    +----------+
//!            |   times asked                        +--------------------|   open   |--+ Down(Restarted): the peer is
//!            | Down(Broken): the peer contradicted itself                +----------+  | another one now, and it goes on
//!            |                                                                ^        | with that one -> Up
//!            +---- each Down: what was not acknowledged is Lost               +--------+
//! ```
//!
//! A way that becomes shorter than parts that are on theirs ends the incarnation as well: a number stands for one part, so these
//! cannot be cut into more. This end begins anew by itself, and waits for the peer to say how far it was; so all that it had
//! not taken is cut anew, and nothing comes twice.
//!
//! A message is **acknowledged** ([`Event::Delivered`]) when the receiver's [`Sink`] has taken its last part: it is in the
//! receiver's pool then, and stays delivered whatever happens to the gateways. What was not acknowledged when one of the
//! two sides was restarted is reported as [`Event::Lost`]: nobody knows whether it came. Whoever restarts a receiver and
//! kept its [`Place`] says it in [`Config::resume`], and then it is known.
//!
//! # What is decided here, and why
//!
//! - **Numbers count frames, per flow**, not bytes: a lost part is one bit, and 10 000 flows do not wait for one another.
//! - **Cumulative acknowledgement and a bitmap** of what arrived behind it. A part is sent again when later ones have
//!   arrived (selective repeat), or when nothing has for a time-out; then the sender goes back to the first that is
//!   missing (Go-Back-N), passing over those that are known to be there.
//! - **Credits**: a receiver grants as many parts as it has memory for, so nothing that arrived is ever dropped. A program
//!   that does not read stops its sender, and nobody else's.
//! - **Early send** (GAMMA, section 4.2): a part leaves as soon as the [`Source`] has its bytes, while the rest of the
//!   message is still being written; and the receiver is given each part as it comes. That is of this crate alone: what
//!   gateways take from programs, and give them, is whole messages.
//! - **The bytes stay where they are** until they are acknowledged: `poll_transmit` reads them from the source, each time
//!   that it sends them. So there is no copy beside the one into the frame, and none kept for repeats.
//! - **A checksum in each frame** ([`crc32c`], or one that the caller has an instruction for), because Ethernet's ends at
//!   each switch and UDP's sixteen bits let one damaged frame in 65536 pass. CRC32C finds every burst of up to 32 bits.
//!   Where a route authenticates its frames this is done already, and [`Config::checksum`] is [`None`]. It is no
//!   protection against forgers: that is the route's part.
//! - **Frames may come from anybody.** What is not sound is dropped and counted, by reason ([`Refused`]). Nothing here
//!   panics, allocates, or loops longer than a window.
//!
//! [`Raw`] sends the same frames without all this, and counts what is lost.
//!
//! # Units
//!
//! Times are nanoseconds of one clock that does not go back (one that does only makes things late). Lengths are bytes.
//!
//! ```
//! use dp_flow::{crc32c, Address, Config, Event, Flow, Outgoing, Part};
//!
//! let (a, b) = (Address { nid: 1, dpid: 1024 }, Address { nid: 2, dpid: 1024 });
//! let flow = |from, to, random| {
//!     Flow::<_, 16>::new(Config::new(from, to, random, Some(crc32c)), vec![0; 16 * 1400]).unwrap()
//! };
//! let (mut here, mut there) = (flow(a, b, 4711), flow(b, a, 1147));
//! let message = b"over and over";
//! here.send(0, Outgoing { total: message.len() as u32, immediate: None }).unwrap();
//!
//! let mut source = |_message: u64, begin: u32, out: &mut [u8]| {
//!     let part = &message[begin as usize..][..out.len()];
//!     out.copy_from_slice(part);
//!     part.len()
//! };
//! let mut received = Vec::new();
//! let mut sink = |part: Part<'_>| {
//!     received.extend_from_slice(part.bytes);
//!     true
//! };
//! let (mut frame, mut now) = (vec![0; here.frame_max()], 0);
//! loop {
//!     while let Some(len) = here.poll_transmit(now, &mut source, &mut frame) {
//!         there.on_frame(now, &frame[..len], &mut sink).unwrap();
//!     }
//!     while let Some(len) = there.poll_transmit(now, &mut source, &mut frame) {
//!         here.on_frame(now, &frame[..len], &mut sink).unwrap();
//!     }
//!     if let Some(Event::Delivered { before: 1 }) = here.poll_event() {
//!         break;
//!     }
//!     now += 100_000;
//! }
//! assert_eq!(received, message);
//! ```
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;
// In a kernel: what tests need of it.
#[cfg(kernel_tests)]
extern crate kernel_std as std;

#[cfg(any(test, kernel_tests))]
#[macro_use]
mod cases;

mod ack;
mod config;
mod congestion;
mod count;
mod flow;
mod frame;
mod greeting;
mod number;
mod outbox;
mod pace;
mod raw;
mod reassemble;
mod rtt;
mod window;

#[cfg(kernel_tests)]
pub use cases::ALL as CASES;
pub use config::{Address, Config, Invalid, Link, Place};
pub use count::{Counts, Refused};
pub use flow::{Down, Event, Flow, NotSent, Source, State};
#[cfg(feature = "crc")]
pub use frame::crc32c;
pub use frame::Checksum;
pub use outbox::Outgoing;
pub use raw::{Raw, RawCounts, RawFrame};
pub use reassemble::{Part, Sink};
pub use rtt::Limits;
#[cfg(kernel_tests)]
use std::crc32c;
