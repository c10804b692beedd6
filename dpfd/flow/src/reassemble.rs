//! The receiver's side: parts in whatever order, to messages in theirs.
//!
//! The part that is next goes straight from its frame into the [`Sink`]. One that comes before its turn, or that the sink
//! has no room for, is kept in memory that the flow was given when it was made; room is granted for as many parts as that
//! memory holds, so whatever is granted can be kept, and what was said to have arrived is never given up. A part counts
//! as *taken*, and is acknowledged, when the sink has it.

use crate::config::Place;
use crate::frame::Piece;
use crate::number::{ahead, place};
use crate::Refused;
use dp_abi::frame2::ROOM_MAX;

/// A part of a message, on its way to whoever receives it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part<'a> {
    /// Counts the messages of this end, from 0. It goes on over incarnations.
    pub message: u64,
    /// Bytes of the whole message, up to [`MESSAGE_MAX`](dp_abi::MESSAGE_MAX).
    pub total: u32,
    /// Bytes of it before this part. 0: a message begins, and what was there of one before it is void.
    pub begin: u32,
    /// The message's immediate, with each of its parts.
    pub immediate: Option<u64>,
    /// Where the receiver is once this part is taken: what [`Flow::place`](crate::Flow::place) says then. A sink that keeps it
    /// in the same moment as the message knows after a restart exactly what it has.
    pub place: Place,
    /// The part. Empty only as the whole of an empty message.
    pub bytes: &'a [u8],
}

impl Part<'_> {
    /// Whether the message is whole with it.
    pub fn is_last(&self) -> bool {
        self.begin as usize + self.bytes.len() == self.total as usize
    }
}

/// Who receives messages, part by part: each once, in order.
pub trait Sink {
    /// Takes a part, and true says so: it is acknowledged then, so it is where it stays, also if this process ends. False:
    /// there is no room now; the same part is offered again by [`Flow::deliver`](crate::Flow::deliver).
    fn put(&mut self, part: Part<'_>) -> bool;
}

impl<F: FnMut(Part<'_>) -> bool> Sink for F {
    fn put(&mut self, part: Part<'_>) -> bool {
        self(part)
    }
}

/// What became of a part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arrival {
    /// The sink has it, and others that had waited for it.
    Taken { waited: bool },
    /// It is kept until its turn comes, or there is room.
    Kept,
    /// It had come before.
    Again,
    /// It was taken, and one that had waited for it does not continue its message: see [`Broken`].
    Broken,
}

/// The peer had sent a part that does not continue its message, and it was told that this part had arrived. There is no
/// going on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Broken;

#[derive(Clone, Copy, Default, Debug, Hash)]
struct Kept {
    here: bool,
    first: bool,
    last: bool,
    bytes: u16,
    total: u32,
    immediate: Option<u64>,
}

/// The message whose next part is awaited.
#[derive(Clone, Copy, Default, Debug, Hash)]
struct Current {
    total: u32,
    /// Bytes that were taken; 0: none has begun.
    taken: u32,
    immediate: Option<u64>,
}

#[derive(Clone, Debug, Hash)]
pub(crate) struct Reassembly<B, const W: usize> {
    /// For `room` parts of up to `part_max` bytes, each at its number's place.
    memory: B,
    part_max: u16,
    room: u16,
    /// The next number to be taken, and the tag of the parts of that incarnation.
    expected: u32,
    tag: u32,
    /// Whether anything was taken with that tag.
    has_taken: bool,
    /// How far the last kept number is behind `expected`, and one.
    span: u32,
    message: u64,
    current: Current,
    kept: [Kept; W],
}

impl<B: AsRef<[u8]> + AsMut<[u8]>, const W: usize> Reassembly<B, W> {
    /// [`None`]: the memory does not hold a single part.
    pub fn new(memory: B, part_max: u16) -> Option<Reassembly<B, W>> {
        let room = Self::room_in(&memory, part_max)?;
        Some(Reassembly {
            memory,
            part_max,
            room,
            expected: 0,
            tag: 0,
            has_taken: false,
            span: 0,
            message: 0,
            current: Current::default(),
            kept: [Kept::default(); W],
        })
    }

    /// Parts that fit.
    fn room_in(memory: &B, part_max: u16) -> Option<u16> {
        let parts = memory.as_ref().len().checked_div(part_max.into())?.min(W).min(ROOM_MAX.into());
        // A power of two, so that neighbours have different places across the end of all numbers.
        Some(1 << parts.checked_ilog2()?)
    }

    /// Keeps parts in other memory from now on, which holds more of them; not while any is kept. The one that is not used.
    pub fn grow(&mut self, memory: B) -> Result<B, B> {
        match Self::room_in(&memory, self.part_max) {
            Some(room) if room > self.room && self.span == 0 => {
                self.room = room;
                Ok(core::mem::replace(&mut self.memory, memory))
            }
            _ => Err(memory),
        }
    }

    /// Numbers begin anew, with another tag; what is kept, and what there is of a message, is void.
    pub fn restart(&mut self, expected: u32, tag: u32) {
        (self.tag, self.has_taken) = (tag, false);
        (self.expected, self.span, self.current) = (expected, 0, Current::default());
        self.kept.iter_mut().for_each(|kept| kept.here = false);
    }

