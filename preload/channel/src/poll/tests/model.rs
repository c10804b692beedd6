//! Descriptors and their peers as the machine sees them, and as a program does that knows of no channel.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use libc::{POLLERR, POLLHUP, POLLNVAL, POLLPRI, POLLRDHUP};

use super::super::*;

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

#[derive(Debug, Clone, Default)]
pub struct File {
    /// Tokens put and taken.
    put: u64,
    taken: u64,
    /// What was sent through TCP: on its way, and arrived. Tokens of a channel, and bells, come behind it.
    in_flight: u64,
    on_tcp: u64,
    counted: bool,
    bells: u64,
    bells_in_flight: u64,
    /// The wake word.
    sleepers: u32,
    others: u32,
    hot: bool,
    rung: bool,
    by_event: bool,
    watched: bool,
    ended: bool,
    announced: bool,
    /// The peer was killed with bytes unread, of which the kernel does not know.
    unread: bool,
    reset: bool,
    /// The kernel's own error was taken.
    taken_error: bool,
    error: bool,
    shut: [bool; 2],
    full: bool,
    urgent: bool,
    /// It is no channel yet.
    young: bool,
}

impl File {
    fn is_in_ring(&self) -> bool {
        self.in_flight + self.on_tcp == 0
    }

    fn has_next(&self) -> bool {
        self.is_in_ring() && self.put > self.taken
    }

    /// tcp_poll(): what is told of a socket with something to read, or not.
    fn bits(&self, reads: bool, reset: bool, error: bool) -> i16 {
        let [writing, reading] = self.shut;
        let no_more = self.ended || reading || reset;
        let mut bits = 0;
        bits |= if reads || no_more { IN } else { 0 };
        bits |= if !self.full || writing || reset { OUT } else { 0 };
        bits |= if no_more { POLLRDHUP } else { 0 };
        bits |= if reset || no_more && writing { POLLHUP } else { 0 };
        bits |= if error { POLLERR } else { 0 };
        bits | if self.urgent { POLLPRI } else { 0 }
    }

    fn kernel(&self) -> i16 {
        self.bits(self.on_tcp + self.bells > 0, self.reset, self.reset && !self.taken_error)
    }

    /// What the program is to see; `dead`: with a death that nobody but the machine can find.
    fn truth(&self, dead: bool) -> i16 {
        let dead = dead && self.ended && self.unread;
        let error = self.reset && !self.taken_error || self.error || dead;
        self.bits(self.on_tcp > 0 || self.has_next(), self.reset || dead, error)
    }
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

    fn happens_now(&mut self, op: Op) {
        match op {
            Op::Sends(file) => self.sends(file),
            Op::GoesOut(file) => {
                let f = self.file(file);
                if !f.young && !f.ended && f.is_in_ring() && f.put == f.taken && f.bells == 0 {
                    f.in_flight = 2;
                }
            }
            Op::Lands(file) => {
                let f = self.file(file);
                if f.in_flight > 0 {
                    f.in_flight -= 1;
                    f.on_tcp += 1;
                    if f.in_flight == 0 {
                        f.bells += core::mem::take(&mut f.bells_in_flight);
                    }
                }
            }
            Op::Ends(file, announced) => {
                let f = self.file(file);
                if f.in_flight == 0 {
                    (f.ended, f.announced) = (true, f.announced || announced);
                }
            }
            Op::Dies(file, unread) => {
                let f = self.file(file);
                if !f.ended && f.in_flight == 0 {
                    (f.ended, f.unread) = (true, unread && !f.young);
                }
            }
            Op::Resets(file) => {
                let f = self.file(file);
                if f.in_flight == 0 && !f.unread {
                    f.reset = true;
                }
            }
            Op::Urges(file) => self.file(file).urgent = true,
            Op::Fills(file, full) => self.file(file).full = full,
            Op::Takes(file, all) => self.takes(file, all),
            Op::Fails(file) => {
                let f = self.file(file);
                if f.reset && !f.taken_error && !f.young {
                    (f.taken_error, f.error) = (true, true);
                }
            }
            Op::Shuts(file, reading) => self.file(file).shut[usize::from(reading)] = true,
            Op::Sleeps(file) => {
                let f = self.file(file);
                if !f.young {
                    f.others += 1;
                    f.sleep();
                }
            }
            Op::Wakes(file) => {
                let f = self.file(file);
                if f.others > 0 {
                    f.others -= 1;
                    f.awake();
                }
            }
            Op::Heats(file) => self.file(file).heat(),
            Op::Watches(file) => {
                let f = self.file(file);
                (f.watched, f.hot, f.rung, f.by_event) = (true, false, false, false);
            }
            Op::GoesLive(file) => {
                let is_held = self.held.contains(&file);
                let f = self.file(file);
                // What it was sent as bytes was taken before.
                f.young &= is_held || f.on_tcp > 0;
            }
            Op::Pipe(bits) => self.pipe = bits,
            Op::Set(real) => self.set = [true, real],
        }
    }

