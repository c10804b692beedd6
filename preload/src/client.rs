//! The connecting side: one arena per server family (PROTOCOLS I1), an introduction at its door, offers in slots.

mod again;
mod given;
mod round;

use core::sync::atomic::Ordering;

use dp_channel::arena::Arena;
use dp_channel::family::{Conn, Family, Reason, Stage, ARENAS};
use dp_channel::possession;
use dp_channel::slot::{Side, Slot};
use dp_channel::tcp;
use dp_edge::ring::{Cursor, Lines};

use crate::channel::Channel;
use crate::retired::Retired;
use crate::{proof, state};
use again::both_left;
use given::{arena_of, find, id_of, ANEW, MAPPED};
pub use given::{first_turn, has_another, has_nobody, maps};
use round::{begin_anew, forget_nobody, go_round};
pub use round::{is_nat, note_nat};

static RETIRED: Retired = Retired::new();

/// Does `f`, which looks up arenas of servers. What it finds stays mapped meanwhile.
pub fn walking<R>(f: impl FnOnce() -> R) -> R {
    RETIRED.walking(f)
}

/// Whether a connection of ours may be in a ring of the arena.
fn is_used(arena: &Arena, c: &Conn) -> bool {
    c.mapping.load(Ordering::Acquire) == arena.pack()
}

/// Why there is no offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum No {
    /// This connection will not have one.
    Never(Reason),
    /// Not now; ask again in a later call.
    Later,
}

/// In a forked child: threads of the parent may have been at work.
pub fn inherited() {
    round::inherited();
    RETIRED.inherited();
}

/// Posts the offer of `c` (PROTOCOLS E2, E9), making arena and introduction if this server is new.
pub fn offer(c: &Channel) -> Result<(), No> {
    walking(|| offer_in(c))
}

/// Whether an offer of `c` can have a place: somebody at the server's address has a door, and has been told of memory. What
/// becomes of the offer is not known before it is made.
pub fn may_offer(c: &Channel) -> Result<(), Reason> {
    forget_nobody(c.peer());
    match walking(|| choose(c, c.peer())) {
        Ok(_) | Err(No::Later) => Ok(()),
        Err(No::Never(why)) => Err(why),
    }
}

fn offer_in(c: &Channel) -> Result<(), No> {
    let never = |r| Err(No::Never(r));
    let (Some(local), Some(peer)) = (tcp::local(c.fd), tcp::peer(c.fd)) else { return Err(No::Later) };
    c.set_addresses(local, peer);
    if given::wants_a_hello(c, peer) {
        let _ = go_round(c.family, peer);
    }
    let i = choose(c, peer)?;
    let Some(arena) = arena_of(i) else { return Err(No::Later) };
    let own = c.family.arena(i);
    let slots = arena.geometry().slots;
    again::look_in_passing(c.family, i, &arena);
    let is_current = || given::is_current(c.family, i, &arena);
    let take = || own.slot(|n| is_current() && both_left(&arena, n));
    let after_a_look = || {
        again::look_through(c.family, i, &arena, &mut { again::QUESTIONS });
        take()
    };
    let Some(n) = take().or_else(after_a_look) else {
        return if begin_anew(c.family, i) { Err(No::Later) } else { never(Reason::Slots) };
    };
    if n >= slots {
        own.free(n);
        return never(Reason::Slots);
    }
    // The entry may have been given to another arena since it was chosen. One that nobody had is that one's then.
    if !is_current() {
        own.free(n);
        return Err(No::Later);
    }
    let edges =
        if arena.bring(n) { [Side::Client, Side::Server].map(|side| arena.edge(n, side)) } else { [None; 2] };
    let ([Some(to), Some(from)], Some(s)) = (edges, arena.slot(n)) else {
        own.free(n);
        return never(Reason::Memory);
    };
    again::shrink(i, own, &arena, n);
    again::clear(&arena, n);
    if arena.spares().is_some_and(|spares| !spares.any_free()) {
        again::recover_spares(c.family, i, &arena);
    }
    let mut populated = Err(libc::EBADF);
    given::with_memory(i, |memory| populated = arena.populate(memory, n));
    if populated.is_err() {
        own.free(n);
        return never(Reason::Memory);
    }
    let Some(cookie) = tcp::cookie(c.fd) else {
        own.free(n);
        return never(Reason::Option);
    };
    for e in [to, from] {
        // Positions go on from the last connection, a lap further, over an empty header.
        let at = Cursor::unpack(e.rx.cursor.load(Ordering::Relaxed)).pos.add(e.own.count());
        e.short.header(at).store(0, Ordering::Relaxed);
        e.word.reset();
        e.rx.reset(at);
    }
    let tuple = tcp::tuple(local, peer);
    let Some(nonce) = proof::random() else {
        own.free(n);
        return never(Reason::Memory);
    };
    // Mapped first, and then asked, as where an offer is taken: in a child that was forked meanwhile nothing is mapped there.
    if !c.is_ours_alone() {
        own.free(n);
        return never(Reason::Shared);
    }
    let generation = s.offer(&tuple, cookie, tcp::netns(c.fd), nonce);
    c.nonce.store(nonce, Ordering::Relaxed);
    c.expected.store(0, Ordering::Relaxed);
    c.arena.store(i as u32, Ordering::Relaxed);
    if c.attach(&arena, n, Side::Client, generation) && arena.publish(tuple.hash(arena.index_len()), n) {
        return Ok(());
    }
    s.withdraw(generation);
    c.offer.store(0, Ordering::Release);
    // It keeps no arena from being unmapped.
    c.mapping.store(0, Ordering::Release);
    own.free(n);
    never(Reason::Slots)
}

