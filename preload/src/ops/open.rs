//! connect, accept, listen, shutdown: where connections begin and half-end.

use core::ffi::c_int;

use dp_channel::family::{Conn, Reason, Stage};
use dp_channel::slot::Side;
use dp_channel::tcp;
use dp_edge::sys::raw;
use dp_rules::{Action, Decision, Direction};
use libc::{sockaddr, socklen_t};

use crate::channel::Channel;
use crate::fdtable::{self, Entry};
use crate::inside::brief::briefly;
use crate::walk::nowhere;
use crate::{door, enforce, epoll, life, real, rules, state};

fn on() -> bool {
    state::ON.load(core::sync::atomic::Ordering::Relaxed)
}

/// socket(2): whatever we thought of the number, it is new now. That a TCP socket is nobody else's is known from here on.
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    // SAFETY: the program's arguments.
    let fd = unsafe { real::socket()(domain, kind, protocol) };
    life::forget_stale(fd);
    let is_tcp = matches!(domain, libc::AF_INET | libc::AF_INET6) && kind & KIND == libc::SOCK_STREAM;
    if fd >= 0 && is_tcp && on() && !state::is_borrowed_memory() {
        fdtable::made(fd);
    }
    fd
}

/// SOCK_TYPE_MASK of the kernel: the rest are flags.
const KIND: c_int = 0xf;

/// connect(2): a TCP connection within this host becomes a candidate, where no other descriptor can stand for it.
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn connect(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: the program's arguments, as they came.
    let real = || unsafe { real::connect()(fd, addr, len) };
    // An address where nothing is, the kernel refuses.
    if !on() || nowhere(addr) {
        return real();
    }
    renew_rules();
    // SAFETY: the program's address.
    let (peer, dissolves) = unsafe { (tcp::Addr::read(addr, len as usize), is_unspecified(addr, len)) };
    begin_anew(fd, peer);
    if let (Entry::Conn(i), Some(c)) = (fdtable::get(fd), Channel::of(fd)) {
        if dissolves && c.slot_live() {
            // It ends by a reset, which other descriptors may outlive.
            c.sending().tx.ends_abruptly(true);
        }
        // A second connect on it: what it returns is the kernel's to say. AF_UNSPEC ends the first connection, so the entry goes
        // unless it was just the question "are you there yet", which the kernel answers once.
        let rc = real();
        if dissolves && rc == 0 {
            c.gives_socket_back();
            life::dissolved(i);
        } else if rc == 0 && !c.is_still_there() {
            life::forget_stale(fd);
        }
        return rc;
    }
    let allowed = peer.map_or(Ok(false), |peer| enforce::before_connect(fd, peer));
    let may_end = match allowed {
        Ok(may_end) => may_end,
        Err(errno) => {
            super::fail(errno);
            return -1;
        }
    };
    let alone = fdtable::is_alone(fd);
    let rc = real();
    let Some(mut peer) = peer else { return rc };
    let errno = super::errno();
    // One that a signal ends comes about all the same.
    if rc != 0 && errno != libc::EINPROGRESS && errno != libc::EINTR {
        return rc;
    }
    if peer.is_any() {
        // The kernel connects to itself; its own word for it.
        peer = tcp::peer(fd).unwrap_or(peer);
    }
    let asked = alone || may_end;
    let here = peer.is_loopback() || asked && tcp::is_within_host(fd, || tcp::local(fd), peer);
    // A connect that is asked for again until it is done (non-blocking) was counted by its first call.
    // Nor is one of a UDP socket a connection.
    let first = || tcp::is_tcp(fd) && (rc != 0 || !raw::is_nonblocking(fd));
    if let Some(decision) = wanted(Direction::Connect, peer, here, first).filter(|_| tcp::is_tcp(fd)) {
        // Asked again: a connect that waits is long enough for a child to be forked, which has the socket, and no entry.
        if alone && fdtable::is_alone(fd) {
            track(fd, Side::Client, tcp::Addr::default(), peer, &decision);
        } else if first() {
            state::count(Reason::Shared);
        }
        if let Entry::Conn(i) = fdtable::get(fd) {
            epoll::connected(fd, i);
        }
    }
    fdtable::no_more_alone(fd);
    if let Err(errno) = if may_end { enforce::after_connect(fd, peer, here) } else { Ok(()) } {
        super::fail(errno);
        return -1;
    }
    if rc != 0 {
        super::fail(errno);
    }
    rc
}

