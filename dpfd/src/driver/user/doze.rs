//! Dozing: where the next message is expected in a moment, `dp_read` sleeps on a word of its edge, not on the descriptor.
//!
//! A bell takes four calls to the kernel, two of which carry a packet: the sender rings, the receiver's recv returns, it
//! takes the bell off the descriptor, and the next one. A futex takes two ([`crate::edge::event_count`]). But it does not
//! wake a program that polls the descriptor; and what comes by the descriptor itself, or ends the wait there (a shutdown,
//! the end of SO_RCVTIMEO, a cancellation), does not wake who dozes. Therefore:
//!
//! - one call dozes at a time, and any other that comes by, or brings news, wakes it first (`wake_dozer`);
//! - it dozes only if its last sleep was brief, and all senders have one edge between them;
//! - the service watches it as it does a *hot* endpoint: who dozed for the lease is sent to sleep on the descriptor, and
//!   whoever polls has bells from then on, also where the call did not come back (a signal handler that jumped out of it).
//!
//! To have no bells between calls (*silence*) costs a program that polls after all up to two leases, once. One that waits in
//! both by turns would pay that each time; so each message that was told late makes it keep its bells for twice as many
//! messages as the last one did, and being back in time makes up for it.
//!
//! A second sender, once it was there, ends this for the endpoint's life: one word would not tell of both.

use std::sync::atomic::Ordering;

use super::drain::Drain;
use super::endpoint::{Rx, UserEndpoint};
use super::service::Command;
use crate::edge::event_count::WaitKey;
use crate::error::{Error, Result};
use dp_edge::sync::settle;
use dp_edge::sys::{process, unix};

/// A sleep on the descriptor that was shorter says that the next one will be, too, ns.
const BRIEF: u64 = 1_000_000;
/// Messages behind a longer one that say as much.
const BURST: u8 = 8;
/// Sleeps on the edge that may end without a message: a sender can wake for nothing, and at no cost.
const PATIENCE: u8 = 8;
/// For how many messages a receiver that was told late has bells, at least and at most.
const ABSTAIN: [u16; 2] = [16, 4096];
/// Leases after which a call that does not come back is roused once more: another could have had the word's old value put
/// back before it slept.
const OVERDUE: u8 = 8;

/// Where a call sleeps that found no message. Nothing is held meanwhile: a signal handler may do as it likes.
#[derive(Debug, Clone, Copy)]
pub enum Sleep {
    /// In a call on the descriptor that takes nothing, since then, ns.
    Descriptor(u64),
    /// On the edge's word, under this number.
    Edge(WaitKey, u32),
}

/// What the receiver's side knows of it.
#[derive(Debug, Default)]
pub struct Doze {
    /// A call dozes, or is about to.
    now: bool,
    /// The number of that sleep, or of the last one.
    number: u32,
    /// Where, for that call to be told. Kept when it is roused: it sleeps no more there then.
    key: Option<WaitKey>,
    /// The call has not come back yet: how often it will be roused for it.
    overdue: u8,
    /// The service watches.
    pub watched: bool,
    /// The last sleep was brief.
    pub brief: bool,
    /// Threads that sleep on the descriptor: a bell wakes one of them, so there are bells as long as there are such. Too
    /// many, if one was cancelled there.
    pub listeners: u32,
    /// The next of them was woken, and since then none came or went.
    pub passed_on: bool,
    /// Messages taken when it last began, and how often it was woken for none since.
    taken: u64,
    in_vain: u8,
    /// Nobody was asked to ring since it was woken on the edge: its sender rang for all that is older.
    pub rung_all: bool,
    /// The program slept in `dp_read`: this many messages more, and it is not believed to wait in poll. 0: it may.
    pub trust: u8,
    /// The descriptor was empty, and nobody was asked to ring since: there is nothing to take from it.
    pub quiet: bool,
    /// For so many messages no silence, and for how many it was the last time.
    abstains: [u16; 2],
}

