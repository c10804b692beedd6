//! Before a wait, or an EAGAIN: arm, look again, drain what was counted (PROTOCOLS W4, W5, W11).

use core::sync::atomic::Ordering;

use dp_channel::bell::Group;
use dp_channel::family::{Conn, End, Stage};
use dp_channel::stream;
use dp_channel::switch::in_ring;
use dp_edge::sys::raw;

use super::epoch::SWITCHES;
use crate::channel::Channel;
use crate::socket::{self, Kernel};
use crate::{groups, lost, spin};

/// Most bells that are taken at once; an honest peer has one or two out.
const MANY_BELLS: usize = 64;

/// What [`Channel::settle`] found.
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

impl Channel {
    /// Before a wait, or an EAGAIN: arm, look again, drain what was counted before (W4).
    ///
    /// `arm` is false for an edge that stays hot: then only stale bells are drained.
    pub fn settle(&self, arm: bool) -> Settled {
        self.settle_and(arm, true)
    }

    /// Before a sleep in the kernel, which then tells of FIN and errors itself.
    pub fn settle_unasked(&self) -> Settled {
        self.settle_and(true, false)
    }

    /// The same; without `ask`, the kernel is not asked for FIN or error: the caller's sleep finds out.
    pub(super) fn settle_and(&self, arm: bool, ask: bool) -> Settled {
        let settle = || {
            // Who polls is in no call on the connection, and may find another one in the same entry by now.
            match self.stage() {
                Stage::Unused | Stage::Candidate | Stage::Offered => Settled::Busy,
                _ => self.settle_locked(&self.receiving(), arm, ask),
            }
        };
        let settled = self.as_receiver(settle).unwrap_or(Settled::Busy);
        // A bell that was drained may have been the one that says so.
        self.follow_if_left();
        settled
    }

