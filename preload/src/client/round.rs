//! Going round the doors of a server's address: a hello to each family that has one.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::os::fd::{AsFd, IntoRawFd};

use dp_channel::arena::{Arena, Geometry};
use dp_channel::family::{Family, Reason, ARENAS};
use dp_channel::tcp;
use dp_channel::unmapped;
use dp_edge::sys::raw;

use super::again;
use super::given::{all, found, given_to, hash, release_for_ended, retire, retire_one, MAPPED};
use super::{is_used, No, RETIRED};
use crate::intro::{self, COPIES, FEW};
use crate::own::Named;
use crate::{fdtable, link, rights, rules, state};

/// Servers without a door, remembered for a second, each at the place that its hash says: hash of the address, until when; in its lowest
/// bits [`NAT`] or [`FULL`].
static NOBODY: [(AtomicU64, AtomicU64); 16] = [const { (AtomicU64::new(0), AtomicU64::new(0)) }; 16];
const REMEMBER: u64 = 1_000_000_000;
/// Connections to the address are translated, which costs too much to be asked of each.
const NAT: u64 = 1;
/// It has a door, which holds no more callers, and may at any time: that is remembered for a shorter time, [`REMEMBER_FULL`].
const FULL: u64 = 2;
const REMEMBER_FULL: u64 = 100_000_000;

/// One thread at a time makes arenas.
static MAKING: AtomicU32 = AtomicU32::new(0);

fn place(key: u64) -> &'static (AtomicU64, AtomicU64) {
    &NOBODY[(key % NOBODY.len() as u64) as usize]
}

/// Until when what is remembered of the address counts; none: its place is another's.
fn until(server: tcp::Addr) -> Option<&'static AtomicU64> {
    let key = hash(server);
    let (whose, until) = place(key);
    (whose.load(Ordering::Relaxed) == key).then_some(until)
}

/// Why nobody at the address could be told a moment ago.
fn remembered(server: tcp::Addr) -> Option<No> {
    let now = state::now();
    let until = until(server)?.load(Ordering::Relaxed);
    if now >= until {
        return None;
    }
    Some(if until & FULL == 0 { No::Never(Reason::NoDoor) } else { No::Later })
}

fn remember(server: tcp::Addr, until: u64, why: u64) {
    let key = hash(server);
    let place = place(key);
    place.0.store(key, Ordering::Relaxed);
    place.1.store(until & !(NAT | FULL) | why, Ordering::Relaxed);
}

/// Whether nobody had a door at the address a moment ago.
pub(super) fn is_nobody(server: tcp::Addr) -> bool {
    remembered(server) == Some(No::Never(Reason::NoDoor))
}

/// Nobody has a door at the address, to which connections are translated.
pub fn note_nat(server: tcp::Addr) {
    if let Some(until) = until(server) {
        until.fetch_or(NAT, Ordering::Relaxed);
    }
}

/// Whether that was noted.
pub fn is_nat(server: tcp::Addr) -> bool {
    until(server).is_some_and(|until| until.load(Ordering::Relaxed) & NAT != 0)
}

/// Whether somebody has a door there is to be found out anew: a connection that must be a channel does not go by what was so
/// a moment ago.
pub(super) fn forget_nobody(server: tcp::Addr) {
    if let Some(until) = until(server) {
        until.store(0, Ordering::Relaxed);
    }
}

/// Says hello at all doors of the address: anew where an arena was given, with a new one where there is none yet.
pub(super) fn go_round(family: Family, server: tcp::Addr) -> Result<(), No> {
    if let Some(no) = remembered(server) {
        return Err(no);
    }
    if MAKING.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
        return Err(No::Later);
    }
    let result = go_round_alone(family, server);
    MAKING.store(0, Ordering::Release);
    if let Err(No::Never(Reason::NoDoor)) = result {
        remember(server, state::now() + REMEMBER, 0);
    }
    result
}

