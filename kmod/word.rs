// SPDX-License-Identifier: GPL-2.0

//! Words that others look at and change at any time. The kernel's `Atomic` is for all of them; but outside of the
//! kernel's own build each of its loads and stores is a call of a function in C. On x86, where a plain load is an acquire
//! and a plain store a release once the compiler leaves them in their places, those of every message are made here, as
//! `READ_ONCE()`, `WRITE_ONCE()`, `smp_load_acquire()` and `smp_store_release()` make them there.

use core::sync::atomic::{compiler_fence, Ordering};

use kernel::sync::atomic::{Acquire, Atomic, Relaxed, Release};

#[inline(always)]
pub(crate) fn load(word: &Atomic<u64>) -> u64 {
    if cfg!(CONFIG_X86_64) {
        // SAFETY: a word that is there, and is changed as a whole.
        unsafe { word.as_ptr().read_volatile() }
    } else {
        word.load(Relaxed)
    }
}

#[inline(always)]
pub(crate) fn load_acquire(word: &Atomic<u64>) -> u64 {
    if cfg!(CONFIG_X86_64) {
        let value = load(word);
        compiler_fence(Ordering::Acquire);
        value
    } else {
        word.load(Acquire)
    }
}

#[inline(always)]
pub(crate) fn store(word: &Atomic<u64>, value: u64) {
    if cfg!(CONFIG_X86_64) {
        // SAFETY: as above; the accesses of others are atomic, too.
        unsafe { word.as_ptr().write_volatile(value) };
    } else {
        word.store(value, Relaxed);
    }
}

#[inline(always)]
pub(crate) fn store_release(word: &Atomic<u64>, value: u64) {
    if cfg!(CONFIG_X86_64) {
        compiler_fence(Ordering::Release);
        store(word, value);
    } else {
        word.store(value, Release);
    }
}
