//! What the services of two processes say to each other: one packet each, descriptors beside it.
//!
//! ```text
//!   0      2        3     4        8       12      16
//!  +------+--------+-----+--------+-------+-------+
//!  | "DP" |version |kind |  link  |   a   |   b   |      native byte order: both ends are on one machine
//!  +------+--------+-----+--------+-------+-------+
//! ```
//!
//! A *link* is one sender endpoint's way to one receiver endpoint, numbered by the sender's service.

use crate::addr::{Addr, Dpid};
use crate::edge::beside::Beside;
use dp_edge::ring::{IMMEDIATE, ROUTED};

/// Bytes of a note.
pub const LEN: usize = 16;
const VERSION: u8 = 4;

/// The library tells its program the immediate of a message. One that does not say so is not sent any.
pub const IMMEDIATES: u32 = 1;
/// The library is told which messages to other nodes go raw, if it is their gateway's.
pub const RAW: u32 = 2;
/// The library tells its gateway by which route a message is to go.
pub const ROUTES: u32 = 4;
/// All that this library knows.
pub const ALL: u32 = IMMEDIATES | RAW | ROUTES;

/// Why a sender may not send there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denial {
    /// It is not said: the library is older than that, or newer and has another reason.
    Unsaid,
    /// Its user may not.
    User,
    /// The gateway's graph is strict, and has no such edge.
    Edge,
}

/// One note. `->` from the sender's service to the receiver's, `<-` back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Note {
    /// `->` Endpoint `from` wants to send to `to`.
    Attach {
        /// The link.
        link: u32,
        /// The sender.
        from: Addr,
        /// The receiver, in this process; with a node's number it is one of another node, and this process its gateway.
        to: Addr,
    },
    /// `<-` It may; beside it the receiver's back, to put plain messages and bells on.
    Attached {
        /// The link.
        link: u32,
        /// What the receiver's library knows: [`IMMEDIATES`], [`RAW`], [`ROUTES`], or 0 where it is older than that.
        knows: u32,
    },
    /// `<-` The receiver is in pool mode; beside it the inbox, and an edge if the pool has one left. Once more: beside it
    /// an edge in place of the one the sender has.
    Pool {
        /// The link.
        link: u32,
    },
    /// `<-` There is no such endpoint here, or it is closed now.
    Gone {
        /// The link.
        link: u32,
    },
    /// `<-` The sender may not send to it.
    Denied {
        /// The link.
        link: u32,
        /// Why.
        why: Denial,
    },
    /// `<-` The gateway knows no route to the receiver's node.
    Unreachable {
        /// The link.
        link: u32,
    },
    /// `<-` The edge has room again.
    Room {
        /// The link.
        link: u32,
    },
    /// `<-` The same, of a gateway's proxy, which would end: a sender that is through with it detaches, and one that is not
    /// sends no more there until it is. Who is older than this takes it for [`Note::Room`].
    Rest {
        /// The link.
        link: u32,
    },
    /// `->` The edge is too short for what goes over it, or there is none for it. No answer, unless the pool grows.
    Longer {
        /// The link.
        link: u32,
    },
    /// `->` Messages to this receiver, of another node, are to go by the route of this code ([`super::route::code`]); 0: by
    /// whichever the graph says. Only where the gateway has said that there are routes.
    Route {
        /// The link.
        link: u32,
        /// The code.
        code: u64,
    },
    /// `->` Messages to this receiver, of another node, go raw from now on. Only where the gateway's library knows [`RAW`].
    Raw {
        /// The link.
        link: u32,
    },
    /// `->` The sender is through with it.
    Detach {
        /// The link.
        link: u32,
    },
    /// `->` Is endpoint `dpid`, the process's `serial`th, still open?
    Ask {
        /// The endpoint.
        dpid: Dpid,
        /// Which of the process's endpoints.
        serial: u32,
    },
    /// `<-` The answer.
    Answer {
        /// Whether it is.
        open: bool,
    },
    /// `->` What are your endpoints doing?
    List,
    /// `<-` The answer; beside it sealed memory with the account ([`super::list`]).
    Listed,
}

