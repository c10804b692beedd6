//! A connection's way from plain TCP to a channel (PROTOCOLS E1-E5, E13).
//!
//! Both sides start as candidates: their calls go to the kernel and are only counted. A connection that
//! lives long enough to be worth it is offered by the client, taken by the server, confirmed by the
//! client; each step happens inside a call the program makes anyway, none adds a round trip.

use core::sync::atomic::Ordering;

use dpfd::edge::arena::{self, Arena};
use dpfd::edge::bell::{Group, Word};
use dpfd::edge::ring::{Cursor, Lines, LINE};
use dpfd::edge::segment::Mapped;
use dpfd::edge::slot::{Side, Slot, State};
use dpfd::edge::spare::Spares;
use dpfd::edge::switch::{RxLine, TxLine, OWN, SHORT};
use dpfd::family::{Conn, Family, Reason, Stage, ARENAS};
use dpfd::sys::{raw, tcp};

use crate::client::Answer;
use crate::ops::option::{note_inq, TIMES};
use crate::{client, door, fdtable, life, proof, state};

/// One direction of a live channel, in this process's mapping.
#[derive(Clone, Copy)]
pub struct End<'a> {
    /// The wake word.
    pub word: &'static Word,
    /// The receiver's line.
    pub rx: &'static RxLine,
    /// The sender's line.
    pub tx: &'static TxLine,
    short: *mut u8,
    c: &'a Conn,
    at: usize,
}

impl End<'_> {
    /// The ring. Asked for at each look: a sender goes over to another one when there is nothing in it.
    #[inline(always)]
    pub fn ring(&self) -> Mapped {
        match self.tx.ring() {
            // SAFETY: as in end(): a short ring.
            SHORT => unsafe { Mapped::new(self.short, arena::SHORT) },
            n => self.longer(n),
        }
    }

    #[inline]
    fn longer(&self, n: u32) -> Mapped {
        match n {
            OWN => self.own(),
            n => self.spares().and_then(|spares| spares.ring(n)).unwrap_or_else(|| self.own()),
        }
    }

    /// The slot's own ring.
    #[inline]
    pub fn own(&self) -> Mapped {
        let at = self.c.edges[self.at + 2].load(Ordering::Relaxed) as *mut u8;
        // SAFETY: as in end().
        unsafe { Mapped::new(at, u64::from(self.c.lines.load(Ordering::Relaxed))) }
    }

    /// The arena's spare rings, if it has some.
    pub fn spares(&self) -> Option<Spares> {
        // SAFETY: attach() put it there; as in end().
        unsafe { Arena::unpack(self.c.mapping.load(Ordering::Relaxed)) }?.spares()
    }
}

#[inline(always)]
fn end(c: &Conn, at: usize) -> End<'_> {
    let p = |i: usize| c.edges[at + i].load(Ordering::Relaxed) as *mut u8;
    let word = p(0);
    // SAFETY: store_edges() put the addresses there before the stage said so; arenas stay mapped as long
    // as the family has a connection in them. Both lines follow the word.
    unsafe {
        End {
            word: &*word.cast::<Word>(),
            rx: &*word.add(LINE).cast::<RxLine>(),
            tx: &*word.add(2 * LINE).cast::<TxLine>(),
            short: p(1),
            c,
            at,
        }
    }
}

/// The direction this side sends on.
#[inline(always)]
pub fn sending(c: &Conn) -> End<'_> {
    end(c, 0)
}

/// The direction this side receives on.
#[inline(always)]
pub fn receiving(c: &Conn) -> End<'_> {
    end(c, 3)
}

/// Whether the connection's descriptor `fd` was made not to block.
#[inline]
pub fn is_nonblocking(fd: i32, c: &Conn) -> bool {
    c.mode.is_nonblocking(|| raw::is_nonblocking(fd))
}

/// Whether the slot still is this connection's, live or not.
#[inline(always)]
pub fn is_of_slot(c: &Conn) -> bool {
    slot(c).is_none_or(|s| s.is_of(c.generation.load(Ordering::Relaxed)))
}

