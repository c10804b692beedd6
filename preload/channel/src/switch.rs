//! Where a direction leaves TCP for the ring, and where it comes back (PROTOCOLS E5-E7).
//!
//! A direction's bytes are segments in turn: TCP, ring, TCP, ring, ... Each is an *epoch*, even on TCP,
//! odd in the ring. Only the sender starts one, at a position both sides can count:
//!
//! ```text
//!   kernel stream   d d d d d d P b b Q d d d d P' b ...       d data, b bell
//!   epoch           0           |  1  | 2       |  3
//!   ring                        [......end]     [......
//! ```
//!
//! `P`: bytes on TCP, bells included, when the ring took over; everything after it on TCP is a bell until
//! `Q`, where data is data again; `end`: the ring position where the ring stopped. The sender starts a
//! ring epoch only after the receiver has acknowledged the TCP epoch before it, so at most one `P` and one
//! `end, Q` are unread, and none is overwritten.
//!
//! The receiver *counts first*: it asks the kernel how many bytes are there, then loads the epoch, then
//! reads no more than it counted. Bytes that were there before the epoch was seen unchanged belong to that
//! epoch, because a sender publishes the next one before it puts the first byte of it on TCP. So nothing
//! is ever read that would have to be kept for later.

use dp_edge::ring::Pos;
use dp_edge::sync::{fence, AtomicU32, AtomicU64, Ordering};
use dp_edge::Error;

/// The slot's short ring, in which a direction begins.
pub const SHORT: u32 = 0;
/// The slot's own ring.
pub const OWN: u32 = u32::MAX;

/// The sender's control line.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct TxLine {
    epoch: AtomicU64,
    p: AtomicU64,
    end: AtomicU64,
    q: AtomicU64,
    /// The CPU the sender last ran on, plus one; 0 unknown.
    pub cpu: AtomicU32,
    /// Not 0: the sender is about to shut down or close, and puts nothing on TCP after that.
    ending: AtomicU32,
    /// The ring that the ring epochs are in: [`SHORT`], [`OWN`], else a spare one ([`crate::spare`]).
    ring: AtomicU32,
    /// A spare ring that it asks the receiver to map; 0: none.
    wants: AtomicU32,
    /// Bells that the sender has put on TCP, modulo 2^32: never more than were counted in the word.
    sent: AtomicU32,
    /// Not 0: however the sender ends, its kernel resets the connection (SO_LINGER with no time).
    abrupt: AtomicU32,
}

/// The receiver's control line.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct RxLine {
    /// The receiver's place in the ring ([`dp_edge::ring::Cursor`]).
    pub cursor: AtomicU64,
    ack: AtomicU64,
    /// Kernel bytes the receiver had consumed when it last said so (data and bells).
    pub consumed: AtomicU64,
    /// The CPU the receiver last ran on, plus one; 0 unknown.
    pub cpu: AtomicU32,
    /// By which event a sleeper is woken, where the word says that it is; 0: no sleeper has put its number there.
    pub event: AtomicU32,
    /// The spare ring that it has mapped as it was asked to; 0: none.
    granted: AtomicU32,
}

impl Default for TxLine {
    fn default() -> Self {
        TxLine {
            epoch: AtomicU64::new(0),
            p: AtomicU64::new(0),
            end: AtomicU64::new(0),
            q: AtomicU64::new(0),
            cpu: AtomicU32::new(0),
            ending: AtomicU32::new(0),
            ring: AtomicU32::new(SHORT),
            wants: AtomicU32::new(0),
            sent: AtomicU32::new(0),
            abrupt: AtomicU32::new(0),
        }
    }
}

impl Default for RxLine {
    fn default() -> Self {
        RxLine {
            cursor: AtomicU64::new(0),
            ack: AtomicU64::new(0),
            consumed: AtomicU64::new(0),
            cpu: AtomicU32::new(0),
            event: AtomicU32::new(0),
            granted: AtomicU32::new(0),
        }
    }
}

/// What the receiver in epoch `r` learns from the sender's line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// Still the same epoch.
    Same,
    /// From kernel position `.0` on, the ring.
    RingAt(u64),
    /// At ring position `end`, and kernel position `q`, TCP again.
    TcpAt {
        /// The ring ends here.
        end: Pos,
        /// Data is data again here.
        q: u64,
    },
}

/// Whether `epoch` lives in the ring.
#[inline(always)]
pub fn in_ring(epoch: u64) -> bool {
    epoch & 1 == 1
}

