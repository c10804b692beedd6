//! What processes had that ended without a word: `_exit`, a signal, an executed program (PROTOCOLS E11, L3).
//!
//! Nobody waits for them. Their places among the members, and connections that nobody else has, are given back by
//! whoever of the family looks next: at each [`OFTEN`]th fork and with each [`OFTEN`]th connection that goes beyond all
//! before, briefly; when places or entries have run out, thoroughly. What else has the socket keeps it, and nothing ends.

use core::sync::atomic::{AtomicU64, Ordering};

use dp_channel::family::Family;

use super::{late, Whose};
use crate::state;

/// See the module.
const OFTEN: u32 = 64;
/// A thorough look reads a file for each process, so there is at most one in this time, ns, by each of them.
const PAUSE: u64 = 100_000_000;
static LOOKED: AtomicU64 = AtomicU64::new(0);

/// Before a fork: now and then.
pub fn at_a_fork(family: Family) {
    if family.header().forks.fetch_add(1, Ordering::Relaxed) % OFTEN == OFTEN - 1 {
        clear(family, false);
    }
}

/// Entry `i` was never used before: now and then.
pub fn at_a_new_entry(family: Family, i: u32) {
    if i % OFTEN == OFTEN - 1 {
        clear(family, false);
    }
}

/// Gives back what ended members had. A brief look overlooks those whose parents have not asked for them yet, and those
/// whose number is another process's by now.
pub fn clear(family: Family, thorough: bool) {
    let now = if thorough { state::now() } else { 0 };
    let thorough = thorough && now - LOOKED.load(Ordering::Relaxed).min(now) >= PAUSE;
    if thorough {
        LOOKED.store(now, Ordering::Relaxed);
    }
    // One at a time: nobody else may give a place away while its marks are taken from the connections. If this one ends
    // meanwhile, the next begins anew.
    let lock = &family.header().clearing;
    if !lock.try_lock(state::me()) && !lock.take_from_dead(state::me(), family) {
        return;
    }
    for n in family.members_used() {
        let member = family.member(n as usize);
        let pid = member.pid();
        if pid == 0 || !(if thorough { !member.alive() } else { member.is_gone() }) {
            continue;
        }
        let mut through = true;
        for i in family.used() {
            through &= late::release(family, i, n, Whose::Another);
        }
        if through {
            member.leave(pid);
        }
    }
    lock.unlock();
}
