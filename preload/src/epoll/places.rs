//! Where sets lie: places in slabs that are made when they are needed, and never unmapped.

use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use super::Place;
use crate::{fdtable, state};

const SLAB: usize = 64;
/// As many places as an entry of the table of descriptors can name.
const SLABS: usize = MOST as usize / SLAB;
pub const MOST: u32 = fdtable::INDEXES;
static TABLE: [AtomicPtr<Place>; SLABS] = [const { AtomicPtr::new(core::ptr::null_mut()) }; SLABS];
/// Places that were ever taken lie below.
static HIGH: AtomicU32 = AtomicU32::new(0);
static FREE: Free = Free(AtomicU64::new(0));

/// Where to begin to look for a free place: all below are taken.
///
/// ```text
///   63          32 31          0
///  +--------------+-------------+
///  | given back   |    place    |     whoever found places taken moves it only if none was given back meanwhile
///  +--------------+-------------+
/// ```
struct Free(AtomicU64);

impl Free {
    fn now(&self) -> (u64, u32) {
        let now = self.0.load(Ordering::Acquire);
        (now, now as u32)
    }

    /// Since it was `then`, all places below `next` were found taken.
    fn taken(&self, then: u64, next: u32) {
        let new = then >> 32 << 32 | u64::from(next);
        let _ = self.0.compare_exchange(then, new, Ordering::AcqRel, Ordering::Relaxed);
    }

    fn given_back(&self, i: u32) {
        let new = |now: u64| Some(((now >> 32).wrapping_add(1) << 32) | u64::from((now as u32).min(i)));
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, new);
    }
}

pub fn place(i: u32) -> Option<&'static Place> {
    let slab = TABLE.get(i as usize / SLAB)?.load(Ordering::Acquire);
    // SAFETY: made by take(), SLAB places, never unmapped.
    (!slab.is_null()).then(|| unsafe { &*slab.add(i as usize % SLAB) })
}

/// All places in use.
pub fn places() -> impl Iterator<Item = (u32, &'static Place)> {
    made().filter(|(_, p)| p.taken.load(Ordering::Acquire))
}

/// All places that ever were, free ones as well.
pub fn made() -> impl Iterator<Item = (u32, &'static Place)> {
    (0..HIGH.load(Ordering::Acquire)).filter_map(|i| place(i).map(|p| (i, p)))
}

/// Whether it is one of those that are taken first, and so again and again.
pub fn is_early(i: u32) -> bool {
    (i as usize) < SLAB
}

/// A free place, taken.
pub fn take() -> Option<u32> {
    let (then, mut i) = FREE.now();
    loop {
        let slab = i as usize / SLAB;
        let there = TABLE.get(slab)?;
        if there.load(Ordering::Acquire).is_null() {
            let new = state::reserve::<Place>(SLAB * size_of::<Place>())?;
            if there
                .compare_exchange(core::ptr::null_mut(), new, Ordering::AcqRel, Ordering::Relaxed)
                .is_err()
            {
                // SAFETY: ours, and nobody else has seen it.
                unsafe { libc::munmap(new.cast(), SLAB * size_of::<Place>()) };
            }
        }
        let p = place(i)?;
        // Before: whoever goes through all must not miss one that is taken.
        HIGH.fetch_max(i + 1, Ordering::AcqRel);
        if p.taken.compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            FREE.taken(then, i + 1);
            return Some(i);
        }
        i += 1;
    }
}

/// Place `i` may be taken again.
pub fn give_back(i: u32, p: &Place) {
    p.taken.store(false, Ordering::Release);
    FREE.given_back(i);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_is_given_back_while_another_is_looked_for_is_found() {
        let free = Free(AtomicU64::new(0));
        let (then, _) = free.now();
        free.taken(then, 6);
        assert_eq!(free.now().1, 6);
        for given_back in [2, 6] {
            let (then, _) = free.now();
            free.given_back(given_back);
            free.taken(then, 9);
            assert!(free.now().1 <= given_back, "{given_back} is passed");
            let (then, _) = free.now();
            free.taken(then, 6);
        }
    }
}
