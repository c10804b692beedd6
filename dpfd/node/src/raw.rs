//! Messages between one endpoint here and one there that nobody acknowledges, for programs that would rather lose one than wait
//! for it (GAMMA's datagrams).
//!
//! They wait for room in this machine's own queue and for nothing else: not for the other node, and not for the receiver. Only
//! the first wait until the two ends' flow has greeted, without which a frame with a forged address would be a message. A
//! message comes whole or not at all, once at most, and behind those that were sent before it. What does not come is counted
//! where that is seen: by whoever receives, or here where no route to the node works.

use std::collections::VecDeque;

use dp_flow::{Config, Invalid, Outgoing, Part, Raw, RawCounts, RawFrame, Refused};

use crate::incoming::{Budget, Incoming, Receiver};
use crate::local::Message;

/// Messages that wait for that, at most, and how long one does, nanoseconds. The oldest makes room for the youngest: its memory
/// is the sender's, who waits for it.
const MOST: usize = 128;
const PATIENCE: u64 = 1_000_000_000;
/// The rest of a message is waited for so long, nanoseconds, from its last part on.
const REST: u64 = 1_000_000_000;

/// What one side has counted beside [`RawCounts`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Messages whose frames were all written.
    pub messages: u64,
    /// Messages that were dropped since no route to the node works, or it did not greet in time.
    pub dropped: u64,
}

/// A message that has not left, and since when.
#[derive(Debug)]
struct Waiting<M> {
    message: M,
    since: u64,
}

/// Both directions.
#[derive(Debug)]
pub struct Datagrams<M> {
    raw: Raw,
    /// Messages of the program here, and what is left of the first.
    queue: VecDeque<Waiting<M>>,
    rest: Option<RawFrame>,
    incoming: Incoming,
    /// Of a message some parts have come: when nobody waits for the others any more.
    unfinished: Option<u64>,
    sent: Sent,
}

impl<M: Message> Datagrams<M> {
    /// Between the ends that `config` names.
    ///
    /// # Errors
    ///
    /// As [`Raw::new`].
    pub fn new(config: Config) -> Result<Datagrams<M>, Invalid> {
        let (queue, incoming) = (VecDeque::new(), Incoming::default());
        let (raw, sent) = (Raw::new(config)?, Sent::default());
        Ok(Datagrams { raw, queue, rest: None, incoming, unfinished: None, sent })
    }

    /// A program here sends. `greeted`: it waits for room alone.
    pub fn push(&mut self, now: u64, message: M, greeted: bool) {
        if !greeted && self.queue.len() >= MOST {
            self.drop_first();
        }
        self.queue.push_back(Waiting { message, since: now });
    }

    fn drop_first(&mut self) {
        if self.queue.pop_front().is_some() {
            // The next message ends this one.
            (self.rest, self.sent.dropped) = (None, self.sent.dropped + 1);
        }
    }

    /// What is not waited for any more: that node's greeting, without `greeted`, and the rest of what comes.
    pub fn expire(&mut self, now: u64, greeted: bool, budget: &mut Budget, most: usize) {
        while !greeted && self.queue.front().is_some_and(|first| now >= first.since + PATIENCE) {
            self.drop_first();
        }
        if self.unfinished.is_some_and(|until| now >= until) {
            self.raw.give_up_begun();
            self.clear(budget, most);
        }
    }

    /// When to call that, at the latest.
    pub fn next_timeout(&self, greeted: bool) -> Option<u64> {
        let first = self.queue.front().filter(|_| !greeted).map(|first| first.since + PATIENCE);
        [first, self.unfinished].into_iter().flatten().min()
    }

    /// The first message that has not left.
    pub fn next(&self) -> Option<&M> {
        self.queue.front().map(|first| &first.message)
    }

    /// Messages that have not left.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Writes the next frame, if there is one. A message is given back as soon as its last frame is written.
    /// Frames have this tag, and there are none without one.
    pub fn poll_transmit(&mut self, tag: Option<u32>, out: &mut [u8]) -> Option<usize> {
        let (message, tag) = (&self.queue.front()?.message, tag?);
        self.raw.set_tag(tag);
        if self.rest.is_none() {
            let outgoing = Outgoing { total: message.size() as u32, immediate: message.immediate() };
            self.rest = self.raw.begin(0, outgoing);
        }
        let Some(rest) = self.rest.as_mut() else {
            // Longer than any may be.
            self.drop_first();
            return None;
        };
        let mut source = |_: u64, begin: u32, out: &mut [u8]| message.copy_from(begin as usize, out);
        let (written, has_room) = (self.raw.write(rest, &mut source, out), out.len() >= self.raw.frame_max());
        if rest.is_done() {
            self.queue.pop_front();
            (self.rest, self.sent.messages) = (None, self.sent.messages + 1);
        } else if written.is_none() && has_room {
            // It is shorter than it said, and would be in the way of all others.
            self.drop_first();
        }
        written
    }

    /// No route to the node works: what waits is lost.
    pub fn drop_waiting(&mut self) {
        self.sent.dropped += self.queue.len() as u64;
        self.queue.clear();
        // The next message ends this one.
        self.rest = None;
    }

    /// The longest part that goes to that node from now on.
    pub fn set_part_max(&mut self, part_max: u16) {
        self.raw.set_part_max(part_max);
    }

    /// A frame came now, which is taken if `admit` lets its tag in.
    ///
    /// # Errors
    ///
    /// It was dropped, and counted.
    pub fn on_frame(
        &mut self,
        now: u64,
        frame: &[u8],
        admit: impl FnOnce(u32) -> Result<(), Refused>,
        budget: &mut Budget,
        most: usize,
        to: &mut impl Receiver,
    ) -> Result<(), Refused> {
        let Datagrams { raw, incoming, .. } = self;
        let mut sink = |part: Part<'_>| {
            let taken = incoming.put(part, budget, most, to);
            if !taken {
                // It is not offered again.
                incoming.clear(budget, most);
            }
            taken
        };
        let taken = raw.on_frame_if(frame, admit, &mut sink);
        if !raw.is_inside() {
            // What there is of a message that was given up is of no use.
            self.clear(budget, most);
        } else if taken.is_ok() {
            self.unfinished = Some(now + REST);
        }
        taken
    }

    fn clear(&mut self, budget: &mut Budget, most: usize) {
        self.incoming.clear(budget, most);
        self.unfinished = None;
    }

    /// It is forgotten.
    pub fn end(&mut self, budget: &mut Budget, most: usize) {
        self.clear(budget, most);
    }

    /// Whether a message was sent, or a frame of one came that was let in.
    pub fn is_used(&self) -> bool {
        let nothing = RawCounts { refused: self.raw.counts().refused, ..RawCounts::default() };
        self.waiting() > 0
            || self.raw.is_inside()
            || (*self.raw.counts(), self.sent) != (nothing, Sent::default())
    }

    /// What was counted, of frames that came and of messages that left.
    pub fn counts(&self) -> (RawCounts, Sent) {
        (*self.raw.counts(), self.sent)
    }
}

#[cfg(test)]
mod tests;
