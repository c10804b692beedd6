//! The ring: 64-byte lines, a token in place, nothing but the token to look at.
//!
//! ```text
//!   line c          line c+1        line c+2              line t
//!  +------+-------+---------------+------+-------+- - - -+------+
//!  |header|payload|  ...payload   |header|payload|        |  0   |
//!  +------+-------+---------------+------+-------+- - - -+------+
//!   ^ cursor: first token not taken                        ^ tail: next token goes here
//!
//!  header, 8 bytes, little endian:   63        32 31 30 29         0
//!                                   +------------+-----+------------+
//!                                   |   stamp    |kind |   length   |
//!                                   +------------+-----+------------+
//!
//!  kind: a message; a message with an immediate, 8 bytes before it; one with a route, 24 bytes before it; the number of a
//!  message out of line
//!
//!  +------+-----------+- - - - - - - - -+
//!  |header| immediate | message         |     length = 8 + bytes of the message
//!  +------+-----------+- - - - - - - - -+
//! ```
//!
//! A token takes whole lines, so the header a receiver polls shares its line with no other token (R6).
//! The producer makes the *next* header invalid before it publishes one (R1): without that, payload of
//! the previous lap could be taken for a header. The cursor is the returned space (R3); the producer
//! reads it only when its cached copy says full.

use super::Error;
use crate::sync::{fence, fence_after_rmw, AtomicU64, Ordering};

/// Bytes in a line, the unit of positions.
pub const LINE: usize = 64;
/// Bytes of a token's header.
pub const HEADER: usize = 8;
/// A token's payload that still fits one line.
pub const SMALL: usize = LINE - HEADER;
/// Bytes of an immediate.
pub const IMMEDIATE: usize = 8;
/// Bytes of a route and an immediate or none.
pub const ROUTED: usize = 24;
/// Longest payload a header can describe.
pub const MAX_LEN: usize = (1 << 30) - 1;

/// Lines whose headers a sender of small tokens makes its own in one go; a power of two.
const AHEAD: u64 = 8;

const KIND_SHIFT: u32 = 30;
const POS_BITS: u32 = 48;
const POS_MASK: u64 = (1 << POS_BITS) - 1;

/// What a token carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// Payload for the receiver.
    Data = 0,
    /// A message with an immediate: the payload's first [`IMMEDIATE`] bytes are the immediate, the rest is the message.
    Immediate = 1,
    /// A message out of line (`edge/out_of_line.rs` of dpfd); the payload is its number, 8 bytes.
    OutOfLine = 2,
    /// A message that names a route: the payload's first [`ROUTED`] bytes say which, and whether there is an immediate, the rest
    /// is the message.
    Routed = 3,
}

impl Kind {
    /// Bytes before the message.
    #[inline]
    pub const fn before(self) -> usize {
        match self {
            Kind::Data | Kind::OutOfLine => 0,
            Kind::Immediate => IMMEDIATE,
            Kind::Routed => ROUTED,
        }
    }
}

/// A position in a ring: a count of lines since it was made, modulo 2^48 (16 PiB of traffic).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pos(u64);

impl Pos {
    /// The position `lines` after this one.
    #[inline(always)]
    #[expect(
        clippy::should_implement_trait,
        reason = "a position plus a count is no position plus a position"
    )]
    pub fn add(self, lines: u64) -> Pos {
        Pos((self.0 + lines) & POS_MASK)
    }
    /// Lines from `earlier` to this one.
    #[inline(always)]
    pub fn since(self, earlier: Pos) -> u64 {
        self.0.wrapping_sub(earlier.0) & POS_MASK
    }
    /// From a raw word; the upper bits are dropped.
    #[inline(always)]
    pub fn new(raw: u64) -> Pos {
        Pos(raw & POS_MASK)
    }
    /// The raw count of lines.
    #[inline(always)]
    pub fn raw(self) -> u64 {
        self.0
    }
    /// Never 0, so an empty token has a header too; differs from lap to lap.
    #[inline(always)]
    fn stamp(self) -> u32 {
        (self.0 as u32) | 0x8000_0000
    }
}

/// A receiver's place: the token at `pos`, of whose payload `off` bytes were taken.
///
/// One word, so that several receivers can commit by compare-and-swap (L1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cursor {
    /// The token.
    pub pos: Pos,
    /// Bytes of it already taken.
    pub off: u16,
    /// The sender took the rest back and puts it on TCP (E8); no receiver commits any more.
    pub frozen: bool,
}

const FROZEN: u64 = 1 << 15;

