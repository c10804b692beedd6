//! Links of our endpoints to others: found, attached, fed with what waits.
//!
//! What the service reads from a pair it must keep: a message whose destination has no room, or does not exist
//! yet, is *parked* with its link, so that messages for others go on. Once an endpoint has parked
//! [`MOST_PARKED`] messages or [`MOST_BYTES`], its pair is left alone; it fills up, and the writer waits there.

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::Arc;

use nix::sys::epoll::EpollFlags;

use super::super::inner::Inner;
use super::super::link::{Delivery, Link, Parked, Path, Way};
use super::super::note::{Envelope, Note, ENVELOPE};
use super::{event, Conn, Kind, Role, Service};
use crate::addr::Addr;
use crate::edge::far;
use crate::edge::inbox::Inbox;
use crate::edge::segment::Segment;
use crate::sys::{process, unix};

/// Messages an endpoint may have parked.
const MOST_PARKED: usize = 64;
/// Bytes of them.
const MOST_BYTES: usize = 256 * 1024;
/// Messages taken from one endpoint before others have their turn.
const TURN: usize = 64;

/// The other process belongs to a user who does not let us in.
struct Denied;

/// An endpoint of this process, as the service sees it.
#[derive(Debug)]
pub struct Local {
    pub inner: Arc<Inner>,
    /// Its pair is not read at the moment.
    stalled: bool,
    /// A plain write that waits for a target.
    orphan: Option<Vec<u8>>,
    /// Every descriptor was closed; it lingers until what it sent is delivered.
    closed: bool,
    /// Nothing is left in its pair.
    read_out: bool,
    /// Its pair is being read: what a delivery makes room for is read by that loop, not by one inside it.
    pumping: bool,
}

impl Local {
    pub fn new(inner: Arc<Inner>) -> Local {
        Local { inner, stalled: false, orphan: None, closed: false, read_out: false, pumping: false }
    }
}

/// Our side of a connection to another process.
#[derive(Debug, Default)]
pub struct Outgoing {
    process: String,
    links: HashMap<u32, (u32, Addr)>,
}

impl Service {
    /// Reads what an endpoint's program sent, and takes it on.
    pub fn pump(&mut self, serial: u32) {
        let Some(local) = self.endpoints.get_mut(&serial) else { return };
        if core::mem::replace(&mut local.pumping, true) {
            return;
        }
        loop {
            self.pump_turn(serial);
            let Some(local) = self.endpoints.get_mut(&serial) else { return };
            // One that is closed is not watched any more: all there is room for, now.
            if !local.closed {
                local.pumping = false;
                return;
            }
            if !more_to_read(local) {
                local.pumping = false;
                return self.linger(serial);
            }
        }
    }

    fn pump_turn(&mut self, serial: u32) {
        let mut buf = Vec::new();
        for _ in 0..TURN {
            let Some(local) = self.endpoints.get_mut(&serial) else { return };
            let inner = local.inner.clone();
            if let Some(bytes) = local.orphan.take() {
                if !self.plain(&inner, serial, bytes) {
                    return;
                }
                continue;
            }
            let (count, bytes) = parked(&inner);
            if count >= MOST_PARKED || bytes >= MOST_BYTES {
                self.stall(serial, true);
                return self.see_hang_up(serial);
            }
            let back = inner.back.as_raw_fd();
            let received = unix::next_len(back).and_then(|there| {
                if buf.len() < there {
                    buf.resize(there, 0);
                }
                unix::recv(back, &mut buf, libc::MSG_DONTWAIT)
            });
            match received {
                Ok(got) if got.marked => {
                    let bytes = buf[..got.len.min(buf.len())].to_vec();
                    let [tag, memory] = got.fds;
                    if tag.is_none() {
                        // The next direct message could overtake a plain write.
                        inner.mixed.store(true, Ordering::Relaxed);
                        inner.tx().alone = false;
                        if !self.plain(&inner, serial, bytes) {
                            return;
                        }
                    } else if let Some(Envelope { to }) = Envelope::decode(&bytes) {
                        let load = match memory {
                            Some(memory) => Parked::Far(memory),
                            None => Parked::Bytes(bytes[ENVELOPE..].to_vec()),
                        };
                        self.take_on(&inner, serial, to, load, true);
                    }
                }
                Err(libc::EAGAIN) => return self.stall(serial, false),
                Err(libc::EINTR) => {}
                // The end, or an error that is one.
                Ok(_) | Err(_) => {
                    if let Some(local) = self.endpoints.get_mut(&serial) {
                        local.read_out = true;
                    }
                    return self.closed(serial);
                }
            }
        }
        // Level-triggered: the rest at the next turn.
        self.stall(serial, false);
    }

