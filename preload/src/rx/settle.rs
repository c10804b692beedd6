//! Before a wait, or an EAGAIN: arm, look again, drain what was counted (PROTOCOLS W4, W5, W11).

use core::sync::atomic::Ordering;

use dp_channel::family::{Conn, Family};
use dp_channel::stream;
use dp_channel::switch::in_ring;
use dp_edge::sys::raw;

use super::broken;
use super::epoch::{catch_up, drain, locked, SWITCHES};
use crate::channel::{self, End};
use crate::lost;
use crate::socket::{self, Kernel};
use crate::tx;

/// Most bells that are taken at once; an honest peer has one or two out.
const MANY_BELLS: usize = 64;

/// What [`settle`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// Something to step for.
    News,
    /// Nothing; a new byte will be a new bell.
    Quiet,
    /// End of file.
    Eof,
    /// A pending error, still the kernel's.
    Err,
    /// Not known, nothing done: a signal handler inside a receive of its own thread asks.
    Busy,
}

/// Before a wait, or an EAGAIN: arm, look again, drain what was counted before (W4).
///
/// `arm` is false for an edge that stays hot: then only stale bells are drained.
pub fn settle(family: Family, fd: i32, c: &Conn, arm: bool) -> Settled {
    settle_and(family, fd, c, arm, true)
}

/// Before a sleep in the kernel, which then tells of FIN and errors itself.
pub fn settle_unasked(family: Family, fd: i32, c: &Conn) -> Settled {
    settle_and(family, fd, c, true, false)
}

/// The same; without `ask`, the kernel is not asked for FIN or error: the caller's sleep finds out.
pub(super) fn settle_and(family: Family, fd: i32, c: &Conn, arm: bool, ask: bool) -> Settled {
    let rx = channel::receiving(c);
    let settled = locked(family, fd, c, || settle_locked(fd, c, &rx, arm, ask)).unwrap_or(Settled::Busy);
    // A bell that was drained may have been the one that says so.
    tx::left::follow_if_left(family, fd, c);
    settled
}

fn settle_locked(fd: i32, c: &Conn, rx: &End, arm: bool, ask: bool) -> Settled {
    let ringing =
        || in_ring(c.rx_epoch.load(Ordering::Relaxed)) && stream::waiting(&rx.ring(), &rx.rx.cursor);
    for _ in 0..SWITCHES {
        if !catch_up(fd, c, rx) {
            break; // the next step finds out
        }
        let r = c.rx_epoch.load(Ordering::Relaxed);
        let ring = in_ring(r);
        // The bell that is out is what says so to whoever waits, and the next byte needs no other.
        if arm && ring && bells_out(c, rx) && ringing() {
            return Settled::News;
        }
        // Counted before arming; what is counted now came before the epoch is looked at again below.
        let there = if ring { bells_here(fd, c, rx, r) } else { raw::queued(fd).unwrap_or(0) };
        if arm {
            rx.word.arm();
        }
        if ringing() {
            if arm && there > 0 {
                rx.word.unarm();
            } else if !arm && there > 0 && !rx.tx.moved(r) && !rx.word.has_sleepers() {
                // Somebody asleep in the kernel must still find it readable (W4).
                drain(fd, c, there);
            }
            return Settled::News;
        }
        if rx.tx.moved(r) {
            if !catch_up(fd, c, rx) || c.rx_epoch.load(Ordering::Relaxed) != r {
                continue;
            }
            // Bytes of this epoch wait in the kernel, or are still on their way, or will never come.
            let ended = ask && matches!(socket::state(fd), Kernel::Fin | Kernel::Error);
            return if there > 0 || ended { Settled::News } else { Settled::Quiet };
        }
        let bells = if ring {
            there
        } else {
            let before =
                c.rx_data.load(Ordering::Relaxed).saturating_sub(c.rx_kernel.load(Ordering::Relaxed));
            (before as usize).min(there)
        };
        if bells > 0 {
            drain(fd, c, bells);
            if ring && overdrawn(fd, c, rx) {
                return Settled::Err;
            }
        }
        let at_kernel = if ask { socket::state(fd) } else { Kernel::Nothing };
        // FIN seen, ring looked at again (W11).
        if ringing() || rx.tx.moved(r) {
            continue;
        }
        return match at_kernel {
            Kernel::Fin => Settled::Eof,
            Kernel::Bytes if ring && strange(fd, c, rx, r) => Settled::Err,
            // In a ring epoch only another bell can be there: its token is, or was, too.
            Kernel::Bytes if ring => Settled::Quiet,
            Kernel::Bytes => Settled::News,
            Kernel::Nothing => Settled::Quiet,
            Kernel::Error => Settled::Err,
        };
    }
    Settled::News
}

