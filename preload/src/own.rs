//! Descriptors of the shim's own: at high numbers, so that the program's stay small and dense, and marked in the table, so
//! that the program neither closes nor sees them.

use core::sync::atomic::{AtomicI32, Ordering};
use std::os::fd::IntoRawFd;

use dp_channel::family::Family;
use dp_edge::sys::raw;

use crate::fdtable::{self, Entry};
use crate::state;

/// Where descriptors of ours begin, if the program may have that many: beyond what select(2) takes. Not much further,
/// because each fork copies the table of descriptors up to the highest.
const HIGH: usize = 1024;

/// Moves a descriptor of ours to a high number, so that the program's stay small and dense. Closes it and
/// says `None` when there is no room: then it is the program that needs it.
pub fn high(fd: i32) -> Option<i32> {
    let high = copy(fd);
    raw::close(fd);
    high
}

/// A copy of a descriptor, where ours are. `None`: there is no room.
pub fn copy(fd: i32) -> Option<i32> {
    let soft = state::descriptor_limit() as usize;
    [soft.saturating_sub(64).min(HIGH), soft / 2]
        .into_iter()
        .find_map(|min| raw::fcntl(fd, libc::F_DUPFD_CLOEXEC, min).ok())
        .map(|n| n as i32)
}

/// The same, at that number or the next that is free, if it is one.
pub fn copy_at(fd: i32, number: i32) -> Option<i32> {
    let at = |number| raw::fcntl(fd, libc::F_DUPFD_CLOEXEC, number as usize).ok().map(|n| n as i32);
    Some(number).filter(|&n| n > 0).and_then(at).or_else(|| copy(fd))
}

/// Moves a descriptor of ours to a high number, and marks it. Closes it and says `None` when there is no room.
pub fn keep(fd: i32) -> Option<i32> {
    high(fd).inspect(|&fd| fdtable::mark_internal(fd))
}

/// Whether the number still stands for a descriptor of ours: the program may have closed all that there are.
pub fn is(fd: i32) -> bool {
    fdtable::get(fd) == Entry::Internal
}

/// Closes a descriptor of ours, if the number still stands for it.
pub fn close(fd: i32) {
    if is(fd) {
        forget(fd);
    }
}

/// Closes a descriptor of ours whose number nobody but us can have closed.
pub fn forget(fd: i32) {
    fdtable::set(fd, Entry::None);
    raw::close(fd);
}

/// The descriptor of ours that `at` has, -1 for none: made now where there is none, or the program has closed it.
pub fn once(at: &AtomicI32, make: impl FnOnce() -> Result<i32, i32>) -> Option<i32> {
    let now = at.load(Ordering::Acquire);
    if is(now) {
        return Some(now);
    }
    let fd = keep(make().ok()?)?;
    match at.compare_exchange(now, fd, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Some(fd),
        Err(other) => {
            forget(fd);
            Some(other)
        }
    }
}

/// The family, made now if need be. `None` when there is no memory or descriptor for it.
pub fn family_or_make() -> Option<Family> {
    if let Some(family) = state::family() {
        return Some(family);
    }
    if !state::roomy() {
        return None;
    }
    let (family, fd) = Family::create().ok()?;
    // Where another thread was faster, ours is closed on drop, and its mapping stays (sparse).
    if state::set_family(family)? {
        // Kept open for `dp ls`, out of the program's way.
        if let Some(fd) = keep(fd.into_raw_fd()) {
            state::set_family_fd(fd);
        }
    }
    state::family()
}
