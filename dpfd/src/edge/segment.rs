//! One edge for whole messages: sealed memory (PROTOCOLS E12), its ring mapped twice in a row.
//!
//! ```text
//!   file     | control, 4 KiB |  ring, 2^n bytes |
//!   mapping  | control, 4 KiB |  ring            |  ring again     |
//!                                ^ a token that runs past the end goes on here, in one piece
//!   control  | rx line | tx line | free | free | space | key | event count |
//! ```
//!
//! The receiver of messages maps the ring read-only ([`Segment::create_for_receiver`]): what it lends to the
//! program in place, the program cannot spoil for the protocol.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use dp_edge::ring::{Pos, LINE};
use dp_edge::segment::{copy, map_over, sealed_len, sealed_memory, Mapped};
use dp_edge::sync::{AtomicU64, Ordering};
use dp_edge::sys::process;

use super::event_count::EventCount;
use super::lines::{RxLine, TxLine};
use super::space::Space;

/// Bytes before the ring.
pub const CONTROL: usize = 4096;
/// Smallest ring, bytes.
pub const MIN_RING: usize = 4096;
/// Largest ring, bytes.
pub const MAX_RING: usize = 1 << 30;

const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// One mapped edge for messages. Its descriptor is needed only to hand it to the other side: a mapping lives
/// without, and a process with many edges would run out of them.
#[derive(Debug)]
pub struct Segment {
    base: *mut u8,
    ring: usize,
}

// SAFETY: the mapping belongs to the value, and everything in it is reached through atomics or copies.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

impl Segment {
    /// A new edge with a ring of `ring` bytes: a power of two, [`MIN_RING`]..=[`MAX_RING`], else EINVAL. The
    /// descriptor is for the other side.
    ///
    /// # Errors
    ///
    /// EINVAL; else those of memfd_create(2), ftruncate(2) and mmap(2).
    pub fn create(ring: usize) -> io::Result<(Segment, OwnedFd)> {
        Segment::create_as(ring, READ_WRITE)
    }

    /// A new edge whose ring this process can only read; the control page it writes, too.
    ///
    /// # Errors
    ///
    /// As [`Segment::create`].
    pub fn create_for_receiver(ring: usize) -> io::Result<(Segment, OwnedFd)> {
        Segment::create_as(ring, libc::PROT_READ)
    }

    fn create_as(ring: usize, protection: i32) -> io::Result<(Segment, OwnedFd)> {
        if !ring.is_power_of_two() || !(MIN_RING..=MAX_RING).contains(&ring) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let fd = sealed_memory(c"dp-edge", CONTROL + ring)?;
        let segment = Segment::map_twice(&fd, ring, protection)?;
        let random = process::random().map_err(io::Error::from_raw_os_error)?;
        segment.control::<AtomicU64>(5).store(random, Ordering::Relaxed);
        segment.event_count().begin(random as u32);
        Ok((segment, fd))
    }

    /// An edge that somebody else made; its seals and size are checked first.
    ///
    /// # Errors
    ///
    /// EBADMSG when the memory is not a sealed edge; else those of mmap(2).
    pub fn open(fd: OwnedFd) -> io::Result<Segment> {
        let ring = sealed_len(fd.as_fd())?.saturating_sub(CONTROL);
        if !ring.is_power_of_two() || !(MIN_RING..=MAX_RING).contains(&ring) {
            return Err(io::Error::from_raw_os_error(libc::EBADMSG));
        }
        Segment::map_twice(&fd, ring, READ_WRITE)
    }

    fn map_twice(fd: &OwnedFd, ring: usize, protection: i32) -> io::Result<Segment> {
        let whole = CONTROL + 2 * ring;
        // SAFETY: an anonymous reservation, nothing is replaced.
        let p = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                whole,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if p == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // Unmapped from here on, whatever fails.
        let seg = Segment { base: p.cast(), ring };
        // SAFETY: the reservation's first bytes, which nobody uses yet.
        unsafe { map_over(fd.as_fd(), CONTROL, 0, seg.base, READ_WRITE)? };
        for copy in 0..2 {
            // SAFETY: inside the reservation of CONTROL + 2 * ring bytes, which nobody uses yet.
            unsafe { map_over(fd.as_fd(), ring, CONTROL, seg.base.add(CONTROL + copy * ring), protection)? };
        }
        Ok(seg)
    }

    /// The ring.
    pub fn lines(&self) -> Mapped {
        // SAFETY: the ring is mapped as long as self; its size was checked.
        unsafe { Mapped::new(self.base.add(CONTROL), (self.ring / LINE) as u64) }
    }

    /// Copies a payload of `len` bytes at `pos`, as far as `into` has room.
    #[inline(always)]
    pub fn copy(&self, pos: Pos, len: usize, into: &mut [u8]) {
        let n = len.min(into.len()).min(self.ring);
        // SAFETY: it begins in the first of the two mappings, from any place in which the second goes on for a ring's length,
        // and `n` is no more. `into` is the caller's alone.
        unsafe { copy(self.lines().payload(pos), into.as_mut_ptr(), n) };
    }

    fn control<T>(&self, line: usize) -> &T {
        debug_assert!(line * LINE + size_of::<T>() <= CONTROL);
        // SAFETY: inside the control page, line-aligned; T is made of atomics, any bits are a value.
        unsafe { &*self.base.add(line * LINE).cast::<T>() }
    }
    /// The receiver's line.
    pub fn rx(&self) -> &RxLine {
        self.control(0)
    }
    /// The sender's line.
    pub fn tx(&self) -> &TxLine {
        self.control(1)
    }
    /// Whether the sender waits for room. (Two lines before it are free.)
    pub fn space(&self) -> &Space {
        self.control(4)
    }
    /// What its two sides know and nobody else: the receiver puts it there, and believes its own copy only.
    pub fn key(&self) -> u64 {
        self.control::<AtomicU64>(5).load(Ordering::Relaxed)
    }
    /// By what the sender wakes a receiver that sleeps on this edge alone.
    pub fn event_count(&self) -> &EventCount {
        self.control(6)
    }
    /// Bytes of the ring.
    pub fn ring_len(&self) -> usize {
        self.ring
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: the whole reservation is ours; references into it borrow self.
        unsafe { libc::munmap(self.base.cast(), CONTROL + 2 * self.ring) };
    }
}
