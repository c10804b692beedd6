//! The messages of a pool: in edges, loaned to the program in place, released in order.
//!
//! A message is *loaned* from the moment it was read until it is released; its lines go back to the sender when
//! it and all messages of its edge before it are released. Messages that came through the descriptor (from
//! senders without an edge, or from before there was a pool) are loaned the same way out of memory of their own.

use std::collections::VecDeque;

use super::budget::Returned;
use super::in_edge::{InEdge, Longer};
use super::loaned::{told_of, Kept, Loan, Queue, NO_EDGE};
use super::out_of_line::{Memory, Own};
use super::SHORT;
use crate::addr::Addr;
use crate::edge::beside::Beside;
use crate::edge::message::far_number;
use crate::edge::out_of_line::OutOfLine;
use crate::sys::loaned::{Copied, Got};
use dp_edge::ring::{Kind, Pos, Token};
use dp_edge::Error;

/// Messages taken from one edge in a row while others wait.
const STREAK: u32 = 32;

/// What a look at the edges found.
#[derive(Debug)]
pub enum Look {
    /// A message, now loaned.
    Got(Got),
    /// What the sender of this edge put on the descriptor comes before its token: empty the descriptor, say so
    /// ([`Tokens::emptied`]), look again.
    Fresh(usize),
    /// There is no room to map the next message now; it stays the next.
    Failed(i32),
    /// Nothing.
    Nothing,
}

/// All edges and all messages loaned.
#[derive(Debug, Default)]
pub struct Tokens {
    edges: Vec<Option<InEdge>>,
    turn: usize,
    streak: u32,
    loaned: Queue,
    /// Messages that came through the descriptor.
    own: VecDeque<(Addr, Own)>,
    /// Edges that were given up because their senders wrote nonsense.
    pub corrupt: u64,
    /// Bytes of edges that ended, to go back to the budget.
    pub returned: Returned,
    /// A sender is gone and its edge empty: [`Tokens::mark_ended`] and what follows lets go of it.
    pub ended: bool,
    /// Messages and bytes that came through the descriptor, or from edges that ended.
    past: (u64, u64),
}

impl Tokens {
    /// A new edge.
    pub fn add(&mut self, edge: InEdge) {
        match self.edges.iter_mut().find(|e| e.is_none()) {
            Some(free) => *free = Some(edge),
            None => self.edges.push(Some(edge)),
        }
    }

    /// A longer edge for the sender of the one with this key.
    pub fn add_longer(&mut self, key: u64, longer: Longer) {
        let edge = self.edges.iter_mut().flatten().find(|e| e.has_key(key));
        let refused = match edge {
            Some(edge) => edge.grow(longer).err(),
            None => Some(longer),
        };
        self.returned.grown += refused.map_or(0, |longer| longer.ring_len());
    }

    /// A message that came through the descriptor.
    pub fn add_own(&mut self, from: Addr, message: Own) {
        self.own.push_back((from, message));
    }

    /// A message out of line, for the token `number` of the edge with this key. An honest sender has one at a
    /// time.
    pub fn add_out_of_line(&mut self, key: u64, number: u64, message: Memory) {
        let mut message = message;
        for edge in self.edges.iter_mut().flatten() {
            match edge.take_out_of_line(key, number, message) {
                Ok(()) => return,
                Err(back) => message = back,
            }
        }
    }

    /// Whether none is left that came through the descriptor.
    pub fn own_is_empty(&self) -> bool {
        self.own.is_empty()
    }

    /// The descriptor was emptied after a look had asked for it.
    pub fn emptied(&mut self, ix: usize) {
        if let Some(edge) = self.edges.get_mut(ix).and_then(Option::as_mut) {
            edge.fresh = false;
            edge.emptied = Some(edge.at);
        }
    }

    /// Messages and bytes read, of all there ever were.
    pub fn taken(&self) -> (u64, u64) {
        self.edges().fold(self.past, |(n, bytes), e| (n + e.taken.0, bytes + e.taken.1))
    }

