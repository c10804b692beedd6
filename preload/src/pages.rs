//! Values of the shim's own that each have a page to themselves, without malloc.
//!
//! The first ones lie beside the tables of [`crate::fdtable`], in the same mapping: a fork pays for each mapping as much as
//! for a page that is copied.

use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::state;

pub const PAGE: usize = 4096;
/// Pages beside the tables; further ones are mapped one by one.
pub const BESIDE: usize = u64::BITS as usize;

/// The first of them; null: there are none.
static FIRST: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
/// A bit for each that has a value.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// The pages beside the tables begin at `first`.
pub fn prepare(first: *mut u8) {
    FIRST.store(first, Ordering::Release);
}

/// Puts a value into a page.
pub fn leak_value<T>(value: T) -> Option<*mut T> {
    const { assert!(size_of::<T>() <= PAGE) };
    let p = take().map(|p| p.cast()).or_else(|| state::reserve::<T>(PAGE))?;
    // SAFETY: nobody else has the page, and it is larger than T.
    unsafe { p.write(value) };
    Some(p)
}

/// Takes back what [`leak_value`] gave.
///
/// # Safety
///
/// `p` came from there and nobody uses it any more.
pub unsafe fn free_value<T>(p: *mut T) {
    match number(p as usize) {
        Some(n) => {
            TAKEN.fetch_and(!(1 << n), Ordering::Release);
        }
        // SAFETY: one page, by the contract.
        None => unsafe {
            libc::munmap(p.cast(), PAGE);
        },
    }
}

fn take() -> Option<*mut u8> {
    let first = FIRST.load(Ordering::Acquire);
    if first.is_null() {
        return None;
    }
    let mut taken = TAKEN.load(Ordering::Relaxed);
    while taken != u64::MAX {
        let n = taken.trailing_ones();
        match TAKEN.compare_exchange_weak(taken, taken | 1 << n, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => return Some(first.wrapping_add(n as usize * PAGE)),
            Err(now) => taken = now,
        }
    }
    None
}

/// Which of the pages beside the tables begins at `address`.
fn number(address: usize) -> Option<usize> {
    let first = FIRST.load(Ordering::Acquire) as usize;
    let n = address.checked_sub(first)? / PAGE;
    (first != 0 && n < BESIDE).then_some(n)
}
