//! Senders that write anything into their edges, and receivers that do so with what they hand to their senders.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::thread::sleep;
use std::time::{Duration, Instant};

use dp_edge::ring::{Lines, Pos, Tail};
use dp_edge::sys::unix;
use dpfd::driver::user::note::{Denial, Note, LEN};
use dpfd::driver::user::registry::{Entry, Registry};
use dpfd::edge::inbox::Inbox;
use dpfd::edge::message;
use dpfd::edge::segment::{Segment, CONTROL};
use dpfd::{Addr, Dpid, Endpoint};
use memmap2::MmapMut;

use crate::crowd::{self, Crowd, How, RECEIVER};
use crate::kit::*;
use crate::strangers::{odd_descriptors, Stranger};

/// An edge as its owner can spoil it.
struct Spoilt {
    segment: Segment,
    bytes: MmapMut,
    tail: Tail,
}

impl Spoilt {
    fn new(fd: OwnedFd) -> Spoilt {
        // SAFETY: shared with a process that reads it as the memory of a stranger.
        let bytes = unsafe { MmapMut::map_mut(&fd) }.expect("a mapping");
        Spoilt { segment: Segment::open(fd).expect("an edge"), bytes, tail: Tail::default() }
    }

    /// A message like any other.
    fn send(&mut self, random: &mut Random) {
        let m = vec![7; random.below(600) as usize];
        let cursor = &self.segment.rx().cursor;
        let _ = message::send_bytes(&self.segment.lines(), &mut self.tail, cursor, &m);
    }

    /// One word anywhere, or where it hurts: the header that is looked at next, the cursor, the wish for room.
    fn scribble(&mut self, random: &mut Random) {
        let stamp = |pos: u64| (pos & 0xffff_ffff | 0x8000_0000) << 32;
        let pos = self.tail.pos.raw();
        let word = match random.below(8) {
            0 => 0,
            1 => u64::MAX,
            2 => random.next(),
            3 => stamp(pos) | random.below(1 << 32),
            4 => stamp(pos) | [0, 8, 56, 4024, 4088, (1 << 30) - 1][random.below(6) as usize],
            5 => stamp(pos) | 2 << 30 | 8,
            6 => stamp(pos) | 1 << 30,
            _ => (pos + random.below(4)) << 16,
        };
        match random.below(4) {
            0 => self.segment.lines().header(Pos::new(pos)).store(word, std::sync::atomic::Ordering::Release),
            1 => self.put(random.below(8) * 64, word),
            2 => self.put(4 * 64, 1),
            _ => self.put(random.below(self.bytes.len() as u64 / 8) * 8, word),
        }
    }

    fn put(&mut self, at: u64, word: u64) {
        let at = at as usize;
        self.bytes[at..at + 8].copy_from_slice(&word.to_ne_bytes());
    }
}

#[test]
fn senders_that_spoil_their_edges() {
    let _turn = alone();
    let mut random = Random::new();
    println!("spoilt edges: DP_SEED={}", random.seed);
    let mut crowd = Crowd::new(64 << 10);
    crowd.welcome(How::Calls);
    crowd.progress("at first");
    crowd.remember();
    let end = Instant::now() + attack_time();
    let mut edges = 0;
    while Instant::now() < end {
        let stranger = Stranger::at(RECEIVER).expect("a connection");
        for link in 0..1 + random.below(4) as u32 {
            let way = stranger.attach(link, Addr::local(RECEIVER + 1), RECEIVER);
            let Some((_, Some(edge))) = way.pool else { continue };
            edges += 1;
            let mut edge = Spoilt::new(edge);
            (0..random.below(20)).for_each(|_| edge.send(&mut random));
            for _ in 0..random.below(3000) {
                if random.below(6) == 0 {
                    edge.send(&mut random);
                }
                edge.scribble(&mut random);
                if random.below(50) == 0 {
                    let _ = unix::send(way.back.as_raw_fd(), &[], &[], libc::MSG_DONTWAIT);
                }
            }
            if random.below(3) == 0 {
                stranger.say(&Note::Detach { link }.encode());
            }
        }
    }
    assert!(edges > 10, "{edges} edges");
    crowd.progress("behind them");
    crowd.rests("behind them");
    // The pool is whole again: who comes now has an edge.
    let stranger = Stranger::at(RECEIVER).expect("a connection");
    let pool = stranger.attach(1, Addr::local(1), RECEIVER).pool;
    assert!(matches!(pool, Some((_, Some(_)))), "{pool:?}");
    crowd.end();
}

