//! A random program with its descriptors, its two sets and their threads, and the epoll that it believes it has.

mod late;
mod oracle;
mod others;
mod peers;

use std::collections::BTreeMap;

use libc::epoll_event;

use super::super::*;
use super::kernel::{
    control, File, Group, Kernel, Key, Reg, CONNS, EXCLUSIVE, FILES, INNER, PASSING, PRI, TOLD,
};
use late::{fill, Heard, Sleeper};

/// Everything.
#[derive(Debug)]
pub struct Sim {
    kernel: Kernel,
    set: Set,
    /// What the program registered, as it believes.
    believed: BTreeMap<Key, Reg>,
    /// The threads that sleep.
    asleep: [Option<Sleeper>; 2],
    exposed: u32,
    /// Threads that the kernel wakes, and that do not come to run then.
    held: [bool; 2],
    /// Interests that the program has set, and those for one event that were told.
    interests: u64,
    told: Vec<u64>,
    /// Values that went with something that was told, or was replaced: what has one and is not to be found may pass for that.
    passed: Vec<u64>,
    /// The other set.
    other: Other,
}

/// A set that has not its turn, with its threads.
#[derive(Debug, Default)]
struct Other {
    set: Set,
    believed: BTreeMap<Key, Reg>,
    asleep: [Option<Sleeper>; 2],
    exposed: u32,
}

impl Sim {
    pub fn new() -> Sim {
        let mut kernel = Kernel { files: vec![File::default(); FILES + 1], ..Kernel::default() };
        kernel.numbers = (0..FILES).map(|file| (file as i32, file)).collect();
        kernel.files[CONNS - 1].unconnected = true;
        Sim {
            kernel,
            set: Set::new(),
            believed: BTreeMap::new(),
            asleep: [None, None],
            exposed: 0,
            held: [false; 2],
            interests: 0,
            told: Vec::new(),
            passed: Vec::new(),
            other: Other::default(),
        }
    }

    /// What the program does next, it does with its other set.
    pub fn swap(&mut self) {
        self.kernel.swap();
        let other = &mut self.other;
        core::mem::swap(&mut self.set, &mut other.set);
        core::mem::swap(&mut self.believed, &mut other.believed);
        core::mem::swap(&mut self.asleep, &mut other.asleep);
        core::mem::swap(&mut self.exposed, &mut other.exposed);
    }

    /// `f` with either set.
    fn with_both(&mut self, mut f: impl FnMut(&mut Self)) {
        for _ in 0..2 {
            f(self);
            self.swap();
        }
    }

    /// Something to read arrives where the program looks, or an end, of which all hear.
    fn believes(&mut self, file: usize, whatever: bool) {
        let sets = [&mut self.believed, &mut self.other.believed];
        let all = sets.into_iter().flatten().filter(|(key, _)| key.0 == file);
        let (several, others): (Vec<_>, Vec<_>) = all.partition(|(_, reg)| reg.events & EXCLUSIVE != 0);
        // The kernel tells of room, too, whoever asked for bytes out of band, with each that comes in band. Nobody needs that.
        let urgent = self.kernel.files[file].urgent;
        let concerned = |reg: &Reg| reg.concerned(whatever) && (whatever || urgent || reg.events & IN != 0);
        others.into_iter().filter(|(_, reg)| concerned(reg)).for_each(|(_, reg)| reg.edge = true);
        // Of several one at least is told, nobody knows which.
        self.kernel.files[file].owed |= several.len() > 1 && several.iter().all(|(_, reg)| concerned(reg));
        let alone = several.len() == 1;
        several.into_iter().filter(|(_, reg)| concerned(reg)).for_each(|(_, reg)| reg.edge = alone);
    }

    pub fn hot(&self) -> usize {
        self.set.hot()
    }

    fn ready(&self, file: usize) -> u32 {
        let f = &self.kernel.files[file];
        f.beside() | OUT | if f.is_readable() { IN } else { 0 }
    }