/// The ring that `rx`, the direction this side receives on, is in. None where the slot has become another connection's; asked
/// for after the cursor was read, as that one's begins a lap further.
#[inline(always)]
pub fn ring_of(c: &Conn, rx: &End) -> Mapped {
    if is_of_slot(c) {
        rx.ring()
    } else {
        Mapped::none()
    }
}

/// The other side's watcher groups.
pub fn peer_groups(c: &Conn) -> &'static [Group] {
    // SAFETY: as in end(): the address of GROUPS groups in a row.
    unsafe {
        core::slice::from_raw_parts(
            c.groups.load(Ordering::Relaxed) as *const Group,
            dpfd::edge::arena::GROUPS,
        )
    }
}

/// The offer's slot.
pub fn slot(c: &Conn) -> Option<&'static Slot> {
    let p = c.offer.load(Ordering::Acquire) as *const Slot;
    // SAFETY: as in end().
    (!p.is_null()).then(|| unsafe { &*p })
}

/// Whether the slot still is this connection's, and live.
#[inline(always)]
pub fn slot_live(c: &Conn) -> bool {
    slot(c).is_some_and(|s| s.is(c.generation.load(Ordering::Relaxed), State::Live))
}

/// Puts the arena's addresses into the connection. False: slot `n` is not mapped.
pub fn attach(c: &Conn, arena: &Arena, n: u32, side: Side, generation: u32) -> bool {
    let other = if side == Side::Client { Side::Server } else { Side::Client };
    let (Some(tx), Some(rx), Some(slot)) = (arena.edge(n, side), arena.edge(n, other), arena.slot(n)) else {
        return false;
    };
    let ring = |ring: &Mapped| std::ptr::from_ref(ring.header(Default::default())) as u64;
    let addresses = [&tx, &rx].map(|e| [std::ptr::from_ref(e.word) as u64, ring(&e.short), ring(&e.own)]);
    for (to, from) in c.edges.iter().zip(addresses.as_flattened()) {
        to.store(*from, Ordering::Relaxed);
    }
    c.lines.store(arena.geometry().lines, Ordering::Relaxed);
    c.tx_lines.store(arena::SHORT as u32, Ordering::Relaxed);
    c.mapping.store(arena.pack(), Ordering::Relaxed);
    c.slot.store(n, Ordering::Relaxed);
    c.generation.store(generation, Ordering::Relaxed);
    c.groups.store(arena.groups(other).as_ptr() as u64, Ordering::Relaxed);
    // The ring is empty: tail and cursor are the same place.
    let start = Cursor::unpack(tx.rx.cursor.load(Ordering::Relaxed)).pos;
    c.set_tail(dpfd::edge::ring::Tail { pos: start, seen: start });
    c.offer.store(std::ptr::from_ref(slot) as u64, Ordering::Release);
    true
}

/// Makes `fd` a candidate. False when there is no room for it; it then stays plain TCP.
pub fn track(fd: i32, side: Side, local: tcp::Addr, peer: tcp::Addr) -> bool {
    let Some(pid) = state::pid().filter(|_| fdtable::covers(fd)) else { return false };
    let Some(family) = state::family_or_make() else { return false };
    let unseen = match fd {
        // stdio reads and writes the standard streams inside itself.
        0..=2 => Some(Reason::Stdio),
        _ => state::ended(),
    };
    if let Some(why) = unseen {
        family.count(why);
        return false;
    }
    let Some(member) = state::member() else {
        family.count(Reason::Slots);
        return false;
    };
    let before = family.header().high.load(Ordering::Relaxed);
    let again = || {
        life::dead::clear(family, true);
        family.claim()
    };
    let Some(i) = family.claim().or_else(again) else {
        family.count(Reason::Slots);
        return false;
    };
    if i >= before {
        life::dead::at_a_new_entry(family, i);
    }
    let c = family.conn(i);
    c.reset(side as u32, local, peer);
    family.holders(c).begin(member);
    c.pid.store(pid, Ordering::Relaxed);
    c.fd.store(fd as u32, Ordering::Relaxed);
    if fdtable::begin(fd, i) == fdtable::Entry::Elsewhere {
        keep_plain(fd, Reason::IoUring);
    }
    true
}