impl Cursor {
    /// As stored in the edge's control line.
    #[inline(always)]
    pub fn pack(self) -> u64 {
        (self.pos.0 << 16) | u64::from(self.off) | if self.frozen { FROZEN } else { 0 }
    }
    /// From the edge's control line; every value is a valid cursor.
    #[inline(always)]
    pub fn unpack(word: u64) -> Cursor {
        Cursor { pos: Pos(word >> 16), off: word as u16 & 0x7fff, frozen: word & FROZEN != 0 }
    }
}

/// A decoded header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    /// Payload bytes.
    pub len: usize,
    /// What it carries.
    pub kind: Kind,
}

impl Token {
    /// Lines the token takes, header included.
    #[inline(always)]
    pub fn lines(self) -> u64 {
        lines_for(self.len)
    }
}

/// Lines for a payload of `len` bytes and its header.
#[inline(always)]
pub fn lines_for(len: usize) -> u64 {
    (len + HEADER).div_ceil(LINE) as u64
}

#[inline(always)]
fn encode(pos: Pos, len: usize, kind: Kind) -> u64 {
    (u64::from(pos.stamp()) << 32) | ((kind as u64) << KIND_SHIFT) | len as u64
}

/// Where the lines of a ring live: a mapping shared with the peer, or plain memory in a proof.
///
/// # Safety
///
/// `header` and the copies must stay inside the ring for *every* position and length they are given
/// (positions wrap, lengths up to the ring's size): the values come from the other process.
pub unsafe trait Lines {
    /// Lines in the ring: a power of two, at least 4.
    fn count(&self) -> u64;
    /// The header of the line at `pos`.
    fn header(&self, pos: Pos) -> &AtomicU64;
    /// Copies `len` bytes into the ring, `at` bytes after the start of line `pos`.
    ///
    /// # Safety
    ///
    /// `src` is readable for `len` bytes; `at + len` is at most the ring's size.
    unsafe fn put(&self, pos: Pos, at: usize, src: *const u8, len: usize);
    /// Copies `len` bytes out of the ring.
    ///
    /// # Safety
    ///
    /// `dst` is writable for `len` bytes; `at + len` is at most the ring's size.
    unsafe fn get(&self, pos: Pos, at: usize, dst: *mut u8, len: usize);
}

// SAFETY: the ring's own.
unsafe impl<L: Lines + ?Sized> Lines for &L {
    #[inline(always)]
    fn count(&self) -> u64 {
        (**self).count()
    }
    #[inline(always)]
    fn header(&self, pos: Pos) -> &AtomicU64 {
        (**self).header(pos)
    }
    #[inline(always)]
    unsafe fn put(&self, pos: Pos, at: usize, src: *const u8, len: usize) {
        // SAFETY: the caller's contract.
        unsafe { (**self).put(pos, at, src, len) };
    }
    #[inline(always)]
    unsafe fn get(&self, pos: Pos, at: usize, dst: *mut u8, len: usize) {
        // SAFETY: the caller's contract.
        unsafe { (**self).get(pos, at, dst, len) };
    }
}

/// The longest payload a ring of `count` lines takes: one line stays free for the next header.
#[inline(always)]
pub fn max_payload(count: u64) -> usize {
    ((count as usize - 1) * LINE - HEADER).min(MAX_LEN)
}

/// The producer's own state: not shared with the peer, so that it cannot be lied about.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tail {
    /// Where the next token goes.
    pub pos: Pos,
    /// The cursor as last read.
    pub seen: Pos,
}

impl Tail {
    /// Checks that a token of `lines` fits, reading the cursor only if the cached one says it does not.
    #[inline(always)]
    pub fn reserve(&mut self, count: u64, lines: u64, cursor: &AtomicU64) -> Result<(), Error> {
        if self.fits(count, lines) {
            return Ok(());
        }
        self.reserve_slow(count, lines, cursor)
    }

    /// A sum, not a difference: after `recover` (`stream.rs` of dp-channel) the cached cursor can be more than a
    /// lap behind.
    #[inline(always)]
    fn fits(&self, count: u64, lines: u64) -> bool {
        self.pos.since(self.seen) + lines < count
    }

    #[cold]
    fn reserve_slow(&mut self, count: u64, lines: u64, cursor: &AtomicU64) -> Result<(), Error> {
        self.refresh(cursor)?;
        if self.fits(count, lines) {
            Ok(())
        } else {
            Err(Error::Full)
        }
    }

    /// Reads the cursor; refuses one that moved backwards or past the tail.
    pub fn refresh(&mut self, cursor: &AtomicU64) -> Result<(), Error> {
        // Acquire: the receiver's copy out of these lines happened before it gave them back.
        let new = Cursor::unpack(cursor.load(Ordering::Acquire)).pos;
        if new.since(self.seen) > self.pos.since(self.seen) {
            return Err(Error::Corrupt);
        }
        self.seen = new;
        // Release: whoever sees anything we write into these lines also sees that they were given back.
        // A receiver that looks at a stale cursor depends on it (`stream::pull`, L1).
        fence(Ordering::Release);
        Ok(())
    }

