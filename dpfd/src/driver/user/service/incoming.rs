//! Links of other endpoints to ours: who may send, and over what.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use super::super::door::{send_note, Sent};
use super::super::endpoint::UserEndpoint;
use super::super::list;
use super::super::note::{self, Denial, Note};
use super::super::route::{How, Wish};
use super::super::shared::{Command, Shared};
use super::{Conn, Role, Service};
use crate::addr::{Addr, Dpid};
use crate::edge::segment::Segment;
use crate::pool::budget::{Budget, Returned};
use crate::pool::in_edge::{InEdge, Longer, Sender};

/// Links that one process may have into this one.
const MOST_LINKS: usize = 1 << 16;

/// Our side of a connection from another process.
#[derive(Debug)]
pub struct Incoming {
    pub pid: i32,
    /// Its user may send to our endpoints.
    allowed: bool,
    links: HashMap<u32, Peer>,
}

/// One link to one of our endpoints.
#[derive(Debug)]
struct Peer {
    serial: u32,
    from: Addr,
    end: Arc<SenderEnd>,
    given: Given,
    /// How its messages to one of another node go.
    how: How,
}

/// What a sender has been given of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Given {
    /// Nothing: there is none, or it was not told yet.
    Nothing,
    /// It knows of the pool, and gets an edge once there is one left, or descriptors and memory for one.
    Promise,
    /// An edge.
    Edge { key: u64, len: usize },
    /// A longer one in its place, or one that it asked for, which stays as long as it is.
    Longer,
}

/// Of what an edge is a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The pool as it was made, which all senders share.
    Share,
    /// What it grows by, for those who send much.
    Grown,
}

impl Part {
    fn take(self, budget: &mut Budget) -> Option<usize> {
        match self {
            Part::Share => budget.take(),
            Part::Grown => budget.take_late(),
        }
    }

    fn returned(self, bytes: usize) -> Returned {
        match self {
            Part::Share => Returned { shares: bytes, grown: 0 },
            Part::Grown => Returned { shares: 0, grown: bytes },
        }
    }
}

/// What the receiver's edge knows of its sender.
#[derive(Debug)]
pub struct SenderEnd {
    process: Arc<Shared>,
    conn: u32,
    fd: Arc<OwnedFd>,
    link: u32,
    gone: AtomicBool,
    /// The service has a note of room for it that is not sent yet: one is as good as many.
    owed: AtomicBool,
}

impl SenderEnd {
    fn new(process: Arc<Shared>, conn: u32, fd: Arc<OwnedFd>, link: u32) -> SenderEnd {
        let (gone, owed) = (AtomicBool::new(false), AtomicBool::new(false));
        SenderEnd { process, conn, fd, link, gone, owed }
    }
}

impl Sender for SenderEnd {
    fn room(&self) {
        let note = Note::Room { link: self.link };
        if send_note(&self.fd, note, &[]) != Sent::Done && !self.owed.swap(true, Ordering::AcqRel) {
            self.process.command(Command::Room(self.conn, self.link));
        }
    }
    fn gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }
}

impl Incoming {
    pub fn new(pid: i32, allowed: bool) -> Incoming {
        Incoming { pid, allowed, links: HashMap::new() }
    }
    pub fn is_idle(&self) -> bool {
        self.links.is_empty()
    }
    /// Said before the note is sent: what is given back behind it needs another one.
    pub fn room_is_told(&self, link: u32) {
        if let Some(peer) = self.links.get(&link) {
            peer.end.owed.store(false, Ordering::Release);
        }
    }
}

impl Service {
    /// What a sender's process says.
    pub fn hear(&mut self, number: u32, note: Note) {
        match note {
            Note::Attach { link, from, to } => self.attach_from(number, link, from, to),
            Note::Longer { link } => self.outgrown_from(number, link),
            Note::Detach { link } => self.unlink_from(number, link),
            Note::Route { link, code } => self.go_like(number, link, |how| how.route = code),
            Note::Raw { link } => self.go_like(number, link, |how| how.raw = true),
            Note::Ask { dpid, serial } => {
                let open = self.is_open(dpid, serial);
                self.tell(number, Note::Answer { open }, &[]);
            }
            Note::List => self.list_to(number),
            _ => self.conn_ended(number),
        }
    }

