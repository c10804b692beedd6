//! Sending behind what a process of our own still puts on TCP ([`Conn::PUSHED`]): it waits as any send that finds no
//! room does, for as long as SO_SNDTIMEO says, and until a signal comes whose handler does not restart calls.
//!
//! For the last, the wait must be one that the kernel restarts, as poll(2) is not. So the pusher holds a record lock, on
//! the byte of the family's memory that has the connection's number, and whoever waits, waits for that lock. It vanishes
//! with the pusher. Where it cannot be had, a poll does for it.

use dpfd::family::{Conn, Family, Reason};
use dpfd::sys::raw;

use crate::fdtable::{self, Entry};
use crate::{hooks, ops, state};

/// Between two looks of somebody who is woken for nothing, ns.
const NAP: u32 = 50_000;
/// The longest time between two looks at whether the pusher is alive, ms.
const LOOK: i32 = 100;

/// Nothing may pass what was taken back from the ring: waits until that is on TCP, if the call may wait.
#[cold]
pub fn wait(family: Family, fd: i32, c: &Conn, blocking: bool) -> Result<(), i32> {
    let limit = if blocking { send_timeout(fd) } else { Some(0) };
    let began = state::now();
    while c.has(Conn::PUSHED) {
        let pusher = c.pusher.load(core::sync::atomic::Ordering::Acquire) as usize;
        if !family.member(pusher).alive() && c.has(Conn::PUSHED) {
            super::reset(fd, c, Reason::PeerLeft);
            c.clear(Conn::PUSHED);
            return Err(libc::ECONNRESET);
        }
        match limit.map(|ns| ns.saturating_sub(state::now() - began)) {
            Some(0) => return Err(libc::EAGAIN),
            None if wait_for_lock(fd)? => {}
            // Rounded up, as every timeout of the kernel is.
            left => wait_for_room(fd, left.map_or(LOOK, |ns| LOOK.min(ns.div_ceil(1_000_000) as i32)))?,
        }
    }
    match c.error.swap(0, core::sync::atomic::Ordering::Relaxed) {
        0 => Ok(()),
        e => Err(e as i32),
    }
}

/// SO_SNDTIMEO in nanoseconds; `None` is for ever.
pub(super) fn send_timeout(fd: i32) -> Option<u64> {
    let mut t = libc::timeval { tv_sec: 0, tv_usec: 0 };
    raw::getsockopt(fd, libc::SOL_SOCKET, libc::SO_SNDTIMEO, &mut t).ok()?;
    let ns = (t.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(t.tv_usec as u64 * 1000);
    (ns > 0).then_some(ns)
}

fn wait_for_room(fd: i32, ms: i32) -> Result<(), i32> {
    let mut p = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
    // SAFETY: one entry.
    if ops::took(unsafe { hooks::poll::real()(&mut p, 1, ms) } as isize)? > 0 {
        // The room is the pusher's, who is on its way.
        raw::nap(NAP);
    }
    Ok(())
}

/// The descriptor for locks, and the lock of the connection behind `fd`.
fn lock_of(fd: i32, kind: i32) -> Option<(i32, libc::flock)> {
    let i = fdtable::conn_inside(fd)?;
    // SAFETY: plain data.
    let mut lock: libc::flock = unsafe { core::mem::zeroed() };
    lock.l_type = kind as _;
    lock.l_whence = libc::SEEK_SET as _;
    lock.l_start = i64::from(i) as _;
    lock.l_len = 1;
    Some((state::family_fd(), lock)).filter(|(memory, _)| *memory >= 0)
}

/// Waits for the end of the pusher, in a call that the kernel restarts. False: it has no lock.
fn wait_for_lock(fd: i32) -> Result<bool, i32> {
    let Some((memory, mut lock)) = lock_of(fd, libc::F_RDLCK) else { return Ok(false) };
    // A program may have closed it, and have a file of its own there, with locks of its own.
    if fdtable::get(memory) != Entry::Internal {
        return Ok(false);
    }
    let held = raw::fcntl(memory, libc::F_GETLK, &raw mut lock as usize).is_ok();
    if !held || i32::from(lock.l_type) == libc::F_UNLCK {
        return Ok(false);
    }
    let Some((_, mut lock)) = lock_of(fd, libc::F_RDLCK) else { return Ok(false) };
    // SAFETY: the struct outlives the call, which is libc's own: a cancellation point.
    ops::took(unsafe { hooks::fcntl::real()(memory, libc::F_SETLKW, &raw mut lock as _) } as isize)?;
    lock.l_type = libc::F_UNLCK as _;
    let _ = raw::fcntl(memory, libc::F_SETLK, &raw const lock as usize);
    Ok(true)
}

/// The pusher, before it begins, and when it is done.
pub fn hold(fd: i32, on: bool) {
    if let Some((memory, lock)) = lock_of(fd, if on { libc::F_WRLCK } else { libc::F_UNLCK }) {
        let _ = raw::fcntl(memory, libc::F_SETLK, &raw const lock as usize);
    }
}

/// The pusher, when it is done: who waits for an edge was told EAGAIN by us and not by the kernel, which therefore does
/// not know that somebody wants to hear of room.
pub fn tell(fd: i32) {
    let mut p = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
    // Where there is none yet, asking is what makes it tell.
    // SAFETY: one entry.
    unsafe { hooks::poll::real()(&mut p, 1, 0) };
    // Where there is, setting this option does, to whatever it is set.
    if let Ok(same) = raw::getsockopt_int(fd, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT) {
        let _ = raw::setsockopt_int(fd, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, same);
    }
}
