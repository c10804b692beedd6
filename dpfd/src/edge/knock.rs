//! A word that a sender changes to wake a receiver that sleeps on it: futex(2), a third of what a bell costs (PROTOCOLS U3).
//!
//! ```text
//!   receiver                               sender
//!   heard = word                           publishes
//!   says that it dozes ([`super::arm`])    fence
//!   fence                                  sees that it dozes:
//!   looks at every edge                      word += 1, FUTEX_WAKE
//!   sleeps while word == heard
//! ```
//!
//! The word lies in the edge, so it is one sender's to write: what a hostile one does to it wakes the receiver for nothing,
//! or lets it sleep beside that sender's own messages. (One that moves the sleeper to another word, FUTEX_REQUEUE, keeps
//! it asleep. It runs as the receiver's user, who could stop it altogether.) A bell on the descriptor is heard by whoever
//! polls or reads it, a knock only by who sleeps here; so a receiver dozes for a moment at most, until its service has it
//! listen for bells.

use crate::sync::{AtomicU32, Ordering};

/// Knocks so far, from some number on, modulo 2^32.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Knock(AtomicU32);

impl Knock {
    /// Of a new edge: a number that memory which takes the edge's place does not hold by chance.
    pub fn begin(&self, random: u32) {
        self.0.store(random, Ordering::Relaxed);
    }

    /// How many there were, to sleep until there are more; before the receiver says that it dozes.
    #[inline]
    pub fn heard(&self) -> u32 {
        // Acquire: who saw a knock sees what it was for.
        self.0.load(Ordering::Acquire)
    }

    /// One more. [`Knock::rouse`] does that and wakes who sleeps.
    #[inline]
    pub fn count(&self) {
        // The wake-up goes through the kernel, which orders the two by locks of its own.
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[cfg(not(loom))]
impl Knock {
    /// Wakes the receiver if it sleeps here.
    #[cold]
    pub fn rouse(&self) {
        self.count();
        crate::sys::futex::wake(self.address());
    }

    /// A bed: to sleep here until there are more knocks than `heard`.
    pub fn bed(&self, heard: u32) -> Bed {
        Bed { word: self.address(), heard }
    }

    fn address(&self) -> usize {
        core::ptr::from_ref(&self.0) as usize
    }
}

/// Where to sleep, and until when. It keeps nothing alive: should the edge be gone by then, the sleep ends at once.
#[cfg(not(loom))]
#[derive(Debug, Clone, Copy)]
pub struct Bed {
    /// An address, for the kernel to look at.
    word: usize,
    heard: u32,
}

#[cfg(not(loom))]
impl Bed {
    /// Sleeps until a knock; or for nothing. A signal's handler that has SA_RESTART does not end it.
    ///
    /// # Errors
    ///
    /// EINTR.
    pub fn sleep(&self) -> Result<(), i32> {
        crate::sys::futex::wait(self.word, self.heard)
    }
}
