//! Leaving the channel for good, because somebody else will use the descriptor who cannot see it: stdio,
//! an executed program, another process (PROTOCOLS E8).
//!
//! Both sides may leave at once, so each clears its own direction completely: the sender takes back what the
//! receiver has not committed (the cursor is frozen), puts it on TCP, and stays there ([`clear`]). For the
//! other direction the word says LEFT, bells already counted are waited for and drained, and the peer, who
//! gets one bell to look, clears its own in turn.
//!
//! It may not be able to: it has closed, or ended, or is back on TCP already with a rest in the ring, or TCP does not
//! take that much at once. So while there is something in the ring, the connection stays live for the calls that see it,
//! and they read that rest, or follow it onto TCP; a stranger gets the end of a [`relay`], which does so for it. So who
//! leaves pays for that, and never the sender ([`back`]).

pub mod back;

use core::sync::atomic::Ordering;

use dp_channel::family::{Conn, Family, Held, Reason, Stage};
use dp_channel::switch::in_ring;
use dp_channel::tcp;
use dp_edge::sys::raw;

use crate::channel::{self, End};
use crate::fdtable::{self, Entry};
use crate::inside::brief::briefly;
use crate::ops::option;
use crate::tx::gone;
use crate::{candidate, epoll, life, proof, relay, rx, socket, state, tx};

/// What a receiver that left had not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// Nothing.
    Nothing,
    /// Something: its sender puts it on TCP when it looks.
    Rest,
    /// Not known: this is a signal handler inside a call of its own thread on the same connection.
    Inside,
    /// Something that its sender cannot put there; or what this side sent is not there yet, and a stranger's bytes
    /// would pass it.
    Stranded,
}

/// How often, and how long at a time, whoever gives a descriptor away waits for a sender to take the rest back, ns.
const LOOKS: u32 = 50;
const LOOK: u32 = 100_000;

/// Whether somebody who sees the channel, this process or a relay of its own, takes what the sender does not put on TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reader {
    Stays,
    No,
}

/// Somebody who does not see channels gets the connection behind `fd`: the descriptor to give, which is the end
/// of a relay where the sender cannot put on TCP what is unread, or does not. If there can be no relay either, the connection
/// is reset: the stranger must not take a part for the whole.
pub fn give(fd: i32, why: Reason) -> i32 {
    let Some(i) = fdtable::conn(fd) else { return fd };
    if let Some(end) = relay::end(i) {
        return end;
    }
    let left = leave_as(fd, why, Reader::Stays);
    let Some(family) = state::family() else { return fd };
    let c = family.conn(i);
    let clean = match left {
        Left::Nothing => true,
        Left::Rest => briefly(|| is_taken_back(family, fd, c) && is_clean_for_good(family, fd, c)),
        Left::Inside | Left::Stranded => false,
    };
    if clean {
        return fd;
    }
    // A relay would wait for the lock of a call that may never go on.
    let end = if left == Left::Inside { None } else { relay::start(family, fd, i) };
    end.unwrap_or_else(|| {
        tx::reset(fd, family.conn(i), why);
        fd
    })
}

/// The same for the number `fd` itself.
pub fn give_number(fd: i32, why: Reason) {
    let end = give(fd, why);
    if end != fd {
        relay::put_at(end, fd);
    }
}

/// Whether the sender puts on TCP, within a moment, what was left. One that waits for this connection does it at once; one
/// that does something else may not for long.
fn is_taken_back(family: Family, fd: i32, c: &Conn) -> bool {
    for _ in 0..LOOKS {
        raw::nap(LOOK);
        let inward = channel::receiving(c);
        let look = || (rx::unread(fd, c, &inward), bells_left(c, &inward));
        match rx::locked(family, fd, c, look) {
            Some((false, false)) => return true,
            // It has looked, and leaves it to us.
            Some((true, _)) if !inward.tx.can_take_back() => return false,
            _ => {}
        }
    }
    false
}

/// Nobody here reads the ring any more. A sender that had not heard of that yet may have put something there, or left
/// something: false then.
fn is_clean_for_good(family: Family, fd: i32, c: &Conn) -> bool {
    let inward = channel::receiving(c);
    inward.word.stops_reading();
    let clean = || !rx::unread(fd, c, &inward) && !bells_left(c, &inward);
    rx::locked(family, fd, c, clean) == Some(true)
}