/// A socket of ours that is to be connected to `peer` and is no connection any more: nothing is left of the one before, and what
/// holds for a new one, the rules above all, is asked anew.
fn begin_anew(fd: c_int, peer: Option<tcp::Addr>) {
    let Entry::Conn(i) = fdtable::get(fd) else { return };
    if state::is_borrowed_memory() {
        return;
    }
    // Where one came about, the kernel goes on saying that it is connected, also when it was reset.
    let failed = || {
        let c = Channel::of(fd).filter(|c| matches!(c.stage(), Stage::Candidate | Stage::Plain));
        c.is_some_and(|c| c.is_ours_alone() && peer.is_some_and(|peer| !c.is_to(peer)))
    };
    let is_closed = || tcp::ends(fd).1 && tcp::peer(fd).is_none();
    if enforce::is_over(i) || failed() && is_closed() {
        let alone = fdtable::refs(i) == 1;
        life::forget_stale(fd);
        if alone {
            fdtable::made(fd);
        }
    }
}

/// Whether an address is none (AF_UNSPEC), by which connect(2) ends a connection.
///
/// # Safety
///
/// `addr` has `len` bytes, or cannot be read by anybody.
unsafe fn is_unspecified(addr: *const sockaddr, len: socklen_t) -> bool {
    // SAFETY: by the contract.
    (len as usize) >= size_of::<libc::sa_family_t>()
        && !nowhere(addr)
        && unsafe { (*addr).sa_family } == libc::AF_UNSPEC as libc::sa_family_t
}

/// Where the rules were read anew, listeners go by them from here on.
fn renew_rules() {
    if rules::renew() {
        door::reconsider();
    }
}

/// Makes `fd` a candidate as the rules want it. False: it stays plain TCP.
fn track(fd: c_int, side: Side, local: tcp::Addr, peer: tcp::Addr, decision: &Decision) -> bool {
    let tracked = life::track(fd, side, local, peer);
    if let Some(c) = Channel::of(fd).filter(|_| tracked) {
        c.choose(decision.settings.after, decision.settings.spin);
        if decision.action == Action::Require {
            c.set(Conn::REQUIRED);
        }
    }
    tracked
}

/// What the rules say where they want a channel. `here`: both ends are this host's (E10). `first`: if not, the connection is
/// counted.
fn wanted(direction: Direction, a: tcp::Addr, here: bool, first: impl FnOnce() -> bool) -> Option<Decision> {
    let decision = rules::decide(direction, a.ip(), a.port, here).filter(|d| d.action.makes_channels());
    if decision.is_some() == here || state::family().is_none() || !first() {
        return decision.filter(|_| here);
    }
    state::count(if here { Reason::Rules } else { Reason::Remote });
    None
}

/// listen(2): opens the door.
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn listen(fd: c_int, backlog: c_int) -> c_int {
    // SAFETY: the program's arguments.
    let rc = unsafe { real::listen()(fd, backlog) };
    fdtable::no_more_alone(fd);
    if rc == 0 && on() {
        renew_rules();
    }
    if rc == 0 && on() && fdtable::get(fd) == Entry::None && fdtable::covers(fd) && tcp::is_tcp(fd) {
        let e = door::open(fd);
        if e != Entry::None {
            fdtable::set(fd, e);
        }
    }
    rc
}

/// accept(2).
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn accept(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
    // SAFETY: the program's arguments; the closure only adds an address buffer.
    unsafe { accepted(fd, addr, len, |a, l| real::accept()(fd, a, l)) }
}

