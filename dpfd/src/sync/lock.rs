//! The lock of an endpoint's two sides: taken and given back in every call, hardly ever wanted by two at once.
//!
//! Giving it back is a plain store and a load. A locked instruction there, as in std's mutex, costs what the rest
//! of a small send costs, and two of them lie between a message and its answer. What is lost is the order of the
//! store and the load: the owner may read "nobody waits" before its store is seen. So who waits looks on for a
//! while after it has said so, far longer than any store buffer keeps a store, and does not sleep without a limit:
//! should that ever fail, it costs [`NAP`], once.

use core::cell::UnsafeCell;
use core::fmt;
use core::ops::{Deref, DerefMut};

use crate::sync::{relax, AtomicU32, Ordering};
#[cfg(not(loom))]
use crate::sys::raw;

/// Looks before a sleep.
const LOOKS: u32 = 200;
/// How long a sleep may last without being woken, ns.
const NAP: i64 = 1_000_000;

/// Mutual exclusion around a value. A panic under it is no poison: the values are plain.
pub struct Lock<T> {
    /// 1 while somebody has it.
    held: AtomicU32,
    /// Threads that are about to sleep, or do.
    waiting: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: one thread at a time has the value.
unsafe impl<T: Send> Sync for Lock<T> {}

/// The value, until this is dropped.
pub struct Held<'a, T> {
    lock: &'a Lock<T>,
    /// It stays with its thread, as std's does.
    _here: core::marker::PhantomData<*const ()>,
}

// SAFETY: a reference to the value, no more.
unsafe impl<T: Sync> Sync for Held<'_, T> {}

impl<T> Lock<T> {
    /// A free one.
    pub fn new(value: T) -> Lock<T> {
        Lock { held: AtomicU32::new(0), waiting: AtomicU32::new(0), value: UnsafeCell::new(value) }
    }

    #[inline(always)]
    fn try_take(&self) -> bool {
        self.held.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[inline(always)]
    fn guard(&self) -> Held<'_, T> {
        Held { lock: self, _here: core::marker::PhantomData }
    }

    /// Waits for it.
    #[inline(always)]
    pub fn lock(&self) -> Held<'_, T> {
        if !self.try_take() {
            self.wait();
        }
        self.guard()
    }

    /// If nobody has it.
    #[inline]
    pub fn try_lock(&self) -> Option<Held<'_, T>> {
        self.try_take().then(|| self.guard())
    }

    fn looks(&self) -> bool {
        (0..LOOKS).any(|_| {
            relax();
            self.held.load(Ordering::Relaxed) == 0 && self.try_take()
        })
    }

    #[cold]
    fn wait(&self) {
        if self.looks() {
            return;
        }
        self.waiting.fetch_add(1, Ordering::SeqCst);
        while !self.looks() {
            sleep_while(&self.held, 1);
        }
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    #[inline(always)]
    fn give_back(&self) {
        self.held.store(0, Ordering::Release);
        // Not before the store, as far as the compiler is concerned; the rest is said above.
        core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
        if self.waiting.load(Ordering::Relaxed) != 0 {
            wake_one(&self.held);
        }
    }
}

impl<T: Default> Default for Lock<T> {
    fn default() -> Self {
        Lock::new(T::default())
    }
}

impl<T> fmt::Debug for Lock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").field("held", &self.held).finish_non_exhaustive()
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: this thread has the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread has the lock, and this is its only guard.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Held<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.lock.give_back();
    }
}

impl<T: fmt::Debug> fmt::Debug for Held<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(not(loom))]
fn sleep_while(word: &AtomicU32, value: u32) {
    let limit = libc::timespec { tv_sec: 0, tv_nsec: NAP };
    let limit = (&raw const limit) as usize;
    let wait = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize;
    // SAFETY: the word and the limit outlive the call.
    let _ =
        unsafe { raw::call(libc::SYS_futex, [word.as_ptr() as usize, wait, value as usize, limit, 0, 0]) };
}

#[cfg(not(loom))]
#[cold]
fn wake_one(word: &AtomicU32) {
    let wake = (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as usize;
    // SAFETY: the word outlives the call.
    let _ = unsafe { raw::call(libc::SYS_futex, [word.as_ptr() as usize, wake, 1, 0, 0, 0]) };
}

#[cfg(loom)]
fn sleep_while(_: &AtomicU32, _: u32) {
    relax();
}

#[cfg(loom)]
fn wake_one(_: &AtomicU32) {}

#[cfg(test)]
mod tests;
