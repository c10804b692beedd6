//! kill -9 at any moment: whoever lives goes on, loses nothing that reached him, and keeps nothing of the dead.

use std::collections::HashMap;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd};
use std::thread::sleep;
use std::time::Duration;

use dpfd::driver::user::list;
use dpfd::driver::user::registry::Registry;
use dpfd::{Addr, Dpid, Endpoint, Error};
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};

use crate::kit::*;

const SURVIVOR: Dpid = 3300;
const VICTIM: Dpid = 3301;
/// Numbers that a victim which opens and closes uses.
const NUMBERS: u64 = 4;

/// Cells of the board.
const STOP: usize = 0;
const WRONG: usize = 1;
const BEAT: usize = 2;
const EDGES: usize = 3;
const SENT: usize = 4;
const READY: usize = 5;
/// Of the round: messages that reached the survivor, that the victim knows to be with him, that reached the victim.
const REACHED: usize = 8;
const DELIVERED: usize = 9;
const SEEN: usize = 10;
/// Endpoints opened in all.
const OPENED: usize = 16;

/// What a victim does when it is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Plain,
    Edges,
    OutOfLine,
    Opening,
    StartingPools,
    Closing,
}

const ALL: [Doing; 6] =
    [Doing::Plain, Doing::Edges, Doing::OutOfLine, Doing::Opening, Doing::StartingPools, Doing::Closing];

/// Round, which of its endpoints, which of that one's messages.
type Name = [u64; 3];

fn message(name: Name, len: usize) -> Vec<u8> {
    let seed = name.iter().fold(7u64, |a, n| a.wrapping_mul(31).wrapping_add(*n));
    let mut bytes: Vec<u8> = (0..len.max(24)).map(|k| (seed as usize + k * 7 + k / 251) as u8).collect();
    for (at, n) in name.into_iter().enumerate() {
        bytes[at * 8..at * 8 + 8].copy_from_slice(&n.to_ne_bytes());
    }
    bytes
}

/// Its name, if every byte is as it was sent.
fn name(bytes: &[u8]) -> Option<Name> {
    let word = |at: usize| Some(u64::from_ne_bytes(bytes.get(at * 8..at * 8 + 8)?.try_into().ok()?));
    let name = [word(0)?, word(1)?, word(2)?];
    (message(name, bytes.len()) == bytes).then_some(name)
}

fn waits(e: &Endpoint, ms: u16) {
    let _ = poll(&mut [PollFd::new(e.as_fd(), PollFlags::POLLIN)], PollTimeout::from(ms));
}

fn complain(board: Board, what: &str) {
    eprintln!("{what}");
    board.add(WRONG, 1);
}

/// Lives through all rounds: sends to whoever is the victim, and reads in place what victims send.
fn survive(board: Board) -> bool {
    let e = Endpoint::open(SURVIVOR).expect("an endpoint");
    e.pool(64 << 10).expect("a pool");
    let out = Endpoint::open(0).expect("an endpoint");
    out.target(Addr::local(VICTIM)).expect("a target");
    std::thread::scope(|s| {
        s.spawn(|| {
            let mut i = 0;
            while board.get(STOP) == 0 {
                let len = if i % 50 == 49 { 280_000 } else { 24 + i as usize % 900 };
                // A victim that reads plainly never takes the long ones; they are its successor's.
                match out.send_for_at_most(&message([0, 0, i], len)) {
                    Ok(()) => i += 1,
                    Err(Error::WouldBlock) => {}
                    Err(Error::TooLong { .. }) => match out.send(&message([0, 0, i], 100)) {
                        Ok(()) => i += 1,
                        Err(e) => complain(board, &format!("the survivor sends: {e}")),
                    },
                    Err(e) => complain(board, &format!("the survivor sends: {e}")),
                }
                board.set(SENT, i);
                if i % 4 == 0 {
                    sleep(Duration::from_micros(200));
                }
            }
        });
        let timeout = nix::sys::time::TimeVal::new(0, 20_000);
        nix::sys::socket::setsockopt(&e, nix::sys::socket::sockopt::ReceiveTimeout, &timeout)
            .expect("an option");
        let mut next: HashMap<[u64; 2], u64> = HashMap::new();
        board.set(READY, 1);
        while board.get(STOP) < 2 {
            board.add(BEAT, 1);
            // Polls for a while, waits in the call for a while.
            let polls = board.get(BEAT) / 512 % 2 == 0;
            e.set_nonblocking(polls).expect("a flag");
            if polls {
                waits(&e, 20);
            }
            match e.recv() {
                Ok(m) => {
                    let (from, bytes) = (m.from().dpid, m.to_vec());
                    let Some([round, endpoint, i]) = name(&bytes) else {
                        complain(board, &format!("{} spoilt bytes from {from}", bytes.len()));
                        continue;
                    };
                    let next = next.entry([round, endpoint]).or_default();
                    if *next != i || u64::from(from) != u64::from(VICTIM) + endpoint % NUMBERS {
                        complain(board, &format!("round {round}: message {i} from {from}, awaited {next}"));
                    }
                    *next = i + 1;
                    board.add(REACHED, 1);
                }
                Err(Error::WouldBlock) => {}
                Err(e) => complain(board, &format!("the survivor receives: {e}")),
            }
            board.set(EDGES, e.stat().edges as u64);
        }
    });
    true
}

