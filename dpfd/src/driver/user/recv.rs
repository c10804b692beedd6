//! Receiving in pool mode: `dp_read` and what keeps poll truthful around it.
//!
//! The program may poll the descriptor between any two calls, and nothing of ours runs then. So on return from
//! a call the descriptor must be readable if, and only if, a message is there: bells are drained once the pool
//! is empty, and the inbox says ASLEEP, so that the next message rings ([`Inner::settle`], W4).
//!
//! A program that waits in `dp_read` itself does not want that: two calls to the kernel for each message. A call
//! that had to look for its message therefore leaves the endpoint *hot*: nobody rings. The service looks after
//! [`LEASE`] whether the program came back; if it did not, it makes the descriptor truthful in its place. So a
//! program that turns from waiting in `dp_read` to waiting in poll may be woken that much later, once.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

use super::inner::{Inner, Rx, Tag, MAX_MESSAGE};
use super::note::FarPacket;
use super::service::Command;
use crate::addr::Addr;
use crate::edge::bell;
use crate::edge::far::Far;
use crate::edge::inbox::Inbox;
use crate::error::{Error, Result};
use crate::pool::tokens::{Got, Look};
use crate::sys::{process, raw, unix};

/// How long the descriptor may stay silent after the program left `dp_read`, ms.
pub const LEASE: i32 = 2;
/// Looks before the descriptor is asked whether it waits at all.
const FIRST_LOOKS: u32 = 64;
/// Messages from edges after which senders without one have their turn.
const OTHERS: u32 = 64;
/// Longest message that comes through a descriptor; more than any socket buffer allows is cut.
const LONGEST: usize = 512 * 1024;

/// What [`Inner::settle`] found.
#[derive(Debug, PartialEq, Eq)]
enum Settled {
    News,
    Quiet,
}

impl Inner {
    /// `dp_read`: the next message, lent until it is released.
    ///
    /// # Errors
    ///
    /// [`Error::WouldBlock`], [`Error::Interrupted`], [`Error::Closed`]; EMFILE, ENOMEM at the first call.
    #[inline]
    pub fn recv(&self, fd: i32) -> Result<Got> {
        let mut rx = self.rx();
        let visits = self.visits.load(Ordering::Relaxed);
        self.visits.store(visits.wrapping_add(1), Ordering::Relaxed);
        if visits % OTHERS == 0 && self.inbox.get().is_some_and(|i| i.bells() != rx.drained) {
            self.drain(&mut rx, fd)?;
        }
        if let Some(got) = self.next(&mut rx, fd)? {
            if !rx.hot {
                self.make_truthful(&mut rx, fd)?;
            }
            return Ok(got);
        }
        self.wait(rx, fd)
    }

    /// A look: the edges, and the descriptor where something waits there.
    #[inline(always)]
    fn next(&self, rx: &mut Rx, fd: i32) -> Result<Option<Got>> {
        if self.news.load(Ordering::Acquire) {
            self.adopt(rx);
        }
        loop {
            match rx.tokens.look() {
                Look::Got(got) => {
                    rx.peer = got.from;
                    return Ok(Some(got));
                }
                Look::Fresh => {
                    self.drain(rx, fd)?;
                }
                Look::Nothing => return Ok(None),
            }
        }
    }

