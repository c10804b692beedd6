//! The connecting side: one arena per server, an introduction at its door, offers in slots.

use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::os::fd::{BorrowedFd, IntoRawFd};

use dpfd::edge::arena::{Arena, Geometry};
use dpfd::edge::ring::{Cursor, Lines};
use dpfd::edge::slot::Side;
use dpfd::family::{Conn, Family, OwnArena, Reason, ARENAS, SLOTS};
use dpfd::sys::{raw, tcp};

use crate::intro::{self, COPIES};
use crate::{channel, diag, fdtable, state};

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
    /// Slots whose rings have memory.
    populated: [AtomicU64; SLOTS / 64],
}

static MAPPED: [Mapped; ARENAS] = [const {
    Mapped {
        arena: AtomicUsize::new(0),
        fd: AtomicI32::new(-1),
        populated: [const { AtomicU64::new(0) }; SLOTS / 64],
    }
}; ARENAS];

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
    let i = match find(family, peer) {
        Some(i) => i,
        None => {
            make(family, peer)?;
            find(family, peer).ok_or(No::Later)?
        }
    };
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
    let generation = arena.slot(n).offer(&tuple, cookie, tcp::netns(fd));
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

fn find(family: Family, server: tcp::Addr) -> Option<usize> {
    (0..ARENAS).find(|&i| MAPPED[i].arena.load(Ordering::Relaxed) != 0 && family.arena(i).is_for(server))
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
    diag::owner(a(server.0, server.1), a(client.0, client.1)) == Err(libc::ENOENT)
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

/// A new server: its door, its credentials, an arena, the hello.
fn make(family: Family, server: tcp::Addr) -> Result<(), No> {
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
    let result = make_alone(family, server);
    MAKING.store(0, Ordering::Release);
    if let Err(No::Never(Reason::NoDoor)) = result {
        let place = &NOBODY[(key % 16) as usize];
        place.0.store(key, Ordering::Relaxed);
        place.1.store(now + REMEMBER, Ordering::Relaxed);
    }
    result
}

fn make_alone(family: Family, server: tcp::Addr) -> Result<(), No> {
    if find(family, server).is_some() {
        return Ok(());
    }
    let memory = No::Never(Reason::Memory);
    let i = (0..ARENAS)
        .find(|&i| MAPPED[i].arena.load(Ordering::Relaxed) == 0 && family.arena(i).claim(server))
        .ok_or(No::Never(Reason::Slots))?;
    let made = (|| {
        let mut doors = Doors::new(server);
        let first = doors.next().ok_or(No::Never(Reason::NoDoor))?;
        let lines = state::RING_LINES.load(Ordering::Relaxed);
        let spare = Some(state::SPARE_LINES.load(Ordering::Relaxed)).filter(|&n| n > lines).unwrap_or(0);
        let made = Arena::create(Geometry { slots: SLOTS as u32, lines, spare }).map_err(|_| memory);
        let (arena, memfd) = match made {
            Ok(x) => x,
            Err(e) => {
                raw::close(first);
                return Err(e);
            }
        };
        let Some(memfd) = state::high_fd(memfd.into_raw_fd()) else {
            raw::close(first);
            return Err(memory);
        };
        fdtable::mark_internal(memfd);
        // One that answered may be what a child of an earlier server has kept; another one is as good.
        let mut greeted = introduce(first, server, memfd);
        for door in doors {
            let this = introduce(door, server, memfd);
            greeted = greeted.or(this.or(greeted));
        }
        match (greeted, state::leak_value(arena).map(|p| p as usize)) {
            (Ok(()), Some(p)) => Ok((p, memfd)),
            (e, _) => {
                fdtable::set(memfd, fdtable::Entry::None);
                raw::close(memfd);
                Err(e.err().map_or(memory, No::Never))
            }
        }
    })();
    match made {
        Ok((arena, memfd)) => {
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

/// Checks whose door it is, then sends the hello. Closes `door`.
fn introduce(door: i32, server: tcp::Addr, arena: i32) -> Result<(), Reason> {
    let result = (|| {
        let cred = intro::peer_credentials(door).ok_or(Reason::Owner)?;
        // SAFETY: no arguments, no failure.
        let me = unsafe { libc::geteuid() };
        // Root and ourselves could reach into this process anyway; anybody else must own the listener.
        if cred.uid != 0 && cred.uid != me {
            let anyone = tcp::Addr {
                ip: if server.ip[10] == 0xff { v4_zero() } else { [0; 16] },
                ..Default::default()
            };
            if diag::owner(server, anyone) != Ok(cred.uid) {
                return Err(Reason::Owner);
            }
        }
        intro::send_hello(door, arena).map_err(|_| Reason::Memory)
    })();
    raw::close(door);
    result
}

fn v4_zero() -> [u8; 16] {
    let mut ip = [0; 16];
    ip[10..12].copy_from_slice(&[0xff, 0xff]);
    ip
}

/// The offer is unanswered: perhaps a worker that has not met us serves it. Say hello again.
pub fn introduce_again(c: &Conn) {
    let i = c.arena.load(Ordering::Relaxed) as usize % ARENAS;
    let fd = MAPPED[i].fd.load(Ordering::Acquire);
    if fd >= 0 {
        for door in Doors::new(c.peer()) {
            let _ = introduce(door, c.peer(), fd);
        }
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