    fn sends(&mut self, file: usize) {
        let f = self.file(file);
        if f.ended || f.reset {
            return;
        }
        if f.young {
            f.on_tcp += 1;
            return;
        }
        f.put += 1;
        if f.rung || f.hot && f.sleepers == 0 {
            return;
        }
        f.rung = true;
        match (f.by_event, f.in_flight) {
            (true, _) => self.told = true,
            (false, 0) => f.bells += 1,
            (false, _) => f.bells_in_flight += 1,
        }
    }

    fn takes(&mut self, file: usize, all: bool) {
        let f = self.file(file);
        f.urgent = false;
        let by_tcp = core::mem::take(&mut f.on_tcp) > 0;
        if f.in_flight > 0 || by_tcp && !all {
            return;
        }
        f.taken = if all { f.put } else { f.put.min(f.taken + 1) };
        // Every receive arms anew (W5), and takes the bells when nothing is left.
        if !f.hot || f.sleepers > 0 {
            (f.rung, f.by_event) = (false, false);
        }
        if f.put == f.taken {
            f.bells = 0;
        } else if f.bells > 0 && !f.watched && (!f.hot || f.sleepers > 0) {
            f.rung = true;
        }
    }

    /// The kernel's poll of a list: of how many it has something to say.
    fn polls(&self, fds: &mut [pollfd]) -> i32 {
        fds.iter_mut().for_each(|p| p.revents = self.kernel(p.fd, p.events));
        fds.iter().filter(|p| p.revents != 0).count() as i32
    }
}

impl File {
    fn sleep(&mut self) {
        self.sleepers += 1;
        (self.rung, self.by_event) = (false, false);
    }

    fn awake(&mut self) {
        self.sleepers -= 1;
        self.by_event &= self.sleepers > 0;
    }

    fn heat(&mut self) {
        self.hot |= self.sleepers == 0 && !self.watched && !self.young;
    }
}

/// The machine's world, and that of its channels.
#[derive(Debug, Clone)]
pub struct Model(pub Rc<RefCell<State>>);

#[derive(Debug)]
pub struct Conn(Rc<RefCell<State>>, usize);

impl Model {
    pub fn new(young: bool) -> Model {
        let mut state = State { files: vec![File::default(); CONNS], ..State::default() };
        state.numbers = (0..FILES).map(|file| (file as i32, file)).collect();
        state.numbers.insert(COPY, 0);
        state.files[CONNS - 1].young = young;
        Model(Rc::new(RefCell::new(state)))
    }

    /// The sleep of a list: whether something came that is the program's, or the event of ours.
    fn sleeps(&self, fds: &mut [pollfd], timeout: i64, by_event: bool) -> Result<i32, i32> {
        const STEP: u64 = 1000;
        let s = &mut *self.0.borrow_mut();
        s.asks();
        let end = s.clock + timeout.max(0) as u64;
        loop {
            let told = i32::from(by_event && core::mem::take(&mut s.told));
            let n = s.polls(fds) + told;
            if n > 0 || timeout == 0 {
                return Ok(n);
            }
            let is_over = timeout > 0 && s.clock + STEP > end;
            if !is_over {
                s.clock += STEP;
                s.asks();
                if s.goes_on() {
                    continue;
                }
                let due = s.list.iter().find(|&&(fd, events)| s.truth(fd, events)[1] != 0);
                if let Some(due) = due {
                    s.failure = Some(format!("asleep, while there is something of {due:x?}: {:?}", s.files));
                }
                s.idle += 1;
                if timeout < 0 || s.idle > 3 && end - s.clock > STEP {
                    return Err(libc::EINTR);
                }
            }
            s.clock = end;
            return Ok(0);
        }
    }
}

impl Conn {
    fn step(&self) -> std::cell::RefMut<'_, State> {
        let mut s = self.0.borrow_mut();
        s.tick();
        s
    }

    fn f<R>(&self, f: impl FnOnce(&mut File) -> R) -> R {
        f(self.step().file(self.1))
    }

    /// As the shim's: arm, look again, drain what was counted before.
    fn settled(&self, arm: bool, ask: bool) -> bool {
        let out = |f: &mut File| f.is_in_ring() && f.bells + f.bells_in_flight > 0 && f.put > f.taken;
        if arm && self.f(out) {
            return true;
        }
        let there = self.f(|f| if f.is_in_ring() { f.bells } else { 0 });
        let arm = self.f(|f| {
            let arm = arm || !f.hot || f.sleepers > 0;
            if arm {
                (f.rung, f.by_event) = (false, false);
            }
            arm
        });
        let ringing = self.f(|f| {
            if f.has_next() && there > 0 {
                (f.rung, f.bells) =
                    if arm { (true, f.bells) } else { (f.rung, f.bells - there.min(f.bells)) };
            }
            f.has_next()
        });
        if ringing {
            return true;
        }
        self.f(|f| {
            f.counted |= f.on_tcp > 0;
            let ended = ask && f.kernel() & (POLLRDHUP | POLLHUP | POLLERR) != 0;
            if !f.is_in_ring() {
                return f.on_tcp > 0 || ended;
            }
            if f.put > f.taken {
                return true;
            }
            f.bells -= there.min(f.bells);
            ended
        })
    }
}