impl Doze {
    /// Whether the endpoint may have no bells while the program is elsewhere.
    pub fn may_be_silent(&self) -> bool {
        self.abstains[0] == 0
    }

    /// After a lease in silence: whether a message waited at its end, so that a program that polls hears of it late.
    pub fn count_silence(&mut self, late: bool) {
        let last = self.abstains[1];
        self.abstains = match late {
            true => [last.saturating_mul(2).clamp(ABSTAIN[0], ABSTAIN[1]); 2],
            false => [0, last / 2],
        };
    }

    /// A call goes to sleep on the descriptor: not where one was to that never asked.
    pub fn forget_key(&mut self) {
        self.key = None;
    }
}

impl Sleep {
    /// Sleeps.
    ///
    /// # Errors
    ///
    /// EINTR; EAGAIN (SO_RCVTIMEO is over).
    pub fn sleep(&self, fd: i32) -> Result<()> {
        match self {
            Sleep::Descriptor(_) => unix::await_message(fd).map_err(Error::system("recv")),
            Sleep::Edge(key, _) => key.sleep().map_err(Error::system("futex")),
        }
    }
}

impl UserEndpoint {
    /// Whether the next sleep is one.
    pub(super) fn may_doze(&self, rx: &Rx) -> bool {
        rx.doze.brief && self.has_one_sender(rx)
    }

    fn has_one_sender(&self, rx: &Rx) -> bool {
        rx.tokens.only_edge().is_some() && rx.doze.listeners == 0 && !self.edgeless.load(Ordering::Relaxed)
    }

    /// Nothing is on the descriptor: asks the edge's sender for a wake-up of the futex. False: a message came meanwhile, so
    /// that the call must look again. Only where it may.
    pub(super) fn doze(&self, rx: &mut Rx) -> bool {
        let (Some(edge), Some(inbox)) = (rx.tokens.only_edge(), self.inbox.get()) else { return false };
        let count = edge.segment.event_count();
        let key = count.wait_key(count.key());
        inbox.arm().doze();
        settle();
        if self.something(rx) {
            inbox.arm().disarm();
            // It waits in a call all the same. Silent it stays if it was; if not, a bell may have been rung.
            rx.hot = rx.doze.quiet && rx.doze.watched && rx.doze.may_be_silent();
            rx.doze.trust = 1;
            return false;
        }
        rx.settled = false;
        let taken = rx.tokens.taken().0;
        let doze = &mut rx.doze;
        doze.in_vain = if taken == doze.taken { doze.in_vain + 1 } else { 0 };
        doze.taken = taken;
        if doze.in_vain == PATIENCE {
            (doze.brief, doze.in_vain) = (false, 0);
        }
        doze.number = doze.number.wrapping_add(1);
        (doze.now, doze.key, doze.overdue) = (true, Some(key), OVERDUE);
        // A bell for what was taken already may still come, if one is late.
        doze.quiet = !rx.late;
        self.watch(rx);
        true
    }

    fn watch(&self, rx: &mut Rx) {
        if !core::mem::replace(&mut rx.doze.watched, true) {
            self.process.command(Command::Hot(self.entry.serial));
        }
    }

    /// A message was taken. Who slept for it in `dp_read` waits there, not in poll: from here on nobody rings, if so.
    #[inline(always)]
    pub(super) fn trust(&self, rx: &mut Rx, fd: i32) -> bool {
        if !rx.doze.may_be_silent() {
            rx.doze.abstains[0] -= 1;
            return false;
        }
        match rx.doze.trust {
            0 => false,
            1 => self.fall_silent(rx, fd),
            _ => {
                rx.doze.trust -= 1;
                false
            }
        }
    }

    #[cold]
    fn fall_silent(&self, rx: &mut Rx, fd: i32) -> bool {
        rx.doze.trust = 0;
        let rung_all = core::mem::take(&mut rx.doze.rung_all);
        let Some(inbox) = self.inbox.get().filter(|_| self.has_one_sender(rx)) else { return false };
        // The bell of this message; one that is late would come to a descriptor that nobody looks after.
        let how = if rung_all { Drain::Some } else { Drain::Bell };
        if self.drain(rx, fd, how).is_err() || (rx.late && !rung_all) {
            return false;
        }
        rx.late = false;
        inbox.arm().disarm();
        (rx.hot, rx.settled, rx.doze.quiet) = (true, false, true);
        self.watch(rx);
        true
    }

