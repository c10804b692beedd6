//! An arena: the slots of all channels between one client family and one server, in sealed memory.
//!
//! ```text
//!   0        header: magic, oldest version, slots, lines per ring, lines of a spare one, newest version; which spare
//!            ones are taken
//!   4 KiB    groups of the client's watchers (32 lines), then of the server's (32 lines)
//!   8 KiB    index: 4 x slots words, hash of the tuple -> slot + 1
//!   ...      spare rings, longer, for the directions that need one (`spare.rs`)
//!   ...      chunks, of 16 slots each:
//!              slots, 512 bytes each:
//!                +--------+--------------------------+--------------------------+
//!                | offer  | client -> server         | server -> client         |
//!                | 128 B  | word 64 | rx 64 | tx 64  | word 64 | rx 64 | tx 64  |
//!                +--------+--------------------------+--------------------------+
//!              short rings, a page for a slot: client -> server, server -> client
//!              rings: slot 0 c->s, slot 0 s->c, slot 1 c->s, ...
//! ```
//!
//! A direction begins in its short ring, and goes over to its slot's own one when it needs more
//! ([`crate::switch::TxLine::go_over`]), so a channel that is idle, or carries a request and its answer at a time, has one
//! page of rings.
//!
//! Only what comes before the spare rings is mapped at first; chunks and spare rings are mapped when they are needed, once,
//! and stay. Where they are is written in a table of the process's own (`places.rs`).
//!
//! The geometry is read once, when the arena is mapped, checked against its sealed size, and kept in
//! private memory: what the peer writes into the header later is never looked at.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use crate::bell::{Group, Word};
pub use crate::geometry::{populate, Geometry, GROUPS, MAGIC, MAX_SLOTS, PROBES, SHORT};
use crate::geometry::{Header, Part, CHUNK, EDGE, GROUPS_AT, INDEX_AT, OFFER, PAGE, SLOT, TAKEN_AT};
use crate::layouts;
use crate::places::Places;
use crate::slot::{Side, Slot};
use crate::spare::Spares;
use crate::switch::{RxLine, TxLine};
use dp_edge::ring::LINE;
use dp_edge::segment::{sealed_memory, Mapped};
use dp_edge::sync::{AtomicU32, Ordering};

const _: () = assert!(size_of::<Slot>() == OFFER && size_of::<Group>() == LINE);
const _: () = assert!(size_of::<RxLine>() == LINE && size_of::<TxLine>() == LINE);
const _: () = assert!(OFFER + 2 * EDGE == SLOT);

/// One direction of one slot.
#[derive(Clone, Copy)]
pub struct Edge {
    /// The wake word.
    pub word: &'static Word,
    /// The receiver's line.
    pub rx: &'static RxLine,
    /// The sender's line.
    pub tx: &'static TxLine,
    /// The short ring, in which it begins.
    pub short: Mapped,
    /// The slot's own ring.
    pub own: Mapped,
}

/// A mapped arena. Nothing here takes a mapping down, since a hook in another thread may be using it; only
/// [`Arena::unmap`], whose caller knows better.
#[derive(Debug, Clone, Copy)]
pub struct Arena {
    places: Places,
}

