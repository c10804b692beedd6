//! An edge, its receiver's side.

use std::sync::Arc;

use super::budget::Returned;
use super::loaned::{told_of, Queue};
use super::out_of_line::Memory;
use crate::addr::Addr;
use crate::edge::segment::Segment;
use crate::edge::{longer, message};
use crate::sys::loaned::{Copied, Got};
use dp_edge::ring::{self, Cursor, Kind, Pos, Token};
use dp_edge::sync::Ordering;
use dp_edge::Error;

/// The senders that must hear that an edge has room again.
pub trait Sender: Send + Sync + core::fmt::Debug {
    /// There is room.
    fn room(&self);
    /// Whether it has gone: no message comes any more.
    fn gone(&self) -> bool;
}

/// A longer edge for a sender that has one. It sends over this one from some message on, and over the other never again.
#[derive(Debug)]
pub struct Longer {
    segment: Segment,
    key: u64,
    out_of_line: Option<(u64, Memory)>,
}

impl Longer {
    /// The receiver's side of a new, empty edge.
    pub fn new(segment: Segment) -> Longer {
        Longer { key: segment.key(), segment, out_of_line: None }
    }

    /// Bytes of the ring.
    pub fn ring_len(&self) -> usize {
        self.segment.ring_len()
    }
}

/// An edge, its receiver's side.
#[derive(Debug)]
pub struct InEdge {
    /// The ring and its control page.
    pub segment: Segment,
    from: Addr,
    /// The sender that is told.
    pub sender: Arc<dyn Sender>,
    /// The next token to look at.
    pub at: Pos,
    /// No message was read from it yet.
    pub fresh: bool,
    /// Its sender wrote nonsense: nothing more is read from it.
    pub broken: bool,
    /// Its sender was gone before anything was last asked for that could be on its way.
    pub over: bool,
    /// Messages of it that are loaned.
    pub loaned: u32,
    /// The number of the first of them.
    pub oldest: u64,
    /// Messages and bytes read from it.
    pub taken: (u64, u64),
    /// What its sender says beside a message out of line; the number in its token, and the message.
    key: u64,
    /// As above.
    pub out_of_line: Option<(u64, Memory)>,
    /// The descriptor was emptied after the token here was seen.
    pub emptied: Option<Pos>,
    /// What its sender goes over to, some time.
    next: Option<Box<Longer>>,
    /// It is one that its sender went over to, or that the pool grew by.
    grown: bool,
}

impl InEdge {
    /// The receiver's side of a new, empty edge.
    pub fn new(segment: Segment, from: Addr, sender: Arc<dyn Sender>) -> InEdge {
        InEdge {
            key: segment.key(),
            segment,
            from,
            sender,
            at: Pos::default(),
            fresh: true,
            broken: false,
            over: false,
            loaned: 0,
            oldest: 0,
            taken: (0, 0),
            out_of_line: None,
            emptied: None,
            next: None,
            grown: false,
        }
    }

    /// The same of one that the pool grew by, for a sender that had none.
    pub fn late(segment: Segment, from: Addr, sender: Arc<dyn Sender>) -> InEdge {
        InEdge { grown: true, ..InEdge::new(segment, from, sender) }
    }

    /// Its sender is about to be told of a longer one. Once: a second one comes back.
    pub fn grow(&mut self, longer: Longer) -> Result<(), Longer> {
        if self.next.is_some() || self.grown || self.broken {
            return Err(longer);
        }
        self.next = Some(Box::new(longer));
        Ok(())
    }

    /// Whether its sender may go over to a longer one any moment.
    #[inline]
    pub fn is_growing(&self) -> bool {
        self.next.is_some()
    }

    /// Whether it is the one with this key.
    pub fn has_key(&self, key: u64) -> bool {
        self.key == key
    }

    /// A message out of line, if it is one of this edge.
    pub fn take_out_of_line(&mut self, key: u64, number: u64, message: Memory) -> Result<(), Memory> {
        match &mut self.next {
            _ if self.key == key => self.out_of_line = Some((number, message)),
            Some(next) if next.key == key => next.out_of_line = Some((number, message)),
            _ => return Err(message),
        }
        Ok(())
    }

    /// The sender.
    pub fn from(&self) -> Addr {
        self.from
    }

    /// The next token.
    #[inline(always)]
    pub fn look(&self) -> Result<Token, Error> {
        ring::look(&self.segment.lines(), self.at)
    }

