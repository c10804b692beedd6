//! Proxies that nobody uses end, so that another node cannot use up this one's descriptors by naming many endpoints.
//!
//! They are bounded for each node, and those that programs here can send to for all together; where there is no room, those
//! that were used least lately make some. Nothing is lost: a proxy ends only when all that it handed over was read, and the
//! programs here that can send to it are through with it ([`Endpoint::end_unused`](dpfd::Endpoint)). The next message opens
//! another.

use std::sync::atomic::Ordering;

use dpfd::{Addr, Nid};

use super::Proxies;

/// Unused for so long, a proxy is let go, nanoseconds.
const UNUSED: u64 = 60_000_000_000;
/// How often they are looked for.
const SWEEP: u64 = 20_000_000_000;
/// Where a node has as many as it may, this is long enough.
const CROWDED: u64 = 1_000_000_000;
/// So many make room at a time.
const AT_A_TIME: usize = 64;

/// Since when a proxy was not used, or not asked to end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Idle(u64);

impl Idle {
    pub fn new(now: u64) -> Idle {
        Idle(now)
    }

    #[inline]
    pub fn used(&mut self, now: u64) {
        self.0 = now;
    }
}

impl Proxies {
    /// The time; to be told in each round of the loop.
    pub fn pass(&mut self, now: u64) {
        self.now = now;
        if now >= self.sweep {
            self.sweep = now.saturating_add(SWEEP);
            self.forget_ended();
            self.end_unused(None, UNUSED, usize::MAX);
        }
    }

    /// When to call [`Proxies::pass`] next, if nothing else happens.
    pub fn next_sweep(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.sweep)
    }

    /// Whether a frame of that endpoint may have a proxy. Where its node has too many, some are asked to end, and it may have
    /// one soon.
    pub(super) fn may_open(&mut self, addr: Addr) -> bool {
        if self.shares.are_few(addr.nid) || self.all.contains_key(&addr) {
            return true;
        }
        if self.shares.is_time(addr.nid, self.now) {
            self.forget_ended();
            let of_node = self.all.iter().filter(|(at, _)| at.nid == addr.nid);
            let attached = of_node.filter(|(_, proxy)| proxy.endpoint.has_senders()).count();
            self.shares.count(addr.nid, attached);
            if self.shares.are_many_attached() {
                // Other nodes were counted when they last had many, which may be long ago.
                let attached = self.all.iter().filter(|(_, proxy)| proxy.endpoint.has_senders());
                self.shares.count_all(attached.map(|(at, _)| at.nid));
            }
            if !self.shares.have_room(addr.nid) {
                // Whose those are that programs here can send to does not matter.
                let of = Some(addr.nid).filter(|_| !self.shares.are_many_attached());
                self.end_unused(of, CROWDED, AT_A_TIME);
            }
        }
        let room = self.shares.have_room(addr.nid);
        self.crowded += u64::from(!room);
        room
    }

    /// Those that have ended.
    fn forget_ended(&mut self) {
        let ended = self.all.iter().filter(|(_, proxy)| proxy.endpoint.has_ended());
        let ended: Vec<Addr> = ended.map(|(addr, _)| *addr).collect();
        ended.into_iter().for_each(|addr| self.remove(addr));
    }

    /// Asks those to end that were not used for so long, of one node or of all: the first `most` of them.
    fn end_unused(&mut self, nid: Option<Nid>, unused: u64, most: usize) {
        let now = self.now;
        let mut idle: Vec<_> = self
            .all
            .iter_mut()
            .filter(|(addr, proxy)| {
                nid.is_none_or(|nid| nid == addr.nid) && proxy.held.load(Ordering::Relaxed) == 0
            })
            .filter(|(_, proxy)| now >= proxy.idle.0.saturating_add(unused))
            .map(|(_, proxy)| proxy)
            .collect();
        if idle.len() > most {
            idle.select_nth_unstable_by_key(most, |proxy| proxy.idle.0);
            idle.truncate(most);
        }
        for proxy in idle {
            proxy.endpoint.end_unused();
            // One that may not is asked again when it was not used for as long once more.
            proxy.idle.used(now);
        }
    }
}
