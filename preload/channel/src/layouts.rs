//! Versions of what two programs share, and of what `dp ls` reads, as the library's file has them.
//!
//! Of each there is a range: the oldest version that is still spoken, and the newest. Two programs speak the newest version
//! that both know. Where there is none, they stay on TCP with each other (reason `version`). So a program that was started
//! before an upgrade and one that was started after it have channels with each other, as long as what is new can be left out
//! between them; CONTRIBUTING.md says how such a change is made.
//!
//! The client cannot ask the server first, and need not: what it writes says which version its reader must know at least, and
//! which one the client knows itself. In the arena and in the hello the first of these stands where the only number was before there were
//! ranges, and the second where there was nothing: 0 is the same as the first.
//!
//! They lie side by side behind a mark in the file, so that a test can make a library of other versions out of this one: a
//! copy with other numbers in it.

// Not loom's: nobody writes here but who makes a copy of the file.
use core::sync::atomic::{AtomicU32, Ordering};

/// What a client says at a door, beside its arena.
const HELLO: [u32; 2] = [3, 3];
/// An arena.
pub const ARENA: [u32; 2] = [5, 5];
/// The memory of a family: the newest is what a program writes, all of them are what `dp` reads. From 13 to 14 only the notes
/// on arenas became others, which it does not look at.
pub const FAMILY: [u32; 2] = [13, 14];

/// How the versions are found in the file.
pub const MARK: [u8; 16] = *b"dp-layouts-v2\0\0\0";

/// In the order in which they follow the mark, each the oldest and the newest.
#[repr(C)]
struct Layouts {
    mark: [u8; 16],
    hello: [AtomicU32; 2],
    arena: [AtomicU32; 2],
    family: [AtomicU32; 2],
}

// Kept as it is, and not put into the instructions as constants: the compiler must take it that somebody else writes here.
#[used]
static LAYOUTS: Layouts =
    Layouts { mark: MARK, hello: both(HELLO), arena: both(ARENA), family: both(FAMILY) };

const fn both([oldest, newest]: [u32; 2]) -> [AtomicU32; 2] {
    assert!(oldest > 0 && oldest <= newest && newest < 256);
    [AtomicU32::new(oldest), AtomicU32::new(newest)]
}

/// The versions that somebody speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The oldest: whoever reads what this one writes must know it at least.
    pub oldest: u32,
    /// The newest.
    pub newest: u32,
}

impl Range {
    /// By the two words that a writer has left.
    pub fn told(oldest: u32, newest: u32) -> Range {
        Range { oldest, newest: newest.max(oldest) }
    }

    /// The newest version that both speak.
    pub fn common(self, other: Range) -> Option<u32> {
        let newest = self.newest.min(other.newest);
        (newest >= self.oldest.max(other.oldest)).then_some(newest)
    }

    /// Whether `version` is one of them.
    pub fn has(self, version: u32) -> bool {
        (self.oldest..=self.newest).contains(&version)
    }

    fn of([oldest, newest]: &[AtomicU32; 2]) -> Range {
        Range { oldest: oldest.load(Ordering::Relaxed), newest: newest.load(Ordering::Relaxed) }
    }
}

/// What a client says at a door.
pub fn hello() -> Range {
    Range::of(&LAYOUTS.hello)
}

/// The memory of channels.
pub fn arena() -> Range {
    Range::of(&LAYOUTS.arena)
}

/// What the processes of a program share, and `dp ls` reads.
pub fn family() -> Range {
    Range::of(&LAYOUTS.family)
}

#[cfg(test)]
mod tests;