impl TxLine {
    /// A new connection: epoch 0, everything on TCP. Only while nobody uses the edge.
    pub fn reset(&self) {
        for a in [&self.epoch, &self.p, &self.end, &self.q] {
            a.store(0, Ordering::Relaxed);
        }
        self.cpu.store(0, Ordering::Relaxed);
        self.ending.store(0, Ordering::Relaxed);
        self.ring.store(SHORT, Ordering::Relaxed);
        self.wants.store(0, Ordering::Relaxed);
        self.sent.store(0, Ordering::Relaxed);
        self.abrupt.store(0, Ordering::Relaxed);
    }

    /// Sender: whether its end will be a reset, by the program's own wish.
    pub fn ends_abruptly(&self, so: bool) {
        self.abrupt.store(so.into(), Ordering::Relaxed);
    }

    /// Receiver: whether a reset that comes is the end that the sender's program wished for.
    pub fn is_abrupt(&self) -> bool {
        self.abrupt.load(Ordering::Relaxed) != 0
    }

    /// Sender, under its lock, with nothing in the ring: the receiver has taken everything, as its cursor or its
    /// acknowledgement of a TCP epoch says. From here on the ring is `n`. Its header at the tail is invalid by now, and nothing
    /// is ever put into the former again.
    ///
    /// The receiver need not be told before: it asks after each look at the cursor ([`crate::stream::pull_where`]). Nor is a
    /// wake-up lost: one that looks into the former ring finds nothing, arms, fences, and looks again; then either it sees
    /// this store and the token behind it, or the sender sees the word armed.
    pub fn go_over(&self, n: u32) {
        // Release: that header before this; whoever looks there finds nothing old. And what the sender saw of the cursor,
        // everybody sees who sees this.
        self.ring.store(n, Ordering::Release);
    }

    /// Which ring the sender fills. To be asked at each look: when it changes, nothing is in the former.
    #[inline(always)]
    pub fn ring(&self) -> u32 {
        self.ring.load(Ordering::Acquire)
    }

    /// Sender: the receiver is asked to map spare ring `n`, before it acknowledges the TCP epoch that follows; 0: no longer.
    pub fn ask(&self, n: u32) {
        self.wants.store(n, Ordering::Release);
    }

    /// Which spare ring the sender wants to go over to; 0: none.
    pub fn wants(&self) -> u32 {
        self.wants.load(Ordering::Acquire)
    }

    /// Sender: the end is near. It looks afterwards whether the receiver left, and the receiver, who leaves, then
    /// looks here: one of the two sees the other.
    pub fn will_end(&self) {
        self.ending.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Receiver: whether the sender has shut down or closed, or is about to.
    #[inline(always)]
    pub fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed) != 0
    }

    /// Receiver, after it left: whether the sender can still put on TCP what is unread in the ring.
    pub fn can_take_back(&self) -> bool {
        fence(Ordering::SeqCst);
        self.ending.load(Ordering::Relaxed) == 0 && in_ring(self.epoch.load(Ordering::Acquire))
    }

    /// Sender: a bell is on TCP now.
    pub fn bell_sent(&self) {
        // Release: after the send.
        self.sent.fetch_add(1, Ordering::Release);
    }

    /// Receiver in ring epoch `r`, which has taken `drained` bells in all, modulo 2^32: how many are on TCP in front of
    /// everything else, for certain. 0: perhaps none, perhaps one whose sender has not said so yet.
    pub fn bells_in_front(&self, drained: u32, r: u64) -> u32 {
        // Acquire: what was sent before is in front of what the next epoch puts on TCP, so this comes before the epoch.
        let sent = self.sent.load(Ordering::Acquire).wrapping_sub(drained);
        if self.moved(r) || sent > i32::MAX as u32 {
            return 0;
        }
        sent
    }

    /// The sender's own epoch.
    #[inline(always)]
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// Somebody who only looks: the sender's epoch. Whoever sees it sees all that was put into the ring before it.
    pub fn epoch_seen(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Somebody who only looks: `p`, `q` and `end`, of which each is of the last epoch that had one.
    pub fn beginnings(&self) -> (u64, u64, Pos) {
        let end = Pos::new(self.end.load(Ordering::Relaxed));
        let seen = (self.p.load(Ordering::Relaxed), self.q.load(Ordering::Relaxed), end);
        // Before the epoch is looked at again.
        fence(Ordering::Acquire);
        seen
    }

    /// Somebody who only looks: bells that were put on TCP, modulo 2^32.
    pub fn bells(&self) -> u32 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Sender, under its lock: the ring takes over at kernel position `p`. False while the receiver has
    /// not acknowledged the present epoch.
    pub fn to_ring(&self, rx: &RxLine, p: u64) -> bool {
        let epoch = self.epoch();
        // Acquire: the receiver has read `end` and `q` of the epoch it acknowledges.
        if in_ring(epoch) || rx.ack.load(Ordering::Acquire) != epoch {
            return false;
        }
        self.p.store(p, Ordering::Relaxed);
        // Release: `p` before the epoch; and before every token and bell that follows.
        self.epoch.store(epoch.wrapping_add(1), Ordering::Release);
        true
    }

    /// Sender, under its lock: the ring ends at `end`; on TCP, data starts again at kernel position `q`.
    /// False when the direction is not in the ring: the line lies in memory that the peer can write.
    pub fn to_tcp(&self, end: Pos, q: u64) -> bool {
        let epoch = self.epoch();
        if !in_ring(epoch) {
            return false;
        }
        self.end.store(end.raw(), Ordering::Relaxed);
        self.q.store(q, Ordering::Relaxed);
        self.epoch.store(epoch.wrapping_add(1), Ordering::Release);
        true
    }

    /// Receiver: whether the sender is past epoch `r`. One load.
    #[inline(always)]
    pub fn moved(&self, r: u64) -> bool {
        // Acquire: whoever sees that, and looks at the ring, looks at that of the sender's present epoch.
        self.epoch.load(Ordering::Acquire) != r
    }

    /// Receiver in TCP epoch `r` with a ring epoch and its end both published: where data is data again.
    pub fn beyond(&self, r: u64) -> Option<u64> {
        let epoch = self.epoch.load(Ordering::Acquire);
        (!in_ring(r) && epoch.wrapping_sub(r) == 2).then(|| self.q.load(Ordering::Relaxed))
    }

    /// Receiver in epoch `r`: what comes next. `Corrupt` for an epoch that cannot be.
    #[inline]
    pub fn view(&self, r: u64) -> Result<View, Error> {
        let epoch = self.epoch.load(Ordering::Acquire);
        if epoch == r {
            return Ok(View::Same);
        }
        let ahead = epoch.wrapping_sub(r);
        if in_ring(r) {
            // The epoch after the next one would need our acknowledgement first.
            if ahead != 1 {
                return Err(Error::Corrupt);
            }
            let end = Pos::new(self.end.load(Ordering::Relaxed));
            Ok(View::TcpAt { end, q: self.q.load(Ordering::Relaxed) })
        } else {
            if ahead > 2 {
                return Err(Error::Corrupt);
            }
            Ok(View::RingAt(self.p.load(Ordering::Relaxed)))
        }
    }
}

