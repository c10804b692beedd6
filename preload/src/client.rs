//! The connecting side: one arena per server family (PROTOCOLS I1), an introduction at its door, offers in slots.

use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd};

use dpfd::edge::arena::Arena;
use dpfd::edge::possession;
use dpfd::edge::ring::{Cursor, Lines};
use dpfd::edge::slot::{Side, Slot};
use dpfd::edge::unmapped;
use dpfd::family::{Conn, Family, Id, OwnArena, Reason, ARENAS, SLOTS};
use dpfd::sys::{raw, tcp};

use crate::intro::{self, COPIES};
use crate::{channel, diag, fdtable, proof, state};

/// Why there is no offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum No {
    /// This connection will not have one.
    Never(Reason),
    /// Not now; ask again in a later call.
    Later,
}

/// Arenas this process has mapped, by their index in the family: address of a leaked [`Arena`], memfd.
struct Mapped {
    arena: AtomicUsize,
    fd: AtomicI32,
    /// Which memory it is ([`unmapped::Key`]).
    key: [AtomicU64; 2],
    /// The server family that was given it, and nobody else ever is.
    id: [AtomicU64; 3],
    /// Which of the arenas that had this entry in the family; a relative may have given the entry to another.
    serial: AtomicU32,
    /// When its server family was last found at a door, ns of the monotonic clock.
    told: AtomicU64,
    /// Connections that begin with a hello: offers at this arena were passed over until there was one. Where each
    /// connection has a process of its own, no hello but its own reaches that.
    anew: AtomicU32,
    /// Slots whose rings have memory.
    populated: [AtomicU64; SLOTS / 64],
}

/// So many connections begin with a hello after one that needed it.
const ANEW: u32 = 64;

