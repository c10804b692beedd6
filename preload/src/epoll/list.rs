//! What a wait looks at without the set's lock: the hot connections, a word each, and the groups by which the set says
//! that it sleeps.
//!
//! ```text
//!   entry:   31      30                 0
//!           +-------+--------------------+
//!           | reads |     connection     |     a stale one only means a look too many
//!           +-------+--------------------+
//! ```

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use dp_channel::bell::Group;
use dp_channel::family::{Family, Stage};
use dp_channel::watch::MAX_HOT;

use crate::{spin, state};

/// Arenas in which a set has a group at most; connections in others stay cold.
pub const MAX_ARENAS: usize = 32;
const READS: u32 = 1 << 31;

/// See the module. All zero is an empty one; once made it is never unmapped.
pub struct Looked {
    n: AtomicU32,
    entry: [AtomicU32; MAX_HOT],
    /// All groups are those of arenas in which something is hot, since it was found so.
    no_room: AtomicBool,
    /// Address of a side's groups in an arena, and which of them is ours, from 1 on. Under the set's lock.
    groups: UnsafeCell<Groups>,
}

// SAFETY: `groups` is used under the set's lock only; the rest is made of atomics.
unsafe impl Sync for Looked {}

struct Groups {
    n: usize,
    list: [(usize, u8); MAX_ARENAS],
}

impl Looked {
    /// Place `at` is connection `conn`.
    pub fn set(&self, at: usize, conn: u32, reads: bool) {
        if let Some(e) = self.entry.get(at) {
            e.store(conn | if reads { READS } else { 0 }, Ordering::Relaxed);
        }
    }

    /// So many places are in use.
    pub fn set_len(&self, n: usize) {
        if self.has_no_room() && n < self.n.load(Ordering::Relaxed) as usize {
            self.no_room.store(false, Ordering::Relaxed);
        }
        self.n.store(n.min(MAX_HOT) as u32, Ordering::Release);
    }

    /// Whether there was no room for a further group when it was looked for last, and nothing is cold since.
    pub fn has_no_room(&self) -> bool {
        self.no_room.load(Ordering::Relaxed)
    }

    /// It is so.
    pub fn found_no_room(&self) {
        self.no_room.store(true, Ordering::Relaxed);
    }

    /// Whether there is room for a further group.
    ///
    /// # Safety
    ///
    /// The caller has the set's lock.
    pub unsafe fn has_room(&self) -> bool {
        // SAFETY: by the contract.
        unsafe { &*self.groups.get() }.n < MAX_ARENAS
    }

    /// Whether one of the connections may have something. Without the lock.
    pub fn any(&self, family: Family) -> bool {
        let n = self.n.load(Ordering::Acquire) as usize;
        self.entry[..n.min(MAX_HOT)].iter().any(|e| {
            let e = e.load(Ordering::Relaxed);
            let c = family.conn(e & !READS);
            e & READS != 0 && c.stage() == Stage::Live && c.hint(&c.receiving_unasked())
        })
    }

    /// How long a spin for one of them may take at most, ns: they share the processor, and the most patient one says.
    pub fn longest(&self, family: Family) -> u32 {
        if !state::spins_differ() {
            return state::SPIN.load(Ordering::Relaxed);
        }
        let n = self.n.load(Ordering::Acquire) as usize;
        let all = self.entry[..n.min(64)].iter();
        all.map(|e| spin::longest(family.conn(e.load(Ordering::Relaxed) & !READS))).max().unwrap_or(0)
    }

    /// Whether looking at one of them can pay: its peer runs on another CPU.
    pub fn may_pay(&self, family: Family) -> bool {
        let n = self.n.load(Ordering::Acquire) as usize;
        self.entry[..n.min(64)].iter().any(|e| {
            let c = family.conn(e.load(Ordering::Relaxed) & !READS);
            c.stage() == Stage::Live && spin::can_pay(c, &c.receiving())
        })
    }

    /// The group known by `address`. Under the set's lock.
    ///
    /// # Safety
    ///
    /// The caller has the set's lock.
    pub unsafe fn group(&self, address: usize) -> Option<u8> {
        // SAFETY: by the contract.
        let groups = unsafe { &*self.groups.get() };
        groups.list[..groups.n].iter().find(|g| g.0 == address).map(|g| g.1)
    }

    /// One more group, for which there is room.
    ///
    /// # Safety
    ///
    /// The caller has the set's lock; the address is that of groups in an arena that stays mapped.
    pub unsafe fn add_group(&self, address: usize, i: u8) {
        // SAFETY: by the contract.
        let groups = unsafe { &mut *self.groups.get() };
        groups.list[groups.n] = (address, i);
        groups.n += 1;
    }

    /// Calls `f` with every group.
    ///
    /// # Safety
    ///
    /// The caller has the set's lock.
    pub unsafe fn each_group(&self, f: impl Fn(&Group)) {
        // SAFETY: by the contract.
        let groups = unsafe { &*self.groups.get() };
        for g in &groups.list[..groups.n] {
            // SAFETY: by the contract of add_group().
            f(unsafe { &*(g.0 as *const Group).add(usize::from(g.1) - 1) });
        }
    }

    /// Connections that are hot, from 0 on.
    pub fn connections(&self) -> impl Iterator<Item = u32> + '_ {
        let n = self.n.load(Ordering::Acquire) as usize;
        self.entry[..n.min(MAX_HOT)].iter().map(|e| e.load(Ordering::Relaxed) & !READS)
    }

    /// Keeps the groups whose address satisfies `f`; the others' places in their arenas are given back.
    ///
    /// # Safety
    ///
    /// The caller has the set's lock.
    pub unsafe fn keep_groups(&self, f: impl Fn(usize) -> bool) {
        // SAFETY: by the contract.
        let groups = unsafe { &mut *self.groups.get() };
        let mut k = 0;
        while k < groups.n {
            let (at, i) = groups.list[k];
            if f(at) {
                k += 1;
                continue;
            }
            // SAFETY: by the contract of add_group().
            unsafe { &*(at as *const Group).add(usize::from(i) - 1) }.taken.store(0, Ordering::Release);
            groups.n -= 1;
            groups.list[k] = groups.list[groups.n];
            self.no_room.store(false, Ordering::Relaxed);
        }
    }

    /// Forgets all groups.
    ///
    /// # Safety
    ///
    /// The caller has the set's lock.
    pub unsafe fn forget_groups(&self) {
        // SAFETY: by the contract.
        let groups = unsafe { &mut *self.groups.get() };
        // Each page that a forked child writes to is copied.
        if groups.n != 0 {
            groups.n = 0;
            self.no_room.store(false, Ordering::Relaxed);
        }
    }
}
