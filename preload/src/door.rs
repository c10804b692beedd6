//! The accepting side: doors of our listeners, and the hellos that come through them.

use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use dp_channel::family::{Id, Reason, Stage};
use dp_channel::tcp;
use dp_edge::sys::raw;

use crate::channel::Channel;
use crate::guests::{self, Offer, Search, Wrong};
use crate::intro::{self, COPIES};
use crate::{fdtable, link, own, rights, rules, state};

pub use guests::{answer, expected, is_shown, links, spoken, walking, Admission, Shown, Walking};

const DOORS: usize = 64;

struct Door {
    /// The AF_UNIX listener; -1 free.
    fd: AtomicI32,
    ip: [AtomicU64; 2],
    port: AtomicU32,
    /// Descriptors of TCP listeners at this address in this process.
    refs: AtomicU32,
    /// The process that opened it.
    pid: AtomicU32,
    /// The same as its clients are told ([`intro::opener`]).
    id: [AtomicU64; 3],
}

impl Door {
    fn id(&self) -> Id {
        core::array::from_fn(|i| self.id[i].load(Ordering::Relaxed))
    }

    fn is_at(&self, addr: tcp::Addr) -> bool {
        let ip = halves(addr.ip);
        self.port.load(Ordering::Relaxed) == u32::from(addr.port)
            && self.ip.iter().zip(ip).all(|(a, b)| a.load(Ordering::Relaxed) == b)
    }

    /// One listener more, if there is one. False: the door is about to be closed.
    fn share(&self) -> bool {
        let one_more = |refs| (refs > 0).then_some(refs + 1);
        self.refs.fetch_update(Ordering::AcqRel, Ordering::Relaxed, one_more).is_ok()
    }

    /// Whether this process opened it. Others do not close it.
    fn is_mine(&self) -> bool {
        self.pid.load(Ordering::Relaxed) == raw::getpid()
    }

    /// Whether a connection that was accepted here has no channel yet, and may have a client that wants one.
    fn is_awaited(&self) -> bool {
        let Some(family) = state::family() else { return false };
        let port = self.port.load(Ordering::Relaxed);
        let waits = |i: u32| {
            let c = family.conn(i);
            c.stage() == Stage::Candidate && !c.is_client() && u32::from(c.local().port) == port
        };
        let awaited = family.used().any(waits);
        awaited
    }
}

fn halves(ip: [u8; 16]) -> [u64; 2] {
    let ip = u128::from_ne_bytes(ip);
    [(ip >> 64) as u64, ip as u64]
}

/// A connection that has not said hello yet, the door it came through, and [`fdtable::starts`] before that.
struct Waiting {
    conn: AtomicI32,
    door: AtomicUsize,
    starts: AtomicU32,
}

static OPEN: [Door; DOORS] = [const {
    Door {
        fd: AtomicI32::new(-1),
        ip: [const { AtomicU64::new(0) }; 2],
        port: AtomicU32::new(0),
        refs: AtomicU32::new(0),
        pid: AtomicU32::new(0),
        id: [const { AtomicU64::new(0) }; 3],
    }
}; DOORS];
/// Introductions whose hello had not come yet.
static WAITING: [Waiting; 8] =
    [const { Waiting { conn: AtomicI32::new(-1), door: AtomicUsize::new(0), starts: AtomicU32::new(0) } }; 8];
/// Whose place the next one takes when there is no free one.
static NEXT: AtomicUsize = AtomicUsize::new(0);
/// Whether there may be doors of ours whose listener is closed.
static LINGERING: AtomicBool = AtomicBool::new(false);
/// One thread at a time receives hellos, or closes a door.
static BUSY: AtomicU32 = AtomicU32::new(0);

/// Why a listener whose rules ask for a door has none: what stands for it in the descriptor table, from behind the last door on.
const MISSING: [Reason; 3] = [Reason::Slots, Reason::Memory, Reason::NoUnix];

/// Whether that is a door.
pub fn is_one(i: u32) -> bool {
    (1..=DOORS as u32).contains(&i)
}

/// Why it is none, where one was to be.
pub fn missing(i: u32) -> Option<Reason> {
    MISSING.get((i as usize).checked_sub(DOORS + 1)?).copied()
}

fn without(why: Reason) -> u32 {
    MISSING.iter().zip(DOORS as u32 + 1..).find(|(reason, _)| **reason == why).map_or(0, |(_, i)| i)
}

