//! Frames between two nodes, authenticated or encrypted with a key that all nodes of a graph have.
//!
//! The crate is a state machine: it has no I/O and no clock, and allocates only in a handshake. Whoever drives it (the
//! gateway of a node) has a [`Peer`] for each other node and route, between the reliable layer and the route:
//!
//! ```text
//!      flow                                                                            flow
//!        | frame                                                                         ^ frame
//!        v                                                                               |
//!   +-- Peer ----------------------------+      packets: lost,      +-------------- Peer ---+
//!   | seal    counter, cipher            |      repeated, late,     | open  session, window, |
//!   |                                    | -------------------------> |       cipher           |
//!   | poll_transmit   handshake          |      damaged, replayed,  |                        |
//!   +------------------------------------+      forged              +------------------------+
//!        |                                                                               ^
//!        v                                                                               |
//!      route -------------------------------------------------------------------------> route
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `peer` | what happens when: [`Peer`] |
//! | `packet` | how packets are laid out, with a picture |
//! | `handshake` | Noise NNpsk0: keys that nobody can find out later |
//! | `calling` | when a handshake begins, and again |
//! | `session` | the keys of now, of before, and those that may be next, with a picture |
//! | `replay` | what has come already |
//! | `cipher` | AES-256-GCM where frames are encrypted, ChaCha20-Poly1305 where they are not |
//! | `key`, [`keyfile`] | the graph's key and its file |
//! | `count` | what was dropped, by reason: [`Refused`], [`Counts`] |
//!
//! # What holds
//!
//! - **A frame that comes out of [`Peer::open`]** was sealed by a node that has the graph's key, for this node, as it is,
//!   and comes out once. It may come late or not at all: that is the reliable layer's part.
//! - **A packet from anywhere** can at worst be dropped and counted, by reason. One that was not made with the key costs
//!   one tag (a frame that names the session) or one hash (a handshake) at most, and no memory. Frames of unknown sessions
//!   can have this side begin a handshake, while it has no session or has heard nothing else for a while: 80 bytes, more and
//!   more seldom, to the address in the graph.
//! - **A replayed handshake** changes nothing. It says a time that is not later than what was answered before; then it is
//!   dropped, and answered with 80 bytes once a second at most while the other node is heard. Where that time was forgotten,
//!   since the node was started again, it leads to a session that nobody else has the keys of, and by which nothing is sent.
//! - **Restart of either side**: whoever has no session and is sent a frame begins a handshake. Three packets later both
//!   have a session; five, if its clock was set back. So no clock needs to be right: what it tells only saves work.
//! - **Both sides may begin at once.** Two sessions come about then, and each side opens both.
//! - **Keys are renewed** after two minutes or 2^30 frames, and those of before open what is still on its way. After three
//!   minutes they are forgotten. Who finds out the graph's key, or a node's memory, cannot read what was sent before.
//!
//! # What does not
//!
//! All nodes of a graph have one key. So each of them can pass for any other, and be between two of them. How long frames
//! are, between which nodes, and when, can be seen.
//!
//! # Decisions
//!
//! - **Noise, not a handshake of our own**, in the form that needs one secret for a graph instead of a table of public
//!   keys. WireGuard's rules for times and renewals, with two differences. The mac's key is secret, as nodes need not be
//!   found by strangers: so neither cookies are needed nor limits for each address. And the time in a handshake is not
//!   encrypted, so that a replayed one is recognised before anything is computed.
//! - **One cipher for each mode.** Nothing is negotiated, so nothing can be talked down; another cipher will be another
//!   version.
//! - **Authenticated only** is a cipher with the frame as additional data, so that a filter or a capture on the way sees
//!   frames as they are. It is not cheaper where the processor has instructions for AES.
//!
//! # Example
//!
//! What a gateway does for one node, with a wire of its own in the place of two routes.
//!
//! ```
//! use dp_seal::{Config, GraphKey, Mode, Peer, HEAD, OVERHEAD, OWN_MAX};
//!
//! let key = GraphKey::random()?;
//! let (now, wall) = (0, 1_790_000_000_000_000_000);
//! let mut here = Peer::new(&key, Config::new(1, 2, Mode::Encrypt, wall))?;
//! let mut there = Peer::new(&key, Config::new(2, 1, Mode::Encrypt, wall))?;
//!
//! // At start, or with the first frame: a session is wanted.
//! here.connect(now);
//! while !(here.is_ready(now) && there.is_ready(now)) {
//!     // Whenever something came, and when poll_timeout says so: what the layer itself sends.
//!     let mut own = [0; OWN_MAX];
//!     while let Some(length) = here.poll_transmit(now, &mut own) {
//!         assert_eq!(there.open(now, &mut own[..length])?, None);
//!     }
//!     while let Some(length) = there.poll_transmit(now, &mut own) {
//!         assert_eq!(here.open(now, &mut own[..length])?, None);
//!     }
//! }
//!
//! // The flow writes a frame behind HEAD bytes, and leaves room behind it: the route's MTU less OVERHEAD is its longest.
//! let frame = b"a frame of 24 bytes here";
//! let mut room = [0; 1500];
//! room[HEAD..][..frame.len()].copy_from_slice(frame);
//! let length = here.seal(now, &mut room, frame.len())?;
//! assert_eq!(length, frame.len() + OVERHEAD);
//!
//! // The route brings a packet.
//! let mut again = room;
//! assert_eq!(there.open(now, &mut room[..length])?, Some(&mut frame.clone()[..]));
//! assert!(there.open(now, &mut again[..length]).is_err(), "it came before");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod calling;
mod cipher;
mod config;
mod count;
mod handshake;
mod key;
pub mod keyfile;
mod packet;
mod peer;
mod replay;
mod session;

pub use config::{Config, Invalid, Limits, Mode};
pub use count::{Counts, Refused};
pub use key::{BadKey, GraphKey, NoRandom, KEY};
pub use packet::{claimed, FRAME_MIN, HEAD};
pub use peer::{NotSealed, Peer, State};
pub use replay::WINDOW;

/// Bytes that a packet has more than its frame.
pub const OVERHEAD: usize = packet::HEAD + packet::TAG;
/// Bytes of the longest packet that this layer itself sends.
pub const OWN_MAX: usize = packet::WORD;
