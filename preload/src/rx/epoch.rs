//! Following the sender from epoch to epoch, and taking bells out of the kernel (PROTOCOLS E5-E7).

use core::cell::Cell;
use core::sync::atomic::Ordering;

use dp_channel::allowance::Allowance;
use dp_channel::family::{End, Held, Stage};
use dp_channel::stream;
use dp_channel::switch::{in_ring, View};
use dp_channel::tcp;
use dp_edge::ring::Cursor;
use dp_edge::sys::raw;

use crate::channel::Channel;
use crate::{groups, inside, socket, state};

thread_local! {
    /// What has the lock took a bell that may be the one that tells a set which sleeps.
    static ROBBED: Cell<bool> = const { Cell::new(false) };
}

/// Why nothing was done under the receiver's lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// This is a signal handler inside such a section of its own thread, whose counts are half done.
    Inside,
    /// The descriptor means something else meanwhile.
    Another,
}

/// Switches followed in one go.
pub(super) const SWITCHES: u32 = 64;

impl Channel {
    /// Does `f` under the receiver's lock. `None`: it is refused. Nothing was done then, and the caller must not wait for it.
    pub fn as_receiver<R>(&self, f: impl FnOnce() -> R) -> Option<R> {
        self.try_as_receiver(f).ok()
    }

    /// The same, and why it is refused.
    pub fn try_as_receiver<R>(&self, f: impl FnOnce() -> R) -> Result<R, Refused> {
        match self.rx_lock.lock(state::me(), self.family) {
            held @ (Held::Clean | Held::Inherited) if inside::is_another(self.fd, self.family, self) => {
                self.rx_lock.unlock_as_it_was(held);
                return Err(Refused::Another);
            }
            Held::Clean => {}
            Held::Mine => return Err(Refused::Inside),
            Held::Inherited => self.recount(),
        }
        let outer = ROBBED.replace(false);
        let result = f();
        self.rx_lock.unlock();
        if ROBBED.replace(outer) {
            groups::bell_was_taken(self.family.entry_of(self));
        }
        Ok(result)
    }

    /// A receiver of this family died in the middle, or was left by longjmp: what it took from TCP is taken, and
    /// the kernel knows how much that is, and its note how much of it were bells.
    #[cold]
    fn recount(&self) {
        if !matches!(self.stage(), Stage::Accepted | Stage::Live) {
            return;
        }
        if let Some(at) = tcp::consumed_so_far(self.fd) {
            self.inherit_drain(at);
        }
        // It may have followed the sender to TCP, and not have said so: nobody else would, and the sender waits for that.
        let (rx, r) = (self.receiving(), self.rx_epoch.load(Ordering::Relaxed));
        if !in_ring(r) && self.is_of_slot() {
            super::arm_if_rung(&rx);
            rx.rx.acknowledge(r);
        }
    }

    /// Whether the ring has something for the program. What is on TCP, the kernel's readiness tells.
    #[inline]
    pub fn has_news(&self, rx: &End) -> bool {
        if !self.hint(rx) {
            return false;
        }
        if rx.tx.moved(self.rx_epoch.load(Ordering::Relaxed)) {
            self.as_receiver(|| self.catch_up(rx));
        }
        in_ring(self.rx_epoch.load(Ordering::Acquire)) && stream::waiting(&rx.ring(), &rx.rx.cursor)
    }

    /// Goes into the next epoch as long as everything of the present one was taken. Under the lock. False when
    /// the sender's line cannot be.
    pub(super) fn catch_up(&self, rx: &End) -> bool {
        // An honest sender needs our acknowledgement for every second switch; a hostile one must not keep us.
        for _ in 0..SWITCHES {
            let r = self.rx_epoch.load(Ordering::Relaxed);
            match rx.tx.view(r) {
                Ok(View::Same) => {
                    if !in_ring(r) && rx.tx.wants() != 0 && rx.tx.wants() != rx.rx.granted() {
                        self.grant(rx);
                    }
                    return true;
                }
                Ok(View::RingAt(p)) => {
                    let at = self.rx_kernel.load(Ordering::Relaxed);
                    if at > p {
                        return false;
                    }
                    // Bells of the epoch before are all that may still lie in front of the switch.
                    let bells = self.rx_data.load(Ordering::Relaxed).min(p).saturating_sub(at) as usize;
                    if at < p && (bells == 0 || self.drain_and_tell(rx, bells) == 0) {
                        return true;
                    }
                    if self.rx_kernel.load(Ordering::Relaxed) == p {
                        self.rx_epoch.store(r + 1, Ordering::Release);
                    }
                }
                Ok(View::TcpAt { end, q }) => {
                    let at = Cursor::unpack(rx.rx.cursor.load(Ordering::Acquire));
                    if !at.frozen && at.pos != end {
                        // Tokens were published before the hand-back was: there must be one.
                        return stream::waiting(&rx.ring(), &rx.rx.cursor)
                            || Cursor::unpack(rx.rx.cursor.load(Ordering::Acquire)).pos == end;
                    }
                    self.rx_data.store(q, Ordering::Relaxed);
                    self.rx_epoch.store(r + 1, Ordering::Release);
                    // The bells of this epoch may be drained while the sender is in its next one: the first token there
                    // must ring anew. It publishes none before we acknowledge.
                    super::arm_if_rung(rx);
                    if rx.tx.wants() != 0 {
                        self.grant(rx);
                    }
                    rx.rx.acknowledge(r + 1);
                }
                Err(_) => return false,
            }
        }
        false
    }

