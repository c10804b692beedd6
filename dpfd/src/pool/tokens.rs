//! The messages of a pool: in edges, lent to the program in place, released in order.
//!
//! A message is *lent* from the moment it was read until it is released; its lines go back to the sender when
//! it and all messages of its edge before it are released. Messages that came through the descriptor (from
//! senders without an edge, or from before there was a pool) are lent the same way out of memory of their own.

use std::collections::VecDeque;
use std::sync::Arc;

use super::elsewhere::{Elsewhere, Own};
use crate::addr::Addr;
use crate::edge::far::Far;
use crate::edge::message::far_number;
use crate::edge::ring::{self, Cursor, Kind, Pos};
use crate::edge::segment::Segment;
use crate::edge::Error;

/// Messages taken from one edge in a row while others wait.
const STREAK: u32 = 32;

/// Who must hear that an edge has room again.
pub trait Sender: Send + Sync + core::fmt::Debug {
    /// There is room.
    fn room(&self);
    /// Whether it has gone: no message comes any more.
    fn gone(&self) -> bool;
}

/// An edge, its receiver's side.
#[derive(Debug)]
pub struct InEdge {
    segment: Arc<Segment>,
    from: Addr,
    sender: Arc<dyn Sender>,
    /// The next token to look at.
    at: Pos,
    /// No message was read from it yet.
    fresh: bool,
    /// What its sender says beside a message that lies elsewhere; the number in its token, and the message.
    key: u64,
    far: Option<(u64, Elsewhere)>,
    /// The descriptor was emptied after the token here was seen.
    emptied: Option<Pos>,
    lent: u32,
    /// The number of the first of them.
    oldest: u64,
    /// Its sender wrote nonsense: nothing more is read from it.
    broken: bool,
    taken: (u64, u64),
}

impl InEdge {
    /// The receiver's side of a new, empty edge.
    pub fn new(segment: Arc<Segment>, from: Addr, sender: Arc<dyn Sender>) -> InEdge {
        InEdge {
            key: segment.key(),
            far: None,
            segment,
            from,
            sender,
            at: Pos::default(),
            fresh: true,
            emptied: None,
            lent: 0,
            oldest: 0,
            broken: false,
            taken: (0, 0),
        }
    }
    /// Who sends.
    pub fn from(&self) -> Addr {
        self.from
    }
    /// Messages and bytes read from it.
    pub fn taken(&self) -> (u64, u64) {
        self.taken
    }
    /// Length of the next message, if one is there and its length is known.
    fn next_len(&self) -> Option<usize> {
        let token = ring::look(&self.segment.lines(), self.at).ok().filter(|_| !self.broken)?;
        match token.kind {
            Kind::Data => Some(token.len),
            Kind::Far => self.far.as_ref().map(|(_, message)| message.size()),
            Kind::Void => None,
        }
    }
}

/// Where a lent message lies.
#[derive(Debug, Clone)]
pub enum Place {
    /// In an edge, after the header at this position.
    Edge(Arc<Segment>, Pos),
    /// In memory of its own.
    Own(Arc<[u8]>),
    /// In the sender's sealed memory.
    Far(Arc<Far>),
}

/// A message that was read.
#[derive(Debug, Clone)]
pub struct Got {
    /// Which of all messages lent by this pool.
    pub number: u64,
    /// Bytes.
    pub len: usize,
    /// Who sent it; 0 where nobody can tell.
    pub from: Addr,
    /// Where it lies.
    pub place: Place,
}

impl Got {
    /// Copies it, as far as `to` has room; how much that was.
    pub fn copy_to(&self, to: &mut [u8]) -> usize {
        let n = self.len.min(to.len());
        match &self.place {
            Place::Edge(segment, pos) => segment.copy_payload(*pos, &mut to[..n]),
            Place::Own(bytes) => to[..n].copy_from_slice(&bytes[..n]),
            Place::Far(bytes) => to[..n].copy_from_slice(&bytes[..n]),
        }
        n
    }

