//! poll, select, epoll: the argument forms; the work is in [`crate::wait`] and [`crate::epoll`].

use core::ffi::c_int;

use libc::{epoll_event, pollfd, sigset_t, size_t, timespec};

use super::{errno, give_int};
use crate::fdtable::{self, Entry};
use crate::retire::retire;
use crate::walk::nowhere;
use crate::{epoll, life, real, state, wait};

const MS: i64 = 1_000_000;

pub(super) fn nanoseconds(t: &timespec) -> Option<i64> {
    if t.tv_sec < 0 || !(0..1_000_000_000).contains(&t.tv_nsec) {
        return None;
    }
    Some(t.tv_sec.saturating_mul(1_000_000_000).saturating_add(t.tv_nsec))
}

fn result(n: c_int) -> Result<i32, i32> {
    if n < 0 {
        Err(errno())
    } else {
        Ok(n)
    }
}

/// libc's ppoll with a timeout in nanoseconds, negative for ever.
fn kernel_poll(fds: &mut [pollfd], timeout: i64, mask: *const sigset_t) -> Result<i32, i32> {
    let t = timespec { tv_sec: timeout / 1_000_000_000, tv_nsec: timeout % 1_000_000_000 };
    let t = if timeout < 0 { core::ptr::null() } else { &raw const t };
    // SAFETY: the program's array and mask.
    result(unsafe { real::ppoll()(fds.as_mut_ptr(), fds.len() as _, t, mask) })
}

/// Entries of a poll by events that are ours.
const OURS: u64 = 2;

/// poll(2) of a list in which something may be ours.
pub(super) fn poll_ours(fds: &mut [pollfd], ns: i64, mask: *const sigset_t) -> Result<i32, i32> {
    let got = wait::poll(fds, ns, !mask.is_null(), |f, t| kernel_poll(f, t, mask));
    // Ours beside a list that is about as long as it may be. The limit is somebody else's, or the shim had withdrawn.
    let (n, limit) = (fds.len() as u64, state::descriptor_limit());
    if got == Err(libc::EINVAL) && n <= limit && n + OURS > limit {
        retire();
        return kernel_poll(fds, ns, mask);
    }
    got
}

/// # Safety
///
/// `fds` is the program's array of `n`.
unsafe fn list<'a>(fds: *mut pollfd, n: libc::nfds_t) -> &'a mut [pollfd] {
    // An address where nothing is, the kernel refuses.
    if nowhere(fds) || n == 0 || n > 1 << 20 {
        return &mut [];
    }
    // SAFETY: by the contract.
    unsafe { core::slice::from_raw_parts_mut(fds, n as usize) }
}

/// poll(2).
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn poll(fds: *mut pollfd, n: libc::nfds_t, timeout: c_int) -> c_int {
    // SAFETY: the program's array.
    let all = unsafe { list(fds, n) };
    let kernel = || {
        // SAFETY: the program's arguments.
        unsafe { real::poll()(fds, n, timeout) }
    };
    if let Some(rc) = wait::by_kernel(all, timeout != 0, kernel) {
        return rc;
    }
    let ns = if timeout < 0 { -1 } else { i64::from(timeout) * MS };
    give_int(poll_ours(all, ns, core::ptr::null()))
}

/// ppoll(2).
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn ppoll(
    fds: *mut pollfd,
    n: libc::nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the program's array.
    let all = unsafe { list(fds, n) };
    // SAFETY: the program's timeout, if it has one.
    let ns = unsafe { timeout.as_ref() }.map_or(Some(-1), nanoseconds);
    let kernel = || {
        // SAFETY: the program's arguments.
        unsafe { real::ppoll()(fds, n, timeout, mask) }
    };
    let Some(ns) = ns else { return kernel() };
    if let Some(rc) = wait::by_kernel(all, ns != 0, kernel) {
        return rc;
    }
    give_int(poll_ours(all, ns, mask))
}

/// What -D_FORTIFY_SOURCE makes of poll.
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn poll_chk(fds: *mut pollfd, n: libc::nfds_t, timeout: c_int, room: size_t) -> c_int {
    if (n as usize).saturating_mul(size_of::<pollfd>()) > room {
        // SAFETY: glibc's own check ends the program.
        return unsafe { real::__poll_chk()(fds, n, timeout, room) };
    }
    // SAFETY: the program's arguments.
    unsafe { poll(fds, n, timeout) }
}

/// What -D_FORTIFY_SOURCE makes of ppoll.
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn ppoll_chk(
    fds: *mut pollfd,
    n: libc::nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
    room: size_t,
) -> c_int {
    if (n as usize).saturating_mul(size_of::<pollfd>()) > room {
        // SAFETY: glibc's own check ends the program.
        return unsafe { real::__ppoll_chk()(fds, n, timeout, mask, room) };
    }
    // SAFETY: the program's arguments.
    unsafe { ppoll(fds, n, timeout, mask) }
}

