//! A receiver, honest senders, and what both must go through whatever strangers do.

use std::io::Write;
use std::os::fd::AsFd;
use std::thread::sleep;
use std::time::{Duration, Instant};

use dpfd::{Addr, Dpid, Endpoint};

use crate::kit::*;

/// The receiver's number; senders have those after it.
pub const RECEIVER: Dpid = 3000;

/// Cells of the board, and of each of the senders from `SENDERS` on: sent, received.
const STOP: usize = 0;
const PAUSE: usize = 1;
const WRONG: usize = 2;
const ERRORS: usize = 3;
const ERRNO: usize = 4;
const STRANGE: usize = 5;
const READY: usize = 6;
const SENDERS: usize = 8;

/// What no stranger's message begins with.
const SECRET: u64 = 0x6f2a_91d3_77c5_04be;

/// A message that tells its sender and its number.
fn numbered(k: u64, i: u64, len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> =
        (0..len.max(24)).map(|n| (i as usize * 31 + n * 7 + n / 251 + k as usize) as u8).collect();
    for (at, word) in [SECRET, k, i].into_iter().enumerate() {
        bytes[at * 8..at * 8 + 8].copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at * 8..at * 8 + 8).map_or(0, |b| u64::from_ne_bytes(b.try_into().expect("eight bytes")))
}

/// How a sender sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// dp_write, now and then one that no edge can hold.
    Calls,
    /// write(2).
    Plain,
}

/// The processes.
pub struct Crowd {
    pub board: Board,
    pub receiver: Child,
    senders: Vec<Child>,
    before: usize,
    maps: (usize, u64),
}

impl Crowd {
    /// A receiver that polls and reads in place out of a pool of `pool` bytes, and a sender with an edge.
    pub fn new(pool: usize) -> Crowd {
        let board = Board::new();
        let receiver = child(move || receive(board, pool));
        until("the receiver", || board.get(READY) == 1);
        let mut crowd = Crowd { board, receiver, senders: Vec::new(), before: 0, maps: (0, 0) };
        crowd.welcome(How::Calls);
        crowd.progress("at first");
        crowd.remember();
        crowd
    }

    /// Descriptors and memory of the receiver as they are now are as they should be.
    pub fn remember(&mut self) {
        self.before = descriptors(self.receiver.pid()).len();
        self.maps = memory(self.receiver.pid());
    }

    /// One more honest sender.
    pub fn welcome(&mut self, how: How) {
        self.welcome_as(move |board, k| send(board, k, how));
    }

    /// One more that does something else beside.
    pub fn welcome_as(&mut self, f: impl FnOnce(Board, u64) -> bool) {
        let (board, k) = (self.board, self.senders.len() as u64);
        self.senders.push(child(move || f(board, k)));
    }

    pub fn sender(&self, k: usize) -> i32 {
        self.senders[k].pid()
    }

    fn received(&self) -> Vec<u64> {
        (0..self.senders.len()).map(|k| self.board.get(SENDERS + 2 * k + 1)).collect()
    }

    /// Every honest sender gets on.
    pub fn progress(&self, when: &str) {
        let before = self.received();
        let on = || self.received().iter().zip(&before).all(|(now, before)| *now >= before + 20);
        let gets_on = comes_true(SOON, || on() || self.receiver.ended().is_some());
        self.check(when);
        assert!(gets_on && on(), "{when}: stuck at {before:?}, {:?}", self.received());
    }

    /// Nothing went wrong so far.
    pub fn check(&self, when: &str) {
        assert_eq!(self.receiver.ended(), None, "{when}: the receiver ended");
        assert_eq!(self.board.get(WRONG), 0, "{when}: an honest message was lost, doubled or spoilt");
        let errno = std::io::Error::from_raw_os_error(self.board.get(ERRNO) as i32);
        assert_eq!(self.board.get(ERRORS), 0, "{when}: a receive failed: {errno}");
    }

    /// Messages of strangers that were taken for messages.
    pub fn strange(&self) -> u64 {
        self.board.get(STRANGE)
    }

    /// While nobody sends, nobody works; what strangers left is gone.
    pub fn rests(&self, when: &str) {
        self.rests_more(0, when);
    }

