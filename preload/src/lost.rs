//! Wake-ups that were lost, and found by a second look.

use core::sync::atomic::{AtomicPtr, Ordering};

use dp_edge::sys::raw;

use crate::state;

/// A sleep that lasts long looks again for wake-ups that were lost: first after so long, ns, then after twice as long
/// each time, up to the last.
pub const FIRST_NET: i64 = 1_000_000_000;
pub const LAST_NET: i64 = 64_000_000_000;

/// How long a bell may be on its way, ns, and how often that is waited for: its sender may have been preempted between
/// saying that it rings and ringing.
const ON_ITS_WAY: u32 = 20_000_000;
const TURNS: u32 = 10;

/// Whether what is `unheard` of stays so.
#[cold]
pub fn never_comes(unheard: impl Fn() -> bool) -> bool {
    unheard()
        && (0..TURNS).all(|_| {
            raw::nap(ON_ITS_WAY);
            unheard()
        })
}

/// Counts a wake-up that was lost and found by a second look.
#[cold]
pub fn count() {
    if let Some(f) = state::family() {
        f.header().lost.fetch_add(1, Ordering::Relaxed);
    }
    let path = LOST.load(Ordering::Acquire);
    if !path.is_null() {
        // SAFETY: a C string that was leaked.
        raw::append(unsafe { core::ffi::CStr::from_ptr(path) }, state::program());
    }
}

/// The file that hears of each lost wake-up (`DP_LOST`), or null.
static LOST: AtomicPtr<core::ffi::c_char> = AtomicPtr::new(core::ptr::null_mut());

/// Keeps the name of that file. Called by the constructor only.
pub fn set_file(path: std::ffi::CString) {
    LOST.store(path.into_raw(), Ordering::Release);
}
