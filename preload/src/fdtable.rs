//! From a descriptor to what the shim knows of it: one load.
//!
//! ```text
//!   entry:   31     28 27                 0
//!           +---------+--------------------+
//!           |  kind   |       index        |      0: not ours
//!           +---------+--------------------+
//! ```
//!
//! The table is private to the process: a forked child has its own copy, as it has of its descriptors.
//! It is reserved address space; only pages of descriptors in use take memory.

use core::sync::atomic::{AtomicPtr, AtomicU16, AtomicU32, Ordering};

use crate::state;

/// What an entry stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// Not ours: the call goes to the kernel.
    None,
    /// A connection; its index in the family.
    Conn(u32),
    /// An epoll set; its index in our table of sets.
    Epoll(u32),
    /// A listening socket; its index in the table of doors, plus one, or 0 for one without.
    Listener(u32),
    /// A descriptor of the shim's own.
    Internal,
}

const KIND: u32 = 28;
const INDEX: u32 = (1 << KIND) - 1;

/// Descriptors covered; larger ones are left alone.
pub const LIMIT: usize = 1 << 20;
static LIMIT_NOW: AtomicU32 = AtomicU32::new(0);
static TABLE: AtomicPtr<AtomicU32> = AtomicPtr::new(core::ptr::null_mut());
/// One more than the highest descriptor that ever was ours.
static HIGH: AtomicU32 = AtomicU32::new(0);
static REFS: AtomicPtr<AtomicU16> = AtomicPtr::new(core::ptr::null_mut());

/// Reserves the tables. Before it, every descriptor is "not ours".
pub fn prepare() -> bool {
    let (Some(t), Some(r)) = (state::reserve(LIMIT * 4), state::reserve(dpfd::family::CONNS * 2)) else {
        return false;
    };
    TABLE.store(t, Ordering::Relaxed);
    REFS.store(r, Ordering::Relaxed);
    LIMIT_NOW.store(LIMIT as u32, Ordering::Release);
    true
}

#[inline(always)]
fn cell(fd: i32) -> Option<&'static AtomicU32> {
    if fd as u32 >= LIMIT_NOW.load(Ordering::Relaxed) {
        return None;
    }
    // SAFETY: below LIMIT, and the table stays; LIMIT_NOW is set after it.
    Some(unsafe { &*TABLE.load(Ordering::Relaxed).add(fd as usize) })
}

/// What `fd` is.
#[inline(always)]
pub fn get(fd: i32) -> Entry {
    let Some(c) = cell(fd) else { return Entry::None };
    let w = c.load(Ordering::Relaxed);
    if w == 0 {
        return Entry::None;
    }
    decode(w)
}

/// The connection behind `fd`.
#[inline(always)]
pub fn conn(fd: i32) -> Option<u32> {
    let w = cell(fd)?.load(Ordering::Relaxed);
    (w >> KIND == 1).then_some(w & INDEX)
}

fn decode(w: u32) -> Entry {
    match w >> KIND {
        1 => Entry::Conn(w & INDEX),
        2 => Entry::Epoll(w & INDEX),
        3 => Entry::Listener(w & INDEX),
        4 => Entry::Internal,
        _ => Entry::None,
    }
}

fn encode(e: Entry) -> u32 {
    match e {
        Entry::None => 0,
        Entry::Conn(i) => (1 << KIND) | i,
        Entry::Epoll(i) => (2 << KIND) | i,
        Entry::Listener(i) => (3 << KIND) | i,
        Entry::Internal => 4 << KIND,
    }
}

/// Sets what `fd` is and returns what it was. False-safe: beyond the table nothing happens.
pub fn set(fd: i32, e: Entry) -> Entry {
    match cell(fd) {
        Some(c) => {
            HIGH.fetch_max(fd as u32 + 1, Ordering::Relaxed);
            decode(c.swap(encode(e), Ordering::AcqRel))
        }
        None => Entry::None,
    }
}

/// Whether the table covers `fd`.
pub fn covers(fd: i32) -> bool {
    cell(fd).is_some()
}

/// Marks a descriptor as the shim's own.
pub fn mark_internal(fd: i32) {
    set(fd, Entry::Internal);
}

/// How many descriptors of this process stand for connection `i`.
pub fn refs(i: u32) -> &'static AtomicU16 {
    // SAFETY: masked to the table's size; only called with an index that came out of the table, so the
    // table is there.
    unsafe { &*REFS.load(Ordering::Relaxed).add(i as usize & (dpfd::family::CONNS - 1)) }
}

/// Calls `f` for every descriptor that is ours.
pub fn each(mut f: impl FnMut(i32, Entry)) {
    for fd in 0..HIGH.load(Ordering::Relaxed) as i32 {
        let e = get(fd);
        if e != Entry::None {
            f(fd, e);
        }
    }
}