/// Opens the door of the listener `fd`; the entry for the descriptor table.
pub fn open(fd: i32) -> fdtable::Entry {
    let none = fdtable::Entry::Listener(0);
    if state::is_borrowed_memory() {
        return fdtable::Entry::None;
    }
    let Some(addr) = tcp::local(fd) else { return fdtable::Entry::None };
    if !rules::may_accept(addr.ip(), addr.port) {
        return none;
    }
    fdtable::Entry::Listener(open_at(addr).unwrap_or_else(without))
}

/// The door at an address: which it is, plus one; or why there is none.
fn open_at(addr: tcp::Addr) -> Result<u32, Reason> {
    // However many sockets of a program listen at an address (SO_REUSEPORT), it is one family, and has one door there.
    let is_open = |d: &Door| d.fd.load(Ordering::Acquire) >= 0 && d.is_mine() && d.is_at(addr);
    let shared = (1..).zip(&OPEN).find(|&(i, d)| is_open(d) && share(i, || is_open(d)));
    if let Some((i, _)) = shared {
        return Ok(i);
    }
    let free = || {
        (0..DOORS).find(|&i| OPEN[i].fd.compare_exchange(-1, -2, Ordering::AcqRel, Ordering::Relaxed).is_ok())
    };
    let without = |d: &&Door| d.fd.load(Ordering::Acquire) >= 0 && d.refs.load(Ordering::Relaxed) == 0;
    // A listener that is opened again takes its own name, not the next one.
    let same = |d: &&Door| d.port.load(Ordering::Relaxed) == u32::from(addr.port) && d.is_mine();
    for d in OPEN.iter().filter(without).filter(same) {
        close(d);
    }
    let i = free().or_else(|| OPEN.iter().find(without).and_then(|d| close(d).then(free)?));
    let i = i.ok_or(Reason::Slots)?;
    match listen(addr) {
        Ok(door) => {
            for (to, from) in OPEN[i].ip.iter().zip(halves(addr.ip)) {
                to.store(from, Ordering::Relaxed);
            }
            OPEN[i].port.store(u32::from(addr.port), Ordering::Relaxed);
            OPEN[i].refs.store(1, Ordering::Relaxed);
            OPEN[i].pid.store(raw::getpid(), Ordering::Relaxed);
            for (to, from) in OPEN[i].id.iter().zip(intro::opener(door).unwrap_or_default()) {
                to.store(from, Ordering::Relaxed);
            }
            OPEN[i].fd.store(door, Ordering::Release);
            fdtable::mark_internal(door);
            Ok(i as u32 + 1)
        }
        Err(why) => {
            OPEN[i].fd.store(-1, Ordering::Release);
            Err(why)
        }
    }
}

/// Other rules hold: listeners get a door that had none to have, and lose the one that they have.
#[cold]
pub fn reconsider() {
    fdtable::each(|fd, entry| {
        let fdtable::Entry::Listener(i) = entry else { return };
        let Some(addr) = tcp::local(fd) else { return };
        match (i, rules::may_accept(addr.ip(), addr.port)) {
            (i, true) if !is_one(i) => {
                let door = open(fd);
                // Another thread may close the listener meanwhile.
                match door {
                    fdtable::Entry::Listener(n @ 1..) if !fdtable::replace(fd, entry, door) => release(n),
                    _ => {}
                }
            }
            (1.., false) if fdtable::replace(fd, entry, fdtable::Entry::Listener(0)) => release(i),
            _ => {}
        }
    });
}

fn listen(addr: tcp::Addr) -> Result<i32, Reason> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    if !state::roomy() {
        return Err(Reason::Memory);
    }
    let refused = |errno| match errno {
        libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOBUFS => Reason::Memory,
        _ => Reason::NoUnix,
    };
    let fd = state::unix(raw::socket(libc::AF_UNIX, kind, 0)).map_err(refused)?;
    let fd = own::high(fd).ok_or(Reason::Memory)?;
    let mut why = Reason::Slots;
    for copy in 0..COPIES {
        let (un, len) = intro::door_address(addr, copy);
        // SAFETY: the address outlives the call.
        let bound = unsafe { raw::bind(fd, (&raw const un).cast(), len) };
        match bound.and_then(|_| raw::listen(fd, 128)) {
            Ok(_) => return Ok(fd),
            // SO_REUSEPORT: another process has this address, too.
            Err(libc::EADDRINUSE) => continue,
            Err(errno) => {
                why = refused(errno);
                break;
            }
        }
    }
    raw::close(fd);
    Err(why)
}

