//! What this process owes to TCP ([`Conn::OWES`]) on connections that it only waits for: each call on such a connection puts more there,
//! and a wait in which nothing comes makes none. So while there may be such connections, waits for a descriptor look after them now and
//! then. Who takes what is owed need not send anything before all of it is there.
//!
//! A thread that has slept since before there was something is woken ([`WAKES`]): the one that began to owe may go elsewhere, as a worker
//! does that waits for the next piece of work. Not all can be: not who sleeps in a poll or select of what is no channel, or of more than a
//! few, or of channels that are in an epoll set, too, or beside sixteen more; nor in a set that was inherited by a fork, or that a
//! relative has begun to use; they look when they are awake for any other reason, where a channel is in the list or set after 64
//! seconds at the latest. And [`ANY`] is one process's: a relative hears of what another one owes when it uses the
//! connection, or polls it.

use core::sync::atomic::{fence, AtomicBool, AtomicU64, Ordering};
use std::sync::OnceLock;

use dp_channel::family::{Conn, Family, Stage};

use crate::channel::Channel;
use crate::fdtable::{self, Entry};
use crate::inside::brief::briefly;
use crate::state;

/// How long a wait may sleep meanwhile, ns.
const LOOK: i64 = 1_000_000_000;
/// A program that waits more often looks as often as that, ns.
const REST: u64 = 100_000_000;

/// Whether there may be some, and when they were last looked after.
static ANY: AtomicBool = AtomicBool::new(false);
static LOOKED: AtomicU64 = AtomicU64::new(0);

/// What wakes this process's threads that sleep in epoll_wait, poll and select. Those stand on what is here.
pub static WAKES: OnceLock<fn()> = OnceLock::new();

/// There is one.
pub(super) fn note() {
    // It is written once more: whoever takes the flag back sees what was said before.
    if ANY.swap(true, Ordering::AcqRel) {
        return;
    }
    // Whoever says later that he sleeps asks again for how long.
    fence(Ordering::SeqCst);
    if let Some(wake) = WAKES.get() {
        wake();
    }
}

/// Whether there may be some, so that a wait must not sleep for long.
#[inline]
pub fn is_any() -> bool {
    ANY.load(Ordering::Relaxed)
}

/// How long a wait sleeps that has so much time, ns; negative: for ever.
#[inline]
pub fn limits(rest: i64) -> i64 {
    if is_any() && !(0..LOOK).contains(&rest) {
        LOOK
    } else {
        rest
    }
}

/// Before a wait, and behind its sleeps: puts on TCP what goes there by now.
#[inline]
pub fn look_after() {
    if is_any() {
        look_after_all();
    }
}

#[cold]
fn look_after_all() {
    let (now, Some(family)) = (state::now(), state::family()) else { return };
    if now.saturating_sub(LOOKED.load(Ordering::Relaxed)) < REST {
        return;
    }
    LOOKED.store(now, Ordering::Relaxed);
    if pay(family) {
        return;
    }
    // A thread that falls asleep in the meantime sleeps for as long as it likes, so it is taken back only where nothing was found. Then
    // once more: what another thread began to owe before that is seen by this look, or has said so since.
    ANY.swap(false, Ordering::AcqRel);
    if pay(family) {
        note();
    }
}

/// Puts on TCP what goes there by now; whether something is left.
fn pay(family: Family) -> bool {
    let mut left = false;
    fdtable::each(|fd, entry| {
        let Entry::Conn(i) = entry else { return };
        let c = Channel::new(family, fd, i);
        let owes = || c.stage() == Stage::Live && c.has(Conn::OWES);
        if owes() {
            briefly(|| c.follow_if_left());
            left |= owes();
        }
    });
    left
}

#[cfg(test)]
mod tests;
