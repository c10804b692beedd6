// SPDX-License-Identifier: GPL-2.0

//! Wait queues, and relays between them.
//!
//! `kernel::sync::poll::PollCondVar` carries no poll key, and each one that goes waits for an RCU grace period. A queue
//! that lives at least as long as the file it is polled through needs neither.

use core::ptr;

use kernel::{
    bindings,
    ffi::{c_int, c_uint, c_void},
    prelude::*,
    str::CStr,
    sync::{barrier::smp_mb, Arc, LockClassKey},
    types::Opaque,
};

#[cfg(kernel_7_3)]
use kernel::sync::atomic::Full;

use crate::glue;

#[pin_data]
pub(crate) struct WaitQueue {
    #[pin]
    head: Opaque<bindings::wait_queue_head>,
}

// SAFETY: all access to `head` goes through the kernel's functions, which take its lock.
unsafe impl Send for WaitQueue {}
// SAFETY: as above.
unsafe impl Sync for WaitQueue {}

impl WaitQueue {
    pub(crate) fn new(name: &'static CStr, class: Pin<&'static LockClassKey>) -> impl PinInit<Self> {
        let class = ptr::from_ref(class.get_ref()).cast_mut();
        pin_init!(Self {
            // SAFETY: `slot` is valid for writes; name and class are static.
            head <- Opaque::ffi_init(move |slot| unsafe {
                bindings::__init_waitqueue_head(slot, name.as_char_ptr(), class.cast())
            }),
        })
    }

    pub(crate) fn as_ptr(&self) -> *mut bindings::wait_queue_head {
        self.head.get()
    }

    /// Whether anybody waits. The caller has had a full barrier between what it wants to tell and this; the other
    /// side has its own in prepare_to_wait_event(), between queueing itself and looking. So one of them sees the other.
    pub(crate) fn active(&self) -> bool {
        // SAFETY: `head` is initialised; the pointer is looked at, not followed. As waitqueue_active() does it.
        unsafe {
            let list = &raw mut (*self.as_ptr()).head;
            (&raw const (*list).next).read_volatile() != list
        }
    }

    /// Wakes all, of those who asked to be woken alone one. The caller is likely to sleep soon.
    pub(crate) fn wake(&self, events: u32) {
        // SAFETY: `head` is initialised; the key is a number in the guise of a pointer.
        unsafe {
            bindings::__wake_up_sync_key(self.as_ptr(), bindings::TASK_NORMAL, events as usize as *mut c_void)
        };
    }

    /// Sleeps until `attempt` gives something or a signal comes. `attempt` runs in the state of a sleeper: it may take
    /// spinlocks, nothing that sleeps.
    pub(crate) fn wait<T>(&self, attempt: impl FnMut() -> Option<T>) -> Result<T> {
        self.sleep(0, bindings::TASK_INTERRUPTIBLE, attempt)
    }

    /// The same, but a wake-up that one sleeper can use wakes only one.
    pub(crate) fn wait_alone<T>(&self, attempt: impl FnMut() -> Option<T>) -> Result<T> {
        self.sleep(bindings::WQ_FLAG_EXCLUSIVE, bindings::TASK_INTERRUPTIBLE, attempt)
    }

    /// For what is certain to come soon.
    pub(crate) fn wait_surely(&self, mut there: impl FnMut() -> bool) {
        let _ = self.sleep(0, bindings::TASK_UNINTERRUPTIBLE, || there().then_some(()));
    }

    fn sleep<T>(&self, flags: u32, state: u32, mut attempt: impl FnMut() -> Option<T>) -> Result<T> {
        let entry = Opaque::<bindings::wait_queue_entry>::uninit();
        // SAFETY: the entry is on this stack until finish_wait() has taken it off the queue.
        unsafe { bindings::init_wait_entry(entry.get(), flags as c_int) };
        let result = loop {
            // SAFETY: queue and entry are initialised.
            let interrupted =
                unsafe { bindings::prepare_to_wait_event(self.as_ptr(), entry.get(), state as c_int) };
            // First, because a wake-up for one must not be thrown away with a signal.
            if let Some(got) = attempt() {
                break Ok(got);
            }
            if interrupted != 0 {
                break Err(ERESTARTSYS);
            }
            // SAFETY: process context, and no spinlock is held.
            unsafe { bindings::schedule() };
            // A thread that was woken is off the queue: mostly this is all, and it need not go there again.
            if let Some(got) = attempt() {
                break Ok(got);
            }
        };
        // SAFETY: as above.
        unsafe { bindings::finish_wait(self.as_ptr(), entry.get()) };
        result
    }
}

/// Passes one wake-up on: from the queue for room at a receiver to the queue that the sender's file is polled
/// through. The receiver may go away while somebody polls the sender; the sender's own queue does not.
#[pin_data]
pub(crate) struct Relay {
    #[pin]
    entry: Opaque<bindings::wait_queue_entry>,
}

// SAFETY: the entry is changed under the lock of the queue it is on.
unsafe impl Send for Relay {}
// SAFETY: as above.
unsafe impl Sync for Relay {}

impl Relay {
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self { entry <- Opaque::ffi_init(|slot| Self::start(slot, ptr::null_mut())) })
    }

    fn start(slot: *mut bindings::wait_queue_entry, to: *mut c_void) {
        // SAFETY: the callers pass an entry that is on no queue.
        unsafe { glue::dp_glue_relay_init(slot, Some(relay_wakes), to) }
    }

    /// # Safety
    ///
    /// The relay is on no queue, and `to` lives until [`Relay::detach`] was called for the last time.
    pub(crate) unsafe fn aim(&self, to: &WaitQueue) {
        Self::start(self.entry.get(), ptr::from_ref(to).cast_mut().cast());
    }

    /// # Safety
    ///
    /// The relay is aimed, is on no other queue than `queue`, and is detached from it before either goes.
    pub(crate) unsafe fn attach(&self, queue: &WaitQueue) {
        // SAFETY: by what the caller promises.
        unsafe { glue::dp_glue_relay_add(queue.as_ptr(), self.entry.get()) };
    }

    /// # Safety
    ///
    /// The relay is on no other queue than `queue`.
    pub(crate) unsafe fn detach(&self, queue: &WaitQueue) {
        // SAFETY: by what the caller promises.
        unsafe { glue::dp_glue_relay_del(queue.as_ptr(), self.entry.get()) };
    }
}

/// Runs with the lock of the queue for room held, and takes that of the sender's queue.
///
/// # Safety
///
/// For the kernel, as the function of a relay that was aimed.
unsafe extern "C" fn relay_wakes(
    entry: *mut bindings::wait_queue_entry,
    _mode: c_uint,
    _flags: c_int,
    _key: *mut c_void,
) -> c_int {
    // SAFETY: the entry of a relay that was aimed: what it was aimed at lives until it is off this queue, which needs
    // the lock that is held.
    unsafe {
        glue::dp_glue_relay_done(entry);
        (*(*entry).private.cast::<WaitQueue>()).wake(glue::POLL_OUT);
    }
    0
}

/// Orders all that came before it before all that comes after.
pub(crate) fn full_barrier() {
    #[cfg(not(kernel_7_3))]
    smp_mb();
    #[cfg(kernel_7_3)]
    smp_mb(Full);
}

/// A queue by itself, for those who wait for room.
pub(crate) fn room_queue() -> Result<Arc<WaitQueue>> {
    Arc::pin_init(WaitQueue::new(c"dp_room", kernel::static_lock_class!()), GFP_KERNEL)
}
