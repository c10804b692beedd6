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
//! A second sender, once it was there, ends this for the endpoint's life: one word would not tell of both.

use std::sync::atomic::Ordering;

use super::drain::Drain;
use super::endpoint::{Rx, UserEndpoint};
use super::shared::Command;
use crate::driver::Sleep;
use crate::edge::wake::{self, Bell, Event, Sleeper, Wake};
use crate::error::{Error, Result};
use dp_edge::sys::process;

/// Leases after which a call that does not come back is roused once more: another could have had the word's old value put
/// back before it slept.
const OVERDUE: u8 = 8;

/// A call that is about to sleep, on the descriptor that it names.
pub(super) struct Call<'a> {
    pub(super) endpoint: &'a UserEndpoint,
    pub(super) rx: &'a mut Rx,
    pub(super) fd: i32,
    pub(super) how: Drain,
}

impl Sleeper for Call<'_> {
    type Error = Error;
    fn wake(&mut self) -> &mut Wake {
        &mut self.rx.wake
    }
    fn drain(&mut self) -> Result<()> {
        self.endpoint.drain(self.rx, self.fd, self.how)
    }
    fn waiting(&self) -> bool {
        self.endpoint.something(self.rx)
    }
}

impl UserEndpoint {
    /// Whether the next sleep is one.
    pub(super) fn may_doze(&self, rx: &Rx) -> bool {
        rx.sleeps.habit.brief && self.has_one_sender(rx)
    }

    fn has_one_sender(&self, rx: &Rx) -> bool {
        rx.tokens.only_edge().is_some() && rx.sleeps.listeners == 0 && !self.edgeless.load(Ordering::Relaxed)
    }

    /// Nothing is on the descriptor: asks the edge's sender for a wake-up of the futex. None: a message came meanwhile, so
    /// that the call must look again. Only where it may.
    pub(super) fn doze(&self, rx: &mut Rx, fd: i32) -> Option<Sleep> {
        let (Some(edge), Some(inbox)) = (rx.tokens.only_edge(), self.inbox.get()) else { return None };
        let count = edge.segment.event_count();
        let key = count.wait_key(count.key());
        let late = rx.late;
        let mut call = Call { endpoint: self, rx, fd, how: Drain::Some };
        if !wake::doze(&mut call, inbox.arm(), late) {
            // It waits in a call all the same. Silent it stays if it was; if not, a bell may have been rung.
            rx.sleeps.habit.waits_here();
            if rx.wake.bell() == Bell::None && rx.sleeps.watched && rx.sleeps.habit.may_be_silent() {
                rx.wake.go(Event::Silence { emptied: false }, inbox.arm());
            }
            return None;
        }
        let taken = rx.tokens.taken().0;
        let sleeps = &mut rx.sleeps;
        sleeps.habit.dozes(taken);
        sleeps.number = sleeps.number.wrapping_add(1);
        sleeps.overdue = OVERDUE;
        let number = sleeps.number;
        self.watch(rx);
        Some(Sleep::Edge(key, number))
    }

    fn watch(&self, rx: &mut Rx) {
        if !core::mem::replace(&mut rx.sleeps.watched, true) {
            self.process.command(Command::Watch(self.entry.serial));
        }
    }

    /// A message was taken. Who slept for it in `dp_read` waits there, not in poll: from here on nobody rings, if so.
    #[inline(always)]
    pub(super) fn trust(&self, rx: &mut Rx, fd: i32) -> bool {
        rx.sleeps.habit.believes() && self.fall_silent(rx, fd)
    }

    #[cold]
    fn fall_silent(&self, rx: &mut Rx, fd: i32) -> bool {
        let rung_all = matches!(rx.wake, Wake::Woken { by_sender: true, .. });
        let Some(inbox) = self.inbox.get().filter(|_| self.has_one_sender(rx)) else { return false };
        // The bell of this message; one that is late would come to a descriptor that nobody looks after.
        let how = if rung_all { Drain::Some } else { Drain::Bell };
        if self.drain(rx, fd, how).is_err() || (rx.late && !rung_all) {
            return false;
        }
        rx.late = false;
        rx.wake.go(Event::Silence { emptied: true }, inbox.arm());
        self.watch(rx);
        true
    }