    fn list_to(&mut self, number: u32) {
        let allowed = |c: &Conn| matches!(&c.role, Role::In(incoming) if incoming.allowed);
        if !self.conns.get(&number).is_some_and(allowed) {
            self.tell(number, Note::Denied { link: 0, why: Denial::User }, &[]);
            return;
        }
        // Without memory there is no answer: the other side waits for it only a moment.
        if let Ok(memory) = list::account(&self.process) {
            self.tell(number, Note::Listed, &[memory.as_fd()]);
        }
    }

    fn is_open(&mut self, dpid: Dpid, serial: u32) -> bool {
        let Some(local) = self.endpoints.get(&serial).filter(|l| l.inner.dpid == dpid) else {
            // Opened this moment, and not heard of yet.
            return self.process.is_entering(serial)
                || self.process.endpoints().iter().any(|i| i.entry.serial == serial && !i.is_closed());
        };
        if local.inner.is_closed() {
            self.retire(serial);
            return false;
        }
        true
    }

    pub fn attach_from(&mut self, number: u32, link: u32, from: Addr, to: Addr) {
        // It may have been opened since the last commands were read.
        self.obey();
        let inner = self.by_addr.get(&to).and_then(|s| self.endpoints.get(s)).map(|l| l.inner.clone());
        let process = self.process.shared.clone();
        let Some(conn) = self.conns.get_mut(&number) else { return };
        let Role::In(incoming) = &mut conn.role else { return };
        if incoming.links.len() >= MOST_LINKS {
            return self.conn_ended(number);
        }
        if to.nid != 0 && !incoming.allowed {
            // The gateway is not even asked.
            self.tell(number, Note::Denied { link, why: Denial::User }, &[]);
            return;
        }
        if to.nid != 0 && self.process.gateway().is_some_and(|asked| !asked.permits(from.dpid, to)) {
            self.tell(number, Note::Denied { link, why: Denial::Edge }, &[]);
            return;
        }
        if to.nid != 0 && self.rests {
            // It asks again, until there is another gateway.
            self.tell(number, Note::Gone { link }, &[]);
            return;
        }
        let Some(inner) = inner.filter(|i| !i.is_closed()) else {
            if to.nid == 0 || !self.ask_gateway(number, link, from, to) {
                self.tell(number, Note::Gone { link }, &[]);
            }
            return;
        };
        if !incoming.allowed {
            self.tell(number, Note::Denied { link, why: Denial::User }, &[]);
            return;
        }
        if from.nid != 0 && self.earlier.has(inner.entry.serial, from) && inner.has_unread(from) {
            if !self.hold_back(number, link, from, to) {
                // The gateway's proxy asks again.
                self.tell(number, Note::Gone { link }, &[]);
            }
            return;
        }
        let end = SenderEnd::new(process, number, conn.fd.clone(), link);
        let peer = Peer {
            serial: inner.entry.serial,
            from,
            end: Arc::new(end),
            given: Given::Nothing,
            how: How::default(),
        };
        inner.senders.fetch_add(1, Ordering::Relaxed);
        if let Some(old) = incoming.links.insert(link, peer) {
            self.sender_ended(&old);
        }
        if self.routed.has(inner.entry.serial, from) {
            // What one of that number said before is not this one's word: what it sends must not go raw for that.
            self.wish(inner.entry.serial, from, How::default(), false);
        }
        if !self.tell(number, Note::Attached { link, knows: note::ALL }, &[inner.back.as_fd()]) {
            // The sender asks again.
            self.unlink_from(number, link);
            self.tell(number, Note::Gone { link }, &[]);
            return;
        }
        if inner.inbox.get().is_some() {
            self.give_edge(number, link, &inner, Part::Share);
        }
    }

    fn unlink_from(&mut self, number: u32, link: u32) {
        self.awaiting.retain(|a| (a.conn, a.link) != (number, link));
        let Some(Conn { role: Role::In(incoming), .. }) = self.conns.get_mut(&number) else { return };
        if let Some(peer) = incoming.links.remove(&link) {
            self.sender_ended(&peer);
            self.let_go(peer.serial);
        }
    }

