//! An arena of somebody who has proven nothing yet (PROTOCOLS I3): it is looked into by pread(2) and not mapped, so it
//! costs a descriptor and no addresses.
//!
//! What looks gives numbers for errors: a thread may be ended anywhere in a look, and an `io::Error` would have to be
//! dropped then.
//!
//! A sealed memfd answers pread without waiting for anybody, whatever its maker does meanwhile.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::arena::Arena;
use crate::geometry::{Geometry, Header, INDEX_AT, MAGIC, OFFER, PAGE, PROBES};
use crate::layouts::{self, Range};
use crate::slot::Slot;
use dp_edge::segment::sealed_len;
use dp_edge::sync::Ordering;
use dp_edge::sys::raw;

/// See the module.
#[derive(Debug, Clone, Copy)]
pub struct Unmapped<'a> {
    fd: BorrowedFd<'a>,
    geo: Geometry,
}

/// Device and inode of memory: tells it from all other memory there is.
pub type Key = [u64; 2];

/// The key of `fd`.
///
/// # Errors
///
/// EBADF.
pub fn key(fd: BorrowedFd<'_>) -> Result<Key, i32> {
    // SAFETY: plain data, all zero is a value of it.
    let mut st: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY: the struct that the call fills.
    let done =
        unsafe { raw::call(libc::SYS_fstat, [fd.as_raw_fd() as usize, &raw mut st as usize, 0, 0, 0, 0]) };
    done.map(|_| [st.st_dev, st.st_ino])
}

impl<'a> Unmapped<'a> {
    /// Checks seals, versions and size. And the newest version of layouts that its maker and we speak.
    ///
    /// # Errors
    ///
    /// EBADMSG: not a sealed arena, or its size and geometry disagree. EPROTONOSUPPORT: no version that we speak. EFBIG: it is
    /// longer than `limit` bytes.
    pub fn look(fd: BorrowedFd<'a>, limit: usize) -> Result<(Unmapped<'a>, u32), i32> {
        let len = sealed_len(fd).map_err(|e| e.raw_os_error().unwrap_or(libc::EBADMSG))?;
        if len < PAGE {
            return Err(libc::EBADMSG);
        }
        let mut bytes = [0u8; size_of::<Header>()];
        read(fd, 0, &mut bytes)?;
        // SAFETY: Header is repr(C), made of atomic integers and as long as the bytes; any bits are a value of it.
        let h = unsafe { core::mem::transmute::<[u8; size_of::<Header>()], Header>(bytes) };
        let geo = Geometry {
            slots: h.slots.load(Ordering::Relaxed),
            lines: h.lines.load(Ordering::Relaxed),
            spare: h.spare.load(Ordering::Relaxed),
        };
        if h.magic.load(Ordering::Relaxed) != MAGIC {
            return Err(libc::EBADMSG);
        }
        let theirs = Range::told(h.version.load(Ordering::Relaxed), h.newest.load(Ordering::Relaxed));
        let spoken = layouts::arena().common(theirs).ok_or(libc::EPROTONOSUPPORT)?;
        if !geo.valid() || geo.len() != len {
            return Err(libc::EBADMSG);
        }
        if len > limit {
            return Err(libc::EFBIG);
        }
        Ok((Unmapped { fd, geo }, spoken))
    }

    /// What was looked at before, as `geo`, `spoken` by both.
    pub fn again(fd: BorrowedFd<'a>, geo: Geometry) -> Unmapped<'a> {
        Unmapped { fd, geo }
    }

    /// Its sizes.
    pub fn geometry(&self) -> Geometry {
        self.geo
    }

    /// The slots that may hold the offer hashed to `hash`.
    pub fn candidates(&self, hash: usize) -> impl Iterator<Item = u32> {
        let (len, slots) = (self.geo.index_len(), self.geo.slots);
        let first = hash & (len - 1);
        let mut words = [[0u8; 4]; PROBES];
        // The index is a circle; what cannot be read holds no slot.
        let (ahead, behind) = words.split_at_mut(PROBES.min(len - first));
        let _ = read(self.fd, INDEX_AT + first * 4, ahead.as_flattened_mut());
        if !behind.is_empty() {
            let _ = read(self.fd, INDEX_AT, behind.as_flattened_mut());
        }
        words.into_iter().map(|w| u32::from_ne_bytes(w).wrapping_sub(1)).filter(move |&slot| slot < slots)
    }

    fn slot_at(&self, i: u32) -> usize {
        self.geo.slot_at(i & (self.geo.slots - 1))
    }

    /// A copy of the offer in slot `i`.
    ///
    /// # Errors
    ///
    /// Those of pread(2).
    pub fn slot(&self, i: u32) -> Result<Slot, i32> {
        let mut bytes = [0u8; OFFER];
        read(self.fd, self.slot_at(i), &mut bytes)?;
        // SAFETY: Slot is repr(C), made of atomic integers and as long as the bytes; any bits are a value of it.
        Ok(unsafe { core::mem::transmute::<[u8; OFFER], Slot>(bytes) })
    }

    /// Answers the offer in slot `i`.
    ///
    /// # Errors
    ///
    /// Those of pwrite(2); EFBIG beyond RLIMIT_FSIZE.
    pub fn challenge(&self, i: u32, challenge: u64) -> Result<(), i32> {
        let at = self.slot_at(i) + core::mem::offset_of!(Slot, challenge);
        let bytes = challenge.to_ne_bytes();
        if !raw::may_write_up_to((at + bytes.len()) as u64) {
            return Err(libc::EFBIG);
        }
        let args = [self.fd.as_raw_fd() as usize, bytes.as_ptr() as usize, bytes.len(), at, 0, 0];
        // SAFETY: the buffer is as long as it says.
        whole(unsafe { raw::call(libc::SYS_pwrite64, args) }, bytes.len())
    }

    /// Maps its beginning.
    ///
    /// # Errors
    ///
    /// ENOMEM.
    pub fn map(&self) -> io::Result<Arena> {
        Arena::mapped(self.fd, self.geo)
    }
}

fn read(fd: BorrowedFd<'_>, at: usize, to: &mut [u8]) -> Result<(), i32> {
    let args = [fd.as_raw_fd() as usize, to.as_mut_ptr() as usize, to.len(), at, 0, 0];
    // SAFETY: the buffer is as long as it says.
    whole(unsafe { raw::call(libc::SYS_pread64, args) }, to.len())
}

fn whole(done: raw::Res, len: usize) -> Result<(), i32> {
    match done? {
        n if n == len => Ok(()),
        _ => Err(libc::EBADMSG),
    }
}
