//! Extended attributes of files.

use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Whether the file carries an attribute of this name, as `security.capability`; symbolic links are
/// followed. A file system that has no attributes answers no.
///
/// # Errors
/// What getxattr(2) says about a file that cannot be looked at.
pub fn has(path: &Path, name: &CStr) -> io::Result<bool> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: both strings are NUL-terminated and live over the call; with length 0 the kernel only tells
    // the attribute's size and writes nothing.
    let size = unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), std::ptr::null_mut(), 0) };
    if size >= 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ENODATA | libc::EOPNOTSUPP) => Ok(false),
        _ => Err(error),
    }
}

/// Gives the file an attribute.
///
/// # Errors
/// Those of setxattr(2): EPERM, EOPNOTSUPP.
pub fn set(path: &Path, name: &CStr, value: &[u8]) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: both strings are NUL-terminated, and the value has the length that is told.
    let done = unsafe { libc::setxattr(path.as_ptr(), name.as_ptr(), value.as_ptr().cast(), value.len(), 0) };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
