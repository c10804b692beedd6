//! Where this process is the gateway ([`super::super::gateway`]): links to endpoints of other nodes wait until it has opened
//! their proxies, or said that it knows no route.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use super::super::note::Note;
use super::super::route::How;
use super::Service;
use crate::addr::{Addr, Nid};

/// Such links, at most, of all processes together.
const MOST: usize = 1 << 16;

/// A link that waits for the gateway's word; or, to an endpoint of this node, until that has read what a former gateway brought.
#[derive(Debug, Clone, Copy)]
pub struct Awaiting {
    pub conn: u32,
    pub link: u32,
    from: Addr,
    to: Addr,
    /// How its messages are to go.
    pub how: How,
}

impl Service {
    /// Tells the gateway. False: there is none, or it has much to do.
    pub fn ask_gateway(&mut self, conn: u32, link: u32, from: Addr, to: Addr) -> bool {
        let told = self.awaiting.len() < MOST && self.process.gateway().is_some_and(|asked| asked.add(to));
        if told {
            self.awaiting.push(Awaiting { conn, link, from, to, how: How::default() });
        }
        told
    }

    fn take_awaiting(&mut self, mut which: impl FnMut(Addr) -> bool) -> Vec<Awaiting> {
        let (taken, left) = core::mem::take(&mut self.awaiting).into_iter().partition(|a| which(a.to));
        self.awaiting = left;
        taken
    }

    /// An endpoint is opened: whoever waits for it is let in.
    pub fn proxy_opened(&mut self, addr: Addr) {
        if addr.nid != 0 {
            self.attach_awaiting(|to| to == addr);
        }
    }

    /// A receiver here has something unread of a former gateway's: the proxy of the next one waits. False: too many do.
    pub fn hold_back(&mut self, conn: u32, link: u32, from: Addr, to: Addr) -> bool {
        let held = self.awaiting.len() < MOST;
        if held {
            self.awaiting.push(Awaiting { conn, link, from, to, how: How::default() });
            self.retry_soon();
        }
        held
    }

    /// Those that were held back are let in where all is read by now.
    pub fn attach_held_back(&mut self) {
        if self.awaiting.iter().any(|a| a.to.nid == 0) {
            self.attach_awaiting(|to| to.nid == 0);
        }
    }

    fn attach_awaiting(&mut self, which: impl FnMut(Addr) -> bool) {
        for Awaiting { conn, link, from, to, how } in self.take_awaiting(which) {
            self.attach_from(conn, link, from, to);
            if how.is_said() {
                self.go_like(conn, link, |as_said| *as_said = how);
            }
        }
    }

    /// Proxies end, unless something of theirs is not with its receiver yet. Senders of this node that are through with one are
    /// asked to let go, and it ends when the last of them has. Who attaches gets there before this or asks the gateway for a new
    /// one: both happen on this thread.
    pub fn end_unused(&mut self, serials: &[u32]) {
        let mut attached = HashSet::new();
        for &serial in serials {
            let inner = self.endpoints.get(&serial).map(|local| local.inner.clone());
            let Some(inner) = inner.filter(|inner| inner.nid != 0) else { continue };
            if inner.senders.load(Ordering::Relaxed) > 0 {
                attached.insert(serial);
            } else if inner.retire_if_done() {
                self.retire(serial);
            }
        }
        self.ending.extend(&attached);
        for (conn, link) in self.links_to(&attached) {
            self.tell(conn, Note::Rest { link }, &[]);
        }
    }

    /// This process is about to be the gateway no more: nobody is let in any more, and who is in is to let go, to wait for the next
    /// gateway.
    pub fn gateway_rests(&mut self) {
        self.rests = true;
        self.answer_awaiting(None);
        let proxies = self.by_addr.iter().filter(|(addr, _)| addr.nid != 0);
        let serials: HashSet<u32> = proxies.map(|(_, serial)| *serial).collect();
        for (conn, link) in self.links_to(&serials) {
            self.tell(conn, Note::Rest { link }, &[]);
        }
    }

    /// A sender let go of an endpoint, which may be a proxy that is to end.
    pub fn let_go(&mut self, serial: u32) {
        let inner = self.endpoints.get(&serial).map(|local| &local.inner);
        if inner.is_some_and(|inner| inner.senders.load(Ordering::Relaxed) == 0)
            && self.ending.remove(&serial)
        {
            self.end_unused(&[serial]);
        }
    }

    /// No route leads to this node; or, without one, the gateway is none any more. Who waits for an endpoint here waits on.
    pub fn answer_awaiting(&mut self, nid: Option<Nid>) {
        for Awaiting { conn, link, .. } in
            self.take_awaiting(|to| nid.map_or(to.nid != 0, |nid| nid == to.nid))
        {
            let note = if nid.is_some() { Note::Unreachable { link } } else { Note::Gone { link } };
            self.tell(conn, note, &[]);
        }
    }
}
