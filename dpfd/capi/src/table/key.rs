//! What tells an endpoint from all others, through all its numbers.

use std::ffi::c_int;

use dpfd::sys::device;

use crate::fault::{Fault, Res};

/// An endpoint's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Key {
    /// The inode of a socket, with the user-space driver.
    Socket(u64),
    /// The kernel driver's own count.
    Device(u64),
}

/// The name of what is behind `fd`. A socket need not be an endpoint.
pub fn key(fd: c_int) -> Res<Key> {
    // SAFETY: plain data, which fstat fills.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    if unsafe { libc::fstat(fd, &mut stat) } < 0 {
        return Err(Fault::NotOpen(fd));
    }
    match stat.st_mode & libc::S_IFMT {
        libc::S_IFSOCK => Ok(Key::Socket(stat.st_ino)),
        libc::S_IFCHR => match device::stat(fd) {
            Ok(stat) => Ok(Key::Device(stat.serial)),
            Err(_) => Err(Fault::NotAnEndpoint(fd)),
        },
        _ => Err(Fault::NotAnEndpoint(fd)),
    }
}
