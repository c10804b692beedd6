//! A buffer for calls that need more than fits on a small stack: kept, because mapping one costs more than most of
//! these calls do.
//!
//! There are a few, so that a call may have several (a select of a long list), and threads one each. A call that finds all of them
//! taken maps one for itself. A call that never comes back, by longjmp or cancellation, keeps what it has.

use core::sync::atomic::{AtomicPtr, Ordering};

use dp_edge::sys::raw;

use crate::state;

/// The size of each in bytes.
pub const SIZE: usize = 64 * 1024;

static KEPT: [AtomicPtr<u8>; 4] = [const { AtomicPtr::new(core::ptr::null_mut()) }; 4];

/// A buffer of `bytes`, with anything in it, at the start of a page. One longer than [`SIZE`] is mapped each time. `None`: there is no
/// memory.
pub fn take(bytes: usize) -> Option<*mut u8> {
    if bytes > SIZE {
        return state::reserve(bytes);
    }
    // Acquire and release: whoever had it before is through with it.
    let mut kept = KEPT.iter().map(|place| place.swap(core::ptr::null_mut(), Ordering::Acquire));
    kept.find(|at| !at.is_null()).or_else(|| state::reserve(SIZE))
}

/// The buffer `at`, which was taken as one of `bytes`, is the next call's.
pub fn give_back(at: *mut u8, bytes: usize) {
    let is_free = |place: &AtomicPtr<u8>| {
        place.compare_exchange(core::ptr::null_mut(), at, Ordering::Release, Ordering::Relaxed).is_ok()
    };
    if bytes > SIZE || !KEPT.iter().any(is_free) {
        // SAFETY: ours, and nobody refers to it any more. Not libc's call: errno is the program's by now.
        let _ = unsafe { raw::call(libc::SYS_munmap, [at as usize, bytes.max(SIZE), 0, 0, 0, 0]) };
    }
}

/// Gives `f` a buffer of [`SIZE`] bytes. `None`: there is no memory.
pub fn with<R>(f: impl FnOnce(*mut u8) -> R) -> Option<R> {
    let at = take(SIZE)?;
    let result = f(at);
    give_back(at, SIZE);
    Some(result)
}

/// Gives `f` a list of `n`, each of them `nothing`, or where there is no memory for it `few`, which is on the stack and no longer than
/// that stack may bear.
pub fn list<T: Copy, R>(n: usize, few: &mut [T], nothing: T, f: impl FnOnce(&mut [T]) -> R) -> R {
    let bytes = n.saturating_mul(size_of::<T>());
    if let Some(few) = few.get_mut(..n) {
        return f(few);
    }
    let Some(at) = take(bytes) else { return f(few) };
    let first = at.cast::<T>();
    // SAFETY: as many as fit, at the start of a page, ours alone.
    unsafe {
        (0..n).for_each(|i| first.add(i).write(nothing));
        let result = f(core::slice::from_raw_parts_mut(first, n));
        give_back(at, bytes);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a select of a long list does: the list, and what it sleeps on.
    #[test]
    fn who_needs_two_maps_none_the_second_time() {
        let call = || {
            let two = [take(SIZE).unwrap(), take(1).unwrap()];
            two.into_iter().for_each(|at| give_back(at, SIZE));
            two
        };
        let first = call();
        let found = (0..100).any(|_| {
            // Other tests take some as well.
            let mut again = call();
            again.sort();
            first.iter().all(|at| again.contains(at))
        });
        assert!(found);
    }

    #[test]
    fn a_list_is_as_long_as_was_asked_for() {
        for n in [0, 3, 8, 9, 5000, SIZE / 8 + 1] {
            list(n, &mut [0u64; 8], 7, |all| {
                assert_eq!(all.len(), n);
                assert!(n <= 8 || all.iter().all(|&one| one == 7));
                all.fill(1);
            });
        }
    }
}
