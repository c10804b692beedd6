//! close, dup and their kin; fcntl and ioctl.

use core::ffi::{c_int, c_uint, c_ulong};

use dp_channel::family::{Conn, Reason, Stage};
use dp_edge::sys::raw;

use super::give_int;
use crate::channel::Channel;
use crate::fdtable::{self, Entry};
use crate::inside::brief::briefly;
use crate::inside::Inside;
use crate::life::Copying;
use crate::walk::nowhere;
use crate::{ends, exec, give, inside, leave, life, meant, real, state};

/// close(2).
///
/// # Safety
///
/// As for the call it replaces.
#[inline]
pub unsafe fn close(fd: c_int) -> c_int {
    // SAFETY: the program's argument.
    let real = || unsafe { real::close()(fd) };
    match fdtable::get(fd) {
        Entry::None => {
            // Of a pipe it may be what its reader waits for.
            inside::held::sweep(&fd);
            real()
        }
        // A program that closes everything it can think of does not mean ours; to it, they are not there.
        Entry::Internal => super::fail(libc::EBADF) as c_int,
        _ => {
            // A thread that is cancelled in a close has closed nothing.
            // SAFETY: no arguments; nothing here is to be dropped.
            unsafe { super::pthread_testcancel() };
            life::in_one_step(fd, None, real)
        }
    }
}

/// dup(2).
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn dup(fd: c_int) -> c_int {
    // SAFETY: the program's argument.
    noted(fd, || unsafe { real::dup()(fd) })
}

/// Does `real`, which makes a copy of `old`.
#[inline(always)]
fn noted(old: c_int, real: impl FnOnce() -> c_int) -> c_int {
    if state::is_borrowed_memory() {
        let new = real();
        if new >= 0 {
            exec::copied(old, new);
        }
        return new;
    }
    // Whoever closes the number meanwhile keeps its file for this call.
    let frame = 0u8;
    let inside = Inside::enter(old, &frame);
    let before = life::copying(old);
    let new = real();
    note(old, new, before);
    if let Some(inside) = inside {
        inside.leave();
    }
    if (0..=2).contains(&new) && fdtable::conn(new).is_some() {
        // A connection as standard input or output: stdio uses it inside itself.
        give::give_number(new, Reason::Stdio);
    }
    new
}

fn note(old: c_int, new: c_int, before: Copying) {
    if new < 0 || !state::ON.load(core::sync::atomic::Ordering::Relaxed) {
        return life::not_copied(before);
    }
    life::copied(old, new, before);
    meant::note_copy(new);
}

/// dup2(2).
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn dup2(old: c_int, new: c_int) -> c_int {
    // SAFETY: the program's arguments.
    replaced(old, new, || unsafe { real::dup2()(old, new) })
}

/// dup3(2).
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int {
    // SAFETY: the program's arguments.
    let real = || unsafe { real::dup3()(old, new, flags) };
    if flags & !libc::O_CLOEXEC != 0 {
        // It will fail, and what stands at `new` stays.
        return real();
    }
    replaced(old, new, real)
}

/// What stood at `new` is closed, and `old` stands there.
fn replaced(old: c_int, new: c_int, real: impl Fn() -> c_int) -> c_int {
    if old == new {
        return real();
    }
    let noted = || noted(old, &real);
    match fdtable::get(new) {
        Entry::None if fdtable::get(old) == Entry::None => real(),
        Entry::None => noted(),
        _ if !can_stand_at(old, new) => real(),
        Entry::Internal if !state::is_borrowed_memory() => {
            // The program wants this very number: ours moves away.
            step_aside(new);
            noted()
        }
        _ => {
            let yields = || give::give_number(old, Reason::Shared);
            let is_conn = fdtable::conn(old).is_some();
            life::in_one_step(new, is_conn.then_some(&yields), noted)
        }
    }
}

/// Whether a copy of `old` at `new` will not be refused: that is open, and no limit that was lowered since forbids the number.
fn can_stand_at(old: c_int, new: c_int) -> bool {
    raw::fcntl(old, libc::F_GETFD, 0).is_ok() && (new as u64) < state::descriptor_limit()
}

/// The shim's own descriptor gives way. What it stood for is lost to new introductions; what connections need of it is at another
/// number first.
fn step_aside(fd: c_int) {
    inside::moves_from(fd);
    inside::held::moves_from(fd);
    ends::moves_from(fd);
    fdtable::yield_own(fd);
}

