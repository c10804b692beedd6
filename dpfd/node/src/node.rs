//! A node: its routes, the other nodes, and what goes between its endpoints and theirs.
//!
//! It has no clock and no thread, and does no I/O but by its routes: whoever drives it calls [`Node::receive`] where a route
//! has something, [`Node::send`] for what programs here send, and then [`Node::turn`], again when [`Node::next_timeout`] has
//! come. Times are nanoseconds of one clock.
//!
//! What a frame says is believed in this order: it came from an address of the NART; that node's guard lets it pass; it says
//! that it is from that node and for this one; its flow takes it. Whatever fails is dropped and counted.

use std::collections::HashMap;

use dp_abi::frame2::{Header, HEADER, KIND_PROBE};
use dp_flow::Checksum;
use dp_route::{PeerAddr, Received, Route};
use dpfd::{Addr, Dpid, Nid};

use crate::guard::Opened;
use crate::local::Local;
use crate::peer::{Around, Peer, Random};
use crate::places::{Ends, Places};
use crate::probe;

/// Packets that one call takes from a route.
const SLOTS: usize = 32;
/// Frames that are taken from a route before a time-out is believed, at most.
const HEARD_MOST: usize = 1024;
/// Routes are looked at again after this time, nanoseconds: path MTUs, interfaces.
const REFRESH: u64 = 1_000_000_000;
/// Times in a row that a route fails to say what came, after which it is not asked, nor listened to, until it says that it works:
/// what makes its descriptor readable stays there, and would keep a processor busy. One that was only told of an error says that once.
const FAILS: u32 = 16;

/// Frames that were dropped before any flow saw them, and messages that could not be sent on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// From an address that is no node's.
    pub unknown: u64,
    /// Too short, or of another version of the layout.
    pub unsound: u64,
    /// They say that they are from another node than that whose address they came from, or for another than this one.
    pub foreign: u64,
    /// Messages of programs here whose sender nobody can tell.
    pub nameless: u64,
}

/// A node.
pub struct Node<L: Local> {
    nid: Nid,
    user: u32,
    /// The first to go: with what is local goes that this process is the gateway, and the next one wants the same addresses.
    routes: Vec<Box<dyn Route>>,
    local: L,
    received: Vec<Option<Received>>,
    /// How often each of them failed in a row to say what came.
    fails: Vec<u32>,
    /// Which of them are to be listened to may have changed; they were refreshed.
    heard_changed: bool,
    was_refreshed: bool,
    /// They are to be refreshed once more, whatever else happens: one was asked, and may have said that its interface is down, or one
    /// did not work, and does not tell when it does again.
    is_refresh_due: bool,
    peers: Vec<Peer<L::Message>>,
    by_nid: HashMap<Nid, usize>,
    /// Of each address of the NART: whose it is, and which of that node's routes.
    by_address: HashMap<PeerAddr, (usize, usize)>,
    places: Places,
    checksum: Option<Checksum>,
    random: Random,
    refreshed: u64,
    dropped: Dropped,
}

/// A node taken apart: the others, the routes, and what both need of it.
type Apart<'a, L> = (&'a mut [Peer<<L as Local>::Message>], &'a mut [Box<dyn Route>], Around<'a, L>);

impl<L: Local> Node<L> {
    /// Node `nid` with these routes, and others behind them. `seed` is another number each time.
    pub fn new(
        nid: Nid,
        local: L,
        routes: Vec<Box<dyn Route>>,
        peers: Vec<Peer<L::Message>>,
        places: Places,
        checksum: Option<Checksum>,
        seed: u64,
    ) -> Node<L> {
        let ways = |(at, peer): (usize, &Peer<L::Message>)| {
            let ways = peer.ways().iter().enumerate();
            ways.map(|(place, way)| (way.address, (at, place))).collect::<Vec<_>>()
        };
        Node {
            nid,
            user: 0,
            local,
            received: routes.iter().map(|route| Some(Received::new(SLOTS, route.slot()))).collect(),
            fails: vec![0; routes.len()],
            heard_changed: false,
            was_refreshed: false,
            is_refresh_due: false,
            routes,
            by_nid: peers.iter().enumerate().map(|(at, peer)| (peer.nid(), at)).collect(),
            by_address: peers.iter().enumerate().flat_map(ways).collect(),
            peers,
            places,
            checksum,
            random: Random(seed),
            refreshed: 0,
            dropped: Dropped::default(),
        }
    }

