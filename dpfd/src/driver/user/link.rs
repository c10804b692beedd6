//! The way from one endpoint to one destination.
//!
//! A link starts out as *queued*: what is sent goes through the endpoint's own pair, and the service takes it
//! on. Once the service has found the destination and nothing of the link is queued any more, it becomes
//! *direct*: onto the receiver's descriptor while that is read plainly, into an edge once it has a pool. A
//! direct way that is full is left again, so a sender always waits in the kernel, where poll can see it (U4).

use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use super::note::OutOfLinePacket;
use super::sending::Wakers;
use crate::addr::Addr;
use crate::edge::arm::Due;
use crate::edge::inbox::Doorbell;
use crate::edge::message::{self, Content};
use crate::edge::parts::Parts;
use crate::edge::segment::Segment;
use dp_edge::ring::{Pos, Tail};

use crate::pool::budget::LONGER;
use dp_edge::sync::Ordering;
use dp_edge::sys::{process, unix};

/// An edge, its sender's side.
#[derive(Debug)]
pub struct OutEdge {
    segment: Segment,
    tail: Tail,
    /// Messages since it was looked around, and where the tail was then.
    turn: u8,
    lap: Pos,
    /// What the receiver knows this edge by, on its descriptor.
    key: u64,
    /// The number of the last out-of-line message, and the position behind it.
    out_of_line: (u64, Pos),
    /// How often it was too short since that was said.
    short: u32,
    /// When everything sent to the destination comes to so many bytes, that may be said, and how many more it is the next
    /// time: nobody answers who has no longer one.
    say_at: (u64, u64),
}

/// How often an edge is too short before its sender says so. It must have sent as much, too, as is in a longer one: whoever
/// sends little never has one.
const OFTEN: u32 = 16;

/// Lines in a turn of 256 messages of 8 KiB on average, and how often they go through an edge that is too short for them,
/// though it may never be full: they come back into a cache that is too small for them.
const LONG: u64 = (256 * 8192 / dp_edge::ring::LINE) as u64;
const LAPS: u64 = 16;

/// Where the messages of a link go now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Path {
    /// Through the endpoint's own pair.
    Queued,
    /// To the receiver, from the calling thread.
    Direct,
}

/// A message the service holds.
#[derive(Debug)]
pub struct Queued {
    /// The message.
    pub body: Body,
    /// What goes beside it.
    pub immediate: Option<u64>,
}

/// Where such a message lies.
#[derive(Debug)]
pub enum Body {
    /// Its bytes.
    Bytes(Vec<u8>),
    /// Sealed memory ([`crate::edge::out_of_line`]).
    OutOfLine(OwnedFd),
}

/// What the service knows of the destination.
#[derive(Debug)]
pub enum Destination {
    /// Not found yet, or gone.
    Unknown,
    /// Its descriptor's other end; it reads plainly.
    Plain(Arc<OwnedFd>),
    /// It has a pool.
    Pool {
        /// Its descriptor's other end, for bells.
        back: Arc<OwnedFd>,
        /// Whether it sleeps.
        bell: Doorbell,
        /// The edge; none when the pool has none left.
        edge: Option<OutEdge>,
    },
}

/// How a delivery ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// It is with the receiver.
    Done,
    /// No room in the edge: its receiver says when there is.
    Full,
    /// No room on the descriptor: the kernel says when there is.
    Busy,
    /// The kernel, or this process, is short of something; nobody says when that is over.
    Short,
    /// There is no way for it yet: the receiver is not found, has no pool, which alone could take it, or knows no immediates.
    NoWay,
    /// Too long for this way; the limit.
    TooLong(usize),
    /// The receiver is gone.
    Gone,
}

/// Why a destination does not let us in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// It belongs to a user who does not.
    User,
    /// It is on a node to which the gateway knows no route.
    Node,
}

/// A link.
#[derive(Debug)]
pub struct Link {
    /// The destination.
    pub to: Addr,
    /// Where messages go.
    pub path: Path,
    /// How the destination is reached.
    pub destination: Destination,
    /// Messages in the endpoint's pair that belong to this link, or in its backlog.
    pub queued: u32,
    /// Messages the service took and could not deliver yet.
    pub backlog: VecDeque<Queued>,
    /// Since when the receiver is known and reads plainly, ns; 0: not known.
    pub plain_since: u64,
    /// Nothing is taken there from us, as far as is known.
    pub refused: Option<Refused>,
    /// The destination's library knows immediates.
    pub knows_immediates: bool,
    /// Messages and bytes delivered.
    pub sent: (u64, u64),
    /// Futures that wait to send.
    pub wakers: Wakers,
}

