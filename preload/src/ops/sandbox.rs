//! prctl(2), seccomp(2) and setrlimit(2), by which a process forbids itself what we need.

use core::ffi::{c_int, c_uint, c_ulong, c_void};

use crate::walk::nowhere;
use crate::{real, retire, state};
use dp_edge::sys::raw;

fn is_null(at: u64) -> bool {
    nowhere(at as usize as *const c_void)
}

/// prctl(2).
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn prctl(option: c_int, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> c_int {
    if dp_channel::sandbox::by_prctl(option, a, b, is_null) {
        retire::retire();
    }
    // SAFETY: the program's arguments.
    unsafe { real::prctl()(option, a, b, c, d) }
}

/// Before seccomp(2), for which libc has no function.
pub fn seccomp(operation: c_uint, filter: u64) {
    if dp_channel::sandbox::by_seccomp(operation, filter, is_null) {
        retire::retire();
    }
}

/// Before a limit of process `pid` is set, 0 for this one. One with no room for descriptors refuses those that we need to wake its
/// threads, and poll(2) refuses lists that are longer than it.
///
/// # Safety
///
/// The program's limit, or nowhere.
pub unsafe fn limits(pid: libc::pid_t, what: c_uint, limit: *const libc::rlimit) {
    if what != libc::RLIMIT_NOFILE || nowhere(limit) || pid != 0 && pid as u32 != raw::getpid() {
        return;
    }
    // SAFETY: by the contract.
    if unsafe { (*limit).rlim_cur } < state::ROOMY {
        retire::retire();
    }
}

/// setrlimit(2).
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn setrlimit(what: c_uint, limit: *const libc::rlimit) -> c_int {
    // SAFETY: the program's arguments.
    unsafe {
        limits(0, what, limit);
        real::setrlimit()(what, limit)
    }
}

/// prlimit(2).
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn prlimit(
    pid: libc::pid_t,
    what: c_uint,
    limit: *const libc::rlimit,
    old: *mut libc::rlimit,
) -> c_int {
    // SAFETY: the program's arguments.
    unsafe {
        limits(pid, what, limit);
        real::prlimit()(pid, what, limit, old)
    }
}
