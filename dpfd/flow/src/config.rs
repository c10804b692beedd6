//! What a flow is told when it is made.

use core::fmt;

use dp_abi::frame2::PART_HEAD;

use crate::frame::Checksum;
use crate::rtt::Limits;

/// One end of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Address {
    /// The node. Not 0.
    pub nid: u16,
    /// The endpoint. Not 0.
    pub dpid: u16,
}

/// How far a receiver is: what it had taken as one incarnation of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Place {
    /// The tag that the parts of that incarnation had, so the names of both ends. Not 0.
    pub tag: u32,
    /// The next number that was not taken.
    pub taken: u32,
}

/// The link that frames leave by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Link {
    /// Its speed, bytes in a second.
    pub speed: u64,
    /// What it carries around each frame, bytes: [`Link::ETHERNET`], and 28 more with UDP and IPv4 inside.
    pub around: u16,
}

impl Link {
    /// What Ethernet carries around a frame: preamble, header, checksum and the gap between two. Taken where nobody says anything else.
    pub const ETHERNET: u16 = 38;
}

/// What a flow is told when it is made. Both ends need not be told the same.
#[derive(Clone, Copy, Debug, Hash)]
pub struct Config {
    /// This end.
    pub from: Address,
    /// The other end.
    pub to: Address,
    /// The user who opened this end: a claim, which the route may map or refuse.
    pub user: u32,
    /// Sets this incarnation of this end apart from all earlier ones, so that their frames are recognised. Random: two
    /// that are near one another are as good as two that are not.
    pub incarnation: u32,
    /// The first part's number in each incarnation. Any; 0 unless a test wants to see numbers wrap around.
    pub first_number: u32,
    /// The longest part that is sent or taken, bytes: what the route carries less
    /// [`HEADER`](dp_abi::frame2::HEADER) and [`PART_HEAD`]. 1 to 65523; 1400 fits Ethernet and UDP over IPv6. The
    /// most that [`Flow::set_part_max`](crate::Flow::set_part_max) can say later; with several routes it is that of the shortest
    /// frames.
    pub part_max: u16,
    /// The link at whose speed frames are paced, until [`Flow::set_link`](crate::Flow::set_link) says another; nothing: it is
    /// learned from what is acknowledged, if `share` is on, else frames leave as fast as the other end takes them.
    pub link: Option<Link>,
    /// Whether losses on a crowded link slow this end down, so that several senders share it. On.
    pub share: bool,
    /// An idle flow asks whether the peer is there after this time, nanoseconds; 0: never. 1 s.
    pub keepalive: u64,
    /// A peer that was asked three times and not heard of for so long is dead, nanoseconds. 5 s.
    pub dead_after: u64,
    /// An acknowledgement waits for so long, nanoseconds, five times as long where the last ones were each taken along by a part that
    /// went back, ...
    pub ack_delay: u64,
    /// ... or for so many parts, 1 to 255. 100 µs and 4: the sender's window is never empty for it, and what goes back
    /// meanwhile takes it along.
    pub ack_every: u8,
    /// Limits of the time-out, whose least must be above five times the other end's `ack_delay`.
    pub timeout: Limits,
    /// The checksum of frames, the same at both ends; nothing: the route vouches for what it delivers.
    pub checksum: Option<Checksum>,
    /// The shortest time in which anything was answered on this way, nanoseconds; 0: it is not known. A flow that begins on a
    /// crowded link sees no empty queue, and would take a full one for the usual: then losses slow it down less than others.
    pub shortest: u64,
    /// Where an earlier incarnation of this end was ([`Flow::place`](crate::Flow::place)), if all that it took was kept.
    /// The sender then knows what had come of what it had sent to that one.
    pub resume: Option<Place>,
}

impl Config {
    /// With the defaults that the fields name.
    pub const fn new(from: Address, to: Address, incarnation: u32, checksum: Option<Checksum>) -> Config {
        Config {
            from,
            to,
            user: 0,
            incarnation,
            first_number: 0,
            part_max: 1400,
            link: None,
            share: true,
            keepalive: 1_000_000_000,
            dead_after: 5_000_000_000,
            ack_delay: 100_000,
            ack_every: 4,
            timeout: Limits::DEFAULT,
            checksum,
            shortest: 0,
            resume: None,
        }
    }

    pub(crate) fn check(&self) -> Result<(), Invalid> {
        let named = |address: Address| address.nid != 0 && address.dpid != 0;
        if !named(self.from) || !named(self.to) {
            return Err(Invalid::Address);
        }
        if self.part_max == 0 || usize::from(self.part_max) + PART_HEAD > usize::from(u16::MAX) {
            return Err(Invalid::PartMax);
        }
        Ok(())
    }
}

/// Why a flow cannot be made like that.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Invalid {
    /// A node or an endpoint is 0.
    Address,
    /// `part_max` is 0 or above 65523.
    PartMax,
    /// The memory holds no part of `part_max` bytes.
    Memory,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Invalid::Address => "a node or an endpoint is 0",
            Invalid::PartMax => "parts must be 1 to 65523 bytes long",
            Invalid::Memory => "the memory holds no part",
        })
    }
}

impl core::error::Error for Invalid {}
