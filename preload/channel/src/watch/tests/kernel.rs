//! What the machine sees: the kernel's two sets, which know bells and not bytes, and connections.

use std::collections::BTreeMap;

use super::super::*;

/// Files: those below [`CONNS`] are connections, and the last one is another epoll set.
pub const FILES: usize = 6;
/// What comes and goes beside these, without a word.
pub(super) const PASSING: usize = FILES;
pub(super) const CONNS: usize = 3;
pub(super) const INNER: usize = FILES - 1;
/// A byte out of band.
pub(super) const PRI: u32 = libc::EPOLLPRI as u32;
/// With several registrations of a file that have it, an event is that of one at least.
pub(super) const EXCLUSIVE: u32 = libc::EPOLLEXCLUSIVE as u32;
/// What a wait tells of a file.
pub(super) const TOLD: u32 = IN | OUT | PRI | RDHUP;

/// A file and its peer.
#[derive(Debug, Default, Clone)]
pub(super) struct File {
    /// Tokens put and taken; of a file that is no connection, all there is.
    pub(super) put: u64,
    pub(super) taken: u64,
    /// What the sender sent through TCP before it went back to its ring: on its way, and arrived. Tokens, and bells, come
    /// behind it.
    pub(super) in_flight: u64,
    pub(super) on_tcp: u64,
    pub(super) bells_in_flight: u64,
    /// The wake word, and bells in the kernel.
    pub(super) hot: bool,
    pub(super) grouped: bool,
    /// The set whose group that is.
    pub(super) owner: usize,
    pub(super) rung: bool,
    pub(super) bells: u64,
    pub(super) watched: u32,
    /// Of these, those that are said to rest.
    pub(super) resting: u32,
    /// Among those that watch it is another set.
    pub(super) elsewhere: bool,
    pub(super) uncounted: bool,
    /// Somebody who shares a set asked there for one event.
    pub(super) for_one: bool,
    /// The peer has sent a byte out of band, which the program has not come to yet; all that it sends goes through TCP since.
    pub(super) urgent: bool,
    pub(super) by_tcp: bool,
    /// Several wait for it exclusively, and none of them was told of what came last.
    pub(super) owed: bool,
    /// What the program sends goes through TCP, which has room.
    pub(super) sends_by_tcp: bool,
    /// The peer has closed, or was killed, which nobody said but the kernel.
    pub(super) ended: bool,
    pub(super) killed: bool,
    /// The peer has reset it, which the kernel tells whatever was asked for. The next receive meets that, and it is no channel any more.
    pub(super) reset: bool,
    /// It was killed with bytes unread, of which the kernel does not know.
    pub(super) unread: bool,
    /// It is a connection, and no channel yet.
    pub(super) young: bool,
    /// It will be a connection.
    pub(super) unconnected: bool,
    /// Of a set: those that were closed before it, and how often it is watched from outside.
    pub(super) life: u32,
    pub(super) exposed: usize,
}

/// A registration, of the kernel's set or of the program's.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reg {
    pub(super) events: u32,
    pub(super) data: u64,
    /// Edge-triggered: something happened since it was reported last. Also: nobody was told of what is there.
    pub(super) edge: bool,
    pub(super) spent: bool,
    /// It was reported by a value that another one had as well: perhaps not it, but the other.
    pub(super) doubtful: bool,
    /// Which interest of the program's that is, from the first on.
    pub(super) nth: u64,
}

impl File {
    /// Whether a receive would bring something.
    pub(super) fn is_readable(&self) -> bool {
        self.ended || self.on_tcp > 0 || self.in_flight == 0 && self.put > self.taken
    }

    /// The bits that the kernel reports besides those for reading and room.
    pub(super) fn beside(&self) -> u32 {
        let always = if self.reset { ALWAYS } else { 0 };
        let end = if self.ended { RDHUP } else { 0 };
        always | end | if self.urgent { PRI } else { 0 }
    }