    /// Its first byte, valid until it is released.
    pub fn address(&self) -> *const u8 {
        match &self.place {
            Place::Edge(segment, pos) => segment.lines().payload(*pos),
            Place::Own(bytes) => bytes.as_ptr(),
            Place::Far(bytes) => bytes.as_ptr(),
        }
    }
}

#[derive(Debug)]
struct Lent {
    /// The edge and where it goes on after the message; none for messages in memory of their own.
    edge: Option<(usize, Pos)>,
    /// Keeps memory that is not the edge's, until it is released.
    keep: Option<Place>,
    done: bool,
}

/// What a look at the edges found.
#[derive(Debug)]
pub enum Look {
    /// A message, now lent.
    Got(Got),
    /// What the sender of this edge put on the descriptor comes before its token: empty the descriptor, say so
    /// ([`Tokens::emptied`]), look again.
    Fresh(usize),
    /// There is no room to map the next message now; it stays the next.
    Failed(i32),
    /// Nothing.
    Nothing,
}

/// All edges and all messages lent.
#[derive(Debug, Default)]
pub struct Tokens {
    edges: Vec<Option<InEdge>>,
    turn: usize,
    streak: u32,
    lent: VecDeque<Lent>,
    /// The number of the first of `lent`.
    first: u64,
    /// How many of `lent` are not released: all but those behind one that is.
    open: usize,
    /// Messages that came through the descriptor.
    own: VecDeque<(Addr, Own)>,
    /// Edges that were given up because their senders wrote nonsense.
    pub corrupt: u64,
    /// Bytes of edges that ended, to go back to the budget.
    pub returned: usize,
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

    /// A message that came through the descriptor.
    pub fn add_own(&mut self, from: Addr, message: Own) {
        self.own.push_back((from, message));
    }

