//! The messages the program has: numbered in the order they were read, released in any. One queue for both drivers: here a
//! message lies in one of many edges, with the kernel driver in the one ring of the endpoint.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::edge::beside::Beside;
use crate::edge::out_of_line::OutOfLine;
use crate::edge::segment::Segment;
use crate::sys::loaned::Got;
use crate::sys::mapped::Mapping;
use dp_edge::ring::Pos;

/// The edge of messages that lie in memory of their own.
pub const NO_EDGE: u32 = u32::MAX;

/// A message that was read and not forgotten yet. Two words: this is written and read for every message.
#[derive(Debug, Clone, Copy)]
pub struct Loan<E = Pos> {
    /// Where its edge goes on after it.
    pub end: E,
    /// Its edge, or [`NO_EDGE`]: it has none, or its lines went back already.
    pub edge: u32,
    /// There is memory of its own.
    kept: bool,
    /// What came beside it is noted.
    beside: bool,
    /// The library copies it, and releases it then: to the program it is not loaned.
    copied: bool,
    /// It was released.
    pub done: bool,
}

impl<E> Loan<E> {
    #[inline(always)]
    fn new(edge: u32, end: E) -> Loan<E> {
        Loan { end, edge, kept: false, beside: false, copied: false, done: false }
    }

    /// Whether the program may release it.
    pub fn is_open(&self) -> bool {
        !self.done && !self.copied
    }
}

/// Memory of a message that is no edge's.
#[derive(Debug)]
pub enum Kept {
    /// It came through the descriptor.
    Bytes(Box<[u8]>),
    /// The sender's, sealed.
    OutOfLine(OutOfLine),
    /// In a ring that nobody sends over any more.
    Ring(Arc<Segment>),
    /// The kernel's.
    Mapped(Mapping),
}

impl Kept {
    /// The message; of one in a ring or in the kernel's memory, nothing.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Kept::Bytes(bytes) => bytes,
            Kept::OutOfLine(memory) => memory,
            Kept::Ring(_) | Kept::Mapped(_) => &[],
        }
    }

    fn address(&self) -> *const u8 {
        match self {
            Kept::Mapped(memory) => memory.address(0),
            memory => memory.bytes().as_ptr(),
        }
    }
}

/// The same message, of which is told what came beside it.
#[inline]
pub fn told_of(got: Got, beside: Beside) -> Got {
    let got = if beside.immediate.is_some() { got.with_immediate() } else { got };
    if beside.route == 0 {
        got
    } else {
        got.with_route()
    }
}

/// Bytes of a ring that nobody else keeps.
fn bytes_of_last(ring: Arc<Segment>) -> usize {
    Arc::into_inner(ring).map_or(0, |ring| ring.ring_len())
}

/// All of them. Message `n` is in slot `n` modulo their count, which is a power of two. `E`: a place in an edge.
#[derive(Debug, Default)]
pub struct Queue<E = Pos> {
    slots: Box<[Loan<E>]>,
    /// The number of the oldest, and that of the next.
    first: u64,
    next: u64,
    /// How many of them are released: there is one before them that is not.
    early: usize,
    /// How many are being copied.
    copies: usize,
    kept: Vec<(u64, Kept)>,
    /// In the order of their numbers: the oldest goes first, as a rule, and is found first.
    beside: VecDeque<(u64, Beside)>,
}

impl<E: Copy + Default> Queue<E> {
    /// Messages that the program has and did not release.
    pub fn open(&self) -> usize {
        (self.next - self.first) as usize - self.early - self.copies
    }

    /// The number of the oldest that is not forgotten.
    pub fn first(&self) -> u64 {
        self.first
    }

    #[inline(always)]
    fn slot(&self, number: u64) -> usize {
        (number & (self.slots.len() as u64).wrapping_sub(1)) as usize
    }

    /// One more; its number.
    #[inline(always)]
    pub fn push(&mut self, edge: u32, end: E) -> u64 {
        if self.next - self.first == self.slots.len() as u64 {
            self.grow();
        }
        let number = self.next;
        self.slots[self.slot(number)] = Loan::new(edge, end);
        self.next += 1;
        number
    }

    #[cold]
    fn grow(&mut self) {
        let old = core::mem::take(&mut self.slots);
        let nobody = Loan { done: true, ..Loan::new(NO_EDGE, E::default()) };
        self.slots = vec![nobody; (old.len() * 2).max(16)].into();
        for number in self.first..self.next {
            self.slots[self.slot(number)] = old[number as usize & (old.len() - 1)];
        }
    }

    /// Keeps the memory of the youngest until it is released; where it is.
    pub fn keep(&mut self, memory: Kept) -> *const u8 {
        let (at, number) = (memory.address(), self.next.wrapping_sub(1));
        if let Some(youngest) = self.get_mut(number) {
            youngest.kept = true;
            self.kept.push((number, memory));
        }
        at
    }

