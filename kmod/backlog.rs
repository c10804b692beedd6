// SPDX-License-Identifier: GPL-2.0

//! The numbers of a namespace that have messages, but nobody who opened them. Each has a pool, which stays as long as
//! one of its senders is there, and [`LINGER`] more.
//!
//! A number may be opened and closed, and then sent to again: a pool is known by itself, not by its number.

use kernel::{
    prelude::*,
    sync::Arc,
    time::{Delta, Instant, Monotonic},
};

use crate::pool::Pool;

#[cfg(CONFIG_KUNIT = "y")]
mod tests;

/// How long messages outlive their senders.
const LINGER: Delta = Delta::from_secs(10);
/// Such numbers, at most, in one namespace.
const MOST: usize = 1024;

pub(crate) struct Backlog(KVec<Entry>);

struct Entry {
    pool: Arc<Pool>,
    /// Endpoints that have left something there, or are about to, and are not closed.
    keepers: u32,
    /// When the last of them went.
    left: Option<Instant<Monotonic>>,
}

impl Backlog {
    pub(crate) const fn new() -> Self {
        Self(KVec::new())
    }

    /// Whether there may be one more. If so, there is memory for it.
    pub(crate) fn has_room(&mut self) -> Result<bool> {
        let room = self.0.len() < MOST;
        if room {
            self.0.reserve(1, GFP_KERNEL)?;
        }
        Ok(room)
    }

    /// A new one, with whom it was made for.
    pub(crate) fn push(&mut self, pool: &Arc<Pool>) -> Result {
        Ok(self.0.push(Entry { pool: pool.clone(), keepers: 1, left: None }, GFP_KERNEL)?)
    }

    /// One more endpoint leaves something there.
    pub(crate) fn keep(&mut self, pool: &Arc<Pool>) {
        if let Some(entry) = self.entry(pool) {
            entry.keepers += 1;
            entry.left = None;
        }
    }

    /// One of them goes. The pool may be no longer here.
    pub(crate) fn sender_left(&mut self, pool: &Arc<Pool>) {
        if let Some(entry) = self.entry(pool) {
            entry.keepers -= 1;
            if entry.keepers == 0 {
                entry.left = Some(Instant::now());
            }
        }
    }

    /// Somebody has opened it.
    pub(crate) fn forget(&mut self, pool: &Arc<Pool>) {
        self.0.retain(|e| !Arc::ptr_eq(&e.pool, pool));
    }

    /// One that nobody came for.
    pub(crate) fn take_old(&mut self) -> Option<Arc<Pool>> {
        let old = self.0.iter().position(|e| e.time_left().is_some_and(|time| time.is_zero()))?;
        self.0.remove(old).ok().map(|e| e.pool)
    }

    /// How long until there is such a one.
    pub(crate) fn next_is_old_in(&self) -> Option<Delta> {
        self.0.iter().filter_map(Entry::time_left).min()
    }

    fn entry(&mut self, pool: &Arc<Pool>) -> Option<&mut Entry> {
        self.0.iter_mut().find(|e| Arc::ptr_eq(&e.pool, pool))
    }
}

impl Entry {
    fn time_left(&self) -> Option<Delta> {
        Some((LINGER - self.left?.elapsed()).max(Delta::ZERO))
    }
}
