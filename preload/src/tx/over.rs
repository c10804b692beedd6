//! Over to a longer ring, where a stream has outgrown its own (PROTOCOLS E5, E7; `edge/spare.rs`).

use core::sync::atomic::Ordering;

use dpfd::edge::ring::Lines;
use dpfd::edge::spare::{self, Spares, STREAM, WINDOW};
use dpfd::family::Conn;
use dpfd::share;
use dpfd::sys::raw;

use super::{hand_back, to_ring, NAP, NAPS};
use crate::channel::End;
use crate::rx::spin_until;
use crate::state;

/// A stream sends its bytes ([`spare::STREAM`]) in sends of several tokens, or with the ring full so often meanwhile.
const FULLS: u32 = 32;

/// The arena's longer rings, if they are no longer than our own: their memory would be ours.
fn spares(tx: &End) -> Option<Spares> {
    let own = state::SPARE_LINES.load(Ordering::Relaxed);
    tx.spares().filter(|all| share::may_go_over(all.lines(), own.into()))
}

/// The ring is full: whether it is too short for what goes through it, and there is a longer one.
#[cold]
pub(super) fn outgrown(c: &Conn, tx: &End, sent: usize) -> bool {
    if c.has(Conn::OUTGROWN | Conn::SHORT) || tx.tx.spare() != 0 {
        return false;
    }
    let [since, bytes] = &c.full_since;
    let now = state::now();
    let all = c.tx_bytes.load(Ordering::Relaxed).wrapping_add(sent as u64);
    if now.saturating_sub(since.load(Ordering::Relaxed)) > WINDOW {
        since.store(now, Ordering::Relaxed);
        bytes.store(all, Ordering::Relaxed);
        c.fulls.store(0, Ordering::Relaxed);
    }
    let fulls = c.fulls.load(Ordering::Relaxed).saturating_add(1);
    c.fulls.store(fulls, Ordering::Relaxed);
    // A sender that died had counted bytes here that are not in the sum yet.
    if fulls < FULLS || all.saturating_sub(bytes.load(Ordering::Relaxed)) < STREAM {
        return false;
    }
    // If nothing comes of it, it begins anew.
    since.store(0, Ordering::Relaxed);
    spares(tx).is_some_and(|spares| spares.any_free())
}

/// A send of several tokens begins: whether what goes through the ring is a stream, and there is a longer one. Its receiver
/// may be as fast as its sender, and the ring never full: then each line of it goes from core to core twice.
/// The clock is looked at once for so many bytes.
#[inline]
pub(super) fn is_stream(c: &Conn, tx: &End) -> bool {
    let all = c.tx_bytes.load(Ordering::Relaxed);
    all.saturating_sub(c.full_since[1].load(Ordering::Relaxed)) >= STREAM && carries_a_stream(c, tx, all)
}

#[cold]
fn carries_a_stream(c: &Conn, tx: &End, all: u64) -> bool {
    let [since, bytes] = &c.full_since;
    let (now, began) = (state::now(), since.load(Ordering::Relaxed));
    let sent = all.saturating_sub(bytes.load(Ordering::Relaxed));
    since.store(now, Ordering::Relaxed);
    bytes.store(all, Ordering::Relaxed);
    c.fulls.store(0, Ordering::Relaxed);
    began != 0
        && spare::is_stream(sent, now.saturating_sub(began))
        && tx.tx.spare() == 0
        && !c.has(Conn::OUTGROWN | Conn::SHORT)
        // Who sleeps would not follow: nobody wakes him to an empty ring.
        && tx.word.is_hot()
        && !tx.word.has_sleepers()
        && spares(tx).is_some_and(|spares| spares.any_free())
}

/// How long a sender waits for its receiver to follow, ns: it has a ring to empty.
const FOLLOW: u32 = 200_000;

/// Over to a longer ring, by way of TCP: only while this one is empty, and its receiver knows that it ends, is there a
/// moment for that. Nothing need be sent on TCP. False: the receiver did not follow soon, the direction is on TCP, and goes
/// over when it returns to a ring.
#[cold]
pub(super) fn over(fd: i32, c: &Conn, tx: &End, blocking: bool) -> bool {
    c.set(Conn::OUTGROWN);
    hand_back(fd, c, tx);
    let followed = || tx.rx.caught_up(tx.tx);
    let elsewhere =
        tx.rx.cpu.load(Ordering::Relaxed) != state::cpu() && state::CPUS.load(Ordering::Relaxed) > 1;
    let soon = elsewhere && spin_until(FOLLOW, followed)
        || blocking
            && (0..NAPS).any(|_| {
                raw::nap(NAP);
                followed()
            });
    soon && to_ring(fd, c, tx)
}

/// Between two ring epochs: the next is in a longer ring, if that can be had. The receiver has taken all that was in
/// this one. Under the lock.
#[cold]
pub(super) fn go_over(c: &Conn, tx: &End) {
    c.clear(Conn::OUTGROWN);
    let Some((spares, n)) = spares(tx).and_then(|spares| Some((spares, spares.claim()?))) else { return };
    // Having memory takes a while, in which this process can be killed.
    c.claimed.store(n, Ordering::Relaxed);
    match spares.ring(n).filter(|_| spares.populate(n)) {
        Some(ring) => {
            ring.header(c.tail().pos).store(0, Ordering::Relaxed);
            tx.tx.go_over(n);
            c.set(Conn::LONG);
        }
        None => {
            // Before it is another's: who finds us dead must not take it from him.
            c.claimed.store(0, Ordering::SeqCst);
            spares.give_back(n);
            c.set(Conn::SHORT);
        }
    }
    c.claimed.store(0, Ordering::Relaxed);
}
