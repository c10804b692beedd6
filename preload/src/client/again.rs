//! Slots that we left: which of them are free to be used again (PROTOCOLS E11), and what they give back.
//!
//! A server that closes says so in the slot. One whose process ends without a close says nothing, as the children of a server
//! that forks for each connection: then the kernel is asked, a slot or two at a time, by whoever takes a slot or leaves one.

use core::sync::atomic::{AtomicU32, Ordering};

use dp_channel::arena::Arena;
use dp_channel::family::{Family, OwnArena, ARENAS};
use dp_channel::slot::{Side, Slot};
use dp_channel::stream;
use dp_channel::switch::{in_ring, OWN, SHORT};
use dp_channel::tcp;

use super::given;
use crate::{diag, state};

/// So many slots may wait for servers that are about to close: the kernel is asked about none of them.
const MANY: usize = 32;
/// Where there is no slot otherwise: how many are looked at in one call of the program, and how many the kernel is asked about.
const LOOKS: usize = 1024;
pub(super) const QUESTIONS: usize = 64;

/// Minutes after which a slot is free of which the kernel has known nothing for so long, though its server has not read everything: it
/// was killed. One that lives may have a descriptor of a connection that was reset, and read there this late: it finds that the slot
/// is another's, and a reset. One that has half-closed may work through what it was sent for as long as it likes.
const ABANDONED: u32 = 60;

/// Where the next look at an arena begins.
static AT: [AtomicU32; ARENAS] = [const { AtomicU32::new(0) }; ARENAS];

/// Looks at a slot or two of arena `i` that we left, whenever one is taken or left: so those whose servers ended do not
/// become more and more.
pub(super) fn look_in_passing(family: Family, i: usize, arena: &Arena) {
    look(family, i, arena, 2, &mut usize::from(family.arena(i).closings() > MANY));
}

/// Looks at many, where one is needed. `questions`: as many as the kernel is asked at most.
pub(super) fn look_through(family: Family, i: usize, arena: &Arena, questions: &mut usize) {
    look(family, i, arena, LOOKS, questions);
}

/// Frees those of `slots` slots that are free. Each look goes on where the one before has ended.
fn look(family: Family, i: usize, arena: &Arena, slots: usize, questions: &mut usize) {
    let own = family.arena(i);
    for n in own.closing_from(AT[i].load(Ordering::Relaxed)).take(slots) {
        AT[i].store(n + 1, Ordering::Relaxed);
        reclaim(family, i, arena, n, |n| both_left(arena, n) || has_no_server(own, arena, n, questions));
    }
}

/// All spare rings are taken: those of slots that both ends have left, and that were not taken again, are free. What the
/// kernel says of the server's end is not enough: it knows nothing of a connection that is closed on both sides, and whoever
/// has a descriptor of that may still read what is in the ring.
pub(super) fn recover_spares(family: Family, i: usize, arena: &Arena) {
    let Some(spares) = arena.spares() else { return };
    let has_some = |&n: &u32| {
        let ends = [Side::Client, Side::Server].map(|side| arena.edge(n, side));
        ends.into_iter().flatten().any(|e| [e.tx.ring(), e.tx.wants()].iter().any(|&ring| spares.has(ring)))
    };
    for n in family.arena(i).closing().filter(has_some) {
        reclaim(family, i, arena, n, |n| both_left(arena, n));
    }
}

/// Both ends of the connection before are gone: the spare rings they had are free.
pub(super) fn clear(arena: &Arena, n: u32) {
    for e in [Side::Client, Side::Server].iter().filter_map(|&side| arena.edge(n, side)) {
        if let Some(spares) = arena.spares() {
            spares.give_back(e.tx.ring());
            if e.tx.wants() != e.tx.ring() {
                spares.give_back(e.tx.wants());
            }
        }
        e.tx.reset();
    }
}

/// Both ends are through with slot `n`, and it is ours: what its own rings have of memory is given back, if there is much
/// such memory.
pub(super) fn shrink(i: usize, own: &OwnArena, arena: &Arena, n: u32) {
    let grew = [Side::Client, Side::Server].iter().any(|&side| {
        // What ring its sender says it is in, costs its own side when it lies.
        arena.edge(n, side).is_some_and(|e| e.tx.ring() != SHORT)
    });
    if grew {
        own.grew(n);
    }
    if own.shrinks(n) {
        given::with_memory(i, |memory| arena.shrink(memory, n));
    }
}

/// Whether both ends are through with a slot.
pub(super) fn both_left(arena: &Arena, n: u32) -> bool {
    arena.bring(n) && arena.slot(n).is_some_and(Slot::both_left)
}

/// Frees a slot if both ends are through with it, as `over` says once it is ours.
fn reclaim(family: Family, i: usize, arena: &Arena, n: u32, over: impl FnOnce(u32) -> bool) {
    let own = family.arena(i);
    // From here on it is ours, as if for a connection.
    if own.reclaim(n, |n| given::is_current(family, i, arena) && over(n)) {
        shrink(i, own, arena, n);
        clear(arena, n);
        own.free(n);
    }
}

/// Whether the server of a slot that is ours ended without a word. What the kernel says of its socket is not enough: it knows
/// nothing of a connection that is over in both directions, or was reset, and the server may have a descriptor of that. So it
/// must not have said that it ends, and have taken all that we sent, in the ring; if it has the descriptor all the same, it
/// finds that the slot is another's before it takes anything more.
fn has_no_server(own: &OwnArena, arena: &Arena, n: u32, questions: &mut usize) -> bool {
    let gone_for = own.gone_for(n, state::now()).or_else(|| {
        *questions = questions.checked_sub(1)?;
        is_unknown(arena, n).then(|| {
            own.is_gone_now(n, state::now());
            0
        })
    });
    gone_for.is_some_and(|minutes| may_be_over(arena, n, minutes))
}

/// The same of one of which the kernel has known nothing for so many minutes.
fn may_be_over(arena: &Arena, n: u32, minutes: u32) -> bool {
    let [Some(ours), Some(theirs)] = [Side::Client, Side::Server].map(|side| arena.edge(n, side)) else {
        return false;
    };
    let ring = match ours.tx.ring() {
        SHORT => Some(ours.short),
        OWN => Some(ours.own),
        n => arena.spares().and_then(|spares| spares.ring(n)),
    };
    let taken = || in_ring(ours.tx.epoch()) && ring.is_some_and(|r| !stream::waiting(&r, &ours.rx.cursor));
    !theirs.tx.is_ending() && (minutes >= ABANDONED || taken())
}

/// Whether the kernel does not know the server's end of a slot that we left.
fn is_unknown(arena: &Arena, n: u32) -> bool {
    let slot = arena.bring(n).then(|| arena.slot(n)).flatten();
    let Some((slot, (client, server))) = slot.and_then(|s| Some((s, s.ends()?))) else { return false };
    let a = |ip: [u8; 16], port: u16| tcp::Addr { ip, port, scope: 0 };
    let netns = slot.netns.load(Ordering::Relaxed);
    diag::is_gone(a(server.0, server.1), a(client.0, client.1), netns)
}

#[cfg(test)]
mod tests;