    /// The links to these endpoints: connection and number, each.
    pub fn links_to(&self, serials: &HashSet<u32>) -> Vec<(u32, u32)> {
        if serials.is_empty() {
            return Vec::new();
        }
        let of = |(number, conn): (&u32, &Conn)| {
            let Role::In(incoming) = &conn.role else { return Vec::new() };
            let to = incoming.links.iter().filter(|(_, peer)| serials.contains(&peer.serial));
            to.map(|(link, _)| (*number, *link)).collect()
        };
        self.conns.iter().flat_map(of).collect()
    }

    fn sender_ended(&mut self, peer: &Peer) {
        peer.end.gone.store(true, Ordering::Release);
        self.how_ended(peer.serial, peer.from, peer.how);
        if let Some(local) = self.endpoints.get(&peer.serial) {
            local.inner.senders.fetch_sub(1, Ordering::Relaxed);
        }
        self.collect(peer.serial);
    }

    /// Takes back what ended senders leave with an endpoint.
    pub fn collect(&mut self, serial: u32) {
        if self.endpoints.get(&serial).is_some_and(|local| !local.inner.sender_ended()) {
            self.uncollected.insert(serial);
            self.retry_soon();
        }
    }

    /// An endpoint has a pool now, or descriptors and memory for more of it: all its senders get edges.
    pub fn pool_started(&mut self, serial: u32) {
        let Some(local) = self.endpoints.get(&serial) else { return };
        let inner = local.inner.clone();
        let mut all = Vec::new();
        for (number, conn) in &self.conns {
            if let Role::In(incoming) = &conn.role {
                let mine =
                    |p: &Peer| p.serial == serial && matches!(p.given, Given::Nothing | Given::Promise);
                all.extend(incoming.links.iter().filter(|(_, p)| mine(p)).map(|(link, _)| (*number, *link)));
            }
        }
        for (number, link) in all {
            self.give_edge(number, link, &inner, Part::Share);
        }
    }

    /// Tells a sender of a pool, with an edge if there is a share for one.
    fn give_edge(&mut self, number: u32, link: u32, inner: &Arc<UserEndpoint>, part: Part) {
        let Some(inbox) = inner.inbox.get() else { return };
        let Some(peer) = self.peer(number, link) else { return };
        let (from, end, before) = (peer.from, peer.end.clone(), peer.given);
        let mut arrivals = inner.arrivals();
        let share = arrivals.budget.as_mut().and_then(|b| part.take(b));
        let made = share.map(Segment::create_for_receiver);
        let (given, told) = match made {
            Some(Ok((segment, fd))) => {
                if from.nid != 0 {
                    self.earlier.add(inner.entry.serial, from, &end);
                }
                let (given, edge) = match part {
                    Part::Share => {
                        let given = Given::Edge { key: segment.key(), len: segment.ring_len() };
                        (given, InEdge::new(segment, from, end))
                    }
                    Part::Grown => (Given::Longer, InEdge::late(segment, from, end)),
                };
                arrivals.edges.push(edge);
                inner.news.store(true, Ordering::Release);
                drop(arrivals);
                inner.rouse_if_free();
                (given, self.tell(number, Note::Pool { link }, &[inbox.fd(), fd.as_fd()]))
            }
            short_or_none => {
                if let (Some(b), Some(share)) = (arrivals.budget.as_mut(), share) {
                    b.give(part.returned(share));
                }
                drop(arrivals);
                inner.edgeless.store(true, Ordering::Relaxed);
                inner.rouse_if_free();
                // Messages go through the descriptor, and long ones can, once it is known that there is a pool.
                if short_or_none.is_some() {
                    self.without_edges.insert(inner.entry.serial);
                    self.retry_soon();
                }
                let told = before == Given::Promise || self.tell(number, Note::Pool { link }, &[inbox.fd()]);
                (Given::Promise, told)
            }
        };
        if !told {
            // Not even kept: the edge, if one was made, ends, and the sender asks again.
            self.unlink_from(number, link);
            self.tell(number, Note::Gone { link }, &[]);
            return;
        }
        if let Some(peer) = self.peer(number, link) {
            peer.given = given;
        }
    }

