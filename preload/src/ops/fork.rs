//! fork, and forks that run no handlers of pthread_atfork(3): _Fork, and clone without shared memory.

use core::ffi::{c_char, c_int, c_long, c_void};

use dp_edge::sys::raw;

use crate::epoll::Others;
use crate::walk::nowhere;
use crate::{life, real};

/// fork(2), whose handlers do everything, unless there is no child after all.
///
/// # Safety
///
/// As for the call it replaces.
#[inline(never)]
#[link_section = "dp_forks"]
pub unsafe fn fork() -> libc::pid_t {
    // SAFETY: no arguments.
    let child = unsafe { real::fork()() };
    // Else its handlers have done everything, and in the child each page that is touched is one more fault.
    if child < 0 {
        let errno = super::errno();
        life::fork_failed();
        super::fail(errno);
    }
    child
}

/// Calls of the C library that fork inside themselves: its handlers run, and nobody else knows that there is no child.
///
/// The call may fail before it forks, and in the child, too.
fn forking_inside(real: impl FnOnce() -> c_int) -> c_int {
    let parent = raw::getpid();
    life::no_fork_yet();
    let rc = real();
    if rc < 0 && raw::getpid() == parent {
        let errno = super::errno();
        life::fork_failed();
        super::fail(errno);
    }
    rc
}

/// daemon(3).
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn daemon(nochdir: c_int, noclose: c_int) -> c_int {
    // SAFETY: no memory.
    forking_inside(|| unsafe { real::daemon()(nochdir, noclose) })
}

/// forkpty(3).
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn forkpty(
    end: *mut c_int,
    name: *mut c_char,
    terminal: *const c_void,
    size: *const c_void,
) -> libc::pid_t {
    let Some(real) = real::forkpty() else { return super::fail(libc::ENOSYS) as c_int };
    // SAFETY: the program's arguments.
    forking_inside(|| unsafe { real(end, name, terminal, size) })
}

/// pthread_atfork(3), as glibc's programs call it: `dso` is the library that the handlers are in.
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn register_atfork(prepare: usize, parent: usize, child: usize, dso: *mut c_void) -> c_int {
    life::register();
    // SAFETY: the program's own arguments.
    unsafe { real::__register_atfork()(prepare, parent, child, dso) }
}

/// _Fork(3).
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn bare_fork() -> libc::pid_t {
    // SAFETY: no arguments.
    forking(0, || unsafe { real::_Fork()() } as c_long) as libc::pid_t
}

/// What other threads do during a clone(2) with these flags. One that says CLONE_VFORK lasts as long as the child's program.
fn others(flags: u64) -> Others {
    match flags & libc::CLONE_VFORK as u64 {
        0 => Others::Wait,
        _ => Others::GoOn,
    }
}

/// A call that returns 0 in the child and its number, or -1, in the parent. `flags`: those of clone(2).
pub fn forking(flags: u64, real: impl FnOnce() -> c_long) -> c_long {
    let prepared = life::prepare_fork(others(flags));
    let child = real();
    match child {
        0 => life::child_of_fork(prepared),
        1.. => life::parent_of_fork(&prepared),
        ..0 => {
            let errno = super::errno();
            life::parent_of_fork(&prepared);
            life::forget_fork(prepared);
            super::fail(errno);
        }
    }
    child
}

/// What a child of clone(2) starts with. It is read in the child's own copy of our stack.
struct Start {
    run: unsafe extern "C" fn(*mut c_void) -> c_int,
    with: *mut c_void,
    prepared: life::Prepared,
}

unsafe extern "C" fn start(s: *mut c_void) -> c_int {
    // SAFETY: clone() below gave it.
    let s = unsafe { &*s.cast::<Start>() };
    life::child_of_fork(s.prepared);
    // SAFETY: the program's function and argument.
    unsafe { (s.run)(s.with) }
}

/// clone(2), the function of libc. Threads, and children that share our memory until they execute something, are the
/// kernel's business alone.
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn clone(
    run: usize,
    stack: *mut c_void,
    flags: c_int,
    with: *mut c_void,
    ptid: usize,
    tls: usize,
    ctid: usize,
) -> c_int {
    let real = real::clone();
    if flags & libc::CLONE_VM != 0 || run == 0 || stack.is_null() {
        // SAFETY: the program's arguments.
        return unsafe { real(run, stack, flags, with, ptid, tls, ctid) };
    }
    // SAFETY: not null, and the program says it is such a function.
    let function = unsafe { core::mem::transmute::<usize, unsafe extern "C" fn(*mut c_void) -> c_int>(run) };
    let mut s = Start { run: function, with, prepared: life::prepare_fork(others(flags as u64)) };
    let start = start as unsafe extern "C" fn(*mut c_void) -> c_int as usize;
    // SAFETY: the program's arguments, and a start of ours that goes on to its own.
    let child = unsafe { real(start, stack, flags, (&raw mut s).cast(), ptid, tls, ctid) };
    life::parent_of_fork(&s.prepared);
    if child < 0 {
        life::forget_fork(s.prepared);
    }
    child
}

/// clone and clone3 by their numbers: the flags of a call that copies the process.
///
/// # Safety
///
/// The program's arguments.
pub unsafe fn copies(n: c_long, a: usize) -> Option<u64> {
    let flags = match n {
        libc::SYS_clone => a as u64,
        libc::SYS_clone3 if nowhere(a as *const u64) => return None,
        // SAFETY: struct clone_args begins with the flags.
        libc::SYS_clone3 => unsafe { (a as *const u64).read_unaligned() },
        _ => return None,
    };
    (flags & libc::CLONE_VM as u64 == 0).then_some(flags)
}
