//! Which members have a connection.
//!
//! A bit for each, and their number: whoever takes the last one away learns it, and nobody else does.

use super::member::MEMBERS;
use dp_edge::sync::{AtomicU32, AtomicU64, Ordering};

/// See the module.
#[derive(Debug)]
#[repr(C)]
pub struct Holders {
    bits: [AtomicU64; MEMBERS / 64],
    count: AtomicU32,
    _unused: AtomicU32,
}

fn place(n: u32) -> (usize, u64) {
    (n as usize % MEMBERS / 64, 1 << (n % 64))
}

impl Holders {
    /// Member `n` alone, in a new entry.
    pub fn begin(&self, n: u32) {
        for w in &self.bits {
            w.store(0, Ordering::Relaxed);
        }
        let (w, bit) = place(n);
        self.bits[w].store(bit, Ordering::Relaxed);
        self.count.store(1, Ordering::Release);
    }

    /// Member `n`, too. Only for the sake of one that has it.
    pub fn add(&self, n: u32) {
        let (w, bit) = place(n);
        // Counted before: others may leave meanwhile, and must not find that they were the last.
        self.count.fetch_add(1, Ordering::AcqRel);
        if self.bits[w].fetch_or(bit, Ordering::AcqRel) & bit != 0 {
            self.count.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Member `n`, which has let others have it, again. False: they are through with it.
    pub fn add_again(&self, n: u32) -> bool {
        let one_more = |count| (count > 0).then_some(count + 1);
        let others = self.count.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).is_ok();
        let (w, bit) = place(n);
        if others && self.bits[w].fetch_or(bit, Ordering::AcqRel) & bit != 0 {
            self.count.fetch_sub(1, Ordering::AcqRel);
        }
        others
    }

    /// Member `n` no more. True if it was the last: what is to be done when there is none, is the caller's to do.
    pub fn remove(&self, n: u32) -> bool {
        let (w, bit) = place(n);
        self.bits[w].fetch_and(!bit, Ordering::AcqRel) & bit != 0
            && self.count.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Whether member `n` has it.
    pub fn has(&self, n: u32) -> bool {
        let (w, bit) = place(n);
        self.bits[w].load(Ordering::Acquire) & bit != 0
    }

    /// All of them.
    pub fn each(&self) -> impl Iterator<Item = u32> + '_ {
        self.bits.iter().enumerate().flat_map(|(w, bits)| {
            let mut left = bits.load(Ordering::Acquire);
            core::iter::from_fn(move || {
                let n = (left != 0).then(|| left.trailing_zeros())?;
                left &= left - 1;
                Some(w as u32 * 64 + n)
            })
        })
    }
}