    /// A message that lies elsewhere, for the token `number` of the edge with this key. An honest sender has one at a
    /// time.
    pub fn add_far(&mut self, key: u64, number: u64, message: Elsewhere) {
        if let Some(edge) = self.edges.iter_mut().flatten().find(|e| e.key == key) {
            edge.far = Some((number, message));
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

    /// Messages lent and not released.
    pub fn lent(&self) -> usize {
        self.open
    }

    /// The next message, if it is where it usually is: the next of the edge whose turn it is. For a path on which
    /// the message is made once and not moved.
    #[inline(always)]
    pub fn look_first(&mut self) -> Option<Got> {
        let edge = self.edges.get(self.turn)?.as_ref().filter(|e| !e.broken && !e.fresh)?;
        match ring::look(&edge.segment.lines(), edge.at) {
            Ok(token) if token.kind == Kind::Data && self.own.is_empty() => {
                Some(self.take(self.turn, token.len))
            }
            _ => None,
        }
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
            let Some(edge) = &mut self.edges[ix] else { continue };
            match ring::look(&edge.segment.lines(), edge.at) {
                Ok(token) if token.kind == Kind::Data && !edge.broken => {
                    if edge.fresh {
                        return Look::Fresh(ix);
                    }
                    return Look::Got(self.take(ix, token.len));
                }
                Ok(token) if token.kind == Kind::Far && !edge.broken => match self.take_far(ix, token.len) {
                    Some(look) => return look,
                    None => continue,
                },
                Err(Error::Empty) if !edge.sender.gone() => {}
                Err(Error::Empty) => self.drop_if_over(ix),
                _ if edge.broken => self.drop_if_over(ix),
                _ => {
                    self.corrupt += 1;
                    edge.broken = true;
                }
            }
        }
        Look::Nothing
    }

    #[inline(always)]
    fn take(&mut self, ix: usize, len: usize) -> Got {
        let n = self.edges.len();
        let edge = self.edges[ix].as_mut().expect("the caller looked at it");
        let at = edge.at;
        let number = self.first + self.lent.len() as u64;
        edge.at = at.add(ring::lines_for(len));
        if edge.lent == 0 {
            edge.oldest = number;
        }
        edge.lent += 1;
        edge.taken = (edge.taken.0 + 1, edge.taken.1 + len as u64);
        let got = Got { number, len, from: edge.from, place: Place::Edge(edge.segment.clone(), at) };
        self.lent.push_back(Lent { edge: Some((ix, edge.at)), keep: None, done: false });
        self.open += 1;
        if n > 1 {
            self.streak = if ix == self.turn { self.streak + 1 } else { 1 };
            self.turn = ix;
            if self.streak >= STREAK {
                self.streak = 0;
                self.turn = if ix + 1 == n { 0 } else { ix + 1 };
            }
        }
        got
    }

    #[cold]
    fn look_own(&mut self) -> Look {
        let Some((from, message)) = self.own.pop_front() else { return Look::Nothing };
        let place = match message {
            Own::Bytes(bytes) => Place::Own(bytes),
            Own::Far(mut message) => match message.map() {
                Ok(far) => Place::Far(far),
                Err(e) => {
                    self.own.push_front((from, Own::Far(message)));
                    return Look::Failed(e.raw_os_error().unwrap_or(libc::ENOMEM));
                }
            },
        };
        let number = self.first + self.lent.len() as u64;
        let len = match &place {
            Place::Own(bytes) => bytes.len(),
            Place::Far(far) => far.len(),
            Place::Edge(..) => 0,
        };
        self.past = (self.past.0 + 1, self.past.1 + len as u64);
        self.lent.push_back(Lent { edge: None, keep: Some(place.clone()), done: false });
        self.open += 1;
        Look::Got(Got { number, len, from, place })
    }

    /// The token of a message that lies elsewhere. Its packet was sent before: if it is not here, it waits on the
    /// descriptor; if it does not wait there either, the sender is not honest.
    #[cold]
    fn take_far(&mut self, ix: usize, len: usize) -> Option<Look> {
        let edge = self.edges[ix].as_mut()?;
        if edge.fresh {
            return Some(Look::Fresh(ix));
        }
        let number = far_number(&edge.segment.lines(), edge.at, len).ok();
        match &mut edge.far {
            Some((n, message)) if Some(*n) == number => match message.map() {
                Ok(far) => {
                    edge.far = None;
                    Some(Look::Got(self.got_far(ix, len, far)))
                }
                Err(e) => Some(Look::Failed(e.raw_os_error().unwrap_or(libc::ENOMEM))),
            },
            _ if number.is_some() && edge.emptied != Some(edge.at) => Some(Look::Fresh(ix)),
            _ => {
                self.corrupt += 1;
                edge.broken = true;
                None
            }
        }
    }

    fn got_far(&mut self, ix: usize, token: usize, far: Arc<Far>) -> Got {
        let mut got = self.take(ix, token);
        got.len = far.len();
        got.place = Place::Far(far);
        if let Some(edge) = &mut self.edges[ix] {
            // Its token was counted, not the message.
            edge.taken.1 = edge.taken.1 - token as u64 + got.len as u64;
        }
        if let Some(lent) = self.lent.back_mut() {
            lent.keep = Some(got.place.clone());
        }
        got
    }

    /// Lets go of the edges that are over, so that their shares go back without a look that finds nothing.
    pub fn drop_ended(&mut self) {
        for ix in 0..self.edges.len() {
            if self.edges[ix].as_ref().is_some_and(|e| e.broken || e.sender.gone()) {
                self.drop_if_over(ix);
            }
        }
    }

    /// A sender that has gone, and nothing of it left: its share goes back. Looked at once more, because its
    /// last message may have come between the look and its end.
    #[cold]
    fn drop_if_over(&mut self, ix: usize) {
        let Some(edge) = &self.edges[ix] else { return };
        let empty = || ring::look(&edge.segment.lines(), edge.at) == Err(Error::Empty);
        if edge.lent == 0 && (edge.broken || empty()) {
            self.returned += edge.segment.ring_len();
            self.past = (self.past.0 + edge.taken.0, self.past.1 + edge.taken.1);
            self.edges[ix] = None;
        }
    }

    /// Whether a message is there, taking nothing.
    pub fn waiting(&self) -> bool {
        let ready = |e: &InEdge| !e.broken && ring::look(&e.segment.lines(), e.at) != Err(Error::Empty);
        !self.own.is_empty() || self.edges().any(ready)
    }

    /// Length of the next message, if one is there.
    pub fn next_len(&self) -> Option<usize> {
        let own = self.own.front().map(|(_, message)| message.size());
        // In the order of look().
        let n = self.edges.len();
        let turn = |i: usize| self.edges[(self.turn + i) % n].as_ref().and_then(InEdge::next_len);
        own.or_else(|| (0..n).find_map(turn))
    }

    /// Whether looking pays: some sender runs on another CPU.
    pub fn worth_looking(&self, mine: u32) -> bool {
        use crate::sync::Ordering::Relaxed;
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

    /// Releases message `number`; twice is once.
    #[inline(always)]
    pub fn release(&mut self, number: u64) {
        match self.lent.front() {
            // The usual case: the oldest of all, and none behind it was released before.
            Some(Lent { edge: Some((ix, end)), .. })
                if number == self.first && self.open == self.lent.len() =>
            {
                let (ix, end) = (*ix, *end);
                self.lent.pop_front();
                self.first += 1;
                self.open -= 1;
                self.give_back(ix, 1, end);
            }
            _ => self.release_any(number),
        }
    }

    #[inline(never)]
    fn release_any(&mut self, number: u64) {
        let Some(lent) = number.checked_sub(self.first).and_then(|i| self.lent.get_mut(i as usize)) else {
            return;
        };
        if core::mem::replace(&mut lent.done, true) {
            return;
        }
        self.open -= 1;
        lent.keep = None;
        if let Some((ix, _)) = lent.edge {
            self.advance(ix);
        }
        self.forget_done();
    }

    /// Releases the `n` oldest messages that are lent; false if there are not so many.
    pub fn release_oldest(&mut self, n: usize) -> bool {
        if n > self.open {
            return false;
        }
        let mut left = n;
        let mut number = self.first;
        while left > 0 {
            // Those in front of `first` are gone, and released in another order some may be behind it.
            number = number.max(self.first);
            let Some(lent) = self.lent.get((number - self.first) as usize) else { return true };
            if !lent.done {
                left -= 1;
                self.release(number);
            }
            number += 1;
        }
        true
    }

    fn forget_done(&mut self) {
        while self.lent.front().is_some_and(|l| l.done) {
            self.lent.pop_front();
            self.first += 1;
        }
    }

    /// Gives lines of edge `ix` back as far as all its messages before are released.
    fn advance(&mut self, ix: usize) {
        let mut to = None;
        let mut count = 0;
        let Some(edge) = self.edges.get_mut(ix).and_then(Option::as_mut) else { return };
        let from = edge.oldest.saturating_sub(self.first) as usize;
        for (k, lent) in self.lent.range_mut(from.min(self.lent.len())..).enumerate() {
            let Some((i, end)) = lent.edge else { continue };
            if i != ix {
                continue;
            }
            if !lent.done {
                edge.oldest = self.first + (from + k) as u64;
                break;
            }
            to = Some(end);
            count += 1;
            // Given back: not counted again.
            lent.edge = None;
        }
        if let Some(to) = to {
            self.give_back(ix, count, to);
        }
    }

    /// `count` messages of edge `ix` are over, and its lines up to `to` are its sender's again.
    #[inline(always)]
    fn give_back(&mut self, ix: usize, count: u32, to: Pos) {
        let Some(edge) = self.edges.get_mut(ix).and_then(Option::as_mut) else { return };
        edge.lent -= count;
        let cursor = Cursor { pos: to, ..Cursor::default() };
        if edge.segment.space().give_back(&edge.segment.rx().cursor, cursor) {
            edge.sender.room();
        }
    }
}

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod tests;