    pub fn control(&mut self, op: i32, fd: i32, events: u32, data: u64) -> Result<(), String> {
        let file = self.kernel.numbers.get(&fd).copied();
        let target = self.kernel.target(file);
        let expected = control(&mut self.believed, file, op, fd, events, data);
        let event = (op != libc::EPOLL_CTL_DEL).then_some((events, data));
        let got = self.set.control(op, fd, target, event, &mut self.kernel);
        if let (Some(file), Ok(())) = (file, expected) {
            self.interests += 1;
            self.believed.get_mut(&(file, fd)).into_iter().for_each(|reg| reg.nth = self.interests);
            // Whoever was told may be the one that is gone.
            self.kernel.files[file].owed = false;
        }
        if got != expected {
            return Err(format!("epoll_ctl({op}, {fd}): {got:?} instead of {expected:?}"));
        }
        Ok(())
    }

    /// The program connects a socket that it may have registered before.
    pub fn connects(&mut self, file: usize) {
        if !core::mem::take(&mut self.kernel.files[file].unconnected) {
            return;
        }
        // Whether the one report of a registration from before was told, the set need not know.
        let number = self.kernel.numbers.iter().find(|&(_, &f)| f == file).map(|(&fd, _)| fd);
        self.with_both(|sim| {
            let before =
                sim.believed.iter_mut().filter(|(key, reg)| key.0 == file && reg.events & ONESHOT != 0);
            before.for_each(|(_, reg)| reg.doubtful = true);
            if let Some(fd) = number {
                sim.set.connected(fd, file as u32, &mut sim.kernel);
            }
        });
    }

    pub fn takes(&mut self, file: usize, all: bool) {
        let telling = self.kernel.is_telling(file);
        let f = &mut self.kernel.files[file];
        if !f.is_readable() {
            return;
        }
        f.urgent &= !all;
        if core::mem::take(&mut f.on_tcp) > 0 && (!all || f.in_flight > 0 || f.put == f.taken) {
            // No more was asked for, or can be had.
            return;
        }
        if f.reset && all {
            f.young = true;
        }
        f.taken = if all { f.put } else { f.put.min(f.taken + 1) };
        // Every receive arms anew (W5), and takes the bells when nothing is left.
        if !f.hot {
            f.rung = false;
        }
        if f.put == f.taken {
            f.bells = if telling { f.bells } else { 0 };
        } else if f.bells > 0 && !f.hot && f.watched == 0 {
            // Where nobody waits for edges the bell that is there will do (W4).
            f.rung = true;
        }
    }

    pub fn dup(&mut self, file: usize) {
        let open = self.kernel.numbers.values().any(|&f| f == file);
        let free = (0..12).find(|fd| !self.kernel.numbers.contains_key(fd));
        if let (true, Some(fd), false) = (open, free, self.kernel.files[file].unconnected) {
            self.kernel.numbers.insert(fd, file);
            if Kernel::is_conn(file) {
                self.with_both(|sim| sim.set.reopened(fd, file as u32));
            }
        }
    }

    pub fn close(&mut self, fd: i32) {
        let Some(&file) = self.kernel.numbers.get(&fd) else { return };
        let other = self.kernel.numbers.iter().find(|&(&n, &f)| n != fd && f == file).map(|(&n, _)| n);
        if matches!(self.kernel.target(Some(file)), Target::Conn(_)) {
            self.with_both(|sim| sim.set.closing(fd, file as u32, other, false, &mut sim.kernel));
        }
        self.kernel.numbers.remove(&fd);
        if other.is_none() {
            self.with_both(|sim| {
                sim.kernel.regs.retain(|key, _| key.0 != file);
                sim.believed.retain(|key, _| key.0 != file);
            });
            self.elsewhere(file, false);
            if Kernel::is_conn(file) {
                assert_eq!(self.kernel.files[file].watched, 0, "every registration ended with the file");
            }
            if file == INNER {
                let life = self.kernel.files[file].life + 1;
                self.kernel.files[file] = File { life, ..File::default() };
            }
        }
    }