/// From now on the process sees the connection behind `fd` as a stranger does. What its sender has not taken back yet
/// comes by TCP when that does; a relay would take it, and the end, from relatives that have the connection, too. What no
/// sender will take back, only a relay has.
pub fn for_good(fd: i32, why: Reason) {
    let (Some(family), Some(i)) = (state::family(), fdtable::conn(fd)) else { return };
    let c = family.conn(i);
    let shared = !channel::exclusive(family, c);
    if shared && leave(fd, why) == Left::Rest {
        briefly(|| is_taken_back(family, fd, c));
    } else {
        give_number(fd, why);
    }
}

/// Takes the connection behind `fd` to plain TCP for good, for somebody who does not see channels. What is left in the
/// ring, calls that do get meanwhile.
pub fn leave(fd: i32, why: Reason) -> Left {
    leave_as(fd, why, Reader::No)
}

/// The same where only this program's own calls read it.
pub fn leave_and_read(fd: i32, why: Reason) -> Left {
    leave_as(fd, why, Reader::Stays)
}

fn leave_as(fd: i32, why: Reason, reader: Reader) -> Left {
    let (Some(family), Some(i)) = (state::family(), fdtable::conn(fd)) else { return Left::Nothing };
    briefly(|| leave_inside(family, fd, family.conn(i), why, reader))
}

fn leave_inside(family: Family, fd: i32, c: &Conn, why: Reason, reader: Reader) -> Left {
    match c.stage() {
        Stage::Candidate | Stage::Offered => option::plain(fd, c, why),
        _ => {}
    }
    if matches!(c.stage(), Stage::Offered | Stage::Accepted) {
        // Under the lock: another thread of ours may be about to go a step further.
        let held = c.rx_lock.lock(state::me(), family);
        take_back_our_word(family, fd, c);
        if held != Held::Mine {
            c.rx_lock.unlock();
        }
    }
    if c.stage() == Stage::Live {
        return live(family, fd, c, why, reader);
    }
    Left::Nothing
}

/// Leaves before both sides are known to have agreed.
fn take_back_our_word(family: Family, fd: i32, c: &Conn) {
    let generation = c.generation.load(Ordering::Relaxed);
    match c.stage() {
        Stage::Offered => {
            // The server took the offer meanwhile; without our word it carries nothing.
            if let Some(s) = channel::slot(c) {
                s.kill(generation);
            }
            c.set_stage(Stage::Plain);
        }
        Stage::Accepted if channel::slot(c).is_some_and(|s| s.refuse(generation)) => {
            c.set_stage(Stage::Plain);
        }
        // The client has confirmed. It may have sent and closed since, and the slot be dead; what it sent is in its ring
        // all the same, and bells are where a stranger would look for bytes.
        Stage::Accepted => candidate::go_live(family, fd, c),
        _ => {}
    }
}

/// The same where glibc is about to write by itself: behind everything that was sent before.
pub fn leave_to_write(fd: i32, why: Reason) -> Result<(), i32> {
    leave_and_read(fd, why);
    match (state::family(), fdtable::conn(fd)) {
        (Some(family), Some(i)) => tx::behind::wait(family, fd, family.conn(i), !raw::is_nonblocking(fd)),
        _ => Ok(()),
    }
}

