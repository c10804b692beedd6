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

/// Messages that wait for that, at most.
const MOST: usize = 128;

/// What one side has counted beside [`RawCounts`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Messages whose frames were all written.
    pub messages: u64,
    /// Messages that were dropped since no route to the node works, or it did not greet.
    pub dropped: u64,
}

/// Both directions.
#[derive(Debug)]
pub struct Datagrams<M> {
    raw: Raw,
    /// Messages of the program here, and what is left of the first.
    queue: VecDeque<M>,
    rest: Option<RawFrame>,
    incoming: Incoming,
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
        Ok(Datagrams { raw: Raw::new(config)?, queue, rest: None, incoming, sent: Sent::default() })
    }

    /// A program here sends. `greeted`: it waits for room alone.
    pub fn push(&mut self, message: M, greeted: bool) {
        if greeted || self.queue.len() < MOST {
            self.queue.push_back(message);
        } else {
            self.sent.dropped += 1;
        }
    }

    /// The first message that has not left.
    pub fn next(&self) -> Option<&M> {
        self.queue.front()
    }

    /// Messages that have not left.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Writes the next frame, if there is one. A message is given back as soon as its last frame is written.
    /// Frames have this tag, and there are none without one.
    pub fn poll_transmit(&mut self, tag: Option<u32>, out: &mut [u8]) -> Option<usize> {
        let (message, tag) = (self.queue.front()?, tag?);
        self.raw.set_tag(tag);
        if self.rest.is_none() {
            let outgoing = Outgoing { total: message.size() as u32, immediate: message.immediate() };
            self.rest = self.raw.begin(0, outgoing);
        }
        let rest = self.rest.as_mut()?;
        let mut source = |_: u64, begin: u32, out: &mut [u8]| message.copy_from(begin as usize, out);
        let written = self.raw.write(rest, &mut source, out);
        if rest.is_done() {
            self.queue.pop_front();
            (self.rest, self.sent.messages) = (None, self.sent.messages + 1);
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

    /// A frame came, which is taken if `admit` lets its tag in.
    ///
    /// # Errors
    ///
    /// It was dropped, and counted.
    pub fn on_frame(
        &mut self,
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
        raw.on_frame_if(frame, admit, &mut sink)
    }

    /// It is forgotten.
    pub fn end(&mut self, budget: &mut Budget, most: usize) {
        self.incoming.clear(budget, most);
    }

    /// What was counted, of frames that came and of messages that left.
    pub fn counts(&self) -> (RawCounts, Sent) {
        (*self.raw.counts(), self.sent)
    }
}

#[cfg(test)]
mod tests;
