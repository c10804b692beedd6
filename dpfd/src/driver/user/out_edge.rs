//! An edge, its sender's side: writing into it, and what to do when it is full or too short.

use std::os::fd::OwnedFd;

use super::note::OutOfLinePacket;
use super::packet::{ring, Delivery};
use crate::edge::arm::Due;
use crate::edge::beside::Beside;
use crate::edge::inbox::Doorbell;
use crate::edge::message::{self, Content};
use crate::edge::segment::Segment;
use crate::pool::budget::LONGER;
use dp_edge::ring::{Pos, Tail};
use dp_edge::sync::Ordering;
use dp_edge::sys::process;

/// An edge, its sender's side.
#[derive(Debug)]
pub struct OutEdge {
    segment: Segment,
    tail: Tail,
    /// It took the place of another, not all of which was released by then: whether it is now is seen by what is read here.
    behind: bool,
    /// Messages since it was looked around, and where the tail was then.
    turn: u8,
    lap: Pos,
    /// What the receiver knows this edge by, on its descriptor.
    key: u64,
    /// The number of the last out-of-line message, and the position behind it.
    out_of_line: (u64, Pos),
    /// How often it was too short since that was said.
    short: u32,
    /// When everything sent to the destination comes to so many bytes, that may be said, and how many more it is the next
    /// time: nobody answers who has no longer one.
    say_at: (u64, u64),
}

/// How often an edge is too short before its sender says so. It must have sent as much, too, as so many times the edge, or as is
/// in a longer one: whoever sends little never has one.
pub const OFTEN: u32 = 16;
const MUCH: u64 = 64;
/// An edge is full after few messages, bytes.
const FEW_MESSAGES: usize = 64 << 10;

/// Lines in a turn of 256 messages of 8 KiB on average, and how often they go through an edge that is too short for them,
/// though it may never be full: they come back into a cache that is too small for them.
const LONG: u64 = (256 * 8192 / dp_edge::ring::LINE) as u64;
const LAPS: u64 = 16;

impl OutEdge {
    /// The sender's side of an edge that is empty. `sent`: bytes that went to its receiver before; `former`: the edge whose place
    /// it takes.
    pub fn new(segment: Segment, sent: u64, former: Option<OutEdge>) -> OutEdge {
        let much = (MUCH * segment.ring_len() as u64).min(LONGER as u64);
        OutEdge {
            key: segment.key(),
            segment,
            tail: Tail::default(),
            behind: former.is_some_and(|mut edge| !edge.is_released()),
            // The first message says where we run.
            turn: u8::MAX,
            lap: Pos::default(),
            out_of_line: (0, Pos::default()),
            short: 0,
            say_at: (sent + much, 2 * much),
        }
    }

    /// One more message is tried. Whether it is seen just now that the edge is too short for such.
    #[inline(always)]
    pub fn outgrown(&mut self) -> bool {
        self.turn = self.turn.wrapping_add(1);
        self.turn == 0 && self.look_around()
    }

    #[cold]
    fn look_around(&mut self) -> bool {
        self.tell_cpu();
        let lines = self.tail.pos.since(core::mem::replace(&mut self.lap, self.tail.pos));
        let short = lines >= LONG.max(LAPS * self.count());
        if short {
            self.short = self.short.max(OFTEN);
        }
        short
    }

    #[inline(always)]
    /// Writes one message.
    pub fn send(&mut self, msg: &impl Content) -> Delivery {
        let rx = self.segment.rx();
        match msg.send_over(&self.segment.lines(), &mut self.tail, &rx.cursor) {
            Ok(()) => Delivery::Done,
            Err(dp_edge::Error::Full) => Delivery::Full,
            Err(dp_edge::Error::TooLong(limit)) => Delivery::TooLong(limit),
            Err(_) => Delivery::Gone,
        }
    }

    /// Tells the receiver where this sender runs: whether looking pays.
    fn tell_cpu(&self) {
        let (mine, told) = (process::cpu(), &self.segment.tx().cpu);
        if told.load(Ordering::Relaxed) != mine {
            told.store(mine, Ordering::Relaxed);
        }
    }

    /// The receiver sleeps, and is told of what it was sent.
    #[cold]
    pub fn tell(&self, owed: Due, back: &OwnedFd, bell: &mut Doorbell) {
        match owed {
            Due::Nothing => return,
            Due::Futex => self.segment.event_count().notify(),
            Due::Bell if !ring(back) => bell.not_rung(),
            Due::Bell => {}
        }
        self.tell_cpu();
    }

