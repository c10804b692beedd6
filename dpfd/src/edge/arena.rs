//! An arena: the slots of all channels between one client family and one server, in sealed memory.
//!
//! ```text
//!   0        header: magic, version, slots, lines per ring, lines of a spare one
//!   4 KiB    groups of the client's watchers (32 lines), then of the server's (32 lines)
//!   8 KiB    index: 4 x slots words, hash of the tuple -> slot + 1
//!   ...      slots, 512 bytes each:
//!              +--------+--------------------------+--------------------------+
//!              | offer  | client -> server         | server -> client         |
//!              | 128 B  | word 64 | rx 64 | tx 64  | word 64 | rx 64 | tx 64  |
//!              +--------+--------------------------+--------------------------+
//!   ...      rings, page-aligned: slot 0 c->s, slot 0 s->c, slot 1 c->s, ...
//!   ...      spare rings, longer, for the directions that need one (super::spare)
//! ```
//!
//! The geometry is read once, when the arena is mapped, checked against its sealed size, and kept in
//! private memory: what the peer writes into the header later is never looked at.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::bell::{Group, Word};
use super::ring::LINE;
use super::segment::{map_undumped, sealed_memory, Mapped};
use super::slot::{Side, Slot};
use super::spare::{self, Spares};
use super::switch::{RxLine, TxLine};
use super::unmapped::Unmapped;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// First word of every arena: "DPARENA1", little endian.
pub const MAGIC: u64 = u64::from_le_bytes(*b"DPARENA1");
/// Layout version; a peer of another one is refused.
pub const VERSION: u32 = 4;
/// Most lines of a ring.
const MAX_LINES: u32 = 1 << 20;
/// Watcher groups per side.
pub const GROUPS: usize = 32;
/// Most slots in an arena.
pub const MAX_SLOTS: u32 = 1 << 14;
/// Entries looked at for one tuple.
pub const PROBES: usize = 8;

const GROUPS_AT: usize = 4096;
pub(super) const INDEX_AT: usize = GROUPS_AT + 2 * GROUPS * LINE;
pub(super) const SLOT: usize = 512;
pub(super) const OFFER: usize = 128;
const EDGE: usize = 3 * LINE;
pub(super) const PAGE: usize = 4096;

const _: () = assert!(size_of::<Slot>() == OFFER && size_of::<Group>() == LINE);
const _: () = assert!(size_of::<RxLine>() == LINE && size_of::<TxLine>() == LINE);
const _: () = assert!(OFFER + 2 * EDGE == SLOT);

#[repr(C)]
pub(super) struct Header {
    pub(super) magic: AtomicU64,
    pub(super) version: AtomicU32,
    pub(super) slots: AtomicU32,
    pub(super) lines: AtomicU32,
    pub(super) spare: AtomicU32,
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
    pub(super) fn slots_at(self) -> usize {
        INDEX_AT + self.index_len() * 4
    }
    fn rings_at(self) -> usize {
        (self.slots_at() + self.slots as usize * SLOT).next_multiple_of(PAGE)
    }
    /// Bytes of one ring.
    pub fn ring_bytes(self) -> usize {
        self.lines as usize * LINE
    }
    fn spares_at(self) -> usize {
        self.rings_at() + self.slots as usize * 2 * self.ring_bytes()
    }
    /// Bytes of the whole arena; sparse until slots are used.
    #[expect(clippy::len_without_is_empty, reason = "a size, not a collection")]
    pub fn len(self) -> usize {
        self.spares_at() + spare::len(self.spare)
    }
}

/// One direction of one slot.
#[derive(Clone, Copy)]
pub struct Edge {
    /// The wake word.
    pub word: &'static Word,
    /// The receiver's line.
    pub rx: &'static RxLine,
    /// The sender's line.
    pub tx: &'static TxLine,
    /// The ring.
    pub ring: Mapped,
}

/// A mapped arena. Mappings are never taken down while the process lives: a hook in another thread may
/// be using one; only [`Arena::unmap`], whose caller knows better.
#[derive(Debug, Clone, Copy)]
pub struct Arena {
    base: *mut u8,
    geo: Geometry,
}

