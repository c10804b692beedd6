// SPDX-License-Identifier: GPL-2.0

//! The place of one sleeper. Most endpoints have one reader: a place for it takes one store and one load where a wait
//! queue takes a lock and a list, in each of going to sleep, waking and having woken. Who finds the place taken sleeps
//! in a queue beside it.

use core::ptr;

use kernel::{bindings, prelude::*, types::Opaque};

use crate::glue;

/// A reference to a task that nobody counts: as `rcuwait` does it, the task is there as long as RCU keeps it.
pub(crate) struct Sleeper {
    task: Opaque<*mut bindings::task_struct>,
}

// SAFETY: the pointer is only accessed atomically, by the functions of glue.c.
unsafe impl Send for Sleeper {}
// SAFETY: as above.
unsafe impl Sync for Sleeper {}

impl Sleeper {
    pub(crate) const fn new() -> Self {
        Self { task: Opaque::new(ptr::null_mut()) }
    }

    /// As [`WaitQueue::wait`](crate::wait::WaitQueue::wait). [`None`]: somebody else sleeps here.
    #[inline]
    pub(crate) fn wait<T>(&self, mut attempt: impl FnMut() -> Option<T>) -> Option<Result<T>> {
        // SAFETY: a place of ours.
        if !unsafe { glue::dp_glue_sleeper_comes(self.task.get()) } {
            return None;
        }
        let result = loop {
            // A full barrier: pairs with that of the waker between what it tells and looking for the sleeper.
            // SAFETY: process context.
            let interrupted = unsafe { glue::dp_glue_sleeper_prepares() };
            // First, because a wake-up must not be thrown away with a signal.
            if let Some(got) = attempt() {
                break Ok(got);
            }
            if interrupted {
                break Err(ERESTARTSYS);
            }
            // SAFETY: process context, and no spinlock is held.
            unsafe { bindings::schedule() };
            if let Some(got) = attempt() {
                break Ok(got);
            }
        };
        // SAFETY: the calling task's since above.
        unsafe { glue::dp_glue_sleeper_goes(self.task.get()) };
        Some(result)
    }

    /// Wakes whoever sleeps here; who is awake by now finds what there is by itself. The caller has had a full barrier
    /// since what it wants to tell, and is likely to sleep soon.
    #[inline]
    pub(crate) fn wake(&self) {
        // SAFETY: a place of ours; the pointer is looked at, not followed.
        if !unsafe { self.task.get().read_volatile() }.is_null() {
            // SAFETY: a place of ours.
            unsafe { glue::dp_glue_sleeper_wake(self.task.get()) };
        }
    }
}
