//! What poll sees of an endpoint in pool mode.
//!
//! The program may poll the descriptor between any two calls, and nothing of ours runs then. So on return from
//! a call the descriptor must be readable if, and only if, a message is there: bells are drained once the pool
//! is empty, and the inbox is armed, so that the next message rings ([`wake::settle`]).
//!
//! A program that waits in `dp_read` itself does not want that: two calls to the kernel for each message. A call
//! that had to look for its message therefore leaves the endpoint *silent*: nobody rings. The service looks after
//! [`LEASE`] whether the program came back; if it did not, it makes the descriptor truthful in its place. So a
//! program that turns from waiting in `dp_read` to waiting in poll may be woken that much later, once.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::doze::Call;
use super::drain::Drain;
use super::endpoint::{Rx, UserEndpoint};
use super::packet::ring;
use super::shared::Command;
use crate::edge::inbox::Inbox;
use crate::edge::wake::{self, Bell, Event};
use crate::error::Result;
use dp_edge::sync::settle;
use dp_edge::sys::unix;

/// How long the descriptor may stay silent after the program left `dp_read`, or a call that dozes in it.
pub const LEASE: Duration = Duration::from_millis(2);

impl UserEndpoint {
    /// Before a sleep or EAGAIN: takes what is on the descriptor, arms, looks again. Whether something is there.
    pub(super) fn settle(&self, rx: &mut Rx, fd: i32, how: Drain) -> Result<bool> {
        let Some(inbox) = self.inbox.get() else { return Ok(true) };
        let there = wake::settle(&mut Call { endpoint: self, rx, fd, how }, inbox.arm())?;
        if there {
            self.keep_readable(inbox, rx, fd);
        }
        Ok(there)
    }

    /// Messages are there: so a bell must be, too. Who rings is not asked, the kernel is.
    pub(super) fn keep_readable(&self, inbox: &Inbox, rx: &mut Rx, fd: i32) {
        if rx.wake.bell() != Bell::There {
            rx.wake.go(Event::Look, inbox.arm());
            let bell = is_readable(fd) || ring(&self.back);
            rx.wake.go(Event::Told(bell), inbox.arm());
        }
        // A bell that is there woke one thread, the one that is here. The next one needs another.
        if rx.sleeps.listeners > 0 && !core::mem::replace(&mut rx.sleeps.passed_on, true) {
            rx.late |= ring(&self.back);
        }
    }

    /// After a message was taken: the descriptor is readable if and only if there is another.
    #[inline]
    pub(super) fn make_truthful(&self, rx: &mut Rx, fd: i32) {
        let Some(inbox) = self.inbox.get() else { return };
        self.rouse_another(rx);
        if self.trust(rx, fd) {
            return;
        }
        if rx.tokens.waiting() {
            self.keep_readable(inbox, rx, fd);
        } else {
            let how = if rx.tokens.has_one_edge() && !rx.late { Drain::Bell } else { Drain::Some };
            // The message is the caller's whatever happens; an error comes again when there is none.
            let _ = self.settle(rx, fd, how);
        }
    }

    /// A message came while it was looked for: from here on nobody rings, and the service watches that the program comes
    /// back.
    pub(super) fn make_silent(&self, rx: &mut Rx, fd: i32) {
        // Not with a bell on the descriptor: it would stay there, and lie.
        let bells = rx.wake.is_silent() || !rx.sleeps.habit.may_be_silent() || is_readable(fd);
        if let (false, Some(inbox)) = (bells, self.inbox.get()) {
            rx.wake.go(Event::Silence { emptied: false }, inbox.arm());
            self.process.command(Command::Watch(self.entry.serial));
        }
    }

    /// The service, after the lease: makes the descriptor truthful, without the program's own. A stale bell stays. Whether
    /// the lease is over; `seen`: the program's calls when it began.
    pub fn end_lease(&self, seen: u32) -> bool {
        let Some(mut rx) = self.try_rx() else { return false };
        let was_silent = rx.wake.is_silent();
        if self.visits.load(Ordering::Relaxed) != seen {
            if was_silent {
                rx.sleeps.habit.count_silence(false);
            }
            return !was_silent && !rx.sleeps.watched;
        }
        let was_watched = rx.sleeps.watched;
        rx.sleeps.watched = was_watched && self.rouse_again(&mut rx);
        let over = !rx.sleeps.watched;
        let Some(inbox) = self.inbox.get() else { return over };
        if was_silent || (was_watched && !rx.wake.is_armed()) {
            rx.wake.go(Event::Ask, inbox.arm());
            settle();
            let late = self.something(&rx);
            if was_silent && late {
                rx.sleeps.habit.count_silence(true);
            }
            if late {
                rx.wake.go(Event::Look, inbox.arm());
                rx.wake.go(Event::Told(ring(&self.back)), inbox.arm());
            }
        }
        over
    }
}

fn is_readable(fd: i32) -> bool {
    unix::wait(fd, libc::POLLIN, 0).is_ok_and(|events| events != 0)
}

#[cfg(test)]
mod tests;
