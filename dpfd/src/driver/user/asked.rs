//! What the service tells its gateway ([`super::gateway`]): addresses of other nodes that senders asked for, and by which routes
//! they want to go there.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

use nix::sys::eventfd::EventFd;

use super::route::Wish;
use super::shared::held;
use crate::addr::{Addr, Dpid};

/// Addresses that were asked for and are not told yet, at most; who asks for more asks again.
const MOST_ASKED: usize = 4096;

/// As above.
#[derive(Debug)]
pub struct Asked {
    /// Readable while there are some.
    pub wake: EventFd,
    addresses: Mutex<Vec<Addr>>,
    wishes: Mutex<Vec<Wish>>,
    has_wishes: AtomicBool,
    /// The only edges that may be used, sender and receiver, if the graph is strict.
    edges: OnceLock<HashSet<(Dpid, Addr)>>,
}

impl Asked {
    /// None yet.
    pub fn new(wake: EventFd) -> Asked {
        Asked {
            wake,
            addresses: Mutex::default(),
            wishes: Mutex::default(),
            has_wishes: AtomicBool::new(false),
            edges: OnceLock::new(),
        }
    }

    /// No other edges may be used, for good.
    pub fn restrict(&self, edges: HashSet<(Dpid, Addr)>) {
        let _ = self.edges.set(edges);
    }

    /// Whether that endpoint may send there.
    pub fn permits(&self, from: Dpid, to: Addr) -> bool {
        self.edges.get().is_none_or(|edges| edges.contains(&(from, to)))
    }

    /// A sender wants to go by a route, or does not any more.
    pub fn wish(&self, wish: Wish) {
        held(&self.wishes).push(wish);
        self.has_wishes.store(true, Ordering::Release);
        let _ = self.wake.write(1);
    }

    /// Takes what they want.
    #[inline]
    pub fn take_wishes(&self) -> Vec<Wish> {
        if !self.has_wishes.load(Ordering::Acquire) {
            return Vec::new();
        }
        self.has_wishes.store(false, Ordering::Release);
        core::mem::take(&mut *held(&self.wishes))
    }

    /// Takes them.
    pub fn take(&self) -> Vec<Addr> {
        let _ = self.wake.read();
        core::mem::take(&mut *held(&self.addresses))
    }

    /// A sender wants to go there. False: it is to ask again later.
    pub fn add(&self, to: Addr) -> bool {
        let mut addresses = held(&self.addresses);
        if !addresses.contains(&to) {
            if addresses.len() >= MOST_ASKED {
                return false;
            }
            addresses.push(to);
        }
        let _ = self.wake.write(1);
        true
    }
}