/// close_range(2): all of the program's, none of ours.
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    const UNSHARE: c_int = 2;
    // SAFETY: the program's arguments.
    let real = |a: c_uint, b: c_uint| unsafe { real::close_range()(a, b, flags) };
    // What will fail closes nothing.
    let closes = flags & !UNSHARE == 0 && first <= last;
    if !closes || !state::ON.load(core::sync::atomic::Ordering::Relaxed) {
        return real(first, last);
    }
    // A thread gets a table of its own with the latter, and closes what is there: the other threads' is as it was.
    if state::is_borrowed_memory() || flags & UNSHARE != 0 && !inside::alone() {
        return real(first, last);
    }
    // In pieces, around our own; a child about to exec loses ours by close-on-exec anyway.
    let mut from = first;
    let mut result = 0;
    fdtable::each(|fd, e| {
        let fd = fd as c_uint;
        if fd < from || fd > last {
            return;
        }
        if e == Entry::Internal {
            if fd > from {
                result |= real(from, fd - 1);
            }
            from = fd + 1;
        } else {
            life::in_one_step(fd as c_int, None, || {
                // With one thread, the piece takes it along.
                if !inside::alone() {
                    raw::close(fd as c_int);
                }
                0
            });
        }
    });
    if from <= last {
        result |= real(from, last);
    }
    result
}

/// closefrom(3).
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn closefrom(first: c_int) {
    let first = first.max(0);
    // SAFETY: as above; it cannot fail in a way the caller could learn of.
    let rc = unsafe { close_range(first as c_uint, c_uint::MAX, 0) };
    if rc != 0 {
        // A kernel or a C library that has not got it, or a filter of system calls that forbids it.
        for fd in first..state::descriptor_limit() as c_int {
            // SAFETY: as above.
            let _ = unsafe { close(fd) };
        }
    }
}

/// fcntl(2).
///
/// # Safety
///
/// As for the call it replaces.
#[inline]
pub unsafe fn fcntl(fd: c_int, cmd: c_int, arg: c_ulong) -> c_int {
    if cmd == libc::F_SETFL && arg & libc::O_ASYNC as c_ulong != 0 {
        signal_driven(fd);
    }
    // SAFETY: the program's arguments.
    let real = || unsafe { real::fcntl()(fd, cmd, arg) };
    if cmd == libc::F_SETFL {
        return changing(fd, real);
    }
    match cmd {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => noted(fd, real),
        libc::F_SETFD if arg & libc::FD_CLOEXEC as c_ulong == 0 => inheriting(fd, real),
        _ => real(),
    }
}

/// Does `real`, which may make `fd` block, or not.
fn changing(fd: c_int, real: impl Fn() -> c_int) -> c_int {
    match Channel::of(fd) {
        Some(c) => c.mode.change(real),
        None => real(),
    }
}

/// Does `real`, which makes `fd` inheritable.
fn inheriting(fd: c_int, real: impl Fn() -> c_int) -> c_int {
    let rc = real();
    if rc == 0 {
        meant::note(fd);
    }
    rc
}

/// SIGIO is about to be asked for: it comes for the kernel's bytes only, and would come for bells. Owner and
/// signal number (F_SETOWN, F_SETSIG) alone ask for none, and urgent bytes are the kernel's anyway.
fn signal_driven(fd: c_int) {
    if fdtable::conn(fd).is_some() {
        leave::leave_and_read(fd, Reason::Option);
    }
}

/// sockatmark(3).
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn sockatmark(fd: c_int) -> c_int {
    let mut at_mark: c_int = 0;
    // SAFETY: an int of ours.
    match unsafe { ioctl(fd, AT_MARK, &raw mut at_mark as c_ulong) } {
        -1 => -1,
        _ => at_mark,
    }
}

/// SIOCATMARK (asm-generic/sockios.h).
const AT_MARK: c_ulong = 0x8905;

/// ioctl(2): FIONREAD counts the bytes of the channel, never the bells.
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn ioctl(fd: c_int, request: c_ulong, arg: c_ulong) -> c_int {
    if request == libc::FIOASYNC && !nowhere(arg as *const c_int) {
        // SAFETY: the program's int.
        if unsafe { (arg as *const c_int).read_unaligned() } != 0 {
            signal_driven(fd);
        }
    }
    if request == libc::FIONREAD && fdtable::conn(fd).is_some() && !nowhere(arg as *const c_int) {
        let c = Channel::of(fd);
        if let Some(c) = c.filter(|c| matches!(c.stage(), Stage::Accepted | Stage::Live)) {
            if !c.has(Conn::COUNTS) {
                c.set(Conn::COUNTS);
            }
            let n = briefly(|| c.readable_bytes()).map(|n| {
                // SAFETY: the program's int.
                unsafe { *(arg as *mut c_int) = n.min(i32::MAX as usize) as c_int };
                0
            });
            return give_int(n);
        }
    }
    // SAFETY: the program's arguments.
    let real = || unsafe { real::ioctl()(fd, request, arg) };
    match request {
        libc::FIONBIO => changing(fd, real),
        libc::FIONCLEX => inheriting(fd, real),
        AT_MARK => {
            let c = Channel::of(fd);
            if let Some(c) = c {
                briefly(|| c.takes_bells_before_mark());
            }
            let rc = real();
            // What is in the ring comes before the urgent byte.
            if rc == 0 && c.is_some_and(|c| briefly(|| c.has_tokens())) {
                // SAFETY: the kernel wrote the program's int.
                unsafe { (arg as *mut c_int).write_unaligned(0) };
            }
            rc
        }
        _ => real(),
    }
}