    /// Its endpoints are this user's; else root's.
    pub fn set_user(&mut self, user: u32) {
        self.user = user;
    }

    /// Its number.
    pub fn nid(&self) -> Nid {
        self.nid
    }

    /// Its endpoints.
    pub fn local(&mut self) -> &mut L {
        &mut self.local
    }

    /// Its routes.
    pub fn routes(&self) -> &[Box<dyn Route>] {
        &self.routes
    }

    /// The other nodes.
    pub fn peers(&mut self) -> &mut [Peer<L::Message>] {
        &mut self.peers
    }

    /// What was dropped.
    pub fn dropped(&self) -> Dropped {
        self.dropped
    }

    /// The file of places.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// Whether frames can reach that node, now or once it is up.
    pub fn knows(&self, nid: Nid) -> bool {
        self.by_nid.contains_key(&nid)
    }

    /// Endpoint `from` of this node sends to one of another, which [`Node::knows`].
    pub fn send(&mut self, now: u64, from: Dpid, to: Addr, message: L::Message) {
        let at = self.by_nid.get(&to.nid).filter(|_| from != 0 && to.dpid != 0);
        let Some(&at) = at else {
            self.dropped.nameless += 1;
            return;
        };
        let ends = Ends { here: from, there: to.dpid };
        let (peers, routes, mut around) = self.apart();
        peers[at].send(now, ends, message, routes, &mut around);
    }

    /// What endpoint `from` of this node sends to one of another is to go by the route of that name, or by whichever the graph
    /// says.
    pub fn ask_for(&mut self, from: Dpid, to: Addr, route: Option<&str>) {
        if let Some(&at) = self.by_nid.get(&to.nid) {
            self.peers[at].ask_for(Ends { here: from, there: to.dpid }, route);
        }
    }

    /// What it sends there is to go raw, or as the graph says.
    pub fn ask_raw(&mut self, from: Dpid, to: Addr, raw: bool) {
        if let Some(&at) = self.by_nid.get(&to.nid) {
            self.peers[at].ask_raw(Ends { here: from, there: to.dpid }, raw);
        }
    }

    /// The link over which that was asked for ended; what came over it may still be sent.
    pub fn link_ended(&mut self, now: u64, from: Dpid, to: Addr) {
        if let Some(&at) = self.by_nid.get(&to.nid) {
            self.peers[at].link_ended(now, Ends { here: from, there: to.dpid });
        }
    }

