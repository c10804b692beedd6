//! The messages of a pool: in edges, lent to the program in place, released in order.
//!
//! A message is *lent* from the moment it was read until it is released; its lines go back to the sender when
//! it and all messages of its edge before it are released. Messages that came through the descriptor (from
//! senders without an edge, or from before there was a pool) are lent the same way out of memory of their own.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::addr::Addr;
use crate::edge::far::Far;
use crate::edge::message::far_number;
use crate::edge::ring::{self, Cursor, Kind, Pos};
use crate::edge::segment::Segment;
use crate::edge::Error;

/// Most messages that lie elsewhere with their tokens unread; an honest sender has one.
const MOST_FAR: usize = 4096;
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
    /// Its next message lies elsewhere, and the descriptor was emptied to find it.
    asked: bool,
    lent: u32,
    /// Its sender wrote nonsense: nothing more is read from it.
    broken: bool,
    taken: (u64, u64),
}

impl InEdge {
    /// The receiver's side of a new, empty edge.
    pub fn new(segment: Arc<Segment>, from: Addr, sender: Arc<dyn Sender>) -> InEdge {
        InEdge {
            segment,
            from,
            sender,
            at: Pos::default(),
            fresh: true,
            asked: false,
            lent: 0,
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

impl Place {
    /// Bytes in memory that is not an edge's.
    fn own_len(&self) -> usize {
        match self {
            Place::Edge(..) => 0,
            Place::Own(bytes) => bytes.len(),
            Place::Far(bytes) => bytes.len(),
        }
    }
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
    /// Keeps memory that is not the edge's.
    _keep: Option<Place>,
    done: bool,
}

/// What a look at the edges found.
#[derive(Debug)]
pub enum Look {
    /// A message, now lent.
    Got(Got),
    /// The first message of a new edge: what its sender put on the descriptor before comes first. Look again
    /// after the descriptor was emptied.
    Fresh,
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
    own: VecDeque<(Addr, Place)>,
    /// Messages that lie elsewhere, until their tokens are read.
    far: Vec<(Addr, u64, Arc<Far>)>,
    /// Edges that were given up because their senders wrote nonsense.
    pub corrupt: u64,
    /// Bytes of edges that ended, to go back to the budget.
    pub returned: usize,
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
    pub fn add_own(&mut self, from: Addr, bytes: Arc<[u8]>) {
        self.own.push_back((from, Place::Own(bytes)));
    }

    /// A message that lies elsewhere: `number` names its token, 0 if it has none.
    pub fn add_far(&mut self, from: Addr, number: u64, bytes: Arc<Far>) {
        if number == 0 {
            self.own.push_back((from, Place::Far(bytes)));
        } else if self.far.len() < MOST_FAR {
            self.far.push((from, number, bytes));
        }
    }

    /// Edges in use.
    pub fn edges(&self) -> impl Iterator<Item = &InEdge> {
        self.edges.iter().flatten()
    }

    /// Messages lent and not released.
    pub fn lent(&self) -> usize {
        self.lent.len()
    }

    /// The next message, if one is there.
    #[inline(always)]
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
                        edge.fresh = false;
                        return Look::Fresh;
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
        edge.at = at.add(ring::lines_for(len));
        edge.lent += 1;
        edge.taken = (edge.taken.0 + 1, edge.taken.1 + len as u64);
        let got = Got {
            number: self.first + self.lent.len() as u64,
            len,
            from: edge.from,
            place: Place::Edge(edge.segment.clone(), at),
        };
        self.lent.push_back(Lent { edge: Some((ix, edge.at)), _keep: None, done: false });
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
        let Some((from, place)) = self.own.pop_front() else { return Look::Nothing };
        let number = self.first + self.lent.len() as u64;
        let len = place.own_len();
        self.lent.push_back(Lent { edge: None, _keep: Some(place.clone()), done: false });
        Look::Got(Got { number, len, from, place })
    }

    /// The token of a message that lies elsewhere. Its packet was sent before: if it is not here, it waits on the
    /// descriptor; if it does not wait there either, the sender is not honest.
    #[cold]
    fn take_far(&mut self, ix: usize, len: usize) -> Option<Look> {
        let edge = self.edges[ix].as_mut()?;
        let (from, lines) = (edge.from, edge.segment.lines());
        let found = far_number(&lines, edge.at, len)
            .ok()
            .and_then(|number| self.far.iter().position(|(f, n, _)| *f == from && *n == number));
        let Some(i) = found else {
            if edge.asked {
                self.corrupt += 1;
                edge.broken = true;
                return None;
            }
            edge.asked = true;
            return Some(Look::Fresh);
        };
        edge.asked = false;
        edge.fresh = false;
        let place = Place::Far(self.far.swap_remove(i).2);
        let mut got = self.take(ix, len);
        got.len = place.own_len();
        got.place = place;
        if let Some(lent) = self.lent.back_mut() {
            lent._keep = Some(got.place.clone());
        }
        Some(Look::Got(got))
    }

    /// A sender that has gone, and nothing of it left: its share goes back. Looked at once more, because its
    /// last message may have come between the look and its end.
    #[cold]
    fn drop_if_over(&mut self, ix: usize) {
        let Some(edge) = &self.edges[ix] else { return };
        let empty = || ring::look(&edge.segment.lines(), edge.at) == Err(Error::Empty);
        if edge.lent == 0 && (edge.broken || empty()) {
            self.returned += edge.segment.ring_len();
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
        let own = self.own.front().map(|(_, place)| place.own_len());
        own.or_else(|| self.edges().find_map(|e| ring::look(&e.segment.lines(), e.at).ok().map(|t| t.len)))
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
        let Some(lent) = number.checked_sub(self.first).and_then(|i| self.lent.get_mut(i as usize)) else {
            return;
        };
        if core::mem::replace(&mut lent.done, true) {
            return;
        }
        let Some((ix, _)) = lent.edge else { return self.forget_done() };
        // The usual case: the oldest of all.
        if number == self.first {
            self.advance(ix);
            self.forget_done();
        } else {
            self.advance(ix);
        }
    }

    /// Releases the `n` oldest messages that are lent; false if there are not so many.
    pub fn release_oldest(&mut self, n: usize) -> bool {
        if n > self.lent.iter().filter(|l| !l.done).count() {
            return false;
        }
        for _ in 0..n {
            let next = self.lent.iter().position(|l| !l.done);
            if let Some(i) = next {
                self.release(self.first + i as u64);
            }
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
    #[inline(always)]
    fn advance(&mut self, ix: usize) {
        let mut to = None;
        let mut count = 0;
        for lent in &mut self.lent {
            let Some((i, end)) = lent.edge else { continue };
            if i != ix {
                continue;
            }
            if !lent.done {
                break;
            }
            to = Some(end);
            count += 1;
            // Given back: not counted again.
            lent.edge = None;
        }
        let (Some(to), Some(edge)) = (to, self.edges.get_mut(ix).and_then(Option::as_mut)) else { return };
        edge.lent -= count;
        let cursor = Cursor { pos: to, ..Cursor::default() };
        if edge.segment.space().give_back(&edge.segment.rx().cursor, cursor) {
            edge.sender.room();
        }
    }
}

#[cfg(test)]
mod tests;
