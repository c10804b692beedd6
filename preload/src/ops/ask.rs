//! Calls that ask what state a connection is in, or set it. On TCP the reset of a peer that died with bytes unread has come
//! by then. Sockets that are not ours go straight to the kernel, without a note that somebody is in a ring.

use core::ffi::{c_int, c_void};

use dp_channel::family::Stage;
use libc::{sockaddr, socklen_t};

use super::option;
use crate::channel::Channel;
use crate::inside::brief::briefly;
use crate::{fdtable, real};

/// getpeername(2).
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn getpeername(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
    hear(fd);
    // SAFETY: the program's arguments.
    unsafe { real::getpeername()(fd, addr, len) }
}

/// getsockopt(2); [`option`] has all but the state. SO_ERROR asks the kernel first.
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    if fdtable::conn(fd).is_none() {
        // SAFETY: the program's arguments.
        return unsafe { real::getsockopt()(fd, level, name, value, len) };
    }
    if (level, name) == (libc::IPPROTO_TCP, libc::TCP_INFO) {
        hear(fd);
    }
    // SAFETY: the program's arguments.
    briefly(|| unsafe { option::getsockopt(fd, level, name, value, len) })
}

/// setsockopt(2).
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    if fdtable::conn(fd).is_none() {
        // SAFETY: the program's arguments.
        return unsafe { real::setsockopt()(fd, level, name, value, len) };
    }
    // SAFETY: the program's arguments.
    briefly(|| unsafe { option::setsockopt(fd, level, name, value, len) })
}

/// Has the kernel know of the other end's death.
fn hear(fd: c_int) {
    if let Some(c) = Channel::of(fd) {
        briefly(|| c.stage() == Stage::Live && c.hears_of_death());
    }
}