impl Denial {
    /// What stands in the note, where one that is older has zeros.
    fn code(self) -> u32 {
        match self {
            Denial::Unsaid => 0,
            Denial::User => 1,
            Denial::Edge => 2,
        }
    }

    fn of(code: u32) -> Denial {
        match code {
            1 => Denial::User,
            2 => Denial::Edge,
            _ => Denial::Unsaid,
        }
    }
}

impl Note {
    /// As a packet.
    pub fn encode(self) -> [u8; LEN] {
        let at = |a: Addr| u32::from(a.nid) << 16 | u32::from(a.dpid);
        let (kind, link, a, b) = match self {
            Note::Attach { link, from, to } => (1, link, at(from), at(to)),
            Note::Attached { link, knows } => (2, link, knows, 0),
            Note::Pool { link } => (3, link, 0, 0),
            Note::Gone { link } => (4, link, 0, 0),
            Note::Denied { link, why } => (5, link, why.code(), 0),
            Note::Room { link } => (6, link, 0, 0),
            Note::Rest { link } => (6, link, 1, 0),
            Note::Detach { link } => (7, link, 0, 0),
            Note::Ask { dpid, serial } => (8, 0, u32::from(dpid), serial),
            Note::Answer { open } => (9, 0, u32::from(open), 0),
            Note::List => (10, 0, 0, 0),
            Note::Listed => (11, 0, 0, 0),
            Note::Longer { link } => (12, link, 0, 0),
            Note::Unreachable { link } => (13, link, 0, 0),
            Note::Route { link, code } => (14, link, (code >> 32) as u32, code as u32),
            Note::Raw { link } => (15, link, 0, 0),
        };
        let mut out = [0; LEN];
        out[..4].copy_from_slice(&[b'D', b'P', VERSION, kind]);
        out[4..8].copy_from_slice(&link.to_ne_bytes());
        out[8..12].copy_from_slice(&a.to_ne_bytes());
        out[12..].copy_from_slice(&b.to_ne_bytes());
        out
    }

    /// From a packet; `None` for anything that is none of this version.
    pub fn decode(bytes: &[u8]) -> Option<Note> {
        let bytes: &[u8; LEN] = bytes.try_into().ok()?;
        let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let (link, a, b) = (word(4), word(8), word(12));
        if bytes[..3] != [b'D', b'P', VERSION] {
            return None;
        }
        let dpid = |n: u32| Dpid::try_from(n).ok().filter(|d| *d > 0);
        Some(match bytes[3] {
            1 => {
                let addr = |n: u32| Addr { nid: (n >> 16) as u16, dpid: n as u16 };
                let to = Some(addr(b)).filter(|to| to.dpid > 0)?;
                Note::Attach { link, from: addr(a), to }
            }
            2 => Note::Attached { link, knows: a },
            3 => Note::Pool { link },
            4 => Note::Gone { link },
            5 => Note::Denied { link, why: Denial::of(a) },
            6 if a == 1 => Note::Rest { link },
            6 => Note::Room { link },
            7 => Note::Detach { link },
            8 => Note::Ask { dpid: dpid(a)?, serial: b },
            9 => Note::Answer { open: a != 0 },
            10 => Note::List,
            11 => Note::Listed,
            12 => Note::Longer { link },
            13 => Note::Unreachable { link },
            14 => Note::Route { link, code: u64::from(a) << 32 | u64::from(b) },
            15 => Note::Raw { link },
            _ => return None,
        })
    }
}

/// Before what a library puts on its own pair: what it is, and where it goes.
///
/// The endpoint's key tells it from a program's plain write, which could say the rest. A descriptor beside it would,
/// too, but those are few: in flight they are counted for all processes of a user together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Envelope {
    /// The endpoint's key.
    pub key: u64,
    /// The destination.
    pub to: Addr,
    /// What is in it.
    pub what: Inside,
    /// What comes beside the message.
    pub beside: Beside,
}

