//! Whole messages over tokens: what an endpoint's edge carries.
//!
//! One message is one token. The receiver (`pool/in_edge.rs`) either copies it out or reads it in place, in a mapping
//! where the ring stands twice in a row, and gives lines back in order. One sender and one receiver at a time.

use dp_edge::ring::{self, lines_for, Kind, Lines, Pos, Tail, HEADER, ROUTED};
use dp_edge::sync::AtomicU64;
use dp_edge::Error;

use super::beside::Beside;
use super::parts::Parts;

/// Writes one token: `before` bytes of ours and the message's `len` behind them.
///
/// `TooLong` is told before any waiting could begin (R5).
#[inline(always)]
pub(super) fn send<L: Lines + ?Sized>(
    ring: &L,
    tail: &mut Tail,
    cursor: &AtomicU64,
    (before, len, kind): (usize, usize, Kind),
    fill: impl FnOnce(&L, Pos),
) -> Result<(), Error> {
    let limit = ring::max_payload(ring.count()) - before;
    // The length first: one near usize::MAX would wrap the count of lines.
    if len > limit {
        return Err(Error::TooLong(limit));
    }
    tail.reserve(ring.count(), lines_for(before + len), cursor)?;
    tail.write(ring, before + len, kind, fill)
}

/// Sends the place of a message out of line, under `number`.
pub fn send_out_of_line<L: Lines + ?Sized>(
    ring: &L,
    tail: &mut Tail,
    cursor: &AtomicU64,
    number: u64,
) -> Result<(), Error> {
    send(ring, tail, cursor, (0, size_of::<u64>(), Kind::OutOfLine), |ring, at| put_word(ring, at, number))
}

/// Eight bytes behind the header of the token at `pos`, which has them.
#[inline(always)]
fn put_word<L: Lines + ?Sized>(ring: &L, pos: Pos, word: u64) {
    let bytes = word.to_ne_bytes();
    // SAFETY: eight bytes, and every ring is longer than that.
    unsafe { ring.put(pos, HEADER, bytes.as_ptr(), bytes.len()) };
}

/// The same, read.
#[inline(always)]
fn word<L: Lines + ?Sized>(ring: &L, pos: Pos) -> u64 {
    let mut bytes = [0; 8];
    // SAFETY: the buffer is that long; eight bytes are inside any ring.
    unsafe { ring.get(pos, HEADER, bytes.as_mut_ptr(), bytes.len()) };
    u64::from_ne_bytes(bytes)
}

/// The number in a token that [`send_out_of_line`] made at `pos`.
pub fn far_number<L: Lines + ?Sized>(ring: &L, pos: Pos, len: usize) -> Result<u64, Error> {
    if len != size_of::<u64>() {
        return Err(Error::Corrupt);
    }
    Ok(word(ring, pos))
}

/// Sends `message` as one message.
#[inline(always)]
pub fn send_bytes<L: Lines + ?Sized>(
    ring: &L,
    tail: &mut Tail,
    cursor: &AtomicU64,
    message: &[u8],
) -> Result<(), Error> {
    send(ring, tail, cursor, (0, message.len(), Kind::Data), |ring, at| {
        // SAFETY: a slice is readable for its length, for which there is room.
        unsafe { ring.put(at, HEADER, message.as_ptr(), message.len()) };
    })
}

/// Sends pieces as one message, with what goes beside it; the only copy is the one into the ring.
#[inline]
pub fn send_parts<L: Lines + ?Sized>(
    ring: &L,
    tail: &mut Tail,
    cursor: &AtomicU64,
    parts: &Parts<'_>,
) -> Result<(), Error> {
    let (beside, kind) = (parts.beside(), kind_of(parts.beside()));
    let before = kind.before();
    send(ring, tail, cursor, (before, parts.len(), kind), |ring, pos| {
        match beside.immediate {
            Some(immediate) if kind == Kind::Immediate => put_word(ring, pos, immediate),
            _ if before > 0 => put_beside(ring, pos, beside),
            _ => {}
        }
        let mut at = HEADER + before;
        for piece in parts.pieces() {
            // SAFETY: a slice is readable for its length; all of them together are the message, for which there is room.
            unsafe { ring.put(pos, at, piece.as_ptr(), piece.len()) };
            at += piece.len();
        }
    })
}

#[inline(always)]
fn kind_of(beside: Beside) -> Kind {
    match beside {
        Beside { immediate: None, route: 0 } => Kind::Data,
        Beside { route: 0, .. } => Kind::Immediate,
        _ => Kind::Routed,
    }
}

/// A route, and an immediate or none, behind the header of the token at `pos`, which has the bytes.
#[inline(never)]
fn put_beside<L: Lines + ?Sized>(ring: &L, pos: Pos, beside: Beside) {
    let (bytes, len) = beside.encode();
    // SAFETY: at most three words, and every ring is longer than that.
    unsafe { ring.put(pos, HEADER, bytes.as_ptr(), len) };
}

/// What lies before the message in a token of that kind at `pos`.
#[inline]
pub fn beside<L: Lines + ?Sized>(ring: &L, pos: Pos, kind: Kind) -> Beside {
    match kind {
        Kind::Data | Kind::OutOfLine => Beside::default(),
        Kind::Immediate => Beside::of(Some(word(ring, pos))),
        Kind::Routed => {
            let mut bytes = [0; ROUTED];
            // SAFETY: the buffer is that long; three words are inside any ring.
            unsafe { ring.get(pos, HEADER, bytes.as_mut_ptr(), bytes.len()) };
            Beside::decode(&bytes).unwrap_or_default()
        }
    }
}

/// A message as it is sent over an edge: in one piece, or in parts.
pub trait Content {
    /// Bytes of the message.
    fn size(&self) -> usize;
    /// Whether only a receiver that knows immediates may have it.
    fn has_immediate(&self) -> bool;
    /// Whether only a gateway that knows routes of messages may have it as it is.
    fn has_route(&self) -> bool;
    /// Sends it.
    fn send_over<L: Lines + ?Sized>(
        &self,
        ring: &L,
        tail: &mut Tail,
        cursor: &AtomicU64,
    ) -> Result<(), Error>;
}

impl Content for &[u8] {
    #[inline(always)]
    fn size(&self) -> usize {
        self.len()
    }
    #[inline(always)]
    fn has_immediate(&self) -> bool {
        false
    }
    #[inline(always)]
    fn has_route(&self) -> bool {
        false
    }
    #[inline(always)]
    fn send_over<L: Lines + ?Sized>(
        &self,
        ring: &L,
        tail: &mut Tail,
        cursor: &AtomicU64,
    ) -> Result<(), Error> {
        send_bytes(ring, tail, cursor, self)
    }
}

impl Content for &Parts<'_> {
    #[inline(always)]
    fn size(&self) -> usize {
        self.len()
    }
    #[inline(always)]
    fn has_immediate(&self) -> bool {
        self.immediate().is_some()
    }
    #[inline(always)]
    fn has_route(&self) -> bool {
        self.beside().route != 0
    }
    #[inline(always)]
    fn send_over<L: Lines + ?Sized>(
        &self,
        ring: &L,
        tail: &mut Tail,
        cursor: &AtomicU64,
    ) -> Result<(), Error> {
        send_parts(ring, tail, cursor, self)
    }
}
