//! The endpoints of this node, as the gateway reaches them: by proxies, one for each endpoint of another node that programs
//! here send to or hear from.

use std::collections::HashMap;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use dpfd::driver::user::deposit::Deposit;
use dpfd::driver::user::gateway::Gateway;
use dpfd::driver::user::route::Wish;
use dpfd::endpoint::Held;
use dpfd::{Addr, Dpid, Endpoint, Error, Nid, Parts};
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};

use crate::local::{Local, Message};

mod idle;
mod shares;
use idle::Idle;
use shares::Shares;

/// Messages that are taken from one proxy, while others wait.
pub(crate) const TURN: usize = 32;
/// Bytes of messages that a proxy holds before no more are taken from it: its senders wait then, as for any receiver. More
/// than its pool, so only messages that are too long for that come to so much.
const HELD_MOST: usize = 32 << 20;
/// What a message costs beside its bytes.
const HELD_EACH: usize = 256;
/// Proxies that are looked at in each round, at most; epoll tells of the others.
const LOOKED_MOST: usize = 8;
/// What epoll knows proxies by: this, and node and endpoint.
const TOKEN: u64 = 1 << 32;

/// A message of a program here.
#[derive(Debug)]
pub struct Taken {
    held: Held,
    /// What came beside it: asked once, when it is the youngest, since each frame asks.
    immediate: Option<u64>,
    route: u64,
    account: Arc<AtomicUsize>,
}

impl Taken {
    fn new(held: Held, account: &Arc<AtomicUsize>) -> Taken {
        account.fetch_add(held.size() + HELD_EACH, Ordering::Relaxed);
        Taken { immediate: held.immediate(), route: held.route(), held, account: account.clone() }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.account.fetch_sub(self.held.size() + HELD_EACH, Ordering::Relaxed);
    }
}

impl Message for Taken {
    fn size(&self) -> usize {
        self.held.size()
    }
    fn immediate(&self) -> Option<u64> {
        self.immediate
    }
    fn route(&self) -> u64 {
        self.route
    }
    fn copy_from(&self, begin: usize, to: &mut [u8]) -> usize {
        self.held.copy_from(begin, to)
    }
}

#[derive(Debug)]
struct Proxy {
    endpoint: Arc<Endpoint>,
    held: Arc<AtomicUsize>,
    idle: Idle,
}

/// The proxies.
#[derive(Debug)]
pub struct Proxies {
    gateway: Gateway,
    epoll: Arc<Epoll>,
    all: HashMap<Addr, Proxy>,
    /// How many each node has, and may have for frames that come from there; how often a frame's endpoint got none for that.
    shares: Shares,
    crowded: u64,
    /// These are looked at, and ring no bell.
    looked: Vec<Addr>,
    /// From these nothing is taken at present, and epoll does not tell of them.
    paused: Vec<Addr>,
    /// These were asked for, and could not be opened for want of descriptors.
    wanted: Vec<Addr>,
    /// The time, nanoseconds, as of the last [`Proxies::pass`]; and when idle ones are looked for next.
    now: u64,
    sweep: u64,
    /// Nothing is opened any more for those who ask.
    stopped: bool,
    failed: u64,
}

impl Proxies {
    /// None as yet; frames of a node open up to `most` that no program here can send to, while there are fewer than
    /// `most_attached` to which one can. What is readable is told by `epoll`, with a token that
    /// [`Proxies::address`] knows.
    pub fn new(gateway: Gateway, epoll: Arc<Epoll>, most: usize, most_attached: usize) -> Proxies {
        Proxies {
            gateway,
            epoll,
            all: HashMap::new(),
            shares: Shares::new(most, most_attached),
            crowded: 0,
            looked: Vec::with_capacity(LOOKED_MOST),
            paused: Vec::new(),
            wanted: Vec::new(),
            now: 0,
            sweep: 0,
            stopped: false,
            failed: 0,
        }
    }