    /// The youngest goes on to `end`: with it goes back what lies behind it. False: there is none.
    pub fn extend(&mut self, end: E) -> bool {
        let youngest = self.get_mut(self.next.wrapping_sub(1));
        youngest.map(|youngest| youngest.end = end).is_some()
    }

    /// Notes what came beside the youngest, until it is released.
    #[inline]
    pub fn note(&mut self, beside: Beside) {
        let number = self.next.wrapping_sub(1);
        if let Some(youngest) = self.get_mut(number) {
            youngest.beside = true;
            self.beside.push_back((number, beside));
        }
    }

    /// What came beside message `number`.
    #[inline]
    pub fn beside(&self, number: u64) -> Beside {
        // The youngest is asked for most.
        let noted = self.beside.iter().rev().find(|(of, _)| *of == number);
        noted.map_or(Beside::default(), |(_, beside)| *beside)
    }

    /// The immediate that came beside message `number`.
    #[inline]
    pub fn immediate(&self, number: u64) -> Option<u64> {
        self.beside(number).immediate
    }

    /// Nobody sends over the ring of edge `ix` any more: it is memory of those of its messages that are loaned, until the last
    /// of them is released. Its bytes, if none is.
    pub fn keep_ring(&mut self, ix: u32, ring: Segment) -> usize {
        let ring = Arc::new(ring);
        for number in self.first..self.next {
            let slot = self.slot(number);
            let loaned = &mut self.slots[slot];
            if loaned.edge != ix {
                continue;
            }
            // No lines to give back, also of those that were released before another one.
            loaned.edge = NO_EDGE;
            if !loaned.done {
                // One that is out of line has its token there only.
                if !core::mem::replace(&mut loaned.kept, true) {
                    self.kept.push((number, Kept::Ring(ring.clone())));
                }
            }
        }
        bytes_of_last(ring)
    }

    /// Releases and forgets message `number` if that is all there is to do: it is the oldest, it lies in an edge, and
    /// none behind it was released before.
    #[inline(always)]
    pub fn pop_oldest(&mut self, number: u64) -> Option<Loan<E>> {
        let oldest = *self.slots.get(self.slot(number))?;
        if number != self.first
            || number == self.next
            || self.early != 0
            || oldest.edge == NO_EDGE
            || oldest.kept
            || oldest.copied
            || oldest.beside
        {
            return None;
        }
        self.first += 1;
        Some(oldest)
    }

    /// Message `number`, if it is not forgotten.
    pub fn get(&self, number: u64) -> Option<&Loan<E>> {
        (self.first..self.next).contains(&number).then(|| &self.slots[self.slot(number)])
    }

    fn get_mut(&mut self, number: u64) -> Option<&mut Loan<E>> {
        let slot = self.slot(number);
        (self.first..self.next).contains(&number).then(|| &mut self.slots[slot])
    }

    /// The youngest, message `number`, is not the program's, but is being copied until it is released.
    pub fn copy(&mut self, number: u64) {
        if let Some(loaned) = self.get_mut(number) {
            loaned.copied = true;
            self.copies += 1;
        }
    }

    /// Marks message `number` released, and lets go of its own memory; the bytes of a ring of which it was the last. None:
    /// there is none, or it was before.
    pub fn mark(&mut self, number: u64) -> Option<(Loan<E>, usize)> {
        let loaned = self.get_mut(number).filter(|loaned| !loaned.done)?;
        loaned.done = true;
        let (kept, noted) = (core::mem::take(&mut loaned.kept), core::mem::take(&mut loaned.beside));
        let copy = *loaned;
        self.copies -= usize::from(copy.copied);
        self.early += 1;
        if noted {
            if let Some(at) = self.beside.iter().position(|(of, _)| *of == number) {
                self.beside.remove(at);
            }
        }
        let its = if kept { self.kept.iter().position(|(of, _)| *of == number) } else { None };
        let memory = its.map(|at| self.kept.swap_remove(at).1);
        let ring = if let Some(Kept::Ring(ring)) = memory { bytes_of_last(ring) } else { 0 };
        Some((copy, ring))
    }

    /// Gives back those of edge `ix` from message `number` on, as far as they are released, one after the other: where
    /// the last of them ends, and how many they are; and the number of the oldest that is not, if there is one.
    pub fn give_back(&mut self, ix: u32, number: u64) -> (Option<(E, u32)>, Option<u64>) {
        let mut given = None;
        for number in number.max(self.first)..self.next {
            let slot = self.slot(number);
            let loaned = &mut self.slots[slot];
            if loaned.edge != ix {
                continue;
            }
            if !loaned.done {
                return (given, Some(number));
            }
            given = Some((loaned.end, given.map_or(1, |(_, n)| n + 1)));
            // Not counted again.
            loaned.edge = NO_EDGE;
        }
        (given, None)
    }

    /// Messages with memory of their own.
    #[cfg(test)]
    pub fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Forgets the released ones before the oldest that is not.
    pub fn forget_done(&mut self) {
        while self.get(self.first).is_some_and(|l| l.done) {
            self.first += 1;
            self.early -= 1;
        }
    }
}

#[cfg(test)]
mod tests;
