//! Whole messages over tokens: what an endpoint's edge carries.
//!
//! One message is one token. The receiver (`pool/in_edge.rs`) either copies it out or reads it in place, in a mapping
//! where the ring stands twice in a row, and gives lines back in order. One sender and one receiver at a time.

use dp_edge::ring::{self, lines_for, Kind, Lines, Pos, Tail, HEADER, IMMEDIATE};
use dp_edge::sync::AtomicU64;
use dp_edge::Error;

use super::parts::Parts;

/// Sends `len` bytes from `src` as one message.
///
/// `TooLong` is told before any waiting could begin (R5).
///
/// # Safety
///
/// `src` is readable for `len` bytes.
#[inline(always)]
pub unsafe fn send<L: Lines + ?Sized>(
    ring: &L,
    tail: &mut Tail,
    cursor: &AtomicU64,
    src: *const u8,
    len: usize,
) -> Result<(), Error> {
    // The length first: one near usize::MAX would wrap the count of lines.
    if len > ring::max_payload(ring.count()) {
        return Err(Error::TooLong(ring::max_payload(ring.count())));
    }
    let lines = lines_for(len);
    tail.reserve(ring.count(), lines, cursor)?;
    ring::invalidate_next(ring, tail.pos, lines);
    // SAFETY: `src` by the caller's contract; the reservation keeps the token inside the ring.
    unsafe { ring.put(tail.pos, HEADER, src, len) };
    ring::commit(ring, tail.pos, len, Kind::Data)?;
    tail.advance(ring, lines);
    Ok(())
}

/// Sends the place of a message out of line, under `number`.
pub fn send_out_of_line<L: Lines + ?Sized>(
    ring: &L,
    tail: &mut Tail,
    cursor: &AtomicU64,
    number: u64,
) -> Result<(), Error> {
    tail.reserve(ring.count(), 1, cursor)?;
    ring::invalidate_next(ring, tail.pos, 1);
    let bytes = number.to_ne_bytes();
    // SAFETY: eight bytes; the reservation keeps the token inside the ring.
    unsafe { ring.put(tail.pos, HEADER, bytes.as_ptr(), bytes.len()) };
    ring::commit(ring, tail.pos, bytes.len(), Kind::OutOfLine)?;
    tail.advance(ring, 1);
    Ok(())
}

/// The number in a token that [`send_out_of_line`] made at `pos`.
pub fn far_number<L: Lines + ?Sized>(ring: &L, pos: Pos, len: usize) -> Result<u64, Error> {
    let mut bytes = [0; 8];
    if len != bytes.len() {
        return Err(Error::Corrupt);
    }
    // SAFETY: the buffer is that long; eight bytes are inside any ring.
    unsafe { ring.get(pos, HEADER, bytes.as_mut_ptr(), bytes.len()) };
    Ok(u64::from_ne_bytes(bytes))
}

/// Sends `message` as one message: [`send`] of a slice.
#[inline(always)]
pub fn send_bytes<L: Lines + ?Sized>(
    ring: &L,
    tail: &mut Tail,
    cursor: &AtomicU64,
    message: &[u8],
) -> Result<(), Error> {
    // SAFETY: a slice is readable for its length.
    unsafe { send(ring, tail, cursor, message.as_ptr(), message.len()) }
}

/// Sends pieces as one message, with its immediate if it has one; the only copy is the one into the ring.
#[inline]
pub fn send_parts<L: Lines + ?Sized>(
    ring: &L,
    tail: &mut Tail,
    cursor: &AtomicU64,
    parts: &Parts<'_>,
) -> Result<(), Error> {
    let (before, kind) = match parts.immediate() {
        Some(_) => (IMMEDIATE, Kind::Immediate),
        None => (0, Kind::Data),
    };
    let limit = ring::max_payload(ring.count()) - before;
    if parts.len() > limit {
        return Err(Error::TooLong(limit));
    }
    let len = before + parts.len();
    let lines = lines_for(len);
    tail.reserve(ring.count(), lines, cursor)?;
    ring::invalidate_next(ring, tail.pos, lines);
    if let Some(immediate) = parts.immediate() {
        let bytes = immediate.to_ne_bytes();
        // SAFETY: eight bytes; the reservation keeps the token inside the ring.
        unsafe { ring.put(tail.pos, HEADER, bytes.as_ptr(), bytes.len()) };
    }
    let mut at = HEADER + before;
    for piece in parts.pieces() {
        // SAFETY: a slice is readable for its length; all of them together are `len`, for which there is room.
        unsafe { ring.put(tail.pos, at, piece.as_ptr(), piece.len()) };
        at += piece.len();
    }
    ring::commit(ring, tail.pos, len, kind)?;
    tail.advance(ring, lines);
    Ok(())
}

/// The immediate in a token of [`Kind::Immediate`] at `pos`.
#[inline]
pub fn immediate<L: Lines + ?Sized>(ring: &L, pos: Pos) -> u64 {
    let mut bytes = [0; IMMEDIATE];
    // SAFETY: the buffer is that long; eight bytes are inside any ring.
    unsafe { ring.get(pos, HEADER, bytes.as_mut_ptr(), bytes.len()) };
    u64::from_ne_bytes(bytes)
}

/// A message as it is sent over an edge: in one piece, or in parts.
pub trait Content {
    /// Bytes of the message.
    fn size(&self) -> usize;
    /// Whether only a receiver that knows immediates may have it.
    fn has_immediate(&self) -> bool;
    /// Sends it, as [`send`] does.
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
    fn send_over<L: Lines + ?Sized>(
        &self,
        ring: &L,
        tail: &mut Tail,
        cursor: &AtomicU64,
    ) -> Result<(), Error> {
        send_parts(ring, tail, cursor, self)
    }
}
