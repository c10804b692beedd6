//! The accepting side: doors of our listeners, arenas of clients that came, their offers.

use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::os::fd::{FromRawFd, OwnedFd};

use dpfd::edge::arena::Arena;
use dpfd::edge::slot::State;
use dpfd::family::{Conn, Reason};
use dpfd::sys::{raw, tcp};

use crate::intro::{self, COPIES};
use crate::{diag, fdtable, state};

const DOORS: usize = 64;
const GUESTS: usize = 256;

struct Door {
    /// The AF_UNIX listener; -1 free.
    fd: AtomicI32,
    port: AtomicU32,
    /// Descriptors of the TCP listener in this process.
    refs: AtomicU32,
    /// The process that opened it.
    pid: AtomicU32,
}

/// A client process's arena, mapped here.
struct Guest {
    /// 0 free, else address of a boxed arena.
    arena: AtomicUsize,
    uid: AtomicU32,
    pid: AtomicU32,
    inode: AtomicU64,
}

static OPEN: [Door; DOORS] = [const {
    Door { fd: AtomicI32::new(-1), port: AtomicU32::new(0), refs: AtomicU32::new(0), pid: AtomicU32::new(0) }
}; DOORS];
static MET: [Guest; GUESTS] = [const {
    Guest {
        arena: AtomicUsize::new(0),
        uid: AtomicU32::new(0),
        pid: AtomicU32::new(0),
        inode: AtomicU64::new(0),
    }
}; GUESTS];
/// Guests in use lie below this.
static HIGH: AtomicUsize = AtomicUsize::new(0);
/// Introductions whose hello had not come yet.
static WAITING: [AtomicI32; 8] = [const { AtomicI32::new(-1) }; 8];
/// Whose place the next one takes when there is no free one.
static NEXT: AtomicUsize = AtomicUsize::new(0);
/// Threads walking the guests; nobody unmaps while there are any.
static WALKERS: AtomicU32 = AtomicU32::new(0);
/// One thread at a time receives hellos.
static BUSY: AtomicU32 = AtomicU32::new(0);

/// What [`find_offer`] found.
pub enum Found {
    /// An offer for this very connection.
    Offer {
        /// Where.
        arena: Arena,
        /// Its slot.
        slot: u32,
        /// The slot's generation.
        generation: u32,
    },
    /// An offer that must not be taken.
    Refused(Reason),
    /// No offer yet.
    Nothing,
}

/// Opens the door of the listener `fd`; the entry for the descriptor table.
pub fn open(fd: i32) -> fdtable::Entry {
    let none = fdtable::Entry::Listener(0);
    let Some(addr) = tcp::local(fd) else { return fdtable::Entry::None };
    let may = state::rules().is_some_and(|r| r.may_accept(state::program(), addr.ip(), addr.port));
    if !may {
        return none;
    }
    let free = || {
        (0..DOORS).find(|&i| OPEN[i].fd.compare_exchange(-1, -2, Ordering::AcqRel, Ordering::Relaxed).is_ok())
    };
    let left =
        || OPEN.iter().find(|d| d.fd.load(Ordering::Acquire) >= 0 && d.refs.load(Ordering::Relaxed) == 0);
    let Some(i) = free().or_else(|| left().and_then(|d| (close(d), free()).1)) else {
        return none;
    };
    match listen(addr) {
        Some(door) => {
            OPEN[i].port.store(u32::from(addr.port), Ordering::Relaxed);
            OPEN[i].refs.store(1, Ordering::Relaxed);
            OPEN[i].pid.store(raw::getpid(), Ordering::Relaxed);
            OPEN[i].fd.store(door, Ordering::Release);
            fdtable::mark_internal(door);
            fdtable::Entry::Listener(i as u32 + 1)
        }
        None => {
            OPEN[i].fd.store(-1, Ordering::Release);
            none
        }
    }
}

fn listen(addr: tcp::Addr) -> Option<i32> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    if !state::roomy() {
        return None;
    }
    let fd = state::high_fd(state::unix(raw::socket(libc::AF_UNIX, kind, 0)).ok()?)?;
    for copy in 0..COPIES {
        let (un, len) = intro::door_address(addr, copy);
        // SAFETY: the address outlives the call.
        let bound = unsafe { raw::bind(fd, (&raw const un).cast(), len) };
        match bound {
            Ok(_) if raw::listen(fd, 128).is_ok() => return Some(fd),
            // SO_REUSEPORT: another process has this address, too.
            Err(libc::EADDRINUSE) => continue,
            _ => break,
        }
    }
    raw::close(fd);
    None
}