    /// A plain write: to the target of the moment. False if there is none.
    fn plain(&mut self, inner: &Arc<Inner>, serial: u32, bytes: Vec<u8>) -> bool {
        let target = {
            let tx = inner.tx();
            tx.target.map(|ix| tx.links[ix].to)
        };
        match target {
            Some(to) => {
                self.take_on(inner, serial, to, Parked::Bytes(bytes), false);
                true
            }
            None => {
                let Some(local) = self.endpoints.get_mut(&serial) else { return false };
                if local.closed {
                    return true; // nobody can name a target any more
                }
                local.orphan = Some(bytes);
                self.stall(serial, true);
                self.see_hang_up(serial);
                false
            }
        }
    }

    /// Leaves an endpoint's pair alone, or reads it again.
    fn stall(&mut self, serial: u32, stalled: bool) {
        let Some(local) = self.endpoints.get_mut(&serial) else { return };
        if local.stalled == stalled || local.closed {
            return;
        }
        local.stalled = stalled;
        let flags = if stalled { EpollFlags::empty() } else { EpollFlags::EPOLLIN };
        let _ = self.epoll.modify(&local.inner.back, &mut event(flags, Kind::Endpoint, serial));
    }

    /// A pair that is left alone tells its end nevertheless, again and again.
    fn see_hang_up(&mut self, serial: u32) {
        let local = self.endpoints.get(&serial).filter(|l| !l.closed);
        if local.is_some_and(|l| unix::hung_up(l.inner.back.as_fd())) {
            self.closed(serial);
        }
    }

    /// Delivers a message, or parks it. `counted`: it is among the link's queued ones.
    fn take_on(&mut self, inner: &Arc<Inner>, serial: u32, to: Addr, load: Parked, counted: bool) {
        let mut tx = inner.tx();
        let (ix, new) = tx.link(to);
        let link = &mut tx.links[ix];
        if !counted {
            link.queued += 1;
        }
        link.parked_bytes += load.bytes();
        link.parked.push_back(load);
        let behind = link.parked.len() > 1;
        drop(tx);
        if behind {
            // Those before it wait for room, or for their destination.
        } else if new {
            self.attach(serial, to);
        } else {
            self.flush(serial, to);
        }
    }

    /// Delivers what is parked with a link, as far as there is room.
    pub fn flush(&mut self, serial: u32, to: Addr) {
        let Some(local) = self.endpoints.get(&serial) else { return };
        let (inner, was_stalled, closed) = (local.inner.clone(), local.stalled, local.closed);
        let mut tx = inner.tx();
        let Some(ix) = tx.find(to) else { return };
        let link = &mut tx.links[ix];
        let mut wait = None;
        let mut gone = false;
        while let Some(load) = link.parked.pop_front() {
            let bytes = load.bytes();
            let (delivery, load) = deliver(link, &inner, load);
            match delivery {
                Delivery::Done => {
                    link.queued = link.queued.saturating_sub(1);
                    link.parked_bytes -= bytes;
                    continue;
                }
                Delivery::Gone => gone = true,
                Delivery::Full | Delivery::TooLong(_) => {}
            }
            link.parked.push_front(load);
            if !gone {
                if link.want_room() {
                    continue; // some came meanwhile
                }
                wait = match &link.way {
                    Way::Plain(back) | Way::Pool { back, edge: None, .. } => Some(back.clone()),
                    _ => None,
                };
            }
            break;
        }
        if link.queued == 0 && !gone && !matches!(link.way, Way::Unknown) {
            link.path = Path::Direct;
        }
        drop(tx);
        if gone {
            self.lost(serial, to);
        }
        if let Some(back) = wait {
            self.wait_for_room(serial, to, back);
        }
        if closed {
            self.linger(serial);
        } else if was_stalled {
            self.todo.push(serial);
        }
    }

    fn wait_for_room(&mut self, serial: u32, to: Addr, back: Arc<OwnedFd>) {
        if self.rooms.values().any(|(s, t, _)| (*s, *t) == (serial, to)) {
            return;
        }
        let number = self.number();
        let flags = EpollFlags::EPOLLOUT | EpollFlags::EPOLLONESHOT;
        if self.epoll.add(&*back, event(flags, Kind::Room, number)).is_ok() {
            self.rooms.insert(number, (serial, to, back));
        } else {
            self.absent.insert((serial, to));
            self.retry_soon();
        }
    }