/// The connection behind `fd`, which was just tracked, stays on TCP.
pub fn keep_plain(fd: i32, why: Reason) {
    if let (Some(family), Some(i)) = (state::family(), fdtable::conn(fd)) {
        give_up(fd, family.conn(i), why);
    }
}

/// Whether this process is the only living one that has the connection.
pub fn exclusive(family: Family, c: &Conn) -> bool {
    let Some(me) = state::member_if_joined() else { return false };
    if c.has(Conn::UNCOUNTED) {
        return false;
    }
    let holders = family.holders(c);
    holders.each().filter(|&n| n != me).all(|n| {
        let dead = !family.member(n as usize).alive();
        // We have it, so it was not the last.
        dead && !holders.remove(n)
    })
}

/// One call on a candidate is about to go to the kernel: does it move a step? Afterwards the stage says
/// whether the call may go there just so (`Candidate`, `Offered`, `Plain`) or must count first.
pub fn advance(family: Family, fd: i32, c: &Conn) -> Stage {
    let stage = c.stage();
    if !matches!(stage, Stage::Candidate | Stage::Offered) {
        return stage;
    }
    let calls = c.calls.fetch_add(1, Ordering::Relaxed) + 1;
    let after = state::AFTER.load(Ordering::Relaxed);
    if calls <= after {
        return stage;
    }
    let turn = calls - after;
    let client = c.side.load(Ordering::Relaxed) == Side::Client as u32;
    // A proof under way is looked at in every call: it is over soon.
    let search = Search::at(turn).or_else(|| proof::is_shown(c).then_some(Search::Mapped));
    if stage == Stage::Candidate
        && !search.is_some_and(|search| !client || search == Search::Everywhere && is_due(family, c, turn))
    {
        return stage;
    }
    // One thread at a time, and by the stage as it is now: one that comes late would take a channel that
    // another has just confirmed for an offer that was refused.
    if c.rx_lock.try_lock(state::me()) {
        match (c.stage(), client) {
            (Stage::Candidate, true) => post(family, fd, c, turn),
            (Stage::Offered, _) => await_answer(family, fd, c, turn),
            (Stage::Candidate, false) => {
                look_for_offer(family, fd, c, turn, search.unwrap_or(Search::Mapped));
                if c.stage() != Stage::Candidate {
                    door::sweep();
                }
            }
            _ => {}
        }
        c.rx_lock.unlock();
    }
    c.stage()
}

/// A low-water mark above one byte: a bell alone would wake nobody (W14). Or peeks that go on where the last one ended,
/// which the kernel counts. Or receives that are told when bytes came. Or somebody who waits for SIGIO, which comes for the
/// kernel's bytes only (W3).
fn unsuited(fd: i32) -> bool {
    raw::getsockopt_int(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT).is_ok_and(|n| n > 1)
        || raw::getsockopt_int(fd, libc::SOL_SOCKET, libc::SO_PEEK_OFF).is_ok_and(|n| n >= 0)
        || TIMES.iter().any(|&name| raw::getsockopt_int(fd, libc::SOL_SOCKET, name).is_ok_and(|n| n != 0))
        || raw::fcntl(fd, libc::F_GETFL, 0).is_ok_and(|f| f as i32 & libc::O_ASYNC != 0)
}

/// From this turn on an offer that nobody answers is made anew, behind another hello, and an answer that is not followed by
/// a proof counts as wrong.
const MOVES_ON: u32 = 16;

/// Where a side looks that has no answer yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Search {
    /// Server: in what is mapped, which takes no system call.
    Mapped,
    /// Everywhere.
    Everywhere,
}

/// Turns at which something is tried once more: often enough to be done in a connection of some thirty exchanges, then now
/// and then.
fn is_another_try(turn: u32) -> bool {
    turn.is_power_of_two() || turn % if turn < 64 { 8 } else { 64 } == 0
}

