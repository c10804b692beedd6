//! Calls in which a thread is not cancelled (pthreads(7)), and handlers that run inside of them.
//!
//! A call that is no point of cancellation, or is past it, is made of calls that are, so its thread forbids its cancellation
//! meanwhile. A handler of the program's that is called by way of ours is to find what the program has said of that: it may ask, or
//! leave by longjmp, and then nobody would put it back. One of a fault is called by the kernel itself, and finds it forbidden; where it
//! has left the call by longjmp, the next such call finds that.

use core::cell::Cell;
use core::ffi::c_int;

use dp_channel::handlers;

extern "C-unwind" {
    /// pthread_setcancelstate(3).
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

/// PTHREAD_CANCEL_DISABLE.
const DISABLE: c_int = 1;
/// In place of a state: the thread is in no such call.
const NONE: c_int = -1;

thread_local! {
    /// What the program has said, while this thread is in such a call; and which one that is, as [`handlers::mark`] has it.
    static OF_PROGRAM: Cell<(c_int, u64)> = const { Cell::new((NONE, 0)) };
}

fn forbid(here: *const u8) {
    let mut state = 0;
    // SAFETY: a variable of ours.
    unsafe { pthread_setcancelstate(DISABLE, &raw mut state) };
    OF_PROGRAM.set((state, handlers::mark(here)));
}

/// False: there is nothing to put back.
fn put_back() -> bool {
    let (state, _) = OF_PROGRAM.replace((NONE, 0));
    if state != NONE {
        // SAFETY: what it was.
        unsafe { pthread_setcancelstate(state, core::ptr::null_mut()) };
    }
    state != NONE
}

/// Whether `here` is inside of such a call. One that was left is forgotten: what holds for the thread since, the program may have said.
#[inline]
fn is_inside(here: *const u8) -> bool {
    let (state, mark) = OF_PROGRAM.get();
    if state == NONE {
        return false;
    }
    let inside = handlers::is_inside(mark, here);
    if !inside {
        OF_PROGRAM.set((NONE, 0));
    }
    inside
}

/// Does `f`, in which the thread is not cancelled. Never inlined, so that a call inside of another one lies below it.
#[inline(never)]
pub fn uncancelled<R>(f: impl FnOnce() -> R) -> R {
    let here = 0u8;
    if is_inside(&here) {
        return f();
    }
    forbid(&here);
    let result = f();
    put_back();
    result
}

/// Does `f`, a handler of the program's, which finds what the program has said, and may change it.
#[inline(never)]
pub fn as_the_program_has_it<R>(f: impl FnOnce() -> R) -> R {
    let here = 0u8;
    if !is_inside(&here) {
        return f();
    }
    let (_, mark) = OF_PROGRAM.get();
    put_back();
    let result = f();
    forbid(&here);
    let (state, _) = OF_PROGRAM.get();
    // It goes on being the call that was interrupted.
    OF_PROGRAM.set((state, mark));
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
        let here = 0u8;
        forbid(&here);
        // It does not come back.
        put_back();
        assert_eq!(set(ENABLE), ENABLE);
        uncancelled(|| assert_eq!(set(DISABLE), DISABLE));
        assert_eq!(set(ENABLE), ENABLE);
    }

    #[test]
    fn a_call_that_was_left_is_forgotten() {
        #[inline(never)]
        fn deeper() {
            let here = 0u8;
            // A handler of a fault leaves it.
            forbid(core::hint::black_box(&here));
        }
        deeper();
        assert_eq!(set(ENABLE), DISABLE);
        uncancelled(|| assert_eq!(set(DISABLE), DISABLE, "the next one forbids it anew"));
        assert_eq!(set(ENABLE), ENABLE);
        as_the_program_has_it(|| ());
        assert_eq!(set(ENABLE), ENABLE);
    }
}
