//! Descriptors of the shim's own: at high numbers, so that the program's stay small and dense, and marked in the table, so
//! that the program neither closes nor sees them.

use core::sync::atomic::{AtomicU32, Ordering};
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
    close_as(fd, fdtable::settled(fd));
}

/// Closes a descriptor of ours whose number nobody but us can have closed.
pub fn forget(fd: i32) {
    let word = fdtable::settled(fd);
    if fdtable::is_own(word) {
        close_as(fd, word);
    } else {
        raw::close(fd);
    }
}

/// Closes a descriptor of ours whose entry is `word`, in one step for threads of the program that want its number: what they put there
/// meanwhile would be closed in its place.
fn close_as(fd: i32, word: u32) {
    if !fdtable::is_own(word) {
        return;
    }
    // A handler that wants the number would wait for what it has interrupted, and one that leaves would leave it half done.
    let blocked = raw::block_signals();
    if fdtable::change_own(fd, word) {
        raw::close(fd);
        fdtable::changed(fd, word);
    }
    raw::set_blocked_signals(blocked);
}

/// A descriptor of ours, and which one. The program may put something else at its number, and close that; then another one of ours
/// may have the number.
///
/// ```text
///   30         21 20            0
///  +-------------+---------------+
///  |   serial    |    fd + 1     |     0: none
///  +-------------+---------------+
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Named(u32);

/// Bits of a number plus one.
const NUMBER: u32 = fdtable::LIMIT.ilog2() + 1;

impl Named {
    /// None.
    pub const NONE: Named = Named(0);
    /// The bits of one as a word.
    pub const BITS: u32 = NUMBER + fdtable::SERIALS.ilog2();

    /// Marks `fd` as ours from now on. None where it cannot be.
    pub fn mark(fd: i32) -> Named {
        match fdtable::mark_and_name(fd) {
            0 => Named::NONE,
            serial => Named(serial << NUMBER | (fd as u32 + 1)),
        }
    }

    /// Moves `fd` to a high number, and marks it as ours. Closes it and says `None` where it cannot be.
    pub fn keep(fd: i32) -> Option<Named> {
        let fd = high(fd)?;
        let named = Some(Named::mark(fd)).filter(|&named| named != Named::NONE);
        if named.is_none() {
            raw::close(fd);
        }
        named
    }

    /// Of a word.
    pub const fn from_word(word: u32) -> Named {
        Named(word)
    }

    /// As a word.
    pub fn word(self) -> u32 {
        self.0
    }

    /// Its number, as long as that stands for it.
    pub fn fd(self) -> Option<i32> {
        let fd = (self.0 & ((1 << NUMBER) - 1)) as i32 - 1;
        fdtable::is_internal(fd, self.0 >> NUMBER).then_some(fd)
    }

    /// Closes it, if its number still stands for it.
    pub fn close(self) {
        if let Some(fd) = self.fd() {
            close_as(fd, fdtable::internal_word(self.0 >> NUMBER));
        }
    }
}

/// A place for a descriptor of ours. All zero has none.
#[derive(Debug)]
pub struct Mine(AtomicU32);

impl Mine {
    /// It has none.
    pub const fn none() -> Mine {
        Mine(AtomicU32::new(0))
    }

    /// Marks `fd` as ours, and has it from now on, whatever it had.
    pub fn hold(&self, fd: i32) {
        self.put(Named::mark(fd));
    }

    /// Has `named` from now on, whatever it had.
    pub fn put(&self, named: Named) {
        self.0.store(named.word(), Ordering::Release);
    }

    /// Its number, as long as that stands for it.
    pub fn fd(&self) -> Option<i32> {
        self.named().fd()
    }

    /// Whether it was given one since it had none, whatever became of that.
    pub fn had_one(&self) -> bool {
        self.named() != Named::NONE
    }

    /// It has none from now on.
    pub fn take(&self) -> Named {
        Named(self.0.swap(0, Ordering::AcqRel))
    }

    fn named(&self) -> Named {
        Named(self.0.load(Ordering::Acquire))
    }

    /// What it has, made now where it has none, or the program has closed it.
    pub fn or_make(&self, make: impl FnOnce() -> Result<i32, i32>) -> Option<i32> {
        let now = self.named();
        if let Some(fd) = now.fd() {
            return Some(fd);
        }
        let made = Named::keep(make().ok()?)?;
        match self.0.compare_exchange(now.word(), made.word(), Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => made.fd(),
            Err(other) => {
                made.close();
                Named(other).fd()
            }
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

#[cfg(test)]
pub mod tests;
