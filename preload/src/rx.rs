//! Receiving: ring first, kernel where the direction is on TCP, sleeping only in the kernel.
//!
//! A receive is a loop of steps that never block. When a step finds nothing, a non-blocking call
//! settles (arms, looks again, drains the bells it counted before) and returns EAGAIN; a blocking
//! one looks for a while, then sleeps in the kernel, in libc's poll or recv, so that cancellation is the kernel's, and for as long
//! and behind those signals as a recv would (PROTOCOLS W2, W4, E6, [`limit`]).

mod epoch;
mod limit;
mod nothing;
mod peek;
mod piece;
mod settle;
mod step;

use core::sync::atomic::Ordering;

use dp_channel::family::{Conn, End, Reason, Stage};
use dp_channel::stream;
use dp_channel::switch::in_ring;
use dp_edge::ring::Cursor;
use dp_edge::segment::Mapped;
use dp_edge::sys::raw;

use crate::channel::Channel;
use crate::fdtable;
use crate::inside::brief::briefly;
use crate::inside::Inside;
use crate::tx::behind;
use crate::walk::Walk;
use crate::{signals, socket, spin};
pub use epoch::{Patience, Refused};
use limit::Sleeps;
use peek::More;
use piece::Piece;
pub use settle::Settled;
use step::Part;

/// `sleep(fd, there)` must block in the kernel until more than `there` bytes are queued, and return what its recv
/// of one byte more, with MSG_PEEK, returned; it is libc's function, a cancellation point.
pub type Sleep<'a> = &'a dyn Fn(i32, usize) -> Result<usize, i32>;

/// What one step brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Bytes.
    Got(usize),
    /// Nothing now.
    Nothing,
    /// The peer has shut down, and everything it sent was delivered.
    Eof,
    /// An errno.
    Err(i32),
}

impl Channel {
    /// Whether the ring has tokens, and a receive now would bring bytes: theirs, or those that lie on TCP before them. A sender
    /// that has gone back to its ring leaves the tail of what it sent on TCP to the kernel, which sends it when the receiver
    /// has room: until that has come there is nothing to read.
    pub fn has_reachable_tokens(&self) -> bool {
        if !self.has_tokens() || self.is_below_mark() {
            return false;
        }
        if in_ring(self.rx_epoch.load(Ordering::Relaxed)) || self.has_news(&self.receiving()) {
            return true;
        }
        let bells =
            self.rx_data.load(Ordering::Relaxed).saturating_sub(self.rx_kernel.load(Ordering::Relaxed));
        raw::queued(self.fd).is_ok_and(|n| n as u64 > bells)
    }

    /// Whether this end left its ring for the sake of a low-water mark, and what it has not read is less than that. The sender
    /// puts it on TCP when it looks; till then the kernel does not know of it.
    pub fn is_below_mark(&self) -> bool {
        let left =
            self.receiving().word.is_raw() && self.reason.load(Ordering::Relaxed) == Reason::Option as u32;
        left && raw::getsockopt_int(self.fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT)
            .is_ok_and(|mark| self.readable_bytes().is_ok_and(|n| (n as u64) < mark as u64))
    }

    /// Whether bytes of the program's are known to be on TCP: counted, and not taken yet.
    pub fn has_counted(&self) -> bool {
        let at = self.rx_kernel.load(Ordering::Relaxed);
        !in_ring(self.rx_epoch.load(Ordering::Relaxed))
            && self.rx_counted.load(Ordering::Relaxed) > at
            && at >= self.rx_data.load(Ordering::Relaxed)
    }

    /// Whether the receiver still is in epoch `r`: any thread that asks what there is may follow the sender.
    #[inline(always)]
    pub(super) fn is_in(&self, r: u64) -> bool {
        // Acquire: who sees that it is not, and asks the sender's line, sees what the one who moved it saw there.
        self.rx_epoch.load(Ordering::Acquire) == r
    }

