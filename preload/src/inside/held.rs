//! Files that are no connections, held for a call that waits and then works with them: the program may close the number
//! meanwhile, or put something else there, and a call goes on with the file that it began with.
//!
//! A call that never comes back, by longjmp or cancellation, leaves its copy behind, and a pipe would never end: the thread's next
//! call finds that one, and once the thread has ended, anybody's. A forked child has none of them.

use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use dp_edge::sys::raw;

use super::{alone, below};
use crate::{fdtable, own, state};

/// Files held at once. Further calls go by their number.
const PLACES: usize = 64;

struct Held {
    /// The thread whose call has it; 0: nobody's.
    tid: AtomicU32,
    /// The copy; -1: not made yet.
    fd: AtomicI32,
    /// Something in the call's frame.
    frame: AtomicU64,
}

static HELD: [Held; PLACES] =
    [const { Held { tid: AtomicU32::new(0), fd: AtomicI32::new(-1), frame: AtomicU64::new(0) } }; PLACES];

impl Held {
    fn take(&self, of: u32, by: u32) -> bool {
        self.tid.compare_exchange(of, by, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Whether its call will not come back, as a thread `me` sees that is in `frame`.
    fn was_left(&self, of: u32, me: u32, frame: u64) -> bool {
        if of == me {
            return !below(self.frame.load(Ordering::Relaxed), frame);
        }
        of != 0 && raw::probe_thread(raw::getpid(), of) == Err(libc::ESRCH)
    }

    fn end(&self) {
        own::close(self.fd.swap(-1, Ordering::AcqRel));
        self.tid.store(0, Ordering::Release);
    }
}

/// Another number for the file behind `fd`, until it is given to [`release`]; `frame` is a variable of the call's. `None`: no other
/// thread can change the number, or there is no room; the call goes by its number.
pub fn hold<T>(fd: i32, frame: &T) -> Option<i32> {
    if alone() {
        return None;
    }
    let (me, frame) = (state::me() as u32, core::ptr::from_ref(frame) as u64);
    for held in &HELD {
        let of = held.tid.load(Ordering::Acquire);
        if held.was_left(of, me, frame) && held.take(of, me) {
            held.end();
        }
    }
    let held = HELD.iter().find(|held| held.take(0, me))?;
    held.frame.store(frame, Ordering::Relaxed);
    let copy = own::copy(fd);
    match copy {
        Some(copy) => {
            fdtable::mark_internal(copy);
            held.fd.store(copy, Ordering::Release);
        }
        None => held.end(),
    }
    copy
}

/// The call is through with a copy.
pub fn release(copy: i32) {
    if let Some(held) = HELD.iter().find(|held| held.fd.load(Ordering::Acquire) == copy) {
        held.end();
    }
}

/// In a forked child: the calls are the parent's.
pub(super) fn inherited() {
    for held in HELD.iter().filter(|held| held.tid.load(Ordering::Relaxed) != 0) {
        held.end();
    }
}
