//! Receiving in pool mode, up to where a call would sleep: `dp_read`.

use std::sync::atomic::Ordering;

use super::drain::Drain;
use super::endpoint::{Rx, UserEndpoint};
use super::turn::{InVain, Turn, Waited};
use crate::driver::{Sleep, Step};
use crate::edge::wake::{Bell, Event};
use crate::error::{Error, Result};
use crate::pool::tokens::Look;
use crate::sys::loaned::Got;
use dp_edge::sys::biased::Guard;
use dp_edge::sys::{process, raw};

/// Messages from edges after which senders without one have their turn, and the same once that was in vain for long.
const OTHERS: (u32, u32) = (64, 1024);

/// Whose a message is that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum For {
    /// The program's, until it releases it.
    Program,
    /// The library's, which copies and releases it: no other thread of the program may.
    Copy,
}

/// What a call found.
enum Found {
    /// A message, now loaned.
    Got(Got),
    /// Where it sleeps.
    Sleep(Sleep),
    /// Nothing: it returns.
    Nothing,
}

impl UserEndpoint {
    /// The next message, loaned until it is released, or where to sleep for it; where [`UserEndpoint::recv_soon`] found none.
    /// The caller says when the sleep is over ([`UserEndpoint::slept`]), and calls again.
    ///
    /// # Errors
    ///
    /// [`Error::WouldBlock`], [`Error::Closed`]; EMFILE, ENOMEM: the message stays.
    #[cold]
    pub fn try_recv(&self, fd: i32) -> Result<Step<Got>> {
        self.try_recv_for(For::Program, fd)
    }

    pub(super) fn try_recv_for(&self, whose: For, fd: i32) -> Result<Step<Got>> {
        match self.next_or_sleep(whose, fd, InVain::Sleep)? {
            Found::Got(got) => Ok(Step::Done(got)),
            Found::Sleep(how) => Ok(Step::Wait(how)),
            Found::Nothing => Err(Error::WouldBlock),
        }
    }

    /// The next message, if one is there: the descriptor does not wait. Else no bell was on it, and the next message's will
    /// be seen to come.
    ///
    /// # Errors
    ///
    /// As [`UserEndpoint::try_recv`].
    #[inline(always)]
    pub fn recv_now(&self, fd: i32) -> Result<Option<Got>> {
        match self.recv_soon(fd) {
            None => self.recv_now_for(For::Program, fd),
            got => Ok(got),
        }
    }

    #[inline(never)]
    pub(super) fn recv_now_for(&self, whose: For, fd: i32) -> Result<Option<Got>> {
        match self.next_or_sleep(whose, fd, InVain::Return)? {
            Found::Got(got) => Ok(Some(got)),
            _ => Ok(None),
        }
    }

    /// The next message, if it is where it usually is, or comes there in a moment; else [`UserEndpoint::try_recv`] finds it. A path
    /// of its own, so that what it found stays in registers.
    #[inline(always)]
    pub fn recv_soon(&self, fd: i32) -> Option<Got> {
        let mut rx = self.begin_soon()?;
        let got = match rx.tokens.look_first() {
            None if self.spin_briefly(&rx) => rx.tokens.look_first(),
            got => got,
        }?;
        (rx.peer, rx.immediate) = (got.from(), None);
        if !rx.wake.is_silent() {
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
    fn next_or_sleep(&self, whose: For, fd: i32, in_vain: InVain) -> Result<Found> {
        if self.inbox.get().is_none() {
            self.start_pool(None)?;
        }
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
            if let (true, Some(inbox)) =
                (next.is_err() && !rx.wake.is_silent() && self.something(&rx), self.inbox.get())
            {
                self.keep_readable(inbox, &mut rx, fd); // the message stays
            }
            if let Some(got) = next? {
                rx.peer = got.from();
                rx.immediate = if got.has_immediate() { rx.tokens.immediate(got.number) } else { None };
                if whose == For::Copy {
                    rx.tokens.copy(got.number);
                }
                if waited.spun {
                    self.make_silent(&mut rx, fd);
                }
                if !rx.wake.is_silent() {
                    self.make_truthful(&mut rx, fd);
                }
                return Ok(Found::Got(got));
            }
            match self.turn(&mut rx, fd, in_vain, &mut waited)? {
                Turn::Again => {}
                Turn::Sleep(how) => return Ok(Found::Sleep(how)),
                Turn::Return => return Ok(Found::Nothing),
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
        !rx.in_vain && rx.spin.spin_briefly(|| self.something(rx))
    }

    /// A look: the edges, and the descriptor where something waits there.
    #[inline(never)]
    pub(super) fn next(&self, rx: &mut Rx, fd: i32) -> Result<Option<Got>> {
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

    /// Nothing was there: spins, or goes to sleep as far as it does not sleep.
    #[cold]
    fn turn(&self, rx: &mut Rx, fd: i32, in_vain: InVain, waited: &mut Waited) -> Result<Turn> {
        let Some(inbox) = self.inbox.get() else { return Err(Error::Closed) };
        if !rx.tokens.returned.is_nothing() {
            self.give_back(rx);
        }
        if let Some(inside) = self.inside() {
            return self.turn_inside(rx, fd, in_vain, waited, inside);
        }
        let longest = self.max_spin.load(Ordering::Relaxed);
        rx.in_vain = longest == 0 || !self.process.many_cpus || !rx.tokens.worth_spinning(process::cpu());
        let budget = if rx.in_vain { 0 } else { rx.spin.budget(longest) };
        let was_silent = rx.wake.is_silent();
        let sleeps = in_vain == InVain::Sleep;
        // Silent: it waited the last time, so it is asked only after it has spun. And where spinning does not pay, whoever
        // may not sleep is told so by the kernel.
        let waits = was_silent || sleeps && (waited.asked || budget == 0 || !raw::is_nonblocking(fd));
        waited.asked |= waits && budget > 0 && !was_silent;
        waited.spun = false;
        if waits && budget > 0 {
            rx.wake.go(Event::Look, inbox.arm());
            let mut spin = rx.spin;
            waited.spun = spin.spin(budget, longest, || self.something(rx));
            rx.spin = spin;
            if waited.spun {
                return Ok(Turn::Again);
            }
        }
        rx.wake.go(Event::Cool, inbox.arm());
        if sleeps && self.may_doze(rx) && (waited.asked || !raw::is_nonblocking(fd)) {
            let empty = rx.wake.bell() == Bell::None || rx.wake.is_settled();
            if !empty && self.settle(rx, fd, Drain::Some)? {
                rx.sleeps.habit.waits_here();
                return Ok(Turn::Again);
            }
            return Ok(match self.doze(rx, fd) {
                Some(how) => Turn::Sleep(how),
                None => Turn::Again,
            });
        }
        if let Some(turn) = self.end_of_turn(rx, fd, sleeps, waits, was_silent)? {
            return Ok(turn);
        }
        // Woken in the kernel: the next wait may be long again, so it is not silent yet.
        Ok(Turn::Sleep(self.listen(rx)))
    }

    /// What came beside message `number`, which is loaned. Nothing in a child of a fork: the message is its parent's.
    pub fn immediate_of(&self, number: u64) -> Option<u64> {
        (self.generation == process::generation()).then(|| self.rx().tokens.immediate(number)).flatten()
    }

    /// The code of the route that message `number` named, which is loaned; 0: none.
    pub fn route_of(&self, number: u64) -> u64 {
        if self.generation != process::generation() {
            return 0;
        }
        self.rx().tokens.beside(number).route
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
