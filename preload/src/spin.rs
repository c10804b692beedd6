//! Spinning before sleeping: where another processor runs the peer, and as long as it has paid.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use dp_channel::family::{Conn, End, Stage};
use dp_edge::spin::{self as pace, Pace};
use dp_edge::sys::raw;

use crate::state;

/// Whether spinning before sleeping can pay: another CPU runs the peer.
#[inline]
pub fn can_pay(c: &Conn, rx: &End) -> bool {
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

/// How long a spin for this connection may take at most, ns.
pub fn longest(c: &Conn) -> u32 {
    let own = if state::spins_differ() { c.longest_spin() } else { None };
    own.unwrap_or_else(|| state::SPIN.load(Ordering::Relaxed))
}

/// How long a spin may take, by the connection's record; 0: not this time.
pub fn budget(c: &Conn) -> u32 {
    begin(&c.rx_spin, longest(c))
}

/// The same by any record.
pub fn begin(record: &AtomicU32, longest: u32) -> u32 {
    let word = record.load(Ordering::Relaxed);
    let mut pace = Pace::unpack(word);
    let budget = pace.begin(longest);
    if pace.pack() != word {
        record.store(pace.pack(), Ordering::Relaxed);
    }
    budget
}

/// Spins for `budget` nanoseconds at most, and keeps in the connection's record whether that helped.
pub fn and_learn(c: &Conn, budget: u32, f: impl FnMut() -> bool) -> bool {
    learning(&c.rx_spin, budget, longest(c), f)
}

/// The same by any record.
pub fn learning(record: &AtomicU32, budget: u32, longest: u32, mut f: impl FnMut() -> bool) -> bool {
    let mut pace = Pace::unpack(record.load(Ordering::Relaxed));
    if pace.tries() && others_have_work() {
        // Another time: who did not spin has found nothing out.
        return f();
    }
    let hit = pace.spin(budget, longest, state::now, || yielding(budget, f));
    record.store(pace.pack(), Ordering::Relaxed);
    hit
}

/// Whoever waits for the connection looks by itself from here on, and needs no bell; unless somebody relies on the kernel's
/// readiness, an epoll set or a relative: then senders must go on ringing.
pub fn heat(c: &Conn) {
    let relied_on = || c.watched.load(Ordering::SeqCst) != 0 || c.armed_by.load(Ordering::SeqCst) != 0;
    if relied_on() {
        return;
    }
    let word = c.receiving().word;
    word.make_hot();
    // Who has just begun to counted itself first, and found the word cold, perhaps: one of us sees the other.
    // Where that was a set, and it has made the word hot since, the group is its own. And a poll is in no call on the connection, so
    // that may have been closed, and its slot be another's: whose set finds the word cold, too, and relies on bells.
    let is_over =
        || !matches!(c.stage(), Stage::Accepted | Stage::Live) || !core::ptr::eq(c.receiving().word, word);
    if relied_on() || is_over() {
        word.make_cold_beside();
    }
}

/// Sleeps in a row that may end for nothing before a rest.
pub const IN_VAIN: u32 = 16;
/// As many of them, and a tenth of a second of rests: whoever was to wake does not.
pub const LONG_IN_VAIN: u32 = 7 * IN_VAIN;
/// The first rests, and the longest, ns.
const REST_FIRST: u32 = 100_000;
const REST_LAST: u32 = 10_000_000;

/// The kernel has ended a sleep for nothing, for the `n`th time in a row: there lies a bell that another thread, which it tells, is
/// about to take. Whoever leaves it there, or says so, a peer perhaps, must not keep a processor busy.
pub fn rest_in_vain(n: u32) {
    if let Some(more) = n.checked_sub(IN_VAIN) {
        raw::nap((REST_FIRST << (more / 16).min(7)).min(REST_LAST));
    }
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

/// In a forked child: the threads that looked are the parent's.
pub fn inherited() {
    state::clear(&LOOKERS);
}

/// A yield that lasts longer gave the processor to somebody, ns.
const SOMEBODY_RAN: u64 = 8_000;
/// Until when nobody of this process spins, by `state::now()`; 0: spins are free.
static RESTS_UNTIL: AtomicU64 = AtomicU64::new(0);
/// [`pace::rested`]: how long the last such rest was, less a little for each spin since that took nobody's time.
static REST: AtomicU64 = AtomicU64::new(0);

/// Whether somebody else wanted the processor lately while we spun.
#[inline]
fn others_have_work() -> bool {
    let until = RESTS_UNTIL.load(Ordering::Relaxed);
    until != 0 && state::now() < until
}

/// A spin was over at `now`: `taken` from somebody who was ready to run, or from nobody. Threads may lose each other's
/// stores here: it is a measure, not a count.
fn learn_whose_time(taken: bool, now: u64) {
    let before = REST.load(Ordering::Relaxed);
    let rest = pace::rested(before, taken);
    if rest != before {
        REST.store(rest, Ordering::Relaxed);
    }
    if taken {
        RESTS_UNTIL.store(now + rest, Ordering::Relaxed);
    }
}

/// Spins until `f` holds or `budget` nanoseconds are over, in time that nobody else needs (W19): from the first
/// microsecond on whoever is ready to run on this processor goes first, and once somebody did, a spin is not worth its
/// price for a while.
pub fn yielding(budget: u32, mut f: impl FnMut() -> bool) -> bool {
    if others_have_work() {
        return f();
    }
    let mut polls = || {
        (0..64).any(|_| {
            let there = f();
            if !there {
                core::hint::spin_loop();
            }
            there
        })
    };
    if polls() {
        return true;
    }
    let mut now = state::now();
    let end = now + u64::from(budget);
    while now < end {
        raw::yield_now();
        let back = state::now();
        if back - now > SOMEBODY_RAN {
            learn_whose_time(true, back);
            return polls();
        }
        if polls() {
            learn_whose_time(false, back);
            return true;
        }
        now = state::now();
    }
    learn_whose_time(false, now);
    false
}

/// Spins until `f` holds or `budget` nanoseconds are over, whoever else wants the processor.
#[inline]
pub fn until(budget: u32, mut f: impl FnMut() -> bool) -> bool {
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
