//! What this process owes to TCP ([`Conn::OWES`]) on connections that it only waits for: each call on such a connection puts more there,
//! and a wait in which nothing comes makes none. So while there may be such connections, waits look after them now and then. Who
//! takes what is owed need not send anything before all of it is there.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use dp_channel::family::{Conn, Stage};

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

/// There is one.
pub(super) fn note() {
    ANY.store(true, Ordering::Relaxed);
}

/// How long a wait sleeps that has so much time, ns; negative: for ever.
#[inline]
pub fn limits(rest: i64) -> i64 {
    if ANY.load(Ordering::Relaxed) && !(0..LOOK).contains(&rest) {
        LOOK
    } else {
        rest
    }
}

/// Before a wait, and behind its sleeps: puts on TCP what goes there by now.
#[inline]
pub fn look_after() {
    if ANY.load(Ordering::Relaxed) {
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
    // Before the look: what another thread begins to owe meanwhile is seen by the next one.
    ANY.store(false, Ordering::Relaxed);
    fdtable::each(|fd, entry| {
        let Entry::Conn(i) = entry else { return };
        let c = Channel::new(family, fd, i);
        let owes = || c.stage() == Stage::Live && c.has(Conn::OWES);
        if owes() {
            briefly(|| c.follow_if_left());
            if owes() {
                note();
            }
        }
    });
}

#[cfg(test)]
mod tests;
