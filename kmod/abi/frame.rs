// SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note OR MIT

//! A frame on the wire between nodes, behind the Ethernet header. Big-endian.
//!
//! ```text
//!   0       1       2       3       4       5       6       7
//!  +-------+-------+---------------+---------------+---------------+
//!  |version| kind  | bytes here    | from: node    | from: endpoint|
//!  +-------+-------+---------------+---------------+---------------+
//!  | to: node      | to: endpoint  | user that sends               |
//!  +---------------+---------------+-------------------------------+
//!  | number of the message         | bytes of the message          |
//!  +-------------------------------+-------------------------------+
//!  | where this part of it begins  | 0, for a reliable layer       |
//!  +-------------------------------+-------------------------------+
//!  | the part, `bytes here`; behind it, what fills a short frame up  ...
//! ```
//!
//! A message that is longer than a frame goes in parts, in order. What an interface, a network or a receiver without
//! room drops is lost, and counted where that is noticed.

/// The EtherType: the first of the two that IEEE 802 leaves to local experiments.
pub const ETHER_TYPE: u16 = 0x88b5;
/// Bytes before a part.
pub const FRAME_HEADER: usize = 32;
/// Of this layout.
pub const FRAME_VERSION: u8 = 1;
/// A part of a message that nobody acknowledges.
pub const FRAME_RAW: u8 = 0;
/// The longest message that goes to another node, bytes.
pub const REMOTE_MAX: u32 = 64 << 10;

/// What a frame says of the part that it carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame {
    /// Bytes of the part.
    pub bytes: u16,
    /// The sender's node.
    pub from_nid: u16,
    /// The sender.
    pub from_dpid: u16,
    /// The receiver's node, or the one that means all.
    pub to_nid: u16,
    /// The receiver.
    pub to_dpid: u16,
    /// The user who opened the sender.
    pub uid: u32,
    /// Counts the messages of a node.
    pub number: u32,
    /// Bytes of the whole message.
    pub total: u32,
    /// Bytes of it before this part.
    pub begin: u32,
}

impl Frame {
    /// As it is sent.
    pub fn encode(&self) -> [u8; FRAME_HEADER] {
        let mut out = [0; FRAME_HEADER];
        out[0] = FRAME_VERSION;
        out[1] = FRAME_RAW;
        let halves = [self.bytes, self.from_nid, self.from_dpid, self.to_nid, self.to_dpid];
        for (at, half) in halves.iter().enumerate() {
            out[2 + 2 * at..][..2].copy_from_slice(&half.to_be_bytes());
        }
        let words = [self.uid, self.number, self.total, self.begin];
        for (at, word) in words.iter().enumerate() {
            out[12 + 4 * at..][..4].copy_from_slice(&word.to_be_bytes());
        }
        out
    }

    /// From a frame that has `left` bytes behind its header. Nothing, if that cannot be one of ours.
    pub fn decode(header: &[u8; FRAME_HEADER], left: usize) -> Option<Frame> {
        let half = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let word =
            |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let frame = Frame {
            bytes: half(2),
            from_nid: half(4),
            from_dpid: half(6),
            to_nid: half(8),
            to_dpid: half(10),
            uid: word(12),
            number: word(16),
            total: word(20),
            begin: word(24),
        };
        let named = frame.from_nid != 0 && frame.from_dpid != 0 && frame.to_nid != 0 && frame.to_dpid != 0;
        let bytes = u32::from(frame.bytes);
        // A part of nothing is the whole of an empty message.
        let inside = frame.begin < frame.total && bytes > 0 && bytes <= frame.total - frame.begin;
        let sound = inside || (frame.total == 0 && frame.begin == 0 && bytes == 0);
        let ours = header[0] == FRAME_VERSION && header[1] == FRAME_RAW && frame.total <= REMOTE_MAX;
        (ours && named && sound && usize::from(frame.bytes) <= left).then_some(frame)
    }

    /// Whether it carries all of the message.
    pub fn is_whole(&self) -> bool {
        self.total == u32::from(self.bytes)
    }
}
