//! A ring that is full: looking for room for a while, and for how long a blocking send may.

use core::sync::atomic::Ordering;

use dp_edge::sys::raw;

use super::bell::here;
use crate::channel::Channel;
use crate::spin::until;
use crate::{real, signals, socket, state};
use dp_channel::family::End;

/// How long a sender looks for room in one call while the receiver goes on taking, ns.
const ROOM_WAIT: u64 = 500_000;
/// How long it looks while nothing is taken, ns.
const ROOM_STALL: u32 = 40_000;
/// How often a blocking sender naps after that, before it hands back, and for how long, ns.
pub(super) const NAPS: u32 = 16;
pub(super) const NAP: u32 = 50_000;

/// How long a call waits for room, in all, before it gives way to others who want the sender's lock, ns. Where several threads send
/// on one connection, each of them waits a moment for the ring now and then, and the direction is not to leave it for that.
const GIVES_WAY: u64 = 1_000_000;

/// What ends a blocking send whose receiver is slow, but goes on taking: TCP's send, too, is ended where it waits for room.
#[derive(Default)]
pub(super) struct Limit {
    /// How long it has waited, ns.
    waited: u64,
    /// How long it may, asked for when that matters; see [`socket::limit`].
    longest: Option<u64>,
}

impl Limit {
    #[cold]
    pub(super) fn counted(&mut self, wait: impl FnOnce() -> bool) -> bool {
        let before = state::now();
        let room = wait();
        self.waited += state::now() - before;
        room
    }

    /// Whether it has waited for so long that others come first, as they do on TCP, where who waits for room keeps nobody out.
    #[cold]
    pub(super) fn is_long(&self) -> bool {
        self.waited >= GIVES_WAY
    }

    /// The error of a send of which nothing has gone out. With a part gone any handler ends it, and the part is its result.
    #[cold]
    pub(super) fn is_over(&mut self, fd: i32, sent: usize) -> Option<i32> {
        let longest = &mut self.longest;
        let mut longest =
            || *longest.get_or_insert_with(|| socket::limit(fd, libc::SO_SNDTIMEO).unwrap_or(u64::MAX));
        if let Some(e) = ends_wait(sent > 0, || longest() != u64::MAX) {
            return Some(e);
        }
        let soon = self.waited < 2 * ROOM_WAIT;
        let over = !soon && self.waited >= longest();
        over.then_some(libc::EAGAIN)
    }
}

/// EINTR where a handler has run that ends a wait for room: any, once a part of the call is done or where it has a time limit, which
/// no handler restarts (signal(7)).
#[inline]
pub(super) fn ends_wait(has_part: bool, has_limit: impl FnOnce() -> bool) -> Option<i32> {
    let ends = signals::came() && (has_part || signals::interrupted() || has_limit());
    ends.then_some(libc::EINTR)
}

impl Channel {
    /// Whether the program has set SO_SNDTIMEO.
    pub(super) fn has_send_limit(&self) -> bool {
        socket::limit(self.fd, libc::SO_SNDTIMEO).is_some()
    }
}

/// Waits until the kernel has room for more. False where there will be none: the connection is over, or a handler has run, which
/// ends a send of which a part is done. A cancellation point, as the send is.
#[cold]
pub(super) fn comes(fd: i32) -> bool {
    let mut p = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
    // SAFETY: one entry.
    let n = unsafe { real::poll()(&mut p, 1, -1) };
    // POLLERR alone may be what waits in the error queue (MSG_ERRQUEUE), which ends no send.
    n > 0 && p.revents & libc::POLLHUP == 0
}

/// The ring is full: true when the receiver made progress, so that another try is worth it. False: hand back.
#[cold]
pub(super) fn room(tx: &End, began: &mut u64, blocking: bool) -> bool {
    let now = state::now();
    if *began == 0 {
        *began = now;
        here(tx);
    } else if !blocking && now - *began > ROOM_WAIT {
        return false;
    }
    // What it takes from TCP before it comes to the ring counts as well.
    let taken = || (tx.rx.cursor.load(Ordering::Relaxed), tx.rx.consumed.load(Ordering::Relaxed));
    let before = taken();
    let theirs = tx.rx.cpu.load(Ordering::Relaxed);
    let elsewhere = theirs != state::cpu() && state::CPUS.load(Ordering::Relaxed) > 1;
    if elsewhere && until(ROOM_STALL, || taken() != before) {
        return true;
    }
    if !blocking {
        return false;
    }
    // The lock is held: nobody else could send either. Long enough for a receiver that was preempted.
    (0..NAPS).any(|_| {
        raw::nap(NAP);
        taken() != before
    })
}
