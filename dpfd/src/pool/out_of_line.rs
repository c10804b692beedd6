//! Messages that came by the descriptor: whole, or as memory that a token in an edge gives its place.
//!
//! Every sender can write to the descriptor, also in another's name. So a packet with memory for an edge says that
//! edge's key, which only its receiver and its sender know; what says none is let go, and what strangers send takes
//! nobody's place.

use std::io;
use std::os::fd::OwnedFd;

use crate::edge::out_of_line::{self, OutOfLine};

/// A message in the sender's memory.
#[derive(Debug)]
pub enum Memory {
    /// As it is read. A mapping needs no descriptor.
    Mapped(OutOfLine),
    /// There was no room to map it yet.
    Held(OwnedFd),
}

impl Memory {
    /// Nothing of memory that is not as it must be.
    pub fn new(memory: OwnedFd) -> Option<Memory> {
        out_of_line::check(&memory).ok()?;
        Some(OutOfLine::open(&memory).map_or(Memory::Held(memory), Memory::Mapped))
    }

    /// As it is read.
    ///
    /// # Errors
    ///
    /// With the message: ENOMEM, there is no room to map it, still.
    pub fn map(self) -> Result<OutOfLine, (Memory, io::Error)> {
        match self {
            Memory::Mapped(memory) => Ok(memory),
            Memory::Held(memory) => OutOfLine::open(&memory).map_err(|e| (Memory::Held(memory), e)),
        }
    }

    /// Bytes.
    pub fn size(&self) -> usize {
        match self {
            Memory::Mapped(memory) => memory.len(),
            Memory::Held(memory) => out_of_line::check(memory).unwrap_or(0),
        }
    }
}

/// A message that is no edge's.
#[derive(Debug)]
pub enum Own {
    /// Its bytes.
    Bytes(Box<[u8]>),
    /// In the sender's memory.
    OutOfLine(Memory),
}

impl Own {
    /// Bytes.
    pub fn size(&self) -> usize {
        match self {
            Own::Bytes(bytes) => bytes.len(),
            Own::OutOfLine(message) => message.size(),
        }
    }
}
