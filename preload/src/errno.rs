//! Results as libc gives and takes them: a number, or -1 and errno.

use core::ffi::c_int;

/// Sets errno and returns -1.
#[cold]
pub fn fail(e: i32) -> isize {
    // SAFETY: this thread's errno.
    unsafe { *libc::__errno_location() = e };
    -1
}

/// The errno of the call just made.
pub fn errno() -> i32 {
    // SAFETY: this thread's errno.
    unsafe { *libc::__errno_location() }
}

/// A result as libc returns it.
#[inline(always)]
pub fn give(r: Result<usize, i32>) -> isize {
    match r {
        Ok(n) => n as isize,
        Err(e) => fail(e),
    }
}

/// The same for calls that return an int.
pub fn give_int(r: Result<i32, i32>) -> c_int {
    match r {
        Ok(n) => n,
        Err(e) => fail(e) as c_int,
    }
}

/// What libc returned, as a result.
#[inline]
pub fn took(n: isize) -> Result<usize, i32> {
    if n < 0 {
        Err(errno())
    } else {
        Ok(n as usize)
    }
}
