//! The gateway of a node: it takes messages to endpoints of other nodes, and brings theirs.
//!
//! ```text
//!   program                         this process                                     another node
//!   sender --edge--> proxy ---> outgoing --> flow --> guard --> choice --> route ===============> ...
//!                    proxy <--- incoming <-- flow <-- guard <------------- route <=============== ...
//!   receiver <-edge--'
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`nart`] | who the other nodes are, and where: from the graph |
//! | [`node`] | all of it put together, without I/O of its own but that of its routes, and without a clock |
//! | [`peer`] | another node: its routes, which of them is used, and the traffic with its endpoints |
//! | [`traffic`] | a flow, with what waits on both sides of it |
//! | [`raw`] | the same without one: messages that nobody acknowledges |
//! | [`outgoing`], [`incoming`] | messages of programs here, until acknowledged; of programs there, until whole |
//! | [`probe`] | frames by which nodes find out whether a route works |
//! | [`guard`] | what stands between flows and routes |
//! | [`places`] | how far each flow's receiver is, in a file that outlives this process |
//! | [`local`] | what a gateway needs of its own node; [`proxies`] is the real one |
//! | [`gate`] | all of that opened, with the door for `dp ls`, and without a loop |
//! | [`serve`], [`look`], `standing` | the loop of a process: one epoll, looking for a moment before sleeping, where that pays, and its timer |
//! | [`inside`] | no loop: inside a program, whose calls step it, with a thread for what is due while it is elsewhere |
//! | [`status`] | what `dp ls` is told |
//!
//! # What an acknowledgement means
//!
//! A part is acknowledged when [`incoming`] has taken it, the last part of a message when the message is in its receiver's
//! pool, or on the descriptor of a receiver that reads plainly, and the file of [`places`] says so. So:
//!
//! - An acknowledged message stays with its receiver, whatever happens to the two gateways.
//! - A receiving gateway that is killed loses nothing: its sender's has every message that was not acknowledged, and sends it
//!   again. It comes once, since the flow of the new process tells how far the old one was. Only a kill between the two stores,
//!   of the message into the pool and of the place into the file, brings that one message twice; where the receiver reads
//!   plainly the first of them is a call of the kernel.
//! - A sending gateway that is killed takes with it what its proxies held and nobody had acknowledged, as any receiver does
//!   on one node. What waits in the senders' own processes is not affected.
//!
//! # Limits
//!
//! What another node can make this process keep is bounded for each of them ([`Limits`]): flows, and bytes of messages that
//! are not whole; and proxies that no program here sends to, by its share of this process's descriptors. What programs here can
//! is bounded by the pools of the proxies.
#![forbid(unsafe_code)]

pub mod gate;
pub mod guard;
pub mod incoming;
pub mod inside;
pub mod local;
pub mod look;
pub mod nart;
pub mod node;
pub mod outgoing;
pub mod peer;
pub mod places;
pub mod probe;
pub mod proxies;
pub mod raw;
pub mod serve;
mod standing;
pub mod status;
pub mod traffic;

pub use inside::InProcess;

/// Parts on their way in one flow at most. 128 of 1428 bytes are what a link of 1 Gbit/s carries in 1.5 ms.
pub const WINDOW: usize = 128;

/// What one other node may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Flows that its frames begin: those that programs here begin are not counted. Frames for more are dropped and counted. Each
    /// costs about 13 KiB. Default: 4096.
    pub flows: usize,
    /// Bytes of messages from there that are not whole yet, and of parts that came before their turn; at least one message
    /// may begin, however long. Default: 64 MiB.
    pub bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { flows: 4096, bytes: 64 << 20 }
    }
}
