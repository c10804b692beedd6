//! From a descriptor to what the shim knows of it: one load.
//!
//! ```text
//!   entry:   31     28 27       16 15       0
//!           +---------+-----------+----------+
//!           |  kind   |   life    |  index   |      0: not ours
//!           +---------+-----------+----------+
//! ```
//!
//! A descriptor of ours has a serial number in place of the index, and no life, unless it stands in for a connection's.
//!
//! An index is used again by later connections. The life tells them apart: a call that has read an entry, and finds the
//! same one later, knows that its descriptor has stood for the same connection all the time.
//!
//! The table is private to the process: a forked child has its own copy, as it has of its descriptors.
//! It is reserved address space; only pages of descriptors in use take memory.

use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use dp_edge::sys::{raw, together};

use crate::state;

mod refs;
#[cfg(test)]
mod tests;

use refs::life;
pub use refs::{drop_ref, give_back, hold, is_same_life, may_inherit_holds, place, refs, set_refs};

/// What an entry stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// Not ours: the call goes to the kernel.
    None,
    /// A connection; its index in the family.
    Conn(u32),
    /// An epoll set; its index in our table of sets.
    Epoll(u32),
    /// A listening socket; its index in the table of doors, plus one, or 0 for one that is to have none, or why there is none
    /// ([`crate::door::missing`]).
    Listener(u32),
    /// A descriptor of the shim's own.
    Internal,
    /// Not ours, and never to be: somebody uses it whose calls we do not see.
    Elsewhere,
    /// A TCP socket that was made here and is not connected; processes started before that ([`is_alone`]).
    Unconnected(u32),
}

const KIND: u32 = 28;
/// Bits of an index.
const WIDTH: u32 = dp_channel::family::CONNS.ilog2();
const INDEX: u32 = INDEXES - 1;
/// Indexes are below this.
pub const INDEXES: u32 = 1 << WIDTH;
const LIFE: u32 = (1 << (KIND - WIDTH)) - 1;
/// Serial numbers of our descriptors are below this. Of so many that had a number one after the other, two may have the same.
pub const SERIALS: u32 = 1 << 10;
const _: () = assert!(SERIALS <= INDEXES);
const CONN: u32 = 1;
const INTERNAL: u32 = 4;
const ELSEWHERE: u32 = 5;
/// A connection's number that a thread is about to close, or to put something else at; the rest of the entry stays.
const CHANGING: u32 = 6;
const UNCONNECTED: u32 = 7;
/// What is below the kind.
const REST: u32 = (1 << KIND) - 1;

/// Descriptors covered; larger ones are left alone.
pub const LIMIT: usize = 1 << 20;
static LIMIT_NOW: AtomicU32 = AtomicU32::new(0);
static TABLE: AtomicPtr<AtomicU32> = AtomicPtr::new(core::ptr::null_mut());
/// One more than the highest descriptor that ever was ours.
static HIGH: AtomicU32 = AtomicU32::new(0);
/// Numbers whose entries are [`CHANGING`].
static CHANGES: AtomicU32 = AtomicU32::new(0);
/// Twice as many as processes were started here: one before a start, one behind it.
static STARTS: AtomicU32 = AtomicU32::new(0);

/// Reserves the tables. Before it, every descriptor is "not ours".
pub fn prepare() -> bool {
    // One mapping for all, and what is used of it lies together: a fork copies mappings, and tables of pages.
    let (beside, counts) = (together::PAGES * together::PAGE, refs::BYTES);
    let Some(first) = state::reserve::<u8>(beside + counts + LIMIT * 4) else { return false };
    // SAFETY: the first pages of what was reserved just now.
    unsafe { together::begin(first) };
    refs::are_at(first.wrapping_add(beside).cast());
    TABLE.store(first.wrapping_add(beside + counts).cast(), Ordering::Relaxed);
    LIMIT_NOW.store(LIMIT as u32, Ordering::Release);
    true
}

#[inline(always)]
fn cell(fd: i32) -> Option<&'static AtomicU32> {
    // Acquire: a thread that another library's constructor has started may come here while prepare() stores the two.
    if fd as u32 >= LIMIT_NOW.load(Ordering::Acquire) {
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
    decode(after_a_change(fd, w))
}

/// The same; where another thread is changing it, what it stood for is over.
pub fn get_at_once(fd: i32) -> Entry {
    decode(word(fd))
}

