//! Which members have a connection.
//!
//! A bit for each, and their number: whoever takes the last one away learns it, and nobody else does.

use super::member::MEMBERS;
use dp_edge::sync::{AtomicU32, AtomicU64, Ordering};

/// See the module.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Holders {
    bits: [AtomicU64; MEMBERS / 64],
    count: AtomicU32,
    _unused: AtomicU32,
}

/// What came of [`Holders::add_beside`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Added {
    /// The member has it.
    Yes,
    /// It has not: the other one has it no more.
    Not,
    /// Nor has anybody else, and they did not know that they were the last: what is to be done then, is the caller's to do.
    Last,
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

    /// Member `n`, too. Only where nobody else can take the last one away meanwhile: the caller has just done that, or stands for one
    /// that stays.
    pub fn add(&self, n: u32) {
        let (w, bit) = place(n);
        // Counted before: others may leave meanwhile, and must not find that they were the last.
        self.count.fetch_add(1, Ordering::AcqRel);
        if self.bits[w].fetch_or(bit, Ordering::AcqRel) & bit != 0 {
            self.count.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Member `n`, too, if `of` has it, for whose sake that is; another thread may take `of` away meanwhile.
    pub fn add_beside(&self, n: u32, of: u32) -> Added {
        let one_more = |count| (count > 0).then_some(count + 1);
        // Counted first: as long as somebody is, nobody begins another connection here. With none, it may be another's at any moment.
        if self.count.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).is_err() {
            return Added::Not;
        }
        let (w, bit) = place(n);
        let has = self.has(of);
        if has && self.bits[w].fetch_or(bit, Ordering::AcqRel) & bit == 0 {
            return Added::Yes;
        }
        let last = self.count.fetch_sub(1, Ordering::AcqRel) == 1;
        match (last, has) {
            (true, _) => Added::Last,
            (false, true) => Added::Yes,
            (false, false) => Added::Not,
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
