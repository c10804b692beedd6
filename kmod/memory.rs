// SPDX-License-Identifier: GPL-2.0

//! Memory that the kernel and a program share: pages, in one piece for the kernel. Whoever maps them holds them, so
//! they can be given up here at any time.
//!
//! The process that asks for them pays: by the memory limit of the control group, and as a user, as for locked memory. What
//! stays mapped when it is given up here is counted where all that a process maps is.

use core::ptr::NonNull;

use kernel::{
    alloc::flags::{__GFP_NOWARN, __GFP_ZERO},
    bindings,
    ffi::c_uint,
    mm::virt::VmaNew,
    page::{Page, PAGE_SIZE},
    prelude::*,
};

use crate::glue;

pub(crate) struct Area {
    pages: KVVec<Page>,
    base: NonNull<u8>,
    _charge: Charge,
}

/// Pages that a user has. Given back when dropped.
struct Charge {
    user: NonNull<bindings::user_struct>,
    pages: usize,
}

impl Charge {
    fn new(pages: usize) -> Result<Self> {
        let free = crate::free_mib() as usize * (1 << 20) / PAGE_SIZE;
        // SAFETY: for the calling process's user, who is held until it is given back.
        let user = unsafe { glue::dp_glue_charge(pages, free) };
        Ok(Self { user: NonNull::new(user).ok_or(ENOMEM)?, pages })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        // SAFETY: charged in new(), once.
        unsafe { glue::dp_glue_uncharge(self.user.as_ptr(), self.pages) };
    }
}

// SAFETY: the pages are owned; what is done with the bytes is the users' business, who hold raw pointers only.
unsafe impl Send for Area {}
// SAFETY: as above.
unsafe impl Sync for Area {}

impl Area {
    /// `bytes`, a multiple of a page, zeroed; for the kernel they appear `turns` times in a row.
    pub(crate) fn new(bytes: usize, turns: u32) -> Result<Self> {
        let count = bytes / PAGE_SIZE;
        let charge = Charge::new(count)?;
        // Programs choose the size: that there is not so much is their error, and nothing for the kernel's log.
        let mut pages = KVVec::with_capacity(count, GFP_KERNEL_ACCOUNT | __GFP_NOWARN)?;
        let mut raw = KVVec::<*mut bindings::page>::with_capacity(count, GFP_KERNEL | __GFP_NOWARN)?;
        for _ in 0..count {
            let page = Page::alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_NOWARN)?;
            raw.push(page.as_ptr(), GFP_KERNEL)?;
            pages.push(page, GFP_KERNEL)?;
            // A gigabyte takes a while: it can be killed.
            if pages.len() % 4096 == 0 && kernel::current!().signal_pending() {
                return Err(EINTR);
            }
        }
        // SAFETY: `raw` has `count` live pages; they are mapped until drop.
        let base = unsafe { glue::dp_glue_map_pages(raw.as_mut_ptr(), count as c_uint, turns) };
        let base = NonNull::new(base.cast()).ok_or(ENOMEM)?;
        Ok(Self { pages, base, _charge: charge })
    }

    pub(crate) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.pages.len() * PAGE_SIZE
    }

    /// Into a program's address space, over and over from the first page on.
    pub(crate) fn map(&self, vma: &VmaNew) -> Result {
        vma.set_dontexpand();
        let vma = vma.set_mixedmap();
        let places = (vma.start()..vma.end()).step_by(PAGE_SIZE);
        for (place, page) in places.zip(self.pages.iter().cycle()) {
            vma.vm_insert_page(place, page)?;
        }
        Ok(())
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: from dp_glue_map_pages(), and nobody uses the pointer any longer.
        unsafe { glue::dp_glue_unmap_pages(self.base.as_ptr().cast()) };
    }
}