impl Search {
    /// Always at first. A client may make its offer at any turn.
    fn at(turn: u32) -> Option<Search> {
        if turn < 8 || is_another_try(turn) {
            Some(Search::Everywhere)
        } else {
            (turn % 8 == 0).then_some(Search::Mapped)
        }
    }
}

/// Client: whether it is time for the first offer, which comes later where channels to the server do not pay.
fn is_due(family: Family, c: &Conn, turn: u32) -> bool {
    if !state::LEARNS.load(Ordering::Relaxed) {
        return true;
    }
    let mut first = c.first.load(Ordering::Relaxed);
    if first == 0 {
        first = client::first_turn(family, c);
        c.first.store(first, Ordering::Relaxed);
    }
    turn >= first
}

/// Where both rings are, in lines.
fn positions(c: &Conn) -> u32 {
    let taken = Cursor::unpack(receiving(c).rx.cursor.load(Ordering::Relaxed)).pos;
    c.tail().pos.raw().wrapping_add(taken.raw()) as u32
}

/// Client: the channel ends. Whether it has paid decides when later ones are offered.
pub fn count_worth(family: Family, c: &Conn) {
    let lines = positions(c).wrapping_sub(c.first.load(Ordering::Relaxed));
    let arena = c.arena.load(Ordering::Relaxed) as usize % ARENAS;
    family.arena(arena).worth.count(u64::from(lines));
}

/// After this many calls *and* this long without an answer the connection is plain TCP for good.
const PATIENCE: u32 = 1 << 10;
const PATIENCE_NS: u64 = 2_000_000_000;

fn patient(c: &Conn, turn: u32) -> bool {
    if turn <= PATIENCE {
        return true;
    }
    // The clock is asked only from here on, and not in every call.
    let began = c.since.load(Ordering::Relaxed);
    if began == 0 {
        c.since.store(state::now(), Ordering::Relaxed);
    }
    began == 0 || turn % 64 != 0 || state::now() - began < PATIENCE_NS
}

fn give_up(fd: i32, c: &Conn, why: Reason) {
    proof::put_back(fd, c);
    c.reason.store(why as u32, Ordering::Relaxed);
    state::count(why);
    c.set_stage(Stage::Plain);
}

fn no_door() -> Reason {
    if state::unix_is_forbidden() {
        Reason::NoUnix
    } else {
        Reason::NoDoor
    }
}

/// Client: is it time for an offer? Under the receiver's lock.
fn post(family: Family, fd: i32, c: &Conn, turn: u32) {
    if !exclusive(family, c) {
        return give_up(fd, c, Reason::Shared);
    }
    // Before the socket is asked six questions. An address without a port is not known yet.
    if c.peer().port != 0 && client::is_nobody(c.peer()) {
        return give_up(fd, c, no_door());
    }
    if unsuited(fd) {
        return give_up(fd, c, Reason::Option);
    }
    match client::offer(family, fd, c) {
        Ok(()) => {
            note_inq(fd, c);
            c.set_stage(Stage::Offered);
        }
        Err(client::No::Never(Reason::NoDoor)) => give_up(fd, c, no_door()),
        Err(client::No::Never(why)) => give_up(fd, c, why),
        Err(client::No::Later) if !patient(c, turn) => give_up(fd, c, Reason::Silent),
        Err(client::No::Later) => {}
    }
}

