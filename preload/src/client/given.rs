//! Arenas that were given to server families, one to each (PROTOCOLS I1), and where those were found.

use core::cell::Cell;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::os::fd::BorrowedFd;

use dp_channel::arena::Arena;
use dp_channel::family::{Family, Id, ARENAS};
use dp_channel::tcp;

use super::again::{self, both_left};
use super::round::is_nobody;
use super::RETIRED;
use crate::channel::Channel;
use crate::own::Mine;
use crate::state;

/// Arenas this process has mapped, by their index in the family: address of a leaked [`Arena`], memfd.
pub(super) struct Mapped {
    pub(super) arena: AtomicUsize,
    pub(super) fd: Mine,
    /// Which memory it is ([`unmapped::Key`]).
    pub(super) key: [AtomicU64; 2],
    /// The server family that was given it, and nobody else ever is.
    pub(super) id: [AtomicU64; 3],
    /// Which of the arenas that had this entry in the family; a relative may have given the entry to another.
    pub(super) serial: AtomicU32,
    /// When its server family was last found at a door, ns of the monotonic clock, and when it was first.
    pub(super) told: AtomicU64,
    pub(super) made: AtomicU64,
    /// Connections that begin with a hello: offers at this arena were passed over until there was one. Where each
    /// connection has a process of its own, no hello but its own reaches that.
    pub(super) anew: AtomicU32,
}

/// So many connections begin with a hello after one that needed it.
pub(super) const ANEW: u32 = 64;

pub(super) static MAPPED: [Mapped; ARENAS] = [const {
    Mapped {
        arena: AtomicUsize::new(0),
        fd: Mine::none(),
        key: [const { AtomicU64::new(0) }; 2],
        id: [const { AtomicU64::new(0) }; 3],
        serial: AtomicU32::new(0),
        told: AtomicU64::new(0),
        made: AtomicU64::new(0),
        anew: AtomicU32::new(0),
    }
}; ARENAS];

/// Another address at which the server family of an arena was found: a server that listens on a new port for each transfer
/// is given one arena, not one for each.
struct Also {
    /// Which arena; [`ARENAS`]: none. Last to be written.
    arena: AtomicUsize,
    serial: AtomicU32,
    /// Hash of the address. What a wrong one leads to is an offer that nobody takes.
    address: AtomicU64,
    /// As [`Mapped::told`].
    told: AtomicU64,
}

static ALSO: [Also; 64] = [const {
    Also {
        arena: AtomicUsize::new(ARENAS),
        serial: AtomicU32::new(0),
        address: AtomicU64::new(0),
        told: AtomicU64::new(0),
    }
}; 64];

impl Also {
    fn is(&self, i: usize, server: tcp::Addr) -> bool {
        self.arena.load(Ordering::Acquire) == i
            && self.serial.load(Ordering::Relaxed) == MAPPED[i].serial.load(Ordering::Relaxed)
            && self.address.load(Ordering::Relaxed) == hash(server)
    }
}

pub(super) fn hash(a: tcp::Addr) -> u64 {
    a.ip.iter().fold(u64::from(a.port) | 1 << 63, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3))
}

/// Arena `i`. Only for walkers.
pub(super) fn arena_of(i: usize) -> Option<Arena> {
    let p = MAPPED[i].arena.load(Ordering::Acquire) as *const Arena;
    // SAFETY: leaked by make(), freed only where no walker can have found it.
    (!p.is_null()).then(|| unsafe { *p })
}

/// Which of the arenas that had entry `i` in the family is what we have of it, if it still is the family's.
fn current(family: Family, i: usize) -> Option<u32> {
    // Acquire: whoever sees the serial number of another one finds that the former is not mapped any more.
    let serial = MAPPED[i].serial.load(Ordering::Acquire);
    family.arena(i).is_serial(serial).then_some(serial)
}

/// Whether `arena`, which was found as arena `i`, is what the family has there. Once a slot there is the caller's it stays so: asked
/// before that, and what the memory says of a slot would be said of one of another arena, which a relative, or another thread, has
/// made since.
pub(super) fn is_current(family: Family, i: usize, arena: &Arena) -> bool {
    current(family, i).is_some() && arena_of(i).is_some_and(|now| now.id() == arena.id())
}