/// The connection behind `fd`.
#[inline(always)]
pub fn conn(fd: i32) -> Option<u32> {
    conn_of(settled(fd))
}

/// The entry for `fd` as it stands; 0: not ours.
#[inline(always)]
pub fn word(fd: i32) -> u32 {
    cell(fd).map_or(0, |c| c.load(Ordering::Relaxed))
}

/// The same, once no other thread is changing it.
#[inline(always)]
pub fn settled(fd: i32) -> u32 {
    after_a_change(fd, word(fd))
}

#[inline(always)]
fn after_a_change(fd: i32, w: u32) -> u32 {
    if w >> KIND == CHANGING {
        await_change(fd)
    } else {
        w
    }
}

/// The entry after the change. Its thread may be preempted, or wait a moment for a bell, or for a lock of the dead. If that
/// takes too long, the number is the kernel's.
#[cold]
#[inline(never)]
fn await_change(fd: i32) -> u32 {
    for turn in 0..TURNS {
        let w = word(fd);
        if w >> KIND != CHANGING {
            return w;
        }
        match turn {
            0..200 => core::hint::spin_loop(),
            200..220 => raw::yield_now(),
            _ => raw::nap(TURN),
        }
    }
    0
}

/// How often [`await_change`] looks; most looks are as far apart as `TURN` says, ns.
const TURNS: u32 = 2000;
/// See [`TURNS`].
const TURN: u32 = 50_000;

