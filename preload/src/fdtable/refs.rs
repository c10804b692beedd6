//! How many descriptors of this process stand for a connection, and which of the connections with its index that is: one word, so that
//! whoever counts one more cannot meet the next connection.

use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use super::{cell, conn_of, count_change, raise, settled, LIFE, LIMIT, WIDTH};

/// What [`are_at`] is to be given.
pub(super) const BYTES: usize = dp_channel::family::CONNS * size_of::<AtomicU32>();
/// By connection: its life, above, and how many descriptors stand for it.
static REFS: AtomicPtr<AtomicU32> = AtomicPtr::new(core::ptr::null_mut());
/// Connections that are [held](hold).
static HOLDS: AtomicU32 = AtomicU32::new(0);
/// Bits of a number of descriptors.
const COUNT: u32 = LIMIT.ilog2();
const ONES: u32 = (1 << COUNT) - 1;
const _: () = assert!(COUNT + LIFE.count_ones() <= u32::BITS);

/// The counts lie there: zeros, which stay.
pub(super) fn are_at(first: *mut AtomicU32) {
    REFS.store(first, Ordering::Relaxed);
}

/// How many descriptors of this process stand for connection `i`.
pub fn refs(i: u32) -> u32 {
    counted(i).load(Ordering::Relaxed) & ONES
}

/// So many do, as whoever has this process to himself knows.
pub fn set_refs(i: u32, n: u32) {
    let life = counted(i).load(Ordering::Relaxed) & !ONES;
    counted(i).store(life | n, Ordering::Relaxed);
}

/// One less. Whether it was the last.
pub fn drop_ref(i: u32) -> bool {
    counted(i).fetch_sub(1, Ordering::AcqRel) & ONES == 1
}

/// One more, ahead of a number that is to be made as a copy of `fd`: until then nobody else closes the last one of the connection. The
/// entry of `fd`, which is to be [placed](place) or [given back](give_back). `None`: it is no connection's, or not any more.
pub fn hold(fd: i32) -> Option<u32> {
    let w = settled(fd);
    let i = conn_of(w)?;
    HOLDS.fetch_add(1, Ordering::Relaxed);
    count_change();
    // By its life: the index may be another connection's, whose end is not to be put off.
    let more = |now: u32| (now >> COUNT == w >> WIDTH & LIFE && now & ONES != 0).then_some(now + 1);
    if counted(i).fetch_update(Ordering::AcqRel, Ordering::Relaxed, more).is_ok() {
        return Some(w);
    }
    HOLDS.fetch_sub(1, Ordering::Relaxed);
    None
}

/// `fd` stands for what is held by the entry `word`.
pub fn place(fd: i32, word: u32) {
    if let Some(c) = cell(fd) {
        raise(fd);
        c.swap(word, Ordering::SeqCst);
    }
    // Behind it, as in `clear`: a fork that does not find the number must not find its count alone.
    count_change();
    HOLDS.fetch_sub(1, Ordering::Relaxed);
}

/// What is held by the entry `word` is to have no further number. Whether that was the last one.
pub fn give_back(word: u32) -> bool {
    let last = conn_of(word).is_some_and(drop_ref);
    count_change();
    HOLDS.fetch_sub(1, Ordering::Relaxed);
    last
}

/// In a forked child, once: whether its parent may have held something, for a number that is not here.
pub fn may_inherit_holds() -> bool {
    HOLDS.load(Ordering::Relaxed) != 0 && HOLDS.swap(0, Ordering::Relaxed) != 0
}

/// A new connection has index `i`, and one number.
pub(super) fn begin(i: u32) {
    counted(i).store((life(i) % LIFE + 1) << COUNT | 1, Ordering::Release);
}

fn counted(i: u32) -> &'static AtomicU32 {
    // SAFETY: masked to the table's size; only called with an index that came out of the table, or goes into it, so
    // the table is there.
    unsafe { &*REFS.load(Ordering::Relaxed).add(i as usize & (dp_channel::family::CONNS - 1)) }
}

/// Lives begin at 1.
pub(super) fn life(i: u32) -> u32 {
    counted(i).load(Ordering::Relaxed) >> COUNT
}

/// Whether the connection with index `i` still is the one of an entry.
pub fn is_same_life(entry: u32, i: u32) -> bool {
    entry >> WIDTH & LIFE == life(i)
}
