//! Calls in which a thread is not cancelled (pthreads(7)), and handlers that run inside of them.
//!
//! A call that is no point of cancellation, or is past it, is made of calls that are, so its thread forbids its cancellation
//! meanwhile. A handler of the program's is to find what the program has said of that: it may ask, or leave by longjmp, and then nobody
//! would put it back.

use core::cell::Cell;
use core::ffi::c_int;

extern "C-unwind" {
    /// pthread_setcancelstate(3).
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

/// PTHREAD_CANCEL_DISABLE.
const DISABLE: c_int = 1;
/// In place of a state: the thread is in no such call.
const NONE: c_int = -1;

thread_local! {
    /// What the program has said, while this thread is in such a call.
    static OF_PROGRAM: Cell<c_int> = const { Cell::new(NONE) };
}

fn forbid() {
    let mut state = 0;
    // SAFETY: a variable of ours.
    unsafe { pthread_setcancelstate(DISABLE, &raw mut state) };
    OF_PROGRAM.set(state);
}

/// False: there is nothing to put back.
fn put_back() -> bool {
    let state = OF_PROGRAM.replace(NONE);
    if state != NONE {
        // SAFETY: what it was.
        unsafe { pthread_setcancelstate(state, core::ptr::null_mut()) };
    }
    state != NONE
}

/// Does `f`, in which the thread is not cancelled.
pub fn uncancelled<R>(f: impl FnOnce() -> R) -> R {
    if OF_PROGRAM.get() != NONE {
        return f();
    }
    forbid();
    let result = f();
    put_back();
    result
}

/// Does `f`, a handler of the program's, which finds what the program has said, and may change it.
#[inline]
pub fn as_the_program_has_it<R>(f: impl FnOnce() -> R) -> R {
    let was_inside = put_back();
    let result = f();
    if was_inside {
        forbid();
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENABLE: c_int = 0;

    fn set(state: c_int) -> c_int {
        let mut old = NONE;
        // SAFETY: a variable of ours.
        unsafe { pthread_setcancelstate(state, &raw mut old) };
        old
    }

    #[test]
    fn a_handler_finds_what_the_program_has_said() {
        uncancelled(|| {
            assert_eq!(set(DISABLE), DISABLE);
            as_the_program_has_it(|| assert_eq!(set(ENABLE), ENABLE));
            uncancelled(|| assert_eq!(set(DISABLE), DISABLE));
            assert_eq!(set(DISABLE), DISABLE, "still inside");
            // What one says there holds when the call is over.
            as_the_program_has_it(|| set(DISABLE));
        });
        assert_eq!(set(ENABLE), DISABLE);
    }

    #[test]
    fn who_leaves_a_handler_has_left_the_call() {
        forbid();
        // It does not come back.
        put_back();
        assert_eq!(set(ENABLE), ENABLE);
        uncancelled(|| assert_eq!(set(DISABLE), DISABLE));
        assert_eq!(set(ENABLE), ENABLE);
    }
}
