//! The sending side of an endpoint: its links, and what the service has of their messages.

use std::collections::HashMap;

use super::link::{Destination, Link, Queued};
use crate::addr::Addr;

/// Messages of an endpoint that the service holds until their receivers have room, or are there; and bytes of them.
pub const MOST_BACKLOG: usize = 64;
/// As above.
pub const MOST_BYTES: usize = 256 * 1024;
/// So many times as much, where something behind that in the pair can be delivered.
const BEHIND: usize = 16;

/// What the service has, or will have, of all links together: there may be thousands of them.
#[derive(Debug, Default)]
struct Held {
    /// Messages in the pair, or in a link's backlog.
    queued: usize,
    /// Queued ones.
    backlog: usize,
    /// Bytes of these.
    bytes: usize,
}

/// Sending.
#[derive(Debug, Default)]
pub struct Tx {
    /// All links that were ever used.
    pub links: Vec<Link>,
    held: Held,
    by_addr: HashMap<Addr, usize>,
    /// The target's link.
    pub target: Option<usize>,
    /// Where plain writes go that the service reads now: those before a change of target go to the former.
    pub plain: Option<Addr>,
    /// A plain write that the service took and that waits for a target.
    pub untargeted: Option<Vec<u8>>,
    /// Direct calls so far that found nobody's plain write.
    pub calls: u32,
    /// Nobody writes plainly: direct calls need not ask. Until the service sees a plain write.
    pub alone: bool,
    /// Codes of routes that messages named, and that there are.
    pub routes: Vec<u64>,
    /// The endpoint is over: there are no links any more.
    pub ended: bool,
}

impl Tx {
    /// Ends all links: nobody sends any more, and a call that had found one finds none.
    pub fn take_all(&mut self) -> Vec<Link> {
        core::mem::replace(self, Tx { ended: true, ..Tx::default() }).links
    }

    /// The link to `to`, if there is one.
    pub fn find(&self, to: Addr) -> Option<usize> {
        self.by_addr.get(&to).copied()
    }

    /// The link to `to`, made if need be; whether it is new.
    pub fn link(&mut self, to: Addr) -> (usize, bool) {
        if let Some(ix) = self.find(to) {
            return (ix, false);
        }
        self.links.push(Link::new(to));
        let ix = self.links.len() - 1;
        self.by_addr.insert(to, ix);
        (ix, true)
    }

    /// Whether so much is on its way to destinations that are not there that the service will not take all of it: what is
    /// behind it in the pair stays there.
    pub fn is_jammed(&self) -> bool {
        if self.held.queued < MOST_BACKLOG && self.held.bytes < MOST_BYTES {
            return false;
        }
        let absent = || {
            self.links
                .iter()
                .filter(|link| link.queued > 0 && matches!(link.destination, Destination::Unknown))
        };
        let bytes = || absent().flat_map(|link| &link.backlog).map(Queued::bytes).sum::<usize>();
        absent().map(|link| link.queued as usize).sum::<usize>() >= MOST_BACKLOG || bytes() >= MOST_BYTES
    }

    /// Whether the service may take another message: it has room, or what it holds is in the way of others, and there is not too much
    /// of it.
    pub fn may_park(&self) -> bool {
        self.has_room(1) || self.has_room(BEHIND) && self.holds_up()
    }

    fn has_room(&self, times: usize) -> bool {
        self.held.backlog < times * MOST_BACKLOG && self.held.bytes < times * MOST_BYTES
    }

    /// Whether the pair may hold a message whose receiver would get it as soon as the service takes it.
    fn holds_up(&self) -> bool {
        // Plain writes are not counted before they are taken.
        let plain = self.target.filter(|_| !self.alone);
        let mut links = self.links.iter().enumerate();
        links.any(|(ix, link)| link.is_free() && (link.queued > 0 || plain == Some(ix)))
    }

    /// Whether the service does not see by itself that it may take what this link has in the pair.
    pub fn is_held_up(&self, ix: usize) -> bool {
        !self.has_room(1) && self.links[ix].is_free()
    }

    /// Whether the service holds messages.
    pub fn has_backlog(&self) -> bool {
        self.held.backlog > 0
    }

    /// A message of this link is in the pair.
    pub fn queued(&mut self, ix: usize) {
        self.links[ix].queued += 1;
        self.held.queued += 1;
    }

    /// It is delivered, or lost.
    pub fn unqueued(&mut self, ix: usize) {
        // A packet with the right key need not be one of ours: whoever has a copy of the descriptor can repeat it.
        if let Some(left) = self.links[ix].queued.checked_sub(1) {
            self.links[ix].queued = left;
            self.held.queued -= 1;
        }
    }

    /// Keeps a message, behind the others of its link. How many there are then.
    pub fn park(&mut self, ix: usize, load: Queued) -> usize {
        self.held.backlog += 1;
        self.held.bytes += load.bytes();
        self.links[ix].backlog.push_back(load);
        self.links[ix].backlog.len()
    }

    /// Takes the first one of a link.
    pub fn unpark(&mut self, ix: usize) -> Option<Queued> {
        let load = self.links[ix].backlog.pop_front()?;
        self.held.backlog -= 1;
        self.held.bytes -= load.bytes();
        Some(load)
    }

    /// Puts it back, as it was or in memory of its own.
    pub fn park_again(&mut self, ix: usize, load: Queued) {
        self.held.backlog += 1;
        self.held.bytes += load.bytes();
        self.links[ix].backlog.push_front(load);
    }
}
