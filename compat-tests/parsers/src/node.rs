//! Two gateways, and a route on which anybody may write who has the other node's address.

use std::cell::RefCell;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use dp_abi::frame2::{Header, HELLO, KIND_HELLO};
use dp_graph::trust::{Security, Users};
use dp_node::guard::Keys;
use dp_node::node::Node;
use dp_node::peer::{Peer, Way};
use dp_node::places::Places;
use dp_node::Limits;
use dp_route::Counters;
use dp_seal::GraphKey;
use dpfd::{Addr, Dpid, Nid};

use crate::input::Input;
use crate::wire::{Arriving, Wire};

mod surroundings;
use surroundings::{address, Cable, Pools, Programs, Sent, Tap};

const LIMITS: Limits = Limits { flows: 4, bytes: 1 << 20 };
/// Turns at one moment at most.
const TURNS: usize = 256;
/// How names of files of places begin.
const PLACES: &str = "dp-parsers-";

struct World {
    now: u64,
    cable: Arc<Mutex<Cable>>,
    nodes: [Node<Programs>; 2],
    programs: [Programs; 2],
    security: Security,
    users: Users,
    /// Flows that programs of each node began.
    begun: [HashSet<(Dpid, Dpid)>; 2],
    seed: u64,
    forged: bool,
}

/// The file of a node's places.
fn places(which: usize) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let memory = PathBuf::from("/dev/shm");
        let folder = if memory.is_dir() { memory } else { std::env::temp_dir() };
        remove_left(&folder);
        folder
    });
    folder.join(format!("{PLACES}{}-{which}", std::process::id()))
}