/// Plain TCP for every call, unless something is still to be read, or put there, before that.
fn live(family: Family, fd: i32, c: &Conn, why: Reason, reader: Reader) -> Left {
    let again = c.has(Conn::TX_TCP);
    if !again {
        c.reason.store(why as u32, Ordering::Relaxed);
        state::count(why);
    }
    let inward = channel::receiving(c);
    inward.word.leave_raw(reader == Reader::Stays);
    // The peer publishes, then looks at the word; we wrote the word, and look now: what is not here yet, it takes
    // back itself. Where nobody can look, as if there were something.
    let rest = rx::locked(family, fd, c, || rx::unread(fd, c, &inward)).unwrap_or(true);
    let cleared = tx::under_lock(family, fd, c, || {
        let out = channel::sending(c);
        // It goes to TCP for good: no longer ring.
        tx::over::drop_claim(c, &out);
        // One bell, so that a sleeping peer looks and takes the rest back; it has to stand in a ring epoch.
        if rest && !again && (in_ring(out.tx.epoch()) || tx::to_ring(fd, c, &out)) {
            tx::announce(c, fd, &out);
        }
        clear(fd, c, &out);
    });
    if cleared.is_none() {
        // The send that we are inside of goes on in the ring; the next one hands back.
        c.set(Conn::TX_TCP);
    }
    let left = rx::locked(family, fd, c, || {
        rx::drain_for_close(fd, c, &inward, rx::Patience::Stranger);
        let left = || (rx::unread(fd, c, &inward), bells_left(c, &inward));
        if left() == (false, false) {
            inward.word.stops_reading();
        }
        left()
    });
    let (Some((rest, bells)), Some(())) = (left, cleared) else { return Left::Inside };
    if let Some(i) = fdtable::conn(fd).filter(|_| rest) {
        epoll::bells_are_gone(i);
    }
    // What the program asked of TCP holds again.
    let _ = raw::setsockopt_int(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, i32::from(c.has(Conn::NODELAY)));
    if c.has(Conn::CORK) {
        let _ = raw::setsockopt_int(fd, libc::IPPROTO_TCP, libc::TCP_CORK, 1);
    }
    if !rest && !bells && !c.has(Conn::OWES) {
        c.set_stage(Stage::Plain);
    }
    match rest || bells {
        // The owner of the other end sees this one, and waits until it is clear.
        _ if c.has(Conn::OWES) => Left::Stranded,
        false => Left::Nothing,
        // A bell that does not come is for somebody who can tell it from data.
        true if !rest => Left::Stranded,
        true if inward.tx.can_take_back() && !socket::ended(fd) => Left::Rest,
        true => Left::Stranded,
    }
}

/// Whether bells that were counted are not here yet. Under the lock.
fn bells_left(c: &Conn, inward: &End) -> bool {
    if in_ring(c.rx_epoch.load(Ordering::Relaxed)) {
        inward.word.bells() != c.drained.load(Ordering::Relaxed)
    } else {
        c.rx_data.load(Ordering::Relaxed) > c.rx_kernel.load(Ordering::Relaxed)
    }
}

/// Sender: what the receiver has not taken goes onto TCP, unless it stays where it is, and so does everything after it.
/// Under the sender's lock. After a FIN nothing can.
pub fn clear(fd: i32, c: &Conn, out: &End) {
    if !c.has(Conn::SHUT_WR) {
        proof::sends_at_once(fd, c);
    }
    if !c.has(Conn::SHUT_WR) && in_ring(out.tx.epoch()) {
        if back::stays(fd, c, out) {
            tx::hand_back(fd, c, out);
        } else {
            let at = back::freeze(c, out);
            // Data is data again from here on: told before the first of it is there.
            out.tx.to_tcp(at.pos, c.tx_kernel.load(Ordering::Relaxed));
            back::pay(fd, c, out);
            c.back.fetch_add(1, Ordering::Relaxed);
        }
    }
    c.set(Conn::TX_TCP);
}

/// The same right after a hand-back: nothing was put on TCP since, so the rest of the ring still comes before it.
pub fn clear_behind(fd: i32, c: &Conn, out: &End) {
    if !c.has(Conn::TX_TCP | Conn::SHUT_WR) && !back::stays(fd, c, out) {
        back::freeze(c, out);
        back::pay(fd, c, out);
    }
    c.set(Conn::TX_TCP);
}

/// The peer left: follows it, or goes on with what is owed. Under the sender's lock. What lies in the ring was sent before this
/// call: if the peer has died with that unread, it is a reset.
pub fn follow(fd: i32, c: &Conn, out: &End) {
    if c.has(Conn::OWES | Conn::TX_TCP) {
        follow_behind(fd, c, out);
    } else {
        gone::meets_reset(fd, c, || follow_behind(fd, c, out));
    }
}

/// The same behind what this call has put into the ring itself.
pub fn follow_behind(fd: i32, c: &Conn, out: &End) {
    if c.has(Conn::OWES) {
        back::pay(fd, c, out);
    } else if !c.has(Conn::TX_TCP) {
        c.reason.store(Reason::PeerLeft as u32, Ordering::Relaxed);
        state::count(Reason::PeerLeft);
        clear(fd, c, out);
    }
}