    /// Whether what is read next comes out of the ring.
    pub(super) fn is_in_ring(&self) -> bool {
        self.on_tcp + self.in_flight == 0 && !self.by_tcp
    }
}

pub(super) type Key = (usize, i32);

/// What the set says of itself to senders.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    #[default]
    Awake,
    Asleep,
    Told,
}

/// What the machine sees.
#[derive(Debug, Default)]
pub(super) struct Kernel {
    pub(super) files: Vec<File>,
    pub(super) numbers: BTreeMap<i32, usize>,
    pub(super) regs: BTreeMap<Key, Reg>,
    pub(super) turn: usize,
    pub(super) kick: Option<u64>,
    /// Which of the two sets this is, and what the other one has.
    pub(super) set: usize,
    pub(super) other: Other,
    /// There is no descriptor for it.
    pub(super) has_no_kick: bool,
    /// A child uses the set.
    pub(super) relatives_began: bool,
    /// There is one that has not used it yet.
    pub(super) has_child: bool,
    /// The word of the set's one group.
    pub(super) group: Group,
}

/// What the kernel has of the set whose turn it is not.
#[derive(Debug, Default)]
pub(super) struct Other {
    pub(super) regs: BTreeMap<Key, Reg>,
    turn: usize,
    kick: Option<u64>,
    group: Group,
}

impl Kernel {
    pub(super) fn is_conn(file: usize) -> bool {
        file < CONNS
    }

    /// What a number of that file is to the shim.
    pub(super) fn target(&self, file: Option<usize>) -> Target {
        match file {
            Some(file) if Self::is_conn(file) && !self.files[file].unconnected => Target::Conn(file as u32),
            Some(INNER) => Target::Set(self.inner()),
            _ => Target::Other,
        }
    }

    fn inner(&self) -> SetName {
        SetName { place: 7, life: self.files[INNER].life }
    }

    pub(super) fn bits(&self, file: usize) -> u32 {
        let f = &self.files[file];
        let reads = if Self::is_conn(file) { f.ended || f.bells + f.on_tcp > 0 } else { f.put > f.taken };
        f.beside() | OUT | if reads { IN } else { 0 }
    }

    /// The other set's turn.
    pub(super) fn swap(&mut self) {
        let other = &mut self.other;
        core::mem::swap(&mut self.regs, &mut other.regs);
        core::mem::swap(&mut self.turn, &mut other.turn);
        core::mem::swap(&mut self.kick, &mut other.kick);
        core::mem::swap(&mut self.group, &mut other.group);
        self.set = 1 - self.set;
    }

    /// The word of the group that a connection is in.
    pub(super) fn group_of(&mut self, file: usize) -> &mut Group {
        match self.files[file].owner == self.set {
            true => &mut self.group,
            false => &mut self.other.group,
        }
    }

    pub(super) fn bell(&mut self, file: usize) {
        let f = &mut self.files[file];
        if f.in_flight > 0 {
            f.bells_in_flight += 1;
        } else {
            f.bells += 1;
            self.event(file, false);
        }
    }

    /// Whether a bell of that connection may be the one that tells the set.
    pub(super) fn is_telling(&mut self, file: usize) -> bool {
        self.files[file].grouped && *self.group_of(file) != Group::Awake
    }

    /// Something to read, or an end where `whatever` was asked for.
    pub(super) fn event(&mut self, file: usize, whatever: bool) {
        // Of those that wait exclusively it is the first whose set somebody sleeps in, and all before that one.
        let asleep = [self.group != Group::Awake, self.other.group != Group::Awake];
        let sets = [&mut self.regs, &mut self.other.regs];
        let first = self.turn % 2;
        let mut enough = false;
        for which in [first, 1 - first] {
            for (_, reg) in
                sets[which].iter_mut().filter(|(key, reg)| key.0 == file && reg.concerned(whatever))
            {
                let exclusive = reg.events & EXCLUSIVE != 0;
                reg.edge |= !exclusive || !enough;
                enough |= exclusive && asleep[which];
            }
        }
    }