    /// A call sleeps on the descriptor.
    pub(super) fn listen(&self, rx: &mut Rx) -> Sleep {
        let sleeps = &mut rx.sleeps;
        (sleeps.listeners, sleeps.passed_on) = (sleeps.listeners.saturating_add(1), false);
        Sleep::Socket(Some(process::now()))
    }

    /// The sleep is over; `woken`: not by a signal, or for want of time.
    pub fn slept(&self, how: Sleep, woken: bool) {
        self.sleeps.fetch_add(u64::from(woken), Ordering::Relaxed);
        let mut rx = self.rx();
        match how {
            Sleep::Socket(Some(since)) => {
                if woken {
                    // A packet that is no bell may have woken it.
                    rx.wake = rx.wake.step(Event::Spent);
                    rx.sleeps.habit.slept(process::now().saturating_sub(since));
                }
                let sleeps = &mut rx.sleeps;
                (sleeps.listeners, sleeps.passed_on) = (sleeps.listeners.saturating_sub(1), false);
            }
            // The habit learns nothing of such a sleep: routes wake it for messages to other endpoints, too.
            Sleep::Routes { since: Some(_), routes, .. } => {
                if let Some(inside) = self.process.inside.get() {
                    inside.end_wait(routes >= 0);
                }
                rx.wake = rx.wake.step(Event::Spent);
                let sleeps = &mut rx.sleeps;
                (sleeps.by_routes, sleeps.passed_on) = (routes >= 0, false);
                sleeps.listeners = sleeps.listeners.saturating_sub(1);
            }
            Sleep::Edge(_, number) if number == rx.sleeps.number => {
                rx.sleeps.overdue = 0;
                if rx.wake.is_dozing() {
                    self.was_woken(&mut rx);
                }
            }
            _ => {}
        }
    }

    /// Not roused: the program waits in calls, not in poll, so it has bells from the end of the lease on only.
    fn was_woken(&self, rx: &mut Rx) {
        let Some(inbox) = self.inbox.get() else { return };
        let Rx { wake, sleeps, .. } = rx;
        wake.go(Event::Woken, inbox.arm());
        if wake.bell() == Bell::None
            && sleeps.watched
            && sleeps.listeners == 0
            && sleeps.habit.may_be_silent()
        {
            wake.go(Event::Silence { emptied: false }, inbox.arm());
        } else {
            sleeps.habit.waits_here();
        }
    }

    /// Before anything that a call that dozes must hear of, or that rings or arms the word for bells: wakes it.
    #[cold]
    pub(super) fn wake_dozer(&self, rx: &mut Rx) {
        let dozed = rx.wake.is_dozing();
        rx.wake = rx.wake.step(Event::Rouse);
        if dozed {
            Self::notify(rx);
        }
    }

    /// It sleeps on this edge: that was the only one then, and goes only after this. (One that was roused before, and did
    /// not come back since, may have slept on the shorter one, whose word is another now: only its sender, who runs as
    /// the same user, could put the old one back.)
    fn notify(rx: &Rx) {
        if let Some(edge) = rx.tokens.first_edge() {
            edge.segment.event_count().notify();
        }
    }

    /// The same, for a call that does not doze itself.
    #[inline(always)]
    pub(super) fn rouse_another(&self, rx: &mut Rx) {
        if rx.wake.is_dozing() {
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
        rx.sleeps.habit.stays_away();
        let (overdue, dozed) = (rx.sleeps.overdue > 0, rx.wake.is_dozing());
        self.wake_dozer(rx);
        rx.sleeps.overdue = rx.sleeps.overdue.saturating_sub(1);
        if overdue && !dozed {
            // It was roused before.
            Self::notify(rx);
        }
        overdue
    }
}

#[cfg(test)]
mod tests;