/// No slot of arena `i` can be taken, but nobody of ours is in one: the next call is to make another arena for its server,
/// whose processes may have ended without giving slots back. False: somebody is.
pub(super) fn begin_anew(family: Family, i: usize) -> bool {
    if MAKING.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
        return true;
    }
    RETIRED.unmap(family, is_used);
    // Where there is no room, later.
    let retired = !RETIRED.has_room() || retire_one(family, i, &mut { again::QUESTIONS });
    MAKING.store(0, Ordering::Release);
    retired
}

/// Arenas of which nothing was ever proven, for those that have doors at one address. Squatters cost us no more, ...
const UNPROVEN: usize = 16;
/// ... and no more than so many in one round.
const UNPROVEN_AT_ONCE: usize = 4;

fn go_round_alone(family: Family, server: tcp::Addr) -> Result<(), No> {
    let mut result = Err(No::Never(Reason::NoDoor));
    let round = state::now();
    let starts = fdtable::starts();
    let mut doors = Doors::new(server);
    let is_told = |at| {
        let unread = |&(i, _): &(usize, u64)| link::is_unread(hello(at, i));
        let there = all(family, server).find(unread);
        there.inspect(|&(i, _)| found(family, i, server, round)).is_some()
    };
    while let Some((at, door)) = doors.next(is_told) {
        // Kept, it goes on under a number of ours.
        let kept = link::begin(door, starts);
        let this = match kept {
            Some((name, door)) => visit(family, server, door, name, round)
                .inspect(|&i| link::said(name, hello(at, i)))
                .inspect_err(|_| link::end(name)),
            None => {
                let this = visit(family, server, door, 0, round);
                rights::close_stranger(door);
                this
            }
        };
        // One door that was told is enough; a reason is as good as another.
        let this = this.map(drop);
        result = this.or(result.or(this));
    }
    match result {
        _ if doors.told => Ok(()),
        Err(No::Never(Reason::NoDoor)) if doors.full => {
            remember(server, round + REMEMBER_FULL, FULL);
            Err(No::Later)
        }
        result => result,
    }
}

/// What a hello at a door with the memory of arena `i` is called here.
fn hello((name, copy): (tcp::Addr, u8), i: usize) -> u64 {
    let memory = MAPPED[i].key[1].load(Ordering::Relaxed);
    [copy.into(), memory].iter().fold(hash(name), |h, n| (h ^ n).wrapping_mul(0x100_0000_01b3)) | 1
}

/// Says hello at one door; `link` is our name of the connection. An arena goes to one family only: what one knows, no
/// other one must (PROTOCOLS I1). Which arena that was.
fn visit(family: Family, server: tcp::Addr, door: i32, link: u64, round: u64) -> Result<usize, No> {
    let refused = |_: i32| No::Never(Reason::Memory);
    let id = intro::opener(door).ok_or(No::Never(Reason::Owner))?;
    if let Some(i) = given_to(family, id) {
        if let Some(memory) = MAPPED[i].fd.fd() {
            intro::send_hello(door, memory, link).map_err(refused)?;
            found(family, i, server, round);
            return Ok(i);
        }
        // The program has closed it, and may have a file of its own there. Another arena takes its place when this one is empty.
        if !RETIRED.has_room() || !retire_one(family, i, &mut { again::QUESTIONS }) {
            return Err(refused(libc::EBADF));
        }
    }
    // Of servers that are there: those of former ones are given back when the room is needed.
    let unproven = || all(family, server).filter(|&(i, told)| told == round && family.arena(i).proven() == 0);
    let made_now = |&(i, _): &(usize, u64)| MAPPED[i].made.load(Ordering::Relaxed) == round;
    if unproven().count() >= UNPROVEN || unproven().filter(made_now).count() >= UNPROVEN_AT_ONCE {
        return Err(No::Never(Reason::Owner));
    }
    let us = state::member().map_or(0, |n| family.process(n));
    let free = || {
        (0..ARENAS).filter(|&i| MAPPED[i].arena.load(Ordering::Relaxed) == 0).find_map(|i| {
            let serial = family.arena(i).claim(server, us)?;
            Some((i, serial))
        })
    };
    RETIRED.unmap(family, is_used);
    let full = if RETIRED.has_room() { No::Never(Reason::Slots) } else { No::Later };
    let free = free()
        .or_else(|| release_for_ended(family).then(free).flatten())
        .or_else(|| retire(family).then(free).flatten());
    let (i, serial) = free.ok_or(full)?;
    let made = make(server, door, link);
    match made {
        Ok((arena, memfd, key)) => {
            for (to, from) in MAPPED[i].key.iter().zip(key) {
                to.store(from, Ordering::Relaxed);
            }
            for (to, from) in MAPPED[i].id.iter().zip(id) {
                to.store(from, Ordering::Relaxed);
            }
            MAPPED[i].serial.store(serial, Ordering::Release);
            MAPPED[i].anew.store(0, Ordering::Relaxed);
            [&MAPPED[i].told, &MAPPED[i].made].iter().for_each(|at| at.store(round, Ordering::Relaxed));
            MAPPED[i].fd.put(memfd);
            MAPPED[i].arena.store(arena, Ordering::Release);
            Ok(i)
        }
        Err(e) => {
            let own = family.arena(i);
            // A thread that has found a former arena there may have a slot for a moment, and gives it back: to this one, and to no other.
            // What cannot be had now is had when this process has ended.
            if own.retire(serial, |_| true) {
                own.release();
            }
            Err(e)
        }
    }
}

