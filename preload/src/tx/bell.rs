//! How the receiver is told of a token: by an event, or by a bell on TCP (PROTOCOLS W1-W5).

use core::sync::atomic::Ordering;

use dp_channel::bell::{Owed, Telling};
use dp_channel::family::End;
use dp_edge::sys::raw;

use crate::channel::Channel;
use crate::{fdtable, link, state};

impl Channel {
    /// After a token: the wake word, a bell if one is owed. A receiver that left for plain TCP is followed.
    #[inline(always)]
    pub(super) fn published(&self, tx: &End) {
        if tx.word.after_publish_fast() {
            return;
        }
        match tx.word.after_publish(self.peer_groups(), &tx.rx.event) {
            Owed::Nothing => {}
            Owed::Bell(telling) => self.ring_bell(tx, telling),
            Owed::Event(number, telling) => self.wake_set(tx, number, telling),
            Owed::Left if tx.word.is_raw() => self.follow_behind(tx),
            // Closed: the kernel says so to the next call.
            Owed::Left => {}
        }
    }

    /// The epoll set in which the receiver sleeps, by its event; where there is none that this process knows, by a bell.
    #[cold]
    pub(super) fn wake_set(&self, tx: &End, number: u32, telling: Telling) {
        if !link::wake(self, number) {
            if let Some(telling) = tx.word.bell_instead(self.peer_groups(), telling) {
                self.ring_bell(tx, telling);
            }
            return;
        }
        tx.word.has_told(self.peer_groups(), telling, true);
        here(tx);
        self.bells.fetch_add(1, Ordering::Relaxed);
    }
}

/// The receiver is told on which CPU this side runs.
pub(super) fn here(tx: &End) {
    let mine = state::cpu();
    if tx.tx.cpu.load(Ordering::Relaxed) != mine {
        tx.tx.cpu.store(mine, Ordering::Relaxed);
    }
}

impl Channel {
    #[cold]
    pub(super) fn ring_bell(&self, tx: &End, telling: Telling) {
        let bell = b'!';
        here(tx);
        // The number may have been closed while this thread was in the middle of its send.
        let Some(fd) = fdtable::stands_for(self.fd, |i| core::ptr::eq(self.family.conn(i), self.conn)) else {
            return self.takes_back(tx, telling);
        };
        // SAFETY: one byte.
        match unsafe { raw::send(fd, &bell, 1, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) } {
            Ok(_) => {
                tx.word.has_told(self.peer_groups(), telling, true);
                tx.tx.bell_sent();
                self.tx_kernel.fetch_add(1, Ordering::Relaxed);
                self.bells.fetch_add(1, Ordering::Relaxed);
            }
            Err(e) => {
                self.takes_back(tx, telling);
                self.keep_error_of_send(e);
                if e != libc::EAGAIN {
                    self.suspect();
                }
            }
        }
    }

    /// A bell that was counted is not sent, and a set that it would have told is not told.
    fn takes_back(&self, tx: &End, telling: Telling) {
        tx.word.undo_bell();
        tx.word.has_told(self.peer_groups(), telling, false);
    }

    /// A bell without a token, so that the peer looks. Under the lock, in a ring epoch.
    pub fn announce(&self, tx: &End) {
        if tx.word.count_bell() {
            self.ring_bell(tx, Telling::NOBODY);
        }
    }
}