    /// Edges in use.
    pub fn edges(&self) -> impl Iterator<Item = &InEdge> {
        self.edges.iter().flatten()
    }

    /// Whether there is one edge, and never was another beside it.
    pub fn has_one_edge(&self) -> bool {
        self.edges.len() == 1
    }

    /// That one, and its sender does not go over to another.
    pub fn only_edge(&self) -> Option<&InEdge> {
        self.first_edge().filter(|edge| self.has_one_edge() && !edge.is_growing())
    }

    /// The oldest, whether or not others came since.
    pub fn first_edge(&self) -> Option<&InEdge> {
        self.edges.first()?.as_ref()
    }

    /// Messages loaned and not released.
    pub fn loaned(&self) -> usize {
        self.loaned.open()
    }

    /// The next message, if it is where it usually is, the next of the edge whose turn it is, and has nothing beside it.
    #[inline(always)]
    pub fn look_first(&mut self) -> Option<Got> {
        let me = self.turn;
        let edge = self.edges.get_mut(me)?.as_mut()?;
        let len = edge.look_first().filter(|_| self.own.is_empty())?;
        let got = edge.take(me, len, &mut self.loaned);
        if self.edges.len() > 1 {
            self.took(me);
        }
        Some(got)
    }

    /// The same, copied as far as `into` has room. Not one that is long, or has an immediate, for which there is no room in
    /// what is told, or behind others of its edge that are loaned.
    #[inline(always)]
    pub fn copy_first(&mut self, into: &mut [u8]) -> Option<Copied> {
        let edge = self.edges.get_mut(self.turn)?.as_mut()?;
        let short = |len: &usize| *len <= SHORT && self.own.is_empty();
        let len = edge.look_first().filter(short).filter(|_| edge.loaned == 0)?;
        let copied = edge.copy(len, into);
        if self.edges.len() > 1 {
            self.took(self.turn);
        }
        Some(copied)
    }

    /// The next message, if one is there.
    pub fn look(&mut self) -> Look {
        if !self.own.is_empty() {
            return self.look_own();
        }
        let n = self.edges.len();
        for i in 0..n {
            let mut ix = self.turn + i;
            if ix >= n {
                ix -= n;
            }
            if self.edges[ix].as_ref().is_some_and(InEdge::is_growing) {
                self.go_over(ix);
            }
            let Some(edge) = &mut self.edges[ix] else { continue };
            match edge.look() {
                Ok(token) if token.kind != Kind::OutOfLine && !edge.broken => {
                    if edge.fresh {
                        return Look::Fresh(ix);
                    }
                    let got = match token.kind {
                        Kind::Immediate | Kind::Routed => edge.take_with_beside(ix, token, &mut self.loaned),
                        _ => edge.take(ix, token.len, &mut self.loaned),
                    };
                    self.took(ix);
                    return Look::Got(got);
                }
                Ok(token) if !edge.broken => match self.take_out_of_line(ix, token) {
                    Some(look) => return look,
                    None => continue,
                },
                Err(Error::Empty) => self.ended |= edge.sender.gone(),
                _ if edge.broken => self.drop_if_over(ix),
                _ => {
                    self.corrupt += 1;
                    edge.broken = true;
                }
            }
        }
        Look::Nothing
    }

    /// To the longer edge of a sender that has one, if it is its turn.
    #[cold]
    fn go_over(&mut self, ix: usize) {
        let Some(edge) = &mut self.edges[ix] else { return };
        if let Some(shorter) = edge.go_over() {
            self.returned.shares += self.loaned.keep_ring(ix as u32, shorter);
        }
    }

    /// A message was taken from edge `ix`: whose turn is the next.
    fn took(&mut self, ix: usize) {
        self.streak = if ix == self.turn { self.streak + 1 } else { 1 };
        self.turn = ix;
        if self.streak >= STREAK {
            self.streak = 0;
            self.turn = if ix + 1 == self.edges.len() { 0 } else { ix + 1 };
        }
    }

