//! Files that are no connections, held for a call that waits and then works with them: the program may close the number
//! meanwhile, or put something else there, and a call goes on with the file that it began with.
//!
//! A call that never comes back leaves its copy behind, and a pipe would never end. One that was cancelled, or whose thread a
//! handler ended: the thread's end takes the copy along. One that a handler jumped out of: the thread's next close does, and before
//! that any such call that it makes. A forked child has none of them.

use core::ffi::c_void;
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use dp_edge::sys::raw;

use super::{alone, below, HOOK};
use crate::{fdtable, own, state};

/// Files held at once. Further calls go by their number.
const PLACES: usize = 64;

/// Where a file is held.
pub struct Held {
    /// The thread whose call has it; 0: nobody's.
    tid: AtomicU32,
    /// The copy; -1: not made yet, or lost.
    fd: AtomicI32,
    /// Something in the call's frame.
    frame: AtomicU64,
}

static HELD: [Held; PLACES] =
    [const { Held { tid: AtomicU32::new(0), fd: AtomicI32::new(-1), frame: AtomicU64::new(0) } }; PLACES];
/// How many of them are somebody's.
static COUNT: AtomicU32 = AtomicU32::new(0);
/// The key whose destructor a thread runs that has held something, plus one; 0: none yet.
static KEY: AtomicU32 = AtomicU32::new(0);

impl Held {
    fn take(&self, of: u32, by: u32) -> bool {
        self.tid.compare_exchange(of, by, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Whether its call will not come back, as a thread `me` sees that is in `frame`.
    fn was_left(&self, of: u32, me: u32, frame: u64) -> bool {
        if of == me {
            // Before the copy is there, the frame is a former call's.
            return self.fd.load(Ordering::Acquire) >= 0 && !below(self.frame.load(Ordering::Relaxed), frame);
        }
        of != 0 && raw::probe_thread(raw::getpid(), of) == Err(libc::ESRCH)
    }

    fn end(&self) {
        own::close(self.fd.swap(-1, Ordering::AcqRel));
        COUNT.fetch_sub(1, Ordering::Relaxed);
        self.tid.store(0, Ordering::Release);
    }

    /// The copy's number, asked for before every use: it gives way to what the program puts there. -1: there is none any more.
    pub fn fd(&self) -> i32 {
        let fd = self.fd.load(Ordering::Acquire);
        if own::is(fd) {
            fd
        } else {
            -1
        }
    }

    /// The call is through with it.
    pub fn release(&self) {
        self.end();
    }
}

/// The end of a thread, whatever ends it.
extern "C" fn at_end_of_thread(_: *mut c_void) {
    let me = state::me() as u32;
    for held in HELD.iter().filter(|held| held.tid.load(Ordering::Relaxed) == me) {
        held.end();
    }
}

/// This thread's end is to be told. False: there is no key or memory for that.
fn tell_end() -> bool {
    let mut key = KEY.load(Ordering::Acquire);
    if key == 0 {
        let mut made = 0;
        // SAFETY: a variable of ours, and a function that stays.
        if unsafe { libc::pthread_key_create(&raw mut made, Some(at_end_of_thread)) } != 0 {
            return false;
        }
        key = made + 1;
        if let Err(other) = KEY.compare_exchange(0, key, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: made just now, and nobody knows it.
            unsafe { libc::pthread_key_delete(made) };
            key = other;
        }
    }
    // SAFETY: a key of ours; the value is only asked whether it is null.
    unsafe {
        !libc::pthread_getspecific(key - 1).is_null()
            || libc::pthread_setspecific(key - 1, HELD.as_ptr().cast()) == 0
    }
}

/// Another number for the file behind `fd`, until it is [released](Held::release); `frame` is a variable of the call's. `None`: no
/// other thread can change the number, or there is no room; the call goes by its number.
pub fn hold<T>(fd: i32, frame: &T) -> Option<&'static Held> {
    if alone() || !tell_end() {
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
    COUNT.fetch_add(1, Ordering::Relaxed);
    held.frame.store(frame, Ordering::Relaxed);
    let Some(copy) = own::copy(fd) else {
        held.end();
        return None;
    };
    fdtable::mark_internal(copy);
    held.fd.store(copy, Ordering::Release);
    Some(held)
}

/// The program closes something, in a hook with the variable `frame`: what calls hold that this thread has jumped out of ends.
#[inline]
pub fn sweep<T>(frame: &T) {
    if COUNT.load(Ordering::Relaxed) != 0 {
        end_left(core::ptr::from_ref(frame) as u64);
    }
}

#[cold]
fn end_left(here: u64) {
    if state::is_borrowed_memory() {
        // The copies are in the parent's table of descriptors.
        return;
    }
    let me = state::me() as u32;
    let mine = |held: &&Held| held.tid.load(Ordering::Relaxed) == me && held.was_left(me, me, here + HOOK);
    HELD.iter().filter(mine).for_each(Held::end);
}

/// The program puts something else at number `fd`, which is ours: a copy that is held there is held at another.
#[cold]
pub fn moves_from(fd: i32) {
    if COUNT.load(Ordering::Relaxed) == 0 {
        return;
    }
    let Some(held) = HELD.iter().find(|held| held.fd.load(Ordering::Acquire) == fd) else { return };
    let copy = own::copy(fd).inspect(|&copy| fdtable::mark_internal(copy)).unwrap_or(-1);
    if held.fd.compare_exchange(fd, copy, Ordering::AcqRel, Ordering::Relaxed).is_err() && copy >= 0 {
        // Its call is over.
        own::forget(copy);
    }
}

/// In a forked child: the calls are the parent's.
pub(super) fn inherited() {
    for held in HELD.iter().filter(|held| held.tid.load(Ordering::Relaxed) != 0) {
        held.end();
    }
    // One that was just being taken had not counted yet.
    COUNT.store(0, Ordering::Relaxed);
}
