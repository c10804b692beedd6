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
use std::task::Waker;

use super::note::OutOfLinePacket;
use super::out_edge::OutEdge;
use super::packet::{plain_limit, refused, takes_more, Delivery};
use super::wakers::{Until, Wakers};
use crate::addr::Addr;
use crate::edge::arm::Due;
use crate::edge::beside::Beside;
use crate::edge::inbox::Doorbell;
use crate::edge::message::Content;
use crate::edge::parts::Parts;
use crate::edge::segment::Segment;
use dp_edge::sys::unix;

/// Messages that go to a pool without an edge, each of which takes several calls of the kernel, before one is asked for; each
/// time in vain twice as many.
const WITHOUT_EDGE: (u32, u32) = (0, 16);

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
    pub beside: Beside,
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

/// Why a destination does not let us in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// It belongs to a user who does not.
    User,
    /// It is on another node, and the gateway of this one belongs to such a user.
    Gateway,
    /// The gateway's graph is strict, and has no such edge.
    Edge,
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
    /// Messages that were sent there, or waited to be, when it ceased to be the endpoint's target.
    pub former: Option<u64>,
    /// The destination's library knows immediates.
    pub knows_immediates: bool,
    /// It is a gateway's that is told by which routes messages are to go.
    pub knows_routes: bool,
    /// It is a gateway's that is told what goes raw.
    pub knows_raw: bool,
    /// The service looks for its destination, or has found it. It does not where the destination ended and nothing waits for the
    /// next one: whoever answers many that end would look for all of them for ever.
    pub wanted: bool,
    /// Its receiver is to be let go of ([`super::note::Note::Rest`]): what is sent waits here until all that went there is released.
    pub rests: bool,
    /// It leads to a proxy in this process, whose gateway the sender steps (N18).
    pub inside: bool,
    /// Messages and bytes delivered.
    pub sent: (u64, u64),
    /// Messages that went to its pool without an edge, and with how many of them one is asked for.
    without_edge: (u32, u32),
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
            former: None,
            knows_immediates: false,
            knows_routes: false,
            knows_raw: false,
            // It is made for a message that is to go there.
            wanted: true,
            rests: false,
            inside: false,
            sent: (0, 0),
            without_edge: WITHOUT_EDGE,
            wakers: Wakers::default(),
        }
    }

    /// Whether messages go to the receiver from here. A way that was full is tried again as soon as nothing of the
    /// link is queued any more: order holds, and a pair full of messages for others is not in the way.
    pub fn try_direct(&mut self) -> bool {
        if self.queued == 0 && !self.rests && !matches!(self.destination, Destination::Unknown) {
            self.path = Path::Direct;
        }
        self.path == Path::Direct
    }

    /// The destination is gone.
    pub fn unlink(&mut self) {
        self.destination = Destination::Unknown;
        self.path = Path::Queued;
        self.plain_since = 0;
        self.without_edge = WITHOUT_EDGE;
        (self.wanted, self.rests, self.inside) = (false, false, false);
    }

    /// Whether the service is to look for the destination, which it does not: it is told that once.
    pub fn is_to_be_found(&mut self) -> bool {
        matches!(self.destination, Destination::Unknown) && !core::mem::replace(&mut self.wanted, true)
    }

    /// Whether the next message that the service takes for this link is tried at once: the destination is there, and no earlier one
    /// waits for room.
    pub fn is_free(&self) -> bool {
        !matches!(self.destination, Destination::Unknown) && !self.rests && self.backlog.is_empty()
    }

    /// Whether something waits here for a destination.
    pub fn waits(&self) -> bool {
        self.queued > 0 || !self.wakers.is_empty()
    }

    /// Nothing more is sent there: it waits until what went there is released ([`Link::is_released`]).
    pub fn rest(&mut self) {
        self.rests = true;
        self.path = Path::Queued;
    }

    /// Whether the destination is found, and is one to which no immediate is sent.
    pub fn refuses_immediates(&self) -> bool {
        !self.knows_immediates && !matches!(self.destination, Destination::Unknown)
    }

    /// What goes beside a message there: a route only to a gateway that knows such.
    pub fn known(&self, beside: Beside) -> Beside {
        Beside { route: if self.knows_routes { beside.route } else { 0 }, ..beside }
    }

    /// The same, where it is the tag that says it: an edge has it with the message.
    pub fn tagged(&self, beside: Beside) -> Beside {
        if self.has_edge() {
            Beside::default()
        } else {
            self.known(beside)
        }
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
        // The same page, whichever edge: for what it rang once it must not ring again.
        let (bell, former) = match core::mem::replace(&mut self.destination, Destination::Unknown) {
            Destination::Pool { bell, edge, .. } => (bell, edge),
            _ => (bell, None),
        };
        let edge = edge.map(|segment| OutEdge::new(segment, self.sent.1, former));
        self.destination = Destination::Pool { back, bell, edge };
    }

    /// Hands one message to the receiver over the edge: the light-weight call. False where there is none, or no room, or
    /// now and then something else to be done, by whoever takes the long way. Of a link that is [`Link::inside`] nobody is told:
    /// the caller steps.
    #[inline(always)]
    pub fn deliver_soon(&mut self, msg: impl Content) -> bool {
        let Destination::Pool { edge: Some(edge), .. } = &mut self.destination else { return false };
        (!msg.has_immediate() || self.knows_immediates)
            && (!msg.has_route() || self.knows_routes)
            && !edge.outgrown()
            && self.deliver_edge_then(msg, || (), !self.inside) == Some(Delivery::Done)
    }

    /// Over the edge, if there is one. `published` is called once the receiver has it, before it is told, if it is to be.
    #[inline(always)]
    fn deliver_edge_then(
        &mut self,
        msg: impl Content,
        published: impl FnOnce(),
        tells: bool,
    ) -> Option<Delivery> {
        let Destination::Pool { back, bell, edge: Some(edge) } = &mut self.destination else { return None };
        let delivery = edge.send(&msg);
        if delivery == Delivery::Done {
            published();
            self.sent = (self.sent.0 + 1, self.sent.1 + msg.size() as u64);
            if tells {
                let owed = bell.owed();
                if owed != Due::Nothing {
                    edge.tell(owed, back, bell);
                }
            }
        }
        Some(delivery)
    }

    /// Hands one message to the receiver, without waiting. `tag` says who sends, and what goes beside the message, where no
    /// edge does ([`super::endpoint::UserEndpoint::tag_for`]). `published` is called once the receiver has it, before it is told.
    pub fn deliver(&mut self, msg: &Parts<'_>, tag: &OwnedFd, published: &mut dyn FnMut()) -> Delivery {
        if msg.immediate().is_some() && !self.knows_immediates {
            return Delivery::NoWay;
        }
        if let Destination::Pool { edge: Some(edge), .. } = &mut self.destination {
            edge.outgrown();
        }
        let msg = &msg.with_beside(self.known(msg.beside()));
        self.deliver_edge_then(msg, &mut *published, true).unwrap_or_else(|| {
            let delivery = self.deliver_plain(msg, tag);
            if delivery == Delivery::Done {
                published();
            }
            delivery
        })
    }

    /// Hands over a message out of line: the packet first, then the token that keeps its place. One at
    /// a time: what a sender has out of line is not bounded by the pool.
    pub fn deliver_out_of_line(
        &mut self,
        memory: &OwnedFd,
        beside: Beside,
        tag: &OwnedFd,
        published: &mut dyn FnMut(),
    ) -> Delivery {
        if beside.immediate.is_some() && !self.knows_immediates {
            return Delivery::NoWay;
        }
        let beside = self.known(beside);
        let Destination::Pool { back, bell, edge } = &mut self.destination else { return Delivery::NoWay };
        let Ok(meta) = nix::sys::stat::fstat(memory) else { return Delivery::Short };
        let mut packet = OutOfLinePacket { beside, ..OutOfLinePacket::default() };
        if let Some(edge) = edge {
            match edge.place_out_of_line(beside) {
                Ok(placed) => packet = placed,
                Err(delivery) => return delivery,
            }
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
            if edge.send_out_of_line(packet.number, meta.st_size as usize).is_err() {
                return Delivery::Gone;
            }
            published();
            edge.tell(bell.owed(), back, bell);
        } else {
            published();
            self.without_edge.0 = self.without_edge.0.saturating_add(1);
        }
        self.sent = (self.sent.0 + 1, self.sent.1 + meta.st_size as u64);
        Delivery::Done
    }

    /// Whether the receiver has room now for a message of so many bytes, as far as is known.
    pub fn has_room(&mut self, len: usize) -> bool {
        match &mut self.destination {
            Destination::Unknown => false,
            Destination::Plain(back) => len <= plain_limit(back) && takes_more(back),
            Destination::Pool { edge: Some(edge), .. } => edge.has_room(len),
            Destination::Pool { back, edge: None, .. } => takes_more(back),
        }
    }

    fn deliver_plain(&mut self, msg: &Parts<'_>, tag: &OwnedFd) -> Delivery {
        let (Destination::Plain(back) | Destination::Pool { back, .. }) = &self.destination else {
            return Delivery::NoWay;
        };
        match unix::send(back.as_raw_fd(), msg.pieces(), &[tag.as_fd()], libc::MSG_DONTWAIT) {
            Ok(_) => {
                let to_pool = matches!(self.destination, Destination::Pool { .. });
                self.without_edge.0 = self.without_edge.0.saturating_add(u32::from(to_pool));
                self.sent = (self.sent.0 + 1, self.sent.1 + msg.len() as u64);
                Delivery::Done
            }
            Err(e) => refused(e, back),
        }
    }

    #[inline]
    fn edge(&mut self) -> Option<&mut OutEdge> {
        match &mut self.destination {
            Destination::Pool { edge, .. } => edge.as_mut(),
            _ => None,
        }
    }

    /// Says that room is wanted; true when there was some after all, so that another try is worth it.
    pub fn want_room(&mut self) -> bool {
        self.edge().is_some_and(OutEdge::want_room)
    }

    /// The edge was full, for a sender that does not wait, or whose receiver keeps up.
    pub fn count_short(&mut self) {
        if let Some(edge) = self.edge() {
            edge.count_short();
        }
    }

    /// The edge was full, for a sender that waits and whose receiver does not keep up.
    pub fn count_slow(&mut self) {
        if let Some(edge) = self.edge() {
            edge.count_slow();
        }
    }

    /// Whether it is time to ask for a longer edge, or for one at all; then not again for long.
    pub fn asks_for_longer(&mut self) -> bool {
        let sent = self.sent.1;
        if let Some(edge) = self.edge() {
            return edge.asks_for_longer(sent);
        }
        let (count, often) = self.without_edge;
        let asks = count >= often;
        if asks {
            self.without_edge = (0, often.saturating_mul(2));
        }
        asks
    }

    /// Looks for room for a moment, while the receiver goes on taking.
    pub fn look_for_room(&mut self, ns: u64) -> bool {
        self.edge().is_some_and(|edge| edge.look_for_room(ns))
    }

    /// Messages that went there as memory of their own.
    #[cfg(test)]
    pub fn out_of_line(&self) -> u64 {
        let Destination::Pool { edge: Some(edge), .. } = &self.destination else { return 0 };
        edge.out_of_line()
    }

    /// Whether all that was sent is with its receiver for good, so that whoever sends to it next by another link overtakes
    /// nothing. What is on a descriptor is read before what is in an edge that is new; what a receiver had that is gone, nobody
    /// reads.
    pub fn is_done(&mut self) -> bool {
        self.queued == 0 && self.backlog.is_empty() && self.is_released()
    }

    /// The same of what went there, whatever waits here.
    pub fn is_released(&mut self) -> bool {
        self.edge().is_none_or(OutEdge::is_released)
    }

    /// It is not the endpoint's target any more.
    pub fn leave(&mut self) {
        self.former = Some(self.sent.0 + u64::from(self.queued));
    }

    /// Whether it was the target once, and nothing was sent there since.
    pub fn is_former(&self) -> bool {
        self.queued == 0 && self.former.is_some_and(|all| self.sent.0 <= all)
    }

    /// Whether there is news for a future that waits for this.
    pub fn has_news(&self, until: Until) -> bool {
        let direct = self.path == Path::Direct;
        self.refused.is_some()
            || match until {
                Until::Room => direct,
                Until::Direct => direct || !self.has_edge(),
                Until::Drained | Until::Later => false,
            }
    }

    /// Ends the wakers for which there is news, after the service did something for the link.
    pub fn woken(&mut self) -> Vec<Waker> {
        let mut wakers = core::mem::take(&mut self.wakers);
        let woken = wakers.end(|until| self.has_news(until));
        self.wakers = wakers;
        woken
    }
}

#[cfg(test)]
mod tests;