    /// The inner set is closed by all its numbers, of which no set hears, and another one is made in its place.
    pub fn renews_inner(&mut self) {
        while let Some(fd) = self.kernel.numbers.iter().find(|n| *n.1 == INNER).map(|n| *n.0) {
            self.close(fd);
        }
        if let Some(fd) = (0..12).find(|fd| !self.kernel.numbers.contains_key(fd)) {
            self.kernel.numbers.insert(fd, INNER);
        }
    }

    /// Something that is no connection is registered and closed without a word, many times, each with a value of its own.
    pub fn wears(&mut self) -> Result<(), String> {
        let Some(fd) = (0..12).find(|fd| !self.kernel.numbers.contains_key(fd)) else { return Ok(()) };
        for data in 1000..1200 {
            self.kernel.numbers.insert(fd, PASSING);
            self.control(libc::EPOLL_CTL_ADD, fd, IN, data)?;
            self.close(fd);
        }
        Ok(())
    }

    /// Bells of a connection in the kernel.
    pub fn bells(&self, file: usize) -> u64 {
        self.kernel.files[file].bells
    }

    /// What the kernel has of number `fd`, which stands for `file`.
    pub fn told_kernel(&self, file: usize, fd: i32) -> Option<u32> {
        self.kernel.regs.get(&(file, fd)).map(|reg| reg.events)
    }

    /// Registrations of a connection, by all processes.
    pub fn watched(&self, file: usize) -> u32 {
        self.kernel.files[file].watched
    }

    /// The values that the kernel tells somebody who sleeps in its set.
    pub fn told_by_kernel(&mut self) -> Vec<u64> {
        self.kernel.poll(8).into_iter().map(|told| told.1).collect()
    }

    /// The process has no descriptor left, or some again.
    pub fn has_descriptors(&mut self, some: bool) {
        self.kernel.has_no_kick = !some;
    }

    /// What is counted and listed of the rows is nonsense, and made anew.
    pub fn tears(&mut self) {
        let set = &mut self.set;
        set.hot.push(7);
        (set.special, set.detached, set.dirty, set.peeks, set.unheard) = (0, 9, 9, 9, true);
        set.mend(&mut self.kernel);
    }

    /// Number `fd` of a connection comes to stand for another file, while somebody else keeps the connection's open.
    pub fn replaces(&mut self, fd: i32) {
        let Some(&file) = self.kernel.numbers.get(&fd) else { return };
        if !Kernel::is_conn(file) || self.kernel.files[file].unconnected {
            return;
        }
        let mut regs = Vec::new();
        self.with_both(|sim| {
            regs.push(sim.believed.remove(&(file, fd)));
            sim.set.replacing(fd, file as u32, &mut sim.kernel);
            assert!(!sim.kernel.regs.contains_key(&(file, fd)), "nobody finds it any more");
        });
        self.close(fd);
        self.kernel.numbers.insert(fd, CONNS);
        let mut regs = regs.into_iter();
        self.with_both(|sim| {
            sim.set.replaced(fd, &mut sim.kernel);
            if let Some(reg) = regs.next().flatten() {
                sim.passed.push(reg.data);
                sim.believed.insert((CONNS, fd), Reg { edge: true, ..reg });
            }
        });
    }

    /// The set is closed, and another one begins in its place. Threads that sleep in it never come back to that one.
    pub fn closes(&mut self, keep: bool) {
        self.set.close(keep, &mut self.kernel);
        for (file, f) in self.kernel.files.iter_mut().enumerate() {
            let rows = self.other.set.rows();
            let beside = rows.each().filter(|&r| rows.get(r).conn() == Some(file as u32)).count();
            assert_eq!(
                f.watched,
                u32::from(f.elsewhere) + beside as u32,
                "every registration ended with the set"
            );
            f.owed = false;
        }
        self.kernel.regs.clear();
        self.kernel.kick = None;
        self.kernel.group = Group::Awake;
        self.believed.clear();
        (self.exposed, self.asleep) = (0, [None, None]);
    }

