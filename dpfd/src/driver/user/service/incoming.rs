//! Links of other endpoints to ours: who may send, and over what.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use super::super::inner::Inner;
use super::super::list;
use super::super::note::Note;
use super::super::process::{Command, Process};
use super::{send_note, Conn, Role, Service};
use crate::addr::{Addr, Dpid};
use crate::edge::segment::Segment;
use crate::pool::tokens::{InEdge, Sender};
use crate::sys::unix;

/// Our side of a connection from another process.
#[derive(Debug)]
pub struct Incoming {
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
}

/// What the receiver's edge knows of its sender.
#[derive(Debug)]
struct SenderEnd {
    process: Arc<Process>,
    conn: u32,
    fd: Arc<OwnedFd>,
    link: u32,
    gone: AtomicBool,
}

impl Sender for SenderEnd {
    fn room(&self) {
        let note = Note::Room { link: self.link };
        if send_note(&self.fd, note, &[]) == Err(libc::EAGAIN) {
            self.process.command(Command::Room(self.conn, self.link));
        }
    }
    fn gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }
}

impl Service {
    pub fn accept(&mut self) {
        let me = nix::unistd::geteuid().as_raw();
        while let Ok(fd) = unix::accept(self.process.member.door.as_fd()) {
            // Whoever holds the other end of a pair could read what its program writes: the same user only.
            let allowed = unix::peer(fd.as_fd()).is_some_and(|(_, uid)| uid == me || uid == 0);
            let role = Role::In(Incoming { allowed, links: HashMap::new() });
            self.add_conn(fd, role);
        }
    }

    /// What a sender's process says.
    pub fn hear(&mut self, number: u32, note: Note) {
        match note {
            Note::Attach { link, from, to } => self.attach_from(number, link, from, to),
            Note::Detach { link } => {
                let Some(Conn { role: Role::In(incoming), .. }) = self.conns.get_mut(&number) else { return };
                if let Some(peer) = incoming.links.remove(&link) {
                    peer.end.gone.store(true, Ordering::Release);
                }
            }
            Note::Ask { dpid, serial } => {
                let open = self.is_open(dpid, serial);
                self.tell(number, Note::Answer { open }, Vec::new());
            }
            Note::List => self.list_to(number),
            _ => self.conn_ended(number),
        }
    }

    fn list_to(&mut self, number: u32) {
        let allowed = |c: &Conn| matches!(&c.role, Role::In(incoming) if incoming.allowed);
        if !self.conns.get(&number).is_some_and(allowed) {
            return self.tell(number, Note::Denied { link: 0 }, Vec::new());
        }
        // Without memory there is no answer: the other side waits for it only a moment.
        if let Ok(memory) = list::account(&self.process) {
            self.tell(number, Note::Listed, vec![memory]);
        }
    }

    fn is_open(&mut self, dpid: Dpid, serial: u32) -> bool {
        let Some(local) = self.endpoints.get(&serial).filter(|l| l.inner.dpid == dpid) else {
            // Opened this moment, and not heard of yet.
            return self.process.endpoints().iter().any(|i| i.entry.serial == serial && !i.is_closed());
        };
        if local.inner.is_closed() {
            self.retire(serial);
            return false;
        }
        true
    }

    fn attach_from(&mut self, number: u32, link: u32, from: Addr, to: Dpid) {
        // It may have been opened since the last commands were read.
        for command in self.process.commands() {
            self.command(command);
        }
        let inner = self.by_dpid.get(&to).and_then(|s| self.endpoints.get(s)).map(|l| l.inner.clone());
        let Some(inner) = inner.filter(|i| !i.is_closed()) else {
            return self.tell(number, Note::Gone { link }, Vec::new());
        };
        let process = self.process.clone();
        let Some(conn) = self.conns.get_mut(&number) else { return };
        let fd = conn.fd.clone();
        let Role::In(incoming) = &mut conn.role else { return };
        if !incoming.allowed {
            return self.tell(number, Note::Denied { link }, Vec::new());
        }
        let Ok(back) = unix::dup(inner.back.as_fd()) else {
            // No descriptor left: the sender asks again.
            return self.tell(number, Note::Gone { link }, Vec::new());
        };
        let end = SenderEnd { process, conn: number, fd, link, gone: AtomicBool::new(false) };
        let peer = Peer { serial: inner.entry.serial, from, end: Arc::new(end) };
        let end = peer.end.clone();
        if let Some(old) = incoming.links.insert(link, peer) {
            old.end.gone.store(true, Ordering::Release);
        }
        self.tell(number, Note::Attached { link }, vec![back]);
        if inner.inbox.get().is_some() {
            self.give_edge(number, link, from, &inner, end);
        }
    }

    /// An endpoint has a pool now: all its senders get edges.
    pub fn pool_started(&mut self, serial: u32) {
        let Some(local) = self.endpoints.get(&serial) else { return };
        let inner = local.inner.clone();
        let mut all = Vec::new();
        for (number, conn) in &self.conns {
            if let Role::In(incoming) = &conn.role {
                let mine = incoming.links.iter().filter(|(_, p)| p.serial == serial);
                all.extend(mine.map(|(link, p)| (*number, *link, p.from, p.end.clone())));
            }
        }
        for (number, link, from, end) in all {
            self.give_edge(number, link, from, &inner, end);
        }
    }

    fn give_edge(&mut self, number: u32, link: u32, from: Addr, inner: &Arc<Inner>, end: Arc<SenderEnd>) {
        let Some(inbox) = inner.inbox.get().and_then(|i| unix::dup(i.fd()).ok()) else { return };
        let mut fds = vec![inbox];
        let mut arrivals = inner.arrivals();
        if let Some(share) = arrivals.budget.as_mut().and_then(|b| b.take()) {
            let made = Segment::create_for_receiver(share).and_then(|s| Ok((unix::dup(s.fd())?, s)));
            match made {
                Ok((fd, segment)) => {
                    fds.push(fd);
                    arrivals.edges.push(InEdge::new(Arc::new(segment), from, end));
                    inner.news.store(true, Ordering::Release);
                }
                // No memory or descriptor for an edge: the sender goes through the descriptor.
                Err(_) => {
                    if let Some(b) = arrivals.budget.as_mut() {
                        b.give(share);
                    }
                }
            }
        }
        drop(arrivals);
        self.tell(number, Note::Pool { link }, fds);
    }

    pub fn links_in_gone(&mut self, serial: u32) {
        let mut told = Vec::new();
        for (number, conn) in &mut self.conns {
            if let Role::In(incoming) = &mut conn.role {
                incoming.links.retain(|link, p| {
                    if p.serial == serial {
                        told.push((*number, *link));
                    }
                    p.serial != serial
                });
            }
        }
        for (number, link) in told {
            self.tell(number, Note::Gone { link }, Vec::new());
        }
    }

    /// A sender's process ended: its edges are read to their ends. A bell it was about to ring is rung for it.
    pub fn in_ended(&mut self, incoming: Incoming) {
        for peer in incoming.links.into_values() {
            peer.end.gone.store(true, Ordering::Release);
            if let Some(local) = self.endpoints.get(&peer.serial) {
                local.inner.ring_self();
            }
        }
    }
}
