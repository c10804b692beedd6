//! The kernel, the peers and the threads of a random program; and the epoll that the program believes it has.

use std::collections::BTreeMap;

use libc::epoll_event;

use super::super::*;

/// Files: those below [`CONNS`] are connections.
pub const FILES: usize = 5;
const CONNS: usize = 3;

/// A file and its peer.
#[derive(Debug, Default, Clone)]
struct File {
    /// Tokens put and taken; of a file that is no connection, all there is.
    put: u64,
    taken: u64,
    /// What the sender sent through TCP before it went back to its ring: on its way, and arrived. Tokens, and bells, come
    /// behind it.
    in_flight: u64,
    on_tcp: u64,
    bells_in_flight: u64,
    /// The wake word, and bells in the kernel.
    hot: bool,
    rung: bool,
    bells: u64,
    watched: u32,
    uncounted: bool,
    /// The peer has closed.
    ended: bool,
}

/// A registration, of the kernel's set or of the program's.
#[derive(Debug, Clone, Copy)]
struct Reg {
    events: u32,
    data: u64,
    /// Edge-triggered: something happened since it was reported last. Also: nobody was told of what is there.
    edge: bool,
    spent: bool,
    /// It was reported by a value that another one had as well: perhaps not it, but the other.
    doubtful: bool,
}

impl File {
    /// Whether a receive would bring something.
    fn is_readable(&self) -> bool {
        self.ended || self.on_tcp > 0 || self.in_flight == 0 && self.put > self.taken
    }

    /// Whether what is read next comes out of the ring.
    fn is_in_ring(&self) -> bool {
        self.on_tcp + self.in_flight == 0
    }
}

type Key = (usize, i32);

/// What the machine sees.
#[derive(Debug, Default)]
struct Kernel {
    files: Vec<File>,
    numbers: BTreeMap<i32, usize>,
    regs: BTreeMap<Key, Reg>,
    turn: usize,
    kick: Option<u64>,
    /// The one group's word.
    asleep: bool,
}

impl Kernel {
    fn is_conn(file: usize) -> bool {
        file < CONNS
    }

    fn bits(&self, file: usize) -> u32 {
        let f = &self.files[file];
        let reads = if Self::is_conn(file) { f.ended || f.bells + f.on_tcp > 0 } else { f.put > f.taken };
        OUT | if reads { IN } else { 0 }
    }

    fn bell(&mut self, file: usize) {
        let f = &mut self.files[file];
        if f.in_flight > 0 {
            f.bells_in_flight += 1;
        } else {
            f.bells += 1;
            self.event(file);
        }
    }

    fn event(&mut self, file: usize) {
        arrived(&mut self.regs, file);
    }

    fn poll(&mut self, max: usize) -> Vec<(u32, u64)> {
        let mut out = Vec::new();
        let keys: Vec<Key> = self.regs.keys().copied().collect();
        for k in 0..keys.len() {
            let key = keys[(self.turn + k) % keys.len()];
            let bits = self.bits(key.0);
            let reg = self.regs.get_mut(&key).unwrap();
            let bits = bits & reg.events;
            if out.len() == max || bits == 0 || reg.spent || (reg.events & ET != 0 && !reg.edge) {
                continue;
            }
            reg.edge = false;
            reg.spent = reg.events & ONESHOT != 0;
            out.push((bits, reg.data));
        }
        self.turn += 1;
        if out.len() < max {
            out.extend(self.kick.take().map(|data| (IN, data)));
        }
        out
    }

    fn is_ready(&self) -> bool {
        self.kick.is_some()
            || self.regs.iter().any(|(key, reg)| {
                self.bits(key.0) & reg.events != 0 && !reg.spent && (reg.events & ET == 0 || reg.edge)
            })
    }

    fn conn(&mut self, conn: u32) -> &mut File {
        &mut self.files[conn as usize]
    }
}

/// Something to read arrives: an event for whoever wants to read.
fn arrived(regs: &mut BTreeMap<Key, Reg>, file: usize) {
    let concerns = |(key, reg): &(&Key, &mut Reg)| key.0 == file && reg.events & IN != 0;
    regs.iter_mut().filter(concerns).for_each(|(_, reg)| reg.edge = true);
}

