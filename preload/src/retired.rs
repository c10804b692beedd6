//! Arenas in which no connection of ours is left, until no thread of this process can be inside: then they are unmapped.
//!
//! Everybody who looks an arena up is a walker, and everybody in a connection of its keeps it: no slot of a retired one is a
//! connection's, in no process of the family. What remains are threads in the middle of something when the connection was
//! closed under them by another one. One that looks at connections is counted, one in a locked section is waited for before
//! the entry is free, and the quick ways of sending and receiving, which are to cost nothing, leave a note by a plain store
//! ([`brief`]). So what was retired rests before the notes are read, for longer than a store takes to be seen.

use core::sync::atomic::Ordering;

use dp_channel::arena::Arena;
use dp_channel::family::{Conn, Family};
use dp_channel::limbo::{Limbo, Walkers};

use crate::inside::brief;
use crate::{epoll, state};

/// ns. A processor writes a store back within a microsecond, or when it stops to run the thread, so this is long. Whoever
/// meets more new peers in that time than there is room for in limbo has some connections on TCP.
const REST: u64 = 100_000_000;
/// Where there is no room, one that could not be unmapped for so long, ns, stays mapped for good: a thread was ended, or left
/// by longjmp, inside.
const STUCK: u64 = 10_000_000_000;

/// Arenas of one kind: those that we made, or those of our clients.
#[derive(Debug)]
pub struct Retired {
    walkers: Walkers,
    /// Addresses of leaked [`Arena`]s.
    limbo: Limbo<64>,
}

impl Retired {
    /// There are none.
    pub const fn new() -> Retired {
        Retired { walkers: Walkers::new(), limbo: Limbo::new() }
    }

    /// Does `f`, which looks up arenas. What it finds stays mapped meanwhile.
    pub fn walking<R>(&self, f: impl FnOnce() -> R) -> R {
        self.walkers.walking(f)
    }

    /// Whether nobody walks but the caller.
    pub fn is_alone(&self) -> bool {
        self.walkers.none_but(1)
    }

    /// Whether another arena can be retired. If not, later.
    pub fn has_room(&self) -> bool {
        self.limbo.has_room()
    }

    /// `arena`, the address of a leaked one, was hidden. Where there is no room it stays mapped. One thread at a time.
    pub fn put(&self, arena: usize) {
        self.limbo.put(arena as u64, state::now());
    }

    /// Unmaps what has rested, where nobody can be inside. One thread at a time, which walks itself. `used`: whether an arena is
    /// a connection's.
    pub fn unmap(&self, family: Family, used: impl Fn(&Arena, &Conn) -> bool) {
        self.limbo.each_rested(state::now(), REST, |address| {
            let p = address as *mut Arena;
            // SAFETY: leaked by whoever mapped it; freed below alone, where it is in limbo no more.
            let arena = unsafe { *p };
            let high = family.header().high.load(Ordering::Acquire);
            let used = |n: u32| family.in_use(n) && used(&arena, family.conn(n));
            if (0..high).any(used)
                || !self.is_alone()
                || !brief::nobody_is()
                || !epoll::forget_arena(&arena.first())
            {
                return false;
            }
            // SAFETY: hidden since it is in limbo, so no walker finds it; those that may have found it before are gone, and
            // so are connections, and threads that look at some, or have noted that they are in one.
            unsafe {
                arena.unmap();
                state::free_value(p);
            }
            true
        });
        if !self.has_room() {
            let mut one = true;
            self.limbo.each_rested(state::now(), STUCK, |_| core::mem::take(&mut one));
        }
    }

    /// In a forked child: the threads that walked are the parent's.
    pub fn inherited(&self) {
        self.walkers.reset();
    }
}