/// Whether a slot of an arena that we made is mapped there. Only for walkers.
pub fn maps(address: usize) -> bool {
    (0..ARENAS).filter_map(arena_of).any(|a| a.holds(address))
}

/// Does `f` with the memory of arena `i`, unless the program has closed all descriptors there are.
pub(super) fn with_memory(i: usize, f: impl FnOnce(BorrowedFd)) {
    // Not the memory of another arena, which the number may stand for by now: live rings there would be emptied.
    if let Some(fd) = MAPPED[i].fd.fd() {
        // SAFETY: our descriptor.
        f(unsafe { BorrowedFd::borrow_raw(fd) });
    }
}

/// Our arenas for servers at an address, and when those were last found at a door there.
pub(super) fn all(family: Family, server: tcp::Addr) -> impl Iterator<Item = (usize, u64)> {
    let serial = |i: usize| MAPPED[i].serial.load(Ordering::Relaxed);
    let mapped = |i: usize| MAPPED[i].arena.load(Ordering::Acquire) != 0;
    let first = (0..ARENAS)
        .filter(move |&i| mapped(i) && family.arena(i).is_for(server, serial(i)))
        .map(|i| (i, MAPPED[i].told.load(Ordering::Relaxed)));
    let also = ALSO.iter().filter_map(move |also| {
        let i = also.arena.load(Ordering::Acquire);
        let theirs = i < ARENAS && mapped(i) && also.is(i, server) && family.arena(i).is_serial(serial(i));
        theirs.then(|| (i, also.told.load(Ordering::Relaxed)))
    });
    first.chain(also)
}

/// Those of them whose servers had a door when it was last gone round. The others belong to former servers.
fn present(family: Family, server: tcp::Addr) -> impl Iterator<Item = usize> {
    let last = all(family, server).map(|(_, told)| told).max();
    all(family, server).filter(move |(_, told)| Some(*told) == last).map(|(i, _)| i)
}

/// The server family of arena `i` was found at a door of `server`. One thread at a time.
pub(super) fn found(family: Family, i: usize, server: tcp::Addr, round: u64) {
    if family.arena(i).is_for(server, MAPPED[i].serial.load(Ordering::Relaxed)) {
        MAPPED[i].told.store(round, Ordering::Relaxed);
        return;
    }
    let age = |also: &&Also| also.told.load(Ordering::Relaxed);
    let entry = ALSO.iter().find(|also| also.is(i, server)).or_else(|| ALSO.iter().min_by_key(age));
    if let Some(also) = entry {
        also.arena.store(ARENAS, Ordering::Release);
        also.serial.store(MAPPED[i].serial.load(Ordering::Relaxed), Ordering::Relaxed);
        also.address.store(hash(server), Ordering::Relaxed);
        also.told.store(round, Ordering::Relaxed);
        also.arena.store(i, Ordering::Release);
    }
}

/// The likeliest arena in which `c` has not been offered in vain: that of the family in which a connection was last
/// proven to end.
pub(super) fn find(c: &Channel, server: tcp::Addr) -> Option<usize> {
    let tried = c.tried.load(Ordering::Relaxed);
    present(c.family, server).filter(|i| tried & (1 << i) == 0).max_by_key(|&i| c.family.arena(i).proven())
}

/// Whether nobody had a door at the server's address a moment ago, and no arena of ours is known there either.
pub fn has_nobody(c: &Channel) -> bool {
    is_nobody(c.peer()) && find(c, c.peer()).is_none()
}

/// At which turn `c` is to have its first offer: later where channels to this server do not pay.
pub fn first_turn(c: &Channel) -> u32 {
    find(c, c.peer()).map_or(1, |i| c.family.arena(i).worth.first_turn())
}

/// The arena that a server family was given, whatever address it was found at.
pub(super) fn given_to(family: Family, id: Id) -> Option<usize> {
    (0..ARENAS).find(|&i| {
        MAPPED[i].arena.load(Ordering::Acquire) != 0
            && id_of(i) == id
            && family.arena(i).is_serial(MAPPED[i].serial.load(Ordering::Relaxed))
    })
}