    #[cold]
    fn look_own(&mut self) -> Look {
        let Some((from, message)) = self.own.pop_front() else { return Look::Nothing };
        let (kept, beside) = match message {
            Own::Bytes(bytes, beside) => (Kept::Bytes(bytes), beside),
            Own::OutOfLine(message) => {
                let beside = message.beside;
                match message.map() {
                    Ok(memory) => (Kept::OutOfLine(memory), beside),
                    Err((message, e)) => {
                        self.own.push_front((from, Own::OutOfLine(message)));
                        return Look::Failed(e.raw_os_error().unwrap_or(libc::ENOMEM));
                    }
                }
            }
        };
        let len = kept.bytes().len();
        self.past = (self.past.0 + 1, self.past.1 + len as u64);
        let number = self.loaned.push(NO_EDGE, Pos::default());
        let got = Got::new(number, self.loaned.keep(kept), len, from);
        Look::Got(self.noted(got, beside))
    }

    /// Notes what came beside the message that was just loaned.
    fn noted(&mut self, got: Got, beside: Beside) -> Got {
        if beside != Beside::default() {
            self.loaned.note(beside);
        }
        told_of(got, beside)
    }

    /// The immediate that came beside a message that is loaned.
    pub fn immediate(&self, number: u64) -> Option<u64> {
        self.loaned.immediate(number)
    }

    /// All that did.
    pub fn beside(&self, number: u64) -> Beside {
        self.loaned.beside(number)
    }

    /// The token of a message out of line. Its packet was sent before: if it is not here, it waits on the
    /// descriptor; if it does not wait there either, the sender is not honest.
    #[cold]
    fn take_out_of_line(&mut self, ix: usize, token: Token) -> Option<Look> {
        let edge = self.edges[ix].as_mut()?;
        if edge.fresh {
            return Some(Look::Fresh(ix));
        }
        let number = far_number(&edge.segment.lines(), edge.at, token.len).ok();
        match edge.out_of_line.take() {
            Some((n, message)) if Some(n) == number => {
                let beside = message.beside;
                match message.map() {
                    Ok(memory) => {
                        let got = self.got_out_of_line(ix, token, memory);
                        Some(Look::Got(self.noted(got, beside)))
                    }
                    Err((message, e)) => {
                        edge.out_of_line = Some((n, message));
                        Some(Look::Failed(e.raw_os_error().unwrap_or(libc::ENOMEM)))
                    }
                }
            }
            other if number.is_some() && edge.emptied != Some(edge.at) => {
                edge.out_of_line = other;
                Some(Look::Fresh(ix))
            }
            _ => {
                self.corrupt += 1;
                edge.broken = true;
                None
            }
        }
    }

    fn got_out_of_line(&mut self, ix: usize, token: Token, memory: OutOfLine) -> Got {
        let len = memory.len();
        let edge = self.edges[ix].as_mut().expect("the caller looked at it");
        let in_edge = edge.take(ix, token.len, &mut self.loaned);
        // Its token was counted, not the message.
        edge.taken.1 = edge.taken.1 - token.len as u64 + len as u64;
        self.took(ix);
        Got::new(in_edge.number, self.loaned.keep(Kept::OutOfLine(memory)), len, in_edge.from())
    }

    /// Notes which senders are gone. What came for them until then must be added next.
    pub fn mark_ended(&mut self) {
        self.ended = false;
        for edge in self.edges.iter_mut().flatten() {
            edge.over |= edge.sender.gone();
        }
    }

    /// Lets go of the edges of those who were gone, where nothing is left, so that their shares go back.
    pub fn drop_ended(&mut self) {
        for ix in 0..self.edges.len() {
            if self.edges[ix].as_ref().is_some_and(|e| e.broken || e.over) {
                self.drop_if_over(ix);
            }
        }
    }

