//! How the receiver is told of a token: by an event, or by a bell on TCP (PROTOCOLS W1-W5).

use core::sync::atomic::Ordering;

use dp_channel::bell::Owed;
use dp_channel::family::Conn;
use dp_edge::sys::raw;

use super::{gone, keep};
use crate::channel::{self, End};
use crate::{link, state};

/// After a token: the wake word, a bell if one is owed. A receiver that left for plain TCP is followed.
#[inline(always)]
pub(super) fn published(c: &Conn, fd: i32, tx: &End) {
    if tx.word.after_publish_fast() {
        return;
    }
    match tx.word.after_publish(channel::peer_groups(c), &tx.rx.event) {
        Owed::Nothing => {}
        Owed::Bell => ring_bell(c, fd, tx),
        Owed::Event(number) => wake_set(c, fd, tx, number),
        Owed::Left if tx.word.is_raw() => super::left::follow_behind(fd, c, tx),
        // Closed: the kernel says so to the next call.
        Owed::Left => {}
    }
}

/// The epoll set in which the receiver sleeps, by its event; where there is none that this process knows, by a bell.
#[cold]
pub(super) fn wake_set(c: &Conn, fd: i32, tx: &End, number: u32) {
    if !link::wake(c, number) {
        return announce(c, fd, tx);
    }
    here(tx);
    c.bells.fetch_add(1, Ordering::Relaxed);
}

/// The receiver is told on which CPU this side runs.
pub(super) fn here(tx: &End) {
    let mine = state::cpu();
    if tx.tx.cpu.load(Ordering::Relaxed) != mine {
        tx.tx.cpu.store(mine, Ordering::Relaxed);
    }
}

#[cold]
pub(super) fn ring_bell(c: &Conn, fd: i32, tx: &End) {
    let bell = b'!';
    here(tx);
    // SAFETY: one byte.
    match unsafe { raw::send(fd, &bell, 1, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) } {
        Ok(_) => {
            tx.tx.bell_sent();
            c.tx_kernel.fetch_add(1, Ordering::Relaxed);
            c.bells.fetch_add(1, Ordering::Relaxed);
        }
        Err(e) => {
            tx.word.undo_bell();
            keep(c, e);
            if e != libc::EAGAIN {
                gone::suspect(c);
            }
        }
    }
}

/// A bell without a token, so that the peer looks. Under the lock, in a ring epoch.
pub fn announce(c: &Conn, fd: i32, tx: &End) {
    if tx.word.count_bell() {
        ring_bell(c, fd, tx);
    }
}
