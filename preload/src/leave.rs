//! Leaving the channel for good, because somebody else will use the descriptor who cannot see it: stdio,
//! an executed program, another process (PROTOCOLS E8).
//!
//! Both sides may leave at once, so each clears its own direction completely: the sender takes back what the
//! receiver has not committed (the cursor is frozen), puts it on TCP, and stays there ([`Channel::clear_direction`]). For the
//! other direction the word says LEFT, bells already counted are waited for and drained, and the peer, who
//! gets one bell to look, clears its own in turn.
//!
//! It may not be able to: it has closed, or ended, or is back on TCP already with a rest in the ring, or TCP does not
//! take that much at once. So while there is something in the ring, the connection stays live for the calls that see it,
//! and they read that rest, or follow it onto TCP; a stranger gets the end of a [`crate::relay`], which does so for it. So who
//! leaves pays for that, and never the sender (`tx/back.rs`).

use core::sync::atomic::Ordering;

use dp_channel::family::{Conn, End, Reason, Stage};
use dp_channel::switch::in_ring;
use dp_edge::sys::raw;

use crate::channel::Channel;
use crate::fdtable::{self};
use crate::inside::brief::briefly;
use crate::rx::Refused;
use crate::{client, epoll, events, rx, socket, state};

/// What a receiver that left had not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// Nothing.
    Nothing,
    /// Something: its sender puts it on TCP when it looks.
    Rest,
    /// Not known: this is a signal handler inside a call of its own thread on the same connection.
    Inside,
    /// Not known: the descriptor means something else meanwhile.
    Another,
    /// Something that its sender cannot put there; or what this side sent is not there yet, and a stranger's bytes
    /// would pass it.
    Stranded,
}

/// Whether somebody who sees the channel, this process or a relay of its own, takes what the sender does not put on TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reader {
    Stays,
    No,
}

/// Takes the connection behind `fd` to plain TCP for good, for somebody who does not see channels. What is left in the
/// ring, calls that do get meanwhile.
pub fn leave(fd: i32, why: Reason) -> Left {
    leave_as(fd, why, Reader::No)
}

/// The same where only this program's own calls read it.
pub fn leave_and_read(fd: i32, why: Reason) -> Left {
    leave_as(fd, why, Reader::Stays)
}

fn leave_as(fd: i32, why: Reason, reader: Reader) -> Left {
    Channel::of(fd).map_or(Left::Nothing, |c| briefly(|| c.leave_inside(why, reader)))
}

impl Channel {
    fn leave_inside(&self, why: Reason, reader: Reader) -> Left {
        if matches!(self.stage(), Stage::Candidate | Stage::Offered | Stage::Accepted) {
            // Under the lock: another thread of ours may be about to go a step further.
            match self.try_as_receiver(|| self.take_back_our_word(why)) {
                Ok(()) => {}
                Err(Refused::Inside) => self.take_back_our_word(why),
                Err(Refused::Another) => return Left::Another,
            }
        }
        if self.stage() == Stage::Live {
            return self.leave_live(why, reader);
        }
        Left::Nothing
    }

    /// Leaves before both sides are known to have agreed.
    fn take_back_our_word(&self, why: Reason) {
        let generation = self.generation.load(Ordering::Relaxed);
        match self.stage() {
            Stage::Candidate => self.give_up(why),
            Stage::Offered => {
                if self.slot().is_some_and(|s| s.withdraw(generation)) {
                    client::release(self);
                } else {
                    // The server took the offer meanwhile; without our word it carries nothing.
                    self.kill_slot();
                    client::leave(self);
                }
                self.give_up(why);
            }
            Stage::Accepted if self.slot().is_some_and(|s| s.refuse(generation)) => self.give_up(why),
            // The client has confirmed. It may have sent and closed since, and the slot be dead; what it sent is in its ring
            // all the same, and bells are where a stranger would look for bytes.
            Stage::Accepted => self.go_live(),
            _ => {}
        }
    }
}

/// The same where glibc is about to write by itself: behind everything that was sent before.
pub fn leave_to_write(fd: i32, why: Reason) -> Result<(), i32> {
    leave_and_read(fd, why);
    Channel::of(fd).map_or(Ok(()), |c| c.wait_behind(!raw::is_nonblocking(fd)))
}