impl Arena {
    /// Makes and maps an arena, as far as nobody needs more.
    ///
    /// # Errors
    ///
    /// EINVAL for an impossible geometry; EMFILE, ENFILE, ENOMEM, EFBIG.
    pub fn create(geo: Geometry) -> io::Result<(Arena, OwnedFd)> {
        if !geo.valid() {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let fd = sealed_memory(c"dp-arena", geo.len())?;
        let arena = Arena::mapped(fd.as_fd(), geo)?;
        let h = arena.header();
        let layouts = layouts::arena();
        h.version.store(layouts.oldest, Ordering::Relaxed);
        h.newest.store(layouts.newest, Ordering::Relaxed);
        h.slots.store(geo.slots, Ordering::Relaxed);
        h.lines.store(geo.lines, Ordering::Relaxed);
        h.spare.store(geo.spare, Ordering::Relaxed);
        h.magic.store(MAGIC, Ordering::Release);
        Ok((arena, fd))
    }

    /// Maps the beginning of `fd`, whose size was checked against `geo`.
    pub(super) fn mapped(fd: BorrowedFd<'_>, geo: Geometry) -> io::Result<Arena> {
        Ok(Arena { places: Places::new(fd, geo)? })
    }

    /// In one word, not 0.
    pub fn pack(self) -> u64 {
        self.places.address() as u64
    }

    /// From such a word; of 0, none.
    ///
    /// # Safety
    ///
    /// `word` is 0 or comes from [`Arena::pack`], of an arena that is still mapped.
    #[inline(always)]
    pub unsafe fn unpack(word: u64) -> Option<Arena> {
        // SAFETY: the caller's contract.
        (word != 0).then(|| Arena { places: unsafe { Places::at(word as usize) } })
    }

    fn base(&self) -> *mut u8 {
        self.places.first()
    }

    fn at<T>(&self, off: usize) -> &'static T {
        // SAFETY: offsets come from the checked geometry (or the first page), before the spare rings; the mapping is
        // never taken down; T is made of atomics, any bits are a value of it.
        unsafe { &*self.base().add(off).cast::<T>() }
    }