    pub fn room_event(&mut self, number: u32) {
        if let Some((serial, to, back)) = self.rooms.remove(&number) {
            let _ = self.epoll.delete(&*back);
            self.flush(serial, to);
        }
    }

    /// Finds a destination and asks its process for a way there.
    pub fn attach(&mut self, serial: u32, to: Addr) {
        let Some(local) = self.endpoints.get(&serial) else { return };
        let from = local.inner.addr();
        {
            let tx = local.inner.tx();
            let Some(ix) = tx.find(to) else { return };
            if !matches!(tx.links[ix].way, Way::Unknown) {
                drop(tx);
                return self.flush(serial, to);
            }
        }
        if self.asked(serial, to) {
            return;
        }
        // Watched before it is looked for, or an entry made in between would go unseen.
        self.watch_registry();
        let conn = match self.process.registry.look_up(to.dpid) {
            Some(entry) => self.conn_to(&entry.process),
            None => Ok(None),
        };
        match conn {
            Err(Denied) => self.denied(serial, to),
            Ok(Some(number)) => {
                let link = self.number();
                if let Some(Conn { role: Role::Out(out), .. }) = self.conns.get_mut(&number) {
                    out.links.insert(link, (serial, to));
                }
                self.tell(number, Note::Attach { link, from, to: to.dpid }, Vec::new());
            }
            Ok(None) => {
                self.absent.insert((serial, to));
            }
        }
    }

    /// A destination of another user: what waits for it can go nowhere, and the next call says so.
    fn denied(&mut self, serial: u32, to: Addr) {
        let Some(local) = self.endpoints.get(&serial) else { return };
        let (inner, closed) = (local.inner.clone(), local.closed);
        let mut tx = inner.tx();
        if let Some(ix) = tx.find(to) {
            let link = &mut tx.links[ix];
            link.unlink();
            link.denied = true;
            link.parked.clear();
            (link.parked_bytes, link.queued) = (0, 0);
        }
        drop(tx);
        if closed {
            self.linger(serial);
        }
    }

    fn asked(&self, serial: u32, to: Addr) -> bool {
        self.conns.values().any(|c| match &c.role {
            Role::Out(out) => out.links.values().any(|l| *l == (serial, to)),
            Role::In(_) => false,
        })
    }

    fn conn_to(&mut self, name: &str) -> Result<Option<u32>, Denied> {
        if let Some(number) = self.out.get(name) {
            return Ok(Some(*number));
        }
        match unix::connect(&self.process.registry.door_path(name)) {
            Ok(fd) => {
                let out = Outgoing { process: name.to_string(), links: HashMap::new() };
                let number = self.add_conn(fd, Role::Out(out));
                if let Some(number) = number {
                    self.out.insert(name.to_string(), number);
                }
                Ok(number)
            }
            Err(libc::EACCES | libc::EPERM) => Err(Denied),
            Err(libc::ECONNREFUSED | libc::ENOENT) => {
                if !self.process.registry.lives(name) && name != self.process.member.name {
                    self.process.registry.sweep();
                }
                self.retry_soon(); // it may be about to listen
                Ok(None)
            }
            Err(_) => {
                self.retry_soon();
                Ok(None)
            }
        }
    }

    /// What a destination's process says.
    pub fn hear_back(&mut self, number: u32, note: Note, fds: [Option<OwnedFd>; 2]) {
        let (link, gone) = match note {
            Note::Attached { link } | Note::Pool { link } | Note::Room { link } => (link, false),
            Note::Gone { link } | Note::Denied { link } => (link, true),
            _ => return self.conn_ended(number),
        };
        let Some(Conn { role: Role::Out(out), .. }) = self.conns.get_mut(&number) else { return };
        let found = if gone { out.links.remove(&link) } else { out.links.get(&link).copied() };
        let Some((serial, to)) = found else { return };
        let Some(local) = self.endpoints.get(&serial) else { return };
        let inner = local.inner.clone();
        let mut tx = inner.tx();
        let Some(ix) = tx.find(to) else { return };
        let l = &mut tx.links[ix];
        let [first, second] = fds;
        match note {
            Note::Attached { .. } => {
                if let Some(back) = first {
                    l.way = Way::Plain(Arc::new(back));
                    l.plain_since = process::now();
                    l.denied = false;
                }
            }
            Note::Pool { .. } => {
                let back = match &l.way {
                    Way::Plain(back) | Way::Pool { back, .. } => Some(back.clone()),
                    Way::Unknown => None,
                };
                let inbox = first.and_then(|fd| Inbox::open(fd).ok());
                let edge = second.and_then(|fd| Segment::open(fd).ok());
                if let (Some(back), Some(inbox)) = (back, inbox) {
                    l.pooled(back, inbox, edge);
                }
            }
            Note::Denied { .. } => {
                drop(tx);
                return self.denied(serial, to);
            }
            Note::Gone { .. } => {
                l.unlink();
                drop(tx);
                return self.attach_later(serial, to);
            }
            _ => {}
        }
        drop(tx);
        self.flush(serial, to);
    }