    /// The proxy that a token of epoll's stands for.
    pub fn address(token: u64) -> Option<Addr> {
        (token & TOKEN != 0).then_some(Addr { nid: (token >> 16) as Nid, dpid: token as Dpid })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Which there are.
    pub(crate) fn addresses(&self) -> Vec<Addr> {
        self.all.keys().copied().collect()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Times that a proxy could not be opened, or not be used.
    pub fn failed(&self) -> u64 {
        self.failed
    }

    /// Whether [`Proxies::resume`] has anything to do.
    pub fn has_paused(&self) -> bool {
        !self.paused.is_empty() || !self.wanted.is_empty()
    }

    /// Readable when somebody has asked for an endpoint of another node.
    pub fn asked_fd(&self) -> BorrowedFd<'_> {
        self.gateway.as_fd()
    }

    /// The gateway that these are of.
    pub fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// What programs here say by which route they go, since the last call.
    #[inline]
    pub fn wishes(&self) -> Vec<Wish> {
        self.gateway.wishes()
    }

    /// Opens proxies that were asked for, of nodes that are known, and refuses the others.
    pub fn answer(&mut self, knows: impl Fn(Nid) -> bool) {
        for addr in self.gateway.asked() {
            if self.stopped {
                continue; // the next gateway is asked
            }
            if !knows(addr.nid) {
                self.gateway.refuse(addr.nid);
            } else if !self.open(addr) && !self.wanted.contains(&addr) {
                self.wanted.push(addr);
            }
        }
    }

    /// Whether it is open now.
    fn open(&mut self, addr: Addr) -> bool {
        if self.all.get(&addr).is_some_and(|proxy| proxy.endpoint.has_ended()) {
            self.remove(addr);
        }
        if let Some(proxy) = self.all.get_mut(&addr) {
            proxy.idle.used(self.now);
            return true;
        }
        match self.open_new(addr) {
            Ok(proxy) => {
                self.shares.opened(addr.nid);
                self.all.insert(addr, proxy);
                true
            }
            // It was opened and is closing just now, or descriptors are used up: again later.
            Err(_) => {
                self.failed += 1;
                false
            }
        }
    }

    /// Whether a frame of that endpoint has one.
    fn is_open_for(&mut self, from: Addr) -> bool {
        self.all.contains_key(&from) || (self.may_open(from) && self.open(from))
    }

    fn open_new(&self, addr: Addr) -> Result<Proxy, Error> {
        let endpoint = Arc::new(Endpoint::proxy(&self.gateway, addr)?);
        // The loop does that, for all proxies at once.
        endpoint.set_spin(0);
        // It has a pool before anybody sends: a message that is too long for a descriptor would not even come near it.
        endpoint.usual_pool()?;
        let event = EpollEvent::new(EpollFlags::EPOLLIN, token(addr));
        let added = self.epoll.add(&*endpoint, event);
        added.map_err(|errno| Error::System { call: "epoll_ctl", errno: errno as i32 })?;
        Ok(Proxy { endpoint, held: Arc::default(), idle: Idle::new(self.now) })
    }

    /// What it keeps goes with it: there is none, or its endpoint is gone already.
    fn remove(&mut self, addr: Addr) {
        if self.all.remove(&addr).is_some() {
            self.shares.ended(addr.nid);
        }
    }

    /// Takes messages from a proxy that is readable: its sender's number and the message, each. How many that were. `looks`: it
    /// is among those that [`Proxies::look`] looks at from now on, if there is a place.
    pub fn take(&mut self, addr: Addr, looks: bool, each: impl FnMut(Dpid, Taken)) -> usize {
        let n = self.take_by(Held::next, addr, each);
        if looks && n > 0 && self.looked.len() < LOOKED_MOST && !self.looked.contains(&addr) {
            self.looked.push(addr);
        }
        n
    }

    /// Takes messages from a proxy whose sender in this process says that it has sent some, and rang for none. How many that were.
    pub fn take_aside(&mut self, addr: Addr, each: impl FnMut(Dpid, Taken)) -> usize {
        self.take_by(Held::take, addr, each)
    }

    /// Takes messages from those that are looked at: to which address, its sender's number, the message. How many that were.
    pub fn look(&mut self, mut each: impl FnMut(Addr, Dpid, Taken)) -> usize {
        let mut n = 0;
        for at in 0..self.looked.len() {
            let addr = self.looked[at];
            n += self.take_by(Held::look, addr, |from, message| each(addr, from, message));
        }
        n
    }

    /// Looks no more: their senders ring again. Whether something is there already.
    pub fn rest(&mut self) -> bool {
        let mut any = false;
        while let Some(addr) = self.looked.pop() {
            // An error comes again when it is taken from.
            any |= self.all.get(&addr).is_some_and(|proxy| Held::rest(&proxy.endpoint).unwrap_or(true));
        }
        any
    }

    fn take_by(
        &mut self,
        next: impl Fn(&Arc<Endpoint>) -> Result<Option<Held>, Error>,
        addr: Addr,
        mut each: impl FnMut(Dpid, Taken),
    ) -> usize {
        let now = self.now;
        let Some(proxy) = self.all.get_mut(&addr) else { return 0 };
        let mut n = 0;
        while n < TURN {
            if proxy.held.load(Ordering::Relaxed) >= HELD_MOST {
                self.pause(addr);
                break;
            }
            match next(&proxy.endpoint) {
                Ok(Some(held)) => {
                    let from = held.from();
                    each(if from.nid == 0 { from.dpid } else { 0 }, Taken::new(held, &proxy.held));
                    proxy.idle.used(now);
                    n += 1;
                }
                Ok(None) => break,
                Err(Error::Closed | Error::NotAnEndpoint(_)) => {
                    self.remove(addr);
                    break;
                }
                Err(_) => {
                    // What it needs, the process has none left of.
                    self.failed += 1;
                    self.pause(addr);
                    break;
                }
            }
        }
        n
    }

    fn pause(&mut self, addr: Addr) {
        if let Some(proxy) = self.all.get(&addr).filter(|_| !self.paused.contains(&addr)) {
            let mut none = EpollEvent::new(EpollFlags::empty(), token(addr));
            let _ = self.epoll.modify(&*proxy.endpoint, &mut none);
            self.paused.push(addr);
        }
    }

    /// Takes from paused proxies again, where they have room, and opens what could not be opened. Those that are not paused any more:
    /// what came meanwhile may not have rung.
    pub fn resume(&mut self) -> Vec<Addr> {
        let mut resumed = Vec::new();
        for addr in core::mem::take(&mut self.wanted) {
            if !self.open(addr) {
                self.wanted.push(addr);
            }
        }
        for addr in core::mem::take(&mut self.paused) {
            match self.all.get(&addr) {
                Some(proxy) if proxy.held.load(Ordering::Relaxed) < HELD_MOST / 2 => {
                    let mut event = EpollEvent::new(EpollFlags::EPOLLIN, token(addr));
                    let _ = self.epoll.modify(&*proxy.endpoint, &mut event);
                    resumed.push(addr);
                }
                Some(_) => self.paused.push(addr),
                None => {}
            }
        }
        resumed
    }

    /// This process ends: senders let go of proxies as soon as what they sent was taken and acknowledged, and wait for the next gateway.
    pub fn stop(&mut self) {
        self.stopped = true;
        self.wanted.clear();
        self.gateway.rest();
    }

    /// Nodes to whose endpoints programs here can still send.
    pub(crate) fn attached(&self) -> impl Iterator<Item = Nid> + '_ {
        let attached = self.all.iter().filter(|(_, proxy)| proxy.endpoint.has_senders());
        attached.map(|(addr, _)| addr.nid)
    }
}

