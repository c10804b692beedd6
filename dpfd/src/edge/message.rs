//! Whole messages over tokens: what an endpoint's edge carries.
//!
//! One message is one token. The receiver (`pool/in_edge.rs`) either copies it out or reads it in place, in a mapping
//! where the ring stands twice in a row, and gives lines back in order. One sender and one receiver at a time.

use dp_edge::ring::{self, lines_for, Kind, Lines, Tail, HEADER};
use dp_edge::sync::AtomicU64;
use dp_edge::Error;

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
pub fn far_number<L: Lines + ?Sized>(ring: &L, pos: dp_edge::ring::Pos, len: usize) -> Result<u64, Error> {
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