fn control(
    regs: &mut BTreeMap<Key, Reg>,
    file: Option<usize>,
    op: i32,
    fd: i32,
    e: u32,
    data: u64,
) -> Result<(), i32> {
    let key = (file.ok_or(libc::EBADF)?, fd);
    let new = Reg { events: e, data, edge: true, spent: false, doubtful: false };
    match (op, regs.contains_key(&key)) {
        (libc::EPOLL_CTL_ADD, true) => return Err(libc::EEXIST),
        (libc::EPOLL_CTL_MOD | libc::EPOLL_CTL_DEL, false) => return Err(libc::ENOENT),
        (libc::EPOLL_CTL_DEL, true) => drop(regs.remove(&key)),
        _ => drop(regs.insert(key, new)),
    }
    Ok(())
}

impl World for Kernel {
    fn ctl(&mut self, op: i32, fd: i32, events: u32, data: u64) -> Result<(), i32> {
        let file = self.numbers.get(&fd).copied();
        control(&mut self.regs, file, op, fd, events, data)
    }
    fn watch(&mut self, conn: u32, more: bool) -> u32 {
        let f = self.conn(conn);
        f.watched = if more { f.watched + 1 } else { f.watched.checked_sub(1).expect("counted") };
        f.watched
    }
    fn watched(&self, conn: u32) -> u32 {
        self.files[conn as usize].watched
    }
    fn uncounted(&mut self, conn: u32) {
        self.conn(conn).uncounted = true;
        self.cool(conn);
    }
    fn is_channel(&self, _: u32) -> bool {
        true
    }
    fn heat(&mut self, conn: u32) -> bool {
        let f = self.conn(conn);
        f.hot = f.watched == 1 && !f.uncounted && f.is_in_ring();
        if f.hot {
            f.rung = false;
        }
        f.hot
    }
    fn cool(&mut self, conn: u32) {
        let f = self.conn(conn);
        (f.hot, f.rung) = (false, false);
    }
    fn is_hot(&self, conn: u32) -> bool {
        self.files[conn as usize].hot
    }
    fn has_tokens(&self, conn: u32) -> bool {
        self.files[conn as usize].put > self.files[conn as usize].taken
    }
    fn waiting(&mut self, conn: u32, io: i32) -> bool {
        assert_eq!(self.numbers.get(&io), Some(&(conn as usize)), "system calls go to a number of the file");
        self.has_tokens(conn) && self.files[conn as usize].is_readable()
    }
    fn frontier(&self, conn: u32, _: Option<Pos>) -> Pos {
        Pos::new(self.files[conn as usize].put)
    }
    fn writable(&self, _: u32) -> bool {
        true
    }
    fn in_ring(&mut self, conn: u32, _: i32) -> bool {
        self.files[conn as usize].is_in_ring()
    }
    fn is_ending(&self, conn: u32) -> bool {
        self.files[conn as usize].ended
    }
    fn has_error(&self, _: u32) -> bool {
        false
    }
    fn settle(&mut self, conn: u32, io: i32, arm: bool) -> Settled {
        assert_eq!(self.numbers.get(&io), Some(&(conn as usize)), "system calls go to a number of the file");
        let f = self.conn(conn);
        if arm {
            f.rung = false;
        }
        if !f.is_in_ring() {
            return if f.on_tcp > 0 { Settled::Ready } else { Settled::Quiet };
        }
        if f.put > f.taken {
            // That one will do (W4).
            f.rung |= arm && f.bells > 0;
            return Settled::Ready;
        }
        f.bells = 0;
        if f.ended {
            Settled::Ready
        } else {
            Settled::Quiet
        }
    }
    fn arm(&mut self, conn: u32) {
        self.conn(conn).rung = false;
    }
    fn has_bytes(&self, io: i32) -> bool {
        self.numbers.get(&io).is_some_and(|&file| self.bits(file) & IN != 0)
    }
    fn kick(&mut self, data: u64) {
        self.kick = Some(data);
    }
    fn unkick(&mut self) {
        self.kick = None;
    }
    fn thread_lives(&self, _: u32) -> bool {
        true
    }
    fn expose(&mut self, _: u32, _: bool) {}
    fn list(&mut self, _: usize, _: u32, _: bool) {}
    fn listed(&mut self, _: usize) {}
}