impl Channel for Conn {
    fn is_whole(&self) -> bool {
        self.f(|f| f.shut == [false; 2] && !(f.ended && f.announced) && !f.error)
    }
    fn has_data(&self) -> bool {
        self.f(|f| f.has_next())
    }
    fn sends_by_ring(&self) -> bool {
        self.f(|f| !f.full)
    }
    fn is_readable(&self) -> bool {
        self.f(|f| f.has_next())
    }
    fn has_counted(&self) -> bool {
        self.f(|f| f.counted && f.on_tcp > 0)
    }
    fn has_shut_down(&self) -> bool {
        self.f(|f| f.shut[0])
    }
    fn hears_of_death(&self) -> bool {
        self.f(|f| {
            let died = f.ended && core::mem::take(&mut f.unread);
            if died {
                (f.reset, f.taken_error, f.error) = (true, true, true);
            }
            died
        })
    }
    fn has_error(&self) -> bool {
        self.f(|f| f.error)
    }
    fn is_hot(&self) -> bool {
        self.f(|f| f.hot)
    }
    fn settle(&self, arm: bool) -> bool {
        self.settled(arm, true)
    }
    fn settle_to_sleep(&self) -> bool {
        self.settled(true, false)
    }
    fn is_announced(&self) -> bool {
        self.f(|f| f.kernel() & IN != 0)
    }
}

impl Lookup for Model {
    type Channel = Conn;

    fn channel(&self, fd: i32) -> Option<Conn> {
        let s = self.0.borrow();
        let file = s.file_of(fd).filter(|&file| file < CONNS && !s.files[file].young)?;
        Some(Conn(self.0.clone(), file))
    }
    fn is_idle_set(&self, fd: i32) -> bool {
        let s = &mut *self.0.borrow_mut();
        let idle = s.file_of(fd) == Some(SET) && !s.set[1];
        s.set[0] &= !idle;
        idle
    }
    fn knows_the_rest(&self, fds: &[pollfd]) -> bool {
        let s = self.0.borrow();
        !fds.is_empty() && s.asked.iter().copied().eq(fds.iter().map(|p| (p.fd, p.events)))
    }
}

impl World for Model {
    fn briefly<R>(&mut self, f: impl FnOnce(&mut Self) -> R) -> R {
        f(self)
    }
    fn kernel(&mut self, fds: &mut [pollfd], timeout: i64) -> Result<i32, i32> {
        self.sleeps(fds, timeout, false)
    }
    fn now(&self) -> u64 {
        self.0.borrow().clock
    }
    fn is_signalled(&self) -> bool {
        false
    }
    fn budget(&mut self, _: &[pollfd]) -> u32 {
        u32::from(self.0.borrow().looks)
    }
    fn look(&mut self, fds: &[pollfd], _: u32) -> bool {
        let all = || fds.iter().filter_map(|p| self.channel(p.fd));
        all().for_each(|c| c.f(File::heat));
        all().any(|c| c.f(|f| f.put > f.taken))
    }
    fn goes_to_sleep(&mut self, _: &[pollfd]) {
        let s = &mut *self.0.borrow_mut();
        assert!(s.slept.is_empty());
    }
    fn is_held(&self, _: usize, fd: i32) -> bool {
        let s = self.0.borrow();
        s.file_of(fd).is_some_and(|file| s.held.contains(&file))
    }
    fn falls_asleep(&mut self, c: &Conn) {
        let by_event = self.0.borrow().by_events;
        c.f(|f| {
            let alone = by_event && f.sleepers == 0 && !f.watched;
            f.hot |= alone;
            f.sleep();
            f.by_event = alone;
        });
        self.0.borrow_mut().slept.push(c.1);
    }
    fn sleep(&mut self, fds: &mut [pollfd], timeout: i64) -> Result<i32, i32> {
        self.sleeps(fds, timeout, true)
    }
    fn wakes(&mut self, _: &[pollfd], _: bool) {
        let s = &mut *self.0.borrow_mut();
        for file in core::mem::take(&mut s.slept) {
            s.file(file).awake();
        }
        s.told = false;
    }
    fn may_sleep(&mut self, time: i64) -> i64 {
        time.min(3_000_000_000)
    }
    fn nets(&self) -> [i64; 2] {
        [1_000_000_000, 4_000_000_000]
    }
    fn never_comes(&mut self, unheard: impl Fn(&Self) -> bool) -> bool {
        unheard(self) && unheard(self)
    }
    fn lost_one(&mut self) {
        let s = &mut *self.0.borrow_mut();
        s.failure = Some(format!("a wake-up was lost: {:?}", s.files));
    }
    fn woke_in_vain(&mut self, _: &[pollfd], times: u32) {
        assert!(times < 50, "it wakes for nothing for ever: {:?}", self.0.borrow());
    }
}