/// Client: was the offer taken? Under the receiver's lock.
fn await_answer(family: Family, fd: i32, c: &Conn, turn: u32) {
    let (Some(s), generation) = (slot(c), c.generation.load(Ordering::Relaxed)) else { return };
    if s.is(generation, State::Accepted) {
        if proof::is_shown(c) {
            return confirm(family, fd, c, s, generation);
        }
        // Taken by somebody who has proven nothing.
        s.kill(generation);
        client::leave(c);
        return elsewhere(family, fd, c, turn, Answer::Wrong);
    }
    if !s.is(generation, State::Offered) {
        client::release(c);
        return give_up(fd, c, Reason::Silent);
    }
    let answer = client::look_at_answer(fd, c, s);
    let over = !patient(c, turn);
    // Perhaps another worker of the server took the last introduction, or another family serves the address by now.
    let move_on = match answer {
        Answer::Proven => false,
        Answer::Wrong => true,
        Answer::Nothing if proof::is_shown(c) || turn < 4 => false,
        Answer::Nothing => is_another_try(turn) && (turn >= MOVES_ON || client::has_another(family, c)),
    };
    if (over || move_on) && s.withdraw(generation) {
        client::release(c);
        proof::put_back(fd, c);
        if over {
            give_up(fd, c, if c.wrong.load(Ordering::Relaxed) > 0 { Reason::Owner } else { Reason::Silent });
        } else {
            elsewhere(family, fd, c, turn, answer);
        }
    }
}

/// Answers that prove to be wrong before a connection is left alone.
const WRONG: u32 = 8;

/// Client: nobody takes the offer where it was; it is made somewhere else. Under the receiver's lock.
fn elsewhere(family: Family, fd: i32, c: &Conn, turn: u32, answer: Answer) {
    c.set_stage(Stage::Candidate);
    if answer == Answer::Wrong && c.wrong.fetch_add(1, Ordering::Relaxed) >= WRONG {
        return give_up(fd, c, Reason::Owner);
    }
    client::give_up_here(family, c, turn >= MOVES_ON);
    post(family, fd, c, turn);
}

/// Whether `fd` is the socket of the offer (E9). A descriptor replaced behind our back is another one; a socket
/// that was disconnected and connected anew keeps its cookie and has another tuple.
fn same_socket(fd: i32, c: &Conn, s: &Slot, side: Side) -> bool {
    let (Some(local), Some(peer)) = (tcp::local(fd), tcp::peer(fd)) else { return false };
    if (local, peer) != (c.local(), c.peer()) {
        return false;
    }
    let (tuple, cookie) = match side {
        Side::Client => (tcp::tuple(local, peer), tcp::cookie(fd) == Some(s.cookie.load(Ordering::Relaxed))),
        Side::Server => (tcp::tuple(peer, local), true),
    };
    cookie && s.matches(&tuple, tcp::netns(fd))
}

/// Client: the server took the offer; from here on receives count first, and either side may switch. Under the
/// receiver's lock: no receive of ours may be in the kernel while the position is read.
fn confirm(family: Family, fd: i32, c: &Conn, s: &Slot, generation: u32) {
    if !same_socket(fd, c, s, Side::Client) {
        s.kill(generation);
        client::leave(c);
        give_up(fd, c, Reason::State);
    } else if exclusive(family, c) {
        c.link.store(s.link.load(Ordering::Relaxed), Ordering::Relaxed);
        c.set_stage(Stage::Accepted);
        if base_position(fd, c) && s.confirm(generation) {
            proof::put_back(fd, c);
            go_live(family, fd, c);
        } else {
            c.set_stage(Stage::Offered);
        }
    }
}

/// Reads the receive position. The stage already says that new receives take the lock; those that were
/// under way before are counted by `rx_flight`.
fn base_position(fd: i32, c: &Conn) -> bool {
    if c.rx_flight.load(Ordering::SeqCst) != 0 {
        return false;
    }
    let Some(at) = tcp::consumed(fd) else { return false };
    c.rx_kernel.store(at, Ordering::Relaxed);
    c.rx_data.store(0, Ordering::Relaxed);
    c.rx_counted.store(0, Ordering::Relaxed);
    receiving(c).rx.consumed.store(at, Ordering::Relaxed);
    true
}

