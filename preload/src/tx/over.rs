//! Over to a longer ring: from the short one to the slot's own, as soon as more is to be sent than fits; and from there to
//! a spare one, where a stream has outgrown that (PROTOCOLS E5, E7; `edge/spare.rs`).

use core::sync::atomic::Ordering;

use dp_channel::arena;
use dp_channel::family::{Conn, End};
use dp_channel::share;
use dp_channel::spare::{self, Spares, STREAM, WINDOW};
use dp_channel::switch::{OWN, SHORT};
use dp_edge::ring::{Cursor, Lines, Tail, LINE};
use dp_edge::sys::raw;

use super::room::{NAP, NAPS};
use crate::channel::Channel;
use crate::spin::until;
use crate::state;

/// How long a sender waits for the short ring to be empty, ns: what is in it is as quickly taken.
const EMPTY: u32 = 20_000;

impl Channel {
    /// The short ring is too short for what is sent now: into the slot's own one, if nothing is in the short one, or will not be
    /// in a moment. Under the lock.
    #[cold]
    pub(super) fn widen(&self, tx: &End, tail: &mut Tail) -> bool {
        if tx.tx.ring() != SHORT {
            return false;
        }
        self.set(Conn::NARROW);
        // A frozen cursor is no empty ring. Acquire: the receiver has copied everything out.
        let empty = || {
            let nothing = Cursor { pos: tail.pos, ..Cursor::default() };
            Cursor::unpack(tx.rx.cursor.load(Ordering::Acquire)) == nothing
        };
        let elsewhere = || {
            let theirs = tx.rx.cpu.load(Ordering::Relaxed);
            theirs != state::cpu() && state::CPUS.load(Ordering::Relaxed) > 1 && !tx.word.has_sleepers()
        };
        let soon = empty() || elsewhere() && until(EMPTY, empty);
        if !soon {
            return false;
        }
        // It may refuse a lap of cursors, as always; the tail has seen all of them now.
        tail.seen = tail.pos;
        self.go_wide(tx, tail);
        true
    }

    /// Into the slot's own ring. Nothing is in the short one. Under the lock.
    fn go_wide(&self, tx: &End, tail: &Tail) {
        self.clear(Conn::NARROW);
        let own = tx.own();
        let at = std::ptr::from_ref(own.header(Default::default())).cast_mut().cast();
        // SAFETY: the slot's own ring. Where the kernel cannot do it, the client has done it before.
        match unsafe { arena::populate(at, own.count() as usize * LINE) } {
            Ok(()) | Err(libc::EINVAL) => {}
            // No memory: it stays as it is.
            Err(_) => return,
        }
        own.header(tail.pos).store(0, Ordering::Relaxed);
        tx.tx.go_over(OWN);
        self.tx_lines.store(own.count() as u32, Ordering::Relaxed);
    }
}

/// A stream sends its bytes ([`spare::STREAM`]) in sends of several tokens, or with the ring full so often meanwhile.
const FULLS: u32 = 32;

/// The arena's longer rings, if they are no longer than our own: their memory would be ours.
fn spares(tx: &End) -> Option<Spares> {
    let own = state::longest();
    tx.spares().filter(|all| share::may_go_over(all.lines(), own.into()))
}

