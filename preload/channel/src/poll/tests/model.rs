//! Descriptors and their peers as the machine sees them, and as a program does that knows of no channel.

mod file;
mod machine;
mod peers;

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use libc::{POLLERR, POLLHUP, POLLNVAL, POLLPRI, POLLRDHUP};

use super::super::*;
pub use file::File;
pub use machine::Model;

/// Files below are connections; then come one of the kernel's alone, and an epoll set.
pub const CONNS: usize = 3;
pub const PIPE: usize = CONNS;
pub const SET: usize = CONNS + 1;
const FILES: usize = SET + 1;
/// Numbers that stand for a file each, a copy of the first connection's, and one that is closed.
pub const COPY: i32 = FILES as i32;
pub const CLOSED: i32 = COPY + 1;

/// What peers, the kernel and other threads do.
#[derive(Debug, Clone, Copy)]
pub enum Op {
    Sends(usize),
    /// Its sender goes to TCP, where the window is full, and back to its ring; and what it sent there arrives.
    GoesOut(usize),
    Lands(usize),
    /// The peer ends its stream, and says so before, or is killed; and bytes of the program's are unread then.
    Ends(usize, bool),
    Dies(usize, bool),
    Resets(usize),
    /// An urgent byte.
    Urges(usize),
    /// The program's sends find room, or none.
    Fills(usize, bool),
    /// Another thread receives, some or all; or meets the connection's error by that.
    Takes(usize, bool),
    Fails(usize),
    /// Another thread shuts it down, for sending or for receiving.
    Shuts(usize, bool),
    /// Another thread sleeps on it, and is awake again.
    Sleeps(usize),
    Wakes(usize),
    /// Another thread looks by itself.
    Heats(usize),
    /// An epoll set begins to rely on the kernel's readiness.
    Watches(usize),
    /// A connection becomes a channel.
    GoesLive(usize),
    /// What the kernel says of the descriptor that is its own.
    Pipe(i16),
    /// The epoll set has something, or only an event of ours.
    Set(bool),
}

#[derive(Debug, Default)]
pub struct State {
    pub files: Vec<File>,
    numbers: BTreeMap<i32, usize>,
    pipe: i16,
    /// Readable to the kernel, and to the program.
    set: [bool; 2],
    /// What happens in a call, and after how many steps of the machine.
    script: VecDeque<(Op, u8)>,
    list: Vec<(i32, i16)>,
    /// What was to be told at some time in the call, and all the time since the kernel was asked.
    ever: Vec<i16>,
    always: Vec<i16>,
    slept: Vec<usize>,
    held: Vec<usize>,
    pub by_events: bool,
    pub looks: bool,
    told: bool,
    pub clock: u64,
    /// Sleeps in which nothing happened any more.
    idle: u32,
    /// Of which the kernel was asked, with nothing but what rings say, and since then nothing has happened.
    asked: Vec<(i32, i16)>,
    fresh: bool,
    pub failure: Option<String>,
}

impl State {
    fn file(&mut self, file: usize) -> &mut File {
        &mut self.files[file]
    }

    pub fn file_of(&self, fd: i32) -> Option<usize> {
        self.numbers.get(&fd).copied()
    }

    /// What the kernel says of a number.
    fn kernel(&self, fd: i32, events: i16) -> i16 {
        let bits = match self.file_of(fd) {
            _ if fd < 0 => return 0,
            None => return POLLNVAL,
            Some(PIPE) => self.pipe,
            Some(SET) if self.set[0] => IN,
            Some(SET) => 0,
            Some(file) => self.files[file].kernel(),
        };
        bits & (events | POLLERR | POLLHUP)
    }

    /// What is to be told of a number, at most and at least.
    fn truth(&self, fd: i32, events: i16) -> [i16; 2] {
        let both = match self.file_of(fd) {
            Some(SET) if self.set[1] => [IN; 2],
            Some(SET) => [0; 2],
            // Who asks for neither bytes nor an end hears of a death when he sends.
            Some(file) if file < CONNS => {
                [true, events & (IN | POLLRDHUP) != 0].map(|dead| self.files[file].truth(dead))
            }
            _ => [self.kernel(fd, events); 2],
        };
        both.map(|bits| bits & (events | POLLERR | POLLHUP | POLLNVAL))
    }

    fn note(&mut self) {
        for at in 0..self.list.len() {
            let (fd, events) = self.list[at];
            let [most, least] = self.truth(fd, events);
            self.ever[at] |= most;
            self.always[at] &= least;
        }
    }

    /// The kernel is asked.
    fn asks(&mut self) {
        self.always.fill(!0);
        self.fresh = true;
        self.note();
    }

    pub fn begin(&mut self, list: &[pollfd], script: Vec<(Op, u8)>) {
        self.list = list.iter().map(|p| (p.fd, p.events)).collect();
        self.ever = vec![0; list.len()];
        self.always = vec![!0; list.len()];
        self.script = script.into();
        (self.idle, self.failure) = (0, None);
        let young =
            |&(fd, _): &(i32, i16)| self.file_of(fd).filter(|&file| file < CONNS && self.files[file].young);
        self.held = self.list.iter().filter_map(young).collect();
        self.note();
    }

    /// What was told of the list needs no kernel while nothing happens, unless something has happened behind the answer.
    pub fn is_known(&mut self) {
        if self.fresh {
            self.asked.clone_from(&self.list);
        }
    }

    /// What was told is true, and all.
    pub fn check(&mut self, list: &[pollfd], n: i32, all: i16) -> Result<(), String> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        if let Some(file) = self.files.iter().find(|f| f.sleepers != f.others) {
            return Err(format!("somebody sleeps for ever: {file:?}"));
        }
        let told = list.iter().filter(|p| p.revents != 0).count() as i32;
        if told != n {
            return Err(format!("{n} instead of {told}"));
        }
        for (at, p) in list.iter().enumerate() {
            let (false_ones, missing) = (p.revents & !self.ever[at], self.always[at] & all & !p.revents);
            if false_ones != 0 || missing != 0 {
                return Err(format!("{p:x?}: {false_ones:#x} is not true, {missing:#x} is missing"));
            }
        }
        Ok(())
    }

    /// A step of the machine: what was to happen meanwhile has happened.
    fn tick(&mut self) {
        while let Some((op, steps)) = self.script.front_mut() {
            if let Some(less) = steps.checked_sub(1) {
                *steps = less;
                return;
            }
            let op = *op;
            self.script.pop_front();
            self.happens(op);
        }
    }

    /// Something happens while the thread sleeps. False: nothing will.
    fn goes_on(&mut self) -> bool {
        let next = self.script.pop_front();
        next.map(|(op, _)| self.happens(op)).is_some()
    }

    pub fn happens(&mut self, op: Op) {
        self.asked.clear();
        self.fresh = false;
        self.happens_now(op);
        self.note();
        // What makes it readable from here on need not be what did before, and each is told only by who looks for it then.
        if let Op::Takes(file, _) = op {
            for at in 0..self.list.len() {
                if self.file_of(self.list[at].0) == Some(file) {
                    self.always[at] &= !IN;
                }
            }
        }
    }

    /// The kernel's poll of a list: of how many it has something to say.
    fn polls(&self, fds: &mut [pollfd]) -> i32 {
        fds.iter_mut().for_each(|p| p.revents = self.kernel(p.fd, p.events));
        fds.iter().filter(|p| p.revents != 0).count() as i32
    }
}
