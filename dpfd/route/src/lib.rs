//! Routes: how frames travel between nodes.
//!
//! A route carries *frames*, opaque bytes up to an MTU, to a peer's address, best effort and in batches. It may lose,
//! repeat and reorder them; the reliable layer above mends that. In the Directed Point paper this is the network
//! interface layer, and CoR's pluggable routes are the model of [`library`]: several at once, chosen for a destination.
//!
//! | file | holds |
//! |---|---|
//! | [`PeerAddr`] | where a node is on a route: a line of the Network Address Resolution Table |
//! | [`Frames`], [`Batch`], [`Received`] | frames on their way out and in, without a copy or an allocation |
//! | [`Counters`], [`Reason`] | what a route carried, and why it did not |
//! | [`udp`] | UDP over IPv4 and IPv6, segmentation offload both ways |
//! | [`eth`] | Ethernet frames of a private EtherType |
//! | [`xdp`] | whether these are taken out of the interface's receive path (AF_XDP), and why not |
//! | [`sim`] | a network in memory that loses, repeats, reorders, delays and corrupts, the same for the same seed |
//! | [`library`] | a route of somebody else's, a shared object with the C interface of `dp_route.h` |
//! | [`choice`] | which of several routes to a peer is used, a state machine without I/O |
//!
//! `unsafe` is allowed in `sys` (packet sockets), `xdp::program`, `xdp::queue` and `library` (foreign code) only.
#![deny(unsafe_code)]

mod address;
mod batch;
pub mod choice;
mod count;
pub mod eth;
pub mod library;
pub mod sim;
mod sys;
pub mod udp;
pub mod xdp;

use std::io;
use std::os::fd::BorrowedFd;

pub use address::{BadAddress, Label, Mac, PeerAddr, LABEL_MAX, NAME_MAX};
pub use batch::{Batch, Frames, Received, BATCH_MAX, FRAME_MAX};
pub use count::{Counters, Reason};

/// A way for frames between nodes.
///
/// No call blocks, and `send` and `recv` neither allocate nor log once a peer is known.
pub trait Route: Send {
    /// The name by which the graph and endpoints choose it: 1 to [`NAME_MAX`] letters, digits, `-` and `_`.
    fn name(&self) -> &str;

    /// Where this node is on the route: what its line of the NART must say.
    fn local(&self) -> PeerAddr;

    /// The longest frame that reaches `to` now, bytes, 1 to [`FRAME_MAX`]. It can change at any time: ask again after
    /// EMSGSIZE and after [`refresh`](Route::refresh). A look into a table, unless the peer is a new one.
    ///
    /// # Errors
    /// EAFNOSUPPORT where the address is another route's; what the system says where there is no way there.
    fn mtu(&mut self, to: &PeerAddr) -> io::Result<usize>;

    /// Sends frames, in order. The answer says how many of the first ones were handed over, which says nothing of
    /// their arrival. Fewer than given, or none: there is no room at present; wait until the descriptor is writable,
    /// and at least 50 microseconds, since some queues do not tell when they have room.
    ///
    /// # Errors
    /// Only where the first frame could not be sent; [`Reason::of`] sorts them. EMSGSIZE: it is longer than the MTU,
    /// which has been found out anew. EAFNOSUPPORT: the address is another route's.
    fn send(&mut self, to: &PeerAddr, frames: Frames<'_>) -> io::Result<usize>;

    /// The room, bytes, that a slot of [`Received`] must have for this route.
    fn slot(&self) -> usize;

    /// Takes what has arrived; the number of frames, 0 if none. What `into` held before is gone. Frames can come from
    /// anybody, and can be longer than sent: Ethernet fills short ones up to 46 bytes.
    ///
    /// # Errors
    /// EINVAL where the slots are shorter than [`slot`](Route::slot); what the system says if the route is broken.
    fn recv(&mut self, into: &mut Received) -> io::Result<usize>;

    /// Readable when frames have arrived, and where it is a socket writable when there is room; it stays the same. None: only the simulated network's, which has
    /// a clock of its own.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// Tells of all descriptors that are this node's place on the route, which nobody else must have: as long as a child of a fork
    /// has copies, the place is taken, and frames go there. Which they are can change at [`refresh`](Route::refresh).
    fn each_descriptor<'a>(&'a self, each: &mut dyn FnMut(BorrowedFd<'a>)) {
        self.descriptor().into_iter().for_each(each);
    }

    /// Finds out anew what may have changed: path MTUs, the interface. To be called about once a second, and before a
    /// route that was given up is tried again.
    ///
    /// # Errors
    /// The route cannot carry anything now; [`Reason::of`] says why.
    fn refresh(&mut self) -> io::Result<()>;

    /// What it has carried and refused since it was opened.
    fn counters(&self) -> &Counters;

    /// By which of several means of the system it receives, and why, in words for an administrator, if there are several.
    fn means(&self) -> Option<&str> {
        None
    }

    /// What works less well than it could, in words for an administrator, if anything.
    fn remark(&self) -> Option<&str> {
        None
    }
}

/// The error of an address that is of another route.
fn not_ours(counters: &mut Counters) -> io::Error {
    counters.refuse(Reason::Address, 1);
    io::Error::from_raw_os_error(libc::EAFNOSUPPORT)
}
