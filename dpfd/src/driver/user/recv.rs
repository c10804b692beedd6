//! Receiving in pool mode: `dp_read` and what keeps poll truthful around it.
//!
//! The program may poll the descriptor between any two calls, and nothing of ours runs then. So on return from
//! a call the descriptor must be readable if, and only if, a message is there: bells are drained once the pool
//! is empty, and the inbox is armed, so that the next message rings (`settle`, [`crate::edge::arm`]).
//!
//! A program that waits in `dp_read` itself does not want that: two calls to the kernel for each message. A call
//! that had to look for its message therefore leaves the endpoint *hot*: nobody rings. The service looks after
//! [`LEASE`] whether the program came back; if it did not, it makes the descriptor truthful in its place. So a
//! program that turns from waiting in `dp_read` to waiting in poll may be woken that much later, once.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::drain::Drain;
use super::endpoint::{Rx, UserEndpoint};
use super::service::Command;
use crate::edge::inbox::Inbox;
use crate::error::{Error, Result};
use crate::pool::tokens::Look;
use crate::sys::loaned::Got;
use dp_edge::spin;
use dp_edge::sync::settle;
use dp_edge::sys::biased::Guard;
use dp_edge::sys::{process, raw, unix};

/// How long the descriptor may stay silent after the program left `dp_read`, or a call that dozes in it.
pub const LEASE: Duration = Duration::from_millis(2);
/// Looks before the descriptor is asked whether it waits at all.
const FIRST_SPINS: u32 = 64;
/// Messages from edges after which senders without one have their turn, and the same once that was in vain for long.
const OTHERS: (u32, u32) = (64, 1024);

/// What a call did so far, for want of a message.
#[derive(Debug, Default)]
struct Waited {
    /// It may wait: the descriptor was asked.
    asked: bool,
    /// The last it did was to look for a while, and something came.
    spun: bool,
}

/// Whose a message is that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum For {
    /// The program's, until it releases it.
    Program,
    /// The library's, which copies and releases it: no other thread of the program may.
    Copy,
}

/// What a call does that found nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InVain {
    /// It sleeps in the kernel, if the descriptor waits.
    Sleep,
    /// It returns, and the next message must be seen as one that comes.
    Return,
}

impl UserEndpoint {
    /// `dp_read`: the next message, loaned until it is released; where [`UserEndpoint::recv_soon`] found none.
    ///
    /// # Errors
    ///
    /// [`Error::WouldBlock`], [`Error::Interrupted`], [`Error::Closed`]; EMFILE, ENOMEM: the message stays.
    #[cold]
    pub fn recv(&self, fd: i32) -> Result<Got> {
        self.recv_for(For::Program, fd)
    }

    pub(super) fn recv_for(&self, whose: For, fd: i32) -> Result<Got> {
        loop {
            if let Some(got) = self.wait_for_next(whose, fd, InVain::Sleep)? {
                return Ok(got);
            }
            let sleep = self.sleep();
            let woken = sleep.sleep(fd);
            self.slept(sleep, woken.is_ok());
            woken?;
        }
    }

    /// The next message, up to where the call would sleep. None: the caller asks where ([`UserEndpoint::sleep`]), sleeps
    /// there, says so ([`UserEndpoint::slept`]), and calls again; nothing is held meanwhile, so that the sleep may be a
    /// cancellation point. If it is told instead that nothing came, no bell was on the descriptor, and the next message's
    /// will be seen to come.
    ///
    /// # Errors
    ///
    /// As [`UserEndpoint::recv`].
    #[inline(always)]
    pub fn recv_or_sleep(&self, fd: i32) -> Result<Option<Got>> {
        match self.recv_soon(fd) {
            None => self.wait_for_next(For::Program, fd, InVain::Sleep),
            got => Ok(got),
        }
    }

    /// The next message, if one is there: the descriptor does not wait.
    ///
    /// # Errors
    ///
    /// As [`UserEndpoint::recv`].
    #[inline(always)]
    pub fn recv_now(&self, fd: i32) -> Result<Option<Got>> {
        match self.recv_soon(fd) {
            None => self.wait_for_next(For::Program, fd, InVain::Return),
            got => Ok(got),
        }
    }

