//! Sealed memory without a name, and rings in it (PROTOCOLS E12).
//!
//! Memory that another process maps too is a memfd whose size is sealed: it has no path, nothing is left
//! of it after kill -9, and nobody can make a reader fault by truncating it.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::ring::{Lines, Pos, LINE};
use crate::sync::AtomicU64;
use crate::sys::raw;
use crate::sys::sparse::{leave_out_of_dumps, unlock};

/// Lines in mapped memory.
#[derive(Debug, Clone, Copy)]
pub struct Mapped {
    base: *mut u8,
    count: u64,
}

impl Mapped {
    /// A ring of `count` lines at `base`.
    ///
    /// # Safety
    ///
    /// `count` is a power of two, at least 4; `base` is line-aligned and readable and writable for
    /// `count` lines as long as the value is used.
    #[inline(always)]
    pub const unsafe fn new(base: *mut u8, count: u64) -> Mapped {
        Mapped { base, count }
    }

    /// A ring without lines: nothing is ever in it.
    #[inline(always)]
    pub const fn none() -> Mapped {
        Mapped { base: core::ptr::null_mut(), count: 0 }
    }

    #[inline(always)]
    fn offset(&self, pos: Pos, at: usize) -> usize {
        ((pos.raw() & (self.count - 1)) as usize * LINE + at) & (self.count as usize * LINE - 1)
    }

    /// The token's payload where it lies; contiguous only in a ring mapped twice.
    #[inline(always)]
    pub fn payload(&self, pos: Pos) -> *const u8 {
        // SAFETY: offset() masks to the ring.
        unsafe { self.base.add(self.offset(pos, super::ring::HEADER)) }
    }
}

/// Copies between a ring and a program's buffer.
///
/// # Safety
///
/// As copy_nonoverlapping.
#[inline(always)]
pub unsafe fn copy(src: *const u8, dst: *mut u8, len: usize) {
    // Eight bytes is the message of latency-bound programs; a call to memcpy would be a third of its cost.
    if len == 8 {
        // SAFETY: the caller's contract covers 8 bytes.
        unsafe { dst.cast::<u64>().write_unaligned(src.cast::<u64>().read_unaligned()) };
    } else {
        // SAFETY: the caller's contract; ring memory and the program's buffer do not overlap.
        unsafe { core::ptr::copy_nonoverlapping(src, dst, len) };
    }
}

// SAFETY: offset() masks every position into the ring, and copies are split at its end.
unsafe impl Lines for Mapped {
    #[inline(always)]
    fn count(&self) -> u64 {
        self.count
    }

    #[inline(always)]
    fn header(&self, pos: Pos) -> &AtomicU64 {
        // SAFETY: a line start inside the ring, aligned to 64 bytes; any bit pattern is an AtomicU64.
        unsafe { &*self.base.add(self.offset(pos, 0)).cast::<AtomicU64>() }
    }

    #[inline(always)]
    unsafe fn put(&self, pos: Pos, at: usize, src: *const u8, len: usize) {
        let off = self.offset(pos, at);
        let first = len.min(self.count as usize * LINE - off);
        // SAFETY: off + first is inside the ring, the rest starts at its beginning and len <= ring.
        unsafe {
            copy(src, self.base.add(off), first);
            if first < len {
                copy(src.add(first), self.base, len - first);
            }
        }
    }

    #[inline(always)]
    unsafe fn get(&self, pos: Pos, at: usize, dst: *mut u8, len: usize) {
        let off = self.offset(pos, at);
        let first = len.min(self.count as usize * LINE - off);
        // SAFETY: as in put().
        unsafe {
            copy(self.base.add(off), dst, first);
            if first < len {
                copy(self.base, dst.add(first), len - first);
            }
        }
    }
}

