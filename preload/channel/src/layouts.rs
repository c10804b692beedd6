//! Versions of what two programs share, and of what `dp ls` reads, as the library's file has them.
//!
//! Each number is raised when what it stands for changes; programs of different ones stay on TCP with each other (reason
//! `version`). They lie side by side behind a mark in the file, so that a test can make a library of another version out of
//! this one: a copy with another number in it.

use dp_edge::sync::{AtomicU32, Ordering};

/// What a client says at a door, beside its arena.
const HELLO: u32 = 3;
/// An arena.
pub const ARENA: u32 = 5;
/// The memory of a family.
pub const FAMILY: u32 = 14;

/// How the versions are found in the file.
pub const MARK: [u8; 16] = *b"dp-layouts-v1\0\0\0";

/// In the order in which they follow the mark.
#[repr(C)]
struct Layouts {
    mark: [u8; 16],
    hello: AtomicU32,
    arena: AtomicU32,
    family: AtomicU32,
}

// Kept as it is, and not put into the instructions as constants: the compiler must take it that somebody else writes here.
#[used]
static LAYOUTS: Layouts = Layouts {
    mark: MARK,
    hello: AtomicU32::new(HELLO),
    arena: AtomicU32::new(ARENA),
    family: AtomicU32::new(FAMILY),
};

/// What a client says at a door.
pub fn hello() -> u32 {
    LAYOUTS.hello.load(Ordering::Relaxed)
}

/// The memory of channels.
pub fn arena() -> u32 {
    LAYOUTS.arena.load(Ordering::Relaxed)
}

/// What the processes of a program share, and `dp ls` reads.
pub fn family() -> u32 {
    LAYOUTS.family.load(Ordering::Relaxed)
}
