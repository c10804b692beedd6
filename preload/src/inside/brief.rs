//! Which threads are in the rings of a connection for a moment: in the quick ways of sending and receiving, which take no
//! lock before they look, and are to cost nothing. Each leaves a [`dp_channel::limbo::Note`] in its thread's place, for somebody who
//! unmaps rings after a rest.
//!
//! How long it stays does not matter: it may be preempted, wait for a page of the program's buffer, or be interrupted by a
//! signal handler that goes on for hours. One that was left by longjmp, or with its thread, counts no more than a call that
//! was ([`super`]).

use core::sync::atomic::{fence, AtomicU32, Ordering};

use dp_channel::limbo::Note;

use super::{alone, below, is_below, places, CALLS, HOOK, MINE};
use crate::state;

/// Left by the only thread of a process, which has no place: the child of a fork would have to give that back.
static SOLE: Note = Note::new();
/// Threads inside for which there is no place.
static UNPLACED: AtomicU32 = AtomicU32::new(0);

/// Does `f`. Rings that it finds stay mapped meanwhile. Nothing is to be dropped in it: the thread may be ended at any
/// instruction.
#[inline(always)]
pub fn briefly<R>(f: impl FnOnce() -> R) -> R {
    let here = 0u8;
    let frame = &raw const here as u64;
    let Some(note) = mine() else { return unplaced(f) };
    let before = note.leave(frame);
    let result = f();
    note.take_back(if before == 0 { 0 } else { still(before, frame) });
    result
}

/// Where this thread leaves its note. A place that was its own before a fork may be another's by now.
#[inline(always)]
fn mine() -> Option<&'static Note> {
    let (n, tid) = MINE.get();
    match CALLS.get((n as usize).wrapping_sub(1)) {
        Some(place) if place.tid.load(Ordering::Relaxed) == tid => Some(&place.brief),
        _ if alone() => Some(&SOLE),
        _ => claim(),
    }
}

#[cold]
#[inline(never)]
fn claim() -> Option<&'static Note> {
    let tid = state::me() as u32;
    let n = super::claim(tid)?;
    MINE.set((n as u32 + 1, tid));
    Some(&CALLS[n].brief)
}

#[cold]
#[inline(never)]
fn unplaced<R>(f: impl FnOnce() -> R) -> R {
    UNPLACED.fetch_add(1, Ordering::SeqCst);
    let result = f();
    UNPLACED.fetch_sub(1, Ordering::Release);
    result
}

/// What an interrupted call has noted, or 0 if it was left by longjmp.
#[cold]
fn still(before: u64, frame: u64) -> u64 {
    if below(before, frame) {
        before
    } else {
        0
    }
}

/// Whether no thread is in rings that were hidden before a rest. `false`, too, where the caller itself is in a handler that
/// has interrupted one, and where there is doubt.
pub fn nobody_is() -> bool {
    let here = 0u8;
    let here = &raw const here as u64;
    fence(Ordering::SeqCst);
    // The only thread is the caller; where there are others by now, it may be any.
    let sole = SOLE.frame_after_a_rest();
    UNPLACED.load(Ordering::Acquire) == 0
        && (sole == 0 || alone() && !below(sole, here + HOOK))
        && places().iter().all(|place| {
            let frame = place.brief.frame_after_a_rest();
            frame == 0 || !is_below(place, frame, here)
        })
}

/// In a forked child, before its parent's places are given back.
pub(super) fn inherited() {
    state::clear(&UNPLACED);
    places().iter().for_each(|place| place.brief.take_back(0));
}
