//! Input and output that goes past every hook: io_submit, aio_read. What it is for becomes plain TCP, or the end of a relay
//! ([`super::ring`] is the same for io_uring).

use core::ffi::{c_int, c_long, c_void};

use dp_channel::family::Reason;
use libc::aiocb;

use super::fail;
use crate::real::Iocb;
use crate::walk::nowhere;
use crate::{give, real, state};

/// Connections among the descriptors of `list` leave; files are what such programs are about.
///
/// # Safety
///
/// The program's list of `n` operations.
pub unsafe fn submitted(n: c_long, list: *const *const Iocb) {
    if state::family().is_none() || nowhere(list) {
        return;
    }
    for i in 0..n.max(0) as usize {
        // SAFETY: below n.
        let one = unsafe { *list.add(i) };
        if !nowhere(one) {
            // SAFETY: the program's operation.
            give::for_good(unsafe { (*one).fd } as c_int, Reason::IoUring);
        }
    }
}

/// libaio's io_submit.
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn io_submit(context: *mut c_void, n: c_long, list: *const *const Iocb) -> c_int {
    // SAFETY: the program's arguments.
    unsafe {
        submitted(n, list);
        real::io_submit().map_or(-libc::ENOSYS, |real| real(context, n, list))
    }
}

/// One operation of the C library's threads.
unsafe fn queued(a: *const aiocb) {
    if !nowhere(a) {
        // SAFETY: the program's operation.
        give::for_good(unsafe { (*a).aio_fildes }, Reason::IoUring);
    }
}

/// aio_read(3).
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn aio_read(a: *mut aiocb) -> c_int {
    // SAFETY: the program's argument.
    unsafe {
        queued(a);
        real::aio_read().map_or_else(|| fail(libc::ENOSYS) as c_int, |real| real(a))
    }
}

/// aio_write(3).
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn aio_write(a: *mut aiocb) -> c_int {
    // SAFETY: the program's argument.
    unsafe {
        queued(a);
        real::aio_write().map_or_else(|| fail(libc::ENOSYS) as c_int, |real| real(a))
    }
}

/// lio_listio(3).
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn lio_listio(mode: c_int, list: *const *mut aiocb, n: c_int, event: *mut c_void) -> c_int {
    if !nowhere(list) {
        for i in 0..n.max(0) as usize {
            // SAFETY: below n; entries may be null.
            unsafe { queued(*list.add(i)) };
        }
    }
    let Some(real) = real::lio_listio() else { return fail(libc::ENOSYS) as c_int };
    // SAFETY: the program's arguments.
    unsafe { real(mode, list, n, event) }
}