    #[cold]
    fn wait<'a>(&'a self, mut rx: MutexGuard<'a, Rx>, fd: i32) -> Result<Got> {
        if self.inbox.get().is_none() {
            drop(rx);
            self.start_pool(None)?;
            rx = self.rx();
        }
        let mut asked = false;
        loop {
            for _ in 0..FIRST_LOOKS {
                if rx.tokens.waiting() || self.news.load(Ordering::Relaxed) {
                    break;
                }
                crate::sync::relax();
            }
            if let Some(got) = self.next(&mut rx, fd)? {
                if asked {
                    self.heat(&mut rx);
                }
                if !rx.hot {
                    self.make_truthful(&mut rx, fd)?;
                }
                return Ok(got);
            }
            if rx.tokens.returned > 0 {
                self.give_back(&mut rx);
            }
            // Hot: it waited the last time, so it is asked only after it has looked.
            let waits = asked || rx.hot || !raw::is_nonblocking(fd);
            if waits {
                asked = true;
                if self.look_a_while(&mut rx) {
                    continue;
                }
            }
            let was_hot = core::mem::replace(&mut rx.hot, false);
            if self.settle(&mut rx, fd)? == Settled::News {
                continue;
            }
            if !waits || (was_hot && raw::is_nonblocking(fd)) {
                return Err(Error::WouldBlock);
            }
            drop(rx);
            self.sleeps.fetch_add(1, Ordering::Relaxed);
            unix::await_message(fd).map_err(Error::system("recv"))?;
            rx = self.rx();
            // Woken in the kernel: the next wait may be long again, so it is not hot yet.
            asked = false;
        }
    }

    /// From here on nobody rings, and the service watches that the program comes back.
    fn heat(&self, rx: &mut Rx) {
        if let (false, Some(inbox)) = (rx.hot, self.inbox.get()) {
            rx.hot = true;
            inbox.group().wake();
            self.process.command(Command::Hot(self.entry.serial));
        }
    }

    /// Looks for as long as it paid lately; true when something came.
    fn look_a_while(&self, rx: &mut Rx) -> bool {
        let longest = self.max_spin.load(Ordering::Relaxed);
        let budget = rx.spin.min(longest);
        if longest == 0 || !self.process.many_cpus || !rx.tokens.worth_looking(process::cpu()) {
            return false;
        }
        if budget == 0 {
            rx.spin = longest / 16; // traffic changes: the next time
            return false;
        }
        let inbox = self.inbox.get();
        // Stored only if need be: every sender reads that line after every message.
        inbox.filter(|i| i.group().is_asleep()).inspect(|i| i.group().wake());
        let end = process::now() + u64::from(budget);
        let hit = loop {
            let mut hit = false;
            for _ in 0..64 {
                hit = rx.tokens.waiting()
                    || self.news.load(Ordering::Relaxed)
                    || inbox.is_some_and(|i| i.bells() != rx.drained);
                if hit {
                    break;
                }
                crate::sync::relax();
            }
            if hit || process::now() >= end {
                break hit;
            }
        };
        let next = if hit { (budget * 2).clamp(1_000.min(longest), longest) } else { budget / 2 };
        rx.spin = if next < 500 { 0 } else { next };
        if hit && inbox.is_some_and(|i| i.bells() != rx.drained) && !rx.tokens.waiting() {
            return false; // something on the descriptor: settling takes it
        }
        hit
    }

    /// Before a sleep or EAGAIN: says ASLEEP, looks again, takes what is on the descriptor (W4).
    fn settle(&self, rx: &mut Rx, fd: i32) -> Result<Settled> {
        let Some(inbox) = self.inbox.get() else { return Ok(Settled::News) };
        inbox.group().doze();
        bell::settle();
        if self.something(rx) {
            self.keep_readable(inbox, rx);
            return Ok(Settled::News);
        }
        self.drain(rx, fd)?;
        if self.something(rx) {
            // The bell of what came meanwhile may be among those just taken.
            self.keep_readable(inbox, rx);
            return Ok(Settled::News);
        }
        if !inbox.group().is_asleep() {
            // Somebody published and is about to ring, or has: its message shows in a moment.
            return Ok(Settled::News);
        }
        Ok(Settled::Quiet)
    }

    fn something(&self, rx: &Rx) -> bool {
        rx.tokens.waiting() || self.news.load(Ordering::Acquire)
    }

    /// Messages are there: so a bell must be, too.
    fn keep_readable(&self, inbox: &Inbox, rx: &Rx) {
        inbox.group().wake();
        if inbox.bells() == rx.drained {
            self.ring_self();
        }
    }

    /// After a message was taken: the descriptor is readable if and only if there is another.
    #[inline]
    fn make_truthful(&self, rx: &mut Rx, fd: i32) -> Result<()> {
        let Some(inbox) = self.inbox.get() else { return Ok(()) };
        let bells = inbox.bells() != rx.drained;
        if rx.tokens.waiting() {
            if !bells {
                self.keep_readable(inbox, rx);
            }
        } else if bells || !inbox.group().is_asleep() {
            self.settle(rx, fd)?;
        }
        Ok(())
    }

    /// The service, after the lease: the same, without the program's descriptor. A stale bell stays.
    pub fn cool(&self, seen: u32) -> bool {
        let Some(mut rx) = self.try_rx() else { return false };
        if !rx.hot || self.visits.load(Ordering::Relaxed) != seen {
            return !rx.hot;
        }
        rx.hot = false;
        if let Some(inbox) = self.inbox.get() {
            inbox.group().doze();
            bell::settle();
            if self.something(&rx) {
                self.keep_readable(inbox, &rx);
            }
        }
        true
    }

    /// Takes everything from the descriptor: bells, and messages of senders without an edge.
    fn drain(&self, rx: &mut Rx, fd: i32) -> Result<()> {
        let mut buf: Vec<u8> = Vec::new();
        loop {
            // Counted before the look: a bell that was counted and is still to come costs one look in vain.
            let bells = self.inbox.get().map_or(0, Inbox::bells);
            let taken = unix::next_len(fd).and_then(|there| {
                if buf.len() < there {
                    buf.resize(there.min(LONGEST), 0);
                }
                unix::recv(fd, &mut buf, libc::MSG_DONTWAIT)
            });
            let mut got = match taken {
                Ok(got) => got,
                Err(libc::EAGAIN) => {
                    rx.drained = bells;
                    return Ok(());
                }
                Err(libc::EINTR) => continue,
                Err(libc::EBADF | libc::ENOTSOCK) => return Err(Error::NotAnEndpoint(fd)),
                Err(e) => return Err(Error::system("recvmsg")(e)),
            };
            let tag = got.fds[0].take().and_then(Tag::read);
            if let Some(memory) = got.fds[1].take() {
                // Nonsense of a sender that is not honest is let go.
                let number = FarPacket::decode(&buf[..got.len.min(buf.len())]);
                if let (Some(FarPacket { number }), Some(Tag { from })) = (number, tag) {
                    let far = Far::open(memory, MAX_MESSAGE).map_err(Error::io("mmap"))?;
                    rx.tokens.add_far(from, number, Arc::new(far));
                }
                continue;
            }
            if tag.is_none() && got.len == 0 {
                if self.is_closed() {
                    return Err(Error::Closed);
                }
                continue; // a bell
            }
            let from = tag.map_or(Addr::default(), |t| t.from);
            rx.tokens.add_own(from, Arc::from(&buf[..got.len.min(buf.len())]));
        }
    }

    /// Edges ended: their shares go back, and perhaps a sender without an edge can have one.
    #[cold]
    fn give_back(&self, rx: &mut Rx) {
        let returned = core::mem::take(&mut rx.tokens.returned);
        if let Some(budget) = &mut self.arrivals().budget {
            budget.give(returned);
        }
    }

    /// Releases one message.
    #[inline]
    pub fn release(&self, number: u64) {
        self.rx().tokens.release(number);
    }

    /// `dp_fsync`: releases the `n` oldest messages.
    ///
    /// # Errors
    ///
    /// [`Error::NotLent`].
    pub fn release_oldest(&self, n: usize) -> Result<()> {
        let mut rx = self.rx();
        if rx.tokens.release_oldest(n) {
            return Ok(());
        }
        Err(Error::NotLent { asked: n, lent: rx.tokens.lent() })
    }
}