/// epoll_create(2).
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn epoll_create(size: c_int) -> c_int {
    // SAFETY: the program's argument.
    made(unsafe { real::epoll_create()(size) })
}

/// epoll_create1(2).
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn epoll_create1(flags: c_int) -> c_int {
    // SAFETY: the program's argument.
    made(unsafe { real::epoll_create1()(flags) })
}

fn made(fd: c_int) -> c_int {
    life::forget_stale(fd);
    epoll::born(fd);
    fd
}

/// epoll_ctl(2).
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn epoll_ctl(ep: c_int, op: c_int, fd: c_int, event: *mut epoll_event) -> c_int {
    let ours = matches!(fdtable::get(ep), Entry::Epoll(_))
        || !matches!(fdtable::get(fd), Entry::None | Entry::Unconnected(_));
    // An address where nothing is, the kernel refuses.
    if ours && (op == libc::EPOLL_CTL_DEL || !nowhere(event)) {
        // SAFETY: the program's event; not read where it need not be there.
        let e = (op != libc::EPOLL_CTL_DEL).then(|| unsafe { event.read_unaligned() });
        if let Some(r) = epoll::ctl(ep, op, fd, e) {
            return give_int(r.map(|()| 0));
        }
    }
    // SAFETY: the program's arguments.
    unsafe { real::epoll_ctl()(ep, op, fd, event) }
}

fn epoll_on(
    ep: c_int,
    events: *mut epoll_event,
    max: c_int,
    ns: i64,
    mask: *const sigset_t,
    fine: bool,
) -> Option<c_int> {
    let Entry::Epoll(i) = fdtable::get(ep) else { return None };
    let kernel = |set: c_int, events: *mut epoll_event, max: i32, ns: i64| {
        if fine {
            let t = timespec { tv_sec: ns / 1_000_000_000, tv_nsec: ns % 1_000_000_000 };
            let t = if ns < 0 { core::ptr::null() } else { &raw const t };
            // SAFETY: the program's array and mask; the program has found this call, too.
            return result(unsafe { real::epoll_pwait2()(set, events, max, t, mask) });
        }
        // Rounded up, as every timeout of the kernel is.
        let ms = if ns < 0 { -1 } else { ((ns + MS - 1) / MS).min(i64::from(i32::MAX)) as c_int };
        // SAFETY: the program's array and mask.
        result(unsafe {
            if mask.is_null() {
                real::epoll_wait()(set, events, max, ms)
            } else {
                real::epoll_pwait()(set, events, max, ms, mask)
            }
        })
    };
    epoll::wait(ep, i, events, max, ns, !mask.is_null(), kernel).map(give_int)
}

/// A wait on set `ep` in which nothing of ours takes part, but that its own event is not the program's to see.
fn alone(ep: c_int, events: *mut epoll_event, kernel: impl Fn() -> c_int) -> c_int {
    loop {
        let n = kernel();
        if n <= 0 || !matches!(fdtable::get(ep), Entry::Epoll(_)) {
            return n;
        }
        // SAFETY: the kernel filled as many entries.
        let n = unsafe { epoll::without(events, n as usize) };
        if n > 0 {
            return n as c_int;
        }
    }
}

/// epoll_wait(2).
///
/// # Safety
///
/// As for the call it replaces.
#[inline]
pub unsafe fn epoll_wait(ep: c_int, events: *mut epoll_event, max: c_int, timeout: c_int) -> c_int {
    let ns = if timeout < 0 { -1 } else { i64::from(timeout) * MS };
    match epoll_on(ep, events, max, ns, core::ptr::null(), false) {
        Some(n) => n,
        // SAFETY: the program's arguments.
        None => alone(ep, events, || unsafe { real::epoll_wait()(ep, events, max, timeout) }),
    }
}

/// epoll_pwait(2).
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn epoll_pwait(
    ep: c_int,
    events: *mut epoll_event,
    max: c_int,
    timeout: c_int,
    mask: *const sigset_t,
) -> c_int {
    let ns = if timeout < 0 { -1 } else { i64::from(timeout) * MS };
    match epoll_on(ep, events, max, ns, mask, false) {
        Some(n) => n,
        // SAFETY: the program's arguments.
        None => alone(ep, events, || unsafe { real::epoll_pwait()(ep, events, max, timeout, mask) }),
    }
}

/// epoll_pwait2(2).
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn epoll_pwait2(
    ep: c_int,
    events: *mut epoll_event,
    max: c_int,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the program's timeout.
    let ns = if timeout.is_null() { Some(-1) } else { nanoseconds(unsafe { &*timeout }) };
    match ns.and_then(|ns| epoll_on(ep, events, max, ns, mask, true)) {
        Some(n) => n,
        // SAFETY: the program's arguments.
        None => alone(ep, events, || unsafe { real::epoll_pwait2()(ep, events, max, timeout, mask) }),
    }
}
