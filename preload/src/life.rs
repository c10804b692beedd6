//! The end of a connection, its copies, and forks (PROTOCOLS E11, W12, L3).

use core::sync::atomic::Ordering;

use dpfd::edge::slot::Side;
use dpfd::edge::switch::in_ring;
use dpfd::family::{Conn, Family, Reason, Stage, MEMBERS};
use dpfd::sys::raw;

use crate::channel::End;
use crate::fdtable::{self, Entry};
use crate::{channel, client, door, epoll, leave, relay, rx, state, tx};

/// Before the program's `close(fd)`: forgets the descriptor, and ends the connection with the last one.
pub fn before_close(fd: i32) {
    if fdtable::get(fd) == Entry::None || state::is_borrowed_memory() {
        return;
    }
    match fdtable::get(fd) {
        Entry::Conn(i) => {
            epoll::forget(fd);
            fdtable::set(fd, Entry::None);
            drop_ref(fd, i);
        }
        Entry::Epoll(i) => {
            fdtable::set(fd, Entry::None);
            epoll::close(i);
        }
        Entry::Listener(i) => {
            fdtable::set(fd, Entry::None);
            door::release(i);
        }
        Entry::Internal | Entry::None => {}
    }
}

/// A descriptor number appears in the program's hands: whatever we thought it was, it is not any more.
pub fn forget_stale(fd: i32) {
    if fd >= 0 && fdtable::get(fd) != Entry::None {
        match fdtable::set(fd, Entry::None) {
            Entry::Conn(i) => {
                epoll::forget(fd);
                let refs = fdtable::refs(i);
                if refs.fetch_sub(1, Ordering::AcqRel) == 1 {
                    relay::forget(i);
                    abandon(i);
                }
            }
            Entry::Epoll(i) => epoll::close(i),
            Entry::Listener(i) => door::release(i),
            Entry::Internal | Entry::None => {}
        }
    }
}

/// The descriptor was closed behind our back: nothing can be said to the kernel any more.
fn abandon(i: u32) {
    let (Some(family), Some(me)) = (state::family(), state::member_if_joined()) else { return };
    let c = family.conn(i);
    let last = channel::exclusive(family, c);
    c.holders.fetch_and(!(1 << me), Ordering::AcqRel);
    if last {
        let_go(family, i, c);
    }
}

fn drop_ref(fd: i32, i: u32) {
    if fdtable::refs(i).fetch_sub(1, Ordering::AcqRel) != 1 {
        return;
    }
    relay::forget(i);
    let (Some(family), Some(me)) = (state::family(), state::member_if_joined()) else { return };
    let c = family.conn(i);
    let mut last = channel::exclusive(family, c);
    if c.stage() == Stage::Live {
        if last {
            leave::before_end(family, fd, c);
            // What it took back may be in the hands of a process of its own.
            last = channel::exclusive(family, c);
            // Who left has given the socket to others: how it ends is not for us to say.
            if last && !channel::receiving(c).word.is_raw() {
                farewell(family, fd, c);
            }
        } else {
            // Whoever has it may be dead, or end without a word: a bell it leaves would be a reset.
            rx::settle(family, fd, c, true);
        }
    }
    c.holders.fetch_and(!(1 << me), Ordering::AcqRel);
    if last {
        let_go(family, i, c);
    }
}

/// The last close of a live channel: FIN or RST, as TCP would have chosen (W12).
fn farewell(family: Family, fd: i32, c: &Conn) {
    let edge = channel::receiving(c);
    // From here on the peer rings no more; what it sends goes to TCP, where the kernel answers.
    edge.word.leave();
    rx::locked(family, fd, c, || last_words(fd, c, &edge));
}

fn last_words(fd: i32, c: &Conn, edge: &End) {
    if rx::unread(fd, c, edge) {
        raw::reset_at_close(fd);
    } else {
        rx::drain_for_close(fd, c, edge, rx::Patience::Close);
    }
}

