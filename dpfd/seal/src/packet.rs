//! Packets: what the other node is sent in the place of frames. Big-endian, but for what Noise defines.
//!
//! ```text
//!  a frame, or nothing (EMPTY)                          a word of the handshake, 80 bytes
//!   0       1       2       3       4       7            0       1       2       3       4       7
//!  +-------+-------+---------------+---------------+    +-------+-------+---------------+-------+-------+
//!  | mark  |ver,knd| from: node    | session       |    | mark  |ver,knd| from: node    | to    |mode, 0|
//!  +-------+-------+---------------+---------------+    +-------+-------+---------------+-------+-------+
//!  | counter: how many of this session came before |    | time of the INITIATION                        |
//!  +-----------------------------------------------+    +-----------------------------------------------+
//!  | the frame, 16 bytes or more; encrypted, or    |    | Noise: ephemeral key, 32 bytes                |
//!  | as it is                                    ...    |                                               |
//!  +-----------------------------------------------+    +-----------------------------------------------+
//!  | tag, 16 bytes                                 |    | Noise: tag of an empty payload, 16 bytes      |
//!  |                                               |    |                                               |
//!  +-----------------------------------------------+    +-----------------------------------------------+
//!                                                       | mac of all above, 16 bytes                    |
//!                                                       |                                               |
//!                                                       +-----------------------------------------------+
//! ```
//!
//! In the place of Noise's key and tag, a word of the kind LATER has the time that an INITIATION must be later than, and 40
//! bytes of 0.
//!
//! The tag covers everything before it, so nothing of a packet can be changed, and its nonce is the counter. The mac is
//! made with a key that every node of the graph has: whatever somebody else sends costs one look at it.
//!
//! The first byte of a packet is none that a frame begins with. So a node that does not seal is told apart from one whose
//! packets are damaged.

use crate::{Mode, Refused, OVERHEAD};

/// Of every packet.
pub(crate) const MARK: u8 = 0x5e;
/// Of this layout, in the upper half of the second byte.
const VERSION: u8 = 1 << 4;

/// Bytes before a frame.
pub const HEAD: usize = 16;
/// Bytes behind it.
pub(crate) const TAG: usize = 16;
/// Bytes of a word of the handshake.
pub(crate) const WORD: usize = 80;
/// Bytes of it that the Noise handshake takes as its prologue.
pub(crate) const PROLOGUE: usize = 16;
/// Where its mac is.
pub(crate) const MAC_AT: usize = WORD - 16;
/// The shortest frame. Ethernet fills shorter packets up, and then nobody knows where the tag was.
pub const FRAME_MIN: usize = 16;

/// What a packet is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A handshake begins.
    Initiation,
    /// The answer to it.
    Response,
    /// A frame.
    Frame(Mode),
    /// [`FRAME_MIN`] bytes of 0 in the place of a frame: who sends it has the session's keys.
    Empty,
    /// An INITIATION said too early a time.
    Later,
}

impl Kind {
    const ALL: [(u8, Kind); 6] = [
        (1, Kind::Initiation),
        (2, Kind::Response),
        (3, Kind::Frame(Mode::Authenticate)),
        (4, Kind::Frame(Mode::Encrypt)),
        (5, Kind::Empty),
        (6, Kind::Later),
    ];

    fn number(self) -> u8 {
        Kind::ALL.iter().find(|(_, kind)| *kind == self).map_or(0, |(number, _)| *number)
    }
}

/// The node that a packet says it is from: a claim, by which whoever has several [`Peer`](crate::Peer)s finds the one that
/// can tell.
///
/// # Errors
/// It is no packet at all.
pub fn claimed(packet: &[u8]) -> Result<u16, Refused> {
    kind(packet)?;
    Ok(u16::from_be_bytes([packet[2], packet[3]]))
}

/// What a packet is for. One of any kind has [`OVERHEAD`] bytes at least.
pub(crate) fn kind(packet: &[u8]) -> Result<Kind, Refused> {
    let (&mark, rest) = packet.split_first().ok_or(Refused::Short)?;
    if mark != MARK {
        return Err(Refused::Plain);
    }
    let second = *rest.first().ok_or(Refused::Short)?;
    if second & 0xf0 != VERSION {
        return Err(Refused::Version);
    }
    let kinds = Kind::ALL;
    let (_, kind) = kinds.iter().find(|(number, _)| *number == second & 0x0f).ok_or(Refused::Kind)?;
    let least = match kind {
        Kind::Initiation | Kind::Response | Kind::Later => WORD,
        Kind::Frame(_) | Kind::Empty => OVERHEAD + FRAME_MIN,
    };
    if packet.len() < least {
        return Err(Refused::Short);
    }
    Ok(*kind)
}

/// What stands before a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    pub kind: Kind,
    pub from: u16,
    pub session: u32,
    pub counter: u64,
}

impl Head {
    /// Of a packet whose kind was found out.
    pub fn read(kind: Kind, packet: &[u8]) -> Head {
        Head { kind, from: half(packet, 2), session: half_pair(packet, 4), counter: word(packet, 8) }
    }

    pub fn write(&self, packet: &mut [u8]) {
        packet[..2].copy_from_slice(&[MARK, VERSION | self.kind.number()]);
        packet[2..4].copy_from_slice(&self.from.to_be_bytes());
        packet[4..8].copy_from_slice(&self.session.to_be_bytes());
        packet[8..16].copy_from_slice(&self.counter.to_be_bytes());
    }
}

/// What a word of the handshake begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WordHead {
    pub kind: Kind,
    pub from: u16,
    pub to: u16,
    /// Of a mode that is not known, nothing.
    pub mode: Option<Mode>,
    pub time: u64,
}

impl WordHead {
    /// Of a packet whose kind was found out.
    pub fn read(kind: Kind, packet: &[u8]) -> WordHead {
        let mode = match (packet[6], packet[7]) {
            (1, 0) => Some(Mode::Authenticate),
            (2, 0) => Some(Mode::Encrypt),
            _ => None,
        };
        WordHead { kind, from: half(packet, 2), to: half(packet, 4), mode, time: word(packet, 8) }
    }

    pub fn write(&self, packet: &mut [u8]) {
        packet[..2].copy_from_slice(&[MARK, VERSION | self.kind.number()]);
        packet[2..4].copy_from_slice(&self.from.to_be_bytes());
        packet[4..6].copy_from_slice(&self.to.to_be_bytes());
        let mode = match self.mode {
            Some(Mode::Authenticate) => 1,
            Some(Mode::Encrypt) => 2,
            None => 0,
        };
        packet[6..8].copy_from_slice(&[mode, 0]);
        packet[8..16].copy_from_slice(&self.time.to_be_bytes());
    }
}

/// The time that a LATER tells.
pub(crate) fn least(later: &[u8; WORD]) -> u64 {
    word(later, PROLOGUE)
}

/// Writes it.
pub(crate) fn write_least(later: &mut [u8; WORD], time: u64) {
    later[PROLOGUE..MAC_AT].fill(0);
    later[PROLOGUE..][..8].copy_from_slice(&time.to_be_bytes());
}

fn half(packet: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([packet[at], packet[at + 1]])
}

fn half_pair(packet: &[u8], at: usize) -> u32 {
    u32::from(half(packet, at)) << 16 | u32::from(half(packet, at + 2))
}

fn word(packet: &[u8], at: usize) -> u64 {
    u64::from(half_pair(packet, at)) << 32 | u64::from(half_pair(packet, at + 4))
}

#[cfg(test)]
mod tests;
