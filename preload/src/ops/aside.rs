//! Input and output that goes past every hook: io_uring, io_submit, aio_read. What it is for becomes plain TCP.

use core::ffi::{c_int, c_long, c_uint, c_void};
use core::sync::atomic::Ordering;

use dpfd::family::Reason;
use libc::{aiocb, size_t};

use super::fail;
use crate::fdtable::{self, Entry};
use crate::walk::nowhere;
use crate::{hooks, leave, state};

/// The process has an io_uring: it may read and write any socket where no hook sees it.
pub fn ring_set_up() {
    state::URING.store(true, Ordering::Release);
    fdtable::each(|fd, e| {
        if matches!(e, Entry::Conn(_)) {
            leave::leave(fd, Reason::IoUring);
        }
    });
}

/// liburing makes its system calls itself, so the functions are seen that come to them.
macro_rules! ring {
    ($($name:ident($($v:ident: $t:ty),*);)*) => {$(
        /// Sets up a ring. Without liburing there is none.
        ///
        /// # Safety
        ///
        /// As for the call it replaces.
        pub unsafe fn $name($($v: $t),*) -> c_int {
            let Some(real) = hooks::$name::real() else { return -libc::ENOSYS };
            // SAFETY: the program's arguments.
            let rc = unsafe { real($($v),*) };
            if rc >= 0 {
                ring_set_up();
            }
            rc
        }
    )*};
}

ring! {
    io_uring_setup(entries: c_uint, params: *mut c_void);
    io_uring_queue_init(entries: c_uint, ring: *mut c_void, flags: c_uint);
    io_uring_queue_init_params(entries: c_uint, ring: *mut c_void, params: *mut c_void);
    io_uring_queue_init_mem(entries: c_uint, ring: *mut c_void, params: *mut c_void, mem: *mut c_void, size: size_t);
    io_uring_queue_init_try_nosqarr(entries: c_uint, ring: *mut c_void, params: *mut c_void);
}

/// An operation of io_submit(2), as far as it matters here.
#[repr(C)]
pub struct Iocb {
    _data: u64,
    _key: [u32; 2],
    _operation: [u16; 2],
    fd: u32,
}

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
            leave::leave(unsafe { (*one).fd } as c_int, Reason::IoUring);
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
        hooks::io_submit::real().map_or(-libc::ENOSYS, |real| real(context, n, list))
    }
}

/// One operation of the C library's threads.
unsafe fn queued(a: *const aiocb) {
    if !nowhere(a) {
        // SAFETY: the program's operation.
        leave::leave(unsafe { (*a).aio_fildes }, Reason::IoUring);
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
        hooks::aio_read::real().map_or_else(|| fail(libc::ENOSYS) as c_int, |real| real(a))
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
        hooks::aio_write::real().map_or_else(|| fail(libc::ENOSYS) as c_int, |real| real(a))
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
    let Some(real) = hooks::lio_listio::real() else { return fail(libc::ENOSYS) as c_int };
    // SAFETY: the program's arguments.
    unsafe { real(mode, list, n, event) }
}
