//! Cancellation, and the sleeps where it may happen.
//!
//! pthread_cancel(3) unwinds through a call that sleeps. Inside the library it would meet locks and
//! `catch_unwind`; so a call's work runs with cancellation disabled, and its sleeps are made here, outside, by
//! libc's own functions: time-outs, restarts after a signal and cancellation are the system's.

use std::ffi::{c_int, c_void};
use std::io::IoSlice;
use std::panic::{catch_unwind, AssertUnwindSafe};

use dpfd::driver::Sleep;
use dpfd::endpoint::wait;

use crate::fault::{errno, fail, Fault, Res};
use crate::foreign::Descriptor;

extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

// Cancellation unwinds through these: libc's own declarations would forbid it.
extern "C-unwind" {
    fn recv(fd: c_int, buf: *mut c_void, len: usize, flags: c_int) -> isize;
    fn read(fd: c_int, buf: *mut c_void, len: usize) -> isize;
    fn write(fd: c_int, buf: *const c_void, len: usize) -> isize;
    fn send(fd: c_int, buf: *const c_void, len: usize, flags: c_int) -> isize;
    fn sendmsg(fd: c_int, message: *const libc::msghdr, flags: c_int) -> isize;
    fn writev(fd: c_int, pieces: *const libc::iovec, count: c_int) -> isize;
    fn pthread_testcancel();
}

const PTHREAD_CANCEL_DISABLE: c_int = 1;

/// No cancellation as long as it lives.
struct Uncancelled(c_int);

impl Uncancelled {
    #[inline(always)]
    fn new() -> Uncancelled {
        let mut old = 0;
        // SAFETY: fills one int.
        unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &mut old) };
        Uncancelled(old)
    }
}

impl Drop for Uncancelled {
    #[inline(always)]
    fn drop(&mut self) {
        let mut old = 0;
        // SAFETY: as above; the state is the one found.
        unsafe { pthread_setcancelstate(self.0, &mut old) };
    }
}

/// Does a call's work: neither cancelled nor unwinding. An error is in errno then, and the value is -1.
#[inline(always)]
pub fn guarded<T>(work: impl FnOnce() -> Res<T>) -> Result<T, c_int> {
    let _uncancelled = Uncancelled::new();
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(fault)) => Err(fail(fault)),
        Err(_) => Err(fail(Fault::Panicked)),
    }
}

/// Sleeps until there is a message, or the end, if the descriptor waits at all; a cancellation point.
pub fn sleep_for_message(fd: c_int, how: Sleep) -> Res<()> {
    let what = match how {
        Sleep::Socket(_) => Descriptor::Socket,
        Sleep::Device => Descriptor::Device,
        elsewhere => {
            may_be_cancelled();
            let woken = wait::sleep(fd, elsewhere);
            may_be_cancelled();
            return woken.map_err(Fault::from);
        }
    };
    // SAFETY: no byte is written, and no message taken.
    let result = unsafe {
        match what {
            Descriptor::Socket => recv(fd, std::ptr::null_mut(), 0, libc::MSG_PEEK),
            Descriptor::Device => read(fd, std::ptr::null_mut(), 0),
        }
    };
    match result {
        -1 => Err(Fault::system("recv", errno())),
        _ => Ok(()),
    }
}

/// Sends plainly, sleeping for room if the descriptor waits; a cancellation point.
///
/// # Safety
///
/// `msg` is readable for `len` bytes.
pub unsafe fn send_plainly(fd: c_int, what: Descriptor, msg: *const c_void, len: usize) -> Result<(), c_int> {
    // SAFETY: the caller's promise.
    let result = unsafe {
        match what {
            Descriptor::Socket => send(fd, msg, len, libc::MSG_NOSIGNAL),
            Descriptor::Device => write(fd, msg, len),
        }
    };
    match result {
        -1 => Err(fail(crate::foreign::send_fault(fd, len, errno()))),
        _ => Ok(()),
    }
}

/// The same with a message in pieces, of `len` bytes together.
pub fn send_pieces_plainly(
    fd: c_int,
    what: Descriptor,
    pieces: &[IoSlice<'_>],
    len: usize,
) -> Result<(), c_int> {
    // IoSlice is iovec by its documentation.
    let (iov, count) = (pieces.as_ptr().cast_mut().cast::<libc::iovec>(), pieces.len());
    // SAFETY: a header of zeros is one; it names pieces that outlive the call and are only read.
    let result = unsafe {
        match what {
            Descriptor::Socket => {
                let mut header: libc::msghdr = std::mem::zeroed();
                (header.msg_iov, header.msg_iovlen) = (iov, count as _);
                sendmsg(fd, &header, libc::MSG_NOSIGNAL)
            }
            Descriptor::Device => writev(fd, iov, count as c_int),
        }
    };
    match result {
        -1 => Err(fail(crate::foreign::send_fault(fd, len, errno()))),
        _ => Ok(()),
    }
}

/// A cancellation point.
pub fn may_be_cancelled() {
    // SAFETY: no argument; nothing with a destructor is alive in the caller.
    unsafe { pthread_testcancel() };
}
