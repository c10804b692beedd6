// SPDX-License-Identifier: GPL-2.0

//! /dev/dp as the kernel calls it. The kernel's `miscdevice` leaves the owner empty, so that a module could be unloaded
//! from under its open files, and has no poll; hence a table of our own.

use core::mem::MaybeUninit;

use kernel::{
    bindings,
    ffi::{c_char, c_int, c_long, c_uint, c_ulong},
    iov::{IovIterDest, IovIterSource},
    mm::virt::{flags, VmaNew},
    page::PAGE_SIZE,
    prelude::*,
    seq_file::{seq_print, SeqFile},
    sync::{Arc, ArcBorrow},
    types::ForeignOwnable,
};

use crate::{endpoint::Endpoint, glue, ioctl, pool::Mapping, sink::UserSink, uring};

pub(crate) struct Table(pub(crate) bindings::file_operations);

// SAFETY: a table of functions that never changes.
unsafe impl Sync for Table {}

pub(crate) static OPERATIONS: Table = Table(bindings::file_operations {
    owner: crate::OWNER.as_ptr(),
    open: Some(open),
    release: Some(release),
    // For read(2) and write(2), which take fewer instructions than by the two below, as with null(4). (The kernel itself
    // neither reads nor writes files that have both, as by kernel_read(); of messages it would have understood nothing.)
    read: Some(read),
    write: Some(write),
    read_iter: Some(read_iter),
    write_iter: Some(write_iter),
    poll: Some(poll),
    unlocked_ioctl: Some(unlocked_ioctl),
    compat_ioctl: bindings::compat_ptr_ioctl,
    mmap: Some(mmap),
    uring_cmd: Some(uring::command),
    show_fdinfo: Some(show_fdinfo),
    llseek: Some(bindings::noop_llseek),
    // SAFETY: functions that are not there are zeros.
    ..unsafe { MaybeUninit::zeroed().assume_init() }
});

/// # Safety
///
/// `file` is open, by [`open`].
pub(crate) unsafe fn endpoint<'a>(file: *mut bindings::file) -> ArcBorrow<'a, Endpoint> {
    // SAFETY: by what the caller promises; the file holds the endpoint until release().
    unsafe { <Arc<Endpoint> as ForeignOwnable>::borrow((*file).private_data) }
}

/// Whether calls on the file may not wait. `call`: the flags of one call.
///
/// # Safety
///
/// `file` is open.
unsafe fn may_not_wait(file: *mut bindings::file, call: c_int) -> bool {
    // SAFETY: by what the caller promises; flags can change at any time, and any value will do.
    let flags = unsafe { (&raw const (*file).f_flags).read_volatile() };
    call & glue::IOCB_NOWAIT != 0 || flags & bindings::O_NONBLOCK != 0
}

/// # Safety
///
/// For the kernel, through [`OPERATIONS`]: what it passes is valid during the call.
unsafe extern "C" fn open(inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
    match Endpoint::new() {
        Ok(endpoint) => {
            // SAFETY: nobody else has the file yet.
            unsafe {
                bindings::stream_open(inode, file);
                // IOCB_NOWAIT is honoured: io_uring needs no worker.
                (*file).f_mode |= glue::FMODE_NOWAIT;
                (*file).private_data = endpoint.into_foreign();
            }
            0
        }
        Err(e) => e.to_errno(),
    }
}

/// # Safety
///
/// For the kernel, through [`OPERATIONS`]: what it passes is valid during the call.
unsafe extern "C" fn release(_inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
    // SAFETY: put there by open(); the last call on this file.
    let endpoint = unsafe { <Arc<Endpoint> as ForeignOwnable>::from_foreign((*file).private_data) };
    endpoint.close();
    0
}

fn bytes(result: Result<usize>) -> isize {
    match result {
        Ok(n) => n as isize,
        Err(e) => e.to_errno() as isize,
    }
}

/// # Safety
///
/// For the kernel, through [`OPERATIONS`]: an open file, and memory that may be the calling program's only.
unsafe extern "C" fn read(
    file: *mut bindings::file,
    to: *mut c_char,
    len: usize,
    _at: *mut bindings::loff_t,
) -> isize {
    // SAFETY: by what the caller promises.
    unsafe { bytes(endpoint(file).receive(may_not_wait(file, 0), &mut UserSink::new(to, len))) }
}

/// # Safety
///
/// As [`read`].
unsafe extern "C" fn write(
    file: *mut bindings::file,
    from: *const c_char,
    len: usize,
    _at: *mut bindings::loff_t,
) -> isize {
    // SAFETY: by what the caller promises.
    unsafe {
        if endpoint(file).write_at_once(from, len) {
            return len as isize;
        }
        glue::dp_glue_write(file, from, len)
    }
}

/// # Safety
///
/// For [`write`], by way of copy.c: an open file, and a valid iterator to be read.
#[no_mangle]
unsafe extern "C" fn dp_rust_write(file: *mut bindings::file, message: *mut bindings::iov_iter) -> isize {
    // SAFETY: by what the caller promises.
    unsafe { bytes(endpoint(file).send(None, may_not_wait(file, 0), None, IovIterSource::from_raw(message))) }
}