    /// A sender's edge is too short for what it sends, or it has none.
    fn outgrown_from(&mut self, number: u32, link: u32) {
        match self.peer(number, link) {
            Some(Peer { given: Given::Edge { .. }, .. }) => self.give_longer(number, link),
            Some(&mut Peer { given: Given::Promise, serial, .. }) => {
                if let Some(inner) = self.endpoints.get(&serial).map(|local| local.inner.clone()) {
                    self.give_edge(number, link, &inner, Part::Grown);
                }
            }
            _ => {}
        }
    }

    /// A sender whose edge is too short: a longer one in its place, if the pool grows, and there is what it takes. The
    /// receiver knows before the sender does.
    fn give_longer(&mut self, number: u32, link: u32) {
        let Some(&mut Peer { serial, given: Given::Edge { key, len }, .. }) = self.peer(number, link) else {
            return;
        };
        let Some(inner) = self.endpoints.get(&serial).map(|local| local.inner.clone()) else { return };
        let Some(inbox) = inner.inbox.get() else { return };
        let mut arrivals = inner.arrivals();
        let Some(budget) = &mut arrivals.budget else { return };
        let Some(longer) = budget.take_longer(len) else { return };
        let Ok((segment, fd)) = Segment::create_for_receiver(longer) else {
            return budget.give(Returned { shares: 0, grown: longer });
        };
        arrivals.longer.push((key, Longer::new(segment)));
        inner.news.store(true, Ordering::Release);
        drop(arrivals);
        inner.rouse_if_free();
        // One that cannot be told, or has no descriptor for it, stays where it is: its edge is as good as it was, and the
        // longer one comes back with it. Until then nobody dozes there.
        self.tell(number, Note::Pool { link }, &[inbox.fd(), fd.as_fd()]);
        if let Some(peer) = self.peer(number, link) {
            peer.given = Given::Longer;
        }
    }

    fn peer(&mut self, number: u32, link: u32) -> Option<&mut Peer> {
        match &mut self.conns.get_mut(&number)?.role {
            Role::In(incoming) => incoming.links.get_mut(&link),
            Role::Out(_) => None,
        }
    }

    /// A sender's messages are to go otherwise.
    pub fn go_like(&mut self, number: u32, link: u32, change: impl FnOnce(&mut How)) {
        let waiting = self.awaiting.iter_mut().find(|a| (a.conn, a.link) == (number, link));
        if let Some(waiting) = waiting {
            change(&mut waiting.how);
        } else if let Some(peer) = self.peer(number, link) {
            let had = peer.how;
            change(&mut peer.how);
            let (serial, from, how) = (peer.serial, peer.from, peer.how);
            self.routed.change(serial, from, had.is_said(), how.is_said());
            self.wish(serial, from, how, false);
        }
    }

    /// A link that said how ended.
    fn how_ended(&mut self, serial: u32, from: Addr, how: How) {
        if how.is_said() {
            self.routed.change(serial, from, true, false);
            if !self.routed.has(serial, from) {
                self.wish(serial, from, How::default(), true);
            }
        }
    }

    /// Tells the gateway, of a proxy of its.
    fn wish(&self, serial: u32, from: Addr, how: How, ended: bool) {
        let to = self.endpoints.get(&serial).map(|local| local.inner.addr()).filter(|to| to.nid != 0);
        if let (Some(to), Some(gateway), 0) = (to, self.process.gateway(), from.nid) {
            gateway.wish(Wish { from: from.dpid, to, how, ended });
        }
    }

    pub fn links_in_gone(&mut self, serial: u32) {
        let mut told = Vec::new();
        for (number, conn) in &mut self.conns {
            if let Role::In(incoming) = &mut conn.role {
                incoming.links.retain(|link, peer| {
                    if peer.serial == serial {
                        told.push((*number, *link, peer.from, peer.how));
                    }
                    peer.serial != serial
                });
            }
        }
        for (number, link, from, how) in told {
            self.how_ended(serial, from, how);
            self.tell(number, Note::Gone { link }, &[]);
        }
    }

    /// A sender's process ended: its edges are read to their ends.
    pub fn in_ended(&mut self, incoming: Incoming) {
        for peer in incoming.links.into_values() {
            self.sender_ended(&peer);
        }
    }
}

#[cfg(test)]
mod tests;