/// Everything.
#[derive(Debug)]
pub struct Sim {
    kernel: Kernel,
    set: Set,
    /// What the program registered, as it believes.
    believed: BTreeMap<Key, Reg>,
    asleep: [bool; 2],
    exposed: u32,
}

impl Sim {
    pub fn new() -> Sim {
        let mut kernel = Kernel { files: vec![File::default(); FILES], ..Kernel::default() };
        kernel.numbers = (0..FILES).map(|file| (file as i32, file)).collect();
        Sim { kernel, set: Set::new(), believed: BTreeMap::new(), asleep: [false; 2], exposed: 0 }
    }

    pub fn hot(&self) -> usize {
        self.set.hot()
    }

    fn ready(&self, file: usize) -> u32 {
        let f = &self.kernel.files[file];
        OUT | if f.is_readable() { IN } else { 0 }
    }

    pub fn control(&mut self, op: i32, fd: i32, events: u32, data: u64) -> Result<(), String> {
        let file = self.kernel.numbers.get(&fd).copied();
        let target = match file {
            Some(file) if Kernel::is_conn(file) => Target::Conn(file as u32),
            _ => Target::Other,
        };
        let expected = control(&mut self.believed, file, op, fd, events, data);
        let event = (op != libc::EPOLL_CTL_DEL).then_some((events, data));
        let got = self.set.control(op, fd, target, event, &mut self.kernel);
        if got != expected {
            return Err(format!("epoll_ctl({op}, {fd}): {got:?} instead of {expected:?}"));
        }
        Ok(())
    }