    /// The fast path: what is in the ring right now. `None`: take the long way.
    #[inline(always)]
    pub fn quick_receive(&self, entry: u32, w: &mut Walk) -> Option<usize> {
        // As in `quick_send`.
        let Channel { family, fd, conn } = *self;
        let r = conn.rx_epoch.load(Ordering::Relaxed);
        if !in_ring(r) {
            return None;
        }
        let (n, end, armed, is_all) = briefly(|| {
            let c = Channel { family, fd, conn };
            // Asked for behind the note: whoever unmaps its rings has found it neither live nor noted.
            if c.stage() != Stage::Live {
                return None;
            }
            let rx = c.receiving_unasked();
            // The descriptor may have been closed since its entry was read, and the connection's place, or that of its rings, be
            // another's. Looked at after the cursor was: a cursor of the other's is not taken, and an older one cannot be
            // committed.
            let ring = || if fdtable::word(c.fd) == entry { c.ring_of(&rx) } else { Mapped::none() };
            let (n, end) = stream::pull_quickly(ring, || c.is_in(r), &rx.rx.cursor, w).ok()?;
            let armed = c.count_taken(&rx, n);
            let goes_on = |w: &Walk| w.left() > 0 && (armed || rx.tx.moved(r));
            let is_all = !(c.bells_out(&rx) || goes_on(w));
            Some((n, end, armed, is_all))
        })?;
        if is_all {
            return Some(n);
        }
        Some(n + self.receive_besides(entry, w, armed, (r, end)))
    }

    /// What a receive from the ring, which began in epoch `r` and ended there, leaves to be done, if the connection still is what the entry said:
    /// bells, and what there is beyond a switch, or in the ring since it was looked at (W16). How many bytes that brought.
    #[cold]
    fn receive_besides(&self, entry: u32, w: &mut Walk, armed: bool, (r, end): (u64, Cursor)) -> usize {
        let Some(inside) = Inside::enter(self.fd, w) else { return 0 };
        let mut sum = 0;
        if inside.is(entry) {
            let rx = self.receiving();
            if self.bells_out(&rx) {
                self.tidy(&rx);
            }
            if w.left() > 0 && (armed || rx.tx.moved(r)) {
                sum = self.receive_more(w, Piece::in_ring(r, end));
            }
        }
        inside.leave();
        sum
    }

    /// The rest of a receive, as far as it is there.
    #[cold]
    fn receive_more(&self, w: &mut Walk, behind: Piece) -> usize {
        let mut sum = 0;
        let mut part = Part::More(Some(behind));
        while w.left() > 0 {
            match self.receive_step(w, 0, &mut part) {
                Step::Got(n) => sum += n,
                Step::Err(e) => {
                    self.keep_error_of_receive(e);
                    break;
                }
                Step::Nothing | Step::Eof => break,
            }
        }
        sum
    }

    /// Counts what was taken. True when the word was armed here: what the sender published in between, it announced
    /// by no bell, so a caller with room left must look again.
    #[inline(always)]
    fn count_taken(&self, rx: &End, n: usize) -> bool {
        let sum = self.rx_bytes.load(Ordering::Relaxed);
        self.rx_bytes.store(sum + n as u64, Ordering::Relaxed);
        arm_if_rung(rx)
    }
}

/// W5: while nobody looks in user space, or somebody sleeps, a new byte must be a new edge for whoever waits.
#[inline(always)]
fn arm_if_rung(rx: &End) -> bool {
    let rung = !rx.word.is_silent() && rx.word.is_rung();
    if rung {
        rx.word.arm();
    }
    rung
}

impl Channel {
    /// Whether a receive with room left, which began in epoch `began`, must look again before it may return (W16): the direction
    /// goes on elsewhere, or something is known to be there. That the receiver's epoch is the sender's by now says nothing:
    /// another thread, which asks what is ready, may have followed, and takes no bytes.
    fn goes_on(&self, rx: &End, began: u64) -> bool {
        let r = self.rx_epoch.load(Ordering::Relaxed);
        rx.tx.moved(began) || self.has_counted() || (in_ring(r) && stream::waiting(&rx.ring(), &rx.rx.cursor))
    }

    /// W13: an error that a receive met which has bytes to give. The next call that finds nothing more gets it.
    fn keep_error_of_receive(&self, e: i32) {
        if matches!(e, libc::EAGAIN | libc::EINTR) || self.stage() == Stage::Plain {
            return;
        }
        if let Step::Err(e) = self.verdict(e) {
            self.is_told_next(e);
        }
    }

    /// The end of the stream, or the error that was kept, or what became of a peer that died.
    fn end_or_error(&self) -> Result<usize, i32> {
        match self.error.swap(0, Ordering::Relaxed) {
            0 if self.stage() == Stage::Live && self.died_with_unread() => Err(libc::ECONNRESET),
            0 => Ok(0),
            e => Err(e as i32),
        }
    }

    /// A whole receive on an `Accepted` or `Live` connection: bytes, 0, or -errno.
    pub fn receive(&self, at: &Inside, w: &mut Walk, flags: i32, sleep: Sleep) -> Result<usize, i32> {
        if w.left() == 0 {
            return self.receive_nothing(at, flags, sleep);
        }
        self.receive_by(at, w, flags, sleep, Sleeps::default())
    }