    pub(super) fn poll(&mut self, max: usize) -> Vec<(u32, u64)> {
        let mut out = Vec::new();
        // The event of ours stands anywhere.
        if self.turn % 2 == 1 && max > 0 {
            out.extend(self.kick.take().map(|data| (libc::EPOLLIN as u32, data)));
        }
        let keys: Vec<Key> = self.regs.keys().copied().collect();
        for k in 0..keys.len() {
            let key = keys[(self.turn + k) % keys.len()];
            let bits = self.bits(key.0);
            let reg = self.regs.get_mut(&key).unwrap();
            let bits = bits & reg.events;
            if out.len() == max || !reg.is_due(bits) {
                continue;
            }
            // One that waits exclusively, and not for edges, is asked until it has nothing.
            reg.edge = reg.events & (ET | EXCLUSIVE) == EXCLUSIVE;
            reg.spent = reg.events & ONESHOT != 0;
            out.push((bits, reg.data));
        }
        self.turn += 1;
        if out.len() < max {
            out.extend(self.kick.take().map(|data| (libc::EPOLLIN as u32, data)));
        }
        out
    }

    pub(super) fn is_ready(&self) -> bool {
        self.kick.is_some() || self.regs.iter().any(|(key, reg)| reg.is_due(self.bits(key.0) & reg.events))
    }

    pub(super) fn conn(&mut self, conn: u32) -> &mut File {
        &mut self.files[conn as usize]
    }
}

impl Reg {
    /// Whether it hears of what arrives: of something to read, in band or out of it, or of an end, `whatever` it asked for.
    pub(super) fn concerned(&self, whatever: bool) -> bool {
        whatever || self.events & (IN | PRI) != 0
    }

    /// Whether `bits`, which its file has of what it asked for, are told by a wait.
    pub(super) fn is_due(&self, bits: u32) -> bool {
        bits != 0 && !self.spent && (self.events & (ET | EXCLUSIVE) == 0 || self.edge)
    }
}

