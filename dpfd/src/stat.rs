//! What an endpoint tells of itself.

use crate::addr::{Addr, Dpid};

/// Counters and limits of an endpoint (`dp_stat`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stat {
    /// Its number.
    pub dpid: Dpid,
    /// The target; 0 if there is none.
    pub target: Addr,
    /// Messages delivered to receivers, and their bytes.
    pub sent: (u64, u64),
    /// Messages read in pool mode, and their bytes.
    pub received: (u64, u64),
    /// Messages loaned out and not released.
    pub loaned: usize,
    /// Bytes of the next message, if one is there; not known of one that comes by the descriptor, before its sender has an edge.
    pub next_len: Option<usize>,
    /// Bytes of the pool; 0 before there is one.
    pub pool: usize,
    /// Bytes of it that no edge has.
    pub pool_left: usize,
    /// Edges into it.
    pub edges: usize,
    /// Times a direct way was full.
    pub full: u64,
    /// Times the receiver slept in the kernel.
    pub sleeps: u64,
    /// Edges given up because a sender wrote nonsense.
    pub corrupt: u64,
    /// Longest message for [`Endpoint::send`](crate::Endpoint::send), bytes.
    pub max_message: usize,
    /// Longest message for a plain write, bytes.
    pub max_plain: usize,
    /// Destinations that belong to a user who does not let this one send. What was sent to them before that was known
    /// waits.
    pub denied: usize,
}