    fn apart(&mut self) -> Apart<'_, L> {
        let around = Around {
            nid: self.nid,
            user: self.user,
            local: &mut self.local,
            places: &mut self.places,
            checksum: self.checksum,
            random: &mut self.random,
        };
        (&mut self.peers, &mut self.routes, around)
    }

    /// Takes what a route has. How many frames that were.
    pub fn receive(&mut self, now: u64, route: usize) -> usize {
        if !self.is_heard(route) {
            return 0;
        }
        self.is_refresh_due = true;
        let Some(mut received) = self.received[route].take() else { return 0 };
        if received.slot() < self.routes[route].slot() {
            received = Received::new(SLOTS, self.routes[route].slot());
        }
        // An error is counted by the route, and shows with what is sent.
        let said = self.routes[route].recv(&mut received);
        self.fails[route] = if said.is_ok() { 0 } else { self.fails[route] + 1 };
        self.heard_changed |= self.fails[route] == FAILS;
        let n = said.unwrap_or(0);
        for (from, frame) in received.iter_mut() {
            self.hear(now, route, from, frame);
        }
        self.received[route] = Some(received);
        n
    }

    /// Whether that route is listened to: one that fails each time is not, until it says that it works.
    pub fn is_heard(&self, route: usize) -> bool {
        self.fails[route] < FAILS
    }

    /// Whether that may have changed for some route since this was last asked.
    pub fn heard_changed(&mut self) -> bool {
        core::mem::take(&mut self.heard_changed)
    }

    /// Whether routes were refreshed since this was last asked: their descriptors may be others.
    pub fn was_refreshed(&mut self) -> bool {
        core::mem::take(&mut self.was_refreshed)
    }

    fn hear(&mut self, now: u64, route: usize, from: &PeerAddr, bytes: &mut [u8]) {
        let known = self.by_address.get(from).copied();
        // By another of our addresses than that which the NART pairs with it: from nobody, as far as anybody can tell.
        let Some((at, place)) = known.filter(|&(at, place)| self.peers[at].ways()[place].route == route)
        else {
            self.dropped.unknown += 1;
            return;
        };
        let peer = &mut self.peers[at];
        let frame = match peer.guard(place).open(now, bytes) {
            Opened::Frame(frame) => frame,
            Opened::Own => return,
            Opened::Refused => {
                peer.counts().refused += 1;
                return;
            }
        };
        let Some(header) = frame.first_chunk::<HEADER>().and_then(Header::decode) else {
            self.dropped.unsound += 1;
            return;
        };
        if header.from_nid != peer.nid() || header.to_nid != self.nid {
            self.dropped.foreign += 1;
            return;
        }
        if header.kind == KIND_PROBE {
            let Some(probe) = probe::read(frame, self.checksum) else {
                self.dropped.unsound += 1;
                return;
            };
            let (peers, routes, mut around) = self.apart();
            peers[at].on_probe(now, place, probe, routes, &mut around);
            return;
        }
        if header.from_dpid == 0 || header.to_dpid == 0 {
            self.dropped.unsound += 1;
            return;
        }
        let ends = Ends { here: header.to_dpid, there: header.from_dpid };
        let (peers, routes, mut around) = self.apart();
        peers[at].on_frame(now, (place, ends), (&header, frame), routes, &mut around);
    }

    /// Hears what has come, before the clock is believed. A route that brought little lately gives one packet at a time: after a
    /// while in which this process did not run, the answers to nearly all flows would still wait there when their time is over.
    fn hear_first(&mut self, now: u64) {
        for route in 0..self.routes.len() {
            let mut frames = 0;
            while frames < HEARD_MOST {
                match self.receive(now, route) {
                    0 => break,
                    n => frames += n,
                }
            }
        }
    }

    /// What the clock brings; then sends what can be sent. True: there is more to do at once.
    pub fn turn(&mut self, now: u64) -> bool {
        let mut more = false;
        if self.next_timeout().is_some_and(|at| at <= now) {
            self.hear_first(now);
        }
        let (peers, routes, mut around) = self.apart();
        for peer in peers {
            more |= peer.turn(now, routes, &mut around);
        }
        if now >= self.refreshed.saturating_add(REFRESH) {
            (self.refreshed, self.was_refreshed, self.is_refresh_due) = (now, true, false);
            for (route, fails) in self.routes.iter_mut().zip(&mut self.fails) {
                // What it says, sending says as well.
                let works = route.refresh().is_ok();
                self.is_refresh_due |= !works;
                if works && *fails >= FAILS {
                    (*fails, self.heard_changed) = (0, true);
                }
            }
            let (peers, routes, _) = self.apart();
            peers.iter_mut().for_each(|peer| peer.fit(now, routes));
        }
        more
    }

    /// When to call [`Node::turn`] again at the latest; none: when something has happened.
    pub fn next_timeout(&self) -> Option<u64> {
        self.peers.iter().filter_map(Peer::next_timeout).chain(self.next_refresh()).min()
    }

    /// When that is due for the routes alone.
    pub fn next_refresh(&self) -> Option<u64> {
        self.is_refresh_due.then(|| self.refreshed.saturating_add(REFRESH))
    }

    /// Whether such messages can be acknowledged soon: their nodes are not down.
    pub fn waits_for_others(&self) -> bool {
        let waits = |peer: &&Peer<L::Message>| peer.traffic().any(|traffic| traffic.waiting() > 0);
        self.peers.iter().filter(waits).any(|peer| peer.current().is_some())
    }

    /// Messages of programs here that no other node has acknowledged.
    pub fn waiting(&self) -> usize {
        self.peers.iter().flat_map(Peer::traffic).map(|traffic| traffic.waiting()).sum()
    }
}
