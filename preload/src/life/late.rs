//! Connections that end while a thread still is in the middle of a send or a receive there (PROTOCOLS L9).
//!
//! A close waits for that ([`super::in_one_step`]), but not for ever: the memory that the program sends may have to be fetched
//! from a disk, or the thread gets no processor. What such a thread then does is to be done to the connection that it
//! means, and not to another one in the same entry or slot. So both stay as they are, and the process stays their holder, until a
//! later connection's beginning or end finds that the thread is through; or until the process is gone (`dead.rs`).

use core::sync::atomic::{AtomicU32, Ordering};

use dp_channel::family::{Conn, Family, Held, Lock};
use dp_edge::sys::raw;

use super::{let_go, Whose, TRIES, TRY};
use crate::state;

/// Entries of this process that were kept and not given back since; a look gives back what it can.
static KEPT: AtomicU32 = AtomicU32::new(0);

/// Member `n` has connection `i` no more. If it was the last one the entry goes back, and the slot too. False: both are kept,
/// with a holder who looks again.
pub(super) fn release(family: Family, i: u32, n: u32, whose: Whose) -> bool {
    release_within(family, i, n, whose, TRIES)
}

fn release_within(family: Family, i: u32, n: u32, whose: Whose, tries: u32) -> bool {
    !family.holders(family.conn(i)).remove(n) || end_within(family, i, n, whose, tries)
}

/// The reserved member `n`, which nobody became, has connection `i` no more.
pub fn release_reserved(family: Family, i: u32, n: u32) {
    release(family, i, n, Whose::Ours);
}

/// Nobody has connection `i` any more, and member `n` is the one who has found that.
pub(super) fn end(family: Family, i: u32, n: u32, whose: Whose) -> bool {
    end_within(family, i, n, whose, TRIES)
}

fn end_within(family: Family, i: u32, n: u32, whose: Whose, tries: u32) -> bool {
    let c = family.conn(i);
    let gone = let_go(family, i, c, whose, tries);
    if !gone {
        let ours = state::member_if_joined().filter(|_| whose == Whose::Ours);
        if ours.is_some() {
            c.set(Conn::KEPT);
            KEPT.fetch_add(1, Ordering::Relaxed);
        }
        family.holders(c).add(ours.unwrap_or(n));
    }
    gone
}

/// Gives back what was kept and is over by now. Costs nothing where nothing was kept.
pub fn look_again() {
    if KEPT.load(Ordering::Relaxed) == 0 || KEPT.swap(0, Ordering::Relaxed) == 0 {
        return;
    }
    let (Some(family), Some(me)) = (state::family(), state::member_if_joined()) else { return };
    let kept = |c: &Conn| c.has(Conn::KEPT) && family.holders(c).has(me);
    for i in family.used().filter(|&i| kept(family.conn(i))) {
        release_within(family, i, me, Whose::Ours, 0);
    }
}

/// Takes both of the connection's locks, each within so many tries, so that nobody is in what they guard. False: somebody
/// is, and none is taken.
pub(super) fn take_locks(family: Family, c: &Conn, tries: u32) -> bool {
    let Some(held) = take(&c.tx_lock, family, tries) else { return false };
    let both = take(&c.rx_lock, family, tries).is_some();
    if !both {
        c.tx_lock.unlock_as_it_was(held);
    }
    both
}

/// How the lock was got, if it was.
fn take(lock: &Lock, family: Family, tries: u32) -> Option<Held> {
    let me = state::me();
    for turn in 0..tries {
        if lock.try_lock(me) {
            return Some(Held::Clean);
        }
        match turn {
            0..20 => core::hint::spin_loop(),
            20 => match lock.lock_at_once(me, family) {
                // This is a handler in the middle of it: that goes on when the handler is over.
                Some(Held::Mine) => return None,
                None => {}
                held => return held,
            },
            _ => raw::nap(TRY),
        }
    }
    lock.lock_at_once(me, family).filter(|&held| held != Held::Mine)
}
