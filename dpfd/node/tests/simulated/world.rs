//! Nodes in a simulated network, with endpoints that only remember.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use dp_flow::crc32c;
use dp_graph::trust::{Security, Users};
use dp_node::guard::Keys;
use dp_node::local::{Local, Message};
use dp_node::node::Node;
use dp_node::peer::{Peer, Way};
use dp_node::places::{Ends, Places};
use dp_node::Limits;
use dp_route::sim::Network;
use dp_route::{PeerAddr, Route};
use dp_seal::GraphKey;
use dpfd::driver::user::deposit::Deposit;
use dpfd::{Addr, Dpid, Nid};

/// A message that a program here sent.
#[derive(Debug)]
pub struct Sent {
    bytes: Rc<Vec<u8>>,
    immediate: Option<u64>,
    route: u64,
}

impl Message for Sent {
    fn size(&self) -> usize {
        self.bytes.len()
    }
    fn immediate(&self) -> Option<u64> {
        self.immediate
    }
    fn route(&self) -> u64 {
        self.route
    }
    fn copy_from(&self, begin: usize, to: &mut [u8]) -> usize {
        let n = to.len().min(self.bytes.len() - begin);
        to[..n].copy_from_slice(&self.bytes[begin..][..n]);
        n
    }
}

/// What an endpoint has in its pool, and for how many messages more there is room.
#[derive(Debug)]
pub struct Pool {
    pub messages: Vec<(Addr, Vec<u8>, Option<u64>)>,
    pub room: usize,
}

/// The endpoints of a node. They live as long as their programs, whatever happens to the gateway.
#[derive(Clone, Debug, Default)]
pub struct Programs(pub Rc<RefCell<HashMap<Dpid, Pool>>>);

impl Programs {
    pub fn open(&self, dpid: Dpid, room: usize) {
        self.0.borrow_mut().insert(dpid, Pool { messages: Vec::new(), room });
    }

    pub fn give_room(&self, dpid: Dpid, more: usize) {
        self.0.borrow_mut().get_mut(&dpid).expect("open").room += more;
    }

    pub fn got(&self, dpid: Dpid) -> Vec<Vec<u8>> {
        self.0.borrow()[&dpid].messages.iter().map(|(_, bytes, _)| bytes.clone()).collect()
    }

    pub fn count(&self, dpid: Dpid) -> usize {
        self.0.borrow()[&dpid].messages.len()
    }
}

impl Local for Programs {
    type Message = Sent;

    fn deposit(
        &mut self,
        from: Addr,
        to: Dpid,
        message: &[u8],
        immediate: Option<u64>,
        published: &mut dyn FnMut(),
    ) -> Deposit {
        let mut all = self.0.borrow_mut();
        let Some(pool) = all.get_mut(&to) else { return Deposit::Absent };
        if pool.room == 0 {
            return Deposit::Full;
        }
        pool.room -= 1;
        pool.messages.push((from, message.to_vec(), immediate));
        published();
        Deposit::Done
    }

    fn reaches(&mut self, _: Addr, to: Dpid) -> bool {
        self.0.borrow().contains_key(&to)
    }

    fn has_room(&mut self, _: Addr, to: Dpid, _: usize) -> bool {
        self.0.borrow().get(&to).is_some_and(|pool| pool.room > 0)
    }
}

/// What frames are to be, by the network's name.
fn security(network: &str) -> Security {
    match network {
        "encrypted" => Security::Encrypt,
        "authenticated" => Security::Authenticate,
        _ => Security::None,
    }
}