/// # Safety
///
/// For the kernel, through [`OPERATIONS`]: what it passes is valid during the call.
unsafe extern "C" fn read_iter(iocb: *mut bindings::kiocb, out: *mut bindings::iov_iter) -> isize {
    // SAFETY: the kernel passes valid pointers, and the iterator is one to be filled.
    unsafe {
        let file = (*iocb).ki_filp;
        let nowait = may_not_wait(file, (*iocb).ki_flags);
        bytes(endpoint(file).receive(nowait, IovIterDest::from_raw(out)))
    }
}

/// # Safety
///
/// For the kernel, through [`OPERATIONS`]: what it passes is valid during the call.
unsafe extern "C" fn write_iter(iocb: *mut bindings::kiocb, message: *mut bindings::iov_iter) -> isize {
    // SAFETY: the kernel passes valid pointers, and the iterator is one to be read.
    unsafe {
        let file = (*iocb).ki_filp;
        let nowait = may_not_wait(file, (*iocb).ki_flags);
        bytes(endpoint(file).send(None, nowait, None, IovIterSource::from_raw(message)))
    }
}

/// # Safety
///
/// For the kernel, through [`OPERATIONS`]: what it passes is valid during the call.
unsafe extern "C" fn poll(
    file: *mut bindings::file,
    table: *mut bindings::poll_table_struct,
) -> bindings::__poll_t {
    // SAFETY: the kernel passes valid pointers.
    let endpoint = unsafe { endpoint(file) };
    if let Ok(pool) = endpoint.pool() {
        // SAFETY: the queue is the endpoint's own pool's, and the file holds the endpoint.
        unsafe { bindings::poll_wait(file, pool.readers.as_ptr(), table) };
    }
    endpoint.poll()
}

/// # Safety
///
/// For the kernel, through [`OPERATIONS`]: what it passes is valid during the call.
unsafe extern "C" fn unlocked_ioctl(file: *mut bindings::file, command: c_uint, argument: c_ulong) -> c_long {
    // SAFETY: the kernel passes an open file.
    let (endpoint, nowait) = unsafe { (endpoint(file), may_not_wait(file, 0)) };
    match ioctl::call(endpoint, nowait, command, argument) {
        Ok(n) => n as c_long,
        Err(e) => e.to_errno() as c_long,
    }
}

/// # Safety
///
/// For the kernel, through [`OPERATIONS`]: what it passes is valid during the call.
unsafe extern "C" fn mmap(file: *mut bindings::file, vma: *mut bindings::vm_area_struct) -> c_int {
    // SAFETY: the kernel passes an open file and an area that is being set up.
    let result = unsafe { map(&endpoint(file), vma) };
    result.map_or_else(|e| e.to_errno(), |()| 0)
}

/// # Safety
///
/// `vma` is being set up.
unsafe fn map(endpoint: &Endpoint, vma: *mut bindings::vm_area_struct) -> Result {
    // SAFETY: by what the caller promises.
    let (area, offset) = unsafe { (VmaNew::from_raw(vma), (*vma).vm_pgoff as u64 * PAGE_SIZE as u64) };
    let len = (area.end() - area.start()) as u64;
    let mapping = endpoint.pool()?.mapping(offset)?;
    area.try_clear_mayexec().map_err(|_| EPERM)?;
    let (memory, most) = match &mapping {
        Mapping::Control(page) => {
            if len != PAGE_SIZE as u64 || area.flags() & flags::SHARED == 0 {
                return Err(EINVAL);
            }
            (&**page, len)
        }
        Mapping::Ring(ring) => (ring.area(), 2 * ring.bytes()),
        Mapping::OutOfLine(message) => (&**message, message.bytes() as u64),
    };
    if len > most {
        return Err(EINVAL);
    }
    if !matches!(mapping, Mapping::Control(_)) {
        // Also later, by mprotect(2): the kernel believes what it wrote there.
        area.try_clear_maywrite().map_err(|_| EPERM)?;
    }
    memory.map(area)?;
    // SAFETY: the area is still being set up.
    kernel::error::to_result(unsafe { glue::dp_glue_detach_mapping(vma) })
}

/// # Safety
///
/// For the kernel, through [`OPERATIONS`]: what it passes is valid during the call.
unsafe extern "C" fn show_fdinfo(out: *mut bindings::seq_file, file: *mut bindings::file) {
    // SAFETY: the kernel passes valid pointers.
    let (out, endpoint) = unsafe { (SeqFile::from_raw(out), endpoint(file)) };
    let Ok(stat) = endpoint.stat() else {
        seq_print!(out, "dpid:\t0\n");
        return;
    };
    seq_print!(out, "dpid:\t{}\nserial:\t{}\nuid:\t{}\n", stat.dpid, stat.serial, endpoint.uid());
    match stat.target_nid {
        0 => seq_print!(out, "target:\t{}\n", stat.target_dpid),
        nid => seq_print!(out, "target:\t{}/{}\n", nid, stat.target_dpid),
    }
    seq_print!(out, "sent:\t{} {}\nbacklog:\t{}\n", stat.sent, stat.sent_bytes, stat.backlog);
    seq_print!(out, "lost:\t{}\n", stat.lost);
    seq_print!(out, "received:\t{} {}\n", stat.received, stat.received_bytes);
    seq_print!(out, "full:\t{}\ncorrupt:\t{}\n", stat.full, stat.corrupt);
    seq_print!(out, "pool:\t{} {}\n", stat.pool, stat.pool_left);
    seq_print!(out, "in-place:\t{}\n", stat.in_place);
}