trait AtMost {
    fn send_for_at_most(&self, message: &[u8]) -> Result<(), Error>;
}

impl AtMost for Endpoint {
    /// A wait that ends: the test would hang in a call that does not.
    fn send_for_at_most(&self, message: &[u8]) -> Result<(), Error> {
        self.set_nonblocking(true)?;
        let sent = self.send(message);
        if let Err(Error::WouldBlock) = sent {
            sleep(Duration::from_micros(100));
        }
        sent
    }
}

/// One endpoint of a victim, and how it is used.
struct Victim {
    board: Board,
    doing: Doing,
    e: Endpoint,
    /// Its name, as far as messages say it; the next one's number; those known to be delivered.
    round: u64,
    which: u64,
    next: u64,
    delivered: u64,
    /// The last message read, of the survivor's.
    last: Option<u64>,
}

impl Victim {
    fn new(board: Board, doing: Doing, round: u64, which: u64) -> Victim {
        // Free at once, although its last owner was killed a moment ago.
        let e = Endpoint::open(VICTIM + (which % NUMBERS) as Dpid).expect("the number of a dead process");
        board.add(OPENED, 1);
        e.target(Addr::local(SURVIVOR)).expect("a target");
        e.set_nonblocking(true).expect("a flag");
        if matches!(doing, Doing::Edges | Doing::OutOfLine) {
            e.pool(32 << 10).expect("a pool");
        }
        Victim { board, doing, e, round, which, next: 0, delivered: 0, last: None }
    }

    fn send(&mut self, random: &mut Random) {
        let len = match self.doing {
            Doing::OutOfLine if random.below(3) == 0 => 220_000 + random.below(400_000) as usize,
            _ => 24 + random.below(1500) as usize,
        };
        let m = message([self.round, self.which, self.next], len);
        let plain = self.doing == Doing::Plain || self.doing == Doing::Closing && random.below(2) == 0;
        let sent = match plain {
            true => nix::unistd::write(&self.e, &m).map(|_| ()).map_err(|e| e as i32),
            false => self.e.send(&m).map_err(|e| e.errno()),
        };
        match sent {
            Ok(()) => self.next += 1,
            Err(libc::EAGAIN) => {}
            Err(e) => complain(self.board, &format!("the victim sends: errno {e}")),
        }
        let delivered = self.e.stat().sent.0;
        self.board.add(DELIVERED, delivered - self.delivered);
        self.delivered = delivered;
    }

    fn receive(&mut self) {
        let mut buf = vec![0; 300_000];
        let bytes = match self.doing {
            Doing::Plain | Doing::Opening | Doing::Closing => {
                let mut file = std::fs::File::from(self.e.as_fd().try_clone_to_owned().expect("a copy"));
                match file.read(&mut buf) {
                    Ok(n) => &buf[..n],
                    Err(_) => return,
                }
            }
            _ => match self.e.recv() {
                Ok(m) => {
                    let n = m.copy_to(&mut buf);
                    &buf[..n]
                }
                Err(_) => return,
            },
        };
        let Some([_, _, i]) = name(bytes) else {
            return complain(self.board, &format!("the victim got {} spoilt bytes", bytes.len()));
        };
        if self.last.is_some_and(|last| i != last + 1) {
            complain(self.board, &format!("{:?}: the victim got {i} after {:?}", self.doing, self.last));
        }
        self.last = Some(i);
        self.board.add(SEEN, 1);
    }
}

/// Does it until it is killed.
fn be_killed(board: Board, doing: Doing, round: u64, seed: u64) -> bool {
    let mut random = Random::from(seed);
    let mut which = 0;
    loop {
        let mut victim = Victim::new(board, doing, round, which);
        let turns = match doing {
            Doing::Opening => 1 + random.below(3),
            Doing::Closing => 5 + random.below(40),
            _ => u64::MAX,
        };
        for turn in 0..turns {
            if doing == Doing::StartingPools && turn == 20 {
                victim.e.pool(16 << 10).expect("a pool");
            }
            victim.send(&mut random);
            if doing != Doing::StartingPools || turn >= 20 {
                (0..4).for_each(|_| victim.receive());
            }
            if turn % 16 == 15 {
                sleep(Duration::from_micros(random.below(300)));
            }
        }
        which += 1;
        assert!(victim.e.as_raw_fd() > 2);
    }
}