    pub fn resting(&self, file: usize) -> u32 {
        self.kernel.files[file].resting
    }

    /// As the shim's wait does: what is hot and what the kernel has, in one turn.
    fn gather(&mut self, max: usize) -> Vec<(u32, u64)> {
        let mut room = vec![epoll_event { events: 0, u64: 0 }; max];
        let mut out = Out::new(&mut room);
        let (set, w) = (&mut self.set, &mut self.kernel);
        set.begin();
        let hot_first = set.hot_first();
        if hot_first {
            set.look(&mut out, w);
            set.peeked(&mut out, w);
            set.filled(false);
        }
        if !out.is_full() {
            set.before_asking(max - out.len(), w);
            let got = w.poll(out.rest().len());
            fill(&mut out, &got);
            set.filter(got.len(), &mut out, w);
            if set.asks_again() && !out.is_full() {
                let got = w.poll(out.rest().len());
                fill(&mut out, &got);
                set.filter(got.len(), &mut out, w);
            }
            if out.is_full() {
                set.filled(true);
            }
            set.look(&mut out, w);
            set.peeked(&mut out, w);
        }
        let n = out.len();
        room[..n].iter().map(|e| (e.events, e.u64)).collect()
    }

    /// What a wait reports, which has room for `max` and does not sleep.
    pub fn wait_with_bits(&mut self, thread: usize, max: usize) -> Result<Vec<(u32, u64)>, String> {
        self.set.enter(thread as u32 + 1, &mut self.kernel);
        let told = self.gather(max);
        self.set.leave(thread as u32 + 1, &mut self.kernel);
        self.check(&told, None, &[])?;
        Ok(told.into_iter().map(|(bits, data)| (bits & TOLD, data)).collect())
    }

    /// The values that a wait reports, which has room for `max` and does not sleep.
    pub fn wait_now(&mut self, thread: usize, max: usize) -> Result<Vec<u64>, String> {
        self.set.enter(thread as u32 + 1, &mut self.kernel);
        let told = self.gather(max);
        self.set.leave(thread as u32 + 1, &mut self.kernel);
        let all = max > 8 && !self.is_one_held();
        self.check(&told, all.then_some(()), &[])?;
        Ok(told.into_iter().map(|e| e.1).collect())
    }

    pub fn look(&mut self, thread: usize, max: usize) -> Result<(), String> {
        if self.asleep[thread].is_some() {
            return Ok(());
        }
        let max = if max == 4 { 32 } else { max };
        self.wait_now(thread, max).map(|_| ())
    }

    pub fn sleep(&mut self, thread: usize) -> Result<(), String> {
        self.sleep_with(thread, 8)
    }

    /// The same with room for so many events.
    pub fn sleep_with(&mut self, thread: usize, room: usize) -> Result<(), String> {
        if self.asleep[thread].is_some() {
            return Ok(());
        }
        self.set.enter(thread as u32 + 1, &mut self.kernel);
        self.go_on(thread, room)
    }

    /// A thread inside its wait: until it has something, or sleeps.
    fn go_on(&mut self, thread: usize, room: usize) -> Result<(), String> {
        let tid = thread as u32 + 1;
        for _ in 0..20 {
            if self.set.hot() > 0 || self.set.peeks() > 0 {
                let told = self.gather(room);
                if !told.is_empty() {
                    self.set.leave(tid, &mut self.kernel);
                    return self.check(&told, None, &[]);
                }
            }
            self.set.sync(&mut self.kernel);
            self.kernel.group = Group::Asleep;
            if self.set.has_news(&mut self.kernel) {
                self.kernel.group = Group::Awake;
                continue;
            }
            self.set.sleeps(tid, true);
            self.asleep[thread] = Some(Sleeper::new(room, self.set.moment()));
            return Ok(());
        }
        Err("it has news for ever, and reports nothing".into())
    }
}