    /// The same, with so many descriptors more.
    pub fn rests_more(&self, more: usize, when: &str) {
        let before = self.before + more;
        self.board.set(PAUSE, 1);
        sleep(Duration::from_millis(100));
        let pid = self.receiver.pid();
        let mut used = Duration::MAX;
        // The machine may be slow to let things settle.
        let rests = comes_true(Duration::from_secs(5), || {
            let before = cpu(pid, false);
            sleep(Duration::from_millis(200));
            used = cpu(pid, false).saturating_sub(before);
            used < Duration::from_millis(20)
        });
        assert!(rests, "{when}: the idle receiver used {used:?} in 200 ms");
        let left = || descriptors(pid).len();
        assert!(
            comes_true(Duration::from_secs(5), || left() <= before),
            "{when}: {before} descriptors, and now {:?}",
            descriptors(pid)
        );
        let (maps, kib) = memory(pid);
        assert!(maps <= self.maps.0 + 40, "{when}: {} mappings, and now {maps}", self.maps.0);
        assert!(kib <= self.maps.1 + (32 << 10), "{when}: {} KiB, and now {kib}", self.maps.1);
        self.board.set(PAUSE, 0);
    }

    /// Everything sent has arrived.
    pub fn end(mut self) {
        self.board.set(STOP, 1);
        for k in self.senders.drain(..) {
            k.ok();
        }
        let board = self.board;
        let all = |k: usize| board.get(SENDERS + 2 * k) == board.get(SENDERS + 2 * k + 1);
        let arrived = comes_true(SOON, || (0..28).all(all) || self.receiver.ended().is_some());
        self.check("at the end");
        assert!(arrived, "sent, received: {:?}", (8..64).map(|at| board.get(at)).collect::<Vec<_>>());
        board.set(STOP, 2);
        // It may be asleep.
        let last = Endpoint::open(0).expect("an endpoint");
        last.send_to(b"the end", Addr::local(RECEIVER)).expect("room");
        std::mem::replace(&mut self.receiver, child(|| true)).ok();
    }
}

/// The receiver: polls half of the time, waits in the call the other half.
fn receive(board: Board, pool: usize) -> bool {
    use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
    let e = Endpoint::open(RECEIVER).expect("an endpoint");
    e.pool(pool).expect("a pool");
    board.set(READY, 1);
    let mut turn = 0u64;
    while board.get(STOP) < 2 {
        turn += 1;
        if turn / 100 % 2 == 0 {
            let _ = poll(&mut [PollFd::new(e.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE);
        }
        match e.recv() {
            Ok(m) => note(board, &m.to_vec(), m.from()),
            Err(e) => {
                board.add(ERRORS, 1);
                board.set(ERRNO, e.errno() as u64);
                sleep(Duration::from_millis(1));
            }
        }
    }
    true
}

fn note(board: Board, m: &[u8], from: Addr) {
    if word(m, 0) != SECRET {
        return board.add(STRANGE, 1);
    }
    let (k, i) = (word(m, 1), word(m, 2));
    let mine = SENDERS + 2 * k as usize + 1;
    if board.get(mine) != i || m != numbered(k, i, m.len()) || from.dpid != RECEIVER + 1 + k as Dpid {
        eprintln!("sender {k}, from {from}: message {i} of {} bytes after {}", m.len(), board.get(mine));
        board.add(WRONG, 1);
    }
    board.add(mine, 1);
}

/// Whether senders are to end.
pub fn is_over(board: Board) -> bool {
    board.get(STOP) > 0
}

/// Whether they are to be quiet.
pub fn pauses(board: Board) -> bool {
    board.get(PAUSE) == 1
}

/// The `k`th sender.
pub fn send(board: Board, k: u64, how: How) -> bool {
    let e = Endpoint::open(RECEIVER + 1 + k as Dpid).expect("an endpoint");
    e.target(Addr::local(RECEIVER)).expect("a target");
    let mut file = std::fs::File::from(e.as_fd().try_clone_to_owned().expect("a duplicate"));
    let mut i = 0;
    while !is_over(board) {
        if pauses(board) {
            sleep(Duration::from_millis(5));
            continue;
        }
        let long = how == How::Calls && i % 97 == 50;
        let m = numbered(k, i, if long { 250_000 } else { 24 + (i * 37 % 700) as usize });
        match how {
            How::Calls => e.send(&m).expect("room"),
            How::Plain => assert_eq!(file.write(&m).expect("a write"), m.len()),
        }
        i += 1;
        board.set(SENDERS + 2 * k as usize, i);
        if i % 8 == 0 {
            sleep(Duration::from_micros(300));
        }
    }
    // What the service still has is lost with the process.
    let end = Instant::now() + SOON;
    while board.get(SENDERS + 2 * k as usize + 1) < i && Instant::now() < end {
        sleep(Duration::from_millis(1));
    }
    true
}
