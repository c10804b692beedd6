//! Whether the other end is still there. On TCP a sender learns of it by its second send at the latest; one that only
//! puts into a ring would never ask the kernel (PROTOCOLS W17).
//!
//! An end that closes or shuts down says so in shared memory. One that was killed cannot, so the sender asks the kernel
//! itself, but only where something makes it doubt: it has sent more than once since it last received anything, what it
//! sent lies there untaken, and that for a while ([`PATIENCE`]), or for [`MANY`] sends. A sender that gets answers pays
//! one look at a counter of its own.

use core::sync::atomic::Ordering;

use dp_channel::family::{Conn, End, Stage};
use dp_channel::switch::in_ring;
use dp_edge::ring::{Cursor, Pos};
use dp_edge::sys::raw;

use crate::channel::Channel;
use crate::socket;

/// Unanswered sends that look at the clock each; of those after them, every [`MANY`]th looks at all.
const FEW: u32 = 8;
/// See [`FEW`].
const MANY: u32 = 64;
/// How long what was sent may lie there, in ticks; about a tenth of a millisecond.
const PATIENCE: u32 = 256;
/// A rest after which a receiver sleeps, so that the question costs little beside waking it; above a millisecond.
const IDLE: u32 = 4096;
/// The count of a connection whose other end may be gone.
const SUSPECT: u32 = u32::MAX;

/// Ticks of about a third of a microsecond. They need not be exact, or the same on two processors.
#[inline(always)]
fn ticks() -> u32 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has this instruction, and programs may use it.
    let t = unsafe { core::arch::x86_64::_rdtsc() } >> 10;
    #[cfg(not(target_arch = "x86_64"))]
    let t = crate::state::now() >> 9;
    t as u32
}

impl Channel {
    /// Before a send into the ring, whose tail is at `tail`: false when the kernel is to be asked first ([`Channel::probe`]). Under
    /// the sender's lock.
    #[inline(always)]
    pub fn listens(&self, tx: &End, tail: Pos) -> bool {
        let n = self.alone.load(Ordering::Relaxed);
        if n > FEW && (n + 1) % MANY != 0 && n != SUSPECT {
            self.alone.store(n + 1, Ordering::Relaxed);
            return true;
        }
        let heard = self.rx_bytes.load(Ordering::Relaxed) as u32;
        if n == SUSPECT {
            return false;
        }
        if n == 0 || heard != self.heard.load(Ordering::Relaxed) {
            let (now, before) = (ticks(), self.asked.load(Ordering::Relaxed));
            self.heard.store(heard, Ordering::Relaxed);
            self.alone.store(1, Ordering::Relaxed);
            self.asked.store(now, Ordering::Relaxed);
            return now.wrapping_sub(before) < IDLE || self.after_a_rest(tx, tail);
        }
        self.unanswered(tx, tail, n + 1)
    }

    /// The same for the first send after a rest. On TCP it fails only if the other end has answered with a reset before;
    /// behind a FIN it succeeds, and draws that reset if nobody has the other end any more. Here a bell draws it.
    #[cold]
    fn after_a_rest(&self, tx: &End, tail: Pos) -> bool {
        if !socket::ended(self.fd) {
            return true;
        }
        let was_over = socket::is_over(self.fd);
        if !was_over && taken(tx) != tail {
            // If it died, it was a reset that came, and not a FIN.
            self.suspect();
            return false;
        }
        if !was_over {
            self.announce(tx);
        }
        if socket::is_over(self.fd) {
            self.suspect();
        }
        !was_over
    }

    /// The same for the `n`th send in a row without an answer.
    fn unanswered(&self, tx: &End, tail: Pos, n: u32) -> bool {
        self.alone.store(n, Ordering::Relaxed);
        let now = ticks();
        let waited = now.wrapping_sub(self.asked.load(Ordering::Relaxed));
        if n <= FEW && waited < PATIENCE {
            return true;
        }
        self.asked.store(now, Ordering::Relaxed);
        if taken(tx) == tail {
            return waited < IDLE || self.after_a_rest(tx, tail);
        }
        if !socket::ended(self.fd) {
            return true;
        }
        self.suspect();
        false
    }
}

/// How far the other end has taken what it was sent.
fn taken(tx: &End) -> Pos {
    Cursor::unpack(tx.rx.cursor.load(Ordering::Acquire)).pos
}

impl Channel {
    /// Whether the other end is gone and did not say so: what is on TCP had better stay there.
    pub fn is_gone_without_a_word(&self) -> bool {
        !self.receiving().tx.is_ending() && socket::ended(self.fd)
    }

    /// The next send asks the kernel.
    pub fn suspect(&self) {
        self.alone.store(SUSPECT, Ordering::Relaxed);
    }

