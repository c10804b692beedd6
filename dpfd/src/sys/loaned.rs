//! A message where it lies, loaned to the program until it is released; and what is told of one that was copied.

use crate::addr::Addr;

/// In the length, of which they are no bits: 8 bytes came beside the message; it named a route.
const IMMEDIATE: u32 = 1 << 31;
const ROUTED: u32 = 1 << 30;

/// A message that was read, of either driver. A few words that say where it is; they keep nothing: the pool keeps the
/// memory, mapped and unchanged by itself, until the message is released.
#[derive(Debug, Clone, Copy)]
pub struct Got {
    /// Which of all messages loaned by this pool.
    pub number: u64,
    at: *const u8,
    told: Copied,
}

// SAFETY: an address and some numbers; what lies there is read by whoever upholds the contract of `copy_to`, and from
// any thread alike.
unsafe impl Send for Got {}
// SAFETY: as above.
unsafe impl Sync for Got {}

impl Got {
    /// The message `number`, of `len` bytes, 16 MiB at most, in one piece at `at`.
    #[inline(always)]
    pub fn new(number: u64, at: *const u8, len: usize, from: Addr) -> Got {
        Got { number, at, told: Copied::new(len, from) }
    }

    /// The same, and its pool knows what came beside it.
    #[inline]
    #[must_use]
    pub fn with_immediate(self) -> Got {
        Got { told: Copied { len: self.told.len | IMMEDIATE, ..self.told }, ..self }
    }

    /// The same; it named a route.
    #[inline]
    #[must_use]
    pub fn with_route(self) -> Got {
        Got { told: Copied { len: self.told.len | ROUTED, ..self.told }, ..self }
    }

    /// Whether its pool knows of a route that it named.
    #[inline(always)]
    pub fn has_route(&self) -> bool {
        self.told.len & ROUTED != 0
    }

    /// Whether its pool knows of something that came beside it. The 8 bytes are not here: nearly no message has any, and
    /// this is handed on for all.
    #[inline(always)]
    pub fn has_immediate(&self) -> bool {
        self.told.len & IMMEDIATE != 0
    }

    /// What is left of it behind its first `bytes`, of which it has at least so many.
    #[inline]
    #[must_use]
    pub fn behind(self, bytes: usize) -> Got {
        let told = Copied { len: self.told.len.saturating_sub(bytes as u32), ..self.told };
        Got { at: self.at.wrapping_add(bytes), told, ..self }
    }

    /// Bytes.
    #[inline(always)]
    pub fn size(&self) -> usize {
        self.told.size()
    }

    /// Its sender; 0 where nobody can tell.
    #[inline(always)]
    pub fn from(&self) -> Addr {
        self.told.from()
    }

    /// Its first byte, valid until it is released.
    #[inline(always)]
    pub fn address(&self) -> *const u8 {
        self.at
    }

    /// What is told of it once it was copied.
    #[inline(always)]
    pub fn copied(&self) -> Copied {
        self.told
    }

    /// Copies it, as far as `to` has room; how much that was. What another process may write meanwhile is copied as it
    /// is at that moment.
    ///
    /// # Safety
    ///
    /// It came from a pool that still is there, and was not released.
    #[inline(always)]
    pub unsafe fn copy_to(&self, to: &mut [u8]) -> usize {
        let n = self.size().min(to.len());
        // SAFETY: by the contract the pool keeps `len` bytes there; it lends no memory of the program's own.
        unsafe { dp_edge::segment::copy(self.at, to.as_mut_ptr(), n) };
        n
    }
}

/// A message that was copied: one word, so that it stays in a register on its way to the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copied {
    len: u32,
    /// One word: two that are stored one by one and loaded together cost more than all the rest.
    from: u32,
}

impl Copied {
    /// Of `len` bytes, 16 MiB at most, however many were copied.
    #[inline(always)]
    pub fn new(len: usize, from: Addr) -> Copied {
        Copied { len: len as u32, from: u32::from(from.nid) << 16 | u32::from(from.dpid) }
    }

    /// Bytes of the whole message.
    #[inline(always)]
    pub fn size(&self) -> usize {
        (self.len & !(IMMEDIATE | ROUTED)) as usize
    }

    /// Its sender; 0 where nobody can tell.
    #[inline(always)]
    pub fn from(&self) -> Addr {
        Addr { nid: (self.from >> 16) as u16, dpid: self.from as u16 }
    }
}
