//! Messages of a program here to one endpoint there, until they are acknowledged. They stay in the pool of the proxy, so a
//! receiver that does not read stops its sender.

use std::collections::VecDeque;

use dp_flow::{Flow, NotSent, Source};

use crate::local::Message;
use crate::WINDOW;

/// In the order in which they were sent.
#[derive(Debug)]
pub struct Outgoing<M> {
    /// The first `accepted` are with the flow, the rest waits for room there.
    queue: VecDeque<M>,
    accepted: usize,
    /// The flow's number of the first.
    first: u64,
    /// How many of them name a route.
    routed: usize,
}

impl<M> Default for Outgoing<M> {
    fn default() -> Outgoing<M> {
        Outgoing { queue: VecDeque::new(), accepted: 0, first: 0, routed: 0 }
    }
}

impl<M: Message> Outgoing<M> {
    /// One more.
    pub fn push(&mut self, message: M) {
        self.routed += usize::from(message.route() != 0);
        self.queue.push_back(message);
    }

    /// Whether any of them names a route.
    pub fn is_routed(&self) -> bool {
        self.routed > 0
    }

    /// The route that the flow's message of that number names; 0: none.
    pub fn route_of(&self, message: u64) -> u64 {
        self.get(message).map_or(0, Message::route)
    }

    fn get(&self, message: u64) -> Option<&M> {
        let at = message.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
        at.and_then(|at| self.queue.get(at))
    }

    /// Those that are not acknowledged.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Gives the flow what it has room for. To be called when no event of its is left. Whether it took any.
    pub fn offer(&mut self, now: u64, flow: &mut Flow<Vec<u8>, WINDOW>) -> bool {
        let before = self.accepted;
        while let Some(message) = self.queue.get(self.accepted) {
            let outgoing = dp_flow::Outgoing { total: message.size() as u32, immediate: message.immediate() };
            match flow.send(now, outgoing) {
                Ok(number) => {
                    debug_assert_eq!(number, self.first + self.accepted as u64);
                    self.accepted += 1;
                }
                // No pool has one that is longer than a message may be.
                Err(NotSent::Full | NotSent::Lost | NotSent::TooLong) => break,
            }
        }
        self.accepted > before
    }

    /// The flow said: those before this number are with their receiver.
    pub fn delivered(&mut self, before: u64) {
        let n = before.saturating_sub(self.first).min(self.accepted as u64) as usize;
        let routed = self.queue.drain(..n).filter(|message| message.route() != 0).count();
        self.routed -= routed;
        self.accepted -= n;
        self.first += n as u64;
    }

    /// The flow said: it has forgotten those before this number, and nobody acknowledged them. They are here, and go again.
    pub fn lost(&mut self, before: u64) {
        self.accepted = 0;
        self.first = before;
    }
}

impl<M: Message> Source for Outgoing<M> {
    fn read(&mut self, message: u64, begin: u32, out: &mut [u8]) -> usize {
        self.get(message).map_or(0, |message| message.copy_from(begin as usize, out))
    }
}
