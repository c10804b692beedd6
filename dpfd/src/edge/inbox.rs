//! The one page of an endpoint in pool mode that all its senders share: is its receiver asleep?
//!
//! The receiver maps it before it seals it against every later writer, so the word in it ([`Arm`]) is the
//! receiver's alone: the kernel gives senders no way to map the page for writing, whoever they are.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::arm::{Arm, Due, Rung};
use dp_edge::segment::{map_flat, map_to_read, memory, sealed_len};

/// Bytes of the page.
pub const PAGE: usize = 4096;

/// A page that is mapped as long as the value lives.
struct Page(*mut u8);

// SAFETY: the mapping belongs to the value, and everything in it is an atomic.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Page {
    #[inline(always)]
    fn arm(&self) -> &Arm {
        // SAFETY: the page's first line; any bits are an atomic.
        unsafe { &*self.0.cast::<Arm>() }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: the page is ours; references into it borrow self.
        unsafe { libc::munmap(self.0.cast(), PAGE) };
    }
}

/// The receiver's side.
pub struct Inbox {
    fd: OwnedFd,
    page: Page,
}

impl Inbox {
    /// A new page, its receiver asleep: the first message rings.
    ///
    /// # Errors
    ///
    /// Those of memfd_create(2), mmap(2) and fcntl(2): F_SEAL_FUTURE_WRITE needs Linux 5.1.
    pub fn create() -> io::Result<Inbox> {
        let fd = memory(c"dp-inbox", PAGE)?;
        let page = Page(map_flat(fd.as_fd(), PAGE)?);
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_FUTURE_WRITE | libc::F_SEAL_SEAL;
        // SAFETY: a plain call on our own descriptor.
        if unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals) } < 0 {
            return Err(io::Error::last_os_error());
        }
        page.arm().arm();
        Ok(Inbox { fd, page })
    }

    /// The memory, to hand to a sender.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Whether the receiver sleeps, for it to say.
    #[inline(always)]
    pub fn arm(&self) -> &Arm {
        self.page.arm()
    }
}

impl core::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Inbox").field("armed", &self.arm().is_armed()).finish_non_exhaustive()
    }
}

/// A sender's side: whether it owes the receiver a bell.
pub struct Doorbell {
    page: Page,
    rung: Rung,
}

impl Doorbell {
    /// A receiver's page; its seals and size are checked first.
    ///
    /// # Errors
    ///
    /// EBADMSG when the memory is no inbox; else those of mmap(2).
    pub fn open(fd: &OwnedFd) -> io::Result<Doorbell> {
        if sealed_len(fd.as_fd())? != PAGE {
            return Err(io::Error::from_raw_os_error(libc::EBADMSG));
        }
        Ok(Doorbell { page: Page(map_to_read(fd.as_fd(), PAGE)?), rung: Rung::default() })
    }

    /// After a message was published and fenced: what the caller is to do, now.
    #[inline(always)]
    pub fn owed(&mut self) -> Due {
        self.page.arm().owes(&mut self.rung)
    }

    /// The bell could not be rung: it is still owed.
    pub fn not_rung(&mut self) {
        self.rung = Rung::default();
    }
}

impl core::fmt::Debug for Doorbell {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Doorbell").field("armed", &self.page.arm().is_armed()).finish_non_exhaustive()
    }
}
