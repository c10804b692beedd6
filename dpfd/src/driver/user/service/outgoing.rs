//! Links of our endpoints to others: found, attached, lost, found again.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::task::Waker;

use super::super::link::{Destination, Refused};
use super::super::note::{Denial, Note, IMMEDIATES, RAW, ROUTES};
use super::super::registry::Registry;
use super::{Conn, Role, Service, RETRY};
use crate::addr::Addr;
use crate::edge::inbox::Doorbell;
use crate::edge::segment::Segment;
use dp_edge::sys::{process, unix};

/// The other process belongs to a user who does not let us in.
struct Denied;

/// Why a process does not let us send there, by its word. A gateway older than that asked for the user first, and then for the edge.
fn why_denied(denial: Denial, registry: &Registry, process: &str, to: Addr) -> Refused {
    let may_be_anothers = || {
        let me = nix::unistd::geteuid().as_raw();
        me != 0 && registry.owner(process).is_some_and(|uid| uid != me)
    };
    match denial {
        _ if to.nid == 0 => Refused::User,
        Denial::User => Refused::Gateway,
        Denial::Edge => Refused::Edge,
        Denial::Unsaid if may_be_anothers() => Refused::Gateway,
        Denial::Unsaid => Refused::Edge,
    }
}

/// Our side of a connection to another process.
#[derive(Debug, Default)]
pub struct Outgoing {
    process: String,
    links: HashMap<u32, (u32, Addr)>,
}

impl Service {
    /// Finds a destination and asks its process for a way there.
    pub fn attach(&mut self, serial: u32, to: Addr) {
        let Some(local) = self.endpoints.get(&serial) else { return };
        let from = local.inner.addr();
        {
            let tx = local.inner.guest_tx();
            let Some(ix) = tx.find(to) else { return };
            if !matches!(tx.links[ix].destination, Destination::Unknown) {
                drop(tx);
                return self.flush(serial, to);
            }
        }
        if self.asked.contains_key(&(serial, to)) {
            return;
        }
        // Watched before it is looked for, or an entry made in between would go unseen.
        self.watch_registry();
        let entry = match to.nid {
            0 => self.process.shared.registry.look_up(to.dpid),
            _ => self.process.shared.registry.gateway(),
        };
        let conn = match entry {
            Some(entry) => self.conn_to(&entry.process),
            None => Ok(None),
        };
        match conn {
            Err(Denied) if to.nid != 0 => self.refused(serial, to, Refused::Gateway),
            Err(Denied) => self.refused(serial, to, Refused::User),
            Ok(Some(number)) => {
                let link = self.number();
                if let Some(Conn { role: Role::Out(out), .. }) = self.conns.get_mut(&number) {
                    out.links.insert(link, (serial, to));
                }
                self.asked.insert((serial, to), (number, link));
                self.tell(number, Note::Attach { link, from, to }, &[]);
                self.tell_route(number, link, (serial, to));
            }
            Ok(None) => {
                self.absent.insert((serial, to));
            }
        }
    }

    /// A destination that does not let us in: what waits for it waits on, for somebody else to have that number, and the
    /// next call says so.
    fn refused(&mut self, serial: u32, to: Addr, why: Refused) {
        let Some(local) = self.endpoints.get(&serial) else { return };
        let (inner, closed) = (local.inner.clone(), local.closed);
        let mut tx = inner.guest_tx();
        let mut woken = Vec::new();
        if let Some(ix) = tx.find(to) {
            let link = &mut tx.links[ix];
            link.unlink();
            (link.refused, link.wanted) = (Some(why), true);
            woken = link.woken();
        }
        drop(tx);
        woken.into_iter().for_each(Waker::wake);
        self.absent.insert((serial, to));
        self.watch_registry();
        if closed {
            self.linger(serial);
        }
    }