/// What is behind an [`Envelope`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inside {
    /// A message.
    Message,
    /// Padding; the message is the memory beside it.
    OutOfLine,
    /// Nothing: from here on plain writes go to this destination.
    Target,
}

/// Bytes of an envelope, at least, and at most: a message that names a route has more beside it.
pub const ENVELOPE: usize = 24;
/// As above.
pub const ENVELOPE_MOST: usize = BEFORE + ROUTED;
/// Bytes of it before what comes beside the message, for which there is always room for an immediate.
const BEFORE: usize = 16;

impl Envelope {
    /// As bytes: the first `.1` of `.0`.
    pub fn encode(self) -> ([u8; ENVELOPE_MOST], usize) {
        let mut out = [0; ENVELOPE_MOST];
        let (beside, len) = self.beside.encode();
        out[..4].copy_from_slice(match (self.what, len) {
            (Inside::Message, 0) => b"DPto",
            (Inside::Message, IMMEDIATE) => b"DPti",
            (Inside::Message, _) => b"DPtr",
            (Inside::OutOfLine, 0) => b"DPaw",
            (Inside::OutOfLine, IMMEDIATE) => b"DPai",
            (Inside::OutOfLine, _) => b"DPar",
            (Inside::Target, _) => b"DPrt",
        });
        out[4..6].copy_from_slice(&self.to.nid.to_ne_bytes());
        out[6..8].copy_from_slice(&self.to.dpid.to_ne_bytes());
        out[8..16].copy_from_slice(&self.key.to_ne_bytes());
        out[BEFORE..BEFORE + len].copy_from_slice(&beside[..len]);
        (out, (BEFORE + len).max(ENVELOPE))
    }

    /// From the start of a packet of the endpoint with this key; and how many bytes of it that is.
    pub fn decode(bytes: &[u8], key: u64) -> Option<(Envelope, usize)> {
        let (what, len) = match bytes.get(..4)? {
            b"DPto" => (Inside::Message, 0),
            b"DPti" => (Inside::Message, IMMEDIATE),
            b"DPtr" => (Inside::Message, ROUTED),
            b"DPaw" => (Inside::OutOfLine, 0),
            b"DPai" => (Inside::OutOfLine, IMMEDIATE),
            b"DPar" => (Inside::OutOfLine, ROUTED),
            b"DPrt" => (Inside::Target, 0),
            _ => return None,
        };
        let bytes = bytes.get(..(BEFORE + len).max(ENVELOPE))?;
        let word = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let to = Addr { nid: word(4), dpid: word(6) };
        let beside = Beside::decode(&bytes[BEFORE..BEFORE + len])?;
        (double(bytes, 8) == key).then_some((Envelope { key, to, what, beside }, bytes.len()))
    }
}

/// The eight bytes at `at`.
fn double(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(word)
}

/// The packet beside a message out of line: which token it belongs to, zeros where there is no edge, and packets are the
/// order; and what comes beside the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutOfLinePacket {
    /// The edge's key.
    pub key: u64,
    /// The number in its token.
    pub number: u64,
    /// What comes beside the message.
    pub beside: Beside,
}

/// Bytes of it before what comes beside the message.
const OUT_OF_LINE: usize = 20;

impl OutOfLinePacket {
    /// As bytes: the first `.1` of `.0`.
    pub fn encode(self) -> ([u8; OUT_OF_LINE + ROUTED], usize) {
        let mut out = [0; OUT_OF_LINE + ROUTED];
        let (beside, len) = self.beside.encode();
        out[..4].copy_from_slice(b"DPfr");
        out[4..12].copy_from_slice(&self.key.to_ne_bytes());
        out[12..20].copy_from_slice(&self.number.to_ne_bytes());
        out[OUT_OF_LINE..].copy_from_slice(&beside);
        (out, OUT_OF_LINE + len)
    }