impl Queued {
    /// Bytes it takes of the service's memory; a descriptor is worth some, too.
    pub fn bytes(&self) -> usize {
        match &self.body {
            Body::Bytes(bytes) => bytes.len(),
            Body::OutOfLine(_) => 32 * 1024,
        }
    }
}

impl Link {
    /// A link to `to`.
    pub fn new(to: Addr) -> Link {
        Link {
            to,
            path: Path::Queued,
            destination: Destination::Unknown,
            queued: 0,
            backlog: VecDeque::new(),
            plain_since: 0,
            refused: None,
            knows_immediates: false,
            sent: (0, 0),
            wakers: Wakers::default(),
        }
    }

    /// Whether messages go to the receiver from here. A way that was full is tried again as soon as nothing of the
    /// link is queued any more: order holds, and a pair full of messages for others is not in the way.
    pub fn try_direct(&mut self) -> bool {
        if self.queued == 0 && !matches!(self.destination, Destination::Unknown) {
            self.path = Path::Direct;
        }
        self.path == Path::Direct
    }

    /// The destination is gone.
    pub fn unlink(&mut self) {
        self.destination = Destination::Unknown;
        self.path = Path::Queued;
        self.plain_since = 0;
    }

    /// Whether the destination is found, and is one to which no immediate is sent.
    pub fn refuses_immediates(&self) -> bool {
        !self.knows_immediates && !matches!(self.destination, Destination::Unknown)
    }

    /// Whether there is an edge, whose receiver tells of room in it.
    pub fn has_edge(&self) -> bool {
        matches!(self.destination, Destination::Pool { edge: Some(_), .. })
    }

    /// The destination's descriptor's other end.
    pub fn back(&self) -> Option<Arc<OwnedFd>> {
        match &self.destination {
            Destination::Unknown => None,
            Destination::Plain(back) | Destination::Pool { back, .. } => Some(back.clone()),
        }
    }

    /// The destination has a pool: its inbox, and perhaps an edge.
    pub fn pooled(&mut self, back: Arc<OwnedFd>, bell: Doorbell, edge: Option<Segment>) {
        let edge = edge.map(|segment| OutEdge {
            key: segment.key(),
            segment,
            tail: Tail::default(),
            // The first message says where we run.
            turn: u8::MAX,
            lap: Pos::default(),
            out_of_line: (0, Pos::default()),
            short: 0,
            say_at: (self.sent.1 + LONGER as u64, 2 * LONGER as u64),
        });
        // The same page, whichever edge: for what it rang once it must not ring again.
        let bell = match core::mem::replace(&mut self.destination, Destination::Unknown) {
            Destination::Pool { bell, .. } => bell,
            _ => bell,
        };
        self.destination = Destination::Pool { back, bell, edge };
    }

    /// Hands one message to the receiver over the edge: the light-weight call. False where there is none, or no room, or
    /// now and then something else to be done, by whoever takes the long way.
    #[inline(always)]
    pub fn deliver_soon(&mut self, msg: impl Content) -> bool {
        let Destination::Pool { edge: Some(edge), .. } = &mut self.destination else { return false };
        (!msg.has_immediate() || self.knows_immediates)
            && !edge.outgrown()
            && self.deliver_edge(msg) == Some(Delivery::Done)
    }

    #[inline(always)]
    fn deliver_edge(&mut self, msg: impl Content) -> Option<Delivery> {
        let Destination::Pool { back, bell, edge: Some(edge) } = &mut self.destination else { return None };
        let delivery = edge.send(&msg);
        if delivery == Delivery::Done {
            self.sent = (self.sent.0 + 1, self.sent.1 + msg.size() as u64);
            let owed = bell.owed();
            if owed != Due::Nothing {
                edge.tell(owed, back, bell);
            }
        }
        Some(delivery)
    }