/// A sender that wants to be told of room again and again, and does not listen.
#[test]
fn a_wish_for_room_that_never_ends() {
    let _turn = alone();
    let mut random = Random::new();
    let crowd = Crowd::new(64 << 10);
    let stranger = Stranger::at(RECEIVER).expect("a connection");
    let way = stranger.attach(1, Addr::local(1), RECEIVER);
    let mut edge = Spoilt::new(way.pool.expect("a pool").1.expect("an edge"));
    let end = Instant::now() + attack_time();
    let mut sent = 0u64;
    while Instant::now() < end {
        edge.put(4 * 64, 1);
        edge.send(&mut random);
        sent += 1;
        if sent % 64 == 0 {
            let _ = unix::send(way.back.as_raw_fd(), &[], &[], libc::MSG_DONTWAIT);
            sleep(Duration::from_micros(20));
        }
    }
    crowd.progress("with the wish");
    assert!(crowd.strange() > 1000, "{} messages read", crowd.strange());
    crowd.rests_more(8, "with the wish");
    drop((stranger, way.back, edge));
    crowd.rests("without it");
    crowd.end();
}

const HOSTILE: Dpid = 3900;

/// A service that answers its senders with anything.
struct Service {
    registry: Registry,
    member: dpfd::driver::user::registry::Member,
    entry: Entry,
    odd: Vec<OwnedFd>,
    conns: Vec<OwnedFd>,
    edges: Vec<Spoilt>,
    kept: Vec<OwnedFd>,
    inboxes: Vec<Inbox>,
}

impl Service {
    fn new() -> Service {
        let registry = Registry::at(folder()).expect("the folder");
        let member = registry.join().expect("a name");
        let entry = Entry { process: member.name.clone(), serial: 1 };
        assert!(registry.enter(HOSTILE, &entry).expect("an entry"));
        let (odd, conns, edges, kept, inboxes) = Default::default();
        let mut service = Service { registry, member, entry, odd, conns, edges, kept, inboxes };
        service.odd = odd_descriptors();
        service
    }

    fn turn(&mut self, random: &mut Random) {
        while let Ok(fd) = unix::accept(self.member.door.as_fd()) {
            self.conns.push(fd);
        }
        for at in (0..self.conns.len()).rev() {
            let mut buf = [0; LEN];
            // Sometimes it does not listen.
            if random.below(4) == 0 {
                continue;
            }
            match unix::recv_bytes(self.conns[at].as_raw_fd(), &mut buf) {
                Ok(0) | Err(libc::ECONNRESET) => drop(self.conns.swap_remove(at)),
                Ok(len) => {
                    if let Some(Note::Attach { link, .. }) = Note::decode(&buf[..len]) {
                        self.answer(at, link, random);
                    }
                }
                Err(_) => {}
            }
        }
        for edge in &mut self.edges {
            edge.scribble(random);
        }
        // Nobody reads what it was given, or it ends at any time.
        for kept in [self.edges.len() > 20, self.kept.len() > 20, random.below(500) == 0] {
            if kept {
                self.edges.clear();
                self.kept.clear();
                self.inboxes.clear();
                self.conns.truncate(1);
            }
        }
    }

    fn tell(&self, at: usize, note: Note, fds: &[&OwnedFd]) {
        let fds: Vec<_> = fds.iter().map(|fd| fd.as_fd()).collect();
        let bytes = note.encode();
        let _ = unix::send(
            self.conns[at].as_raw_fd(),
            &[std::io::IoSlice::new(&bytes)],
            &fds,
            libc::MSG_DONTWAIT,
        );
    }

