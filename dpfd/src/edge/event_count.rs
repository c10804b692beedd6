//! An event count (futex(2)) that a sender advances to wake a receiver that sleeps on it: a third of what a bell costs
//! (PROTOCOLS U3).
//!
//! ```text
//!   receiver                               sender
//!   key = count                            publishes
//!   says that it dozes ([`super::arm`])    fence
//!   fence                                  sees that it dozes:
//!   looks at every edge                      count += 1, FUTEX_WAKE
//!   sleeps while count == key
//! ```
//!
//! The count lies in the edge, so it is one sender's to write: what a hostile one does to it wakes the receiver for nothing,
//! or lets it sleep beside that sender's own messages. (One that moves the sleeper to another futex, FUTEX_REQUEUE, keeps
//! it asleep. It runs as the receiver's user, who could stop it altogether.) A bell on the descriptor wakes every thread
//! that polls or reads it, the futex only a thread that sleeps here; so a receiver dozes for a moment at most, until its
//! service has it listen for bells.

use dp_edge::sync::{AtomicU32, Ordering};

/// Wake-ups so far, from some number on, modulo 2^32.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct EventCount(AtomicU32);

impl EventCount {
    /// Of a new edge: a number that memory which takes the edge's place does not hold by chance.
    pub fn begin(&self, random: u32) {
        self.0.store(random, Ordering::Relaxed);
    }

    /// The count by now, to sleep until there are more; before the receiver says that it dozes.
    #[inline]
    pub fn key(&self) -> u32 {
        // Acquire: a receiver that saw a wake-up sees what it was for.
        self.0.load(Ordering::Acquire)
    }

    /// One more. [`EventCount::notify`] does that and wakes the sleeper.
    #[inline]
    pub fn count(&self) {
        // The wake-up goes through the kernel, which orders the two by locks of its own.
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[cfg(not(loom))]
impl EventCount {
    /// Wakes the receiver if it sleeps here.
    #[cold]
    pub fn notify(&self) {
        self.count();
        dp_edge::sys::futex::wake(self.address());
    }

    /// To sleep here until the count is no longer `key`.
    pub fn wait_key(&self, key: u32) -> WaitKey {
        WaitKey { word: self.address(), key }
    }

    fn address(&self) -> usize {
        core::ptr::from_ref(&self.0) as usize
    }
}

/// Where to sleep, and until when. It keeps nothing alive: should the edge be gone by then, the sleep ends at once.
#[cfg(not(loom))]
#[derive(Debug, Clone, Copy)]
pub struct WaitKey {
    /// An address, for the kernel to look at.
    word: usize,
    key: u32,
}

#[cfg(not(loom))]
impl WaitKey {
    /// Sleeps until a wake-up; or for nothing. A signal's handler that has SA_RESTART does not end it.
    ///
    /// # Errors
    ///
    /// EINTR.
    pub fn sleep(&self) -> Result<(), i32> {
        dp_edge::sys::futex::wait(self.word, self.key)
    }
}