    /// Whether it is beside no edge's token.
    pub fn has_no_edge(self) -> bool {
        (self.key, self.number) == (0, 0)
    }

    /// From a packet.
    pub fn decode(bytes: &[u8]) -> Option<OutOfLinePacket> {
        let (bytes, beside) = bytes.split_at_checked(OUT_OF_LINE)?;
        let beside = Beside::decode(beside)?;
        (&bytes[..4] == b"DPfr").then(|| OutOfLinePacket {
            key: double(bytes, 4),
            number: double(bytes, 12),
            beside,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_come_out_as_they_went_in() {
        let from = Addr { nid: 65535, dpid: 1024 };
        for note in [
            Note::Attach { link: 7, from, to: Addr::local(65535) },
            Note::Attach { link: 7, from, to: Addr { nid: 65535, dpid: 1 } },
            Note::Unreachable { link: 8 },
            Note::Attached { link: u32::MAX, knows: IMMEDIATES },
            Note::Pool { link: 1 },
            Note::Gone { link: 2 },
            Note::Denied { link: 3, why: Denial::User },
            Note::Denied { link: 3, why: Denial::Edge },
            Note::Denied { link: 3, why: Denial::Unsaid },
            Note::Room { link: 4 },
            Note::Rest { link: 9 },
            Note::Route { link: 10, code: u64::MAX - 7 },
            Note::Raw { link: 11 },
            Note::Detach { link: 5 },
            Note::Ask { dpid: 1, serial: u32::MAX },
            Note::Answer { open: true },
            Note::Answer { open: false },
            Note::List,
            Note::Listed,
            Note::Longer { link: 6 },
        ] {
            assert_eq!(Note::decode(&note.encode()), Some(note));
        }
        let immediates = [None, Some(0), Some(u64::MAX - 2)];
        let all = immediates.map(|immediate| [0, 7].map(|route| Beside { immediate, route }));
        for beside in all.into_iter().flatten() {
            for what in [Inside::Message, Inside::OutOfLine] {
                let envelope = Envelope { key: 1 << 63, to: from, what, beside };
                let (bytes, len) = envelope.encode();
                assert_eq!(Envelope::decode(&bytes[..len], 1 << 63), Some((envelope, len)));
                assert_eq!(Envelope::decode(&bytes[..len], 1 << 62), None);
                assert_eq!(Envelope::decode(&bytes[..len - 1], 1 << 63), None);
            }
            let packet = OutOfLinePacket { key: u64::MAX - 1, number: 7, beside };
            let (bytes, len) = packet.encode();
            assert_eq!(OutOfLinePacket::decode(&bytes[..len]), Some(packet));
            assert_eq!(OutOfLinePacket::decode(&bytes[..len - 1]), None);
        }
        let envelope = Envelope { key: 1, to: from, what: Inside::Target, beside: Beside::default() };
        let (bytes, len) = envelope.encode();
        assert_eq!(Envelope::decode(&bytes[..len], 1), Some((envelope, ENVELOPE)));
    }

    #[test]
    fn what_is_no_note_is_refused() {
        let good = Note::Attach { link: 1, from: Addr::local(2), to: Addr::local(3) }.encode();
        assert_eq!(Note::decode(&good[..15]), None);
        assert_eq!(Note::decode(&[]), None);
        for at in [0, 1, 2] {
            let mut bad = good;
            bad[at] ^= 1;
            assert_eq!(Note::decode(&bad), None, "byte {at}");
        }
        let mut bad = good;
        bad[3] = 200;
        assert_eq!(Note::decode(&bad), None, "kind");
        let mut bad = good;
        bad[12..].copy_from_slice(&0u32.to_ne_bytes());
        assert_eq!(Note::decode(&bad), None, "no endpoint has the number 0");
        assert_eq!(Envelope::decode(b"DPto", 0), None);
    }
}
