//! An arena as somebody reads it who is neither of its two sides (`dp capture`): mapped for reading only, believing nothing.
//!
//! Chunks and spare rings are mapped when they are first looked at, and unmapped with the last who follows a channel there.
//! The memory is sealed, so no look faults because somebody truncated it. Nothing here is ever written: neither side can
//! tell that somebody looks.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::rc::Rc;

use memmap2::MmapRaw;

use crate::bell::Word;
use crate::geometry::{Geometry, Part, CHUNK, EDGE, OFFER, PAGE, SHORT, SPARES};
use crate::slot::{Side, Slot};
use crate::switch::{self, RxLine, TxLine};
use crate::unmapped::{self, Key, Unmapped};
use dp_edge::ring::{Lines, Pos, LINE};
use dp_edge::segment::copy;
use dp_edge::sync::AtomicU64;

/// The memory of an arena.
#[derive(Debug)]
pub struct Memory {
    file: File,
    geo: Geometry,
    key: Key,
    parts: RefCell<HashMap<usize, Rc<MmapRaw>>>,
}

impl Memory {
    /// Checks seals, version and size.
    ///
    /// # Errors
    ///
    /// As [`Unmapped::look`].
    pub fn open(file: File) -> Result<Memory, i32> {
        let geo = Unmapped::look(file.as_fd(), usize::MAX)?.0.geometry();
        let key = unmapped::key(file.as_fd())?;
        Ok(Memory { file, geo, key, parts: RefCell::default() })
    }

    /// Tells it from all other memory.
    pub fn key(&self) -> Key {
        self.key
    }

    /// A copy of slot `i`, if there is one.
    pub fn slot(&self, i: u32) -> Option<Slot> {
        (i < self.geo.slots).then(|| Unmapped::again(self.file.as_fd(), self.geo).slot(i).ok())?
    }

    fn part(&self, part: Part) -> io::Result<Rc<MmapRaw>> {
        let (offset, len) = self.geo.part(part);
        let mut parts = self.parts.borrow_mut();
        // What nobody follows any more.
        parts.retain(|&at, map| at == offset || Rc::strong_count(map) > 1);
        if let Some(map) = parts.get(&offset) {
            return Ok(map.clone());
        }
        let map = memmap2::MmapOptions::new().offset(offset as u64).len(len).map_raw_read_only(&self.file)?;
        let map = Rc::new(map);
        parts.insert(offset, map.clone());
        Ok(map)
    }

    /// The channel in slot `i`.
    ///
    /// # Errors
    ///
    /// EINVAL: there is no such slot. ENOMEM.
    pub fn channel(self: &Rc<Memory>, i: u32) -> io::Result<Observed> {
        if i >= self.geo.slots {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let chunk = self.part(Part::Chunk((i / CHUNK) as usize))?;
        Ok(Observed { memory: self.clone(), chunk, i: (i % CHUNK) as usize })
    }
}

/// A channel's slot and its rings.
#[derive(Debug)]
pub struct Observed {
    memory: Rc<Memory>,
    chunk: Rc<MmapRaw>,
    /// Number in the chunk.
    i: usize,
}

/// One direction of it.
#[derive(Debug, Clone, Copy)]
pub struct Direction<'a> {
    of: &'a Observed,
    sender: Side,
    /// The wake word.
    pub word: &'a Word,
    /// The receiver's line.
    pub rx: &'a RxLine,
    /// The sender's line.
    pub tx: &'a TxLine,
}

impl Observed {
    fn at<T>(&self, offset: usize) -> &T {
        // SAFETY: all callers ask for slots and lines of slot `i`, which lie in the chunk by the checked geometry, aligned to
        // lines; they are made of atomics, any bits are a value of them, and they are loaded only. The chunk is mapped as
        // long as this is.
        unsafe { &*self.chunk.as_ptr().add(offset).cast::<T>() }
    }