impl Channel {
    /// Plain TCP for every call, unless something is still to be read, or put there, before that.
    fn leave_live(&self, why: Reason, reader: Reader) -> Left {
        let again = self.has(Conn::TX_TCP);
        if !again {
            self.reason.store(why as u32, Ordering::Relaxed);
            state::count(why);
            events::leave(self, why);
        }
        let inward = self.receiving();
        inward.word.leave_raw(reader == Reader::Stays);
        // The peer publishes, then looks at the word; we wrote the word, and look now: what is not here yet, it takes
        // back itself. Where nobody can look, as if there were something.
        let rest = self.as_receiver(|| self.has_unread(&inward)).unwrap_or(true);
        let cleared = self.as_sender(|| {
            let out = self.sending();
            // It goes to TCP for good: no longer ring.
            self.drop_claim(&out);
            // One bell, so that a sleeping peer looks and takes the rest back; it has to stand in a ring epoch.
            if rest && !again && (in_ring(out.tx.epoch()) || self.goes_to_ring(&out)) {
                self.announce(&out);
            }
            self.clear_direction(&out);
        });
        if cleared.is_none() {
            // The send that we are inside of goes on in the ring; the next one hands back.
            self.set(Conn::TX_TCP);
        }
        let left = self.try_as_receiver(|| {
            self.drain_for_close(&inward, rx::Patience::Stranger);
            self.left_behind(&inward)
        });
        let (rest, bells) = match (left, cleared) {
            (Ok(left), Some(())) => left,
            // Whoever has another number for it reads what is left, and ends the leave.
            (Err(Refused::Another), _) => return Left::Another,
            _ => return Left::Inside,
        };
        if let Some(i) = fdtable::conn(self.fd).filter(|_| rest) {
            epoll::bells_are_gone(i);
        }
        self.holds_back_as_asked();
        if !rest && !bells && !self.has(Conn::OWES) {
            self.set_stage(Stage::Plain);
        }
        match rest || bells {
            // The owner of the other end sees this one, and waits until it is clear.
            _ if self.has(Conn::OWES) => Left::Stranded,
            false => Left::Nothing,
            // A bell that does not come is for somebody who can tell it from data.
            true if !rest => Left::Stranded,
            true if inward.tx.can_take_back() && !socket::ended(self.fd) => Left::Rest,
            true => Left::Stranded,
        }
    }

    /// What is left of the direction in, for whoever sees the channel: bytes in the ring, and bells. With neither, the sender is told
    /// that nothing of its may stay in the ring from now on. Under the lock.
    fn left_behind(&self, inward: &End) -> (bool, bool) {
        let left = || (self.has_unread(inward), self.has_bells_left(inward));
        if left() == (false, false) {
            inward.word.stops_reading();
        }
        left()
    }

    /// The end of a leave that had left something behind: whether all of that was read by now, so that the connection is the kernel's
    /// from here on. A receive that finds nothing more asks, and so does a call that sets what only the kernel can bring about.
    #[inline]
    pub fn ends_leave(&self) -> bool {
        // Both sides go back to TCP, or this one has sent an urgent byte: all the others are not to pay for the question.
        self.has(Conn::TX_TCP) && self.ends_leave_of_live()
    }

    #[cold]
    fn ends_leave_of_live(&self) -> bool {
        let kept = self.has(Conn::OWES) || self.error.load(Ordering::Relaxed) != 0;
        if kept || self.stage() != Stage::Live || !self.receiving().word.is_raw() {
            return false;
        }
        let inward = self.receiving();
        let ends = || {
            let is_over = self.stage() == Stage::Live && self.left_behind(&inward) == (false, false);
            if is_over {
                self.holds_back_as_asked();
                self.set_stage(Stage::Plain);
            }
            is_over
        };
        self.as_receiver(ends) == Some(true)
    }

    /// What the program asked of TCP holds again: no bell goes there any more that would be held back.
    pub fn holds_back_as_asked(&self) {
        for (name, flag) in [(libc::TCP_NODELAY, Conn::NODELAY), (libc::TCP_CORK, Conn::CORK)] {
            let _ = raw::setsockopt_int(self.fd, libc::IPPROTO_TCP, name, i32::from(self.has(flag)));
        }
    }

    /// The socket is no connection any more, and may become another one: it has what the program asked of it.
    pub fn gives_socket_back(&self) {
        if self.stage() == Stage::Live {
            self.holds_back_as_asked();
        }
        self.gives_rate_back();
        self.ends_as_it_was();
    }

    /// Whether bells that were counted are not here yet, or lie behind bytes that were not read. Under the lock.
    pub fn has_bells_left(&self, inward: &End) -> bool {
        let r = self.rx_epoch.load(Ordering::Relaxed);
        // The sender publishes where its ring begins before it counts a bell there: asked the other way round. What was in that ring
        // it may have taken back since.
        let counted = inward.word.bells() != self.drained.load(Ordering::Relaxed);
        let in_front =
            !in_ring(r) && self.rx_data.load(Ordering::Relaxed) > self.rx_kernel.load(Ordering::Relaxed);
        in_front || counted && (in_ring(r) || inward.tx.moved(r))
    }
}

#[cfg(test)]
mod tests;