    fn settle_locked(&self, rx: &End, arm: bool, ask: bool) -> Settled {
        let ringing =
            || in_ring(self.rx_epoch.load(Ordering::Relaxed)) && stream::waiting(&rx.ring(), &rx.rx.cursor);
        for _ in 0..SWITCHES {
            if !self.catch_up(rx) {
                break; // the next step finds out
            }
            let r = self.rx_epoch.load(Ordering::Relaxed);
            let ring = in_ring(r);
            // The bell that is out is what says so to whoever waits, and the next byte needs no other.
            if arm && ring && self.bells_out(rx) && ringing() {
                return Settled::News;
            }
            // Counted before arming; what is counted now came before the epoch is looked at again below.
            let there = if ring { self.bells_here(rx, r) } else { raw::queued(self.fd).unwrap_or(0) };
            // Asked behind the count: whoever cools the word later arms it, for bells that are not among these.
            let arm = arm || !rx.word.is_silent();
            if arm {
                rx.word.arm();
            }
            if ringing() {
                if arm && there > 0 {
                    rx.word.unarm();
                } else if !arm && there > 0 && !rx.tx.moved(r) && !self.is_telling(rx) {
                    self.drain(there);
                }
                return Settled::News;
            }
            if rx.tx.moved(r) {
                if !self.catch_up(rx) || self.rx_epoch.load(Ordering::Relaxed) != r {
                    continue;
                }
                // Bytes of this epoch wait in the kernel, or are still on their way, or will never come.
                let ended = ask && matches!(socket::state(self.fd), Kernel::Fin | Kernel::Error);
                return if there > 0 || ended { Settled::News } else { Settled::Quiet };
            }
            let bells = if ring {
                there
            } else {
                let before = self
                    .rx_data
                    .load(Ordering::Relaxed)
                    .saturating_sub(self.rx_kernel.load(Ordering::Relaxed));
                (before as usize).min(there)
            };
            if bells > 0 && !ring {
                self.drain_and_tell(rx, bells);
            } else if bells > 0 && !self.is_telling(rx) {
                self.drain(bells);
                if self.is_overdrawn(rx) {
                    return Settled::Err;
                }
            }
            let at_kernel = if ask { socket::state(self.fd) } else { Kernel::Nothing };
            // FIN seen, ring looked at again (W11).
            if ringing() || rx.tx.moved(r) {
                continue;
            }
            return match at_kernel {
                Kernel::Fin => Settled::Eof,
                Kernel::Bytes if ring && self.is_strange(rx, r) => Settled::Err,
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
    pub(super) fn tidy(&self, rx: &End) {
        self.as_receiver(|| {
            let r = self.rx_epoch.load(Ordering::Relaxed);
            if !in_ring(r) || rx.tx.moved(r) {
                return;
            }
            let there = self.bells_here(rx, r);
            // As in `settle_locked`.
            let arm = !rx.word.is_silent();
            if arm {
                rx.word.arm();
            }
            if stream::waiting(&rx.ring(), &rx.rx.cursor) {
                if there > 0 && arm && !self.may_wait_for_edges() {
                    rx.word.unarm();
                }
            } else if there > 0 && !rx.tx.moved(r) && !self.is_telling(rx) {
                self.drain(there);
                self.is_overdrawn(rx);
            }
        });
        // A bell that was drained may have been the one that says so.
        self.follow_if_left();
    }

    /// Who has received exactly what was in the ring may be at the urgent byte that follows: bells in front of that are none of the
    /// program's, and the kernel would count them.
    #[cold]
    pub fn takes_bells_before_mark(&self) {
        let in_front = || self.rx_data.load(Ordering::Relaxed) > self.rx_kernel.load(Ordering::Relaxed);
        let has_bells = || self.bells_out(&self.receiving()) || in_front();
        if self.stage() == Stage::Live && has_bells() && !self.has_tokens() {
            self.settle_and(false, false);
        }
    }

    /// Whether somebody may wait for edges of the connection, who needs a new bell for the next byte: in a set that is known, or
    /// in one that is not.
    fn may_wait_for_edges(&self) -> bool {
        self.watched.load(Ordering::Relaxed) != 0
            || self.armed_by.load(Ordering::Relaxed) != 0
            || self.has(Conn::COUNTS)
    }

    /// A sleep that a time limit or a signal ended finds bytes in the ring. If no bell comes for them, a wake-up was lost; it is
    /// counted.
    #[cold]
    pub(super) fn count_if_lost(&self, rx: &End, why: i32) {
        let unheard =
            || stream::waiting(&rx.ring(), &rx.rx.cursor) && !rx.word.is_hot() && !raw::is_readable(self.fd);
        let asleep =
            matches!(why, libc::EAGAIN | libc::EINTR) && in_ring(self.rx_epoch.load(Ordering::Relaxed));
        if asleep && lost::never_comes(unheard) {
            lost::count();
        }
    }

    /// A sleep that has lasted long looks again: whether there is something, of which no bell may have told, or tell yet.
    #[cold]
    pub(super) fn finds_lost(&self, has_news: impl Fn() -> bool) -> bool {
        // The slot may be another connection's by now.
        let unheard = || has_news() && !self.receiving().word.is_hot() && !raw::is_readable(self.fd);
        if lost::never_comes(unheard) {
            lost::count();
        }
        has_news() || self.error.load(Ordering::Relaxed) != 0
    }

    /// Whether a bell that lies in the kernel may be the one that tells an epoll set which sleeps: it stays until the set is awake,
    /// and takes it itself. Taken by another thread before, it would be none to the kernel, and the set would sleep on while
    /// all its senders take it for awake.
    pub(super) fn is_telling(&self, rx: &End) -> bool {
        self.sleeping_group(rx).is_some()
    }

    fn sleeping_group(&self, rx: &End) -> Option<&'static Group> {
        let group = rx.word.group().checked_sub(1)?;
        self.my_groups().get(group).filter(|group| !group.is_awake())
    }

    /// The kernel has ended a sleep for nothing, for the `n`th time in a row: there may lie a bell for a set that does not wake, as
    /// its thread was cancelled in its wait, or its process has ended. It is not left there for ever: the word is cold from then
    /// on, and the next look takes it. A set that wakes after all finds it so.
    pub fn woke_in_vain(&self, n: u32) {
        if n < spin::IN_VAIN {
            return;
        }
        let rx = self.receiving();
        let never_wakes = |group: &Group| n >= spin::LONG_IN_VAIN || groups::owner_has_ended(group);
        if self.stage() == Stage::Live && self.sleeping_group(&rx).is_some_and(never_wakes) {
            rx.word.make_cold();
            groups::bell_was_taken(self.family.entry_of(self));
        }
    }

    /// Bells that were counted by the sender and not drained yet; a hint, the kernel has the truth.
    pub(super) fn bells_out(&self, rx: &End) -> bool {
        rx.word.bells() != self.drained.load(Ordering::Relaxed)
    }

    /// Bells that were counted and not taken; less than none where more was taken than there were.
    fn bells_owed(&self, rx: &End) -> i32 {
        rx.word.bells().wrapping_sub(self.drained.load(Ordering::Relaxed)) as i32
    }

    /// Whether there is on TCP in ring epoch `r`, at its end, what is no bell: one is counted before it is sent, so the count is
    /// read after what is there. Somebody has written past the shim. The place of such bytes in the stream is lost, and a sleep
    /// would end at once for ever, so the connection is reset.
    fn is_strange(&self, rx: &End, r: u64) -> bool {
        let there = raw::queued(self.fd).unwrap_or(0) as i64;
        // What the next epoch puts on TCP comes after that epoch was announced.
        let strange = there > i64::from(self.bells_owed(rx).max(0)) && !rx.tx.moved(r);
        if strange {
            self.ends_corrupt();
        }
        strange
    }

    /// The same where it was taken for bells already.
    fn is_overdrawn(&self, rx: &End) -> bool {
        let strange = self.bells_owed(rx) < 0;
        if strange {
            self.ends_corrupt();
        }
        strange
    }

    /// How many bells can be drained in ring epoch `r`, if the epoch is still the same when this returns. Those of which the
    /// sender has said that they are on TCP need no question to the kernel.
    fn bells_here(&self, rx: &End, r: u64) -> usize {
        if !self.bells_out(rx) {
            return 0;
        }
        match rx.tx.bells_in_front(self.drained.load(Ordering::Relaxed), r) {
            0 => raw::queued(self.fd).unwrap_or(0),
            // A peer that says more than it sent loses bytes of its own, and keeps nobody busy.
            n => (n as usize).min(MANY_BELLS),
        }
    }
}
