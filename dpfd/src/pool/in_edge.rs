//! An edge, its receiver's side.

use std::sync::Arc;

use super::elsewhere::Elsewhere;
use super::lent::Queue;
use crate::addr::Addr;
use crate::edge::ring::{self, Cursor, Kind, Pos, Token};
use crate::edge::segment::Segment;
use crate::edge::Error;
use crate::sys::lent::Got;

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
    /// The ring and its control page.
    pub segment: Segment,
    from: Addr,
    /// Who is told.
    pub sender: Arc<dyn Sender>,
    /// The next token to look at.
    pub at: Pos,
    /// No message was read from it yet.
    pub fresh: bool,
    /// Its sender wrote nonsense: nothing more is read from it.
    pub broken: bool,
    /// Messages of it that are lent.
    pub lent: u32,
    /// The number of the first of them.
    pub oldest: u64,
    /// Messages and bytes read from it.
    pub taken: (u64, u64),
    /// What its sender says beside a message that lies elsewhere; the number in its token, and the message.
    pub key: u64,
    /// As above.
    pub far: Option<(u64, Elsewhere)>,
    /// The descriptor was emptied after the token here was seen.
    pub emptied: Option<Pos>,
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
            lent: 0,
            oldest: 0,
            taken: (0, 0),
            far: None,
            emptied: None,
        }
    }

    /// Who sends.
    pub fn from(&self) -> Addr {
        self.from
    }

    /// The next token.
    #[inline(always)]
    pub fn look(&self) -> Result<Token, Error> {
        ring::look(&self.segment.lines(), self.at)
    }

    /// Whether there is something to be looked at.
    #[inline(always)]
    pub fn waiting(&self) -> bool {
        !self.broken && self.look() != Err(Error::Empty)
    }

    /// Length of the next message, if one is there and its length is known.
    pub fn next_len(&self) -> Option<usize> {
        let token = self.look().ok().filter(|_| !self.broken)?;
        match token.kind {
            Kind::Data => Some(token.len),
            Kind::Far => self.far.as_ref().map(|(_, message)| message.size()),
            Kind::Void => None,
        }
    }

    /// Lends the message of `len` bytes that is the next; `me`: which edge this is.
    #[inline(always)]
    pub fn take(&mut self, me: usize, len: usize, lent: &mut Queue) -> Got {
        let address = self.segment.lines().payload(self.at);
        self.at = self.at.add(ring::lines_for(len));
        let number = lent.push(me as u32, self.at);
        if self.lent == 0 {
            self.oldest = number;
        }
        self.lent += 1;
        self.taken = (self.taken.0 + 1, self.taken.1 + len as u64);
        Got::new(number, address, len, self.from)
    }

    /// `count` messages are over, and the lines up to `to` are the sender's again.
    #[inline(always)]
    pub fn give_back(&mut self, count: u32, to: Pos) {
        self.lent -= count;
        let cursor = Cursor { pos: to, ..Cursor::default() };
        if self.segment.space().give_back(&self.segment.rx().cursor, cursor) {
            self.sender.room();
        }
    }
}
