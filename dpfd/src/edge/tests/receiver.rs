//! A receiver of messages.

use dp_edge::ring::{self, lines_for, Kind, Lines, Pos, HEADER};
use dp_edge::sync::AtomicU64;
use dp_edge::testing::lines::at_line;
use dp_edge::Error;

use crate::edge::space::Space;

/// A receiver of messages, in the steps of a pool's (`pool/in_edge.rs`): it looks at the token, reads what it
/// carries, and gives its lines back.
#[derive(Default)]
pub struct Receiver {
    /// The next token.
    pub at: Pos,
    space: Space,
}

impl Receiver {
    pub fn new(at: Pos) -> Receiver {
        Receiver { at, ..Receiver::default() }
    }

    /// The next message's length, leaving it where it is.
    pub fn look<L: Lines + ?Sized>(&self, ring: &L) -> Result<usize, Error> {
        match ring::look(ring, self.at)? {
            token if token.kind == Kind::Data => Ok(token.len),
            _ => Err(Error::Corrupt),
        }
    }

    /// Steps over a message of `len` bytes and gives its lines back to the sender.
    pub fn release(&mut self, len: usize, cursor: &AtomicU64) {
        self.at = self.at.add(lines_for(len));
        self.space.give_back(cursor, at_line(self.at));
    }

    /// Copies the next message as far as `into` has room, and takes it; its length.
    pub fn recv<L: Lines + ?Sized>(
        &mut self,
        ring: &L,
        cursor: &AtomicU64,
        into: &mut [u8],
    ) -> Result<usize, Error> {
        let len = self.look(ring)?;
        // SAFETY: a slice; look() checked `len` against the ring.
        unsafe { ring.get(self.at, HEADER, into.as_mut_ptr(), len.min(into.len())) };
        self.release(len, cursor);
        Ok(len)
    }
}
