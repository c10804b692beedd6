// SPDX-License-Identifier: GPL-2.0

//! A call that comes by itself later.
//!
//! The kernel crate's delayed work is held by the queue that it is on and cannot be taken back: a module could be
//! unloaded from under it. This one is a part of what it is about, and does not outlive it.

use kernel::{bindings, container_of, prelude::*, time::Delta, types::Opaque};

use crate::glue;

/// What is called: see [`Later::of`].
pub(crate) type Call = unsafe extern "C" fn(*mut bindings::work_struct);

#[pin_data(PinnedDrop)]
pub(crate) struct Later {
    #[pin]
    work: Opaque<bindings::delayed_work>,
}

// SAFETY: all access goes through the kernel's functions, which any thread may call at any time.
unsafe impl Send for Later {}
// SAFETY: as above.
unsafe impl Sync for Later {}

impl Later {
    pub(crate) fn new(call: Call) -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: `slot` is valid for writes and stays where it is; taken back in drop.
            work <- Opaque::ffi_init(move |slot| unsafe { glue::dp_glue_later_init(slot, Some(call)) }),
        })
    }

    /// The call comes that much later, whatever was said before. In a thread of the kernel's, which may sleep.
    pub(crate) fn again_in(&self, time: Delta) {
        // Rounded up, and never at once: who is called too early calls again.
        let ms = u32::try_from(time.as_millis().max(0)).unwrap_or(u32::MAX - 1) + 1;
        // SAFETY: initialised, and not taken back yet.
        unsafe { glue::dp_glue_later(self.work.get(), ms) };
    }

    /// Whose work it is.
    ///
    /// # Safety
    ///
    /// For the called function, with what it was called with.
    pub(crate) unsafe fn of(work: *mut bindings::work_struct) -> *const Self {
        // SAFETY: by what the caller promises it is part of the delayed work of one of these.
        unsafe {
            let delayed = container_of!(work, bindings::delayed_work, work);
            container_of!(delayed.cast::<Opaque<bindings::delayed_work>>(), Self, work)
        }
    }
}

#[pinned_drop]
impl PinnedDrop for Later {
    fn drop(self: Pin<&mut Self>) {
        // Waits for a call that is under way, which is therefore none to drop this in.
        // SAFETY: initialised in new().
        unsafe { bindings::cancel_delayed_work_sync(self.work.get()) };
    }
}