    /// The offer and its state.
    pub fn slot(&self) -> &Slot {
        self.at(self.i * crate::geometry::SLOT)
    }

    /// Which memory it is in.
    pub fn memory(&self) -> Key {
        self.memory.key
    }

    /// The direction in which `sender` sends.
    pub fn direction(&self, sender: Side) -> Direction<'_> {
        let at = self.i * crate::geometry::SLOT + OFFER + (sender as usize - 1) * EDGE;
        Direction { of: self, sender, word: self.at(at), rx: self.at(at + LINE), tx: self.at(at + 2 * LINE) }
    }
}

impl Direction<'_> {
    /// The ring `n`, as [`TxLine::ring`] numbers them.
    ///
    /// # Errors
    ///
    /// EINVAL: there is no such ring. ENOMEM.
    pub fn ring(&self, n: u32) -> io::Result<Ring> {
        let geo = self.of.memory.geo;
        let dir = self.sender as usize - 1;
        let slots = CHUNK as usize * crate::geometry::SLOT;
        let (map, offset, count) = match n {
            switch::SHORT => (self.of.chunk.clone(), slots + self.of.i * PAGE + dir * (PAGE / 2), SHORT),
            switch::OWN => {
                let at = slots + CHUNK as usize * PAGE + (2 * self.of.i + dir) * geo.ring_bytes();
                (self.of.chunk.clone(), at, u64::from(geo.lines))
            }
            n if n <= SPARES && geo.spare > 0 => {
                (self.of.memory.part(Part::Spare(n as usize - 1))?, 0, u64::from(geo.spare))
            }
            _ => return Err(io::Error::from_raw_os_error(libc::EINVAL)),
        };
        Ok(Ring { base: map.as_mut_ptr().wrapping_add(offset), count, _map: map })
    }
}

/// A ring that is only read.
#[derive(Debug)]
pub struct Ring {
    base: *const u8,
    count: u64,
    _map: Rc<MmapRaw>,
}

impl Ring {
    fn offset(&self, pos: Pos, at: usize) -> usize {
        ((pos.raw() & (self.count - 1)) as usize * LINE + at) & (self.count as usize * LINE - 1)
    }

    /// Appends `len` bytes to `to`, from `at` bytes behind the start of line `pos` on. The sender may be writing there: whether
    /// it did, is to be found out afterwards.
    pub fn append(&self, pos: Pos, at: usize, len: usize, to: &mut Vec<u8>) {
        let len = len.min(self.count as usize * LINE);
        to.reserve(len);
        // SAFETY: there is room for `len` bytes behind what is there, which get() fills; `len` is at most the ring's size.
        unsafe {
            self.get(pos, at, to.as_mut_ptr().add(to.len()), len);
            to.set_len(to.len() + len);
        }
    }
}

// SAFETY: offset() masks every position into the ring, and copies are split at its end.
unsafe impl Lines for Ring {
    fn count(&self) -> u64 {
        self.count
    }

    fn header(&self, pos: Pos) -> &AtomicU64 {
        // SAFETY: a line start inside the ring, aligned to 64 bytes; any bits are a value of it. Whoever has this type only
        // loads: the memory cannot be written.
        unsafe { &*self.base.add(self.offset(pos, 0)).cast::<AtomicU64>() }
    }

    unsafe fn put(&self, _pos: Pos, _at: usize, _src: *const u8, _len: usize) {
        debug_assert!(false, "this memory is only read");
    }

    unsafe fn get(&self, pos: Pos, at: usize, dst: *mut u8, len: usize) {
        let off = self.offset(pos, at);
        let first = len.min(self.count as usize * LINE - off);
        // SAFETY: off + first is inside the ring, the rest starts at its beginning and len <= ring.
        unsafe {
            copy(self.base.add(off), dst, first);
            if first < len {
                copy(self.base, dst.add(first), len - first);
            }
        }
    }
}