    /// W13: a receive has met an error of which its result does not tell; the program's next call shall, also a send, which would not
    /// ask while its ring has room.
    pub fn is_told_next(&self, e: i32) {
        self.error.store(e as u32, Ordering::Relaxed);
        self.suspect();
    }

    /// Whether this send is to.
    pub fn is_suspected(&self) -> bool {
        self.alone.load(Ordering::Relaxed) == SUSPECT
    }
}

/// What [`Channel::probe`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gone {
    /// Somebody may have the other end.
    No,
    /// Nobody; the kernel knows as much, and says to the next call what it says on TCP.
    Known,
    /// Nobody, and it died with something unread in the ring, of which the kernel knows nothing. On TCP that is a reset,
    /// which the caller has to tell.
    Unread,
}

impl Channel {
    /// Asks the kernel, in a ring epoch and under the sender's lock. If nobody has the other end any more, the slot is dead
    /// from here on, so that what follows goes to the kernel.
    ///
    /// A FIN alone may be a peer that only sends no more. A bell tells: where there is no socket any more, it is answered by
    /// a reset.
    pub fn probe(&self, tx: &End) -> Gone {
        self.alone.store(0, Ordering::Relaxed);
        if !socket::ended(self.fd) {
            return Gone::No;
        }
        let was_over = socket::is_over(self.fd);
        if !was_over {
            self.announce(tx);
            if !socket::is_over(self.fd) {
                return Gone::No;
            }
        }
        self.kill_slot();
        if was_over || self.receiving().tx.is_ending() || taken(tx) == self.tail().pos {
            return Gone::Known;
        }
        // The bell drew an error that TCP would not have had: it had the reset itself.
        let _ = raw::getsockopt_int(self.fd, libc::SOL_SOCKET, libc::SO_ERROR);
        Gone::Unread
    }

    /// The kernel has told the program `e`, which may be the reset of one that died: behind an own end nothing else tells later
    /// that it was told.
    pub fn was_told(&self, e: i32) {
        if e == libc::ECONNRESET && self.has(Conn::SHUT_WR) && self.stage() == Stage::Live {
            self.kill_slot();
        }
    }

    /// Where the program asks what there is: if the other end has died without having taken all that it was sent, the connection
    /// has the error that it would have on TCP from here on, and the kernel knows that it is over. True where that is news.
    pub fn hears_of_death(&self) -> bool {
        let died = self.stage() == Stage::Live
            && self.has_untaken()
            && socket::ended(self.fd)
            && self.died_with_unread();
        if died {
            self.error.store(libc::ECONNRESET as u32, Ordering::Relaxed);
        }
        died
    }

    /// At the end of the stream, or where there may be one: whether the other end died without having taken all that it was
    /// sent. The kernel would have answered with a reset then, and not with a FIN.
    #[cold]
    pub fn died_with_unread(&self) -> bool {
        if !self.has_untaken() {
            return false;
        }
        let has_left = self.sending().word.is_raw();
        if self.has(Conn::SHUT_WR) {
            // Behind two FINs a bell draws nothing. Nobody but the dead ends without a word; one that left may be a stranger by now.
            // The socket has an end of the program's own as well between its shutdown of both and the end of the slot, where other
            // threads wake up: it is none of the other side's.
            let died = !has_left && !self.has(Conn::SHUT_RD) && socket::ended(self.fd);
            if died {
                self.kill_slot();
            }
            return died;
        }
        // A reset that has come already was told, or is about to be.
        if socket::is_over(self.fd) {
            return false;
        }
        if has_left {
            // To one that has left nobody rings; what it had not read goes where it draws a reset.
            self.follow_if_left();
            return self.error.swap(0, Ordering::Relaxed) != 0;
        }
        let unread = || self.has_untaken() && self.probe(&self.sending()) == Gone::Unread;
        self.as_sender(unread) == Some(true)
    }

    /// Does `pay`, which puts on TCP what a receiver that left had not read. Where that draws a reset behind a FIN, the receiver
    /// died with it unread: the error is the one that TCP would have had, and not that of a send behind a FIN.
    pub fn meets_reset(&self, pay: impl FnOnce()) {
        let ended = socket::ended(self.fd) && !socket::is_over(self.fd);
        pay();
        if ended && socket::is_over(self.fd) {
            let _ = raw::getsockopt_int(self.fd, libc::SOL_SOCKET, libc::SO_ERROR);
            self.error.store(libc::ECONNRESET as u32, Ordering::Relaxed);
        }
    }

    /// Whether something lies in the ring that the other end has not taken, and it has not said that it ends.
    fn has_untaken(&self) -> bool {
        if !self.slot_live() || self.receiving().tx.is_ending() || self.has(Conn::TX_TCP) {
            return false;
        }
        let tx = self.sending();
        in_ring(tx.tx.epoch()) && taken(&tx) != self.tail().pos
    }
}
