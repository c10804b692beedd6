//! Mappings of which most pages are never touched: none of these takes memory, whatever the program has locked, and no core
//! dump holds them.

use std::io;

/// Gives a fresh mapping without access its protection, and takes it out of what is locked: only then none of its
/// pages is brought in before somebody touches it.
///
/// # Errors
///
/// Those of mprotect(2): ENOMEM.
///
/// # Safety
///
/// The range is a mapping of the caller's.
pub unsafe fn unlock(p: *mut libc::c_void, len: usize, protection: i32) -> io::Result<()> {
    // SAFETY: by the contract.
    unsafe {
        // Nothing is locked in most processes, and where munlock is forbidden nothing is either.
        libc::munlock(p, len);
        match libc::mprotect(p, len, protection) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Leaves a mapping out of core dumps: sparse memory of ours, of which a dump would hold every page as zeros.
///
/// # Safety
///
/// The range is a mapping of the caller's.
pub unsafe fn leave_out_of_dumps(base: *mut u8, len: usize) {
    // SAFETY: by the contract; no contents change. A larger dump is all that a failure means.
    unsafe { libc::madvise(base.cast(), len, libc::MADV_DONTDUMP) };
}

/// Zeroed private memory, without malloc.
pub fn reserve(len: usize) -> Option<*mut u8> {
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a private mapping at a place of the kernel's choice replaces nothing.
    let p = unsafe { libc::mmap(core::ptr::null_mut(), len, libc::PROT_NONE, kind, -1, 0) };
    if p == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: mapped just now, and nobody has seen it.
    unsafe {
        if unlock(p, len, libc::PROT_READ | libc::PROT_WRITE).is_err() {
            libc::munmap(p, len);
            return None;
        }
        leave_out_of_dumps(p.cast(), len);
    }
    Some(p.cast())
}
