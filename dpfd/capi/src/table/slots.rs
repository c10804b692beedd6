//! The slots: a chunk of 1024 for every 1024 descriptors, made when one of them is first used, kept for ever.

use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::*};

use super::Shell;

const CHUNK: usize = 1024;
/// Descriptors with a slot: 1048576, the kernel's usual limit. Larger ones are looked up in the list.
const CHUNKS: usize = 1024;

pub type Slot = AtomicPtr<Shell>;
type Chunk = [Slot; CHUNK];

static TABLE: [AtomicPtr<Chunk>; CHUNKS] = [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS];

/// The slot of `fd`; with `make`, it is made if it is not there.
#[inline(always)]
pub fn slot(fd: c_int, make: bool) -> Option<&'static Slot> {
    let at = fd as u32 as usize;
    let place = TABLE.get(at / CHUNK)?;
    // SAFETY: null, or a chunk that was leaked.
    let chunk = match unsafe { place.load(Acquire).as_ref() } {
        Some(chunk) => chunk,
        None if make => new_chunk(place),
        None => return None,
    };
    Some(&chunk[at % CHUNK])
}

#[cold]
fn new_chunk(place: &AtomicPtr<Chunk>) -> &'static Chunk {
    let new: Box<Chunk> = Box::new([const { AtomicPtr::new(ptr::null_mut()) }; CHUNK]);
    let new = Box::into_raw(new);
    match place.compare_exchange(ptr::null_mut(), new, AcqRel, Acquire) {
        // SAFETY: leaked just now.
        Ok(_) => unsafe { &*new },
        Err(other) => {
            // SAFETY: nobody else has seen ours; the other one was leaked.
            unsafe {
                drop(Box::from_raw(new));
                &*other
            }
        }
    }
}
