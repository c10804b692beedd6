// SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note OR MIT

//! A frame of version 2 on the wire between nodes: of a flow, which repeats what is lost, or a raw one. Big-endian.
//!
//! ```text
//!   0       1       2       3       4       5       6       7
//!  +-------+-------+---------------+---------------+---------------+
//!  |version|fl,kind| bytes behind  | from: node    | from: endpoint|
//!  +-------+-------+---------------+---------------+---------------+
//!  | to: node      | to: endpoint  | tag of this incarnation       |
//!  +---------------+---------------+-------------------------------+
//!  | number of the frame           | acknowledged: the next number |
//!  |                               | that was not taken yet        |
//!  +---------------+---------------+-------------------------------+
//!  | room: numbers | arrived: of 16| CRC32C of header and bytes    |
//!  | from there on | from there on | behind, this field as 0       |
//!  +---------------+---------------+-------------------------------+
//!  | `bytes behind`, by kind; what follows them fills a short frame up
//!
//!  kind HELLO                           kind PART
//!  +-------------------------------+    +-------------------------------+
//!  | name of who sends this        |    | bytes of the message, in the  |
//!  +-------------------------------+    | first part if it has several  |
//!  | user that sends               |    +-------------------------------+
//!  +---------------+---------------+    | immediate, 8 bytes,           |
//!  | longest part  | 0             |    | with the flag IMMEDIATE       |
//!  +---------------+---------------+    +-------------------------------+
//!  | tag that its other frames     |    | the part                    ...
//!  | have, 0: there are none       |
//!  +-------------------------------+    kind ACK
//!  | tag of the parts that it took |    +-------------------------------+
//!  | before, 0: none               |    | `arrived` goes on, 8 a byte ...
//!  +-------------------------------+
//!  | number that it had taken up   |
//!  | to then                       |
//!  +-------------------------------+
//! ```
//!
//! Each side has a name, a random number, and a new one for each peer that it meets. The tag of a frame is made of
//! both, see [`tag`]; in a HELLO it is the receiver's name alone, or 0 if that is not known.
//!
//! Bit `i` of `arrived`, from the lowest, says that number `acknowledged + i` is here. What is here is not given up.
//!
//! A frame of kind PROBE is a header alone, from node to node: its endpoints, and all that a flow would say, are 0.
//!
//! A frame of kind RAW is a PART that nobody acknowledges: its tag is the name of who sends it, in the place of
//! `acknowledged` it counts messages, and in that of `room` and `arrived` is the user that sends.

/// Of this layout.
pub const VERSION: u8 = 2;
/// Bytes of the header.
pub const HEADER: usize = 32;
/// Where in the header the checksum is; it is the last field.
pub const CHECKSUM_AT: usize = 28;

/// Begins a flow: who speaks, and to whom.
pub const KIND_HELLO: u8 = 1;
/// A part of a message.
pub const KIND_PART: u8 = 2;
/// Says what has arrived, and nothing else.
pub const KIND_ACK: u8 = 3;
/// A part of a message that nobody acknowledges.
pub const KIND_RAW: u8 = 4;
/// Asks with ASK whether the other node is there, and without it answers with the same number. It has no endpoints.
pub const KIND_PROBE: u8 = 5;

/// The first part of a message.
pub const FLAG_FIRST: u8 = 0x10;
/// The last part of a message.
pub const FLAG_LAST: u8 = 0x20;
/// The message has an immediate. In a first part only.
pub const FLAG_IMMEDIATE: u8 = 0x40;
/// An answer is wanted at once.
pub const FLAG_ASK: u8 = 0x80;

/// Bytes behind the header of a HELLO.
pub const HELLO: usize = 24;
/// Most bytes that a PART or RAW has between its header and the part.
pub const PART_HEAD: usize = 12;
/// The largest `room`, and with it the most numbers that can be on their way.
pub const ROOM_MAX: u16 = 1024;

/// The tag of frames from the side with the one name to that with the other. Not 0. Of two different pairs of names the
/// tags differ, but for one in four thousand million.
pub const fn tag(from: u32, to: u32) -> u32 {
    let mut mixed = from.wrapping_mul(0x9e37_79b1) ^ to.wrapping_mul(0x85eb_ca77).rotate_left(15);
    mixed = (mixed ^ mixed >> 15).wrapping_mul(0xc2b2_ae3d);
    mixed ^= mixed >> 13;
    if mixed == 0 {
        1
    } else {
        mixed
    }
}

/// What stands before the bytes of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Header {
    /// `KIND_`.
    pub kind: u8,
    /// `FLAG_`, any of them.
    pub flags: u8,
    /// Bytes behind the header.
    pub bytes: u16,
    /// The sender's node.
    pub from_nid: u16,
    /// The sender.
    pub from_dpid: u16,
    /// The receiver's node.
    pub to_nid: u16,
    /// The receiver.
    pub to_dpid: u16,
    /// Made of both names. Of HELLO the receiver's name, 0: not known; of RAW the sender's.
    pub tag: u32,
    /// Of PART and RAW its own, of HELLO the first that there will be, of ACK the next one.
    pub number: u32,
    /// The next number that was not taken yet. Of RAW the message's number.
    pub acknowledged: u32,
    /// `room` in the upper half, `arrived` in the lower. Of RAW the user that sends.
    pub word: u32,
    /// CRC32C, or 0 where the route vouches for its frames.
    pub checksum: u32,
}

impl Header {
    /// As it is sent.
    pub fn encode(&self) -> [u8; HEADER] {
        let mut out = [0; HEADER];
        out[0] = VERSION;
        out[1] = self.flags & 0xf0 | self.kind & 0x0f;
        let halves = [self.bytes, self.from_nid, self.from_dpid, self.to_nid, self.to_dpid];
        for (at, half) in halves.iter().enumerate() {
            out[2 + 2 * at..][..2].copy_from_slice(&half.to_be_bytes());
        }
        let words = [self.tag, self.number, self.acknowledged, self.word, self.checksum];
        for (at, word) in words.iter().enumerate() {
            out[12 + 4 * at..][..4].copy_from_slice(&word.to_be_bytes());
        }
        out
    }

    /// As it came. Nothing is checked but that it is of this version.
    pub fn decode(header: &[u8; HEADER]) -> Option<Header> {
        let half = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let word =
            |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let decoded = Header {
            kind: header[1] & 0x0f,
            flags: header[1] & 0xf0,
            bytes: half(2),
            from_nid: half(4),
            from_dpid: half(6),
            to_nid: half(8),
            to_dpid: half(10),
            tag: word(12),
            number: word(16),
            acknowledged: word(20),
            word: word(24),
            checksum: word(CHECKSUM_AT),
        };
        (header[0] == VERSION).then_some(decoded)
    }

    /// Numbers from `acknowledged` on that the sender of this frame has room for.
    pub fn room(&self) -> u16 {
        (self.word >> 16) as u16
    }

    /// Which of the 16 numbers from `acknowledged` on are there.
    pub fn arrived(&self) -> u16 {
        self.word as u16
    }

    /// The two in one word.
    pub fn room_and_arrived(room: u16, arrived: u16) -> u32 {
        u32::from(room) << 16 | u32::from(arrived)
    }
}