static MAPPED: [Mapped; ARENAS] = [const {
    Mapped {
        arena: AtomicUsize::new(0),
        fd: AtomicI32::new(-1),
        key: [const { AtomicU64::new(0) }; 2],
        id: [const { AtomicU64::new(0) }; 3],
        serial: AtomicU32::new(0),
        told: AtomicU64::new(0),
        anew: AtomicU32::new(0),
        populated: [const { AtomicU64::new(0) }; SLOTS / 64],
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

/// Servers without a door, remembered for a second: hash of the address, until when.
static NOBODY: [(AtomicU64, AtomicU64); 16] = [const { (AtomicU64::new(0), AtomicU64::new(0)) }; 16];
const REMEMBER: u64 = 1_000_000_000;

/// One thread at a time makes arenas.
static MAKING: AtomicU32 = AtomicU32::new(0);

fn hash(a: tcp::Addr) -> u64 {
    a.ip.iter().fold(u64::from(a.port) | 1 << 63, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3))
}

fn arena_of(i: usize) -> Option<Arena> {
    let p = MAPPED[i].arena.load(Ordering::Acquire) as *const Arena;
    // SAFETY: leaked by make().
    (!p.is_null()).then(|| unsafe { *p })
}

/// Whether an arena that we made is mapped there.
pub fn maps(address: usize) -> bool {
    (0..ARENAS).filter_map(arena_of).any(|a| (a.id()..a.id() + a.geometry().len()).contains(&address))
}

/// Posts the offer of `c` (PROTOCOLS E2, E9), making arena and introduction if this server is new.
pub fn offer(family: Family, fd: i32, c: &Conn) -> Result<(), No> {
    let never = |r| Err(No::Never(r));
    let (Some(local), Some(peer)) = (tcp::local(fd), tcp::peer(fd)) else { return Err(No::Later) };
    c.set_addresses(local, peer);
    let i = choose(family, c, peer)?;
    // Lost stores of other threads cost a hello.
    let anew = MAPPED[i].anew.load(Ordering::Relaxed);
    if anew > 0 && c.tried.load(Ordering::Relaxed) == 0 {
        MAPPED[i].anew.store(anew - 1, Ordering::Relaxed);
        let _ = go_round(family, peer);
    }
    let Some(arena) = arena_of(i) else { return Err(No::Later) };
    let own = family.arena(i);
    let Some(n) = own.slot(&arena).or_else(|| sweep(own, &arena)) else { return never(Reason::Slots) };
    clear(&arena, n);
    if arena.spares().is_some_and(|spares| !spares.any_free()) {
        recover_spares(own, &arena);
    }
    if !populate(i, &arena, n) {
        own.free(n);
        return never(Reason::Memory);
    }
    let Some(cookie) = tcp::cookie(fd) else {
        own.free(n);
        return never(Reason::Option);
    };
    for side in [Side::Client, Side::Server] {
        let e = arena.edge(n, side);
        // Positions go on from the last connection, a lap further, over an empty header.
        let at = Cursor::unpack(e.rx.cursor.load(Ordering::Relaxed)).pos.add(e.ring.count());
        e.ring.header(at).store(0, Ordering::Relaxed);
        e.word.reset();
        e.rx.reset(at);
    }
    let tuple = tcp::tuple(local, peer);
    let Some(nonce) = proof::random() else {
        own.free(n);
        return never(Reason::Memory);
    };
    let generation = arena.slot(n).offer(&tuple, cookie, tcp::netns(fd), nonce);
    c.nonce.store(nonce, Ordering::Relaxed);
    c.expected.store(0, Ordering::Relaxed);
    channel::attach(c, &arena, n, Side::Client, generation);
    c.arena.store(i as u32, Ordering::Relaxed);
    if arena.publish(tuple.hash(arena.index_len()), n) {
        return Ok(());
    }
    arena.slot(n).withdraw(generation);
    c.offer.store(0, Ordering::Release);
    own.free(n);
    never(Reason::Slots)
}

/// Our arenas for servers at an address, and when those were last found at a door there.
fn all(family: Family, server: tcp::Addr) -> impl Iterator<Item = (usize, u64)> {
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
fn found(family: Family, i: usize, server: tcp::Addr, round: u64) {
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
fn find(family: Family, c: &Conn, server: tcp::Addr) -> Option<usize> {
    let tried = c.tried.load(Ordering::Relaxed);
    present(family, server).filter(|i| tried & (1 << i) == 0).max_by_key(|&i| family.arena(i).proven())
}

/// The arena for the next offer of `c`.
fn choose(family: Family, c: &Conn, server: tcp::Addr) -> Result<usize, No> {
    if let Some(i) = find(family, c, server) {
        return Ok(i);
    }
    let made = go_round(family, server);
    // All that have a door are tried: they have been told anew, and may be tried again.
    if c.tried.load(Ordering::Relaxed) != 0 && find(family, c, server).is_none() {
        c.tried.store(0, Ordering::Relaxed);
    }
    find(family, c, server).ok_or(match made {
        Ok(()) => No::Later,
        Err(no) => no,
    })
}

fn populate(i: usize, arena: &Arena, n: u32) -> bool {
    let (word, bit) = (n as usize / 64 % (SLOTS / 64), 1u64 << (n % 64));
    let fd = MAPPED[i].fd.load(Ordering::Acquire);
    if MAPPED[i].populated[word].load(Ordering::Relaxed) & bit != 0 {
        return true;
    }
    if fd < 0 {
        return false;
    }
    // SAFETY: ours, open as long as the process lives unless the program closed it; then EBADF.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    if arena.populate(fd, n).is_err() {
        return false;
    }
    MAPPED[i].populated[word].fetch_or(bit, Ordering::Relaxed);
    true
}

/// All slots are taken or closing: those whose server end the kernel no longer knows are free (E11).
fn sweep(own: &OwnArena, arena: &Arena) -> Option<u32> {
    for n in own.closing().take(64) {
        if server_is_gone(arena, n) {
            reclaim(own, arena, n);
        }
    }
    own.slot(arena)
}

/// Whether the kernel no longer knows the server's end of a slot that we left.
fn server_is_gone(arena: &Arena, n: u32) -> bool {
    let Some((client, server)) = arena.slot(n).ends() else { return false };
    let a = |ip: [u8; 16], port: u16| tcp::Addr { ip, port, scope: 0 };
    diag::is_gone(a(server.0, server.1), a(client.0, client.1))
}

/// All spare rings are taken: those of slots that both ends have left, and that were not taken again, are free. What the
/// kernel says of the server's end is not enough: it knows nothing of a connection that is closed on both sides, and whoever
/// has a descriptor of that may still read what is in the ring.
fn recover_spares(own: &OwnArena, arena: &Arena) {
    let has_some =
        |&n: &u32| [Side::Client, Side::Server].iter().any(|&side| arena.edge(n, side).tx.spare() != 0);
    for n in own.closing().filter(has_some) {
        if arena.slot(n).both_left() {
            reclaim(own, arena, n);
        }
    }
}

/// Frees a slot that both ends are through with.
fn reclaim(own: &OwnArena, arena: &Arena, n: u32) {
    // From here on it is ours, as if for a connection.
    if own.reclaim(n) {
        clear(arena, n);
        own.free(n);
    }
}

/// Both ends of the connection before are gone: what they had besides the slot is free.
fn clear(arena: &Arena, n: u32) {
    for side in [Side::Client, Side::Server] {
        let tx = arena.edge(n, side).tx;
        if let Some(spares) = arena.spares() {
            spares.give_back(tx.spare());
        }
        tx.reset();
    }
}

/// Says hello at all doors of the address: anew where an arena was given, with a new one where there is none yet.
fn go_round(family: Family, server: tcp::Addr) -> Result<(), No> {
    let key = hash(server);
    let now = state::now();
    let known = NOBODY
        .iter()
        .any(|(k, until)| k.load(Ordering::Relaxed) == key && now < until.load(Ordering::Relaxed));
    if known {
        return Err(No::Never(Reason::NoDoor));
    }
    if MAKING.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
        return Err(No::Later);
    }
    let result = go_round_alone(family, server);
    MAKING.store(0, Ordering::Release);
    if let Err(No::Never(Reason::NoDoor)) = result {
        let place = &NOBODY[(key % 16) as usize];
        place.0.store(key, Ordering::Relaxed);
        place.1.store(now + REMEMBER, Ordering::Relaxed);
    }
    result
}

/// Arenas of one round that nothing was ever proven of. Squatters of an address's doors cost us no more.
const UNPROVEN: usize = 4;

fn go_round_alone(family: Family, server: tcp::Addr) -> Result<(), No> {
    let mut result = Err(No::Never(Reason::NoDoor));
    let round = state::now();
    for door in Doors::new(server) {
        let this = visit(family, server, door, round);
        raw::close(door);
        // One door that was told is enough; a reason is as good as another.
        result = this.or(result.or(this));
    }
    result
}

/// Says hello at one door. An arena goes to one family only: what one knows, no other one must (PROTOCOLS I1).
fn visit(family: Family, server: tcp::Addr, door: i32, round: u64) -> Result<(), No> {
    let refused = |_| No::Never(Reason::Memory);
    let id = intro::opener(door).ok_or(No::Never(Reason::Owner))?;
    if let Some(i) = given_to(family, id) {
        intro::send_hello(door, MAPPED[i].fd.load(Ordering::Acquire)).map_err(refused)?;
        found(family, i, server, round);
        return Ok(());
    }
    let unproven = |&(i, told): &(usize, u64)| told == round && family.arena(i).proven() == 0;
    if all(family, server).filter(unproven).count() >= UNPROVEN {
        return Err(No::Never(Reason::Owner));
    }
    let free = || {
        (0..ARENAS).filter(|&i| MAPPED[i].arena.load(Ordering::Relaxed) == 0).find_map(|i| {
            let serial = family.arena(i).claim(server)?;
            Some((i, serial))
        })
    };
    let (i, serial) =
        free().or_else(|| retire(family).then(free).flatten()).ok_or(No::Never(Reason::Slots))?;
    let made = make(door);
    match made {
        Ok((arena, memfd, key)) => {
            for (to, from) in MAPPED[i].key.iter().zip(key) {
                to.store(from, Ordering::Relaxed);
            }
            for (to, from) in MAPPED[i].id.iter().zip(id) {
                to.store(from, Ordering::Relaxed);
            }
            MAPPED[i].populated.iter().for_each(|w| w.store(0, Ordering::Relaxed));
            MAPPED[i].serial.store(serial, Ordering::Relaxed);
            MAPPED[i].told.store(round, Ordering::Relaxed);
            MAPPED[i].fd.store(memfd, Ordering::Release);
            MAPPED[i].arena.store(arena, Ordering::Release);
            Ok(())
        }
        Err(e) => {
            family.arena(i).release();
            Err(e)
        }
    }
}

/// The arena that a server family was given, whatever address it was found at.
fn given_to(family: Family, id: Id) -> Option<usize> {
    (0..ARENAS).find(|&i| {
        MAPPED[i].arena.load(Ordering::Acquire) != 0
            && id_of(i) == id
            && family.arena(i).is_serial(MAPPED[i].serial.load(Ordering::Relaxed))
    })
}

fn id_of(i: usize) -> Id {
    [0, 1, 2].map(|k: usize| MAPPED[i].id[k].load(Ordering::Relaxed))
}

/// Every entry is taken: gives back that of an arena in which nobody of ours or of its server is, rather one in which
/// nothing was ever proven, or not for long. Servers come and go. One thread at a time.
fn retire(family: Family) -> bool {
    let mut order = [0usize; ARENAS];
    order.iter_mut().enumerate().for_each(|(i, to)| *to = i);
    order.sort_unstable_by_key(|&i| family.arena(i).proven());
    for i in order {
        let Some(arena) = arena_of(i) else { continue };
        let own = family.arena(i);
        // An entry that a relative gave to another is that one's; what we have of it is of no use.
        let ours = own.is_serial(MAPPED[i].serial.load(Ordering::Relaxed));
        let over = |n| arena.slot(n).both_left() || server_is_gone(&arena, n);
        if ours && !own.retire(over) {
            continue;
        }
        MAPPED[i].arena.store(0, Ordering::Release);
        let memfd = MAPPED[i].fd.swap(-1, Ordering::AcqRel);
        if memfd >= 0 && fdtable::get(memfd) == fdtable::Entry::Internal {
            // Another thread may have found the arena just before, so it stays mapped; its pages go.
            if ours {
                // SAFETY: our descriptor.
                let fd = unsafe { BorrowedFd::borrow_raw(memfd) };
                arena.empty(fd);
            }
            fdtable::set(memfd, fdtable::Entry::None);
            raw::close(memfd);
        }
        if ours {
            own.release();
            return true;
        }
    }
    false
}

/// A new arena, of which the owner of `door` was told: its address, its memory.
#[cold]
#[inline(never)]
fn make(door: i32) -> Result<(usize, i32, unmapped::Key), No> {
    let memory = No::Never(Reason::Memory);
    let (arena, memfd) = Arena::create(state::geometry()).map_err(|_| memory)?;
    let unmap = |arena: Arena| {
        // SAFETY: nobody else knows of it.
        unsafe { arena.unmap() };
        memory
    };
    let Ok(key) = unmapped::key(memfd.as_fd()) else { return Err(unmap(arena)) };
    let Some(memfd) = state::high_fd(memfd.into_raw_fd()) else { return Err(unmap(arena)) };
    fdtable::mark_internal(memfd);
    let told = intro::send_hello(door, memfd).is_ok();
    match state::leak_value(arena).filter(|_| told) {
        Some(p) => Ok((p as usize, memfd, key)),
        None => {
            fdtable::set(memfd, fdtable::Entry::None);
            raw::close(memfd);
            Err(unmap(arena))
        }
    }
}

/// The doors a server at `addr` may have: its own address, or a wildcard; several copies of each.
struct Doors {
    names: [tcp::Addr; 3],
    at: u8,
}

impl Doors {
    fn new(server: tcp::Addr) -> Doors {
        let mut v4_any = [0; 16];
        v4_any[10..12].copy_from_slice(&[0xff, 0xff]);
        let any = |ip| tcp::Addr { ip, port: server.port, scope: 0 };
        Doors { names: [server, any(v4_any), any([0; 16])], at: 0 }
    }
}

impl Iterator for Doors {
    type Item = i32;
    fn next(&mut self) -> Option<i32> {
        if self.at == 3 * COPIES {
            return None;
        }
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        let fd = state::unix(raw::socket(libc::AF_UNIX, kind, 0)).ok()?;
        while self.at < 3 * COPIES {
            let (name, copy) = (self.names[usize::from(self.at / COPIES)], self.at % COPIES);
            // A copy that is gone or lets nobody in says nothing of the next: their owners come and go.
            self.at += 1;
            let (un, len) = intro::door_address(name, copy);
            // SAFETY: the address outlives the call.
            if unsafe { raw::connect(fd, (&raw const un).cast(), len) }.is_ok() {
                return Some(fd);
            }
        }
        raw::close(fd);
        None
    }
}

/// The server's answer to the offer of `c`, as far as there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// None yet, or one that was dealt with.
    Nothing,
    /// It has proven that it holds the other end, and our socket shows our own proof.
    Proven,
    /// Whoever answered does not hold the other end.
    Wrong,
}

/// Looks at the answer, and answers it (PROTOCOLS I2). Under the receiver's lock.
pub fn look_at_answer(fd: i32, c: &Conn, s: &Slot) -> Answer {
    let challenge = s.challenge.load(Ordering::Acquire);
    let (i, Some(family)) = (c.arena.load(Ordering::Relaxed) as usize % ARENAS, state::family()) else {
        return Answer::Nothing;
    };
    // What was looked at is not looked at again: the kernel would say the same.
    if challenge == 0 || challenge == c.expected.load(Ordering::Relaxed) {
        return Answer::Nothing;
    }
    c.expected.store(challenge, Ordering::Relaxed);
    let own = family.arena(i);
    let key = [0, 1].map(|k: usize| MAPPED[i].key[k].load(Ordering::Relaxed));
    let number = |side| possession::number(side, key, id_of(i), c.nonce.load(Ordering::Relaxed), challenge);
    // Whether our own end is what it was, is asked before the offer is confirmed.
    if !proof::other_shows(c, tcp::netns(fd), number(Side::Server)) {
        return Answer::Wrong;
    }
    if !proof::show(fd, c, number(Side::Client)) {
        return Answer::Nothing;
    }
    own.prove(state::now());
    s.shown.store(challenge, Ordering::Release);
    Answer::Proven
}

/// Whether the offer of `c`, not taken so far, might be taken elsewhere: in another arena for this address.
pub fn has_another(family: Family, c: &Conn) -> bool {
    let here = c.arena.load(Ordering::Relaxed) as usize % ARENAS;
    let tried = c.tried.load(Ordering::Relaxed) | 1 << here;
    present(family, c.peer()).any(|i| tried & (1 << i) == 0)
}

/// Nobody takes the offer of `c`, which was withdrawn: perhaps a worker that has not met us serves it, or another
/// family. The next offer goes elsewhere; `again`: after another hello to all.
pub fn give_up_here(family: Family, c: &Conn, again: bool) {
    c.tried.fetch_or(1 << (c.arena.load(Ordering::Relaxed) as usize % ARENAS), Ordering::Relaxed);
    // Where no arena is left, choose() goes round anyway.
    if again {
        MAPPED[c.arena.load(Ordering::Relaxed) as usize % ARENAS].anew.store(ANEW, Ordering::Relaxed);
    }
    if again && find(family, c, c.peer()).is_some() {
        let _ = go_round(family, c.peer());
    }
}

/// The offer was withdrawn before anybody used its rings: the slot is free at once.
pub fn release(c: &Conn) {
    with_slot(c, |family, i, n| family.arena(i).free(n));
}

/// We are through with a live slot; it is free when the server is, too.
pub fn leave(c: &Conn) {
    with_slot(c, |family, i, n| {
        if let Some(s) = channel::slot(c) {
            s.leave(c.generation.load(Ordering::Relaxed), Side::Client);
        }
        family.arena(i).close(n);
    });
}

fn with_slot(c: &Conn, f: impl FnOnce(Family, usize, u32)) {
    let (i, n) = (c.arena.load(Ordering::Relaxed) as usize % ARENAS, c.slot.load(Ordering::Relaxed));
    let (Some(family), Some(arena)) = (state::family(), arena_of(i)) else { return };
    arena.unpublish(tcp::tuple(c.local(), c.peer()).hash(arena.index_len()), n);
    f(family, i, n);
    c.offer.store(0, Ordering::Release);
}

/// In a forked child: a thread of the parent may have been at work.
pub fn inherited() {
    if MAKING.load(Ordering::Relaxed) != 0 {
        MAKING.store(0, Ordering::Release);
    }
}