/// accept4(2).
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn accept4(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int {
    // SAFETY: as above.
    unsafe { accepted(fd, addr, len, |a, l| real::accept4()(fd, a, l, flags)) }
}

unsafe fn accepted(
    fd: c_int,
    addr: *mut sockaddr,
    len: *mut socklen_t,
    real: impl Fn(*mut sockaddr, *mut socklen_t) -> c_int,
) -> c_int {
    if !on() {
        return real(addr, len);
    }
    if fdtable::get(fd) == Entry::None && fdtable::covers(fd) && listens(fd) {
        // A listener we did not see begin: inherited through exec, or handed over.
        let e = door::open(fd);
        if e != Entry::None {
            fdtable::set(fd, e);
        }
    }
    let Entry::Listener(_) = fdtable::get(fd) else {
        let new = real(addr, len);
        life::forget_stale(new);
        return new;
    };
    // What the kernel makes of it is no measure for the next call.
    // SAFETY: the program's, as long as the call wants it.
    let length = (!addr.is_null() && !nowhere(len)).then(|| unsafe { *len });
    let mut turned_away = 0;
    loop {
        let mut buf = [0u64; 16];
        let mut room = size_of_val(&buf) as socklen_t;
        let own = addr.is_null();
        let new = if own { real(buf.as_mut_ptr().cast(), &mut room) } else { real(addr, len) };
        life::forget_stale(new);
        if new < 0 {
            return new;
        }
        renew_rules();
        let door = door_of(fd);
        if door == Err(None) && !rules::may_end(Direction::Listen) {
            return new;
        }
        let peer = if own {
            // SAFETY: the kernel filled it in.
            unsafe { tcp::Addr::read(buf.as_ptr().cast(), room as usize) }
        } else {
            // The program's buffer may be too short for the whole address.
            tcp::peer(new)
        };
        if peer.is_none_or(|peer| admit(new, peer, door)) {
            return new;
        }
        // A program that was told of this one, and of no other, would wait here for the next, which may never come.
        turned_away += 1;
        if turned_away == TURNED_AWAY || !raw::is_readable(fd) {
            let nobody = if raw::is_nonblocking(fd) { libc::EAGAIN } else { libc::ECONNABORTED };
            return super::fail(nobody) as c_int;
        }
        if let Some(length) = length {
            // SAFETY: the kernel has just written there.
            unsafe { *len = length };
        }
    }
}

/// So many connections in a row that the rules refuse are taken and ended by one call.
const TURNED_AWAY: u32 = 64;

fn listens(fd: c_int) -> bool {
    raw::getsockopt_int(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN) == Ok(1) && tcp::is_tcp(fd)
}

/// Whether clients of a listener may find us; why not, unless the rules want it so.
fn door_of(listener: c_int) -> Result<(), Option<Reason>> {
    match fdtable::get(listener) {
        Entry::Listener(i) if door::is_one(i) => Ok(()),
        Entry::Listener(i) => {
            Err(door::missing(i).or_else(|| state::unix_is_forbidden().then_some(Reason::NoUnix)))
        }
        _ => Err(None),
    }
}

/// A connection came in: a candidate if it is local and the rules want it, and there is a door. False: they do not want it at all,
/// and it is over.
fn admit(fd: c_int, peer: tcp::Addr, door: Result<(), Option<Reason>>) -> bool {
    let errno = super::errno();
    let stays = tcp::local(fd).is_none_or(|local| settle(fd, local, peer, door));
    super::fail(errno);
    stays
}

fn settle(fd: c_int, local: tcp::Addr, peer: tcp::Addr, door: Result<(), Option<Reason>>) -> bool {
    let here = tcp::is_within_host(fd, || Some(local), peer);
    if rules::may_end(Direction::Listen) {
        let decision = rules::decide(Direction::Listen, local.ip(), local.port, here);
        if decision.is_some_and(|decision| !enforce::may_come_in(&decision, here, door.is_ok())) {
            enforce::turn_away(fd);
            return false;
        }
    }
    if door == Err(None) {
        return true;
    }
    if !here {
        // That it is counted is all that comes of it.
        let _ = wanted(Direction::Listen, local, false, || true);
        return true;
    }
    let Some(decision) = wanted(Direction::Listen, local, true, || true) else { return true };
    let tracked = track(fd, Side::Server, local, peer, &decision);
    if !tracked && decision.action == Action::Require {
        enforce::turn_away(fd);
        return false;
    }
    if !tracked {
        return true;
    }
    if let Err(Some(why)) = door {
        life::keep_plain(fd, why);
    } else if !peer.is_loopback() && tcp::is_translated(fd, local) {
        life::keep_plain(fd, Reason::Nat);
    }
    true
}

/// shutdown(2): TCP carries the FIN; the peer reads its ring to the end first (W11).
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn shutdown(fd: c_int, how: c_int) -> c_int {
    // What is no way to shut down, the kernel refuses.
    let known = matches!(how, libc::SHUT_RD | libc::SHUT_WR | libc::SHUT_RDWR);
    let conn = Channel::of(fd).filter(|_| known);
    let mut before = 0;
    if let Some(c) = conn {
        before = [Conn::SHUT_WR, Conn::SHUT_RD].into_iter().filter(|&flag| c.has(flag)).sum();
        if briefly(|| c.shut(how)) {
            // The thread that puts the rest on TCP ends it after that.
            if how == libc::SHUT_RDWR {
                // SAFETY: numbers.
                let _ = unsafe { real::shutdown()(fd, libc::SHUT_RD) };
            }
            return 0;
        }
    }
    // SAFETY: the program's arguments.
    let rc = unsafe { real::shutdown()(fd, how) };
    match conn {
        // What an earlier call has shut stays so.
        Some(c) if rc != 0 => c.clear((Conn::SHUT_WR | Conn::SHUT_RD) & !before),
        // What the peer sends from here on, the kernel answers with a reset.
        Some(c) if c.has(Conn::SHUT_RD) && c.has(Conn::SHUT_WR) => briefly(|| {
            if c.stage() == Stage::Live {
                c.kill_slot();
            }
        }),
        // Who does not receive any more is readable to the kernel as well.
        Some(c) if how == libc::SHUT_WR => c.makes_an_edge(),
        _ => {}
    }
    rc
}

impl Channel {
    /// Whether it is, or was, to be a connection to `peer`.
    fn is_to(&self, peer: tcp::Addr) -> bool {
        (self.peer().ip, self.peer().port) == (peer.ip, peer.port)
    }

    /// Whether the socket is the connection that it was: it has the same ends, as far as they were known.
    fn is_still_there(&self) -> bool {
        let same = |now: Option<tcp::Addr>, was: tcp::Addr| {
            was.port == 0 || now.is_some_and(|now| (now.ip, now.port) == (was.ip, was.port))
        };
        tcp::peer(self.fd).is_some_and(|peer| self.is_to(peer)) && same(tcp::local(self.fd), self.local())
    }

    /// What is ours of a shutdown. True where the kernel's part of the sending side has to wait: bytes are owed to TCP.
    fn shut(&self, how: c_int) -> bool {
        if self.stage() == Stage::Live && self.died_with_unread() {
            // On TCP its reset would be here by now.
            self.error.store(libc::ECONNRESET as u32, core::sync::atomic::Ordering::Relaxed);
        }
        if how != libc::SHUT_RD {
            self.before_end();
        }
        let mark = || {
            if how == libc::SHUT_WR || how == libc::SHUT_RDWR {
                self.set(Conn::SHUT_WR);
                self.tells_of_end();
            }
            if how == libc::SHUT_RD || how == libc::SHUT_RDWR {
                self.set(Conn::SHUT_RD);
            }
            self.has(Conn::OWES) && how != libc::SHUT_RD
        };
        // Under the sender's lock: no token may follow the FIN, but for those of a send that we are inside of.
        self.as_sender(mark).unwrap_or_else(mark)
    }
}