    /// A sender that has gone, and nothing of it left: its share goes back. Looked at once more, because its
    /// last message may have come between the look and its end.
    #[cold]
    fn drop_if_over(&mut self, ix: usize) {
        let Some(edge) = &self.edges[ix] else { return };
        if edge.loaned == 0 && !edge.waiting() {
            edge.add_to(&mut self.returned);
            self.past = (self.past.0 + edge.taken.0, self.past.1 + edge.taken.1);
            self.edges[ix] = None;
        }
    }

    /// Whether a message is there, taking nothing.
    #[inline(always)]
    pub fn waiting(&self) -> bool {
        let first = self.edges.get(self.turn).and_then(Option::as_ref);
        first.is_some_and(InEdge::waiting) || !self.own.is_empty() || self.others_wait()
    }

    #[inline(always)]
    fn others_wait(&self) -> bool {
        self.edges.len() > 1 && self.edges().any(InEdge::waiting)
    }

    /// Length of the next message, if one is there.
    pub fn next_len(&self) -> Option<usize> {
        let own = self.own.front().map(|(_, message)| message.size());
        // In the order of look().
        let n = self.edges.len();
        let turn = |i: usize| self.edges[(self.turn + i) % n].as_ref().and_then(InEdge::next_len);
        own.or_else(|| (0..n).find_map(turn))
    }

    /// Whether spinning pays: some sender runs on another CPU.
    pub fn worth_spinning(&self, mine: u32) -> bool {
        use dp_edge::sync::Ordering::Relaxed;
        let mut any = false;
        for e in self.edges() {
            let told = &e.segment.rx().cpu;
            if told.load(Relaxed) != mine {
                told.store(mine, Relaxed);
            }
            let theirs = e.segment.tx().cpu.load(Relaxed);
            any |= theirs != 0 && theirs != mine;
        }
        any
    }

    /// Message `number`, just loaned, is to be copied, and released by whoever does.
    pub fn copy(&mut self, number: u64) {
        self.loaned.copy(number);
    }

    /// Releases message `number`; twice is once.
    #[inline(always)]
    pub fn release(&mut self, number: u64) {
        match self.loaned.pop_oldest(number) {
            Some(Loan { edge, end, .. }) => {
                if let Some(edge) = self.edges.get_mut(edge as usize).and_then(Option::as_mut) {
                    edge.give_back(1, end);
                }
            }
            None => self.release_any(number),
        }
    }

    #[inline(never)]
    fn release_any(&mut self, number: u64) {
        let Some((loaned, ring)) = self.loaned.mark(number) else { return };
        self.returned.shares += ring;
        self.advance(loaned.edge);
        self.loaned.forget_done();
    }

    /// Releases the `n` oldest messages that are loaned; false if there are not so many.
    pub fn release_oldest(&mut self, n: usize) -> bool {
        if n > self.loaned.open() {
            return false;
        }
        let mut left = n;
        let mut number = self.loaned.first();
        while left > 0 {
            // Those in front of the first are gone, and released in another order some may be behind it.
            number = number.max(self.loaned.first());
            let Some(loaned) = self.loaned.get(number) else { return true };
            if loaned.is_open() {
                left -= 1;
                self.release(number);
            }
            number += 1;
        }
        true
    }

    /// Gives lines of edge `ix` back as far as all its messages before are released.
    fn advance(&mut self, ix: u32) {
        let Some(edge) = self.edges.get_mut(ix as usize).and_then(Option::as_mut) else { return };
        let (given, oldest) = self.loaned.give_back(ix, edge.oldest);
        edge.oldest = oldest.unwrap_or(edge.oldest);
        if let Some((to, count)) = given {
            edge.give_back(count, to);
        }
    }
}

#[cfg(test)]
mod copied;
#[cfg(test)]
mod growing;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod tests;