/// The arena for the next offer of `c`.
fn choose(c: &Channel, server: tcp::Addr) -> Result<usize, No> {
    if let Some(i) = find(c, server) {
        return Ok(i);
    }
    let made = go_round(c.family, server);
    // All that have a door are tried: they have been told anew, and may be tried again.
    if c.tried.load(Ordering::Relaxed) != 0 && find(c, server).is_none() {
        c.tried.store(0, Ordering::Relaxed);
    }
    find(c, server).ok_or(match made {
        Ok(()) => No::Later,
        Err(no) => no,
    })
}

/// The server's answer to the offer of `c`, as far as there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// None yet, or one that was dealt with.
    Nothing,
    /// It has proven that it holds the other end, and our socket shows our own proof.
    Proven,
    /// The process that answered does not hold the other end.
    Wrong,
}

/// Looks at the answer, and answers it (PROTOCOLS I2). Under the receiver's lock.
pub fn look_at_answer(c: &Channel, s: &Slot) -> Answer {
    let challenge = s.challenge.load(Ordering::Acquire);
    let i = c.arena.load(Ordering::Relaxed) as usize % ARENAS;
    // What was looked at is not looked at again: the kernel would say the same.
    if challenge == 0 || challenge == c.expected.load(Ordering::Relaxed) {
        return Answer::Nothing;
    }
    c.expected.store(challenge, Ordering::Relaxed);
    let own = c.family.arena(i);
    let key = [0, 1].map(|k: usize| MAPPED[i].key[k].load(Ordering::Relaxed));
    let number = |side| possession::number(side, key, id_of(i), c.nonce.load(Ordering::Relaxed), challenge);
    // Whether our own end is what it was, is asked before the offer is confirmed.
    if !c.other_end_shows(tcp::netns(c.fd), number(Side::Server)) {
        return Answer::Wrong;
    }
    if !c.show_proof(number(Side::Client)) {
        return Answer::Nothing;
    }
    own.prove(state::now());
    s.shown.store(challenge, Ordering::Release);
    Answer::Proven
}

/// Nobody takes the offer of `c`, which was withdrawn: perhaps a worker that has not met us serves it, or another
/// family. The next offer goes elsewhere; `again`: after another hello to all.
pub fn give_up_here(c: &Channel, again: bool) {
    c.tried.fetch_or(1 << (c.arena.load(Ordering::Relaxed) as usize % ARENAS), Ordering::Relaxed);
    // Where no arena is left, choose() goes round anyway.
    if again {
        MAPPED[c.arena.load(Ordering::Relaxed) as usize % ARENAS].anew.store(ANEW, Ordering::Relaxed);
    }
    if again && find(c, c.peer()).is_some() {
        walking(|| {
            let _ = go_round(c.family, c.peer());
        });
    }
}

/// The offer was withdrawn before anybody used its rings: the slot is free at once.
pub fn release(c: &Conn) {
    // Nobody is in a ring of it: it keeps no arena from being unmapped.
    c.mapping.store(0, Ordering::Release);
    with_slot(c, |family, i, n| family.arena(i).free(n));
}

/// We are through with a live slot; it is free when the server is, too.
pub fn leave(c: &Conn) {
    if c.stage() == Stage::Offered {
        c.mapping.store(0, Ordering::Release);
    }
    with_slot(c, |family, i, n| {
        if let Some(s) = c.slot() {
            s.leave(c.generation.load(Ordering::Relaxed), Side::Client);
        }
        let own = family.arena(i);
        own.close(n);
        // Where many connections end and few begin, no other one would find that the server has left, too.
        let Some(arena) = arena_of(i) else { return };
        again::look_in_passing(family, i, &arena);
    });
}

/// The same for a process that ended: it may have had an arena of its own, or more of one that we have as well.
pub fn leave_for_ended(family: Family, c: &Conn) {
    let (i, n) = (c.arena.load(Ordering::Relaxed) as usize % ARENAS, c.slot.load(Ordering::Relaxed));
    let generation = c.generation.load(Ordering::Relaxed);
    let own = family.arena(i);
    if let Some(arena) = arena_of(i).filter(|arena| given::is_current(family, i, arena) && arena.bring(n)) {
        arena.unpublish(tcp::tuple(c.local(), c.peer()).hash(arena.index_len()), n);
        match arena.slot(n) {
            Some(s) if c.stage() == Stage::Offered && s.withdraw(generation) => return own.free(n),
            Some(s) => drop(s.leave(generation, Side::Client)),
            None => {}
        }
    }
    own.close(n);
}

fn with_slot(c: &Conn, f: impl FnOnce(Family, usize, u32)) {
    walking(|| {
        let (i, n) = (c.arena.load(Ordering::Relaxed) as usize % ARENAS, c.slot.load(Ordering::Relaxed));
        let (Some(family), Some(arena)) = (state::family(), arena_of(i)) else { return };
        arena.unpublish(tcp::tuple(c.local(), c.peer()).hash(arena.index_len()), n);
        f(family, i, n);
        c.offer.store(0, Ordering::Release);
    });
}
