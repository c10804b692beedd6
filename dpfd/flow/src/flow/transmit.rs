//! What a flow sends, and when.
//!
//! In this order: what begins the flow; a question, or what arrived beyond the bits that each frame has; parts that were
//! lost, before new ones, since what is behind them waits for them; what arrived, if nothing else takes it along.

use dp_abi::frame2::{Header, FLAG_ASK, HEADER, KIND_ACK, KIND_HELLO, KIND_PART};

use super::{Down, Flow, Source};
use crate::count::add;
use crate::frame::{self, Hello};
use crate::greeting::Reply;

/// Questions without an answer after which a peer that was silent for long is dead. One or two may be lost, and one alone
/// proves nothing where this process did not run for a while.
const QUESTIONS: u32 = 3;

/// Where all arrived and the receiver has no room, it is asked after this time at the latest, nanoseconds: the frame that
/// said that there is room again may have been lost. Each time in vain it is twice as long, so often at most.
const PROBE: u64 = 50_000_000;
const PROBE_DOUBLED: u8 = 5;

impl<B: AsRef<[u8]> + AsMut<[u8]>, const W: usize> Flow<B, W> {
    /// Writes the next frame that is to be sent into `out`, of at least [`frame_max`](Flow::frame_max) bytes, and says how
    /// long it is. [`None`]: there is nothing to send now, or `out` is too short, which is counted.
    pub fn poll_transmit(&mut self, now: u64, source: &mut impl Source, out: &mut [u8]) -> Option<usize> {
        self.expire(now);
        if out.len() < self.frame_max() {
            add(&mut self.counts.short_buffers, 1);
            return None;
        }
        let len = self.next_frame(now, source, out)?;
        add(&mut self.counts.frames_out, 1);
        Some(len)
    }

    /// The message that the next part is of, if there is one that the peer has room for: for whoever sends some by another way.
    pub fn next_message(&self) -> Option<u64> {
        match self.window.first_lost() {
            Some((_, sent)) => Some(sent.message),
            None if self.window.room() > 0 => self.outbox.next_cut(1).map(|cut| cut.message),
            None => None,
        }
    }

    /// When to call [`poll_transmit`](Flow::poll_transmit) again at the latest; [`None`]: when something has happened. To be
    /// asked after it had nothing to send.
    pub fn next_timeout(&self) -> Option<u64> {
        let paced = self.paced.then(|| self.pace.next());
        let all = [self.greeting.due(), self.ack.due(), self.repeat_at, self.keepalive_at, paced];
        all.into_iter().flatten().min()
    }

    fn next_frame(&mut self, now: u64, source: &mut impl Source, out: &mut [u8]) -> Option<usize> {
        self.paced = false;
        let due = self.greeting.due();
        if let Some(reply) = self.greeting.take(now) {
            // One by the clock is a question.
            if self.awaits.is_some() && self.greeting.due() != due {
                self.asked = self.asked.saturating_add(1);
            }
            return Some(self.hello(reply, out));
        }
        if self.peer == 0 || self.awaits.is_some() {
            return None;
        }
        let due = self.ack.is_due(now);
        let (_, more) = self.reassembly.arrived();
        if self.probe || (due && more) {
            return Some(self.what_arrived(out));
        }
        self.part(now, source, out).or_else(|| due.then(|| self.what_arrived(out)))
    }

    /// A part that was lost, or a new one.
    fn part(&mut self, now: u64, source: &mut impl Source, out: &mut [u8]) -> Option<usize> {
        if self.window.flying() >= self.congestion.window() {
            return None;
        }
        let again = self.window.first_lost();
        let part_max = self.peer_part_max.min(self.way_part_max);
        let new = match again {
            None if self.window.room() > 0 => self.outbox.next_cut(part_max),
            _ => None,
        };
        let (message, begin, bytes, last) = match (again, new) {
            (Some((_, sent)), _) => (sent.message, sent.begin, sent.bytes, sent.last),
            (None, Some(cut)) => (cut.message, cut.begin, cut.bytes, cut.last),
            (None, None) => return None,
        };
        if !self.pace.is_open(now) {
            self.paced = true;
            return None;
        }
        let whole = self.outbox.get(message);
        let (head, mut flags) =
            frame::write_piece_head(&mut out[HEADER..], begin == 0, last, whole.total, whole.immediate);
        let part = &mut out[HEADER + head..][..bytes.into()];
        if !part.is_empty() && source.read(message, begin, part) < part.len() {
            return None;
        }
        let number = match (again, new) {
            (Some((number, _)), _) => {
                self.window.repeat(now, number);
                add(&mut self.counts.repeats, 1);
                number
            }
            (None, Some(cut)) => {
                self.outbox.take_cut(&cut);
                self.window.push(now, message, begin, bytes, last)
            }
            (None, None) => return None,
        };
        // The last for which there is room: the sender stands still until it hears.
        if self.window.lost() == 0 && self.window.room() == 0 {
            flags |= FLAG_ASK;
        }
        let len = self.seal(out, KIND_PART, flags, number, head + usize::from(bytes));
        let len = frame::fill_up(out, len, part_max, (begin, last), whole.total);
        self.pace.sent(now, len + self.around());
        self.repeat_at.get_or_insert(now.saturating_add(self.rtt.timeout()));
        if !self.reassembly.arrived().1 {
            self.ack.said_along();
        }
        Some(len)
    }