/// One more descriptor of the listener (dup).
pub fn retain(i: u32) {
    if let Some(d) = i.checked_sub(1).and_then(|i| OPEN.get(i as usize)) {
        d.refs.fetch_add(1, Ordering::Relaxed);
    }
}

/// A descriptor of the listener is closed; with the last one, the door closes.
pub fn release(i: u32) {
    let Some(d) = i.checked_sub(1).and_then(|i| OPEN.get(i as usize)) else { return };
    // A child that serves one connection has no use for the listener, but its client may come through the door yet.
    if d.refs.fetch_sub(1, Ordering::AcqRel) == 1 && d.pid.load(Ordering::Relaxed) == raw::getpid() {
        close(d);
    }
}

fn close(d: &Door) {
    let fd = d.fd.load(Ordering::Acquire);
    if fd >= 0 && fdtable::get(fd) == fdtable::Entry::Internal {
        fdtable::set(fd, fdtable::Entry::None);
        raw::close(fd);
    }
    d.fd.store(-1, Ordering::Release);
}

/// While it lives, no guest's arena is unmapped.
pub struct Walking(());

/// Keeps guests' arenas mapped.
pub fn walking() -> Walking {
    WALKERS.fetch_add(1, Ordering::SeqCst);
    Walking(())
}

impl Drop for Walking {
    fn drop(&mut self) {
        WALKERS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Looks for the client's offer of the accepted connection `fd` (PROTOCOLS E3).
pub fn find_offer(fd: i32, c: &Conn, _: &Walking) -> Found {
    let mut local = c.local();
    if local.port == 0 {
        match tcp::local(fd) {
            Some(a) => local = a,
            None => return Found::Nothing,
        }
        c.set_addresses(local, c.peer());
    }
    match walk(fd, local, c.peer()) {
        Found::Nothing if receive_hellos(local.port) => walk(fd, local, c.peer()),
        found => found,
    }
}

fn walk(fd: i32, local: tcp::Addr, peer: tcp::Addr) -> Found {
    let tuple = tcp::tuple(peer, local);
    let high = HIGH.load(Ordering::Acquire).min(GUESTS);
    // The newest guest is the likeliest.
    for g in MET[..high].iter().rev() {
        let p = g.arena.load(Ordering::SeqCst) as *const Arena;
        if p.is_null() {
            continue;
        }
        // SAFETY: boxed by admit(), freed only while nobody walks.
        let arena = unsafe { *p };
        for n in arena.candidates(tuple.hash(arena.index_len())) {
            let s = arena.slot(n);
            let Some((generation, State::Offered)) = s.get() else { continue };
            if !s.matches(&tuple, tcp::netns(fd)) {
                continue;
            }
            let uid = g.uid.load(Ordering::Relaxed);
            // SAFETY: no arguments, no failure.
            let trusted = uid == 0 || uid == unsafe { libc::geteuid() };
            // The connecting socket's owner, by the kernel's word, must be who said hello.
            if !trusted && diag::owner(peer, local) != Ok(uid) {
                return Found::Refused(Reason::Owner);
            }
            return Found::Offer { arena, slot: n, generation };
        }
    }
    Found::Nothing
}

/// Takes the hellos waiting at the doors on `port`; true if there was one.
fn receive_hellos(port: u16) -> bool {
    if BUSY.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
        return false;
    }
    let mut any = false;
    for d in &OPEN {
        let fd = d.fd.load(Ordering::Acquire);
        if fd < 0 || d.port.load(Ordering::Relaxed) != u32::from(port) {
            continue;
        }
        // Bounded: a flood of hellos must not hold up the program.
        for _ in 0..16 {
            let Ok(conn) = raw::accept(fd, libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) else { break };
            any |= greet(conn);
        }
    }
    for w in &WAITING {
        let conn = w.swap(-1, Ordering::AcqRel);
        if conn >= 0 {
            fdtable::set(conn, fdtable::Entry::None);
            any |= greet(conn);
        }
    }
    BUSY.store(0, Ordering::Release);
    any
}

/// Takes one hello, or puts the connection aside: the client may be between connect and send.
fn greet(conn: i32) -> bool {
    let admitted = match (intro::peer_credentials(conn), intro::recv_hello(conn)) {
        (None, _) => {
            state::count(Reason::Owner);
            false
        }
        // SAFETY: just received, ours alone; closed on drop.
        (Some(cred), Ok(fd)) => admit(unsafe { OwnedFd::from_raw_fd(fd) }, &cred),
        (_, Err(intro::Bad::Late)) => {
            put_aside(conn);
            return false;
        }
        (_, Err(bad)) => {
            state::count(if bad == intro::Bad::Version { Reason::Version } else { Reason::Corrupt });
            false
        }
    };
    raw::close(conn);
    admitted
}

/// Keeps a connection for the next look. Those that never say anything must not keep out one that was only
/// interrupted, so where all places are taken one of them goes.
fn put_aside(conn: i32) {
    fdtable::mark_internal(conn);
    let free = |w: &AtomicI32| w.compare_exchange(-1, conn, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    if WAITING.iter().any(free) {
        return;
    }
    let old = WAITING[NEXT.fetch_add(1, Ordering::Relaxed) % WAITING.len()].swap(conn, Ordering::AcqRel);
    if old >= 0 {
        fdtable::set(old, fdtable::Entry::None);
        raw::close(old);
    }
}

/// Maps a client's arena.
fn admit(fd: OwnedFd, cred: &libc::ucred) -> bool {
    use std::os::fd::{AsFd, AsRawFd};
    // SAFETY: plain data.
    let mut st: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY: fills the struct it is given.
    if unsafe { libc::fstat(fd.as_raw_fd(), &mut st) } != 0 {
        return false;
    }
    let high = HIGH.load(Ordering::Relaxed).min(GUESTS);
    let known = MET[..high]
        .iter()
        .any(|g| g.arena.load(Ordering::Relaxed) != 0 && g.inode.load(Ordering::Relaxed) == st.st_ino);
    if known {
        return true;
    }
    let free = (0..GUESTS).find(|&i| MET[i].arena.load(Ordering::Relaxed) == 0).or_else(bury);
    let Some(i) = free else {
        state::count(Reason::Slots);
        return false;
    };
    let arena = match Arena::open(fd.as_fd()) {
        Ok(a) => a,
        Err(e) => {
            let version = e.raw_os_error() == Some(libc::EPROTONOSUPPORT);
            let memory = e.raw_os_error() == Some(libc::ENOMEM);
            state::count(match (version, memory) {
                (true, _) => Reason::Version,
                (_, true) => Reason::Memory,
                _ => Reason::Corrupt,
            });
            return false;
        }
    };
    MET[i].uid.store(cred.uid, Ordering::Relaxed);
    MET[i].pid.store(cred.pid as u32, Ordering::Relaxed);
    MET[i].inode.store(st.st_ino, Ordering::Relaxed);
    let Some(p) = crate::state::leak_value(arena) else { return false };
    MET[i].arena.store(p as usize, Ordering::SeqCst);
    HIGH.fetch_max(i + 1, Ordering::Release);
    true
}

/// Whether a guest's arena is mapped there.
pub fn maps(address: usize) -> bool {
    let _walking = walking();
    MET.iter().any(|g| {
        let p = g.arena.load(Ordering::SeqCst) as *const Arena;
        // SAFETY: boxed by admit(), freed only while nobody walks.
        let arena = (!p.is_null()).then(|| unsafe { &*p });
        arena.is_some_and(|a| (a.id()..a.id() + a.geometry().len()).contains(&address))
    })
}

/// Makes room: unmaps an arena whose client is dead and in which no connection of ours is left.
fn bury() -> Option<usize> {
    let family = state::family()?;
    let mut freed = None;
    for (i, g) in MET.iter().enumerate() {
        let p = g.arena.load(Ordering::Acquire);
        if p == 0 || raw::probe_process(g.pid.load(Ordering::Relaxed)) != Err(libc::ESRCH) {
            continue;
        }
        // SAFETY: boxed by admit(); only this thread (BUSY) takes guests away.
        let arena = unsafe { *(p as *const Arena) };
        let range = arena.id()..arena.id() + arena.geometry().len();
        let high = family.header().high.load(Ordering::Acquire);
        let used = (0..high).any(|n| {
            family.in_use(n) && range.contains(&(family.conn(n).offer.load(Ordering::Acquire) as usize))
        });
        if used {
            continue;
        }
        g.arena.store(0, Ordering::SeqCst);
        // One walker is the caller itself, on its way to look again from the start.
        if WALKERS.load(Ordering::SeqCst) > 1 || !crate::epoll::forget_arena(&range) {
            // Somebody may have read the address just before, or looks at a ring; put it back, try another time.
            g.arena.store(p, Ordering::SeqCst);
            continue;
        }
        // SAFETY: no connection refers to it, nobody walks, and nobody can find it any more.
        unsafe {
            arena.unmap();
            crate::state::free_value(p as *mut Arena);
        }
        freed = Some(i);
    }
    freed
}

/// In a forked child: threads of the parent may have been at work.
pub fn inherited() {
    for word in [&BUSY, &WALKERS].into_iter().filter(|w| w.load(Ordering::Relaxed) != 0) {
        word.store(0, Ordering::Release);
    }
}
