//! The peers and the threads of a random program, and the epoll that the program believes it has.

use std::collections::BTreeMap;

use libc::epoll_event;

use super::super::*;
use super::kernel::{arrived, changed, control, File, Group, Kernel, Key, Reg, CONNS, FILES, INNER};

/// Everything.
#[derive(Debug)]
pub struct Sim {
    kernel: Kernel,
    set: Set,
    /// What the program registered, as it believes.
    believed: BTreeMap<Key, Reg>,
    /// What a thread that sleeps has room for.
    asleep: [Option<usize>; 2],
    exposed: u32,
}

impl Sim {
    pub fn new() -> Sim {
        let mut kernel = Kernel { files: vec![File::default(); FILES], ..Kernel::default() };
        kernel.numbers = (0..FILES).map(|file| (file as i32, file)).collect();
        kernel.files[CONNS - 1].unconnected = true;
        Sim { kernel, set: Set::new(), believed: BTreeMap::new(), asleep: [None; 2], exposed: 0 }
    }

    pub fn hot(&self) -> usize {
        self.set.hot()
    }

    fn ready(&self, file: usize) -> u32 {
        let f = &self.kernel.files[file];
        f.always() | OUT | if f.is_readable() { IN } else { 0 }
    }

    pub fn control(&mut self, op: i32, fd: i32, events: u32, data: u64) -> Result<(), String> {
        let file = self.kernel.numbers.get(&fd).copied();
        let target = self.kernel.target(file);
        let expected = control(&mut self.believed, file, op, fd, events, data);
        let event = (op != libc::EPOLL_CTL_DEL).then_some((events, data));
        let got = self.set.control(op, fd, target, event, &mut self.kernel);
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
        let before = self.believed.iter_mut().filter(|(key, reg)| key.0 == file && reg.events & ONESHOT != 0);
        before.for_each(|(_, reg)| reg.doubtful = true);
        let number = self.kernel.numbers.iter().find(|&(_, &f)| f == file).map(|(&fd, _)| fd);
        if let Some(fd) = number {
            self.set.connected(fd, file as u32, &mut self.kernel);
        }
    }

    pub fn arrives(&mut self, file: usize) {
        self.connects(file);
        let asleep = self.kernel.group == Group::Asleep;
        let f = &mut self.kernel.files[file];
        if f.ended {
            return;
        }
        f.put += 1;
        if !Kernel::is_conn(file) {
            self.kernel.event(file);
        } else if f.hot && f.grouped && asleep {
            self.kernel.group = Group::Told;
            self.kernel.bell(file);
        } else if !f.hot && !f.rung {
            f.rung = true;
            self.kernel.bell(file);
        }
        if self.kernel.files[file].in_flight == 0 {
            arrived(&mut self.believed, file);
        }
    }

    /// The sender goes to TCP, where the receiver's window is full, and back to its ring.
    pub fn goes_out(&mut self, file: usize) {
        self.connects(file);
        let f = &mut self.kernel.files[file];
        if Kernel::is_conn(file) && !f.ended && f.is_in_ring() && f.put == f.taken && f.bells == 0 {
            f.in_flight = 2;
        }
    }

    /// The program's sends go through TCP from here on, or through the ring.
    pub fn splices(&mut self, file: usize, by_tcp: bool) {
        self.kernel.files[file].sends_by_tcp = by_tcp;
    }

    /// The peer closes, or is killed.
    pub fn ends(&mut self, file: usize, killed: bool) {
        self.connects(file);
        let f = &mut self.kernel.files[file];
        if !Kernel::is_conn(file) || f.ended || f.in_flight > 0 {
            return;
        }
        (f.ended, f.killed, f.unread) = (true, killed, f.put % 2 == 1);
        self.kernel.event(file);
        arrived(&mut self.believed, file);
    }

    /// The peer resets a connection.
    pub fn resets(&mut self, file: usize, killed: bool) {
        self.connects(file);
        let f = &mut self.kernel.files[file];
        if Kernel::is_conn(file) && !f.ended && f.in_flight == 0 {
            (f.ended, f.reset, f.killed) = (true, true, killed);
            changed(&mut self.kernel.regs, file);
            changed(&mut self.believed, file);
        }
    }