    /// The same of some bytes, asleep by `sleeps`.
    fn receive_by(
        &self,
        at: &Inside,
        w: &mut Walk,
        flags: i32,
        sleep: Sleep,
        mut sleeps: Sleeps,
    ) -> Result<usize, i32> {
        let mut sum = 0;
        let want = w.left();
        let (mut looked, mut in_vain) = (false, 0);
        signals::begin();
        // A sleep that ended without a byte saw the end of the stream, and one that ended with bytes that are none of the
        // program's may have met a stranger's: then the kernel is asked.
        let mut ask = false;
        let peeking = flags & libc::MSG_PEEK != 0;
        let mut peeked = (0, More::Came);
        let mut part = Part::First;
        loop {
            // The program may close its number meanwhile: then it is another one.
            let c = self.by(at.fd());
            let epoch = c.rx_epoch.load(Ordering::Relaxed);
            match if peeking { c.peek(w, flags) } else { c.receive_step(w, flags, &mut part) } {
                Step::Got(n) if peeking => {
                    let all = flags & libc::MSG_WAITALL != 0 && flags & libc::MSG_DONTWAIT == 0;
                    if n >= want || !all || peeked.1 == More::No || peeked == (n, More::There) {
                        return Ok(n);
                    }
                    if c.is_nonblocking() || c.has(Conn::SHUT_RD) {
                        return Ok(n);
                    }
                    if peeked.0 == 0 {
                        // As below.
                        signals::begin();
                    }
                    peeked = (n, c.wait_for_more(n, &mut sleeps, |there| sleep(c.fd, there)));
                    continue;
                }
                Step::Got(n) => {
                    sum += n;
                    (ask, in_vain) = (false, 0);
                    // W16: a short receive means that nothing is left, whatever borders lie between.
                    if sum < want && c.goes_on(&c.receiving(), epoch) {
                        continue;
                    }
                    if flags & libc::MSG_WAITALL == 0 || sum >= want {
                        return Ok(sum);
                    }
                    if sum == n {
                        // A handler that ran before there was a part has restarted the call, on TCP.
                        signals::begin();
                    }
                    // It may sleep in between, and others receive meanwhile, as on TCP.
                    part = Part::More(None);
                    looked = false;
                    continue;
                }
                Step::Eof if sum > 0 => return Ok(sum),
                Step::Eof => return c.end_or_error(),
                Step::Err(e) if sum > 0 => {
                    c.keep_error_of_receive(e);
                    return Ok(sum);
                }
                // A broken connection is Plain by now, and not asked again.
                Step::Err(e) if c.stage() == Stage::Live && c.has_news(&c.receiving()) => {
                    c.keep_error_of_receive(e);
                    continue;
                }
                Step::Err(e) => return outcome(c.verdict(e)),
                Step::Nothing if sum > 0 && flags & libc::MSG_WAITALL == 0 => return Ok(sum),
                // Another one may have taken what comes next. It goes on where that one ended, as on TCP.
                Step::Nothing if sum > 0 => part = Part::More(None),
                Step::Nothing => {}
            }
            if c.error.load(Ordering::Relaxed) != 0 {
                return if sum > 0 { Ok(sum) } else { c.end_or_error() };
            }
            c.follow_if_left();
            if c.has(Conn::SHUT_RD) {
                // An error is told all the same.
                return match socket::peek_one(c.fd) {
                    Err(e) if sum == 0 && e != libc::EAGAIN => outcome(c.verdict(e)),
                    _ => Ok(sum),
                };
            }
            if flags & libc::MSG_DONTWAIT != 0 || c.is_nonblocking() {
                if sum > 0 {
                    return Ok(sum);
                }
                let hot = c.receiving().word.is_hot();
                match c.settle(!hot) {
                    Settled::News => continue,
                    Settled::Quiet => return Err(libc::EAGAIN),
                    Settled::Eof => return c.end_or_error(),
                    Settled::Err => return outcome(c.pending_receive()),
                    Settled::Busy if at.fd() != c.fd => continue,
                    Settled::Busy => return Err(libc::EAGAIN),
                }
            }
            if !looked && c.spin_a_while() {
                looked = true;
                continue;
            }
            let rx = c.receiving();
            match c.settle_and(true, ask) {
                Settled::News => continue,
                Settled::Eof if sum > 0 => return Ok(sum),
                Settled::Eof => return c.end_or_error(),
                Settled::Err if sum > 0 => {
                    // The kernel has it still. A send would not ask.
                    c.suspect();
                    return Ok(sum);
                }
                Settled::Err => return outcome(c.pending_receive()),
                Settled::Busy if at.fd() != c.fd => continue,
                // It must not wait for the receive that it interrupted.
                Settled::Busy if sum > 0 => return Ok(sum),
                Settled::Busy => return Err(libc::EAGAIN),
                Settled::Quiet => {}
            }
            rx.word.sleep();
            if at.fd() != c.fd {
                rx.word.awake();
                continue;
            }
            let slept = if c.has_news(&rx) {
                Ok(1)
            } else if signals::came() && (sum > 0 || signals::interrupted() || sleeps.have_limit(&c)) {
                // No handler restarts what has a part, or a time limit (signal(7)).
                Err(sleeps.ended_by_handler(&c))
            } else if c.has(Conn::OWES) {
                // What it waits for may be the answer to that.
                behind::wait_for_either(c.fd, sleeps.began()).map(|()| 1)
            } else {
                sleeps.one_more(&c, sum > 0, || sleep(c.fd, 0))
            };
            // The slot may be another connection's by now.
            let rx = c.receiving();
            rx.word.awake();
            looked = false;
            match slept {
                Ok(_) => {
                    ask = true;
                    in_vain += 1;
                    spin::rest_in_vain(in_vain);
                    c.woke_in_vain(in_vain);
                }
                // The number was closed in the moment before the kernel looked at it.
                Err(libc::EBADF) if at.fd() != c.fd => {}
                Err(e) if c.stage() == Stage::Live && c.has_news(&rx) => {
                    c.count_if_lost(&rx, e);
                    c.keep_error_of_receive(e);
                }
                Err(e) if sum > 0 => {
                    c.keep_error_of_receive(e);
                    return Ok(sum);
                }
                Err(e) => return outcome(c.verdict(e)),
            }
        }
    }

