// SPDX-License-Identifier: GPL-2.0

//! What glue.c gives, and constants that it compares with the kernel's. `glue.h` declares the same.

use kernel::{
    bindings,
    error::Error,
    ffi::{c_char, c_int, c_uint, c_ulong, c_void},
};

use crate::uring::Entry;

pub(crate) const IOCB_NOWAIT: c_int = 0x8;
pub(crate) const FMODE_NOWAIT: bindings::fmode_t = 1 << 27;

pub(crate) const FIONREAD: u32 = 0x541b;

pub(crate) const POLL_IN: u32 = 0x1 | 0x40;
pub(crate) const POLL_OUT: u32 = 0x4 | 0x100;
pub(crate) const POLL_ERR: u32 = 0x8;

#[repr(C)]
pub(crate) struct Constants {
    iocb_nowait: u32,
    fmode_nowait: u32,
    fionread: u32,
    poll_in: u32,
    poll_out: u32,
    poll_err: u32,
}

// As glue.h says.
const _: () = assert!(size_of::<Constants>() == 24);

const CONSTANTS: Constants = Constants {
    iocb_nowait: IOCB_NOWAIT as u32,
    fmode_nowait: FMODE_NOWAIT,
    fionread: FIONREAD,
    poll_in: POLL_IN,
    poll_out: POLL_OUT,
    poll_err: POLL_ERR,
};

/// Whether the numbers above are this kernel's.
pub(crate) fn constants_are_right() -> bool {
    // SAFETY: only looked at.
    unsafe { dp_glue_constants_are(&CONSTANTS) }
}

/// Errors that `kernel::error::code` does not name.
pub(crate) fn error(errno: u32) -> Error {
    Error::from_errno(-(errno as c_int))
}

// A lock class is an empty structure where lockdep is not built in, which C has no layout for.
#[allow(improper_ctypes)]
extern "C" {
    fn dp_glue_constants_are(rust: *const Constants) -> bool;
    pub(crate) fn dp_glue_relay_init(
        entry: *mut bindings::wait_queue_entry,
        func: bindings::wait_queue_func_t,
        private: *mut c_void,
    );
    pub(crate) fn dp_glue_relay_add(
        queue: *mut bindings::wait_queue_head,
        entry: *mut bindings::wait_queue_entry,
    );
    pub(crate) fn dp_glue_relay_del(
        queue: *mut bindings::wait_queue_head,
        entry: *mut bindings::wait_queue_entry,
    );
    pub(crate) fn dp_glue_relay_done(entry: *mut bindings::wait_queue_entry);

    pub(crate) fn dp_glue_sleepers_start();
    pub(crate) fn dp_glue_sleeper_comes(place: *mut *mut bindings::task_struct) -> bool;
    pub(crate) fn dp_glue_sleeper_prepares() -> bool;
    pub(crate) fn dp_glue_sleeper_goes(place: *mut *mut bindings::task_struct);
    pub(crate) fn dp_glue_sleeper_wake(place: *mut *mut bindings::task_struct);

    pub(crate) fn dp_glue_later_init(work: *mut bindings::delayed_work, func: bindings::work_func_t);
    pub(crate) fn dp_glue_later(work: *mut bindings::delayed_work, ms: c_uint);

    pub(crate) fn dp_glue_charge(pages: c_ulong, free: c_ulong) -> *mut bindings::user_struct;
    pub(crate) fn dp_glue_uncharge(user: *mut bindings::user_struct, pages: c_ulong);
    pub(crate) fn dp_glue_map_pages(
        pages: *mut *mut bindings::page,
        count: c_uint,
        turns: c_uint,
    ) -> *mut c_void;
    pub(crate) fn dp_glue_unmap_pages(base: *mut c_void);
    pub(crate) fn dp_glue_copy_from(to: *mut c_void, from: *const c_char, len: usize) -> bool;
    pub(crate) fn dp_glue_copy_to(to: *mut c_char, from: *const c_void, len: usize) -> bool;
    pub(crate) fn dp_glue_copy_to_waiting(to: *mut c_char, from: *const c_void, len: usize) -> usize;
    pub(crate) fn dp_glue_write(file: *mut bindings::file, from: *const c_char, len: usize) -> isize;
    pub(crate) fn dp_glue_copy_in(to: *mut c_void, len: usize, from: *mut bindings::iov_iter) -> usize;
    pub(crate) fn dp_glue_copy_out(to: *mut bindings::iov_iter, from: *const c_void, len: usize) -> bool;
    pub(crate) fn dp_glue_detach_mapping(vma: *mut bindings::vm_area_struct) -> c_int;

    pub(crate) fn dp_glue_uring_entry(command: *mut bindings::io_uring_cmd, entry: *mut Entry);
    pub(crate) fn dp_glue_uring_done(command: *mut bindings::io_uring_cmd, result: c_int, issue: c_uint);

    pub(crate) fn dp_glue_soft_lock(lock: *mut bindings::spinlock_t);
    pub(crate) fn dp_glue_soft_try_lock(lock: *mut bindings::spinlock_t) -> bool;
    pub(crate) fn dp_glue_soft_unlock(lock: *mut bindings::spinlock_t);

    pub(crate) fn dp_glue_net_register() -> c_int;
    pub(crate) fn dp_glue_net_unregister();
    pub(crate) fn dp_glue_net_table() -> *mut c_void;
    pub(crate) fn dp_glue_may_bind() -> bool;

    pub(crate) fn dp_glue_network_table(out: *mut bindings::seq_file) -> *mut c_void;
    pub(crate) fn dp_glue_list_table(out: *mut bindings::seq_file) -> *mut c_void;
    pub(crate) fn dp_glue_list_may_see(out: *mut bindings::seq_file, uid: u32) -> bool;
    pub(crate) fn dp_glue_list_uid(out: *mut bindings::seq_file, uid: u32) -> u32;
}