fn token(addr: Addr) -> u64 {
    TOKEN | u64::from(addr.nid) << 16 | u64::from(addr.dpid)
}

impl Local for Proxies {
    type Message = Taken;

    fn deposit(
        &mut self,
        from: Addr,
        to: Dpid,
        message: &[u8],
        immediate: Option<u64>,
        published: &mut dyn FnMut(),
    ) -> Deposit {
        // Twice: one that had ended for want of use is opened anew.
        for _ in 0..2 {
            if !self.is_open_for(from) {
                return Deposit::Full;
            }
            let Some(proxy) = self.all.get_mut(&from) else { return Deposit::Full };
            proxy.idle.used(self.now);
            let pieces = [IoSlice::new(message)];
            let parts = Parts::new(&pieces);
            let parts = immediate.map_or(parts, |immediate| parts.with_immediate(immediate));
            match proxy.endpoint.deposit(parts, Addr::local(to), published) {
                Ok(deposit) => return deposit,
                Err(Error::Closed) => self.remove(from),
                Err(_) => return Deposit::Full,
            }
        }
        Deposit::Full
    }

    fn reaches(&mut self, from: Addr, to: Dpid) -> bool {
        // For one that is not here nothing is opened, whoever asks.
        if !self.all.contains_key(&from) && !self.gateway.has(to) {
            return false;
        }
        self.may_open(from)
            && self.open(from)
            && self
                .all
                .get(&from)
                .is_some_and(|proxy| proxy.endpoint.reaches(Addr::local(to)).unwrap_or(false))
    }

    fn has_room(&mut self, from: Addr, to: Dpid, bytes: usize) -> bool {
        let proxy = self.all.get(&from);
        proxy.is_some_and(|proxy| proxy.endpoint.has_room(Addr::local(to), bytes).unwrap_or(false))
    }

    fn crowded(&self) -> u64 {
        self.crowded
    }
}