    /// Hands one message to the receiver, without waiting. `tag` says who sends, and what goes beside the message, where no
    /// edge does ([`super::endpoint::UserEndpoint::tag_for`]).
    pub fn deliver(&mut self, msg: &Parts<'_>, tag: &OwnedFd) -> Delivery {
        if msg.immediate().is_some() && !self.knows_immediates {
            return Delivery::NoWay;
        }
        if let Destination::Pool { edge: Some(edge), .. } = &mut self.destination {
            edge.outgrown();
        }
        self.deliver_edge(msg).unwrap_or_else(|| self.deliver_plain(msg, tag))
    }

    /// Hands over a message out of line: the packet first, then the token that keeps its place. One at
    /// a time: what a sender has out of line is not bounded by the pool.
    pub fn deliver_out_of_line(
        &mut self,
        memory: &OwnedFd,
        immediate: Option<u64>,
        tag: &OwnedFd,
    ) -> Delivery {
        if immediate.is_some() && !self.knows_immediates {
            return Delivery::NoWay;
        }
        let Destination::Pool { back, bell, edge } = &mut self.destination else { return Delivery::NoWay };
        let Ok(meta) = nix::sys::stat::fstat(memory) else { return Delivery::Short };
        let mut packet = OutOfLinePacket { immediate, ..OutOfLinePacket::default() };
        if let Some(edge) = edge {
            let (count, cursor) = (edge.count(), &edge.segment.rx().cursor);
            if edge.tail.refresh(cursor).is_err() {
                return Delivery::Gone;
            }
            let unread = edge.tail.pos.since(edge.tail.seen);
            if unread > 0 && edge.tail.pos.since(edge.out_of_line.1) < unread || edge.tail.free(count) == 0 {
                return Delivery::Full;
            }
            packet = OutOfLinePacket { key: edge.key, number: edge.out_of_line.0 + 1, immediate };
        }
        let (bytes, len) = packet.encode();
        let sent = unix::send(
            back.as_raw_fd(),
            &[IoSlice::new(&bytes[..len])],
            &[tag.as_fd(), memory.as_fd()],
            libc::MSG_DONTWAIT,
        );
        if let Err(e) = sent {
            return refused(e, back);
        }
        if let Some(edge) = edge {
            let rx = edge.segment.rx();
            let token =
                message::send_out_of_line(&edge.segment.lines(), &mut edge.tail, &rx.cursor, packet.number);
            if token.is_err() {
                return Delivery::Gone;
            }
            edge.out_of_line = (packet.number, edge.tail.pos);
            edge.short = edge.short.saturating_add(u32::from((meta.st_size as usize) < LONGER));
            edge.tell(bell.owed(), back, bell);
        }
        self.sent = (self.sent.0 + 1, self.sent.1 + meta.st_size as u64);
        Delivery::Done
    }

    fn deliver_plain(&mut self, msg: &Parts<'_>, tag: &OwnedFd) -> Delivery {
        let (Destination::Plain(back) | Destination::Pool { back, .. }) = &self.destination else {
            return Delivery::NoWay;
        };
        match unix::send(back.as_raw_fd(), msg.pieces(), &[tag.as_fd()], libc::MSG_DONTWAIT) {
            Ok(_) => {
                self.sent = (self.sent.0 + 1, self.sent.1 + msg.len() as u64);
                Delivery::Done
            }
            Err(e) => refused(e, back),
        }
    }

    /// Says that room is wanted; true when there was some after all, so that another try is worth it.
    pub fn want_room(&mut self) -> bool {
        let Destination::Pool { edge: Some(edge), .. } = &mut self.destination else { return false };
        edge.segment.space().want();
        let before = edge.tail.seen;
        edge.tail.refresh(&edge.segment.rx().cursor).is_err() || edge.tail.seen != before
    }

    /// The edge was full, for a sender that does not wait, or whose receiver keeps up.
    pub fn count_short(&mut self) {
        if let Destination::Pool { edge: Some(edge), .. } = &mut self.destination {
            edge.short = edge.short.saturating_add(1);
        }
    }

