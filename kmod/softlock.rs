// SPDX-License-Identifier: GPL-2.0

//! A spinlock for what frames need, too, which come in softirq: whoever holds it keeps softirqs off its CPU.

use kernel::{
    bindings,
    ffi::c_char,
    sync::lock::{Backend, Guard, Lock},
};

use crate::glue;

pub(crate) type SoftLock<T> = Lock<T, SoftBackend>;
pub(crate) type SoftGuard<'a, T> = Guard<'a, T, SoftBackend>;

pub(crate) struct SoftBackend;

// SAFETY: a spinlock excludes all others, and softirqs on this CPU cannot come in between. Locking again is locking.
unsafe impl Backend for SoftBackend {
    type State = bindings::spinlock_t;
    type GuardState = ();

    unsafe fn init(ptr: *mut Self::State, name: *const c_char, key: *mut bindings::lock_class_key) {
        // SAFETY: by what the caller promises.
        unsafe { bindings::__spin_lock_init(ptr, name, key) }
    }

    #[inline]
    unsafe fn lock(ptr: *mut Self::State) -> Self::GuardState {
        // SAFETY: by what the caller promises.
        unsafe { glue::dp_glue_soft_lock(ptr) }
    }

    unsafe fn try_lock(ptr: *mut Self::State) -> Option<Self::GuardState> {
        // SAFETY: by what the caller promises.
        unsafe { glue::dp_glue_soft_try_lock(ptr) }.then_some(())
    }

    #[inline]
    unsafe fn unlock(ptr: *mut Self::State, (): &Self::GuardState) {
        // SAFETY: by what the caller promises.
        unsafe { glue::dp_glue_soft_unlock(ptr) }
    }

    #[inline]
    unsafe fn assert_is_held(ptr: *mut Self::State) {
        if cfg!(CONFIG_LOCKDEP) {
            // SAFETY: by what the caller promises.
            unsafe { bindings::spin_assert_is_held(ptr) }
        }
    }
}

/// A soft lock of a class of its own, by the name of the field.
macro_rules! new_soft_lock {
    ($value:expr, $name:expr) => {
        $crate::softlock::SoftLock::new($value, $name, kernel::static_lock_class!())
    };
}
pub(crate) use new_soft_lock;
