//! Sizes of an arena, and where its parts lie in the file: what everybody stands on who maps one or looks into it.

use dp_edge::ring::LINE;
use dp_edge::sync::{AtomicU32, AtomicU64};
use dp_edge::sys::raw;

/// First word of every arena: "DPARENA1", little endian.
pub const MAGIC: u64 = u64::from_le_bytes(*b"DPARENA1");
/// Most lines of a ring.
const MAX_LINES: u32 = 1 << 20;
/// Watcher groups per side.
pub const GROUPS: usize = 32;
/// Most slots in an arena.
pub const MAX_SLOTS: u32 = 1 << 16;
/// Slots in a chunk.
pub(super) const CHUNK: u32 = 16;
/// Lines of a short ring.
pub const SHORT: u64 = (PAGE / 2 / LINE) as u64;
/// Entries looked at for one tuple.
pub const PROBES: usize = 8;

pub(super) const GROUPS_AT: usize = 4096;
/// The word that says which spare rings are taken.
pub(super) const TAKEN_AT: usize = 2048;
pub(super) const INDEX_AT: usize = GROUPS_AT + 2 * GROUPS * LINE;
pub(super) const SLOT: usize = 512;
pub(super) const OFFER: usize = 128;
pub(super) const EDGE: usize = 3 * LINE;
pub(super) const PAGE: usize = 4096;
/// How many there are in an arena.
pub const SPARES: u32 = 16;

#[repr(C)]
pub(super) struct Header {
    pub(super) magic: AtomicU64,
    /// The oldest version by which it can be read.
    pub(super) version: AtomicU32,
    pub(super) slots: AtomicU32,
    pub(super) lines: AtomicU32,
    pub(super) spare: AtomicU32,
    /// The newest version that its maker speaks; 0: `version`.
    pub(super) newest: AtomicU32,
    _reserved: AtomicU32,
}

/// Sizes of an arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Slots: a power of two, 16..=[`MAX_SLOTS`].
    pub slots: u32,
    /// Lines per ring: a power of two, 64..=2^20 (4 KiB..64 MiB).
    pub lines: u32,
    /// Lines of a spare ring, a power of two as well, and more than `lines`; 0: there are none.
    pub spare: u32,
}

impl Geometry {
    pub(super) fn valid(self) -> bool {
        self.slots.is_power_of_two()
            && (16..=MAX_SLOTS).contains(&self.slots)
            && self.lines.is_power_of_two()
            && (64..=MAX_LINES).contains(&self.lines)
            && (self.spare == 0
                || self.spare.is_power_of_two() && self.spare > self.lines && self.spare <= MAX_LINES)
    }
    pub(super) fn index_len(self) -> usize {
        self.slots as usize * 4
    }
    /// Bytes of what is mapped at first.
    pub(super) fn first_len(self) -> usize {
        (INDEX_AT + self.index_len() * 4).next_multiple_of(PAGE)
    }
    /// Bytes of a spare ring.
    fn spare_bytes(self) -> usize {
        self.spare as usize * LINE
    }
    fn chunks_at(self) -> usize {
        self.first_len() + SPARES as usize * self.spare_bytes()
    }
    pub(super) fn chunks(self) -> usize {
        (self.slots / CHUNK) as usize
    }
    fn chunk_len(self) -> usize {
        CHUNK as usize * (SLOT + PAGE + 2 * self.ring_bytes())
    }
    /// Where a part lies in the file, and how long it is.
    pub(super) fn part(self, part: Part) -> (usize, usize) {
        match part {
            Part::First => (0, self.first_len()),
            Part::Spare(i) => (self.first_len() + i * self.spare_bytes(), self.spare_bytes()),
            Part::Chunk(i) => (self.chunks_at() + i * self.chunk_len(), self.chunk_len()),
        }
    }
    /// Where slot `i`, which is one, lies in the file.
    pub(super) fn slot_at(self, i: u32) -> usize {
        self.part(Part::Chunk((i / CHUNK) as usize)).0 + (i % CHUNK) as usize * SLOT
    }
    /// Bytes of one ring.
    pub fn ring_bytes(self) -> usize {
        self.lines as usize * LINE
    }
    /// Bytes of the whole arena; sparse until slots are used.
    #[expect(clippy::len_without_is_empty, reason = "a size, not a collection")]
    pub fn len(self) -> usize {
        self.chunks_at() + self.chunks() * self.chunk_len()
    }
}

/// A part of an arena that is mapped as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// What comes before the spare rings.
    First,
    /// A spare ring.
    Spare(usize),
    /// Slots with their rings.
    Chunk(usize),
}

/// Gives memory to `len` bytes at `at` that have none yet, so that no access can fault for lack of it.
///
/// # Errors
///
/// EINVAL: the kernel cannot do that (before Linux 5.14). ENOMEM, EFAULT: there is none.
///
/// # Safety
///
/// The range is mapped, page-aligned, and may be written.
pub unsafe fn populate(at: *mut u8, len: usize) -> Result<(), i32> {
    let args = [at as usize, len, libc::MADV_POPULATE_WRITE as usize, 0, 0, 0];
    // SAFETY: by the contract; no contents change.
    unsafe { raw::call(libc::SYS_madvise, args) }.map(drop)
}