/// The last one: takes everything there is.
fn take_the_rest(board: Board) -> bool {
    let mut victim = Victim::new(board, Doing::Edges, u64::MAX, 0);
    until("the last message", || {
        waits(&victim.e, 5);
        victim.receive();
        board.get(STOP) > 0 && victim.last.is_some_and(|last| last + 1 == board.get(SENT))
    });
    true
}

fn shared_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").expect("meminfo");
    let line = text.lines().find_map(|l| l.strip_prefix("Shmem:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse().expect("KiB")
}

#[test]
fn killed_at_any_moment() {
    let _turn = alone();
    let mut random = Random::new();
    println!("kills: DP_SEED={}", random.seed);
    let shared = shared_memory();
    let board = Board::new();
    let survivor = child(move || survive(board));
    until("the survivor", || board.get(READY) == 1);
    let kills = if long() { 500 } else { 48 };
    let (mut before, mut dead, mut reached) = ((0, (0, 0)), Vec::new(), [0; ALL.len()]);
    let enough = |reached: &[u64]| reached.iter().all(|n| *n > 0) && board.get(OPENED) > kills / 2;
    for round in 0..kills * 8 {
        // On a machine that is busy most are killed before they get anywhere: more of them then.
        if round >= kills && enough(&reached) {
            break;
        }
        let doing = ALL[round as usize % ALL.len()];
        (REACHED..=SEEN).for_each(|cell| board.set(cell, 0));
        let seed = random.next();
        let victim = child(move || be_killed(board, doing, round, seed));
        sleep(Duration::from_micros(random.below(25_000)));
        let when = format!("round {round}, {doing:?}");
        assert_eq!(victim.ended(), None, "{when}: the victim ended by itself");
        victim.kill();
        // Not always is it gone when the next one comes.
        match random.below(2) {
            0 => drop(victim),
            _ => dead.push(victim),
        }
        until("the survivor lives", || board.get(EDGES) == 0 || survivor.ended().is_some());
        // What is known to be with the survivor reaches it, and all else it had sent is whole and in order.
        let all = || board.get(REACHED) >= board.get(DELIVERED);
        assert!(comes_true(SOON, all), "{when}: {} of {}", board.get(REACHED), board.get(DELIVERED));
        assert_eq!(survivor.ended(), None, "{when}: the survivor ended");
        assert_eq!(board.get(WRONG), 0, "{when}");
        let beat = board.get(BEAT);
        until("the survivor goes on", || board.get(BEAT) > beat);
        reached[round as usize % ALL.len()] += board.get(REACHED) + board.get(SEEN);
        if round == 11 {
            before = (descriptors(survivor.pid()).len(), memory(survivor.pid()));
        }
    }
    println!("{} endpoints, {reached:?} messages while {ALL:?}", board.get(OPENED));
    assert!(enough(&reached), "{reached:?}");
    drop(dead);
    let last = child(move || take_the_rest(board));
    sleep(Duration::from_millis(100));
    board.set(STOP, 1);
    last.ok();
    assert_eq!(board.get(WRONG), 0);
    // The survivor keeps nothing of all those.
    let (fds, (maps, kib)) = before;
    let now = || (descriptors(survivor.pid()).len(), memory(survivor.pid()));
    let settled = comes_true(Duration::from_secs(5), || now().0 <= fds + 2 && now().1 .0 <= maps + 16);
    assert!(settled && now().1 .1 < kib + (16 << 10), "{before:?}, and now {:?}", now());
    board.set(STOP, 2);
    survivor.ok();
    nothing_is_left(shared);
}

/// No names, no memory.
fn nothing_is_left(shared: u64) {
    // By another process: one that has endpoints would give up its own lock by looking at it.
    child(|| {
        let registry = Registry::open_existing().expect("the folder");
        let seen = registry.map(|registry| list::list(&registry, SOON)).unwrap_or_default();
        assert!(seen.is_empty(), "endpoints of dead processes: {seen:?}");
        true
    })
    .ok();
    // The next process clears the folder, and leaves it as it should be.
    child(|| {
        let e = Endpoint::open(VICTIM).expect("the number of a dead process");
        drop(e);
        std::process::exit(0)
    })
    .ok();
    // Other tests may have made this very process a member.
    let own = format!("{}-", std::process::id());
    let all = std::fs::read_dir(folder()).expect("the folder").flatten();
    let names: Vec<_> = all.filter(|f| !f.file_name().to_string_lossy().starts_with(&own)).collect();
    assert!(names.is_empty(), "{names:?}");
    // Others on the machine have shared memory, too.
    let grown = || shared_memory().saturating_sub(shared);
    assert!(comes_true(SOON, || grown() < 32 << 10), "{} KiB of shared memory more than before", grown());
}
