//! A growing array that takes its memory from the kernel, never from malloc: it is used inside hooks of a preloaded
//! library, where the program's allocator may be the caller, or interrupted.
//!
//! A thread may be ended at any instruction in here, or leave by a handler's siglongjmp, and a fork may find it there. So what an
//! array says of itself is true at each of them: its memory is there, and has as many entries. What it had before may be left mapped.

use core::mem::size_of;
use core::ptr;
use core::sync::atomic::{compiler_fence, Ordering};

/// An array of values without destructors, in pages of its own. It moves when it grows, so no reference into it
/// outlives a call that may.
#[derive(Debug)]
pub struct Pages<T: Copy> {
    at: *mut T,
    len: usize,
    room: usize,
}

// SAFETY: it owns its memory, as a Vec does.
unsafe impl<T: Copy + Send> Send for Pages<T> {}

const PAGE: usize = 4096;

impl<T: Copy> Pages<T> {
    /// No entries, no memory.
    pub const fn new() -> Self {
        Pages { at: ptr::null_mut(), len: 0, room: 0 }
    }

    /// Entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds `value` at the end. False without memory; then nothing changed.
    pub fn push(&mut self, value: T) -> bool {
        if !self.make_room(self.len + 1) {
            return false;
        }
        // SAFETY: there is room for one more.
        unsafe { self.at.add(self.len).write(value) };
        self.len += 1;
        true
    }

    /// Makes it `len` entries long; new ones are `value`. False without memory; then nothing changed.
    pub fn resize(&mut self, len: usize, value: T) -> bool {
        if !self.make_room(len) {
            return false;
        }
        for i in self.len..len {
            // SAFETY: below the room just made.
            unsafe { self.at.add(i).write(value) };
        }
        self.len = len;
        true
    }

    /// Forgets all entries and gives the memory back.
    pub fn clear(&mut self) {
        let former = self.forget();
        // SAFETY: it has said that it has it no more.
        unsafe { unmap(former) };
    }

    /// Has what `other` has from here on, which then is empty.
    pub fn take_over(&mut self, other: &mut Self) {
        let former = self.forget();
        let len = other.len;
        let (at, room) = other.forget();
        self.has(at, room);
        self.len = len;
        // SAFETY: as above.
        unsafe { unmap(former) };
    }

    /// Says that it has no memory, a step at a time; what it had.
    fn forget(&mut self) -> (*mut T, usize) {
        self.len = 0;
        compiler_fence(Ordering::SeqCst);
        let room = core::mem::take(&mut self.room);
        compiler_fence(Ordering::SeqCst);
        (core::mem::replace(&mut self.at, ptr::null_mut()), room)
    }

    /// Says that its entries are there, and what it has room for; not less than before.
    fn has(&mut self, at: *mut T, room: usize) {
        compiler_fence(Ordering::SeqCst);
        self.at = at;
        compiler_fence(Ordering::SeqCst);
        self.room = room;
        compiler_fence(Ordering::SeqCst);
    }

    /// Forgets all entries, and keeps the memory if it is no more than a page.
    pub fn empty(&mut self) {
        match self.bytes() {
            0..=PAGE => self.len = 0,
            _ => self.clear(),
        }
    }

    /// All entries.
    pub fn all(&self) -> &[T] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: `len` entries were written.
        unsafe { core::slice::from_raw_parts(self.at, self.len) }
    }

    /// All entries, to be changed.
    pub fn all_mut(&mut self) -> &mut [T] {
        if self.len == 0 {
            return &mut [];
        }
        // SAFETY: as above, and borrowed alone.
        unsafe { core::slice::from_raw_parts_mut(self.at, self.len) }
    }

    fn bytes(&self) -> usize {
        bytes::<T>(self.room)
    }

    fn make_room(&mut self, len: usize) -> bool {
        if len <= self.room {
            return true;
        }
        let bytes = (len.max(self.room * 2) * size_of::<T>()).next_multiple_of(PAGE);
        // SAFETY: a private mapping at a place of the kernel's choice replaces nothing.
        let new = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if new == libc::MAP_FAILED {
            return false;
        }
        let new = new.cast::<T>();
        if self.len > 0 {
            // SAFETY: two mappings, the new one the larger.
            unsafe { ptr::copy_nonoverlapping(self.at, new, self.len) };
        }
        let former = (self.at, self.room);
        self.has(new, bytes / size_of::<T>());
        // SAFETY: it has its entries in the new one.
        unsafe { unmap(former) };
        true
    }
}

fn bytes<T>(room: usize) -> usize {
    (room * size_of::<T>()).next_multiple_of(PAGE)
}

/// Gives back memory for `room` entries.
///
/// # Safety
///
/// Mapped by [`Pages::make_room`], and nobody's any more.
unsafe fn unmap<T>((at, room): (*mut T, usize)) {
    if room > 0 {
        // SAFETY: the caller's word.
        unsafe { libc::munmap(at.cast(), bytes::<T>(room)) };
    }
}

impl<T: Copy> Default for Pages<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Copy> Drop for Pages<T> {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_there_stays_when_it_grows() {
        let mut p = Pages::new();
        assert!(p.is_empty() && p.all().is_empty());
        for i in 0..10_000u64 {
            assert!(p.push(i));
        }
        assert!(p.all().iter().copied().eq(0..10_000));
        assert!(p.resize(20_000, 7) && p.len() == 20_000);
        p.all_mut()[19_999] = 8;
        assert_eq!((p.all()[9_999], p.all()[10_000], p.all()[19_999]), (9_999, 7, 8));
        p.clear();
        assert!(p.is_empty() && p.push(1) && p.all() == [1]);
    }

    #[test]
    fn what_another_has_is_taken_over_with_its_memory() {
        let (mut p, mut other) = (Pages::new(), Pages::new());
        assert!(p.push(1) && other.resize(5000, 7u64));
        p.take_over(&mut other);
        assert!(p.all() == [7; 5000] && other.is_empty() && other.all().is_empty());
        assert!(other.push(2) && p.push(8) && other.all() == [2] && p.all()[5000] == 8);
    }
}