    pub fn arrives(&mut self, file: usize) {
        let asleep = self.kernel.asleep;
        let f = &mut self.kernel.files[file];
        f.put += 1;
        if !Kernel::is_conn(file) {
            self.kernel.event(file);
        } else if f.hot && asleep {
            self.kernel.asleep = false;
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
        let f = &mut self.kernel.files[file];
        if Kernel::is_conn(file) && f.is_in_ring() && f.put == f.taken && f.bells == 0 {
            f.in_flight = 1;
        }
    }

    /// The peer closes.
    pub fn ends(&mut self, file: usize) {
        self.kernel.files[file].ended = true;
        self.kernel.event(file);
        arrived(&mut self.believed, file);
    }

    /// The bytes in flight arrive.
    pub fn lands(&mut self, file: usize) {
        let f = &mut self.kernel.files[file];
        if f.in_flight > 0 {
            f.on_tcp += core::mem::take(&mut f.in_flight);
            f.bells += core::mem::take(&mut f.bells_in_flight);
            self.kernel.event(file);
            arrived(&mut self.believed, file);
        }
    }

    pub fn takes(&mut self, file: usize, all: bool) {
        let f = &mut self.kernel.files[file];
        if !f.is_readable() {
            return;
        }
        if core::mem::take(&mut f.on_tcp) > 0 && (!all || f.put == f.taken) {
            // No more was asked for.
            return;
        }
        f.taken = if all { f.put } else { f.taken + 1 };
        // Every receive arms anew (W5), and takes the bells when nothing is left.
        if !f.hot {
            f.rung = false;
        }
        if f.put == f.taken {
            f.bells = 0;
        } else if f.bells > 0 && !f.hot && f.watched == 0 {
            // Where nobody waits for edges the bell that is there will do (W4).
            f.rung = true;
        }
    }

    pub fn robbed(&mut self, file: usize) {
        if Kernel::is_conn(file) {
            let f = &mut self.kernel.files[file];
            (f.bells, f.rung) = (0, false);
            self.set.bells_are_gone(file as u32, &mut self.kernel);
        }
    }

    pub fn dup(&mut self, file: usize) {
        let open = self.kernel.numbers.values().any(|&f| f == file);
        let free = (0..12).find(|fd| !self.kernel.numbers.contains_key(fd));
        if let (true, Some(fd)) = (open, free) {
            self.kernel.numbers.insert(fd, file);
            if Kernel::is_conn(file) {
                self.set.reopened(fd, file as u32);
            }
        }
    }

    pub fn close(&mut self, fd: i32) {
        let Some(&file) = self.kernel.numbers.get(&fd) else { return };
        let other = self.kernel.numbers.iter().find(|&(&n, &f)| n != fd && f == file).map(|(&n, _)| n);
        if Kernel::is_conn(file) {
            self.set.closing(fd, file as u32, other, false, &mut self.kernel);
        }
        self.kernel.numbers.remove(&fd);
        if other.is_none() {
            self.kernel.regs.retain(|key, _| key.0 != file);
            self.believed.retain(|key, _| key.0 != file);
            if Kernel::is_conn(file) {
                assert_eq!(self.kernel.files[file].watched, 0, "every registration ended with the file");
            }
        }
    }

    /// The set is closed, and another one begins in its place.
    pub fn closes(&mut self, keep: bool) {
        if self.asleep == [false; 2] {
            self.set.close(keep, &mut self.kernel);
            assert!(
                self.kernel.files.iter().all(|f| f.watched == 0),
                "every registration ended with the set"
            );
            self.kernel.regs.clear();
            self.kernel.kick = None;
            self.believed.clear();
            self.exposed = 0;
        }
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
                } else if believed.spent {
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
        self.set.leave(thread as u32 + 1);
        self.check(&told, None)?;
        Ok(told.into_iter().map(|(bits, data)| (bits & (IN | OUT), data)).collect())
    }

    /// The values that a wait reports, which has room for `max` and does not sleep.
    pub fn wait_now(&mut self, thread: usize, max: usize) -> Result<Vec<u64>, String> {
        self.set.enter(thread as u32 + 1, &mut self.kernel);
        let told = self.gather(max);
        self.set.leave(thread as u32 + 1);
        self.check(&told, (max > 8).then_some(()))?;
        Ok(told.into_iter().map(|e| e.1).collect())
    }

    pub fn look(&mut self, thread: usize, max: usize) -> Result<(), String> {
        if self.asleep[thread] {
            return Ok(());
        }
        let max = if max == 4 { 32 } else { max };
        self.wait_now(thread, max).map(|_| ())
    }

    pub fn sleep(&mut self, thread: usize) -> Result<(), String> {
        if self.asleep[thread] {
            return Ok(());
        }
        self.set.enter(thread as u32 + 1, &mut self.kernel);
        self.go_on(thread)
    }

    /// A thread inside its wait: until it has something, or sleeps.
    fn go_on(&mut self, thread: usize) -> Result<(), String> {
        let tid = thread as u32 + 1;
        for _ in 0..20 {
            if self.set.hot() > 0 || self.set.peeks() > 0 {
                let told = self.gather(8);
                if !told.is_empty() {
                    self.set.leave(tid);
                    return self.check(&told, None);
                }
            }
            self.set.sync(&mut self.kernel);
            self.kernel.asleep = true;
            if self.set.has_news(&mut self.kernel) {
                self.kernel.asleep = false;
                continue;
            }
            self.set.sleeps(tid, true);
            self.asleep[thread] = true;
            return Ok(());
        }
        Err("it has news for ever, and reports nothing".into())
    }

    /// Whoever the kernel wakes goes on; then nobody may sleep over what was not told.
    pub fn settle(&mut self) -> Result<(), String> {
        for _ in 0..40 {
            let Some(thread) = (0..2).find(|&t| self.asleep[t]) else { return Ok(()) };
            if !self.kernel.is_ready() {
                break;
            }
            self.asleep[thread] = false;
            self.set.sleeps(thread as u32 + 1, false);
            self.kernel.asleep = false;
            let told = self.gather(8);
            if told.is_empty() {
                self.go_on(thread)?;
            } else {
                self.set.leave(thread as u32 + 1);
                self.check(&told, None)?;
            }
        }
        let asleep = self.asleep.iter().any(|&a| a);
        for (key, reg) in &self.believed {
            let bits = self.ready(key.0) & reg.events;
            if asleep && reg.edge && !reg.spent && bits != 0 {
                return Err(format!("asleep, while {key:?} has {bits:#x} of which nobody was told: {reg:?}"));
            }
        }
        Ok(())
    }

    /// What was told is true, and with `all`, is all.
    fn check(&mut self, told: &[(u32, u64)], all: Option<()>) -> Result<(), String> {
        for &(bits, data) in told {
            let who: Vec<Key> =
                self.believed.iter().filter(|(_, r)| r.data == data).map(|(k, _)| *k).collect();
            if who.is_empty() {
                return Err(format!("told of {data}, which nobody registered"));
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
