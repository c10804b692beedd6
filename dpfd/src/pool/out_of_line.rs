//! Messages that came by the descriptor: whole, or as memory that a token in an edge gives its place.
//!
//! Every sender can write to the descriptor, also in another's name. So a packet with memory for an edge says that
//! edge's key, which only its receiver and its sender know; what says none is let go, and what strangers send takes
//! nobody's place.

use std::io;
use std::os::fd::OwnedFd;

use crate::edge::beside::Beside;
use crate::edge::out_of_line::{self, OutOfLine};

/// A message in the sender's memory.
#[derive(Debug)]
pub struct Memory {
    place: Place,
    /// What came beside it.
    pub beside: Beside,
}

#[derive(Debug)]
enum Place {
    /// As it is read. A mapping needs no descriptor.
    Mapped(OutOfLine),
    /// There was no room to map it yet.
    Held(OwnedFd),
}

impl Memory {
    /// Nothing of memory that is not as it must be.
    pub fn new(memory: OwnedFd, beside: Beside) -> Option<Memory> {
        out_of_line::check(&memory).ok()?;
        let place = OutOfLine::open(&memory).map_or(Place::Held(memory), Place::Mapped);
        Some(Memory { place, beside })
    }

    /// As it is read.
    ///
    /// # Errors
    ///
    /// With the message: ENOMEM, there is no room to map it, still.
    pub fn map(self) -> Result<OutOfLine, (Memory, io::Error)> {
        match self.place {
            Place::Mapped(memory) => Ok(memory),
            Place::Held(memory) => {
                OutOfLine::open(&memory).map_err(|e| (Memory { place: Place::Held(memory), ..self }, e))
            }
        }
    }

    /// Bytes.
    pub fn size(&self) -> usize {
        match &self.place {
            Place::Mapped(memory) => memory.len(),
            Place::Held(memory) => out_of_line::check(memory).unwrap_or(0),
        }
    }
}

/// A message that is no edge's.
#[derive(Debug)]
pub enum Own {
    /// Its bytes, and what came beside them.
    Bytes(Box<[u8]>, Beside),
    /// In the sender's memory.
    OutOfLine(Memory),
}

impl Own {
    /// Bytes.
    pub fn size(&self) -> usize {
        match self {
            Own::Bytes(bytes, _) => bytes.len(),
            Own::OutOfLine(message) => message.size(),
        }
    }
}
