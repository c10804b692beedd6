//! The strangers' ends of relays, by connection, for further copies of the same one ([`crate::relay`]).

use core::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use dp_channel::family::CONNS;
use dp_edge::sys::raw;

use crate::{own, state};

/// The stranger's end by connection, plus one; 0 none. Null as long as there was no relay.
static ENDS: AtomicPtr<AtomicI32> = AtomicPtr::new(core::ptr::null_mut());

/// The table of [`ENDS`] is there from now on, unless there is no memory for it.
fn prepare() {
    let bytes = CONNS * size_of::<AtomicI32>();
    if !ENDS.load(Ordering::Acquire).is_null() {
        return;
    }
    let Some(p) = state::reserve(bytes) else { return };
    if ENDS.compare_exchange(core::ptr::null_mut(), p, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        // SAFETY: just mapped; another thread was faster, and nobody has seen this one.
        let _ = unsafe { raw::call(libc::SYS_munmap, [p as usize, bytes, 0, 0, 0, 0]) };
    }
}

fn kept(i: u32) -> Option<&'static AtomicI32> {
    let p = ENDS.load(Ordering::Acquire);
    // SAFETY: CONNS entries, zero at first; the index is masked to them.
    (!p.is_null()).then(|| unsafe { &*p.add(i as usize & (CONNS - 1)) })
}

/// The end to give away in place of connection `i`, if there is a relay for it.
pub fn of(i: u32) -> Option<i32> {
    kept(i).and_then(|k| k.load(Ordering::Acquire).checked_sub(1)).filter(|fd| *fd >= 0)
}

/// The program has no descriptor of connection `i` any more.
pub fn forget(i: u32) {
    let Some(k) = kept(i) else { return };
    if let fd @ 1.. = k.swap(0, Ordering::AcqRel) {
        own::close(fd - 1);
    }
}

/// The program puts something else at number `fd`, which is ours: an end that is kept there is kept at another.
pub fn moves_from(fd: i32) {
    for i in 0..CONNS as u32 {
        let Some(k) = kept(i) else { return };
        if k.load(Ordering::Relaxed) == fd + 1 {
            let copy = own::copy(fd).inspect(|&copy| crate::fdtable::mark_internal(copy));
            k.store(copy.map_or(0, |copy| copy + 1), Ordering::Release);
        }
    }
}

/// Keeps `end` for connection `i`, if there is memory for it.
pub fn keep(i: u32, end: i32) {
    prepare();
    if let Some(k) = kept(i) {
        crate::fdtable::mark_internal(end);
        k.store(end + 1, Ordering::Release);
    }
}