/// One more descriptor of the listener, `fd` (dup). False: its door was closed meanwhile.
pub fn retain(i: u32, fd: i32) -> bool {
    i == 0 || share(i, || tcp::local(fd).is_some_and(|addr| OPEN[i as usize - 1].is_at(addr)))
}

/// One listener more at door `i`, if it has one and is the right one: asked once it is not closed any more, as its place may have
/// become another's before.
fn share(i: u32, is_right: impl Fn() -> bool) -> bool {
    let shared = i.checked_sub(1).and_then(|i| OPEN.get(i as usize)).is_some_and(Door::share);
    let right = shared && is_right();
    if shared && !right {
        release(i);
    }
    right
}

/// A descriptor of the listener is closed; with the last one, the door closes, unless somebody may come through it yet.
pub fn release(i: u32) {
    let Some(d) = i.checked_sub(1).and_then(|i| OPEN.get(i as usize)) else { return };
    // A child that serves one connection has no use for the listener, but its client may come through the door yet.
    if d.refs.fetch_sub(1, Ordering::AcqRel) == 1 && d.is_mine() && (d.is_awaited() || !close(d)) {
        LINGERING.store(true, Ordering::Relaxed);
    }
}

/// Closes doors without a listener, whose last client has come or will not. To be called when a connection of ours may
/// have been the last one that kept such a door open.
#[inline]
pub fn sweep() {
    if LINGERING.load(Ordering::Relaxed) {
        sweep_now();
    }
}

/// A family with more entries than this is looked through at most once in [`PAUSE`].
const FEW: u32 = 256;
const PAUSE: u64 = 10_000_000;

#[cold]
fn sweep_now() {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let Some(family) = state::family() else { return };
    if family.header().high.load(Ordering::Relaxed) > FEW {
        let (now, last) = (state::now(), LAST.load(Ordering::Relaxed));
        if now.saturating_sub(last) < PAUSE {
            return;
        }
        LAST.store(now, Ordering::Relaxed);
    }
    // Before the look: a door that begins to linger during it is seen by the next one.
    LINGERING.store(false, Ordering::Relaxed);
    let lingers =
        |d: &Door| d.fd.load(Ordering::Acquire) >= 0 && d.refs.load(Ordering::Relaxed) == 0 && d.is_mine();
    for d in OPEN.iter().filter(|d| lingers(d)) {
        if d.is_awaited() || !close(d) {
            LINGERING.store(true, Ordering::Relaxed);
        }
    }
}

/// False: somebody is taking hellos, perhaps at this door.
fn close(d: &Door) -> bool {
    if BUSY.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
        return false;
    }
    // Asked again: another thread may have closed this one since, and opened another in its place, which has a listener.
    let fd = d.fd.load(Ordering::Acquire);
    let still = fd >= 0 && d.refs.load(Ordering::Acquire) == 0;
    if still && d.fd.compare_exchange(fd, -1, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
        own::close(fd);
    }
    BUSY.store(0, Ordering::Release);
    true
}

/// Looks for the client's offer of the accepted connection `fd` (PROTOCOLS E3).
pub fn find_offer(c: &Channel, search: Search, walking: &Walking) -> Option<Offer> {
    let mut local = c.local();
    if local.port == 0 {
        local = tcp::local(c.fd)?;
        c.set_addresses(local, c.peer());
    }
    if search == Search::Mapped {
        return guests::find(c, Wrong::PassOver, search, walking);
    }
    let look = |which| guests::find(c, which, search, walking);
    // What lies here must not hide what waits at the door.
    look(Wrong::PassOver)
        .or_else(|| receive_hellos(local.port).then(|| look(Wrong::PassOver)).flatten())
        .or_else(|| (c.wrong.load(Ordering::Relaxed) > 0).then(|| look(Wrong::TryAgain)).flatten())
}

/// The guest that was answered may be let in.
pub fn admit(c: &Channel, walking: &Walking) -> Admission {
    if BUSY.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
        return Admission::Later;
    }
    let admission = guests::admit(c, walking);
    BUSY.store(0, Ordering::Release);
    admission
}

/// Looks in a row at which no hello waited.
static IN_VAIN: AtomicU32 = AtomicU32::new(0);
/// After so many of them the doors are looked at once in [`REST`] nanoseconds: a server most of whose clients have no shim
/// would pay a system call for each look, and a client that has one says hello once.
const EAGER: u32 = 256;
const REST: u64 = 100_000;

