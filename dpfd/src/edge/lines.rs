//! The control lines of an edge for messages ([`super::segment`]): its two sides need a cursor and the CPUs they run on. The
//! lines of a channel's direction, which moves between TCP and its ring, say more, and are dp-channel's.

use core::mem::offset_of;

use dp_edge::ring::LINE;
use dp_edge::sync::{AtomicU32, AtomicU64};

/// The sender's control line.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct TxLine {
    _free: [AtomicU64; 4],
    /// The CPU the sender last ran on, plus one; 0 unknown.
    pub cpu: AtomicU32,
}

/// The receiver's control line.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct RxLine {
    /// The receiver's place in the ring ([`dp_edge::ring::Cursor`]).
    pub cursor: AtomicU64,
    _free: [AtomicU64; 2],
    /// The CPU the receiver last ran on, plus one; 0 unknown.
    pub cpu: AtomicU32,
}

const _: () = assert!(size_of::<TxLine>() == LINE && offset_of!(TxLine, cpu) == 32);
const _: () = assert!(size_of::<RxLine>() == LINE && offset_of!(RxLine, cpu) == 24);