    fn conn_to(&mut self, name: &str) -> Result<Option<u32>, Denied> {
        if let Some(number) = self.out.get(name) {
            return Ok(Some(*number));
        }
        match unix::connect(&self.process.shared.registry.door_path(name)) {
            // Whoever may write to the folder can put a door there; only a user's own processes let him in anyway.
            Ok(fd) if !self.is_believed(name, &fd) => Err(Denied),
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
                if !self.process.shared.registry.lives(name) && name != self.process.shared.member.name {
                    self.process.shared.registry.sweep();
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

    fn is_believed(&self, name: &str, door: &OwnedFd) -> bool {
        unix::peer(door.as_fd()).is_some_and(|(pid, uid)| {
            // Its own door is that of whoever it was when it opened that.
            let is_own = name == self.process.shared.member.name && pid as u32 == std::process::id();
            is_own || self.process.shared.registry.believes(uid)
        })
    }

    /// What a destination's process says.
    pub fn hear_back(&mut self, number: u32, note: Note, fds: [Option<OwnedFd>; 2]) {
        let (link, gone) = match note {
            Note::Attached { link, .. } | Note::Pool { link } => (link, false),
            Note::Room { link } | Note::Rest { link } => (link, false),
            Note::Gone { link } | Note::Denied { link, .. } | Note::Unreachable { link } => (link, true),
            _ => return self.conn_ended(number),
        };
        let Some(Conn { role: Role::Out(out), .. }) = self.conns.get_mut(&number) else { return };
        let found = if gone { out.links.remove(&link) } else { out.links.get(&link).copied() };
        let Some((serial, to)) = found else { return };
        let is_own = out.process == self.process.shared.member.name;
        let why = match note {
            Note::Denied { why, .. } => {
                Some(why_denied(why, &self.process.shared.registry, &out.process, to))
            }
            _ => None,
        };
        if gone {
            self.asked.remove(&(serial, to));
        }
        let Some(local) = self.endpoints.get(&serial) else { return };
        let inner = local.inner.clone();
        let mut tx = inner.guest_tx();
        let Some(ix) = tx.find(to) else { return };
        let l = &mut tx.links[ix];
        let [first, second] = fds;
        match note {
            Note::Attached { knows, .. } => {
                let Some(back) = first.filter(|back| unix::keeps_messages(back.as_fd())) else {
                    drop(tx);
                    return self.conn_ended(number); // no service of ours says that
                };
                l.destination = Destination::Plain(Arc::new(back));
                l.plain_since = process::now();
                l.refused = None;
                l.knows_immediates = knows & IMMEDIATES != 0;
                l.knows_raw = knows & RAW != 0;
                // Within a node there are none.
                l.knows_routes = to.nid != 0 && knows & ROUTES != 0;
                self.pause = RETRY[0];
            }
            Note::Pool { .. } => {
                let back = l.back();
                let bell = first.and_then(|fd| Doorbell::open(&fd).ok());
                let edge = second.and_then(|fd| Segment::open(fd).ok());
                // One in place of another that cannot be had: the other stays.
                if let (Some(back), Some(bell), true) = (back, bell, edge.is_some() || !l.has_edge()) {
                    l.pooled(back, bell, edge);
                    // Another process may be the gateway behind one that was inside this one: that one hears bells only.
                    l.inside = to.nid != 0 && is_own && inner.process.inside.get().is_some();
                }
            }
            Note::Denied { .. } => {
                drop(tx);
                return self.refused(serial, to, why.unwrap_or(Refused::User));
            }
            Note::Unreachable { .. } => {
                drop(tx);
                return self.refused(serial, to, Refused::Node);
            }
            Note::Gone { .. } => {
                drop(tx);
                return self.lost(serial, to);
            }
            // Under the lock of the sender's side nothing follows what is done. The next message finds another way there.
            Note::Rest { .. } if l.is_done() && l.wakers.is_empty() => {
                l.unlink();
                drop(tx);
                return self.detach(serial, to);
            }
            // Who sends on never is done: what it sends from here on waits for that other way.
            Note::Rest { .. } => {
                l.rest();
                self.pause = RETRY[0];
            }
            _ => {}
        }
        drop(tx);
        if let Note::Attached { knows, .. } = note {
            // A gateway that was still opening its routes knows them now.
            self.tell_route(number, link, (serial, to));
            if to.nid != 0 && knows & RAW != 0 && inner.raw.load(Ordering::Acquire) {
                self.tell(number, Note::Raw { link }, &[]);
            }
        }
        self.flush(serial, to);
    }

    /// A destination closed: it may come back, under the same number.
    pub fn lost(&mut self, serial: u32, to: Addr) {
        self.detach(serial, to);
        let mut waits = false;
        if let Some(local) = self.endpoints.get(&serial) {
            let mut tx = local.inner.guest_tx();
            let mut woken = Vec::new();
            if let Some(ix) = tx.find(to) {
                let link = &mut tx.links[ix];
                link.unlink();
                woken = link.woken();
                waits = link.waits();
                link.wanted = waits;
            }
            drop(tx);
            woken.into_iter().for_each(Waker::wake);
        }
        if waits {
            self.attach_later(serial, to);
        } else {
            // Else it is looked for when something is sent there.
            self.absent.remove(&(serial, to));
        }
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

    fn route_of(&self, serial: u32) -> u64 {
        self.endpoints.get(&serial).map_or(0, |local| local.inner.route.load(Ordering::Acquire))
    }

    /// Names the route of a new link, if it has one.
    fn tell_route(&mut self, number: u32, link: u32, (serial, to): (u32, Addr)) {
        let code = self.route_of(serial);
        if to.nid != 0 && code != 0 && self.has_routes(number) {
            self.tell(number, Note::Route { link, code }, &[]);
        }
    }

    /// Whether the gateway behind that connection has said that it has routes; one that is older than that knows no such note.
    fn has_routes(&self, number: u32) -> bool {
        let Some(Conn { role: Role::Out(out), .. }) = self.conns.get(&number) else { return false };
        self.process.shared.registry.routes_of(&out.process).is_some()
    }

    /// An endpoint's messages go otherwise from now on: on all its links to other nodes.
    pub fn tell_how(&mut self, serial: u32) {
        let mut has_routes = HashMap::new();
        let Some(inner) = self.endpoints.get(&serial).map(|local| local.inner.clone()) else { return };
        let (code, raw) = (inner.route.load(Ordering::Acquire), inner.raw.load(Ordering::Acquire));
        let of = |((of, to), (number, link)): (&(u32, Addr), &(u32, u32))| {
            (*of == serial && to.nid != 0).then_some((*number, *link, *to))
        };
        let links: Vec<(u32, u32, Addr)> = self.asked.iter().filter_map(of).collect();
        for (number, link, to) in links {
            if *has_routes.entry(number).or_insert_with(|| self.has_routes(number)) {
                self.tell(number, Note::Route { link, code }, &[]);
            }
            let knows_raw = || {
                let tx = inner.guest_tx();
                tx.find(to).is_some_and(|ix| tx.links[ix].knows_raw)
            };
            if raw && knows_raw() {
                self.tell(number, Note::Raw { link }, &[]);
            }
        }
    }

    /// A destination may have a longer edge for us.
    pub fn outgrown(&mut self, serial: u32, to: Addr) {
        if let Some((number, link)) = self.asked.get(&(serial, to)).copied() {
            self.tell(number, Note::Longer { link }, &[]);
        }
    }

    /// The other process need not keep a way for this link.
    pub fn detach(&mut self, serial: u32, to: Addr) {
        let Some((number, link)) = self.asked.remove(&(serial, to)) else { return };
        if let Some(Conn { role: Role::Out(out), .. }) = self.conns.get_mut(&number) {
            out.links.remove(&link);
        }
        self.tell(number, Note::Detach { link }, &[]);
    }
}