/// Whether it is time to look at the doors.
fn is_time() -> bool {
    static LAST: AtomicU64 = AtomicU64::new(0);
    if IN_VAIN.load(Ordering::Relaxed) < EAGER {
        return true;
    }
    let now = state::now();
    let late = now.saturating_sub(LAST.load(Ordering::Relaxed)) >= REST;
    if late {
        LAST.store(now, Ordering::Relaxed);
    }
    late
}

/// Takes the hellos waiting at the doors on `port`; true if there was one.
fn receive_hellos(port: u16) -> bool {
    if !is_time() {
        return false;
    }
    if BUSY.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
        return false;
    }
    let (mut any, mut came) = (false, false);
    let starts = fdtable::starts();
    for (i, d) in OPEN.iter().enumerate() {
        let fd = d.fd.load(Ordering::Acquire);
        // The program may have closed it, and have a listener of its own there.
        if d.port.load(Ordering::Relaxed) != u32::from(port) || !own::is(fd) {
            continue;
        }
        // Bounded: a flood of hellos must not hold up the program.
        for _ in 0..16 {
            let Ok(conn) = raw::accept(fd, libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) else { break };
            came = true;
            any |= greet(conn, i, starts);
        }
    }
    for w in &WAITING {
        let (door, starts) = (w.door.load(Ordering::Relaxed), w.starts.load(Ordering::Relaxed));
        let conn = w.conn.swap(-1, Ordering::AcqRel);
        // The same: what the program has put there is its own.
        if conn >= 0 && fdtable::replace(conn, fdtable::Entry::Internal, fdtable::Entry::None) {
            came = true;
            any |= greet(conn, door, starts);
        }
    }
    let vain = if came { 0 } else { IN_VAIN.load(Ordering::Relaxed).saturating_add(1) };
    IN_VAIN.store(vain, Ordering::Relaxed);
    BUSY.store(0, Ordering::Release);
    any
}

/// Takes one hello, or puts the connection aside: the client may be between connect and send. `starts`: see [`Waiting`].
fn greet(conn: i32, door: usize, starts: u32) -> bool {
    // A door that was closed since has no opener any more.
    let opener = OPEN[door % DOORS].id();
    let admitted = match (intro::peer_credentials(conn), intro::recv_hello(conn)) {
        (None, hello) => {
            if let Ok(said) = hello {
                rights::refuse(said.arena);
            }
            state::count(Reason::Owner);
            false
        }
        (Some(cred), Ok(said)) => {
            // Kept, the connection goes on under a number of ours.
            let kept = (said.link != 0).then(|| link::begin(conn, starts)).flatten();
            let links = kept.map_or([0; 2], |(name, _)| [name, said.link]);
            let admitted = guests::receive(said.arena, &cred, opener, links);
            if kept.is_none() {
                rights::close_stranger(conn);
            }
            return admitted;
        }
        (Some(_), Err(intro::Bad::Late)) => {
            put_aside(conn, door, starts);
            return false;
        }
        (Some(cred), Err(intro::Bad::Version)) => {
            guests::count_other_version(&cred);
            false
        }
        (Some(_), Err(intro::Bad::Gone)) => false,
        (Some(_), Err(intro::Bad::Shape)) => {
            state::count(Reason::Corrupt);
            false
        }
    };
    rights::close_stranger(conn);
    admitted
}

/// Keeps a connection for the next look. Those that never say anything must not keep out one that was only
/// interrupted, so where all places are taken one of them goes.
fn put_aside(conn: i32, door: usize, starts: u32) {
    // Where there is no room for it, its client says hello anew.
    let Some(conn) = own::keep(conn) else { return };
    let free = |w: &Waiting| w.conn.compare_exchange(-1, conn, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    // One thread at a time receives hellos, so the door is put down before anybody else looks.
    if let Some(w) = WAITING.iter().find(|w| free(w)) {
        w.door.store(door, Ordering::Relaxed);
        w.starts.store(starts, Ordering::Relaxed);
        return;
    }
    let w = &WAITING[NEXT.fetch_add(1, Ordering::Relaxed) % WAITING.len()];
    w.door.store(door, Ordering::Relaxed);
    let since = w.starts.swap(starts, Ordering::Relaxed);
    let old = w.conn.swap(conn, Ordering::AcqRel);
    if own::is(old) {
        rights::close_unless_shared(old, since);
    }
}

/// In a forked child: threads of the parent may have been at work.
pub fn inherited() {
    state::clear(&BUSY);
    guests::inherited();
}

#[cfg(test)]
mod tests;