    /// Whether it is time to ask for a longer one; then not again for long.
    pub fn asks_for_longer(&mut self) -> bool {
        let Destination::Pool { edge: Some(edge), .. } = &mut self.destination else { return false };
        let (at, more) = edge.say_at;
        let asks = edge.short >= OFTEN && self.sent.1 >= at;
        if asks {
            (edge.short, edge.say_at) = (0, (self.sent.1.saturating_add(more), more.saturating_mul(2)));
        }
        asks
    }

    /// Messages that went there as memory of their own.
    #[cfg(test)]
    pub fn out_of_line(&self) -> u64 {
        let Destination::Pool { edge: Some(edge), .. } = &self.destination else { return 0 };
        edge.out_of_line.0
    }

    /// Looks for room for a moment, while the receiver goes on taking. Only where that can be on another CPU.
    pub fn look_for_room(&mut self, ns: u64) -> bool {
        let Destination::Pool { edge: Some(edge), .. } = &mut self.destination else { return false };
        edge.here();
        let rx = edge.segment.rx();
        let theirs = rx.cpu.load(Ordering::Relaxed);
        if theirs == 0 || theirs == process::cpu() {
            return false;
        }
        let before = rx.cursor.load(Ordering::Relaxed);
        process::spin_for(ns, || rx.cursor.load(Ordering::Relaxed) != before)
    }
}

impl OutEdge {
    /// One more message is tried. Whether it is seen just now that the edge is too short for such.
    #[inline(always)]
    fn outgrown(&mut self) -> bool {
        self.turn = self.turn.wrapping_add(1);
        self.turn == 0 && self.look_around()
    }

    #[cold]
    fn look_around(&mut self) -> bool {
        self.here();
        let lines = self.tail.pos.since(core::mem::replace(&mut self.lap, self.tail.pos));
        let short = lines >= LONG.max(LAPS * self.count());
        if short {
            self.short = self.short.max(OFTEN);
        }
        short
    }

    #[inline(always)]
    fn send(&mut self, msg: &impl Content) -> Delivery {
        let rx = self.segment.rx();
        match msg.send_over(&self.segment.lines(), &mut self.tail, &rx.cursor) {
            Ok(()) => Delivery::Done,
            Err(dp_edge::Error::Full) => Delivery::Full,
            Err(dp_edge::Error::TooLong(limit)) => Delivery::TooLong(limit),
            Err(_) => Delivery::Gone,
        }
    }

    /// Tells the receiver where this sender runs: whether looking pays.
    fn here(&self) {
        let (mine, told) = (process::cpu(), &self.segment.tx().cpu);
        if told.load(Ordering::Relaxed) != mine {
            told.store(mine, Ordering::Relaxed);
        }
    }

    /// The receiver sleeps, and is told of what it was sent.
    #[cold]
    fn tell(&self, owed: Due, back: &OwnedFd, bell: &mut Doorbell) {
        match owed {
            Due::Nothing => return,
            Due::Futex => self.segment.event_count().notify(),
            Due::Bell if !ring(back) => bell.not_rung(),
            Due::Bell => {}
        }
        self.here();
    }

    fn count(&self) -> u64 {
        (self.segment.ring_len() / dp_edge::ring::LINE) as u64
    }
}

/// What it means that the kernel did not take a packet.
fn refused(errno: i32, back: &OwnedFd) -> Delivery {
    match errno {
        libc::EAGAIN | libc::EINTR => Delivery::Busy,
        // Descriptors in flight are limited for all processes of a user, and come back as their receivers read.
        libc::ENOBUFS | libc::ENOMEM | libc::ETOOMANYREFS => Delivery::Short,
        libc::EMSGSIZE => Delivery::TooLong(plain_limit(back)),
        _ => Delivery::Gone,
    }
}

/// One bell: an empty packet. Whether there is one now: where there is no room for it, another packet is.
#[cold]
pub fn ring(back: &OwnedFd) -> bool {
    matches!(unix::send(back.as_raw_fd(), &[], &[], libc::MSG_DONTWAIT), Ok(_) | Err(libc::EAGAIN))
}

/// The longest packet the kernel takes at once.
pub fn plain_limit(fd: &OwnedFd) -> usize {
    let size =
        dp_edge::sys::raw::getsockopt_int(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_SNDBUF).unwrap_or(0);
    // unix(7) keeps 32 bytes of it for itself.
    (size.max(32) - 32) as usize
}

#[cfg(test)]
mod tests;