    /// A call found nothing: where it sleeps.
    pub fn sleep(&self) -> Sleep {
        let doze = &mut self.rx().doze;
        if let Some(key) = doze.key.take() {
            return Sleep::Edge(key, doze.number);
        }
        (doze.listeners, doze.passed_on) = (doze.listeners.saturating_add(1), false);
        Sleep::Descriptor(process::now())
    }

    /// The sleep is over; `woken`: not by a signal, or for want of time.
    pub fn slept(&self, how: Sleep, woken: bool) {
        self.sleeps.fetch_add(u64::from(woken), Ordering::Relaxed);
        let mut rx = self.rx();
        match how {
            Sleep::Descriptor(since) => {
                // A packet that is no bell may have woken it.
                rx.settled &= !woken;
                let doze = &mut rx.doze;
                (doze.listeners, doze.passed_on) = (doze.listeners.saturating_sub(1), false);
                if woken {
                    doze.brief = process::now().saturating_sub(since) < BRIEF;
                    doze.trust = if doze.brief { 1 } else { BURST };
                }
            }
            Sleep::Edge(_, number) if number == rx.doze.number => {
                rx.doze.overdue = 0;
                if core::mem::take(&mut rx.doze.now) {
                    self.was_woken(&mut rx);
                }
            }
            Sleep::Edge(..) => {}
        }
    }

    /// Not roused: the program waits in calls, not in poll, so it has bells from the end of the lease on only.
    fn was_woken(&self, rx: &mut Rx) {
        let doze = &mut rx.doze;
        let silent = doze.quiet && doze.watched && doze.listeners == 0 && doze.may_be_silent();
        match self.inbox.get().filter(|_| silent) {
            Some(inbox) => {
                inbox.arm().disarm();
                rx.hot = true;
            }
            None => (doze.trust, doze.rung_all) = (1, true),
        }
    }

    /// Before anything that a call that dozes must hear of, or that rings or arms the word for bells: wakes it.
    #[cold]
    pub(super) fn wake_dozer(&self, rx: &mut Rx) {
        rx.doze.quiet = false;
        if !core::mem::take(&mut rx.doze.now) {
            return;
        }
        // It sleeps on this edge: that was the only one then, and goes only after this. (One that was roused before, and did
        // not come back since, may have slept on the shorter one, whose word is another now: only its sender, who runs as
        // the same user, could put the old one back.)
        if let Some(edge) = rx.tokens.first_edge() {
            edge.segment.event_count().notify();
        }
    }

    /// The same, for a call that does not doze itself.
    #[inline(always)]
    pub(super) fn rouse_another(&self, rx: &mut Rx) {
        if rx.doze.now {
            self.wake_dozer(rx);
        }
    }

    /// The service brings something. A call that runs just now looks for itself; one that is about to doze is woken by the
    /// end of the lease.
    pub(super) fn rouse_if_free(&self) {
        if let Some(mut rx) = self.try_rx() {
            self.wake_dozer(&mut rx);
        }
    }

    /// The endpoint is closed: nobody will look after who dozes. One that begins later sees it.
    pub(super) fn rouse_for_good(&self) {
        self.wake_dozer(&mut self.rx());
    }

    /// The lease is over. Whether a call has not come back from its doze, and is to be roused again after another.
    pub(super) fn rouse_again(&self, rx: &mut Rx) -> bool {
        (rx.doze.brief, rx.doze.trust) = (false, 0);
        if rx.doze.overdue == 0 {
            self.wake_dozer(rx);
            return false;
        }
        rx.doze.overdue -= 1;
        rx.doze.now = true; // also if it was roused before
        self.wake_dozer(rx);
        true
    }
}

#[cfg(test)]
mod tests;