    /// The sender asks for a longer ring (`tx/over.rs`). Mapped first, and then asked whether somebody else has the connection:
    /// a child that is forked after that has the ring where we have it, one that was forked before is seen.
    #[cold]
    fn grant(&self, rx: &End) {
        let n = rx.tx.wants();
        let brought = rx.spares().is_some_and(|spares| spares.bring(n));
        let alone = || self.is_ours_alone();
        rx.rx.grant(if brought && alone() { n } else { 0 });
    }

    /// The same, of bells that cannot stay for the sake of a set that sleeps, since data lies behind them, or the channel ends: it is
    /// told otherwise, once the lock is given back.
    pub(super) fn drain_and_tell(&self, rx: &End, n: usize) -> usize {
        let sum = self.drain(n);
        if sum > 0 && self.is_telling(rx) {
            ROBBED.set(true);
        }
        sum
    }

    /// Takes up to `n` bells out of the kernel. Under the receive lock, and counted before.
    pub(super) fn drain(&self, n: usize) -> usize {
        let mut scratch = [0u8; 64];
        let mut sum = 0;
        self.begin_drain();
        while sum < n {
            let k = (n - sum).min(scratch.len());
            // SAFETY: the scratch buffer is that long.
            match unsafe { raw::recv(self.fd, scratch.as_mut_ptr(), k, libc::MSG_DONTWAIT) } {
                Ok(0) | Err(_) => break,
                Ok(got) => sum += got,
            }
        }
        self.end_drain(sum);
        sum
    }
}

/// How often a bell that was counted, and is not there, is looked for by spinning: as long as a send takes.
const SPINS: u32 = 200;
/// Between two later looks, ns; its sender may have been preempted before its send.
const NAP: u32 = 100_000;

/// How long whoever takes the last bells waits for one that was counted, and is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Before the last close. A bell that comes later is answered with a reset, as anything sent to a closed
    /// connection is, and costs the peer no bytes: those are in its ring, which it empties first. So a few naps
    /// now and then, for an honest peer's sake, and none for one that claims bells again and again.
    Close,
    /// Before a stranger reads, who would take a bell for data. Where a peer claims bells again and again, the stranger
    /// gets a relay at once, which can tell.
    Stranger,
}

impl Patience {
    /// How often a bell is looked for with naps between.
    const fn naps(self) -> u32 {
        match self {
            Patience::Close => 10,
            Patience::Stranger => 200,
        }
    }

    /// Whether one more nap may be taken.
    fn may_nap(self) -> bool {
        match self {
            Patience::Close => CLOSING.one_more(state::now()),
            Patience::Stranger => LEAVING.one_more(state::now()),
        }
    }
}

/// The naps of all closes of this process, in a second or so.
static CLOSING: Allowance = Allowance::new(Patience::Close.naps() as u8);
/// The same of those before a stranger reads.
static LEAVING: Allowance = Allowance::new(Patience::Stranger.naps() as u8);

impl Channel {
    /// Takes every bell that was counted, waiting a moment for one on its way: before the last close, or the kernel
    /// would answer the peer with a reset instead of a FIN; before a stranger reads, who would take it for data.
    pub fn drain_for_close(&self, rx: &End, patience: Patience) {
        let mut looks = 0;
        let mut ended = false;
        while looks < SPINS + patience.naps() {
            if !self.catch_up(rx) {
                return;
            }
            let r = self.rx_epoch.load(Ordering::Relaxed);
            let there = raw::queued(self.fd).unwrap_or(0);
            // What is unread lies in front of them.
            if in_ring(r) && rx.tx.moved(r) {
                return;
            }
            let due = if !in_ring(r) {
                self.rx_data.load(Ordering::Relaxed).saturating_sub(self.rx_kernel.load(Ordering::Relaxed))
                    as usize
            } else if self.bells_out(rx) {
                usize::MAX
            } else {
                // In a ring epoch nothing but bells can be there, also those whose count is not seen yet.
                there
            };
            match due.min(there) {
                0 if due == 0 => return,
                0 if looks < SPINS => core::hint::spin_loop(),
                // Whatever was sent before a FIN is there before it: one more look, and no bell comes any more.
                0 if ended => return,
                0 if socket::ended(self.fd) => ended = true,
                0 if patience.may_nap() => raw::nap(NAP),
                0 => return,
                n => drop(self.drain_and_tell(rx, n)),
            }
            looks += 1;
        }
    }

    /// Whether the program has not read everything the peer put into the ring. Under the lock.
    pub fn has_unread(&self, rx: &End) -> bool {
        self.catch_up(rx);
        let r = self.rx_epoch.load(Ordering::Relaxed);
        // Tokens behind a switch that was not reached yet count as well.
        (in_ring(r) || rx.tx.moved(r)) && stream::waiting(&rx.ring(), &rx.rx.cursor)
    }
}