    pub fn expected(&self) -> u32 {
        self.expected
    }

    /// Where this end is in the incarnation that began last; nothing: none of it was taken yet.
    pub fn place(&self) -> Option<Place> {
        self.has_taken.then_some(Place { tag: self.tag, taken: self.expected })
    }

    /// The tag of the parts that are taken; 0: there is no incarnation.
    pub fn tag(&self) -> u32 {
        self.tag
    }

    pub fn room(&self) -> u16 {
        self.room
    }

    pub fn part_max(&self) -> u16 {
        self.part_max
    }

    /// Messages of which all was taken.
    pub fn messages(&self) -> u64 {
        self.message
    }

    /// A part came with this number.
    pub fn arrive(
        &mut self,
        number: u32,
        piece: Piece<'_>,
        sink: &mut impl Sink,
    ) -> Result<Arrival, Refused> {
        let Some(by) = ahead(number, self.expected) else { return Ok(Arrival::Again) };
        if by >= self.room.into() {
            return Err(Refused::Beyond);
        }
        if piece.bytes.len() > self.part_max.into() {
            return Err(Refused::Long);
        }
        let at = place::<W>(number);
        if self.kept[at].here {
            return Ok(Arrival::Again);
        }
        if by == 0 {
            let next = self.current.continued(&piece)?;
            if sink.put(self.part(next, piece.bytes)) {
                self.taken(next, piece.bytes.len(), piece.last);
                let waited = self.span > 0;
                return Ok(self.deliver(sink).map_or(Arrival::Broken, |_| Arrival::Taken { waited }));
            }
        }
        let Piece { first, last, total, immediate, bytes } = piece;
        let begin = self.place_of(number);
        self.memory.as_mut()[begin..][..bytes.len()].copy_from_slice(bytes);
        self.kept[at] = Kept { here: true, first, last, bytes: bytes.len() as u16, total, immediate };
        self.span = self.span.max(by + 1);
        Ok(Arrival::Kept)
    }

    /// Gives the sink what has its turn, as far as there is room: how many parts.
    pub fn deliver(&mut self, sink: &mut impl Sink) -> Result<u32, Broken> {
        let mut taken = 0;
        loop {
            let at = place::<W>(self.expected);
            let Kept { here, first, last, bytes, total, immediate } = self.kept[at];
            if !here {
                return Ok(taken);
            }
            let begin = self.place_of(self.expected);
            let bytes = &self.memory.as_ref()[begin..][..bytes.into()];
            let piece = Piece { first, last, total, immediate, bytes };
            let next = self.current.continued(&piece).map_err(|_| Broken)?;
            if !sink.put(self.part(next, bytes)) {
                return Ok(taken);
            }
            self.kept[at].here = false;
            let bytes = bytes.len();
            self.taken(next, bytes, last);
            taken += 1;
        }
    }

    /// Which of the 16 numbers from `expected` on are kept, and whether others behind them are.
    pub fn arrived(&self) -> (u16, bool) {
        let bits = (0..self.span.min(16)).fold(0, |bits, by| bits | u16::from(self.is_kept(by)) << by);
        (bits, self.span > 16)
    }

    /// Those behind the 16, 8 a byte, into `out`. How many bytes that is, up to a hundred and twenty-six.
    pub fn write_arrived(&self, out: &mut [u8]) -> usize {
        let bytes = self.span.saturating_sub(16).div_ceil(8);
        for (out, at) in out.iter_mut().zip((16..self.span).step_by(8)) {
            *out = (at..self.span.min(at + 8))
                .fold(0, |byte, by| byte | u8::from(self.is_kept(by)) << (by - at));
        }
        bytes as usize
    }

    fn is_kept(&self, by: u32) -> bool {
        self.kept[place::<W>(self.expected.wrapping_add(by))].here
    }

    fn part<'a>(&self, next: Current, bytes: &'a [u8]) -> Part<'a> {
        let Current { total, taken: begin, immediate } = next;
        let place = Place { tag: self.tag, taken: self.expected.wrapping_add(1) };
        Part { message: self.message, total, begin, immediate, place, bytes }
    }

    fn taken(&mut self, next: Current, bytes: usize, last: bool) {
        (self.expected, self.has_taken) = (self.expected.wrapping_add(1), true);
        self.span = self.span.saturating_sub(1);
        self.current = Current { taken: next.taken + bytes as u32, ..next };
        if last {
            self.current = Current::default();
            self.message += 1;
        }
    }

    fn place_of(&self, number: u32) -> usize {
        (number as usize & (usize::from(self.room) - 1)) * usize::from(self.part_max)
    }
}

impl Current {
    /// The message that a part is of, before it is taken.
    pub fn continued(self, piece: &Piece<'_>) -> Result<Current, Refused> {
        let begun = self.taken > 0;
        let next = match piece.first {
            true if begun => return Err(Refused::Part),
            true => Current { total: piece.total, taken: 0, immediate: piece.immediate },
            false if begun => self,
            false => return Err(Refused::Part),
        };
        let left = (next.total - next.taken) as usize;
        let ends = piece.bytes.len() == left;
        if piece.bytes.len() > left || piece.last != ends {
            return Err(Refused::Part);
        }
        Ok(next)
    }
}

#[cfg(any(test, kernel_tests))]
pub(crate) mod tests;
