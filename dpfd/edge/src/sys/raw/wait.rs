//! Epoll sets, polls, events, naps: what does not wait, or not for long.

use super::{call, numbered, Res};

/// epoll_create1(2), closed on exec.
pub fn epoll_create() -> Result<i32, i32> {
    sys!(SYS_epoll_create1, libc::EPOLL_CLOEXEC).map(|fd| fd as i32)
}

/// epoll_ctl(2).
pub fn epoll_ctl(ep: i32, op: i32, fd: i32, event: Option<libc::epoll_event>) -> Res {
    let mut e = event.unwrap_or(libc::epoll_event { events: 0, u64: 0 });
    sys!(SYS_epoll_ctl, ep, op, fd, &mut e as *mut libc::epoll_event)
}

/// epoll_wait(2) that does not wait.
///
/// # Safety
///
/// `events` is writable for `max` entries.
pub unsafe fn epoll_poll(ep: i32, events: *mut libc::epoll_event, max: i32) -> Result<i32, i32> {
    #[cfg(target_arch = "x86_64")]
    return sys!(SYS_epoll_wait, ep, events, max, 0usize).map(|n| n as i32);
    #[cfg(not(target_arch = "x86_64"))]
    return sys!(SYS_epoll_pwait, ep, events, max, 0usize, 0usize, 8usize).map(|n| n as i32);
}

/// poll(2) without waiting.
pub fn poll_now(list: &mut [libc::pollfd]) -> Res {
    let t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let args = [list.as_mut_ptr() as usize, list.len(), &raw const t as usize, 0, 8, 0];
    // SAFETY: the list, a timeout of nothing, no mask.
    unsafe { call(libc::SYS_ppoll, args) }
}

/// Whether a descriptor is readable now; of an epoll set, whether it has an event.
pub fn is_readable(fd: i32) -> bool {
    poll_now(&mut [libc::pollfd { fd, events: libc::POLLIN, revents: 0 }]).is_ok_and(|n| n > 0)
}

/// Whether /proc says that a descriptor of ours is an eventfd.
pub fn is_eventfd(fd: i32) -> bool {
    let mut text = [0u8; 32];
    let path = numbered(b"/proc/self/fd/", fd as u32, b"");
    let n = sys!(SYS_readlinkat, libc::AT_FDCWD, path.as_ptr(), text.as_mut_ptr(), text.len());
    n.is_ok_and(|n| &text[..n] == b"anon_inode:[eventfd]")
}

/// Adds 1 to an eventfd; false where that cannot be.
#[inline]
pub fn signal_event(fd: i32) -> bool {
    let one = 1u64;
    sys!(SYS_write, fd, &raw const one, 8usize) == Ok(8)
}

/// Takes all signals out of an eventfd.
pub fn take_event(fd: i32) {
    let mut count = 0u64;
    let _ = sys!(SYS_read, fd, &raw mut count, 8usize);
}

/// eventfd2(2), of 0, that blocks nobody and is closed on exec.
pub fn eventfd() -> Result<i32, i32> {
    sys!(SYS_eventfd2, 0usize, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK).map(|fd| fd as i32)
}

/// sched_yield(2).
pub fn yield_now() {
    let _ = sys!(SYS_sched_yield);
}

/// nanosleep(2) for `ns` < 1 s; may be cut short by a signal.
pub fn nap(ns: u32) {
    let t = libc::timespec { tv_sec: 0, tv_nsec: ns as libc::c_long };
    let _ = sys!(SYS_nanosleep, &t as *const libc::timespec, 0usize);
}