/// Slots of an arena where its file, however sparse, must not be long (RLIMIT_FSIZE).
const SLOTS_OF_A_SHORT_FILE: u32 = 1024;

/// A new arena, of which the owner of `door` was told: its address, its memory.
#[cold]
#[inline(never)]
fn make(server: tcp::Addr, door: i32, link: u64) -> Result<(usize, Named, unmapped::Key), No> {
    let memory = No::Never(Reason::Memory);
    // The memory is for all connections to that server, so the first one's rule says how long rings are.
    let sizes = state::geometry(&rules::settings(server));
    let smaller = |_| Arena::create(Geometry { slots: SLOTS_OF_A_SHORT_FILE, ..sizes });
    let (arena, memfd) = Arena::create(sizes).or_else(smaller).map_err(|_| memory)?;
    let unmap = |arena: Arena| {
        // SAFETY: nobody else knows of it.
        unsafe { arena.unmap() };
        memory
    };
    let Ok(key) = unmapped::key(memfd.as_fd()) else { return Err(unmap(arena)) };
    let Some(memfd) = Named::keep(memfd.into_raw_fd()) else { return Err(unmap(arena)) };
    let told = memfd.fd().is_some_and(|fd| intro::send_hello(door, fd, link).is_ok());
    match state::leak_value(arena).filter(|_| told) {
        Some(p) => Ok((p as usize, memfd, key)),
        None => {
            memfd.close();
            Err(unmap(arena))
        }
    }
}

/// The doors a server at `addr` may have: its own address, or a wildcard; several copies of each.
struct Doors {
    names: [tcp::Addr; 3],
    /// Which of the names, and which copy of its door is next.
    name: usize,
    copy: u8,
    /// One of the few copies that were looked at last is there, ...
    near: bool,
    /// ... or of all that were.
    any: bool,
    /// The first few copies of each name were not there: all others are looked at.
    again: bool,
    /// Somebody needs not be told, ...
    told: bool,
    /// ... or cannot be for now.
    full: bool,
}

impl Doors {
    fn new(server: tcp::Addr) -> Doors {
        let mut v4_any = [0; 16];
        v4_any[10..12].copy_from_slice(&[0xff, 0xff]);
        let any = |ip| tcp::Addr { ip, port: server.port, scope: 0 };
        let names = [server, any(v4_any), any([0; 16])];
        Doors { names, name: 0, copy: 0, near: false, any: false, again: false, told: false, full: false }
    }