    /// Length of the next message, if it is there, has nothing beside it, and nothing has to be asked first.
    #[inline(always)]
    pub fn look_first(&self) -> Option<usize> {
        match self.look() {
            Ok(token) if token.kind == Kind::Data && !self.broken && !self.fresh => Some(token.len),
            _ => None,
        }
    }

    /// Whether there is something to be looked at.
    #[inline(always)]
    pub fn waiting(&self) -> bool {
        !self.broken && (self.look() != Err(Error::Empty) || self.waits_in_next())
    }

    #[inline(always)]
    fn waits_in_next(&self) -> bool {
        self.next.as_ref().is_some_and(|next| longer::waits(&next.segment.lines()))
    }

    fn went_over(&self) -> bool {
        let lines = self.segment.lines();
        self.next.as_ref().is_some_and(|next| longer::went_over(&lines, self.at, &next.segment.lines()))
    }

    /// Length of the next message, if one is there and its length is known.
    pub fn next_len(&self) -> Option<usize> {
        let (token, memory) = match &self.next {
            _ if self.broken => return None,
            Some(next) if self.went_over() => {
                (ring::look(&next.segment.lines(), Pos::default()).ok()?, &next.out_of_line)
            }
            _ => (self.look().ok()?, &self.out_of_line),
        };
        match token.kind {
            Kind::Data | Kind::Immediate | Kind::Routed => Some(token.len - token.kind.before()),
            Kind::OutOfLine => memory.as_ref().map(|(_, message)| message.size()),
        }
    }

    /// Goes over to the longer edge, if its sender has and nothing is left here: this one's ring, for as long as messages
    /// in it are loaned. They are nobody's to count any more.
    pub fn go_over(&mut self) -> Option<Segment> {
        if self.broken || !self.went_over() {
            return None;
        }
        let Longer { segment, key, out_of_line } = *self.next.take()?;
        // Its sender asks where we run as soon as it is full, and we may not wait until then.
        segment.rx().cpu.store(self.segment.rx().cpu.load(Ordering::Relaxed), Ordering::Relaxed);
        (self.key, self.out_of_line, self.at, self.emptied) = (key, out_of_line, Pos::default(), None);
        (self.loaned, self.grown) = (0, true);
        Some(core::mem::replace(&mut self.segment, segment))
    }

    /// What its end gives back.
    pub fn add_to(&self, returned: &mut Returned) {
        let part = if self.grown { &mut returned.grown } else { &mut returned.shares };
        *part += self.segment.ring_len();
        returned.grown += self.next.as_ref().map_or(0, |next| next.ring_len());
    }

    /// Lends the message of this token, which has something before it, and notes that.
    pub fn take_with_beside(&mut self, me: usize, token: Token, loaned: &mut Queue) -> Got {
        let beside = message::beside(&self.segment.lines(), self.at, token.kind);
        let got = self.take(me, token.len, loaned);
        loaned.note(beside);
        // It was counted with the message.
        self.taken.1 -= token.kind.before() as u64;
        told_of(got.behind(token.kind.before()), beside)
    }

    /// Lends the message of `len` bytes that is the next; `me`: which edge this is.
    #[inline(always)]
    pub fn take(&mut self, me: usize, len: usize, loaned: &mut Queue) -> Got {
        let address = self.segment.lines().payload(self.at);
        self.at = self.at.add(ring::lines_for(len));
        let number = loaned.push(me as u32, self.at);
        if self.loaned == 0 {
            self.oldest = number;
        }
        self.loaned += 1;
        self.taken = (self.taken.0 + 1, self.taken.1 + len as u64);
        Got::new(number, address, len, self.from)
    }

    /// Copies the message of `len` bytes that is the next, as far as `into` has room, and gives its lines back. Not behind
    /// one that is loaned.
    #[inline(always)]
    pub fn copy(&mut self, len: usize, into: &mut [u8]) -> Copied {
        self.segment.copy(self.at, len, into);
        self.at = self.at.add(ring::lines_for(len));
        self.taken = (self.taken.0 + 1, self.taken.1 + len as u64);
        self.give_back(0, self.at);
        Copied::new(len, self.from)
    }

    /// `count` messages are over, and the lines up to `to` are the sender's again.
    #[inline(always)]
    pub fn give_back(&mut self, count: u32, to: Pos) {
        self.loaned -= count;
        let cursor = Cursor { pos: to, ..Cursor::default() };
        if self.segment.space().give_back(&self.segment.rx().cursor, cursor) {
            self.sender.room();
        }
    }
}