    fn header(&self) -> &'static Header {
        self.at(0)
    }

    /// Its sizes.
    pub fn geometry(&self) -> Geometry {
        self.places.geometry()
    }

    /// Bytes of addresses that it has here.
    pub fn addresses(&self) -> usize {
        self.places.bytes()
    }

    /// Bytes that [`Arena::bring`] would add to these.
    pub fn more_for(&self, i: u32) -> usize {
        let part = Part::Chunk((self.masked(i) / CHUNK) as usize);
        if self.places.get(part).is_some() {
            0
        } else {
            self.geometry().part(part).1
        }
    }

    /// Whether `address` lies in one of its slots, in this mapping.
    pub fn holds(&self, address: usize) -> bool {
        self.places.holds(address)
    }

    fn masked(&self, i: u32) -> u32 {
        i & (self.geometry().slots - 1)
    }

    /// The groups of the watchers on `side`.
    pub fn groups(&self, side: Side) -> &'static [Group] {
        let first: &'static Group = self.at(GROUPS_AT + (side as usize - 1) * GROUPS * LINE);
        // SAFETY: 32 groups lie there in a row.
        unsafe { core::slice::from_raw_parts(first, GROUPS) }
    }

    fn index(&self, at: usize) -> &'static AtomicU32 {
        self.at(INDEX_AT + (at & (self.geometry().index_len() - 1)) * 4)
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
            (s < self.geometry().slots).then_some(s)
        })
    }

    /// Length of the index, for [`crate::slot::Tuple::hash`].
    pub fn index_len(&self) -> usize {
        self.geometry().index_len()
    }

    /// Makes sure that slot `i` is mapped. False: there are no addresses for it.
    pub fn bring(&self, i: u32) -> bool {
        self.places.bring(Part::Chunk((self.masked(i) / CHUNK) as usize)).is_some()
    }

    /// The beginning of slot `i`'s chunk, and its number there.
    fn chunk(&self, i: u32) -> Option<(*mut u8, usize)> {
        let i = self.masked(i);
        let chunk = self.places.get(Part::Chunk((i / CHUNK) as usize))?;
        Some((chunk, (i % CHUNK) as usize))
    }

    /// The offer of slot `i`, which is masked, if it is mapped.
    pub fn slot(&self, i: u32) -> Option<&'static Slot> {
        let (chunk, i) = self.chunk(i)?;
        // SAFETY: inside the chunk, which is never unmapped; made of atomics, any bits are a value of it.
        Some(unsafe { &*chunk.add(i * SLOT).cast::<Slot>() })
    }

    /// The edge of slot `i` on which `sender` sends, if it is mapped.
    pub fn edge(&self, i: u32, sender: Side) -> Option<Edge> {
        let (chunk, i) = self.chunk(i)?;
        let dir = sender as usize - 1;
        let at = i * SLOT + OFFER + dir * EDGE;
        let short = CHUNK as usize * SLOT + i * PAGE + dir * (PAGE / 2);
        let own = CHUNK as usize * (SLOT + PAGE) + (2 * i + dir) * self.geometry().ring_bytes();
        // SAFETY: inside the chunk, which is never unmapped, by the checked geometry; lines are made of atomics, any bits
        // are a value of them; powers of two of lines.
        unsafe {
            Some(Edge {
                word: &*chunk.add(at).cast::<Word>(),
                rx: &*chunk.add(at + LINE).cast::<RxLine>(),
                tx: &*chunk.add(at + 2 * LINE).cast::<TxLine>(),
                short: Mapped::new(chunk.add(short), SHORT),
                own: Mapped::new(chunk.add(own), u64::from(self.geometry().lines)),
            })
        }
    }

    /// Its spare rings, if it has some.
    pub fn spares(&self) -> Option<Spares> {
        let taken: &'static AtomicU32 = self.at(TAKEN_AT);
        (self.geometry().spare > 0).then(|| Spares::new(taken, self.places))
    }

    /// Unmaps an arena that nobody uses any more.
    ///
    /// # Safety
    ///
    /// No reference into it is left, in this process, and nobody asks it for anything.
    pub unsafe fn unmap(self) {
        // SAFETY: by the caller's contract.
        unsafe { self.places.unmap() };
    }

    /// Client: makes sure that the lines and short rings of slot `i` and its neighbours have memory, so that no access can
    /// fault for lack of it; where the kernel cannot do that for a mapping (before Linux 5.14), those of slot `i` and its
    /// own rings as well: a sender cannot do it later then ([`populate`]).
    ///
    /// # Errors
    ///
    /// EINVAL: it is not mapped. ENOSPC, ENOMEM, EFAULT.
    pub fn populate(&self, fd: BorrowedFd<'_>, i: u32) -> Result<(), i32> {
        let (chunk, n) = self.chunk(i).ok_or(libc::EINVAL)?;
        let (lines, number) = (CHUNK as usize * SLOT, (self.masked(i) / CHUNK) as usize);
        if self.places.is_populated(number) {
            return Ok(());
        }
        // SAFETY: the beginning of a chunk.
        match unsafe { populate(chunk, lines + CHUNK as usize * PAGE) } {
            Err(libc::EINVAL) => {}
            done => return done.inspect(|()| self.places.is_populated_now(number)),
        }
        let at = self.geometry().slot_at(self.masked(i)) - n * SLOT;
        let both = 2 * self.geometry().ring_bytes();
        for (off, len) in
            [(0, lines), (lines + n * PAGE, PAGE), (lines + CHUNK as usize * PAGE + n * both, both)]
        {
            let (off, len) = ((at + off) as libc::off_t, len as libc::off_t);
            // SAFETY: a plain call on our descriptor.
            if unsafe { libc::fallocate(fd.as_raw_fd(), 0, off, len) } != 0 {
                return Err(io::Error::last_os_error().raw_os_error().unwrap_or(libc::ENOMEM));
            }
        }
        Ok(())
    }

    /// Client: gives back the memory of slot `i`'s own rings. Both sides are through with it.
    pub fn shrink(&self, fd: BorrowedFd<'_>, i: u32) {
        let i = self.masked(i);
        let both = 2 * self.geometry().ring_bytes();
        let chunk = self.geometry().part(Part::Chunk((i / CHUNK) as usize)).0;
        let at = chunk + CHUNK as usize * (SLOT + PAGE) + (i % CHUNK) as usize * both;
        punch(fd, at, both);
    }

    /// Client: gives all of its memory back. Both sides are through with every slot.
    pub fn empty(&self, fd: BorrowedFd<'_>) {
        punch(fd, 0, self.geometry().len());
    }

    /// The base address, to tell arenas apart.
    pub fn id(&self) -> usize {
        self.base() as usize
    }

    /// The addresses of what was mapped at first; the groups are among it.
    pub fn first(&self) -> core::ops::Range<usize> {
        self.id()..self.id() + self.geometry().first_len()
    }
}

fn punch(fd: BorrowedFd<'_>, at: usize, len: usize) {
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: a plain call on our descriptor. Where it fails the memory is in use as long as the mapping.
    unsafe { libc::fallocate(fd.as_raw_fd(), mode, at as libc::off_t, len as libc::off_t) };
}