    /// The next message, if it is where it usually is, or comes there in a moment; else [`UserEndpoint::recv`] finds it. A path
    /// of its own, so that what it found stays in registers.
    #[inline(always)]
    pub fn recv_soon(&self, fd: i32) -> Option<Got> {
        let mut rx = self.begin_soon()?;
        let got = match rx.tokens.look_first() {
            None if self.spin_briefly(&rx) => rx.tokens.look_first(),
            got => got,
        }?;
        (rx.peer, rx.immediate) = (got.from(), None);
        if !rx.hot {
            self.make_truthful(&mut rx, fd);
        }
        Some(got)
    }

    /// The receiver's side, if nothing but the edges has to be looked at.
    #[inline(always)]
    pub(super) fn begin_soon(&self) -> Option<Guard<'_, Rx>> {
        let mut rx = self.rx();
        if rx.others.0 == 0 || self.news.load(Ordering::Relaxed) {
            return None;
        }
        rx.others.0 -= 1;
        self.count_visit();
        Some(rx)
    }

    #[inline(never)]
    pub(super) fn wait_for_next(&self, whose: For, fd: i32, in_vain: InVain) -> Result<Option<Got>> {
        let mut rx = self.rx();
        self.rouse_another(&mut rx);
        self.count_visit();
        match rx.others.0.checked_sub(1) {
            Some(left) => rx.others.0 = left,
            None => self.hear_others(&mut rx, fd),
        }
        let mut waited = Waited::default();
        loop {
            let next = self.next(&mut rx, fd);
            if let (true, Some(inbox)) = (next.is_err() && !rx.hot && self.something(&rx), self.inbox.get()) {
                self.keep_readable(inbox, &mut rx, fd); // the message stays
            }
            if let Some(got) = next? {
                rx.peer = got.from();
                rx.immediate = if got.has_immediate() { rx.tokens.immediate(got.number) } else { None };
                if whose == For::Copy {
                    rx.tokens.copy(got.number);
                }
                if waited.spun {
                    self.make_hot(&mut rx, fd);
                }
                if !rx.hot {
                    self.make_truthful(&mut rx, fd);
                }
                return Ok(Some(got));
            }
            match self.wait(rx, fd, in_vain, &mut waited)? {
                Some(again) => rx = again,
                None => return Ok(None),
            }
        }
    }

    /// The service sees by this that the program came back.
    #[inline(always)]
    fn count_visit(&self) {
        // Under the lock of the receiver's side: no read-modify-write is needed.
        self.visits.store(self.visits.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// For a message that is as good as here.
    #[inline(never)]
    pub(super) fn spin_briefly(&self, rx: &Rx) -> bool {
        let pays = rx.spin > 0 && !rx.in_vain;
        let came = |_| {
            dp_edge::sync::relax();
            self.something(rx)
        };
        pays && (0..FIRST_SPINS).any(came)
    }

    /// A look: the edges, and the descriptor where something waits there.
    #[inline(never)]
    fn next(&self, rx: &mut Rx, fd: i32) -> Result<Option<Got>> {
        if self.news.load(Ordering::Acquire) {
            self.adopt(rx);
        }
        let mut dropped = false;
        loop {
            match rx.tokens.look() {
                Look::Got(got) => return Ok(Some(got)),
                Look::Fresh(ix) => {
                    self.drain(rx, fd, Drain::All)?;
                    rx.tokens.emptied(ix);
                }
                Look::Failed(errno) => return Err(Error::system("mmap")(errno)),
                Look::Nothing if rx.tokens.ended && !dropped => {
                    dropped = true;
                    self.drop_ended(rx);
                }
                Look::Nothing => return Ok(None),
            }
        }
    }

    /// Lets go of the edges of senders that are gone. The service says that one is behind all else it had to say of it, so
    /// a longer edge of one that is marked is among what is adopted here, and not later.
    #[cold]
    fn drop_ended(&self, rx: &mut Rx) {
        rx.tokens.mark_ended();
        if self.news.load(Ordering::Acquire) {
            self.adopt(rx);
        }
        rx.tokens.drop_ended();
    }

    /// Edges without end must not keep those from being heard who have none.
    #[cold]
    fn hear_others(&self, rx: &mut Rx, fd: i32) {
        if !rx.tokens.own_is_empty() || self.inbox.get().is_none() {
            return;
        }
        // An error comes again when nothing else is there.
        let _ = self.drain(rx, fd, Drain::Some);
        let gap =
            if rx.tokens.own_is_empty() { (rx.others.1 * 2).clamp(OTHERS.0, OTHERS.1) } else { OTHERS.0 };
        rx.others = (gap, gap);
    }

    /// Nothing was there. Some: another look, before the next call of this. None: the caller sleeps, or returns.
    #[cold]
    fn wait<'a>(
        &'a self,
        mut rx: Guard<'a, Rx>,
        fd: i32,
        in_vain: InVain,
        waited: &mut Waited,
    ) -> Result<Option<Guard<'a, Rx>>> {
        if self.inbox.get().is_none() {
            drop(rx);
            self.start_pool(None)?;
            return Ok(Some(self.rx()));
        }
        if !rx.tokens.returned.is_nothing() {
            self.give_back(&mut rx);
        }
        let budget = self.spin_budget(&mut rx);
        // Hot: it waited the last time, so it is asked only after it has spun. And where spinning does not pay, whoever
        // may not sleep is told so by the kernel.
        let waits =
            rx.hot || in_vain == InVain::Sleep && (waited.asked || budget == 0 || !raw::is_nonblocking(fd));
        waited.asked |= waits && budget > 0 && !rx.hot;
        waited.spun = waits && budget > 0 && self.spin_a_while(&mut rx, budget);
        if waited.spun {
            return Ok(Some(rx));
        }
        let was_hot = core::mem::replace(&mut rx.hot, false);
        if in_vain == InVain::Sleep && self.may_doze(&rx) && (waited.asked || !raw::is_nonblocking(fd)) {
            let empty = rx.doze.quiet || core::mem::take(&mut rx.settled);
            if !empty && self.settle(&mut rx, fd, Drain::Some)? {
                rx.doze.trust = 1;
                return Ok(Some(rx));
            }
            return Ok(if self.doze(&mut rx) { None } else { Some(rx) });
        }
        rx.doze.forget_key();
        // Settled by the call before: what came since has rung. Not twice, or a stale bell would stay for ever.
        if !(waits && core::mem::take(&mut rx.settled)) && self.settle(&mut rx, fd, Drain::Some)? {
            return Ok(Some(rx));
        }
        if in_vain == InVain::Sleep && (!waits || (was_hot && raw::is_nonblocking(fd))) {
            return Err(Error::WouldBlock);
        }
        // Woken in the kernel: the next wait may be long again, so it is not hot yet.
        Ok(None)
    }

    /// From here on nobody rings, and the service watches that the program comes back.
    fn make_hot(&self, rx: &mut Rx, fd: i32) {
        // Not with a bell on the descriptor: it would stay there, and lie.
        let bells = rx.hot || !rx.doze.may_be_silent() || is_readable(fd);
        if let (false, Some(inbox)) = (bells, self.inbox.get()) {
            (rx.hot, rx.settled) = (true, false);
            inbox.arm().disarm();
            self.process.command(Command::Hot(self.entry.serial));
        }
    }

    /// How long it pays to spin, by what paid lately, ns.
    fn spin_budget(&self, rx: &mut Rx) -> u32 {
        let longest = self.max_spin.load(Ordering::Relaxed);
        rx.in_vain = longest == 0 || !self.process.many_cpus || !rx.tokens.worth_spinning(process::cpu());
        if rx.in_vain {
            return 0;
        }
        if rx.spin == 0 {
            rx.spin = spin::again(longest);
            return 0;
        }
        rx.spin.min(longest)
    }

    /// Spins for so long; true when something came.
    fn spin_a_while(&self, rx: &mut Rx, budget: u32) -> bool {
        let longest = self.max_spin.load(Ordering::Relaxed);
        if let Some(inbox) = self.inbox.get() {
            inbox.arm().disarm();
            rx.settled = false;
        }
        let hit = process::spin_for(budget.into(), || self.something(rx));
        rx.spin = spin::learned(budget, hit, longest);
        hit
    }

    /// Before a sleep or EAGAIN: takes what is on the descriptor, arms, looks again. Whether something is there.
    fn settle(&self, rx: &mut Rx, fd: i32, how: Drain) -> Result<bool> {
        let Some(inbox) = self.inbox.get() else { return Ok(true) };
        let quiet = core::mem::take(&mut rx.doze.quiet);
        rx.doze.rung_all = false;
        let drain = |rx: &mut Rx| if quiet { Ok(()) } else { self.drain(rx, fd, how) };
        let there = inbox.arm().settle(rx, drain, |rx| self.something(rx))?;
        rx.settled = !there;
        if there {
            self.keep_readable(inbox, rx, fd);
        }
        Ok(there)
    }

    pub(super) fn something(&self, rx: &Rx) -> bool {
        rx.tokens.waiting() || self.news.load(Ordering::Acquire)
    }

    /// Messages are there: so a bell must be, too. Who rings is not asked, the kernel is.
    fn keep_readable(&self, inbox: &Inbox, rx: &mut Rx, fd: i32) {
        inbox.arm().disarm();
        (rx.settled, rx.doze.quiet) = (false, false);
        if !rx.belled {
            rx.belled = is_readable(fd) || super::link::ring(&self.back);
        }
        // A bell that is there woke one thread, the one that is here. The next one needs another.
        if rx.doze.listeners > 0 && !core::mem::replace(&mut rx.doze.passed_on, true) {
            rx.late |= super::link::ring(&self.back);
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

    /// The service, after the lease: the same, without the program's descriptor. A stale bell stays.
    pub fn make_cold(&self, seen: u32) -> bool {
        let Some(mut rx) = self.try_rx() else { return false };
        if self.visits.load(Ordering::Relaxed) != seen {
            if rx.hot {
                rx.doze.count_silence(false);
            }
            return !rx.hot && !rx.doze.watched;
        }
        let (was_hot, was_watched) = (core::mem::take(&mut rx.hot), rx.doze.watched);
        rx.doze.watched = was_watched && self.rouse_again(&mut rx);
        let over = !rx.doze.watched;
        let Some(inbox) = self.inbox.get() else { return over };
        if was_hot || (was_watched && !inbox.arm().is_armed_for_bells()) {
            (rx.settled, rx.doze.quiet) = (false, false);
            inbox.arm().arm();
            settle();
            let late = self.something(&rx);
            if was_hot && late {
                rx.doze.count_silence(true);
            }
            if late {
                inbox.arm().disarm();
                rx.belled = super::link::ring(&self.back);
            }
        }
        over
    }

    /// Edges ended: their shares go back, and the service offers them to senders without an edge.
    #[cold]
    fn give_back(&self, rx: &mut Rx) {
        let returned = core::mem::take(&mut rx.tokens.returned);
        if let Some(budget) = &mut self.arrivals().budget {
            budget.give(returned);
        }
        self.process.command(Command::Pool(self.entry.serial));
    }

    /// The service, when a sender has ended: what is over goes back, and what it published last is told. False if the
    /// receiver is in a call just now, so that this has to be done later.
    pub fn sender_ended(&self) -> bool {
        let Some(mut rx) = self.try_rx() else { return false };
        self.wake_dozer(&mut rx);
        self.drop_ended(&mut rx);
        if !rx.tokens.returned.is_nothing() {
            self.give_back(&mut rx);
        }
        // A sender that is killed before it rings leaves a message that nobody was told of.
        if self.something(&rx) {
            self.ring_self();
        }
        true
    }

    /// What came beside message `number`, which is loaned. Nothing in a child of a fork: the message is its parent's.
    pub fn immediate_of(&self, number: u64) -> Option<u64> {
        (self.generation == process::generation()).then(|| self.rx().tokens.immediate(number)).flatten()
    }

    /// Releases one message. Nothing in a child of a fork: the message is its parent's.
    #[inline(always)]
    pub fn release(&self, number: u64) {
        if self.generation == process::generation() {
            self.rx().tokens.release(number);
        }
    }

    /// `dp_fsync`: releases the `n` oldest messages.
    ///
    /// # Errors
    ///
    /// [`Error::NotLoaned`].
    pub fn release_oldest(&self, n: usize) -> Result<()> {
        let mut rx = self.rx();
        if rx.tokens.release_oldest(n) {
            return Ok(());
        }
        Err(Error::NotLoaned { asked: n, loaned: rx.tokens.loaned() })
    }
}

fn is_readable(fd: i32) -> bool {
    unix::wait(fd, libc::POLLIN, 0).is_ok_and(|events| events != 0)
}

#[cfg(test)]
mod tests;
