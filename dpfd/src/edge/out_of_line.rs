//! A message that no edge can hold, in sealed memory of its own (PROTOCOLS R5).
//!
//! The memory is written once and sealed against writing as well, so the receiver reads it in place without
//! having to trust anybody; its descriptor travels with a packet, and a token in the edge keeps its place in
//! the order.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use super::parts::Parts;
use dp_edge::segment::sealed_len;

/// Longest message, bytes.
pub const MAX_MESSAGE: usize = 16 << 20;

const SEALS: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE | libc::F_SEAL_SEAL;

#[cfg(test)]
thread_local! {
    /// How often this thread has made such memory.
    pub(crate) static MADE: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// Memory with a copy of the message, sealed for good.
///
/// # Errors
///
/// Those of memfd_create(2), write(2) and fcntl(2): EMFILE, ENFILE, ENOMEM, EFBIG.
pub fn make(message: &Parts<'_>) -> io::Result<OwnedFd> {
    use std::io::Write;
    #[cfg(test)]
    MADE.with(|made| made.set(made.get() + 1));
    if !dp_edge::sys::raw::may_write_up_to(message.len() as u64) {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    let flags = nix::sys::memfd::MFdFlags::MFD_CLOEXEC | nix::sys::memfd::MFdFlags::MFD_ALLOW_SEALING;
    let fd = nix::sys::memfd::memfd_create(c"dp-message", flags)?;
    let mut file = std::fs::File::from(fd);
    for piece in message.pieces() {
        file.write_all(piece)?;
    }
    // SAFETY: a plain call on our own descriptor.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, SEALS) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(file.into())
}

/// Such memory, from somebody else: its seals are as they should be, and its length is 1 to [`MAX_MESSAGE`].
///
/// # Errors
///
/// EBADMSG when it is no such memory.
pub fn check(fd: &OwnedFd) -> io::Result<usize> {
    let len = sealed_len(fd.as_fd())?;
    // SAFETY: F_GET_SEALS takes no argument.
    let seals = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) };
    if seals & libc::F_SEAL_WRITE == 0 || len == 0 || len > MAX_MESSAGE {
        return Err(io::Error::from_raw_os_error(libc::EBADMSG));
    }
    Ok(len)
}

/// Such a message, mapped read-only.
#[derive(Debug)]
pub struct OutOfLine {
    base: *mut u8,
    len: usize,
}

// SAFETY: nobody can write to it any more.
unsafe impl Send for OutOfLine {}
// SAFETY: as above.
unsafe impl Sync for OutOfLine {}

impl OutOfLine {
    /// Maps what a sender made, after the same [`check`].
    ///
    /// # Errors
    ///
    /// EBADMSG when it is no such memory; else those of mmap(2): ENOMEM.
    pub fn open(fd: &OwnedFd) -> io::Result<OutOfLine> {
        let len = check(fd)?;
        // SAFETY: a new mapping, where the kernel chooses.
        let base = unsafe {
            libc::mmap(core::ptr::null_mut(), len, libc::PROT_READ, libc::MAP_SHARED, fd.as_raw_fd(), 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(OutOfLine { base: base.cast(), len })
    }
}

impl core::ops::Deref for OutOfLine {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: mapped for `len` bytes as long as self, and sealed against writing.
        unsafe { core::slice::from_raw_parts(self.base, self.len) }
    }
}

impl Drop for OutOfLine {
    fn drop(&mut self) {
        // SAFETY: ours; slices of it borrow self.
        unsafe { libc::munmap(self.base.cast(), self.len) };
    }
}
