//! The endpoints of this node, as the gateway reaches them: by proxies, one for each endpoint of another node that programs
//! here send to or hear from.

use std::cell::Cell;
use std::collections::HashMap;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::sync::Arc;

use dpfd::driver::user::deposit::Deposit;
use dpfd::driver::user::gateway::Gateway;
use dpfd::endpoint::Held;
use dpfd::{Addr, Dpid, Endpoint, Error, Nid, Parts};
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};

use crate::local::{Local, Message};

/// Messages that are taken from one proxy, while others wait.
const TURN: usize = 32;
/// Bytes of messages that a proxy holds before no more are taken from it: its senders wait then, as for any receiver. More
/// than its pool, so only messages that are too long for that come to so much.
const HELD_MOST: usize = 32 << 20;
/// What a message costs beside its bytes.
const HELD_EACH: usize = 256;
/// What epoll knows proxies by: this, and node and endpoint.
const TOKEN: u64 = 1 << 32;

/// A message of a program here.
#[derive(Debug)]
pub struct Taken {
    held: Held,
    account: Rc<Cell<usize>>,
}

impl Taken {
    fn new(held: Held, account: &Rc<Cell<usize>>) -> Taken {
        account.set(account.get() + held.size() + HELD_EACH);
        Taken { held, account: account.clone() }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.account.set(self.account.get() - self.held.size() - HELD_EACH);
    }
}

impl Message for Taken {
    fn size(&self) -> usize {
        self.held.size()
    }
    fn immediate(&self) -> Option<u64> {
        self.held.immediate()
    }
    fn copy_from(&self, begin: usize, to: &mut [u8]) -> usize {
        self.held.copy_from(begin, to)
    }
}

#[derive(Debug)]
struct Proxy {
    endpoint: Arc<Endpoint>,
    held: Rc<Cell<usize>>,
}

/// The proxies.
#[derive(Debug)]
pub struct Proxies {
    gateway: Gateway,
    epoll: Rc<Epoll>,
    all: HashMap<Addr, Proxy>,
    /// From these nothing is taken at present, and epoll does not tell of them.
    paused: Vec<Addr>,
    /// These were asked for, and could not be opened for want of descriptors.
    wanted: Vec<Addr>,
    failed: u64,
}

impl Proxies {
    /// None as yet. What is readable is told by `epoll`, with a token that [`Proxies::address`] knows.
    pub fn new(gateway: Gateway, epoll: Rc<Epoll>) -> Proxies {
        Proxies { gateway, epoll, all: HashMap::new(), paused: Vec::new(), wanted: Vec::new(), failed: 0 }
    }

    /// The proxy that a token of epoll's stands for.
    pub fn address(token: u64) -> Option<Addr> {
        (token & TOKEN != 0).then_some(Addr { nid: (token >> 16) as Nid, dpid: token as Dpid })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
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

    /// Opens proxies that were asked for, of nodes that are known, and refuses the others.
    pub fn answer(&mut self, knows: impl Fn(Nid) -> bool) {
        for addr in self.gateway.asked() {
            if !knows(addr.nid) {
                self.gateway.refuse(addr.nid);
            } else if !self.open(addr) {
                self.wanted.push(addr);
            }
        }
    }

    /// Whether it is open now.
    fn open(&mut self, addr: Addr) -> bool {
        if self.all.contains_key(&addr) {
            return true;
        }
        match self.open_new(addr) {
            Ok(proxy) => {
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

    fn open_new(&self, addr: Addr) -> Result<Proxy, Error> {
        let endpoint = Arc::new(Endpoint::proxy(&self.gateway, addr)?);
        // The loop does that, for all proxies at once.
        endpoint.set_spin(0);
        // It has a pool before anybody sends: a message that is too long for a descriptor would not even come near it.
        endpoint.usual_pool()?;
        let event = EpollEvent::new(EpollFlags::EPOLLIN, token(addr));
        let added = self.epoll.add(&*endpoint, event);
        added.map_err(|errno| Error::System { call: "epoll_ctl", errno: errno as i32 })?;
        Ok(Proxy { endpoint, held: Rc::default() })
    }

    /// Takes messages from a proxy that is readable: its sender's number and the message, each. How many that were.
    pub fn take(&mut self, addr: Addr, mut each: impl FnMut(Dpid, Taken)) -> usize {
        let Some(proxy) = self.all.get(&addr) else { return 0 };
        let mut n = 0;
        while n < TURN {
            if proxy.held.get() >= HELD_MOST {
                self.pause(addr);
                break;
            }
            match Held::next(&proxy.endpoint) {
                Ok(Some(held)) => {
                    let from = held.from();
                    each(if from.nid == 0 { from.dpid } else { 0 }, Taken::new(held, &proxy.held));
                    n += 1;
                }
                Ok(None) => break,
                Err(Error::Closed | Error::NotAnEndpoint(_)) => {
                    self.all.remove(&addr);
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
        if let Some(proxy) = self.all.get(&addr) {
            let mut none = EpollEvent::new(EpollFlags::empty(), token(addr));
            let _ = self.epoll.modify(&*proxy.endpoint, &mut none);
            self.paused.push(addr);
        }
    }

    /// Takes from paused proxies again, where they have room, and opens what could not be opened.
    pub fn resume(&mut self) {
        for addr in core::mem::take(&mut self.wanted) {
            if !self.open(addr) {
                self.wanted.push(addr);
            }
        }
        for addr in core::mem::take(&mut self.paused) {
            match self.all.get(&addr) {
                Some(proxy) if proxy.held.get() < HELD_MOST / 2 => {
                    let mut event = EpollEvent::new(EpollFlags::EPOLLIN, token(addr));
                    let _ = self.epoll.modify(&*proxy.endpoint, &mut event);
                }
                Some(_) => self.paused.push(addr),
                None => {}
            }
        }
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
    ) -> bool {
        if !self.open(from) {
            return false;
        }
        let Some(proxy) = self.all.get(&from) else { return false };
        let pieces = [IoSlice::new(message)];
        let parts = Parts::new(&pieces);
        let parts = immediate.map_or(parts, |immediate| parts.with_immediate(immediate));
        matches!(proxy.endpoint.deposit(parts, Addr::local(to), published), Ok(Deposit::Done))
    }

    fn reaches(&mut self, from: Addr, to: Dpid) -> bool {
        self.open(from)
            && self
                .all
                .get(&from)
                .is_some_and(|proxy| proxy.endpoint.reaches(Addr::local(to)).unwrap_or(false))
    }
}
