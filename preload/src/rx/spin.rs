//! Looking before sleeping: where another processor runs the peer, and as long as it has paid.

use core::sync::atomic::{AtomicU32, Ordering};

use dpfd::family::Conn;
use dpfd::look;

use super::hint;
use crate::channel::{self, End};
use crate::state;

/// Whether looking before sleeping can pay: another CPU runs the peer.
#[inline]
pub fn may_spin(c: &Conn, rx: &End) -> bool {
    if state::CPUS.load(Ordering::Relaxed) < 2 || c.armed_by.load(Ordering::Relaxed) != 0 {
        return false;
    }
    let mine = state::cpu();
    // Plain stores: each side keeps its own number up to date, and only when it changed.
    if rx.rx.cpu.load(Ordering::Relaxed) != mine {
        rx.rx.cpu.store(mine, Ordering::Relaxed);
    }
    let theirs = rx.tx.cpu.load(Ordering::Relaxed);
    theirs != 0 && theirs != mine
}

/// Spins while nothing is there; true when something came. Adapts to how often that helps.
pub(super) fn look_a_while(c: &Conn) -> bool {
    let rx = channel::receiving(c);
    // The end of the stream comes through the kernel, and no looking finds it there.
    if rx.tx.is_ending() || !may_spin(c, &rx) {
        return false;
    }
    let budget = spin_budget(c);
    if budget == 0 {
        return false;
    }
    // Not while an epoll set relies on the kernel's readiness: then senders must go on ringing.
    if c.watched.load(Ordering::Relaxed) == 0 {
        rx.word.heat();
    }
    spin_and_learn(c, budget, || hint(c, &rx) || rx.tx.is_ending())
}

/// How long a look may take, by the connection's record; 0: not this time.
pub fn spin_budget(c: &Conn) -> u32 {
    let longest = state::SPIN.load(Ordering::Relaxed);
    let budget = c.rx_spin.load(Ordering::Relaxed).min(longest);
    if budget == 0 {
        c.rx_spin.store(look::again(longest), Ordering::Relaxed);
    }
    budget
}

/// Spins for `budget` nanoseconds at most, and keeps in the connection's record whether that helped.
pub fn spin_and_learn(c: &Conn, budget: u32, f: impl FnMut() -> bool) -> bool {
    let longest = state::SPIN.load(Ordering::Relaxed);
    let hit = spin_until(budget, f);
    c.rx_spin.store(look::learned(budget, hit, longest), Ordering::Relaxed);
    hit
}

/// Threads that look at connections which others may close meanwhile.
static LOOKERS: AtomicU32 = AtomicU32::new(0);

/// Does `f`, which looks at connections without a lock. What they are in stays mapped until it is done.
pub fn looking<R>(f: impl FnOnce() -> R) -> R {
    // Before the first look; whoever unmaps has made sure that none is found live, then looks here.
    LOOKERS.fetch_add(1, Ordering::SeqCst);
    let result = f();
    LOOKERS.fetch_sub(1, Ordering::SeqCst);
    result
}

/// Whether no thread looks now. For somebody who unmaps what none can find any more.
pub fn nobody_looks() -> bool {
    LOOKERS.load(Ordering::SeqCst) == 0
}

/// Looks until `f` holds or `budget` nanoseconds are over.
#[inline]
pub fn spin_until(budget: u32, mut f: impl FnMut() -> bool) -> bool {
    for _ in 0..64 {
        if f() {
            return true;
        }
        core::hint::spin_loop();
    }
    let end = state::now() + u64::from(budget);
    loop {
        for _ in 0..64 {
            if f() {
                return true;
            }
            core::hint::spin_loop();
        }
        if state::now() >= end {
            return false;
        }
    }
}