    /// A destination closed: it may come back, under the same number.
    pub fn lost(&mut self, serial: u32, to: Addr) {
        let mut told = None;
        for (number, conn) in &mut self.conns {
            if let Role::Out(out) = &mut conn.role {
                let link = out.links.iter().find(|(_, l)| **l == (serial, to)).map(|(link, _)| *link);
                if let Some(link) = link {
                    out.links.remove(&link);
                    told = Some((*number, link));
                }
            }
        }
        if let Some((number, link)) = told {
            self.tell(number, Note::Detach { link }, Vec::new());
        }
        if let Some(local) = self.endpoints.get(&serial) {
            let mut tx = local.inner.tx();
            if let Some(ix) = tx.find(to) {
                tx.links[ix].unlink();
            }
        }
        self.attach_later(serial, to);
    }

    /// Not at once: the entry of one that just closed may still be there.
    fn attach_later(&mut self, serial: u32, to: Addr) {
        self.absent.insert((serial, to));
        self.watch_registry();
        self.retry_soon();
    }

    pub fn out_ended(&mut self, number: u32, out: Outgoing) {
        if self.out.get(&out.process) == Some(&number) {
            self.out.remove(&out.process);
        }
        for (_, (serial, to)) in out.links {
            self.lost(serial, to);
        }
    }

    /// The program closed its last descriptor; what it had sent still goes.
    fn closed(&mut self, serial: u32) {
        self.retire(serial);
        if let Some(local) = self.endpoints.get_mut(&serial) {
            local.closed = true;
            local.orphan = None;
            // It would be reported for ever.
            let _ = self.epoll.delete(&local.inner.back);
        }
        self.linger(serial);
    }

    fn linger(&mut self, serial: u32) {
        let Some(local) = self.endpoints.get(&serial).filter(|l| !l.pumping) else { return };
        // What could not be read while there was no room is read now.
        if more_to_read(local) {
            self.todo.push(serial);
        } else if local.read_out && parked(&local.inner).0 == 0 {
            self.over(serial);
        }
    }

    pub fn detach_all(&mut self, serial: u32) {
        let mut told = Vec::new();
        for (number, conn) in &mut self.conns {
            if let Role::Out(out) = &mut conn.role {
                out.links.retain(|link, (s, _)| {
                    if *s == serial {
                        told.push((*number, *link));
                    }
                    *s != serial
                });
            }
        }
        for (number, link) in told {
            self.tell(number, Note::Detach { link }, Vec::new());
        }
    }
}

/// Whether the pair may hold something, and the service has room for it.
fn more_to_read(local: &Local) -> bool {
    let (count, bytes) = parked(&local.inner);
    !local.read_out && count < MOST_PARKED && bytes < MOST_BYTES
}

fn parked(inner: &Inner) -> (usize, usize) {
    let tx = inner.tx();
    tx.links.iter().fold((0, 0), |(n, b), l| (n + l.parked.len(), b + l.parked_bytes))
}

/// One parked message; it comes back if it was not delivered.
fn deliver(link: &mut Link, inner: &Inner, load: Parked) -> (Delivery, Parked) {
    let Ok(tag) = inner.tag() else { return (Delivery::Full, load) };
    let load = match load {
        Parked::Bytes(bytes) => match link.deliver(&bytes, tag) {
            Delivery::TooLong(_) if matches!(link.way, Way::Pool { .. }) => match far::make(&bytes) {
                Ok(memory) => Parked::Far(memory),
                Err(_) => return (Delivery::Full, Parked::Bytes(bytes)),
            },
            other => return (other, Parked::Bytes(bytes)),
        },
        far => far,
    };
    let Parked::Far(memory) = &load else { return (Delivery::Full, load) };
    (link.deliver_far(memory, tag), load)
}
