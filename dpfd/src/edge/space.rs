//! A sender that waits for room (PROTOCOLS W8): it says so, looks again, and sleeps; the receiver tells it.
//!
//! ```text
//!   sender                          receiver
//!   wanted = 1                      cursor = new            (gives lines back)
//!   fence                           fence
//!   reload the cursor, try again    load wanted; if 1, swap 0 and tell the sender
//! ```
//!
//! One of the two sees the other: either the sender finds the room, or the receiver finds the wish.

use dp_edge::ring::Cursor;
use dp_edge::sync::{fence, AtomicU32, AtomicU64, Ordering};

/// The wish, on a line of its own: it is written only when a ring is full, and read at every release.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Space(pub(super) AtomicU32);

impl Default for Space {
    fn default() -> Self {
        Space(AtomicU32::new(0))
    }
}

impl Space {
    /// The sender wants room. Fenced: it must try once more after this before it sleeps.
    pub fn want(&self) {
        self.0.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The receiver gives lines back, up to `at`. Whether the sender must be told.
    #[inline(always)]
    pub fn give_back(&self, cursor: &AtomicU64, at: Cursor) -> bool {
        // Release: what was read from the lines was read before they are reused. A swap, because on the usual
        // machine it is the fence as well, and cheaper than a store and one.
        cursor.swap(at.pack(), Ordering::SeqCst);
        dp_edge::sync::fence_after_rmw();
        self.0.load(Ordering::Relaxed) != 0 && self.0.swap(0, Ordering::AcqRel) != 0
    }
}