/// Files of processes that have ended in a run: a fuzzer that found something removes nothing.
fn remove_left(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process =
            name.to_str().and_then(|name| name.strip_prefix(PLACES)?.split('-').next()?.parse().ok());
        if process.is_some_and(|process: u32| !Path::new(&format!("/proc/{process}")).exists()) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

fn node(
    which: usize,
    cable: &Arc<Mutex<Cable>>,
    programs: &Programs,
    (security, users): (Security, &Users),
    seed: u64,
) -> Node<Programs> {
    let (nid, there) = (which as Nid + 1, 2 - which as Nid);
    let tap = Tap { which, cable: cable.clone(), counters: Counters::default() };
    let keys = Keys { key: Some(GraphKey::from_bytes([7; 32])), epoch: 1_790_000_000_000_000_000 };
    let guard = keys.guard(security, nid, there).expect("a guard");
    let way = Way::new(0, address(1 - which), guard).with_users(users.clone());
    let peers = vec![Peer::new(there, None, vec![way], LIMITS)];
    let places = Places::open(&places(which), nid).expect("a file");
    Node::new(nid, programs.clone(), vec![Box::new(tap)], peers, places, None, seed)
}

impl World {
    fn new(security: Security, users: Users, mtu: usize) -> World {
        let cable = Cable { wire: Wire::default(), arrived: Default::default(), mtu };
        let cable = Arc::new(Mutex::new(cable));
        let programs = [0, 1].map(|which| {
            let pools = Pools { which, lengths: Some(Vec::new()), ..Pools::default() };
            Programs(Rc::new(RefCell::new(pools)))
        });
        let nodes = [0, 1].map(|which| {
            let _ = std::fs::remove_file(places(which));
            node(which, &cable, &programs[which], (security, &users), 11 + which as u64)
        });
        World {
            now: 1_000_000_000,
            cable,
            nodes,
            programs,
            security,
            users,
            begun: Default::default(),
            seed: 77,
            forged: false,
        }
    }

    /// Without a word, as SIGKILL does; and it is there again.
    fn restart(&mut self, which: usize) {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let how = (self.security, &self.users);
        self.nodes[which] = node(which, &self.cable, &self.programs[which], how, self.seed);
        self.begun[which].clear();
    }

    fn send(&mut self, which: usize, from: Dpid, to: Dpid, length: usize) {
        let mut pools = self.programs[1 - which].0.borrow_mut();
        let Some(lengths) = &mut pools.lengths else {
            drop(pools);
            return self.hand_over(which, from, to, Sent { which, id: 0, length });
        };
        let id = lengths.len() as u64;
        lengths.push(length);
        drop(pools);
        self.hand_over(which, from, to, Sent { which, id, length });
    }

    fn hand_over(&mut self, which: usize, from: Dpid, to: Dpid, message: Sent) {
        self.begun[which].insert((from, to));
        let to = Addr { nid: 2 - which as Nid, dpid: to };
        self.nodes[which].send(self.now, from, to, message);
    }

    /// From here on nothing is known of what comes.
    fn is_forged(&mut self) {
        self.forged = true;
        self.programs.iter().for_each(|programs| programs.0.borrow_mut().lengths = None);
    }

    fn arrive(&mut self, arriving: Option<Arriving>) {
        let Some(Arriving { to, frame, forged }) = arriving else { return };
        if forged {
            self.is_forged();
        }
        if !frame.is_empty() {
            self.lock().arrived[to].push_back(frame);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Cable> {
        self.cable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Both do what is to be done.
    fn settle(&mut self) {
        for (which, node) in self.nodes.iter_mut().enumerate() {
            while node.receive(self.now, 0) > 0 {}
            let mut turns = 0;
            while node.turn(self.now) {
                turns += 1;
                assert!(turns < TURNS, "it goes on and on");
            }
            let flows = node.peers()[0].traffic().count();
            assert!(flows <= LIMITS.flows + self.begun[which].len(), "no more than a node may have");
        }
    }

    /// A frame with some things right and others not.
    fn forge(&mut self, to: usize, input: &mut Input<'_>) -> Arriving {
        let from = 1 - to;
        let (kind, flags) = (input.byte() % 7, input.byte());
        let ends = input.byte();
        let mut behind = input.bytes().to_vec();
        if kind == KIND_HELLO {
            behind.resize(HELLO, 1);
        }
        let header = Header {
            kind,
            flags,
            bytes: behind.len() as u16,
            from_nid: from as Nid + 1,
            from_dpid: Dpid::from(ends & 15),
            to_nid: to as Nid + 1,
            to_dpid: Dpid::from(ends >> 4),
            tag: input.word(),
            number: input.word(),
            acknowledged: u32::from(input.half()),
            word: u32::from(input.byte()) << 16 | u32::from(input.half()),
            checksum: 0,
        };
        let mut frame = header.encode().to_vec();
        frame.append(&mut behind);
        Arriving { to, frame, forged: true }
    }

    /// Where nobody forged anything: from here on all goes well, and nothing waits for ever.
    fn finish(&mut self) {
        for programs in &self.programs {
            let all = (1..16).map(|dpid| (dpid, usize::MAX));
            programs.0.borrow_mut().room.extend(all);
        }
        let end = self.now + 120_000_000_000;
        loop {
            self.settle();
            let next = self.lock().wire.take_next();
            if next.is_some() {
                self.arrive(next);
                continue;
            }
            if self.nodes.iter().all(|node| node.waiting() == 0) {
                return;
            }
            assert!(self.now < end, "something waits for ever");
            let next = self.nodes.iter().filter_map(Node::next_timeout).min();
            self.now = next.unwrap_or(0).clamp(self.now + 1_000, self.now + 100_000_000);
        }
    }
}

/// One run.
pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let how = input.byte();
    let security = if how & 7 == 7 { Security::Authenticate } else { Security::None };
    let users = if how & 8 == 8 { Users::Map(vec!["0:0".parse().expect("users")]) } else { Users::Squash };
    let mut world = World::new(security, users, 120 + usize::from(how >> 4) * 90);
    let mut raw = false;
    while let Some(choice) = input.choice() {
        let which = usize::from(choice >> 7);
        let ends = |byte: u8| (Dpid::from(byte & 3) + 1, Dpid::from(byte >> 4 & 3) + 1);
        match choice & 15 {
            0 | 1 => {
                let ((from, to), length) = (ends(input.byte()), usize::from(input.half() % 3000));
                world.send(which, from, to, length);
            }
            2 => {
                let (dpid, room) = (ends(input.byte()).0, usize::from(input.byte()));
                world.programs[which].0.borrow_mut().room.insert(dpid, room);
            }
            3 => world.now += input.time(),
            4 => match input.byte() % 4 {
                0 => world.restart(which),
                1 => world.lock().mtu = 100 + usize::from(input.half() % 1500),
                2 => {
                    let dpid = ends(input.byte()).0;
                    world.programs[which].0.borrow_mut().room.remove(&dpid);
                }
                _ => {
                    // What nobody acknowledges may be lost, and be told of out of order with the rest.
                    let (from, to) = ends(input.byte());
                    let to = Addr { nid: 2 - which as Nid, dpid: to };
                    match input.byte() % 3 {
                        0 => world.nodes[which].link_ended(world.now, from, to),
                        n => world.nodes[which].ask_raw(from, to, n == 1),
                    }
                    raw = true;
                    world.programs.iter().for_each(|programs| programs.0.borrow_mut().lengths = None);
                }
            },
            5 => world.arrive(Some(Arriving { to: which, frame: input.bytes().to_vec(), forged: true })),
            6 | 7 => {
                let forged = world.forge(which, &mut input);
                world.arrive(Some(forged));
            }
            _ => {
                let arriving = world.lock().wire.arrive(&mut input);
                world.arrive(arriving);
            }
        }
        world.settle();
    }
    if !world.forged && !raw {
        world.finish();
    }
    drop(world);
    (0..2).for_each(|which| drop(std::fs::remove_file(places(which))));
}

/// Runs that reach much.
pub fn seeds() -> Vec<Vec<u8>> {
    let open = |side: u8, dpid: u8, room: u8| vec![side << 7 | 2, dpid - 1, room];
    let send = |side: u8, from: u8, to: u8, length: u16| {
        [vec![side << 7, (from - 1) | (to - 1) << 4], length.to_be_bytes().to_vec()].concat()
    };
    let arrive = |n: usize| [8, 0].repeat(n);
    let pass = |time: u8| vec![3, time];
    let begin = |how: u8| [vec![how], open(0, 1, 200), open(1, 1, 200), pass(0x21), arrive(8)].concat();
    let talk = [send(0, 1, 1, 40), send(1, 1, 1, 2900), arrive(40), pass(0x25), arrive(9)].concat();
    let mut seeds = vec![
        [begin(0x10), talk.clone()].concat(),
        [begin(0xf7), talk.clone(), talk.clone()].concat(),
        [begin(0x18), talk.clone(), vec![4, 0], talk.clone(), vec![0x84, 0], talk.clone()].concat(),
        // Nobody is there, or has no room; then somebody is.
        [
            begin(0x20),
            send(0, 1, 2, 500),
            send(0, 2, 3, 9),
            arrive(20),
            pass(0x41),
            open(1, 2, 0),
            arrive(9),
            pass(0x41),
            open(1, 2, 3),
            arrive(20),
        ]
        .concat(),
        // Raw.
        [begin(0x20), vec![4, 3, 0, 1], talk.clone(), vec![4, 3, 0, 0], talk.clone()].concat(),
        // Shorter and longer frames.
        [
            begin(0xf0),
            send(0, 1, 1, 2900),
            arrive(4),
            vec![4, 1, 0, 20],
            arrive(30),
            pass(0x4f),
            vec![4, 1, 2, 200],
            pass(0x5f),
            arrive(30),
        ]
        .concat(),
        // The other node is silent for long.
        [begin(0x20), talk.clone(), pass(0x5f), pass(0x5f), send(0, 1, 1, 1), arrive(30)].concat(),
    ];
    for how in 5..10u8 {
        let forged = [8, how, 0, 33, 2, 0, 35, 1, 7, 9, 9, 0, 1];
        seeds.push([begin(0x20), talk.clone(), send(0, 1, 1, 800), forged.to_vec(), arrive(20)].concat());
    }
    for kind in 0..7u8 {
        let forged = [
            6,
            kind,
            0x80 | 0x30,
            0x11,
            16,
            0,
            0,
            0,
            9,
            1,
            2,
            3,
            4,
            5,
            6,
            7,
            8,
            9,
            9,
            9,
            9,
            0,
            0,
            0,
            7,
            0,
            0,
            0,
            1,
            0,
            0,
            8,
            0,
            0,
        ];
        seeds.push([begin(0x20), forged.to_vec(), arrive(4), talk.clone()].concat());
    }
    seeds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_crash_left_is_removed_by_the_next_process() {
        let folder = std::env::temp_dir().join(format!("dp-parsers-left-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let [left, kept] = [ended.id(), std::process::id()].map(|id| folder.join(format!("{PLACES}{id}-0")));
        [&left, &kept].into_iter().for_each(|file| std::fs::write(file, "").unwrap());
        remove_left(&folder);
        assert!(!left.exists() && kept.exists());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
