//! Where this process is the gateway ([`super::super::gateway`]): links to endpoints of other nodes wait until it has opened
//! their proxies, or said that it knows no route.

use super::super::note::Note;
use super::Service;
use crate::addr::{Addr, Nid};

/// Such links, at most, of all processes together.
const MOST: usize = 1 << 16;

/// A link that waits for the gateway's word.
#[derive(Debug, Clone, Copy)]
pub struct Awaiting {
    pub conn: u32,
    pub link: u32,
    from: Addr,
    to: Addr,
}

impl Service {
    /// Tells the gateway. False: there is none, or it has much to do.
    pub fn ask_gateway(&mut self, conn: u32, link: u32, from: Addr, to: Addr) -> bool {
        let told = self.awaiting.len() < MOST && self.process.gateway().is_some_and(|asked| asked.add(to));
        if told {
            self.awaiting.push(Awaiting { conn, link, from, to });
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
            for Awaiting { conn, link, from, to } in self.take_awaiting(|to| to == addr) {
                self.attach_from(conn, link, from, to);
            }
        }
    }

    /// No route leads to this node; or, without one, the gateway is none any more.
    pub fn answer_awaiting(&mut self, nid: Option<Nid>) {
        for Awaiting { conn, link, .. } in self.take_awaiting(|to| nid.is_none_or(|nid| nid == to.nid)) {
            let note = if nid.is_some() { Note::Unreachable { link } } else { Note::Gone { link } };
            self.tell(conn, note, &[]);
        }
    }
}
