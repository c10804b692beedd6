// SPDX-License-Identifier: GPL-2.0

//! IORING_OP_URING_CMD: sending to a destination that is named with the message, without a system call of its own.
//!
//! A command never waits. io_uring gives one that says EAGAIN to a worker thread, which would wait in its place, as
//! commands, unlike reads and writes, are not tried again when poll(2) tells that it is worth it. So EAGAIN is told to
//! the program, as the command's result; poll(2) tells of room then.

use core::mem::MaybeUninit;

use kernel::{
    bindings,
    error::code::EIOCBQUEUED,
    ffi::{c_int, c_uint},
    prelude::*,
};

use crate::{
    abi::{self, SEND_NOWAIT},
    file::endpoint,
    glue, ioctl,
};

/// What a program has put into its submission queue.
#[repr(C)]
pub(crate) struct Entry {
    file: *mut bindings::file,
    message: u64,
    len: u32,
    command: u32,
    flags: u32,
    pad0: u32,
    argument: abi::UringSendTo,
}

// As glue.h says.
const _: () = assert!(size_of::<Entry>() == 48);

/// # Safety
///
/// For the kernel, through the device's operations: what it passes is valid during the call.
pub(crate) unsafe extern "C" fn command(command: *mut bindings::io_uring_cmd, issue: c_uint) -> c_int {
    let mut entry = MaybeUninit::<Entry>::uninit();
    // SAFETY: by what the caller promises; the whole entry is written.
    let entry = unsafe {
        glue::dp_glue_uring_entry(command, entry.as_mut_ptr());
        entry.assume_init()
    };
    // SAFETY: by what the caller promises, the file is open.
    match unsafe { call(&entry) } {
        Ok(sent) => sent as c_int,
        Err(EAGAIN) => {
            // SAFETY: by what the caller promises; the command is not used again.
            unsafe { glue::dp_glue_uring_done(command, EAGAIN.to_errno(), issue) };
            EIOCBQUEUED.to_errno()
        }
        Err(e) => e.to_errno(),
    }
}

/// # Safety
///
/// The entry's file is open.
unsafe fn call(entry: &Entry) -> Result<usize> {
    if entry.command != abi::URING_SENDTO {
        return Err(ENOTTY);
    }
    let abi::UringSendTo { to, flags, pad0 } = entry.argument;
    // Registered buffers and several results for one entry are not for these commands.
    if entry.flags != 0 {
        return Err(EINVAL);
    }
    let what =
        abi::SendTo { message: entry.message, len: entry.len.into(), to, flags: flags | SEND_NOWAIT, pad0 };
    // SAFETY: by what the caller promises.
    let endpoint = unsafe { endpoint(entry.file) };
    ioctl::send_to(&endpoint, true, what)
}