    fn answer(&mut self, at: usize, link: u32, random: &mut Random) {
        let any = |random: &mut Random| random.below(self.odd.len() as u64) as usize;
        let (odd, more) = (any(random), any(random));
        let (back, theirs) = unix::pair().expect("a pair");
        match random.below(10) {
            0 => self.tell(at, Note::Attached { link, knows: u32::MAX }, &[&self.odd[odd]]),
            1 => self.tell(at, Note::Attached { link, knows: u32::MAX }, &[]),
            2 => self.tell(at, Note::Denied { link, why: Denial::User }, &[&self.odd[odd]]),
            3 => (0..300).for_each(|i| {
                let notes = [Note::Gone { link }, Note::Room { link }, Note::Pool { link: link + i }];
                self.tell(at, notes[random.below(3) as usize], &[]);
            }),
            4 => {
                let bytes = random.bytes(LEN);
                let _ = unix::send(
                    self.conns[at].as_raw_fd(),
                    &[std::io::IoSlice::new(&bytes)],
                    &[],
                    libc::MSG_DONTWAIT,
                );
            }
            5 => {}
            6 => {
                self.tell(at, Note::Attached { link, knows: u32::MAX }, &[&back]);
                self.tell(at, Note::Pool { link }, &[&self.odd[odd], &self.odd[more]]);
                self.tell(at, Note::Pool { link }, &[]);
            }
            _ => {
                self.tell(at, Note::Attached { link, knows: u32::MAX }, &[&back]);
                let (_, edge) =
                    Segment::create([4096, 8192, 1 << 20][random.below(3) as usize]).expect("an edge");
                let inbox = Inbox::create().expect("an inbox");
                let page = inbox.fd().try_clone_to_owned().expect("a duplicate");
                for _ in 0..1 + random.below(3) {
                    self.tell(at, Note::Pool { link }, &[&page, &edge]);
                }
                let mut edge = Spoilt::new(edge);
                edge.put(random.below(CONTROL as u64 / 8) * 8, random.next());
                self.edges.push(edge);
                self.inboxes.push(inbox);
            }
        }
        self.kept.push(theirs);
    }
}

/// Sends to the hostile one whatever it takes, beside an honest sender of the same process.
fn send_to_both(board: Board, k: u64) -> bool {
    std::thread::scope(|s| {
        s.spawn(|| {
            let e = Endpoint::open(0).expect("an endpoint");
            e.set_nonblocking(true).expect("a flag");
            let mut random = Random::from(k);
            while !crowd::is_over(board) {
                if crowd::pauses(board) {
                    sleep(Duration::from_millis(5));
                    continue;
                }
                // After a refusal the target must be named again.
                e.target(Addr::local(HOSTILE)).expect("a target");
                let len = [0, 8, 700, 5000, 300_000][random.below(5) as usize];
                let _ = e.send(&vec![1; len]);
                let _ = nix::unistd::write(&e, b"plain");
                sleep(Duration::from_micros(200));
            }
        });
        crowd::send(board, k, How::Calls)
    })
}

#[test]
fn receivers_that_spoil_what_they_hand_out() {
    let _turn = alone();
    let mut random = Random::new();
    println!("spoilt answers: DP_SEED={}", random.seed);
    let mut crowd = Crowd::new(64 << 10);
    crowd.welcome_as(send_to_both);
    crowd.progress("at first");
    let victim = crowd.sender(1);
    let before = descriptors(victim).len();
    let mut service = Service::new();
    let end = Instant::now() + attack_time() * 3;
    while Instant::now() < end {
        service.turn(&mut random);
        sleep(Duration::from_micros(random.below(300)));
    }
    crowd.progress("beside them");
    service.registry.remove(HOSTILE, &service.entry);
    service.registry.leave(&service.member);
    drop(service);
    crowd.progress("behind them");
    crowd.board.set(1, 1);
    sleep(Duration::from_millis(300));
    let used = cpu(victim, true);
    sleep(Duration::from_millis(300));
    let used = cpu(victim, true).saturating_sub(used);
    assert!(used < Duration::from_millis(20), "the idle service of a sender used {used:?} in 300 ms");
    // A link that waits for its destination has a watch on the folder, and eight long messages at most.
    assert!(descriptors(victim).len() <= before + 10, "{before}, and now {:?}", descriptors(victim));
    crowd.board.set(1, 0);
    crowd.end();
}