/// The entry goes back; the slot too.
fn let_go(family: Family, i: u32, c: &Conn) {
    let h = family.header();
    for (to, from) in [
        (&h.tx_done, &c.tx_bytes),
        (&h.rx_done, &c.rx_bytes),
        (&h.bells_done, &c.bells),
        (&h.back_done, &c.back),
    ] {
        to.fetch_add(from.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    let client_side = c.side.load(Ordering::Relaxed) == Side::Client as u32;
    match (c.stage(), channel::slot(c)) {
        (Stage::Candidate, _) => family.count(Reason::Closed),
        (Stage::Offered, Some(s)) if s.withdraw(c.generation.load(Ordering::Relaxed)) => {
            client::release(c);
            family.count(Reason::Closed);
        }
        (_, Some(_)) if client_side => client::leave(c),
        (_, Some(s)) => {
            s.leave(c.generation.load(Ordering::Relaxed), Side::Server);
        }
        _ => {}
    }
    c.offer.store(0, Ordering::Release);
    c.set_stage(Stage::Unused);
    c.holders.store(0, Ordering::Release);
    family.free(i);
}

/// `new` is a copy of `old` (dup, F_DUPFD).
pub fn copied(old: i32, new: i32) {
    forget_stale(new);
    match fdtable::get(old) {
        Entry::Conn(i) => {
            fdtable::refs(i).fetch_add(1, Ordering::AcqRel);
            fdtable::set(new, Entry::Conn(i));
            if (0..=2).contains(&new) {
                // A connection as standard input or output: stdio uses it inside itself.
                leave::give_number(new, Reason::Stdio);
            }
        }
        Entry::Listener(i) => {
            door::retain(i);
            fdtable::set(new, Entry::Listener(i));
        }
        Entry::Epoll(i) => {
            // Two descriptors of one set: it is watched in more than one way.
            epoll::share(i);
            fdtable::set(new, Entry::Epoll(i));
        }
        _ => {}
    }
}

/// What the parent prepared for its child; between prepare and child nothing else runs in this thread.
static RESERVED: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(0);

/// pthread_atfork, before.
pub unsafe extern "C" fn prepare_fork_c() {
    RESERVED.store(prepare_fork().map_or(0, |n| n + 1), Ordering::Release);
}

/// Before a fork: the child gets a member number and every connection we hold. None: there is none to have, or
/// nothing to share.
pub fn prepare_fork() -> Option<u32> {
    let (Some(family), Some(me)) = (state::family(), state::member_if_joined()) else { return None };
    let Some(n) = reserve(family, state::program()) else {
        // Nobody could tell when the child is through with them.
        fdtable::each(|fd, e| {
            if let Entry::Conn(i) = e {
                leave::leave(fd, Reason::Shared);
                family.conn(i).set(Conn::UNCOUNTED);
            }
        });
        return None;
    };
    for c in held(family, me) {
        hold(c, n);
    }
    Some(n)
}

/// A place among the members for a process that is about to be started. Until it says who it is, it counts as alive
/// while this one is.
pub fn reserve(family: Family, name: &[u8]) -> Option<u32> {
    // SAFETY: no arguments, no failure.
    let (pid, uid) = (raw::getpid(), unsafe { libc::geteuid() });
    (0..MEMBERS as u32).find(|&n| family.member(n as usize).reserve(pid, uid, name))
}

/// Member `n` has connection `c`, too.
pub fn hold(c: &Conn, n: u32) {
    c.holders.fetch_or(1 << n, Ordering::AcqRel);
    if let (Stage::Accepted | Stage::Live, Some(s)) = (c.stage(), channel::slot(c)) {
        s.shared.store(1, Ordering::Relaxed);
    }
}

/// There is no child after all.
pub fn forget_fork(n: Option<u32>) {
    let (Some(n), Some(family)) = (n, state::family()) else { return };
    let high = family.header().high.load(Ordering::Acquire);
    for i in (0..high).filter(|&i| family.in_use(i)) {
        family.conn(i).holders.fetch_and(!(1 << n), Ordering::AcqRel);
    }
    family.member(n as usize).clear();
}

fn held(family: Family, me: u32) -> impl Iterator<Item = &'static Conn> {
    let high = family.header().high.load(Ordering::Acquire);
    (0..high)
        .filter(move |&i| family.in_use(i))
        .map(move |i| family.conn(i))
        .filter(move |c| c.holders.load(Ordering::Relaxed) & (1 << me) != 0)
}

/// pthread_atfork, in the child.
pub unsafe extern "C" fn child_of_fork_c() {
    child_of_fork(RESERVED.swap(0, Ordering::AcqRel).checked_sub(1));
}

/// After a fork, in the child.
pub fn child_of_fork(n: Option<u32>) {
    epoll::inherited();
    client::inherited();
    door::inherited();
    dpfd::family::forked();
    if let (Some(n), Some(family)) = (n, state::family()) {
        family.member(n as usize).settle(raw::getpid());
        state::become_member(n);
    }
}

/// Takes `fd` back to plain TCP for good, as far as this side decides: sending at once, receiving as soon
/// as the peer follows. The connection stays tracked, the bytes stay in order.
pub fn demote(family: Family, fd: i32, c: &Conn, why: Reason) {
    c.reason.store(why as u32, Ordering::Relaxed);
    c.set(Conn::TX_TCP);
    if c.stage() != Stage::Live {
        return;
    }
    // In a handler inside a send of this thread the next send hands back: the flag is set.
    tx::under_lock(family, fd, c, || {
        let out = channel::sending(c);
        if in_ring(out.tx.epoch()) {
            tx::hand_back(fd, c, &out);
        }
    });
}
