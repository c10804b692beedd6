//! loom's atomics, made to try more schedules.
//!
//! loom explores another order of two accesses only if it sees that they conflict, and of each object it
//! remembers just the last access. `A: load` and `B: load, then compare-and-swap` is a pair that it misses:
//! B's swap is compared with B's own load, and A's load is never tried after it (loom 0.7.2; found with a
//! broken `Word::arm` that every schedule it tried let pass). So each access here first takes a turn at a
//! counter of its own, in relaxed order: turns always conflict, so all orders of the accesses are tried,
//! and being relaxed they order nothing in the memory model.

use loom::sync::atomic::Ordering;

macro_rules! atomic {
    ($name:ident, $t:ty) => {
        /// As core's of the same name, as far as this crate uses it.
        #[derive(Debug, Default)]
        pub struct $name {
            turn: loom::sync::atomic::AtomicUsize,
            inner: loom::sync::atomic::$name,
        }

        impl $name {
            /// Core's `new`, but not const.
            pub fn new(v: $t) -> $name {
                $name { turn: Default::default(), inner: loom::sync::atomic::$name::new(v) }
            }
            fn turn(&self) -> &loom::sync::atomic::$name {
                self.turn.fetch_add(1, Ordering::Relaxed);
                &self.inner
            }
            /// Core's `load`.
            pub fn load(&self, order: Ordering) -> $t {
                self.turn().load(order)
            }
            /// Core's `store`.
            pub fn store(&self, v: $t, order: Ordering) {
                self.turn().store(v, order);
            }
            /// Core's `compare_exchange`.
            pub fn compare_exchange(
                &self,
                old: $t,
                new: $t,
                ok: Ordering,
                err: Ordering,
            ) -> Result<$t, $t> {
                self.turn().compare_exchange(old, new, ok, err)
            }
            atomic!($t, swap, fetch_add, fetch_sub, fetch_or, fetch_and, fetch_max);
        }
    };
    ($t:ty, $($op:ident),*) => {
        $(
            /// Core's read-modify-write of this name.
            pub fn $op(&self, v: $t, order: Ordering) -> $t {
                self.turn().$op(v, order)
            }
        )*
    };
}

atomic!(AtomicU32, u32);
atomic!(AtomicU64, u64);
