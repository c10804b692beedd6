//! Arenas whose servers are no more, until nobody of this process can be inside: then they are unmapped.
//!
//! Everybody who looks an arena up is a walker, and everybody in a connection of its keeps it: no slot of a retired one is a
//! connection's, in no process of the family. What remains are threads in the middle of something when the connection was
//! closed under them by another one. One that looks at connections is counted, one in a locked section is waited for before
//! the entry is free. A receive from the ring is neither: it holds no lock, and counts nothing, since that would cost every
//! receive. It makes no call there and takes less than a microsecond, so what was retired rests for [`REST`] first.

use core::sync::atomic::Ordering;

use dp_channel::arena::Arena;
use dp_channel::family::Family;
use dp_channel::limbo::{Limbo, Walkers};

use crate::{epoll, state};

static WALKERS: Walkers = Walkers::new();
/// Addresses of leaked [`Arena`]s.
static LIMBO: Limbo<64> = Limbo::new();
/// ns: longer than a thread that can run waits for a processor. A client that meets more new servers in that time than there
/// is room for in limbo has some of its connections on TCP.
const REST: u64 = 1_000_000_000;
/// Where there is no room, one that could not be unmapped for so long, ns, stays mapped for good: a thread was ended, or left
/// by longjmp, inside.
const STUCK: u64 = 10_000_000_000;

/// Does `f`, which looks up arenas of servers. What it finds stays mapped meanwhile.
pub fn walking<R>(f: impl FnOnce() -> R) -> R {
    WALKERS.walking(f)
}

/// Whether another arena can be retired. If not, later.
pub(super) fn has_room() -> bool {
    LIMBO.has_room()
}

/// `arena`, the address of a leaked one, was hidden. Where there is no room it stays mapped. One thread at a time.
pub(super) fn put(arena: usize) {
    LIMBO.put(arena as u64, state::now());
}

/// Unmaps what has rested, where nobody can be inside. One thread at a time, which walks itself.
pub(super) fn unmap(family: Family) {
    LIMBO.each_rested(state::now(), REST, |address| {
        let p = address as *mut Arena;
        // SAFETY: leaked by make(); freed below alone, where it is in limbo no more.
        let arena = unsafe { *p };
        let high = family.header().high.load(Ordering::Acquire);
        let used =
            |n: u32| family.in_use(n) && family.conn(n).mapping.load(Ordering::Acquire) == arena.pack();
        if (0..high).any(used) || !WALKERS.none_but(1) || !epoll::forget_arena(&arena.first()) {
            return false;
        }
        // SAFETY: hidden since it is in limbo, so no walker finds it; those that may have found it before are gone, and so
        // are connections, and threads that look at some.
        unsafe {
            arena.unmap();
            state::free_value(p);
        }
        true
    });
    if !has_room() {
        let mut one = true;
        LIMBO.each_rested(state::now(), STUCK, |_| core::mem::take(&mut one));
    }
}

/// In a forked child: the threads that walked are the parent's.
pub(super) fn inherited() {
    WALKERS.reset();
}