/// Both sides agreed. Under the receiver's lock.
pub fn go_live(family: Family, fd: i32, c: &Conn) {
    // A bell held back by Nagle's algorithm would wait for an acknowledgement, up to 40 ms, one under a
    // cork longer (W14). What the program asked for is remembered for its questions.
    for (name, flag, ours) in [(libc::TCP_NODELAY, Conn::NODELAY, 1), (libc::TCP_CORK, Conn::CORK, 0)] {
        let theirs = raw::getsockopt_int(fd, libc::IPPROTO_TCP, name).map_or(0, |v| i32::from(v != 0));
        if theirs != 0 {
            c.set(flag);
        }
        if theirs != ours {
            let _ = raw::setsockopt_int(fd, libc::IPPROTO_TCP, name, ours);
        }
    }
    sending(c).tx.ends_abruptly(raw::resets_at_close(fd));
    c.first.store(positions(c), Ordering::Relaxed);
    c.set_stage(Stage::Live);
    family.header().channels.fetch_add(1, Ordering::Relaxed);
}

/// Server: is there an offer? Under the receiver's lock.
fn look_for_offer(family: Family, fd: i32, c: &Conn, turn: u32, search: Search) {
    if !exclusive(family, c) {
        return;
    }
    door::walking(|walking| {
        if proof::is_shown(c) {
            return await_proof(fd, c, turn, walking);
        }
        match door::find_offer(fd, c, search, walking) {
            Some(offer) => door::answer(fd, c, &offer, walking),
            None if patient(c, turn) => {}
            None if c.wrong.load(Ordering::Relaxed) > 0 => give_up(fd, c, Reason::Owner),
            None => give_up(fd, c, Reason::NoOffer),
        }
    });
}

/// Server: has the client shown that it holds the other end? Then its arena is mapped and the offer taken.
fn await_proof(fd: i32, c: &Conn, turn: u32, walking: &door::Walking) {
    let wrong = || {
        c.wrong.fetch_add(1, Ordering::Relaxed);
    };
    match door::is_shown(c, walking) {
        door::Shown::NotYet if turn < MOVES_ON || !turn.is_power_of_two() => return,
        // It may be somebody else's offer, which hides the true one.
        door::Shown::NotYet => wrong(),
        door::Shown::Gone => {}
        door::Shown::Said => {
            let proven = door::expected(c, walking)
                .is_some_and(|number| proof::other_shows(c, tcp::netns(fd), number));
            if proven {
                let (n, generation) = (c.slot.load(Ordering::Relaxed), c.generation.load(Ordering::Relaxed));
                return match door::admit(c, walking) {
                    door::Admission::Yes(arena) => {
                        proof::put_back(fd, c);
                        accept(fd, c, &arena, n, generation)
                    }
                    door::Admission::No => give_up(fd, c, Reason::Slots),
                    // The next call tries again, with the same proofs.
                    door::Admission::Later => {}
                };
            }
            wrong();
        }
    }
    proof::put_back(fd, c);
}

/// Server: takes the offer.
fn accept(fd: i32, c: &Conn, arena: &Arena, n: u32, generation: u32) {
    let Some(s) = arena.slot(n) else { return give_up(fd, c, Reason::Memory) };
    if unsuited(fd) {
        give_up(fd, c, Reason::Option);
    } else if !same_socket(fd, c, s, Side::Server) {
        give_up(fd, c, Reason::State);
    } else if attach(c, arena, n, Side::Server, generation) {
        let [ours, theirs] = door::links(c);
        note_inq(fd, c);
        c.link.store(ours, Ordering::Relaxed);
        s.link.store(theirs, Ordering::Relaxed);
        c.set_stage(Stage::Accepted);
        if !(base_position(fd, c) && s.accept(generation)) {
            c.set_stage(Stage::Candidate);
            c.offer.store(0, Ordering::Release);
        }
    }
}

/// Server: has the client confirmed? Cheap; asked in every call while `Accepted`.
pub fn check_live(family: Family, fd: i32, c: &Conn) -> Stage {
    if c.side.load(Ordering::Relaxed) == Side::Server as u32
        && slot_live(c)
        && c.rx_lock.try_lock(state::me())
    {
        if c.stage() == Stage::Accepted {
            go_live(family, fd, c);
        }
        c.rx_lock.unlock();
    }
    c.stage()
}