impl RxLine {
    /// A new connection whose ring starts at `start`. Only while nobody uses the edge.
    pub fn reset(&self, start: Pos) {
        self.cursor
            .store(dp_edge::ring::Cursor { pos: start, ..Default::default() }.pack(), Ordering::Relaxed);
        self.ack.store(0, Ordering::Relaxed);
        self.consumed.store(0, Ordering::Relaxed);
        self.cpu.store(0, Ordering::Relaxed);
        self.event.store(0, Ordering::Relaxed);
        self.granted.store(0, Ordering::Relaxed);
    }

    /// Receiver, before it acknowledges an epoch: spare ring `n` is mapped on its side, as it was asked.
    pub fn grant(&self, n: u32) {
        self.granted.store(n, Ordering::Relaxed);
    }

    /// Sender: the spare ring that the receiver has mapped.
    pub fn granted(&self) -> u32 {
        self.granted.load(Ordering::Acquire)
    }

    /// Receiver: it is in `epoch` now, and done with what the sender said of it.
    #[inline]
    pub fn acknowledge(&self, epoch: u64) {
        self.ack.store(epoch, Ordering::Release);
    }

    /// Sender: whether the receiver is in the sender's own epoch.
    #[inline]
    pub fn caught_up(&self, tx: &TxLine) -> bool {
        self.ack.load(Ordering::Acquire) == tx.epoch()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn bells_are_in_front_only_while_they_are_certain() {
        let tx = TxLine::default();
        let r = 1;
        tx.epoch.store(r, Ordering::Relaxed);
        assert_eq!(tx.bells_in_front(0, r), 0);
        for sent in 1..4 {
            tx.bell_sent();
            assert_eq!(tx.bells_in_front(0, r), sent);
        }
        assert_eq!((tx.bells_in_front(2, r), tx.bells_in_front(3, r)), (1, 0));
        // The receiver has taken one that its sender did not speak of yet.
        assert_eq!(tx.bells_in_front(4, r), 0);
        // The count goes round.
        tx.sent.store(1, Ordering::Relaxed);
        assert_eq!(tx.bells_in_front(u32::MAX, r), 2);
        // What is on TCP now may be data.
        tx.epoch.store(r + 1, Ordering::Relaxed);
        assert_eq!(tx.bells_in_front(u32::MAX, r), 0);
    }
}
