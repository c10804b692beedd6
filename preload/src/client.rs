//! The connecting side: one arena per server family (PROTOCOLS I1), an introduction at its door, offers in slots.

mod given;
mod round;

use core::sync::atomic::Ordering;
use std::os::fd::BorrowedFd;

use dpfd::edge::arena::Arena;
use dpfd::edge::possession;
use dpfd::edge::ring::{Cursor, Lines};
use dpfd::edge::slot::{Side, Slot};
use dpfd::edge::stream;
use dpfd::edge::switch::in_ring;
use dpfd::family::{Conn, Family, OwnArena, Reason, ARENAS, SLOTS};
use dpfd::sys::tcp;

use crate::{channel, proof, state};
use given::{arena_of, find, id_of, server_is_gone, ANEW, MAPPED};
pub use given::{has_another, maps};
pub use round::inherited;
use round::{begin_anew, go_round};

/// Why there is no offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum No {
    /// This connection will not have one.
    Never(Reason),
    /// Not now; ask again in a later call.
    Later,
}

/// Posts the offer of `c` (PROTOCOLS E2, E9), making arena and introduction if this server is new.
pub fn offer(family: Family, fd: i32, c: &Conn) -> Result<(), No> {
    let never = |r| Err(No::Never(r));
    let (Some(local), Some(peer)) = (tcp::local(fd), tcp::peer(fd)) else { return Err(No::Later) };
    c.set_addresses(local, peer);
    if given::wants_a_hello(family, c, peer) {
        let _ = go_round(family, peer);
    }
    let i = choose(family, c, peer)?;
    let Some(arena) = arena_of(i) else { return Err(No::Later) };
    let own = family.arena(i);
    let Some(n) = own.slot(&arena).or_else(|| sweep(own, &arena)) else {
        return if begin_anew(family, i) { Err(No::Later) } else { never(Reason::Slots) };
    };
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

/// All slots are taken or closing: those that a process of the server's has left without a word, by its end, are free. What
/// the kernel says of its socket is not enough (E11): it knows nothing of a connection that is over in both directions, and
/// the server may have a descriptor of that. So it must not have said that it ends, and have taken all that we sent, in the
/// ring; if it has the descriptor all the same, it finds that the slot is another's before it takes anything more.
fn sweep(own: &OwnArena, arena: &Arena) -> Option<u32> {
    for n in own.closing().take(64) {
        let (ours, theirs) = (arena.edge(n, Side::Client), arena.edge(n, Side::Server));
        let ring = match ours.tx.spare() {
            0 => Some(ours.ring),
            n => arena.spares().and_then(|spares| spares.ring(n)),
        };
        let taken =
            || in_ring(ours.tx.epoch()) && ring.is_some_and(|r| !stream::waiting(&r, &ours.rx.cursor));
        if !theirs.tx.is_ending() && taken() && server_is_gone(arena, n) {
            reclaim(own, arena, n);
        }
    }
    own.slot(arena)
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
