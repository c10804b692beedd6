//! Where the parts of an arena are mapped in this process: a table of its own, which a forked child has a copy of.
//!
//! A part is mapped when somebody needs it, and stays where it is: what is in use is reached without a lock. Nobody needs
//! the arena's descriptor for it: the kernel maps more of the memory that a mapped page belongs to, from that page on.
//!
//! Whether a process that shares a connection has the same part at the same place is not known here: a connection goes into
//! a part only while one process has it, and a child inherits both.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::io;
use std::os::fd::BorrowedFd;

use crate::geometry::{Geometry, Part, PAGE, SPARES};
use dp_edge::segment::map_undumped;
use dp_edge::sys::together;

/// A bit in the address of a chunk.
const POPULATED: usize = 1;

#[derive(Debug)]
#[repr(C)]
struct Table {
    geo: Geometry,
    /// The first part.
    first: *mut u8,
    /// Bytes mapped.
    bytes: AtomicUsize,
    /// One more than the last chunk that is mapped.
    high: AtomicUsize,
    /// Addresses of the spare rings; 0: not mapped. Those of the chunks follow.
    spares: [AtomicUsize; SPARES as usize],
}

/// See the module.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places {
    table: *const Table,
}

// SAFETY: the table is made of atomics, but for what never changes.
unsafe impl Send for Places {}
// SAFETY: as above.
unsafe impl Sync for Places {}

fn table_len(geo: Geometry) -> usize {
    (size_of::<Table>() + geo.chunks() * size_of::<AtomicUsize>()).next_multiple_of(PAGE)
}

impl Places {
    /// Maps the first part of `fd`, an arena of this geometry.
    pub(super) fn new(fd: BorrowedFd<'_>, geo: Geometry) -> io::Result<Places> {
        let len = geo.first_len();
        let first = map_undumped(fd, len)?;
        let Some(table) = together::take(table_len(geo)) else {
            // SAFETY: mapped just now.
            unsafe { libc::munmap(first.cast(), len) };
            return Err(io::ErrorKind::OutOfMemory.into());
        };
        let table = table.cast::<Table>();
        let bytes = AtomicUsize::new(len + table_len(geo));
        // SAFETY: ours since just now, long enough; zeros are a value of the addresses that follow.
        unsafe {
            table.write(Table {
                geo,
                first,
                bytes,
                high: AtomicUsize::new(0),
                spares: [const { AtomicUsize::new(0) }; SPARES as usize],
            });
        }
        Ok(Places { table })
    }

    /// The table's address.
    pub(super) fn address(self) -> usize {
        self.table as usize
    }

    /// From such an address.
    ///
    /// # Safety
    ///
    /// It is that of a table which was not unmapped.
    #[inline(always)]
    pub(super) unsafe fn at(address: usize) -> Places {
        Places { table: address as *const Table }
    }

    fn table(&self) -> &Table {
        // SAFETY: written by new(); there as long as the arena is mapped.
        unsafe { &*self.table }
    }

    pub(super) fn geometry(&self) -> Geometry {
        self.table().geo
    }

    pub(super) fn first(&self) -> *mut u8 {
        self.table().first
    }

    pub(super) fn bytes(&self) -> usize {
        self.table().bytes.load(Ordering::Relaxed)
    }

    fn chunk(&self, i: usize) -> &AtomicUsize {
        debug_assert!(i < self.geometry().chunks());
        // SAFETY: table_len() makes room for as many chunks as the geometry has, behind the table.
        unsafe { &*self.table.add(1).cast::<AtomicUsize>().add(i) }
    }

    /// Where a part is, if it is mapped.
    #[inline]
    pub(super) fn get(&self, part: Part) -> Option<*mut u8> {
        let at = match part {
            Part::First => return Some(self.first()),
            Part::Spare(i) => self.table().spares[i].load(Ordering::Acquire),
            Part::Chunk(i) => self.chunk(i).load(Ordering::Acquire),
        };
        let at = at & !POPULATED;
        (at != 0).then_some(at as *mut u8)
    }

    /// Whether somebody has said that chunk `i`, which is mapped, has memory.
    pub(super) fn is_populated(&self, i: usize) -> bool {
        self.chunk(i).load(Ordering::Relaxed) & POPULATED != 0
    }

    /// Chunk `i`, which is mapped, has memory for its lines and short rings.
    pub(super) fn is_populated_now(&self, i: usize) {
        self.chunk(i).fetch_or(POPULATED, Ordering::Relaxed);
    }

    /// The same; it is mapped now if it was not.
    pub(super) fn bring(&self, part: Part) -> Option<*mut u8> {
        self.get(part).or_else(|| self.map(part))
    }

    #[cold]
    fn map(&self, part: Part) -> Option<*mut u8> {
        let (off, len) = self.geometry().part(part);
        let (page, from) = self.before(part);
        let ahead = off - from;
        // SAFETY: the page is mapped, shared; an old length of 0 leaves it where it is. Nothing else is replaced.
        let p = unsafe { libc::mremap(page.cast(), 0, ahead + len, libc::MREMAP_MAYMOVE) };
        if p == libc::MAP_FAILED {
            return None;
        }
        // SAFETY: the front of what was mapped just now, which nobody else knows of.
        unsafe { libc::munmap(p, ahead) };
        let at = p as usize + ahead;
        let cell = match part {
            Part::First => return None,
            Part::Spare(i) => &self.table().spares[i],
            Part::Chunk(i) => self.chunk(i),
        };
        if let Err(theirs) = cell.compare_exchange(0, at, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: ours alone. Another thread was quicker.
            unsafe { libc::munmap(at as *mut libc::c_void, len) };
            return Some((theirs & !POPULATED) as *mut u8);
        }
        self.table().bytes.fetch_add(len, Ordering::Relaxed);
        if let Part::Chunk(i) = part {
            self.table().high.fetch_max(i + 1, Ordering::Release);
        }
        Some(at as *mut u8)
    }

    /// The last page that is mapped before a part, and where it lies in the file.
    fn before(&self, part: Part) -> (*mut u8, usize) {
        let chunks = match part {
            Part::Chunk(i) => 0..i.min(self.table().high.load(Ordering::Acquire)),
            _ => 0..0,
        };
        let nearest = chunks.rev().map(Part::Chunk).find_map(|part| Some((part, self.get(part)?)));
        let (part, at) = nearest.unwrap_or((Part::First, self.first()));
        let (off, len) = self.geometry().part(part);
        // SAFETY: its last page.
        (unsafe { at.add(len - PAGE) }, off + len - PAGE)
    }

    /// Whether `address` lies in a chunk.
    pub(super) fn holds(&self, address: usize) -> bool {
        let len = self.geometry().part(Part::Chunk(0)).1;
        let chunks = 0..self.table().high.load(Ordering::Acquire);
        chunks.filter_map(|i| self.get(Part::Chunk(i))).any(|at| address.wrapping_sub(at as usize) < len)
    }

    /// Unmaps all, and the table.
    ///
    /// # Safety
    ///
    /// Nobody uses any of it any more.
    pub(super) unsafe fn unmap(self) {
        let geo = self.geometry();
        let chunks = 0..self.table().high.load(Ordering::Acquire);
        let parts = (0..SPARES as usize).map(Part::Spare).chain(chunks.map(Part::Chunk)).chain([Part::First]);
        for part in parts {
            if let Some(at) = self.get(part) {
                // SAFETY: by the contract.
                unsafe { libc::munmap(at.cast(), geo.part(part).1) };
            }
        }
        // SAFETY: by the contract.
        unsafe { together::give_back(self.table as *mut u8, table_len(geo)) };
    }
}