    /// The bytes in flight arrive, one after the other.
    pub fn lands(&mut self, file: usize) {
        let f = &mut self.kernel.files[file];
        if f.in_flight > 0 {
            f.in_flight -= 1;
            f.on_tcp += 1;
            if f.in_flight == 0 {
                f.bells += core::mem::take(&mut f.bells_in_flight);
            }
            self.kernel.event(file);
            arrived(&mut self.believed, file);
        }
    }

    pub fn takes(&mut self, file: usize, all: bool) {
        let telling = self.kernel.is_telling(file);
        let f = &mut self.kernel.files[file];
        if !f.is_readable() {
            return;
        }
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

    pub fn robbed(&mut self, file: usize) {
        self.connects(file);
        if Kernel::is_conn(file) {
            let f = &mut self.kernel.files[file];
            (f.bells, f.rung) = (0, false);
            self.set.bells_are_gone(file as u32, &mut self.kernel);
        }
    }

    /// A low-water mark is set for which there are bytes enough: of those in the ring the kernel makes no edge.
    pub fn mark_is_set(&mut self, file: usize) {
        self.set.rises_anew(file as u32, &mut self.kernel);
    }

    pub fn dup(&mut self, file: usize) {
        let open = self.kernel.numbers.values().any(|&f| f == file);
        let free = (0..12).find(|fd| !self.kernel.numbers.contains_key(fd));
        if let (true, Some(fd), false) = (open, free, self.kernel.files[file].unconnected) {
            self.kernel.numbers.insert(fd, file);
            if Kernel::is_conn(file) {
                self.set.reopened(fd, file as u32);
            }
        }
    }

    pub fn close(&mut self, fd: i32) {
        let Some(&file) = self.kernel.numbers.get(&fd) else { return };
        let other = self.kernel.numbers.iter().find(|&(&n, &f)| n != fd && f == file).map(|(&n, _)| n);
        if matches!(self.kernel.target(Some(file)), Target::Conn(_)) {
            self.set.closing(fd, file as u32, other, false, &mut self.kernel);
        }
        self.kernel.numbers.remove(&fd);
        if other.is_none() {
            self.kernel.regs.retain(|key, _| key.0 != file);
            self.believed.retain(|key, _| key.0 != file);
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

    /// This is a child from here on, which has the kernel's set and its peers together with its parent.
    pub fn forks(&mut self) {
        self.set.inherit(&mut self.kernel);
    }

    /// A relative that has inherited the set waits on it.
    pub fn is_used_by_relatives(&mut self) {
        self.set.is_used_by_relatives(&mut self.kernel);
    }

    /// The same, of which this one has not heard yet but by what is counted.
    pub fn relatives_begin(&mut self) {
        self.kernel.relatives_began = true;
    }

    /// A stranger gets the set.
    pub fn is_given(&mut self) {
        self.set.is_strangers_too();
        self.expose(true);
    }

    /// A relative sets interest in the next event of a connection anew.
    pub fn relative_sets_anew(&mut self, file: usize, fd: i32) {
        self.relatives_begin();
        self.others_set(file, fd, self.believed[&(file, fd)].events);
    }

    /// Somebody else who has the set changes a registration.
    pub fn others_set(&mut self, file: usize, fd: i32, events: u32) {
        for regs in [&mut self.kernel.regs, &mut self.believed] {
            let data = regs[&(file, fd)].data;
            let kernels = self.kernel.numbers.get(&fd).copied();
            control(regs, kernels, libc::EPOLL_CTL_MOD, fd, events, data).unwrap();
        }
    }

    /// The kernel tells it of a connection, and it takes the bell.
    pub fn tells_a_relative(&mut self, file: usize) {
        self.kernel.files[file].bells = 0;
    }

    /// What a sleep that lasts long finds of the connections.
    pub fn finds_lost(&mut self) -> bool {
        self.set.find_lost(&mut self.kernel)
    }

    /// Bells of a connection in the kernel.
    pub fn bells(&self, file: usize) -> u64 {
        self.kernel.files[file].bells
    }

    /// Another connection has the entry and the number of this one, which ended where the set did not hear of it.
    pub fn is_another(&mut self, file: usize) {
        self.kernel.regs.retain(|key, _| key.0 != file);
        self.believed.retain(|key, _| key.0 != file);
        self.kernel.files[file] = File::default();
    }

    /// What the kernel has of number `fd`, which stands for `file`.
    pub fn told_kernel(&self, file: usize, fd: i32) -> Option<u32> {
        self.kernel.regs.get(&(file, fd)).map(|reg| reg.events)
    }

    /// Registrations of a connection, by all processes.
    pub fn watched(&self, file: usize) -> u32 {
        self.kernel.files[file].watched
    }

    /// Somebody else has the kernel's set, and this one is closed.
    pub fn is_left_to_others(&mut self) {
        self.set.is_left_to_others(&mut self.kernel);
        self.leaves();
    }

    /// The program closes its last descriptor of the set.
    pub fn leaves(&mut self) {
        self.set.close(true, &mut self.kernel);
    }

    /// The values that the kernel tells somebody who sleeps in its set.
    pub fn told_by_kernel(&mut self) -> Vec<u64> {
        self.kernel.poll(8).into_iter().map(|told| told.1).collect()
    }

    /// A sender tells whoever sleeps by an event that is not a connection's.
    pub fn tells_by_event(&mut self, file: usize) {
        self.kernel.files[file].put += 1;
        self.kernel.group = Group::Told;
        arrived(&mut self.believed, file);
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
        let reg = self.believed.remove(&(file, fd));
        self.set.replacing(fd, file as u32, &mut self.kernel);
        assert!(!self.kernel.regs.contains_key(&(file, fd)), "nobody finds it any more");
        self.close(fd);
        self.kernel.numbers.insert(fd, CONNS);
        self.set.replaced(fd, &mut self.kernel);
        if let Some(reg) = reg {
            self.believed.insert((CONNS, fd), Reg { edge: true, ..reg });
        }
    }

    /// The set is closed, and another one begins in its place. Threads that sleep in it never come back to that one.
    pub fn closes(&mut self, keep: bool) {
        self.set.close(keep, &mut self.kernel);
        assert!(
            self.kernel.files.iter().all(|f| f.watched == u32::from(f.elsewhere)),
            "every registration ended with the set"
        );
        assert_eq!(self.kernel.files[INNER].exposed, 0, "nobody watches it from outside");
        self.kernel.regs.clear();
        self.kernel.kick = None;
        self.kernel.group = Group::Awake;
        self.believed.clear();
        (self.exposed, self.asleep) = (0, [None; 2]);
    }

    /// Another set registers a connection, or no more.
    pub fn elsewhere(&mut self, file: usize, more: bool) {
        let is_open = self.kernel.numbers.values().any(|&f| f == file);
        let f = &mut self.kernel.files[file];
        if !Kernel::is_conn(file) || f.unconnected || f.elsewhere == more || more && !is_open {
            return;
        }
        f.elsewhere = more;
        self.kernel.watch(file as u32, more);
        if more {
            self.kernel.make_cold_beside(file as u32);
        }
    }

    /// That set was told of it, and looks at it by itself.
    pub fn heats_elsewhere(&mut self, file: usize) {
        let f = &mut self.kernel.files[file];
        let alone = f.elsewhere && f.watched - f.resting == 1;
        if alone && !f.uncounted && !f.young && f.is_in_ring() && !f.ended {
            (f.hot, f.grouped, f.rung) = (true, false, false);
        }
    }

    pub fn is_hot_elsewhere(&self, file: usize) -> bool {
        self.kernel.files[file].hot && !self.kernel.files[file].grouped
    }

    pub fn resting(&self, file: usize) -> u32 {
        self.kernel.files[file].resting
    }

    pub fn expose(&mut self, more: bool) {
        if more || self.exposed > 0 {
            self.exposed = if more { self.exposed + 1 } else { self.exposed - 1 };
            self.set.expose(more, &mut self.kernel);
        }
    }

    /// From now on the kernel alone tells: it must have what the program believes it has.
    pub fn hand_over(&mut self) -> Result<(), String> {
        self.set.hand_over(&mut self.kernel);
        let of_conns = |regs: &BTreeMap<Key, Reg>| regs.keys().filter(|key| Kernel::is_conn(key.0)).count();
        if of_conns(&self.believed) != of_conns(&self.kernel.regs) {
            return Err(format!("{:?} are not {:?}", self.kernel.regs, self.believed));
        }
        for (key, believed) in self.believed.iter().filter(|(key, _)| Kernel::is_conn(key.0)) {
            let has = self.kernel.regs.get(key).filter(|has| has.data == believed.data);
            let silent = |has: &Reg| has.spent || has.events & (IN | OUT) == 0;
            let events = |reg: &Reg| reg.events & (IN | OUT | ET | ONESHOT);
            let edge = |has: &Reg| has.edge || !believed.edge || believed.events & ET == 0;
            // A registration whose number was closed nobody can change; and which of two with one value was told, this
            // model guesses.
            let alone = self.believed.values().filter(|other| other.data == believed.data).count() == 1;
            let fixed = !alone || believed.doubtful || self.kernel.numbers.get(&key.1) != Some(&key.0);
            let same = |has: &Reg| events(has) == events(believed) && edge(has);
            if !has.is_some_and(|has| {
                if fixed {
                    true
                } else if silent(believed) {
                    silent(has)
                } else {
                    !silent(has) && same(has)
                }
            }) {
                return Err(format!("{key:?}: {has:?} is not {believed:?}"));
            }
        }
        Ok(())
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
            let rest = out.rest();
            let got = w.poll(rest.len());
            for (to, (events, data)) in rest.iter_mut().zip(&got) {
                *to = epoll_event { events: *events, u64: *data };
            }
            set.filter(got.len(), &mut out, w);
            if set.asks_again() && !out.is_full() {
                let rest = out.rest();
                let got = w.poll(rest.len());
                for (to, (events, data)) in rest.iter_mut().zip(&got) {
                    *to = epoll_event { events: *events, u64: *data };
                }
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
        self.check(&told, None)?;
        Ok(told.into_iter().map(|(bits, data)| (bits & (IN | OUT), data)).collect())
    }

    /// The values that a wait reports, which has room for `max` and does not sleep.
    pub fn wait_now(&mut self, thread: usize, max: usize) -> Result<Vec<u64>, String> {
        self.set.enter(thread as u32 + 1, &mut self.kernel);
        let told = self.gather(max);
        self.set.leave(thread as u32 + 1, &mut self.kernel);
        self.check(&told, (max > 8).then_some(()))?;
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

    /// A receive or a poll that waits looks at a connection which no set watches.
    pub fn heats(&mut self, file: usize) {
        self.connects(file);
        let f = &mut self.kernel.files[file];
        if f.watched == 0 && !f.uncounted && !f.young && f.is_in_ring() && !f.ended {
            (f.hot, f.grouped, f.rung) = (true, false, false);
        }
    }

    /// A thread inside its wait: until it has something, or sleeps.
    fn go_on(&mut self, thread: usize, room: usize) -> Result<(), String> {
        let tid = thread as u32 + 1;
        for _ in 0..20 {
            if self.set.hot() > 0 || self.set.peeks() > 0 {
                let told = self.gather(room);
                if !told.is_empty() {
                    self.set.leave(tid, &mut self.kernel);
                    return self.check(&told, None);
                }
            }
            self.set.sync(&mut self.kernel);
            self.kernel.group = Group::Asleep;
            if self.set.has_news(&mut self.kernel) {
                self.kernel.group = Group::Awake;
                continue;
            }
            self.set.sleeps(tid, true);
            self.asleep[thread] = Some(room);
            return Ok(());
        }
        Err("it has news for ever, and reports nothing".into())
    }

    /// A waiter that the kernel wakes goes on; then none may sleep over what was not told.
    pub fn settle(&mut self) -> Result<(), String> {
        let watched = self.believed.keys().filter(|key| key.0 == INNER).count();
        if self.kernel.files[INNER].exposed != watched {
            return Err(format!("the inner set is watched {watched} times: {:?}", self.kernel.files[INNER]));
        }
        for _ in 0..40 {
            let sleeper = (0..2).find_map(|t| Some((t, self.asleep[t]?)));
            let Some((thread, room)) = sleeper else { return Ok(()) };
            if !self.kernel.is_ready() {
                break;
            }
            self.asleep[thread] = None;
            self.set.sleeps(thread as u32 + 1, false);
            self.kernel.group = Group::Awake;
            let told = self.gather(room);
            if told.is_empty() {
                self.go_on(thread, room)?;
            } else {
                self.set.leave(thread as u32 + 1, &mut self.kernel);
                self.check(&told, None)?;
            }
        }
        self.is_seen_from_outside()?;
        // The bell that tells it may be on its way, behind bytes.
        let comes = self.kernel.files.iter().any(|f| f.grouped && f.bells_in_flight > 0);
        let asleep = self.asleep.iter().any(Option::is_some) && !(self.kernel.group == Group::Told && comes);
        for (key, reg) in &self.believed {
            let bits = self.ready(key.0) & reg.events;
            if asleep && reg.edge && !reg.spent && bits != 0 {
                return Err(format!("asleep, while {key:?} has {bits:#x} of which nobody was told: {reg:?}"));
            }
        }
        Ok(())
    }

    /// A program that watches the set from outside asks the kernel alone. So the kernel's set must be ready while anything is to be
    /// reported; and where an event of ours makes it ready, something must be.
    fn is_seen_from_outside(&mut self) -> Result<(), String> {
        let asleep = self.asleep.iter().any(Option::is_some);
        if self.exposed > 0 && !asleep && self.kernel.kick.is_some() {
            self.set.is_ready(&mut self.kernel);
            let holds = |(key, reg): (&Key, &Reg)| self.ready(key.0) & reg.events & IN != 0 && !reg.spent;
            if self.kernel.kick.is_some() && !self.believed.iter().any(holds) {
                return Err(format!("readable from outside, without {:?}", self.believed));
            }
        }
        let is_due = |(key, reg): &(&Key, &Reg)| {
            let due = !reg.spent && !reg.doubtful && (reg.events & ET == 0 || reg.edge);
            due && self.ready(key.0) & reg.events & IN != 0 && !self.awaits_bell(key.0)
        };
        match self.believed.iter().find(is_due) {
            Some(due) if self.exposed > 0 && !self.kernel.is_ready() => {
                Err(format!("watched from outside, where nobody sees {due:?}"))
            }
            _ => Ok(()),
        }
    }

    /// The bell of what is in the ring is on its way, behind bytes.
    fn awaits_bell(&self, file: usize) -> bool {
        self.kernel.files[file].bells_in_flight > 0
    }

    /// Whether somebody who asks the kernel of the set from outside, and then the set itself, finds something there.
    pub fn is_found_ready(&mut self) -> bool {
        self.kernel.is_ready() && self.set.is_ready(&mut self.kernel)
    }

    /// What was told is true, and with `all`, is all.
    fn check(&mut self, told: &[(u32, u64)], all: Option<()>) -> Result<(), String> {
        for &(bits, data) in told {
            let who: Vec<Key> =
                self.believed.iter().filter(|(_, r)| r.data == data).map(|(k, _)| *k).collect();
            if who.is_empty() {
                return Err(format!("told of {data}, which nobody registered"));
            }
            // Of several that have one value a report too many is allowed.
            let alone = who.len() == 1;
            if alone && told.iter().filter(|e| e.1 == data).count() > 1 {
                return Err(format!("told of {who:?} more than once in one wait: {told:x?}"));
            }
            if alone && who.iter().all(|k| self.believed[k].spent && !self.believed[k].doubtful) {
                return Err(format!("told {bits:#x} of {who:?} a second time"));
            }
            let there = who.iter().fold(0, |b, k| b | self.ready(k.0) & self.believed[k].events);
            if bits & (IN | OUT) & !there != 0 && who.len() == 1 {
                return Err(format!("told {bits:#x} of {who:?}, which has {there:#x}"));
            }
        }
        let mut missing = Vec::new();
        let keys: Vec<Key> = self.believed.keys().copied().collect();
        let of_value = |data| self.believed.values().filter(|reg| reg.data == data).count();
        let shared: Vec<u64> = told.iter().map(|e| e.1).filter(|&data| of_value(data) > 1).collect();
        for key in keys {
            let bits = self.ready(key.0) & self.believed[&key].events;
            let reg = self.believed.get_mut(&key).unwrap();
            if bits == 0 || reg.spent || reg.events & ET != 0 && !reg.edge {
                continue;
            }
            let heard = told.iter().filter(|e| e.1 == reg.data).fold(0, |b, e| b | e.0);
            reg.doubtful |= heard != 0 && shared.contains(&reg.data);
            if heard & bits != 0 {
                reg.edge = false;
                reg.spent = reg.events & ONESHOT != 0;
            }
            // With something to read the program finds the end itself.
            let bits = if heard & IN != 0 { bits & !ALWAYS } else { bits };
            if heard & bits != bits {
                missing.push((key, bits, heard, *reg));
            }
        }
        match (all, missing.first()) {
            (Some(()), Some(m)) => Err(format!("not told: {m:x?} of {told:x?}")),
            _ => Ok(()),
        }
    }
}