pub(super) fn control(
    regs: &mut BTreeMap<Key, Reg>,
    file: Option<usize>,
    op: i32,
    fd: i32,
    e: u32,
    data: u64,
) -> Result<(), i32> {
    let key = (file.ok_or(libc::EBADF)?, fd);
    let new = Reg { events: e | ALWAYS, data, edge: true, spent: false, doubtful: false, nth: 0 };
    let alone = (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLET) as u32 | ALWAYS | EXCLUSIVE;
    let exclusive = e & EXCLUSIVE != 0 && op != libc::EPOLL_CTL_DEL;
    if exclusive && (op == libc::EPOLL_CTL_MOD || key.0 == INNER || e & !alone != 0) {
        return Err(libc::EINVAL);
    }
    match (op, regs.contains_key(&key)) {
        (libc::EPOLL_CTL_ADD, true) => return Err(libc::EEXIST),
        (libc::EPOLL_CTL_MOD | libc::EPOLL_CTL_DEL, false) => return Err(libc::ENOENT),
        (libc::EPOLL_CTL_DEL, true) => drop(regs.remove(&key)),
        (libc::EPOLL_CTL_MOD, true) if regs[&key].events & EXCLUSIVE != 0 => return Err(libc::EINVAL),
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
    fn rests(&mut self, conn: u32, rests: bool) {
        let f = self.conn(conn);
        f.resting = if rests { f.resting + 1 } else { f.resting.saturating_sub(1) };
        assert!(f.resting <= f.watched, "{f:?}");
    }
    fn uncounted(&mut self, conn: u32) {
        self.conn(conn).uncounted = true;
        self.make_cold_beside(conn);
    }
    fn asks_for_one(&mut self, conn: u32) {
        self.conn(conn).for_one = true;
    }
    fn may_be_for_one(&self, conn: u32) -> bool {
        self.files[conn as usize].for_one
    }
    fn is_channel(&self, conn: u32) -> bool {
        !self.files[conn as usize].young
    }
    fn make_hot(&mut self, conn: u32) -> bool {
        let set = self.set;
        let f = self.conn(conn);
        f.hot = f.watched - f.resting == 1 && !f.uncounted && f.is_in_ring();
        if f.hot {
            (f.grouped, f.owner, f.rung) = (true, set, false);
        }
        f.hot
    }
    fn make_cold(&mut self, conn: u32) {
        let f = self.conn(conn);
        (f.hot, f.grouped, f.rung) = (false, false, false);
    }
    fn make_cold_beside(&mut self, conn: u32) {
        let f = self.conn(conn);
        (f.hot, f.rung) = (false, false);
    }
    fn is_told(&self) -> bool {
        self.group == Group::Told
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
        let f = &self.files[conn as usize];
        Pos::new(if f.is_in_ring() { f.put } else { f.taken })
    }
    fn writable(&self, conn: u32) -> bool {
        !self.files[conn as usize].sends_by_tcp
    }
    fn has_room(&self, io: i32) -> bool {
        assert!(self.numbers.contains_key(&io), "system calls go to a number of the file");
        true
    }
    fn in_ring(&mut self, conn: u32, _: i32) -> bool {
        self.files[conn as usize].is_in_ring()
    }
    fn is_ending(&self, conn: u32) -> bool {
        let f = &self.files[conn as usize];
        f.ended && !f.killed
    }
    fn has_error(&self, _: u32) -> bool {
        false
    }
    fn died(&mut self, conn: u32, _: i32) -> bool {
        let f = self.conn(conn);
        let news = f.killed && core::mem::take(&mut f.unread);
        if news {
            self.event(conn as usize, true);
        }
        news
    }
    fn settle(&mut self, conn: u32, io: i32, arm: bool) -> Settled {
        assert_eq!(self.numbers.get(&io), Some(&(conn as usize)), "system calls go to a number of the file");
        let f = self.conn(conn);
        if arm {
            f.rung = false;
        }
        if !f.is_in_ring() {
            return if f.on_tcp > 0 || f.ended { Settled::Ready } else { Settled::Quiet };
        }
        if f.put > f.taken {
            // That one will do (W4).
            f.rung |= arm && f.bells > 0;
            return Settled::Ready;
        }
        let ended = f.ended;
        if !self.is_telling(conn as usize) {
            self.conn(conn).bells = 0;
        }
        if ended {
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
    fn has_end(&self, io: i32) -> bool {
        self.numbers.get(&io).is_some_and(|&file| self.files[file].ended)
    }
    fn woke_in_vain(&mut self, _: u32, _: i32, _: u32) {}
    fn kick(&mut self, data: u64) -> bool {
        if !self.has_no_kick {
            self.kick = Some(data);
        }
        !self.has_no_kick
    }
    fn unkick(&mut self) {
        self.kick = None;
    }
    fn is_readable(&self) -> bool {
        self.is_ready()
    }
    fn is_set_ready(&mut self, _: SetName) -> bool {
        true
    }
    fn thread_lives(&self, _: u32) -> bool {
        true
    }
    fn used_by_both(&mut self, _: bool) {}
    fn expose(&mut self, set: SetName, more: bool) {
        if self.is_open(set) {
            let n = self.files[INNER].exposed;
            self.files[INNER].exposed = if more { n + 1 } else { n.checked_sub(1).expect("counted") };
        }
    }
    fn relatives_began(&self) -> bool {
        self.relatives_began
    }
    fn relatives_may_come(&self) -> bool {
        self.has_child && !self.relatives_began
    }
    fn is_open(&self, set: SetName) -> bool {
        set == self.inner() && self.numbers.values().any(|&file| file == INNER)
    }
    fn list(&mut self, _: usize, _: u32, _: bool) {}
    fn listed(&mut self, _: usize) {}
}