    fn count(&self) -> u64 {
        (self.segment.ring_len() / dp_edge::ring::LINE) as u64
    }

    /// Where a message out of line has its place; the packet that brings it comes first. One at a time: what a sender has out
    /// of line is not bounded by the pool.
    pub fn place_out_of_line(&mut self, beside: Beside) -> Result<OutOfLinePacket, Delivery> {
        if self.tail.refresh(&self.segment.rx().cursor).is_err() {
            return Err(Delivery::Gone);
        }
        let unread = self.tail.pos.since(self.tail.seen);
        let waits = unread > 0 && self.tail.pos.since(self.out_of_line.1) < unread;
        if waits || self.tail.free(self.count()) == 0 {
            return Err(Delivery::Full);
        }
        Ok(OutOfLinePacket { key: self.key, number: self.out_of_line.0 + 1, beside })
    }

    /// Whether there is room now for a message of so many bytes, in the edge or out of line.
    pub fn has_room(&mut self, len: usize) -> bool {
        let (count, before) = (self.count(), dp_edge::ring::ROUTED);
        if len > dp_edge::ring::max_payload(count) - before {
            return self.place_out_of_line(Beside::default()).is_ok();
        }
        let lines = dp_edge::ring::lines_for(before + len);
        self.tail.refresh(&self.segment.rx().cursor).is_ok() && self.tail.free(count) >= lines
    }

    /// Its packet, of `len` bytes, is with the receiver: the token that keeps its place.
    pub fn send_out_of_line(&mut self, number: u64, len: usize) -> Result<(), dp_edge::Error> {
        let cursor = &self.segment.rx().cursor;
        message::send_out_of_line(&self.segment.lines(), &mut self.tail, cursor, number)?;
        self.out_of_line = (number, self.tail.pos);
        self.short = self.short.saturating_add(u32::from(len < LONGER));
        Ok(())
    }

    /// Says that room is wanted; true when there was some after all, so that another try is worth it.
    pub fn want_room(&mut self) -> bool {
        self.segment.space().want();
        let before = self.tail.seen;
        self.tail.refresh(&self.segment.rx().cursor).is_err() || self.tail.seen != before
    }

    /// Whether its receiver has released all that was sent over it, and over the one whose place it took.
    pub fn is_released(&mut self) -> bool {
        let read = self.tail.refresh(&self.segment.rx().cursor).is_err() || self.tail.pos == self.tail.seen;
        // The receiver reads what was in the former one first.
        self.behind &= !read || self.tail.pos == Pos::default();
        read && !self.behind
    }

    /// It was full, for a sender that waits for a receiver that does not keep up. A longer one would be as full; but where few
    /// messages fill it, each of them goes by the service, which takes longer than both of them.
    pub fn count_slow(&mut self) {
        self.short = self.short.saturating_add(u32::from(self.segment.ring_len() < FEW_MESSAGES));
    }

    /// It was full, for a sender that does not wait, or whose receiver keeps up.
    pub fn count_short(&mut self) {
        self.short = self.short.saturating_add(1);
    }

    /// As if it had never been.
    #[cfg(test)]
    pub fn forget_short(&mut self) {
        self.short = 0;
    }

    /// Whether it is time to ask for a longer one, after so many bytes to its receiver; then not again for long.
    pub fn asks_for_longer(&mut self, sent: u64) -> bool {
        let (at, more) = self.say_at;
        let asks = self.short >= OFTEN && sent >= at;
        if asks {
            (self.short, self.say_at) = (0, (sent.saturating_add(more), more.saturating_mul(2)));
        }
        asks
    }

    /// Messages that went there as memory of their own.
    #[cfg(test)]
    pub fn out_of_line(&self) -> u64 {
        self.out_of_line.0
    }

    /// Looks for room for a moment, while the receiver goes on taking. Only where that can be on another CPU.
    pub fn look_for_room(&mut self, ns: u64) -> bool {
        self.tell_cpu();
        let rx = self.segment.rx();
        let theirs = rx.cpu.load(Ordering::Relaxed);
        if theirs == 0 || theirs == process::cpu() {
            return false;
        }
        let before = rx.cursor.load(Ordering::Relaxed);
        process::spin_for(ns, || rx.cursor.load(Ordering::Relaxed) != before)
    }
}