    fn what_arrived(&mut self, out: &mut [u8]) -> usize {
        let flags = if core::mem::take(&mut self.probe) { FLAG_ASK } else { 0 };
        let behind = self.reassembly.write_arrived(&mut out[HEADER..]);
        self.ack.said();
        self.seal(out, KIND_ACK, flags, self.window.next(), behind)
    }

    fn hello(&mut self, reply: Reply, out: &mut [u8]) -> usize {
        let hello = Hello {
            mine: reply.mine,
            yours: reply.yours,
            current: self.greeting.outgoing(),
            ask: reply.ask,
            first: self.config.first_number,
            room: self.reassembly.room(),
            part_max: self.reassembly.part_max(),
            user: self.config.user,
            resume: self.resume.map_or((0, 0), |place| (place.tag, place.taken)),
        };
        let behind = frame::write_hello(&mut out[HEADER..], &hello);
        let mut header = self.header(KIND_HELLO, 0, hello.first);
        header.tag = hello.yours;
        header.flags = if hello.ask { FLAG_ASK } else { 0 };
        frame::seal(out, header, behind, self.config.checksum)
    }

    fn seal(&self, out: &mut [u8], kind: u8, flags: u8, number: u32, behind: usize) -> usize {
        frame::seal(out, self.header(kind, flags, number), behind, self.config.checksum)
    }

    pub(super) fn header(&self, kind: u8, flags: u8, number: u32) -> Header {
        Header {
            kind,
            flags,
            bytes: 0,
            from_nid: self.config.from.nid,
            from_dpid: self.config.from.dpid,
            to_nid: self.config.to.nid,
            to_dpid: self.config.to.dpid,
            tag: self.greeting.outgoing(),
            number,
            acknowledged: self.reassembly.expected(),
            word: Header::room_and_arrived(self.reassembly.room(), self.reassembly.arrived().0),
            checksum: 0,
        }
    }

    /// What the clock brings.
    fn expire(&mut self, now: u64) {
        if self.awaits.is_some() && self.greeting.due().is_some_and(|at| at <= now) && self.is_dead(now) {
            return self.end(Down::Silent);
        }
        if self.repeat_at.is_some_and(|at| at <= now) && !self.no_answer(now) {
            return;
        }
        if self.keepalive_at.is_some_and(|at| at <= now) {
            self.asked = self.asked.saturating_add(1);
            if self.is_dead(now) {
                return self.end(Down::Silent);
            }
            self.probe = true;
            self.keepalive_at = Some(now.saturating_add(self.config.keepalive));
        }
    }

    /// Nothing was heard for a time-out. Whether the peer may be there.
    fn no_answer(&mut self, now: u64) -> bool {
        let flying = self.window.flying() > 0;
        // Otherwise what was lost has not left again: it waits for the link's speed or for the source.
        if flying || self.window.lost() == 0 {
            self.asked = self.asked.saturating_add(1);
            if self.is_dead(now) {
                self.end(Down::Silent);
                return false;
            }
            add(&mut self.counts.timeouts, 1);
            self.rtt.double();
        }
        let mut wait = self.rtt.timeout();
        if flying {
            self.window.give_up();
            if self.asked == 1 {
                self.congestion.note();
            }
            // One time-out on a way that is not crowded is a wire's doing, as one loss is.
            if self.config.share && (self.asked > 1 || self.rtt.is_queueing()) {
                self.congestion.silent(self.window.order());
            }
        } else if self.window.lost() == 0 {
            self.probe = true;
            wait = wait.min(PROBE << self.stalled);
            self.stalled = (self.stalled + 1).min(PROBE_DOUBLED);
        }
        self.repeat_at = Some(now.saturating_add(wait));
        true
    }

    fn is_dead(&self, now: u64) -> bool {
        self.asked >= QUESTIONS && now.saturating_sub(self.heard) >= self.config.dead_after
    }
}