/// After a receive: bells that are out go as soon as the ring is empty. They would make an end that
/// somebody else watches look readable, and turn the FIN of a process that dies into a reset, which loses
/// what it still had on TCP.
#[cold]
pub(super) fn tidy(family: Family, fd: i32, c: &Conn, rx: &End) {
    locked(family, fd, c, || {
        let r = c.rx_epoch.load(Ordering::Relaxed);
        if !in_ring(r) || rx.tx.moved(r) {
            return;
        }
        let there = bells_here(fd, c, rx, r);
        if !rx.word.is_hot() {
            rx.word.arm();
        }
        if stream::waiting(&rx.ring(), &rx.rx.cursor) {
            if there > 0 && !rx.word.is_hot() && !may_wait_for_edges(c) {
                rx.word.unarm();
            }
        } else if there > 0 && !rx.tx.moved(r) {
            drain(fd, c, there);
            overdrawn(fd, c, rx);
        }
    });
    // A bell that was drained may have been the one that says so.
    tx::left::follow_if_left(family, fd, c);
}

/// Whether somebody may wait for edges of the connection, who needs a new bell for the next byte: in a set that is known, or
/// in one that is not.
fn may_wait_for_edges(c: &Conn) -> bool {
    c.watched.load(Ordering::Relaxed) != 0 || c.armed_by.load(Ordering::Relaxed) != 0 || c.has(Conn::COUNTS)
}

/// A sleep that a time limit or a signal ended finds bytes in the ring. If no bell comes for them, a wake-up was lost; it is
/// counted, as in a wait that looks again by itself (`epoll/wait.rs`). A sleep without an end has no such net: whatever else
/// could end it from time to time (poll, SO_RCVTIMEO) is not begun anew after a handler with SA_RESTART, as it must be.
#[cold]
pub(super) fn count_if_lost(fd: i32, c: &Conn, rx: &End, why: i32) {
    let unheard = || stream::waiting(&rx.ring(), &rx.rx.cursor) && !rx.word.is_hot() && !raw::is_readable(fd);
    let asleep = matches!(why, libc::EAGAIN | libc::EINTR) && in_ring(c.rx_epoch.load(Ordering::Relaxed));
    if asleep && lost::never_comes(unheard) {
        lost::count();
    }
}

/// Bells that were counted by the sender and not drained yet; a hint, the kernel has the truth.
pub(super) fn bells_out(c: &Conn, rx: &End) -> bool {
    rx.word.bells() != c.drained.load(Ordering::Relaxed)
}

/// Bells that were counted and not taken; less than none where more was taken than there were.
fn owed(c: &Conn, rx: &End) -> i32 {
    rx.word.bells().wrapping_sub(c.drained.load(Ordering::Relaxed)) as i32
}

/// Whether there is on TCP in ring epoch `r`, at its end, what is no bell: one is counted before it is sent, so the count is
/// read after what is there. Somebody has written past the shim. The place of such bytes in the stream is lost, and a sleep
/// would end at once for ever, so the connection is reset.
fn strange(fd: i32, c: &Conn, rx: &End, r: u64) -> bool {
    let there = raw::queued(fd).unwrap_or(0) as i64;
    // What the next epoch puts on TCP comes after that epoch was announced.
    let strange = there > i64::from(owed(c, rx).max(0)) && !rx.tx.moved(r);
    if strange {
        broken(fd, c);
    }
    strange
}

/// The same where it was taken for bells already.
fn overdrawn(fd: i32, c: &Conn, rx: &End) -> bool {
    let strange = owed(c, rx) < 0;
    if strange {
        broken(fd, c);
    }
    strange
}

/// How many bells can be drained in ring epoch `r`, if the epoch is still the same when this returns. Those of which the
/// sender has said that they are on TCP need no question to the kernel.
fn bells_here(fd: i32, c: &Conn, rx: &End, r: u64) -> usize {
    if !bells_out(c, rx) {
        return 0;
    }
    match rx.tx.bells_in_front(c.drained.load(Ordering::Relaxed), r) {
        0 => raw::queued(fd).unwrap_or(0),
        // A peer that says more than it sent loses bytes of its own, and keeps nobody busy.
        n => (n as usize).min(MANY_BELLS),
    }
}
