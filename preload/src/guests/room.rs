//! Room for guests: whose share is used up, and which of them gives way.

use core::sync::atomic::{AtomicUsize, Ordering};

use dp_channel::arena::Arena;
use dp_channel::family::{Conn, Family};
use dp_edge::sys::raw;

use super::{alone, Guest, ADDRESSES, GUESTS, HIGH, MET, RETIRED, SHARE, UNPROVEN, UNPROVEN_OF_ONE};
use crate::state;

/// Whether user `uid` may have so many guests more, and so many bytes of our addresses.
pub(super) fn has_share(uid: u32, guests: usize, more: usize) -> bool {
    let mapped = || MET.iter().filter(|g| g.arena.load(Ordering::Relaxed) != 0);
    let theirs = || mapped().filter(|g| g.uid.load(Ordering::Relaxed) == uid);
    let bytes: usize = theirs().filter_map(Guest::arena).map(|a| a.addresses()).sum();
    theirs().count() + guests <= SHARE && bytes + more <= ADDRESSES
}

/// Descriptors of guests that were mapped meanwhile; one thread that walks is the caller.
pub(super) fn close_mapped() {
    for g in &MET {
        if g.arena.load(Ordering::Relaxed) != 0 && g.fd.load(Ordering::Relaxed) >= 0 && alone() {
            g.close();
        }
    }
}

/// A free place for a guest of user `uid`. Where too many have proven nothing yet, the oldest of them goes.
pub(super) fn place(uid: u32) -> Option<usize> {
    let unproven = || {
        let waits = |g: &Guest| g.arena.load(Ordering::Relaxed) == 0 && g.fd.load(Ordering::Relaxed) >= 0;
        MET.iter().enumerate().filter(move |(_, g)| waits(g))
    };
    let theirs = |g: &Guest| g.uid.load(Ordering::Relaxed) == uid;
    let age = |(_, g): &(usize, &Guest)| g.since.load(Ordering::Relaxed);
    let oldest = if unproven().filter(|(_, g)| theirs(g)).count() >= UNPROVEN_OF_ONE {
        unproven().filter(|(_, g)| theirs(g)).min_by_key(age)
    } else if unproven().count() >= UNPROVEN {
        unproven().min_by_key(age)
    } else {
        None
    };
    if let Some((i, g)) = oldest {
        if !alone() {
            return None;
        }
        g.close();
        return Some(i);
    }
    let free = || MET.iter().position(|g| !g.in_use());
    free().or_else(|| matches!(bury(None), Buried::One).then(free).flatten())
}

/// Whether there is room now.
pub(super) enum Buried {
    /// One arena was taken away.
    One,
    /// Connections of ours are in all of them.
    None,
    /// One could be, but another thread looks.
    NotNow,
}

/// Whether a connection of ours is in the arena.
pub(super) fn is_used(arena: &Arena, c: &Conn) -> bool {
    arena.holds(c.offer.load(Ordering::Acquire) as usize)
}

/// Makes room: takes away an arena in which no connection of ours is left, of user `uid` if given; it is unmapped later. That
/// of a dead client if there is one. A living one says hello again when it finds that nobody takes its offers.
pub(super) fn bury(uid: Option<u32>) -> Buried {
    let Some(family) = state::family() else { return Buried::None };
    let mut best: Option<(bool, u64, &Guest)> = None;
    for g in &MET {
        let Some(arena) = g.arena() else { continue };
        if uid.is_some_and(|uid| uid != g.uid.load(Ordering::Relaxed)) || has_connection(family, &arena) {
            continue;
        }
        let pid = g.pid.load(Ordering::Relaxed);
        let lives = pid == 0 || raw::probe_process(pid) != Err(libc::ESRCH);
        let this = (lives, g.since.load(Ordering::Relaxed), g);
        if best.is_none_or(|(l, since, _)| (this.0, this.1) < (l, since)) {
            best = Some(this);
        }
    }
    let Some((_, _, g)) = best else { return Buried::None };
    RETIRED.unmap(family, is_used);
    if put_away(g) {
        Buried::One
    } else {
        Buried::NotNow
    }
}

/// Takes away the arena of a guest in which nobody is; it is unmapped later. False: not now.
fn put_away(g: &Guest) -> bool {
    if !RETIRED.has_room() {
        return false;
    }
    let p = g.arena.swap(0, Ordering::SeqCst);
    // One walker is the caller itself, on its way to look again from the start.
    if !alone() {
        // Another may have read the address just before, and go into it; put it back, try another time.
        g.arena.store(p, Ordering::SeqCst);
        return false;
    }
    g.close();
    RETIRED.put(p);
    true
}

/// Whether a connection of ours is in the arena.
fn has_connection(family: Family, arena: &Arena) -> bool {
    let used = family.used().any(|n| is_used(arena, family.conn(n)));
    used
}

/// So many guests are looked at with each hello.
const LOOKS: usize = 2;

/// Takes away arenas of clients that are gone. What they have of memory is ours as long as they are mapped here, and nobody
/// else's.
pub(super) fn put_away_those_gone(family: Family) {
    static AT: AtomicUsize = AtomicUsize::new(0);
    let high = HIGH.load(Ordering::Acquire).min(GUESTS);
    let from = AT.load(Ordering::Relaxed);
    let mapped = |k: &usize| MET[*k].arena.load(Ordering::Relaxed) != 0;
    for k in (from..from + high).map(|k| k % high).filter(mapped).take(LOOKS) {
        AT.store(k + 1, Ordering::Relaxed);
        let g = &MET[k];
        if g.is_gone() && g.arena().is_some_and(|arena| !has_connection(family, &arena)) {
            put_away(g);
        }
    }
}