// SAFETY: everything in the mapping is reached through atomics or copies.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// Makes and maps an arena.
    ///
    /// # Errors
    ///
    /// EINVAL for an impossible geometry; EMFILE, ENFILE, ENOMEM.
    pub fn create(geo: Geometry) -> io::Result<(Arena, OwnedFd)> {
        if !geo.valid() {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let fd = sealed_memory(c"dp-arena", geo.len())?;
        let arena = Arena { base: map_undumped(fd.as_fd(), geo.len())?, geo };
        let h = arena.header();
        h.version.store(VERSION, Ordering::Relaxed);
        h.slots.store(geo.slots, Ordering::Relaxed);
        h.lines.store(geo.lines, Ordering::Relaxed);
        h.spare.store(geo.spare, Ordering::Relaxed);
        h.magic.store(MAGIC, Ordering::Release);
        Ok((arena, fd))
    }

    /// Maps an arena that somebody else made, after checking its seals, version and size.
    ///
    /// # Errors
    ///
    /// Those of [`Unmapped::look`], ENOMEM.
    pub fn open(fd: BorrowedFd<'_>) -> io::Result<Arena> {
        Unmapped::look(fd, usize::MAX).map_err(io::Error::from_raw_os_error)?.map()
    }

    /// Maps all of `fd`, whose size was checked against `geo`.
    pub(super) fn mapped(fd: BorrowedFd<'_>, geo: Geometry) -> io::Result<Arena> {
        Ok(Arena { base: map_undumped(fd, geo.len())?, geo })
    }

    fn at<T>(&self, off: usize) -> &'static T {
        // SAFETY: offsets come from the checked geometry (or the first page); the mapping is never
        // taken down; T is made of atomics, any bits are a value of it.
        unsafe { &*self.base.add(off).cast::<T>() }
    }

    fn header(&self) -> &'static Header {
        self.at(0)
    }

    /// Its sizes.
    pub fn geometry(&self) -> Geometry {
        self.geo
    }

    /// The groups of the watchers on `side`.
    pub fn groups(&self, side: Side) -> &'static [Group] {
        let first: &'static Group = self.at(GROUPS_AT + (side as usize - 1) * GROUPS * LINE);
        // SAFETY: 32 groups lie there in a row.
        unsafe { core::slice::from_raw_parts(first, GROUPS) }
    }

    fn index(&self, at: usize) -> &'static AtomicU32 {
        self.at(INDEX_AT + (at & (self.geo.index_len() - 1)) * 4)
    }

    /// Client: makes `slot` findable under `hash`. False when its neighbourhood is full.
    pub fn publish(&self, hash: usize, slot: u32) -> bool {
        (0..PROBES).any(|i| {
            self.index(hash + i).compare_exchange(0, slot + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })
    }

    /// Client: takes `slot` out of the index.
    pub fn unpublish(&self, hash: usize, slot: u32) {
        for i in 0..PROBES {
            let _ = self.index(hash + i).compare_exchange(slot + 1, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// Server: the slots that may hold the offer hashed to `hash`.
    pub fn candidates(&self, hash: usize) -> impl Iterator<Item = u32> + '_ {
        (0..PROBES).filter_map(move |i| {
            let s = self.index(hash + i).load(Ordering::Acquire).wrapping_sub(1);
            (s < self.geo.slots).then_some(s)
        })
    }

    /// Length of the index, for [`super::slot::Tuple::hash`].
    pub fn index_len(&self) -> usize {
        self.geo.index_len()
    }

    /// The offer of slot `i`. Panics never: `i` is masked.
    pub fn slot(&self, i: u32) -> &'static Slot {
        self.at(self.geo.slots_at() + (i & (self.geo.slots - 1)) as usize * SLOT)
    }

    /// The edge of slot `i` on which `sender` sends.
    pub fn edge(&self, i: u32, sender: Side) -> Edge {
        let i = (i & (self.geo.slots - 1)) as usize;
        let dir = sender as usize - 1;
        let at = self.geo.slots_at() + i * SLOT + OFFER + dir * EDGE;
        let ring = self.geo.rings_at() + (2 * i + dir) * self.geo.ring_bytes();
        Edge {
            word: self.at(at),
            rx: self.at(at + LINE),
            tx: self.at(at + 2 * LINE),
            // SAFETY: inside the mapping by the checked geometry; a power of two of lines.
            ring: unsafe { Mapped::new(self.base.add(ring), u64::from(self.geo.lines)) },
        }
    }

    /// Its spare rings, if it has some.
    pub fn spares(&self) -> Option<Spares> {
        // SAFETY: inside the mapping, which is never taken down, by the checked geometry.
        (self.geo.spare > 0)
            .then(|| unsafe { Spares::new(self.base.add(self.geo.spares_at()), self.geo.spare) })
    }

    /// Address of the ring on which `sender` sends, in this mapping.
    pub fn ring_address(&self, i: u32, sender: Side) -> usize {
        let (off, both) = self.rings(i);
        self.base as usize + off + (sender as usize - 1) * (both / 2)
    }

    /// Unmaps an arena that nobody uses any more.
    ///
    /// # Safety
    ///
    /// No reference into it is left, in this process.
    pub unsafe fn unmap(self) {
        // SAFETY: by the caller's contract.
        unsafe { libc::munmap(self.base.cast(), self.geo.len()) };
    }

    /// Where slot `i`'s two rings lie in the file: offset and length.
    fn rings(&self, i: u32) -> (usize, usize) {
        let both = 2 * self.geo.ring_bytes();
        (self.geo.rings_at() + (i & (self.geo.slots - 1)) as usize * both, both)
    }

    /// Client: makes sure the slot's rings have memory, so that no access can fault for lack of it.
    ///
    /// # Errors
    ///
    /// ENOSPC, ENOMEM.
    pub fn populate(&self, fd: BorrowedFd<'_>, i: u32) -> io::Result<()> {
        let (off, len) = self.rings(i);
        // SAFETY: a plain call on our descriptor.
        match unsafe { libc::fallocate(fd.as_raw_fd(), 0, off as libc::off_t, len as libc::off_t) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Client: gives all of its memory back. Both sides are through with every slot.
    pub fn empty(&self, fd: BorrowedFd<'_>) {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: a plain call on our descriptor. Where it fails the memory is in use as long as the mapping.
        unsafe { libc::fallocate(fd.as_raw_fd(), mode, 0, self.geo.len() as libc::off_t) };
    }

    /// The base address, to tell arenas apart.
    pub fn id(&self) -> usize {
        self.base as usize
    }
}
