//! Messages that came by the descriptor: whole, or as memory that a token in an edge gives its place.
//!
//! Every sender can write to the descriptor, also in another's name. So a packet with memory for an edge says that
//! edge's key, which only its receiver and its sender know; what says none is let go, and what strangers send takes
//! nobody's place.

use std::io;
use std::os::fd::OwnedFd;

use crate::edge::far::{self, Far};

/// A message in the sender's memory.
#[derive(Debug)]
pub enum Elsewhere {
    /// As it is read. A mapping needs no descriptor.
    Mapped(Far),
    /// There was no room to map it yet.
    Held(OwnedFd),
}

impl Elsewhere {
    /// Nothing of memory that is not as it must be.
    pub fn new(memory: OwnedFd) -> Option<Elsewhere> {
        far::check(&memory).ok()?;
        Some(Far::open(&memory).map_or(Elsewhere::Held(memory), Elsewhere::Mapped))
    }

    /// As it is read.
    ///
    /// # Errors
    ///
    /// With the message: ENOMEM, there is no room to map it, still.
    pub fn map(self) -> Result<Far, (Elsewhere, io::Error)> {
        match self {
            Elsewhere::Mapped(far) => Ok(far),
            Elsewhere::Held(memory) => Far::open(&memory).map_err(|e| (Elsewhere::Held(memory), e)),
        }
    }

    /// Bytes.
    pub fn size(&self) -> usize {
        match self {
            Elsewhere::Mapped(far) => far.len(),
            Elsewhere::Held(memory) => far::check(memory).unwrap_or(0),
        }
    }
}

/// A message that is no edge's.
#[derive(Debug)]
pub enum Own {
    /// Its bytes.
    Bytes(Box<[u8]>),
    /// In the sender's memory.
    Far(Elsewhere),
}

impl Own {
    /// Bytes.
    pub fn size(&self) -> usize {
        match self {
            Own::Bytes(bytes) => bytes.len(),
            Own::Far(message) => message.size(),
        }
    }
}