/// Makes memory of exactly `len` bytes (rounded up to pages by the kernel, sparse until used), not sealed yet.
///
/// # Errors
///
/// Those of memfd_create(2) and ftruncate(2): EMFILE, ENFILE, ENOMEM; EFBIG beyond RLIMIT_FSIZE.
pub fn memory(name: &std::ffi::CStr, len: usize) -> io::Result<OwnedFd> {
    if !raw::may_write_up_to(len as u64) {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    // SAFETY: a C string and flags; the result is a new descriptor or -1.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just made, owned by nobody else.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: a plain call on our own descriptor.
    if unsafe { libc::ftruncate(fd.as_raw_fd(), len as libc::off_t) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(fd)
}

/// Makes memory whose size can never change.
///
/// # Errors
///
/// As [`memory`].
pub fn sealed_memory(name: &std::ffi::CStr, len: usize) -> io::Result<OwnedFd> {
    let fd = memory(name, len)?;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: a plain call on our own descriptor.
    if unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(fd)
}

/// The size of memory that came from somebody else, if its size can never change again.
///
/// # Errors
///
/// EBADMSG when the seals are missing or it is no ordinary memfd at all; else what fstat(2) says.
pub fn sealed_len(fd: BorrowedFd<'_>) -> io::Result<usize> {
    // SAFETY: F_GET_SEALS takes no argument and fails with EINVAL on anything without seals.
    let seals = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) };
    let need = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;
    if seals < 0 || seals & need != need {
        return Err(io::Error::from_raw_os_error(libc::EBADMSG));
    }
    // Huge pages can be sealed too, but run out at the first touch of one: a fault, not an error.
    // SAFETY: statfs is plain data, all zero is a value of it.
    let mut fs: libc::statfs = unsafe { core::mem::zeroed() };
    // SAFETY: fstatfs fills the struct it is given.
    if unsafe { libc::fstatfs(fd.as_raw_fd(), &mut fs) } != 0 {
        return Err(io::Error::last_os_error());
    }
    if fs.f_type != libc::TMPFS_MAGIC {
        return Err(io::Error::from_raw_os_error(libc::EBADMSG));
    }
    usize::try_from(stat(fd)?.st_size).map_err(|_| io::Error::from_raw_os_error(libc::EBADMSG))
}

fn stat(fd: BorrowedFd<'_>) -> io::Result<libc::stat> {
    // SAFETY: stat is plain data, all zero is a value of it.
    let mut st: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY: fstat fills the struct it is given.
    if unsafe { libc::fstat(fd.as_raw_fd(), &mut st) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(st)
}

const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// Maps `len` bytes of `fd` at `offset`, shared, at `at` if given.
fn map(
    fd: BorrowedFd<'_>,
    len: usize,
    offset: usize,
    at: Option<*mut u8>,
    protection: i32,
) -> io::Result<*mut u8> {
    let (hint, fixed) = at.map_or((core::ptr::null_mut(), 0), |p| (p.cast(), libc::MAP_FIXED));
    // SAFETY: without `at` the kernel chooses; with it the caller owns the range it replaces.
    let p = unsafe {
        let first = if len > LOCKED_AT_ONCE { libc::PROT_NONE } else { protection };
        libc::mmap(hint, len, first, libc::MAP_SHARED | fixed, fd.as_raw_fd(), offset as libc::off_t)
    };
    if p == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    if len > LOCKED_AT_ONCE {
        // SAFETY: the range just mapped.
        unsafe { unlock(p, len, protection) }.inspect_err(|_| {
            if fixed == 0 {
                // SAFETY: as above. A part of the caller's range stays his.
                unsafe { libc::munmap(p, len) };
            }
        })?;
    }
    Ok(p.cast())
}

/// Mappings of more are sparse: a program that called mlockall(MCL_FUTURE) must not get all their pages at once.
const LOCKED_AT_ONCE: usize = 64 << 10;

/// Maps `len` bytes of `fd` at `offset`, shared, in place of what is at `at`.
///
/// # Errors
///
/// Those of mmap(2): ENOMEM.
///
/// # Safety
///
/// The range is the caller's, who uses nothing of what is there.
pub unsafe fn map_over(
    fd: BorrowedFd<'_>,
    len: usize,
    offset: usize,
    at: *mut u8,
    protection: i32,
) -> io::Result<()> {
    map(fd, len, offset, Some(at), protection).map(drop)
}

/// Maps all of `fd` once. The mapping stays for the life of the process unless unmapped by its owner.
///
/// # Errors
///
/// Those of mmap(2): ENOMEM.
pub fn map_flat(fd: BorrowedFd<'_>, len: usize) -> io::Result<*mut u8> {
    map(fd, len, 0, None, READ_WRITE)
}

/// The same as [`map_flat`], of memory that no core dump needs.
///
/// # Errors
///
/// As [`map_flat`].
pub fn map_undumped(fd: BorrowedFd<'_>, len: usize) -> io::Result<*mut u8> {
    let base = map_flat(fd, len)?;
    // SAFETY: mapped just now.
    unsafe { leave_out_of_dumps(base, len) };
    Ok(base)
}

/// The same as [`map_flat`], for reading only.
///
/// # Errors
///
/// As [`map_flat`].
pub fn map_to_read(fd: BorrowedFd<'_>, len: usize) -> io::Result<*mut u8> {
    map(fd, len, 0, None, libc::PROT_READ)
}