impl Channel {
    /// The ring is full: whether it is too short for what goes through it, and there is a longer one.
    #[cold]
    pub(super) fn is_outgrown(&self, tx: &End, sent: usize) -> bool {
        if self.has(Conn::OUTGROWN | Conn::SHORT) || tx.tx.ring() != OWN {
            return false;
        }
        let [since, bytes] = &self.full_since;
        let now = state::now();
        let all = self.sent_so_far().wrapping_add(sent as u64);
        if now.saturating_sub(since.load(Ordering::Relaxed)) > WINDOW {
            since.store(now, Ordering::Relaxed);
            bytes.store(all, Ordering::Relaxed);
            self.fulls.store(0, Ordering::Relaxed);
        }
        let fulls = self.fulls.load(Ordering::Relaxed).saturating_add(1);
        self.fulls.store(fulls, Ordering::Relaxed);
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
    pub(super) fn is_stream(&self, tx: &End) -> bool {
        let all = self.sent_so_far();
        all.saturating_sub(self.full_since[1].load(Ordering::Relaxed)) >= STREAM
            && self.carries_a_stream(tx, all)
    }

    /// Bytes sent so far, by either way: a stream whose sender is quicker than its receiver is on TCP most of the time.
    #[inline]
    fn sent_so_far(&self) -> u64 {
        self.tx_bytes.load(Ordering::Relaxed).wrapping_add(self.tx_kernel.load(Ordering::Relaxed))
    }

    /// The same while the direction is on TCP: the switch back to a ring will be to a longer one, and need not wait until the
    /// receiver has read nearly all of what is on TCP. Nobody has to be awake for it.
    #[inline]
    pub(super) fn outgrown_on_tcp(&self, tx: &End) {
        let all = self.sent_so_far();
        if all.saturating_sub(self.full_since[1].load(Ordering::Relaxed)) >= STREAM
            && self.sends_a_stream(tx, all)
        {
            self.ask_for_longer(tx);
        }
    }

    /// Whether the receiver has mapped the longer ring that it was asked for.
    pub(super) fn is_granted(&self, tx: &End) -> bool {
        self.has(Conn::OUTGROWN) && tx.rx.granted() == self.claimed.load(Ordering::Relaxed)
    }

    #[cold]
    fn carries_a_stream(&self, tx: &End, all: u64) -> bool {
        self.sends_a_stream(tx, all)
        // A sleeping receiver would not follow: nobody wakes it for an empty ring.
        && tx.word.is_hot()
        && !tx.word.has_sleepers()
    }

    #[cold]
    fn sends_a_stream(&self, tx: &End, all: u64) -> bool {
        let [since, bytes] = &self.full_since;
        let (now, began) = (state::now(), since.load(Ordering::Relaxed));
        let sent = all.saturating_sub(bytes.load(Ordering::Relaxed));
        since.store(now, Ordering::Relaxed);
        bytes.store(all, Ordering::Relaxed);
        self.fulls.store(0, Ordering::Relaxed);
        began != 0
            && spare::is_stream(sent, now.saturating_sub(began))
            && tx.tx.ring() == OWN
            && !self.has(Conn::OUTGROWN | Conn::SHORT)
            && spares(tx).is_some_and(|spares| spares.any_free())
    }
}

/// How long a sender waits for its receiver to follow, ns: it has a ring to empty.
const FOLLOW: u32 = 200_000;

impl Channel {
    /// Over to a longer ring, by way of TCP: only while this one is empty, and its receiver knows that it ends, is there a
    /// moment for that. Nothing need be sent on TCP. False: the receiver did not follow soon, the direction is on TCP, and goes
    /// over when it returns to a ring.
    #[cold]
    pub(super) fn over_to_longer(&self, tx: &End, blocking: bool) -> bool {
        self.ask_for_longer(tx);
        self.hand_back(tx);
        let followed = || tx.rx.caught_up(tx.tx);
        let elsewhere =
            tx.rx.cpu.load(Ordering::Relaxed) != state::cpu() && state::CPUS.load(Ordering::Relaxed) > 1;
        let soon = elsewhere && until(FOLLOW, followed)
            || blocking
                && (0..NAPS).any(|_| {
                    raw::nap(NAP);
                    followed()
                });
        soon && self.goes_to_ring(tx)
    }

    /// The receiver is asked for a longer ring, before a hand-back, or on TCP. It is this process's only: one that shares the
    /// connection would not find the ring where we do. Under the lock.
    #[cold]
    pub(super) fn ask_for_longer(&self, tx: &End) {
        if self.claimed.load(Ordering::Relaxed) != 0 || tx.is_nobodys() {
            return;
        }
        let Some((spares, n)) = spares(tx).and_then(|spares| Some((spares, spares.claim()?))) else { return };
        // Having memory takes a while, in which this process can be killed.
        self.claimed.store(n, Ordering::Relaxed);
        let alone = || self.is_ours_alone();
        if spares.populate(n) && alone() {
            self.set(Conn::OUTGROWN);
            tx.tx.ask(n);
        } else {
            self.set(Conn::SHORT);
            self.drop_claim(tx);
        }
    }

    /// The longer ring that was asked for is not needed, or not to be had. Under the lock.
    pub fn drop_claim(&self, tx: &End) {
        // What was asked for in a slot that has become another connection's, its client has given back, and somebody else may have it.
        let gave_back = self.has(Conn::OUTGROWN) && !self.is_of_slot();
        tx.tx.ask(0);
        // Before it is another's: who finds us dead must not take it from him.
        let n = self.claimed.swap(0, Ordering::SeqCst);
        // Behind that: who finds us dead before it has to know that it was asked for.
        self.clear(Conn::OUTGROWN);
        match tx.spares() {
            Some(spares) if n != tx.tx.ring() && !gave_back => spares.give_back(n),
            _ => {}
        }
    }

    /// Between two ring epochs: the next is in a longer ring, if that can be had. The receiver has taken all that was in
    /// this one. Under the lock.
    #[cold]
    pub(super) fn go_over(&self, tx: &End) {
        if self.has(Conn::NARROW) && tx.tx.ring() == SHORT {
            self.go_wide(tx, &self.tail());
        }
        if !self.has(Conn::OUTGROWN) {
            return;
        }
        let n = self.claimed.load(Ordering::Relaxed);
        match tx.spares().and_then(|spares| spares.ring(n)).filter(|_| tx.rx.granted() == n) {
            Some(ring) => {
                ring.header(self.tail().pos).store(0, Ordering::Relaxed);
                tx.tx.go_over(n);
                self.tx_lines.store(ring.count() as u32, Ordering::Relaxed);
            }
            None => self.set(Conn::SHORT),
        }
        self.drop_claim(tx);
    }
}
