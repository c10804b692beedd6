//! Descriptors for one line each, where the program's standard error is what lines go to.
//!
//! Each has a place here, which keeps its number. A fork copies descriptors first and memory last, while other threads go on,
//! so its child can have one whose place is free by then. Places keep the number, therefore, and the next descriptor of a place
//! has it again, if it is free; the child looks at all of them, and closes what is ours.

use core::sync::atomic::{AtomicI32, Ordering};

use dp_edge::sys::line::{self, Kind};
use dp_edge::sys::raw;

use crate::{fdtable, own, state};

#[cfg(test)]
mod tests;

/// Lines that are on their way at the same time. One more is missed.
const PLACES: usize = 16;
/// In a place, beside its number: a line is on its way.
const BUSY: i32 = 1 << 30;
/// The number that each has, or had last; 0: none.
static NUMBERS: [AtomicI32; PLACES] = [const { AtomicI32::new(0) }; PLACES];

/// Does `write` with a descriptor of ours for what `fd` stands for, which is closed afterwards. All signals of this thread are
/// blocked: a handler that leaves by longjmp would keep the place. False: it was not written, or there was no descriptor.
pub fn with(fd: i32, kind: Kind, write: impl FnOnce(i32) -> bool) -> bool {
    // In a child of vfork the marks would be its parent's, and the descriptors would not.
    if state::is_borrowed_memory() {
        return false;
    }
    let Some((place, number)) = take() else { return false };
    let copy = copy(fd, kind, number);
    let done = copy.is_some_and(|copy| {
        place.store(copy | BUSY, Ordering::Release);
        used(copy, write)
    });
    place.fetch_and(!BUSY, Ordering::Release);
    done
}

/// A place that nobody has, and its number.
fn take() -> Option<(&'static AtomicI32, i32)> {
    NUMBERS.iter().find_map(|place| {
        let number = place.load(Ordering::Relaxed);
        let is_free = number & BUSY == 0;
        let take = || place.compare_exchange(number, number | BUSY, Ordering::AcqRel, Ordering::Relaxed);
        (is_free && take().is_ok()).then_some((place, number))
    })
}

/// What a device's open file does for the program, waiting, it would do for a copy.
fn copy(fd: i32, kind: Kind, number: i32) -> Option<i32> {
    if kind != Kind::Device {
        return own::copy_at(fd, number);
    }
    let opened = line::reopen(fd).ok()?;
    let copy = own::copy_at(opened, number);
    raw::close(opened);
    copy
}

/// A descriptor of ours, as all are, and closed as they are.
fn used(copy: i32, write: impl FnOnce(i32) -> bool) -> bool {
    // While the library is loaded there is no table, and nobody who would close it.
    let is_marked = fdtable::covers(copy);
    if is_marked {
        fdtable::mark_internal(copy);
    }
    let done = write(copy);
    if is_marked {
        own::close(copy);
    } else {
        raw::close(copy);
    }
    done
}

/// In a forked child: closes what its parent's other threads were writing by. `is_same`: whether a descriptor is for the file
/// that lines go to.
pub fn inherited(is_same: impl Fn(i32) -> bool) {
    for place in &NUMBERS {
        let value = place.load(Ordering::Relaxed);
        let number = value & !BUSY;
        if value != number {
            place.store(number, Ordering::Relaxed);
        }
        if number == 0 {
            continue;
        }
        let flags = raw::fcntl(number, libc::F_GETFD, 0);
        if flags == Ok(libc::FD_CLOEXEC as usize) && is_same(number) {
            own::forget(number);
        } else if flags.is_err() && own::is(number) {
            fdtable::clear(number);
        }
    }
}
