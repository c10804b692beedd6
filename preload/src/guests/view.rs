//! A guest's memory as its server reads it, mapped or not.

use core::sync::atomic::Ordering;

use dp_channel::arena::{Arena, Geometry};
use dp_channel::slot::Slot;
use dp_channel::unmapped::Unmapped;

use super::room::has_share;

/// A guest as it can be looked at.
pub(super) enum View {
    /// Of this user.
    Mapped(Arena, u32),
    Unmapped(Unmapped<'static>),
}

/// Slot `n` of an arena of user `uid`, which has proven itself before: mapped now if need be.
pub(super) fn slot(arena: &Arena, uid: u32, n: u32) -> Option<&'static Slot> {
    let there = match arena.more_for(n) {
        0 => true,
        more => has_share(uid, 0, more) && arena.bring(n),
    };
    arena.slot(n).filter(|_| there)
}

impl View {
    pub(super) fn geometry(&self) -> Geometry {
        match self {
            View::Mapped(arena, _) => arena.geometry(),
            View::Unmapped(memory) => memory.geometry(),
        }
    }

    /// What `look` makes of slot `n`.
    pub(super) fn slot<R>(&self, n: u32, look: impl FnOnce(&Slot) -> Option<R>) -> Option<R> {
        match self {
            View::Mapped(arena, uid) => look(slot(arena, *uid, n)?),
            View::Unmapped(memory) => look(&memory.slot(n).ok()?),
        }
    }

    pub(super) fn find<R>(&self, hash: usize, mut look: impl FnMut(u32) -> Option<R>) -> Option<R> {
        match self {
            View::Mapped(arena, _) => arena.candidates(hash).find_map(&mut look),
            View::Unmapped(memory) => memory.candidates(hash).find_map(&mut look),
        }
    }

    pub(super) fn challenge(&self, n: u32, challenge: u64) -> bool {
        match self {
            View::Mapped(arena, uid) => slot(arena, *uid, n).is_some_and(|s| {
                // Release: our socket shows its number before the client is told to look.
                s.challenge.store(challenge, Ordering::Release);
                true
            }),
            View::Unmapped(memory) => memory.challenge(n, challenge).is_ok(),
        }
    }
}