/// Nodes 1 to N, each with a place in each network, at `NETWORK:nNID`.
pub struct World {
    pub networks: Vec<(String, Network)>,
    pub nodes: Vec<Option<Node<Programs>>>,
    pub programs: Vec<Programs>,
    pub limits: Limits,
    /// Of node 1's flows to node 2.
    pub wishes: Vec<(Ends, &'static str)>,
    /// Of these, those that go raw.
    pub raw: Vec<Ends>,
    /// Who owns the endpoints of each node, and who users of others are there.
    pub owners: Vec<u32>,
    pub users: Users,
    /// How quick the graph says that this network is, bytes in a second.
    pub speed: Option<(&'static str, u64)>,
    folder: PathBuf,
    seed: u64,
}

impl World {
    pub fn new(nodes: usize, networks: &[&str], seed: u64) -> World {
        let folder = std::env::temp_dir().join(format!("dp-node-sim-{}-{seed}-{nodes}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).expect("a folder");
        let networks =
            networks.iter().zip(0..).map(|(name, n)| (name.to_string(), Network::new(seed + n))).collect();
        let mut world = World {
            networks,
            nodes: (0..nodes).map(|_| None).collect(),
            programs: (0..nodes).map(|_| Programs::default()).collect(),
            limits: Limits::default(),
            wishes: Vec::new(),
            raw: Vec::new(),
            owners: vec![0; nodes],
            users: Users::Squash,
            speed: None,
            folder,
            seed,
        };
        (1..=nodes as Nid).for_each(|nid| world.start(nid));
        world
    }

    pub fn start(&mut self, nid: Nid) {
        let name = |nid| format!("n{nid}");
        let routes: Vec<Box<dyn Route>> = self
            .networks
            .iter()
            .map(|(network, sim)| {
                Box::new(sim.attach_as(network, &name(nid)).expect("a name")) as Box<dyn Route>
            })
            .collect();
        let others = (1..=self.nodes.len() as Nid).filter(|other| *other != nid);
        let keys = Keys { key: Some(GraphKey::from_bytes([7; 32])), epoch: 1_790_000_000_000_000_000 };
        let peers = others.map(|other| {
            let at = |network: &str| PeerAddr::other(network, &name(other)).expect("an address");
            let way = |(i, (network, _)): (usize, &(String, Network))| {
                let guard = keys.guard(security(network), nid, other).expect("a key");
                let told = self.speed.filter(|(name, _)| name == network).map(|(_, speed)| speed);
                Way::new(i, at(network), guard).with_users(self.users.clone()).with_speed(told)
            };
            let ways = self.networks.iter().enumerate().map(way).collect();
            let mut peer = Peer::new(other, None, ways, self.limits);
            if (nid, other) == (1, 2) {
                self.wishes.iter().for_each(|(ends, route)| peer.wish(*ends, Some(route), false));
                self.raw.iter().for_each(|ends| peer.wish(*ends, None, true));
            }
            peer
        });
        let peers = peers.collect();
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let places = Places::open(&self.places(nid), nid).expect("a file");
        let programs = self.programs[usize::from(nid) - 1].clone();
        let mut node = Node::new(nid, programs, routes, peers, places, Some(crc32c), self.seed);
        node.set_user(self.owners[usize::from(nid) - 1]);
        self.nodes[usize::from(nid) - 1] = Some(node);
    }

    /// Without a word, as SIGKILL does.
    pub fn kill(&mut self, nid: Nid) {
        self.nodes[usize::from(nid) - 1] = None;
    }

    pub fn places(&self, nid: Nid) -> PathBuf {
        self.folder.join(nid.to_string())
    }

    pub fn node(&mut self, nid: Nid) -> &mut Node<Programs> {
        self.nodes[usize::from(nid) - 1].as_mut().expect("it runs")
    }

    pub fn programs(&self, nid: Nid) -> &Programs {
        &self.programs[usize::from(nid) - 1]
    }

    pub fn send(&mut self, from: (Nid, Dpid), to: (Nid, Dpid), message: Vec<u8>) {
        self.send_by(None, from, to, message);
    }

    /// A message that names its route.
    pub fn send_by(&mut self, route: Option<&str>, from: (Nid, Dpid), to: (Nid, Dpid), message: Vec<u8>) {
        let now = self.now();
        let to = Addr { nid: to.0, dpid: to.1 };
        let immediate = (message.len() % 2 == 1).then_some(message.len() as u64);
        let route = route.map_or(0, dpfd::driver::user::route::code);
        let message = Sent { bytes: Rc::new(message), immediate, route };
        self.node(from.0).send(now, from.1, to, message);
    }

    pub fn now(&self) -> u64 {
        // Networks are made and advanced together. Not from 0: clocks of machines are not new either.
        1_000_000_000 + self.networks[0].1.now().as_nanos() as u64
    }

    /// Everybody does what is to be done; then time passes until the next thing happens.
    pub fn step(&mut self) {
        self.step_for(100_000_000);
    }

    /// The same, but for so long at most, nanoseconds.
    fn step_for(&mut self, most: u64) {
        let now = self.now();
        let mut more = false;
        for node in self.nodes.iter_mut().flatten() {
            for route in 0..self.networks.len() {
                while node.receive(now, route) > 0 {}
            }
            more |= node.turn(now);
        }
        let nodes = self.nodes.iter().flatten().filter_map(Node::next_timeout).min();
        let begin = self.now() - self.networks[0].1.now().as_nanos() as u64;
        let arrivals = self.networks.iter().filter_map(|(_, network)| network.next_arrival()).min();
        let arrival = arrivals.map(|at| begin + at.as_nanos() as u64);
        let next = [nodes, arrival].into_iter().flatten().min().unwrap_or(now + 1_000_000);
        let by = if more { 0 } else { next.saturating_sub(now) }.clamp(1_000, most.max(1_000));
        self.networks.iter().for_each(|(_, network)| network.advance(Duration::from_nanos(by)));
    }

    /// Whether a node is woken no more by what is due, once it has looked at its routes for the last time.
    pub fn sleeps(&mut self, nid: Nid) -> bool {
        let now = self.now() + 1_000_000_000;
        self.node(nid).turn(now);
        self.node(nid).next_timeout().is_none()
    }

    /// Until it is so, for so much of the world's time.
    pub fn until(&mut self, limit: Duration, what: &str, mut so: impl FnMut(&mut World) -> bool) {
        let end = self.now() + limit.as_nanos() as u64;
        while !so(self) {
            assert!(self.now() < end, "{what}: not in {limit:?}");
            self.step();
        }
    }

    pub fn run(&mut self, time: Duration) {
        let end = self.now() + time.as_nanos() as u64;
        while self.now() < end {
            self.step_for(end - self.now());
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A message that tells its number, of any length from 8 on, or nothing at all.
pub fn numbered(i: u64, len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len).map(|k| (i as usize * 31 + k * 7 + k / 251) as u8).collect();
    if len >= 8 {
        bytes[..8].copy_from_slice(&i.to_ne_bytes());
    }
    bytes
}

/// Lengths from nothing to 1 MiB, most of them short.
pub fn length(i: u64) -> usize {
    match i % 37 {
        0 => 0,
        1 => 1 << 20,
        2..6 => 8 + (i * 7919 % 60_000) as usize,
        _ => 8 + (i * 97 % 3000) as usize,
    }
}