    /// Writes a token of `len` bytes, for which [`Tail::reserve`] found room: the one order in which that is right (R1).
    /// `fill` copies the payload into the ring, behind the header of the token at the position it is given.
    #[inline(always)]
    pub fn write<L: Lines + ?Sized>(
        &mut self,
        ring: &L,
        len: usize,
        kind: Kind,
        fill: impl FnOnce(&L, Pos),
    ) -> Result<(), Error> {
        let lines = lines_for(len);
        invalidate_next(ring, self.pos, lines);
        fill(ring, self.pos);
        commit(ring, self.pos, len, kind)?;
        self.advance(ring, lines);
        Ok(())
    }

    /// Steps over the token of `lines` just committed, and makes the lines of the next ones this core's.
    ///
    /// A line that the receiver has read stays shared, and the first store to it waits for a round trip
    /// between the cores; the fence of the next commit waits for that store. So the header that the next
    /// small token will invalidate is invalidated now, while nobody waits for us, and every eight lines
    /// those of the eight after them, whose round trips then overlap. (A prefetch for writing does not do
    /// it: on the processors at hand it leaves a line shared that is in the cache already.) Free lines may
    /// hold anything, so a 0 there is as good; those the cached cursor does not know to be free are left
    /// alone. Long tokens need nothing: the stores of their payload overlap by themselves.
    #[inline(always)]
    fn advance<L: Lines + ?Sized>(&mut self, ring: &L, lines: u64) {
        let before = self.pos;
        self.pos = before.add(lines);
        if lines > AHEAD / 2 {
            return;
        }
        let count = ring.count();
        let clear = |at: Pos| ring.header(at).store(0, Ordering::Relaxed);
        if self.pos.since(self.seen) + 1 < count {
            clear(self.pos.add(1));
        }
        if (before.0 ^ self.pos.0) & AHEAD != 0 {
            let next = Pos::new((self.pos.0 | (AHEAD - 1)) + 1);
            if next.since(self.seen) + AHEAD <= count {
                (0..AHEAD).for_each(|i| clear(next.add(i)));
            }
        }
    }

    /// Lines free for tokens, by the cached cursor.
    #[inline]
    pub fn free(&self, count: u64) -> u64 {
        count.saturating_sub(self.pos.since(self.seen) + 1)
    }
}

/// Makes the header after a token of `lines` at `pos` invalid; the first half of R1.
#[inline(always)]
pub fn invalidate_next<L: Lines + ?Sized>(ring: &L, pos: Pos, lines: u64) {
    // Relaxed: ordered before the token's header by that header's release.
    ring.header(pos.add(lines)).store(0, Ordering::Relaxed);
}

/// Publishes the token whose payload is already at `pos`, and fences: the caller may load the wake
/// word next. Fails if a header stands there already: a signal handler's (L5), or a hostile peer's.
#[inline(always)]
pub fn commit<L: Lines + ?Sized>(ring: &L, pos: Pos, len: usize, kind: Kind) -> Result<(), Error> {
    let header = ring.header(pos);
    // SeqCst RMW: releases the payload and the invalid next header, and is the full fence of R1/W1.
    match header.compare_exchange(0, encode(pos, len, kind), Ordering::SeqCst, Ordering::Relaxed) {
        Ok(_) => {
            fence_after_rmw();
            Ok(())
        }
        Err(_) => Err(Error::Corrupt),
    }
}

/// Looks at the token at `pos`: `Empty`, a token whose length fits the ring, or `Corrupt`.
#[inline(always)]
pub fn look<L: Lines + ?Sized>(ring: &L, pos: Pos) -> Result<Token, Error> {
    // Acquire: pairs with commit; payload read after this is the payload written before it.
    let word = ring.header(pos).load(Ordering::Acquire);
    if (word >> 32) as u32 != pos.stamp() {
        // 0 is empty; any other stamp is what a hostile peer (or a torn lap) leaves: never ours.
        return if word == 0 { Err(Error::Empty) } else { Err(Error::Corrupt) };
    }
    let len = (word & MAX_LEN as u64) as usize;
    if len > max_payload(ring.count()) {
        return Err(Error::Corrupt);
    }
    match (word >> KIND_SHIFT) & 3 {
        0 => Ok(Token { len, kind: Kind::Data }),
        1 if len >= IMMEDIATE => Ok(Token { len, kind: Kind::Immediate }),
        2 => Ok(Token { len, kind: Kind::OutOfLine }),
        3 if len >= ROUTED => Ok(Token { len, kind: Kind::Routed }),
        _ => Err(Error::Corrupt),
    }
}