pub(super) fn id_of(i: usize) -> Id {
    [0, 1, 2].map(|k: usize| MAPPED[i].id[k].load(Ordering::Relaxed))
}

/// Whether connections to this server begin with a hello of their own; this one is counted. Lost stores of other threads
/// cost a hello.
pub(super) fn wants_a_hello(c: &Channel, server: tcp::Addr) -> bool {
    let first = c.tried.load(Ordering::Relaxed) == 0;
    let Some(i) = find(c, server).filter(|_| first) else { return false };
    let anew = MAPPED[i].anew.load(Ordering::Relaxed);
    if anew > 0 {
        MAPPED[i].anew.store(anew - 1, Ordering::Relaxed);
    }
    anew > 0
}

/// Every entry is taken: gives back one that a process had which ended, as the children of a program that forks for each task.
pub(super) fn release_for_ended(family: Family) -> bool {
    // What these had of connections.
    if let Some(make_room) = state::MAKES_ROOM.get() {
        make_room(family);
    }
    let not_ours = |&i: &usize| MAPPED[i].arena.load(Ordering::Relaxed) == 0;
    (0..ARENAS)
        .filter(not_ours)
        .any(|i| family.arena(i).release_for_ended(|process| family.has_ended(process)))
}

/// Every entry is taken: gives back that of an arena in which nobody of ours or of its server is, rather one in which
/// nothing was ever proven, or not for long. Servers come and go. One thread at a time.
pub(super) fn retire(family: Family) -> bool {
    if !RETIRED.has_room() {
        return false;
    }
    // Read once: another thread may prove something meanwhile, and the order must be one.
    let proven: [u32; ARENAS] = core::array::from_fn(|i| family.arena(i).proven());
    let mut tried = [false; ARENAS];
    // About the rest of them in a later call.
    let mut questions = again::QUESTIONS;
    while let Some(i) = (0..ARENAS).filter(|&i| !tried[i]).min_by_key(|&i| proven[i]) {
        if retire_one(family, i, &mut questions) {
            return true;
        }
        tried[i] = true;
    }
    false
}

/// The same for arena `i`: true if that was possible. No slot of it is taken again, so a server that has something to read
/// in one still does: the memory is its own, too. One thread at a time.
/// `questions`: as many as the kernel is asked at most.
pub(super) fn retire_one(family: Family, i: usize, questions: &mut usize) -> bool {
    let Some(arena) = arena_of(i) else { return false };
    let own = family.arena(i);
    // An entry that a relative gave to another is that one's; what we have of it is of no use.
    let ours = current(family, i);
    if ours.is_some() {
        again::look_through(family, i, &arena, questions);
    }
    let (all_left, now) = (Cell::new(true), state::now());
    let over = |n| {
        let left = both_left(&arena, n);
        all_left.set(all_left.get() && left);
        left || own.gone_for(n, now).is_some()
    };
    if ours.is_some_and(|serial| !own.retire(serial, over)) {
        // Where it has become another's just now, a later call finds that.
        return false;
    }
    let ours = ours.is_some();
    let address = MAPPED[i].arena.swap(0, Ordering::AcqRel);
    let memory = MAPPED[i].fd.take();
    if let Some(memfd) = memory.fd() {
        // Another thread may have found the arena just before, so it stays mapped for now; its pages go.
        if ours && all_left.get() {
            // SAFETY: our descriptor.
            let fd = unsafe { BorrowedFd::borrow_raw(memfd) };
            arena.empty(fd);
        }
        memory.close();
    }
    RETIRED.put(address);
    if ours {
        own.release();
    }
    ours
}

/// Whether the offer of `c`, not taken so far, might be taken elsewhere: in another arena for this address.
pub fn has_another(c: &Channel) -> bool {
    let here = c.arena.load(Ordering::Relaxed) as usize % ARENAS;
    let tried = c.tried.load(Ordering::Relaxed) | 1 << here;
    present(c.family, c.peer()).any(|i| tried & (1 << i) == 0)
}