    /// The next copy to look at: how it is called. A copy that is gone or lets nobody in says nothing of the next, as their
    /// owners come and go; a few in a row that are gone say that there are no more, unless there is none at all.
    fn next_name(&mut self) -> Option<(tcp::Addr, u8)> {
        let over = self.copy % FEW == 0 && self.copy > 0 && !self.near && !self.again;
        if over || self.copy == COPIES {
            (self.name, self.copy) = (self.name + 1, if self.again { FEW } else { 0 });
        }
        if self.copy % FEW == 0 {
            self.near = false;
        }
        if self.name == self.names.len() && !self.again && !self.any {
            (self.name, self.copy, self.again) = (0, FEW, true);
        }
        let name = *self.names.get(self.name)?;
        self.copy += 1;
        Some((name, self.copy - 1))
    }

    /// The copy that was looked at last is there.
    fn found(&mut self) {
        (self.near, self.any) = (true, true);
    }

    /// The next that is there, and where `is_told` does not say that it needs no call: which, and a connection to it.
    fn next(&mut self, is_told: impl Fn((tcp::Addr, u8)) -> bool) -> Option<((tcp::Addr, u8), i32)> {
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        let mut fd = -1;
        while let Some((name, copy)) = self.next_name() {
            if is_told((name, copy)) {
                self.found();
                self.told = true;
                continue;
            }
            if fd < 0 {
                fd = state::unix(raw::socket(libc::AF_UNIX, kind, 0)).ok()?;
            }
            let (un, len) = intro::door_address(name, copy);
            // SAFETY: the address outlives the call.
            let connected = unsafe { raw::connect(fd, (&raw const un).cast(), len) };
            match connected {
                Ok(_) => {
                    self.found();
                    return Some(((name, copy), fd));
                }
                // Where nobody looks, the door has more callers than it can hold.
                Err(libc::EAGAIN) => {
                    self.found();
                    self.full = true;
                }
                Err(_) => {}
            }
        }
        if fd >= 0 {
            raw::close(fd);
        }
        None
    }
}

/// In a forked child: a thread of the parent may have been at work.
pub(super) fn inherited() {
    state::clear(&MAKING);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which copies of the door at the server's own address are looked at, where those of `there` are.
    fn looked_at(there: &[u8]) -> Vec<u8> {
        let server = tcp::Addr { ip: [1; 16], port: 1, scope: 0 };
        let mut doors = Doors::new(server);
        let mut seen = Vec::new();
        while let Some((name, copy)) = doors.next_name() {
            let first = name == server;
            if first && there.contains(&copy) {
                doors.found();
            }
            if first {
                seen.push(copy);
            }
        }
        seen
    }

    #[test]
    fn a_few_doors_are_looked_for_and_more_where_there_are_more() {
        let all: Vec<_> = (0..COPIES).collect();
        assert_eq!(looked_at(&[0]), all[..8]);
        assert_eq!(looked_at(&[0, 3]), all[..8]);
        assert_eq!(looked_at(&[1, 2, 4, 15]), all[..12], "there are none from 8 on, as far as one can tell");
        assert_eq!(looked_at(&all), all);
        // Servers that were started anew while their forerunners still had the first names.
        assert_eq!(looked_at(&[5, 13]), all);
        assert_eq!(looked_at(&[]), all);
        let tried = |mut doors: Doors| core::iter::from_fn(move || doors.next_name()).count();
        let server = tcp::Addr { ip: [1; 16], port: 1, scope: 0 };
        assert_eq!(tried(Doors::new(server)), 3 * usize::from(COPIES), "each once");
    }

    #[test]
    fn each_copy_of_a_door_has_its_own_name() {
        let addr = tcp::Addr { ip: [1; 16], port: 1, scope: 0 };
        let names: std::collections::BTreeSet<_> =
            (0..COPIES).map(|copy| intro::door_address(addr, copy).0.sun_path).collect();
        assert_eq!(names.len(), usize::from(COPIES));
    }
}