/// The number of a connection is about to be closed, or to stand for something else: until [`changed`], other threads wait.
/// Its entry until now; `None`: it is no connection's.
pub fn change(fd: i32) -> Option<u32> {
    let c = cell(fd)?;
    CHANGES.fetch_add(1, Ordering::SeqCst);
    loop {
        let w = settled(fd);
        if conn_of(w).is_none() {
            CHANGES.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        if c.compare_exchange(w, changing(w), Ordering::SeqCst, Ordering::Relaxed).is_ok() {
            count_change();
            return Some(w);
        }
    }
}

/// The same for one of the shim's own that is about to be closed, whose entry is `word`. False: it is another's by now.
pub fn change_own(fd: i32, word: u32) -> bool {
    let Some(c) = cell(fd).filter(|_| is_own(word)) else { return false };
    CHANGES.fetch_add(1, Ordering::SeqCst);
    let begun = c.compare_exchange(word, changing(word), Ordering::SeqCst, Ordering::Relaxed).is_ok();
    if begun {
        count_change();
    } else {
        CHANGES.fetch_sub(1, Ordering::Relaxed);
    }
    begun
}

/// The number of one of the shim's own is to stand for something of the program's: none of ours from here on. Where it is just being
/// closed, that is waited for.
pub fn yield_own(fd: i32) {
    let Some(c) = cell(fd) else { return };
    loop {
        let w = settled(fd);
        if !is_own(w) {
            return;
        }
        if c.compare_exchange(w, 0, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
            return count_change();
        }
    }
}

/// The kernel has changed the number whose entry was `before`. If nobody has given it another, it is not ours.
pub fn changed(fd: i32, before: u32) {
    if let Some(c) = cell(fd) {
        let _ = c.compare_exchange(changing(before), 0, Ordering::SeqCst, Ordering::Relaxed);
    }
    count_change();
    CHANGES.fetch_sub(1, Ordering::Relaxed);
}

fn changing(w: u32) -> u32 {
    (CHANGING << KIND) | (w & !(u32::MAX << KIND))
}

/// In a forked child: nobody goes on with the changes of its parent's other threads.
pub fn inherited() {
    if CHANGES.load(Ordering::Relaxed) == 0 {
        return;
    }
    CHANGES.store(0, Ordering::Relaxed);
    for fd in 0..HIGH.load(Ordering::Relaxed) as i32 {
        if word(fd) >> KIND == CHANGING {
            set(fd, Entry::None);
        }
    }
}

/// The same after a fence: for who has just left a note for whoever changes it.
pub fn word_now(fd: i32) -> u32 {
    cell(fd).map_or(0, |c| c.load(Ordering::SeqCst))
}

/// The table is about to change. A fork copies private memory page by page while other threads go on, so its child learns
/// of changes meanwhile from memory that is shared.
fn count_change() {
    if let (Some(family), Some(me)) = (state::family(), state::member_if_joined()) {
        family.member(me as usize).changes.fetch_add(1, Ordering::SeqCst);
    }
}

/// Changes of the table so far in the process that has place `n`.
pub fn changes(n: u32) -> u32 {
    state::family().map_or(0, |family| family.member(n as usize).changes.load(Ordering::SeqCst))
}

/// `fd` is not ours any more; its entry until now.
pub fn clear(fd: i32) -> u32 {
    let was = cell(fd).map_or(0, |c| c.swap(0, Ordering::SeqCst));
    // Afterwards: a fork that finds the entry gone, and the mark that was made for it, must not take both for true.
    count_change();
    was
}

/// The connection in an entry.
#[inline(always)]
pub fn conn_of(word: u32) -> Option<u32> {
    (word >> KIND == CONN).then_some(word & INDEX)
}

/// The connection behind `fd`, also where that is a descriptor of ours that stands in for one the program closed.
pub fn conn_inside(fd: i32) -> Option<u32> {
    let w = word(fd);
    if is_kept(w) {
        Some(w & INDEX)
    } else {
        conn_of(w)
    }
}

/// `fd`, if it stands for the connection that `is` meant, or is being changed; else another number for it, if there is one.
pub fn stands_for(fd: i32, is: impl Fn(u32) -> bool) -> Option<i32> {
    let has = |w: u32| (w >> KIND == CONN || is_changed(w) || is_kept(w)) && is(w & INDEX);
    let elsewhere = || (0..HIGH.load(Ordering::Relaxed) as i32).find(|&fd| has(word(fd)));
    if has(word(fd)) {
        Some(fd)
    } else {
        elsewhere()
    }
}

/// Whether a connection's number is being changed by the entry `w`. One of ours that is being closed has no connection's life.
fn is_changed(w: u32) -> bool {
    w >> KIND == CHANGING && w >> WIDTH & LIFE != 0
}

/// Whether `fd` is just being changed, and stood until now for the connection that `is` meant, not for one before with its index.
pub fn is_being_changed(fd: i32, is: impl Fn(u32) -> bool) -> bool {
    let w = word(fd);
    is_changed(w) && is(w & INDEX) && is_same_life(w, w & INDEX)
}

/// A number for the connection that `is` meant, which is not just being changed.
pub fn number_of(is: impl Fn(u32) -> bool) -> Option<i32> {
    (0..HIGH.load(Ordering::Relaxed) as i32).find(|&fd| conn_inside(fd).is_some_and(&is))
}

/// Whether it is the entry of a descriptor of ours that stands in for a connection's.
fn is_kept(w: u32) -> bool {
    w >> KIND == INTERNAL && w >> WIDTH & LIFE != 0
}

/// Marks a descriptor of ours as one that stands in for the connection of the entry `of`, which the program closed.
pub fn mark_kept(fd: i32, of: u32) {
    if let Some(c) = cell(fd) {
        count_change();
        HIGH.fetch_max(fd as u32 + 1, Ordering::Relaxed);
        // Lives begin at 1, so that this is an entry with a connection.
        c.store((INTERNAL << KIND) | (of & !(u32::MAX << KIND)), Ordering::SeqCst);
    }
}

fn decode(w: u32) -> Entry {
    match w >> KIND {
        CONN => Entry::Conn(w & INDEX),
        2 => Entry::Epoll(w & INDEX),
        3 => Entry::Listener(w & INDEX),
        INTERNAL => Entry::Internal,
        ELSEWHERE => Entry::Elsewhere,
        UNCONNECTED => Entry::Unconnected(w & REST),
        _ => Entry::None,
    }
}

fn encode(e: Entry) -> u32 {
    match e {
        Entry::None => 0,
        Entry::Conn(i) => (CONN << KIND) | (life(i) << WIDTH) | i,
        Entry::Epoll(i) => (2 << KIND) | i,
        Entry::Listener(i) => (3 << KIND) | i,
        Entry::Internal => INTERNAL << KIND,
        Entry::Elsewhere => ELSEWHERE << KIND,
        Entry::Unconnected(starts) => (UNCONNECTED << KIND) | (starts & REST),
    }
}

/// Sets what `fd` is and returns what it was. False-safe: beyond the table nothing happens.
pub fn set(fd: i32, e: Entry) -> Entry {
    match cell(fd) {
        Some(c) => {
            count_change();
            raise(fd);
            decode(c.swap(encode(e), Ordering::SeqCst))
        }
        None => Entry::None,
    }
}

/// `fd` is among the descriptors that were ours.
fn raise(fd: i32) {
    // Mostly it is already, and a page that a forked child writes to is copied.
    if HIGH.load(Ordering::Relaxed) <= fd as u32 {
        HIGH.fetch_max(fd as u32 + 1, Ordering::Relaxed);
    }
}

/// Whether the table covers `fd`.
pub fn covers(fd: i32) -> bool {
    cell(fd).is_some()
}

/// Marks a descriptor as the shim's own.
pub fn mark_internal(fd: i32) {
    mark_and_name(fd);
}

/// The same, and its serial number; 0: the table does not cover it.
pub fn mark_and_name(fd: i32) -> u32 {
    static LAST: AtomicU32 = AtomicU32::new(0);
    let Some(c) = cell(fd) else { return 0 };
    let serial = LAST.fetch_add(1, Ordering::Relaxed) % (SERIALS - 1) + 1;
    count_change();
    raise(fd);
    c.store(internal(serial), Ordering::SeqCst);
    serial
}

/// Whether `fd` is the one of the shim's own that got this serial number.
pub fn is_internal(fd: i32, serial: u32) -> bool {
    serial != 0 && word(fd) == internal(serial)
}

/// Whether an entry is that of one of the shim's own.
pub fn is_own(word: u32) -> bool {
    decode(word) == Entry::Internal
}

/// The entry of the one that got this serial number.
pub fn internal_word(serial: u32) -> u32 {
    internal(serial)
}

fn internal(serial: u32) -> u32 {
    (INTERNAL << KIND) | serial
}

/// `fd`, which is not ours, is never to be. False: it is ours by now, or something else.
pub fn mark_elsewhere(fd: i32) -> bool {
    cell(fd).is_none_or(|c| {
        raise(fd);
        let w = c.load(Ordering::Relaxed);
        // Against another thread that connects it at this moment: one of the two is first, and the other sees it.
        matches!(decode(w), Entry::None | Entry::Unconnected(_))
            && c.compare_exchange(w, encode(Entry::Elsewhere), Ordering::SeqCst, Ordering::SeqCst).is_ok()
    })
}

/// Sets what `fd` is, if it still is `from`; a descriptor of ours that stands in for a connection's is none that is known here.
pub fn replace(fd: i32, from: Entry, to: Entry) -> bool {
    let Some(c) = cell(fd) else { return false };
    let now = match from {
        // Of any serial number.
        Entry::Internal => c.load(Ordering::SeqCst),
        _ => encode(from),
    };
    let done = decode(now) == from
        && !is_kept(now)
        && c.compare_exchange(now, encode(to), Ordering::SeqCst, Ordering::Relaxed).is_ok();
    if done {
        count_change();
    }
    done
}

/// `fd` is a TCP socket that this process has just made.
pub fn made(fd: i32) {
    set(fd, Entry::Unconnected(STARTS.load(Ordering::SeqCst)));
}

/// Whether no other descriptor stands for the unconnected socket `fd`: it was made here, no copy of it is known, and no
/// process was started since. Another one would go on by the kernel alone when this one is a channel.
pub fn is_alone(fd: i32) -> bool {
    get(fd) == Entry::Unconnected(STARTS.load(Ordering::SeqCst) & REST)
}

/// Goes on with each process that is started here, and before it has what this one has. As long as it is the same as before a
/// descriptor was made, no other process has that, unless it was sent there.
pub fn starts() -> u32 {
    STARTS.load(Ordering::SeqCst)
}

/// A process is about to be started, or was: it has what this one has.
pub fn count_start() {
    STARTS.fetch_add(1, Ordering::SeqCst);
}

/// More descriptors than `fd` stand for the same socket now, if it is one that is not connected.
pub fn no_more_alone(fd: i32) {
    if let Entry::Unconnected(_) = get(fd) {
        set(fd, Entry::None);
    }
}

/// `fd` stands for a new connection, with index `i`. What it was.
pub fn begin(fd: i32, i: u32) -> Entry {
    refs::begin(i);
    set(fd, Entry::Conn(i))
}

/// Nothing is ours any more, and nothing will be.
pub fn switch_off() {
    LIMIT_NOW.store(0, Ordering::SeqCst);
}

/// Calls `f` for every descriptor that is ours.
pub fn each(mut f: impl FnMut(i32, Entry)) {
    for fd in 0..HIGH.load(Ordering::Relaxed) as i32 {
        let e = get_at_once(fd);
        if e != Entry::None {
            f(fd, e);
        }
    }
}