    /// Spins while nothing is there; true when something came. Adapts to how often that helps. By itself, so that what it keeps is
    /// not on the stack of every receive.
    #[inline(never)]
    fn spin_a_while(&self) -> bool {
        let rx = self.receiving();
        // The end of the stream comes through the kernel, and no looking finds it there.
        if rx.tx.is_ending() || !spin::can_pay(self, &rx) {
            return false;
        }
        let budget = spin::budget(self);
        if budget == 0 {
            return false;
        }
        spin::heat(self);
        spin::and_learn(self, budget, || self.hint(&rx) || rx.tx.is_ending())
    }
}

fn outcome(s: Step) -> Result<usize, i32> {
    match s {
        Step::Err(e) => Err(e),
        _ => Ok(0),
    }
}

impl Channel {
    /// What the kernel would tell a receive of a connection with a pending error. Behind a FIN that is the end of the
    /// stream, and the error stays for the next send, which gets EPIPE (W17).
    fn pending_receive(&self) -> Step {
        match socket::peek_one(self.fd) {
            Ok(0) => return Step::Eof,
            Err(libc::EAGAIN) | Ok(_) => {}
            Err(e) => return self.verdict(e),
        }
        // Bells are in front of it.
        match raw::getsockopt_int(self.fd, libc::SOL_SOCKET, libc::SO_ERROR) {
            // The kernel says that to a send anyway.
            Ok(libc::EPIPE) => Step::Eof,
            Ok(e) if e > 0 => self.verdict(e),
            // Somebody else took it meanwhile; the connection is as dead as it was.
            _ => Step::Err(libc::ECONNRESET),
        }
    }

    /// W12: an error after a peer that had read everything it was sent is an end of file.
    fn verdict(&self, e: i32) -> Step {
        if self.stage() == Stage::Plain {
            return Step::Err(e);
        }
        // A peer that closed has drained its bells, so its reset was meant; one that died may have left one, unless it asked
        // for a reset.
        if e == libc::ECONNRESET && self.slot_live() && !self.receiving().tx.is_abrupt() {
            let tx = self.sending();
            let taken = Cursor::unpack(tx.rx.cursor.load(Ordering::Acquire));
            // To one that has left nobody rings.
            if in_ring(tx.tx.epoch()) && !tx.word.is_raw() && taken.off == 0 && taken.pos == self.tail().pos {
                return Step::Eof;
            }
        }
        self.was_told(e);
        Step::Err(e)
    }

    /// The peer wrote what no honest peer writes: the connection is reset (ECONNRESET), nothing else.
    fn ends_corrupt(&self) -> Step {
        self.reset_by(dp_channel::family::Reason::Corrupt);
        Step::Err(libc::ECONNRESET)
    }
}

#[cfg(test)]
mod tests;
