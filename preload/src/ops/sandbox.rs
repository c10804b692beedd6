//! prctl(2) and seccomp(2), by which a process forbids itself what we need.

use core::ffi::{c_int, c_uint, c_ulong, c_void};

use crate::walk::nowhere;
use crate::{real, retire};

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