/// If the peer left, follows it. Cheap when it did not; called where a bell may mean just that.
pub fn follow_if_left(family: Family, fd: i32, c: &Conn) {
    // Only a live one has an edge to look at.
    let follows = || c.has(Conn::OWES) || !c.has(Conn::TX_TCP) && channel::sending(c).word.is_raw();
    if c.stage() == Stage::Live && follows() {
        // A signal handler inside our own send leaves that to the send's end.
        tx::under_lock(family, fd, c, || follow(fd, c, &channel::sending(c)));
    }
}

/// Before a FIN: if the peer left, what it has not read goes onto TCP while that is possible.
pub fn before_end(family: Family, fd: i32, c: &Conn) {
    if c.stage() == Stage::Live {
        channel::sending(c).tx.will_end();
        follow_if_left(family, fd, c);
    }
}

/// Before this process starts another program beside itself: channels that one would inherit leave.
pub fn before_spawn() {
    walk(|fd, _| {
        leave(fd, Reason::Exec);
    });
}

/// Before this process becomes another program.
pub fn before_exec() {
    walk(|fd, standard| {
        let (Some(family), Some(i)) = (state::family(), fdtable::conn(fd)) else { return };
        let mine = !state::is_borrowed_memory() && channel::exclusive(family, family.conn(i));
        // Where others have it as well, they read the rest of the ring, unless it is about to be a standard stream.
        if !mine && standard == 0 {
            leave(fd, Reason::Exec);
            return;
        }
        let end = give(fd, Reason::Exec);
        if end != fd {
            for k in (0..3).filter(|k| standard & 1 << k != 0 && *k != fd) {
                relay::put_at(end, k);
            }
            relay::put_at(end, fd);
        }
    });
    let_others_have();
}

/// Before this process becomes another program: relatives alone have what is closed with that. Else each of them would be
/// taken for one of several for as long as the program lasts.
fn let_others_have() {
    let (Some(family), Some(me)) = (state::family(), state::member_if_joined()) else { return };
    if state::is_borrowed_memory() {
        return;
    }
    fdtable::each(|fd, e| {
        let Entry::Conn(i) = e else { return };
        let c = family.conn(i);
        if !family.holders(c).has(me) {
            return;
        }
        let mut lasts = stays(fd);
        if !lasts && fdtable::refs(i).load(Ordering::Relaxed) > 1 {
            fdtable::each(|n, e| lasts |= e == Entry::Conn(i) && stays(n));
        }
        // The last one keeps it: whoever finds this process gone does what is to be done.
        if !lasts && family.holders(c).remove(me) {
            family.holders(c).add(me);
        }
    });
}

/// It did not become another program.
pub fn exec_failed() {
    let (Some(family), Some(me)) = (state::family(), state::member_if_joined()) else { return };
    if state::is_borrowed_memory() {
        return;
    }
    fdtable::each(|fd, e| {
        let Entry::Conn(i) = e else { return };
        let c = family.conn(i);
        if family.holders(c).has(me) {
            return;
        }
        let again = family.holders(c).add_again(me);
        if !again || !socket::stands_for(fd, c) {
            // Relatives have ended it meanwhile.
            fdtable::clear(fd);
            if again {
                life::forget(i);
            }
        }
    });
}

fn stays(fd: i32) -> bool {
    raw::fcntl(fd, libc::F_GETFD, 0).is_ok_and(|f| f as i32 & libc::FD_CLOEXEC == 0)
}

/// Calls `f` for every connection that a program started now would have; with it, the standard streams that are
/// the same connection, a bit each.
fn walk(f: impl Fn(i32, u32)) {
    let Some(family) = state::family().filter(|_| state::ON.load(Ordering::Relaxed)) else { return };
    // A child of vfork may have put a connection there without our seeing it.
    let unseen = |fd: i32| stays(fd) && !matches!(fdtable::get(fd), Entry::Conn(_));
    let standard = [0, 1, 2].map(|fd| if unseen(fd) { tcp::cookie(fd).unwrap_or(0) } else { 0 });
    fdtable::each(|fd, e| {
        let Entry::Conn(i) = e else { return };
        let mut bits = u32::from(fd < 3) << (fd & 3);
        if standard != [0; 3] {
            let cookie = tcp::cookie(fd).unwrap_or(u64::MAX);
            bits |= (0..3).filter(|&k| standard[k] == cookie).fold(0, |b, k| b | 1 << k);
        }
        if bits != 0 || stays(fd) {
            f(fd, bits);
        } else {
            // The kernel may close it without a word.
            follow_if_left(family, fd, family.conn(i));
        }
    });
}
