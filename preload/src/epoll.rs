//! The program's epoll sets: where they are, and what is done with them (PROTOCOLS W3, W6, W18).
//!
//! What a wait may decide without the kernel is `dp_channel::watch`'s to say; here are the sets' memory and locks, the calls to
//! the kernel and to channels ([`world`]), and waiting ([`wait`]).
//!
//! Every set that the program makes is known, also before it has a connection in it: a value that a connection shares
//! with another registration must be seen. Sets lie in slabs that are never unmapped: threads look at hot connections
//! without the lock ([`list`]). A set's place is used again as soon as it is closed. Whoever waits on it still, or has it among
//! the registrations of another set, knows it by its name, and finds that it is open no more.
//!
//! Lock order: a set's lock, then those of sets inside it, then a connection's. Nothing sleeps in the kernel holding one.

mod event;
mod forked;
mod kick;
mod list;
mod lock;
mod places;
mod relatives;
#[cfg(test)]
mod tests;
mod wait;
mod world;

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use dp_channel::watch::{Set, SetName, Target, World};
use dp_edge::sys::raw;

use crate::fdtable::{self, Entry};
use crate::{spin, state};
use event::Event;
pub use event::{next_number, without};
use forked::begun;
pub use forked::{go_on, hold_still, inherited, Others};
use list::Looked;
use lock::{Had, Lock};
#[cfg(test)]
pub use places::MOST;
use places::{place, places, take};
use relatives::Relatives;
pub use wait::wait;
use world::Ground;
pub use world::{begins, uncounted};

/// Where a set lies. All zero is a free place.
struct Place {
    taken: AtomicBool,
    /// Sets that had it before this one.
    life: AtomicU32,
    /// One more than the life of the last set that went over to the kernel, and was not closed ([`hand_over`]).
    handed_over: AtomicU32,
    /// In which process of a line of forks the set is this one's ([`forked`]).
    forks: AtomicU32,
    /// Descriptors of this process that stand for the set.
    refs: AtomicU32,
    /// One of them.
    fd: AtomicI32,
    lock: Lock,
    /// Whoever gives the lock back wakes who sleeps in the set: a bell was taken that may have told him. 0: none was; a
    /// connection's number plus one; or [`SEVERAL`].
    robbed: AtomicU32,
    /// What is looked at without the lock; made for the first hot connection, and kept.
    looked: AtomicPtr<Looked>,
    /// When the kernel was asked last, ns, and how often it was not since.
    checked: AtomicU64,
    hits: AtomicU32,
    /// How long a look may take, ns.
    spin: AtomicU32,
    /// Sleeps with something hot in it.
    slept: AtomicU32,
    /// A stranger may have the kernel's set as well, and goes on waiting there when it is closed here.
    given: AtomicBool,
    /// Whether a relative may wait on it, too ([`Relatives`]).
    relatives: Relatives,
    /// The event that wakes whoever sleeps in it.
    event: Event,
    set: UnsafeCell<Set>,
}

// SAFETY: `set` is used under the lock only; the rest is made of atomics.
unsafe impl Sync for Place {}

/// Bells of more than one connection were taken.
const SEVERAL: u32 = u32::MAX;

/// A locked set, until it is unlocked ([`lock`]).
#[must_use]
struct Locked<'a> {
    place: &'a Place,
    index: u32,
    /// This thread had it before, for its fork, and keeps it.
    kept: bool,
}

impl<'a> Locked<'a> {
    /// The set, and its world.
    fn parts(&mut self) -> (&mut Set, Ground<'a>) {
        // SAFETY: the lock is held, and this borrow ends before it is given back.
        (unsafe { &mut *self.place.set.get() }, Ground::new(self.place, self.index))
    }

    /// Does `f` with both, and unlocks.
    #[inline(always)]
    fn once<R>(mut self, f: impl FnOnce(&mut Set, &mut Ground) -> R) -> R {
        let (set, mut w) = self.parts();
        let result = f(set, &mut w);
        self.unlock();
        result
    }

    fn unlock(self) {
        if !self.kept {
            self.place.lock.unlock();
            self.place.wake_robbed(self.index);
        }
    }
}

impl Place {
    /// `None` in a signal handler that interrupted this thread while it had the lock.
    fn lock(&self, index: u32) -> Option<Locked<'_>> {
        self.begin_in_child(index);
        self.lock.lock().map(|had| self.had(index, had))
    }

    fn had(&self, index: u32, had: Had) -> Locked<'_> {
        let mut locked = Locked { place: self, index, kept: had == Had::Kept };
        if had == Had::Torn {
            let (set, mut w) = locked.parts();
            set.mend(&mut w);
        }
        locked
    }

    /// [`Lock::lock_soon`].
    fn lock_soon(&self, index: u32) -> Option<Locked<'_>> {
        self.begin_in_child(index);
        let had = self.lock.lock_soon()?;
        Some(Locked { place: self, index, kept: had == Had::Kept })
    }

    /// A bell of connection `conn` was taken that may have told whoever sleeps in the set: see [`Place::robbed`].
    fn rob(&self, conn: u32) {
        let more = |had| Some(if had == 0 || had == conn + 1 { conn + 1 } else { SEVERAL });
        let _ = self.robbed.fetch_update(Ordering::SeqCst, Ordering::Relaxed, more);
    }

    /// Wakes them, unless another thread, or this one further up its stack, has the lock, and does so when it gives that back.
    /// Nobody's work is lost where its last attempt to have the lock is later than the look of him who had it: by many times as
    /// long as a store may take to be seen.
    #[inline(always)]
    fn wake_robbed(&self, index: u32) {
        if self.robbed.load(Ordering::Relaxed) != 0 {
            self.wake_robbed_now(index);
        }
    }

    #[cold]
    fn wake_robbed_now(&self, index: u32) {
        if let Some(locked) = self.lock_soon(index) {
            locked.once(|set, w| match self.robbed.swap(0, Ordering::AcqRel) {
                0 => {}
                SEVERAL if set.bell_was_taken(None, w) => {}
                SEVERAL => w.wake_by_event(set),
                conn => {
                    set.bell_was_taken(Some(conn - 1), w);
                }
            });
        }
    }
}

/// The set that is in place `i` now.
pub fn name(i: u32) -> SetName {
    SetName { place: i, life: place(i).map_or(0, |p| p.life.load(Ordering::Relaxed)) }
}

/// Whether a set is not closed yet.
fn is_open(set: SetName) -> bool {
    name(set.place) == set
}

/// The program has a new set, or one that we did not see begin.
pub fn born(fd: i32) -> Option<u32> {
    if fd < 0 || !fdtable::covers(fd) || !state::ON.load(Ordering::Relaxed) || state::is_borrowed_memory() {
        return None;
    }
    let i = take()?;
    let p = place(i)?;
    {
        let locked = p.lock(i)?;
        p.fd.store(fd, Ordering::Relaxed);
        p.checked.store(0, Ordering::Relaxed);
        p.hits.store(0, Ordering::Relaxed);
        p.spin.store(state::SPIN.load(Ordering::Relaxed), Ordering::Relaxed);
        p.slept.store(0, Ordering::Relaxed);
        p.robbed.store(0, Ordering::Relaxed);
        p.given.store(false, Ordering::Relaxed);
        p.relatives.renew();
        locked.once(|set, _| {
            set.renew(true);
            p.refs.store(1, Ordering::Release);
        });
    }
    fdtable::set(fd, Entry::Epoll(i));
    Some(i)
}

/// Does `f` with set `i`, if it still is the one of descriptor `epfd`.
fn with<R>(epfd: i32, i: u32, f: impl FnOnce(&mut Set, &mut Ground) -> R) -> Option<R> {
    let is_it = || fdtable::get(epfd) == Entry::Epoll(i);
    place(i)?.lock(i)?.once(|set, w| is_it().then(|| f(set, w)))
}

/// Does `f` with set `i`, whatever it is by now.
fn with_index(i: u32, f: impl FnOnce(&mut Set, &mut Ground)) {
    if let Some(locked) = place(i).and_then(|p| p.lock(i)) {
        locked.once(f);
    }
}

/// The program's `epoll_ctl`: whether it was dealt with, and how. `None`: the kernel call is still to be made.
pub fn ctl(epfd: i32, op: i32, fd: i32, event: Option<libc::epoll_event>) -> Option<Result<(), i32>> {
    let target = match fdtable::get(fd) {
        Entry::Conn(i) => Target::Conn(i),
        Entry::Epoll(i) => Target::Set(name(i)),
        _ => Target::Other,
    };
    let set = match fdtable::get(epfd) {
        Entry::Epoll(i) => i,
        // One that we did not see begin: by descriptor passing, or before we were there.
        Entry::None if op == libc::EPOLL_CTL_ADD && target != Target::Other => {
            return adopt(epfd, fd, target, event?)
        }
        _ => return None,
    };
    let event = event.map(|e| (e.events, e.u64));
    let done = with(epfd, set, |set, w| set.control(op, fd, target, event, w));
    if let (None, libc::EPOLL_CTL_ADD, Target::Conn(conn)) = (&done, op, target) {
        // The kernel gets it all the same, in a handler inside the lock, and nobody counts it.
        world::uncounted(conn);
    }
    done
}

/// A set that strangers may have as well, in which there may be what we never saw: it is left to the kernel.
fn adopt(epfd: i32, fd: i32, target: Target, event: libc::epoll_event) -> Option<Result<(), i32>> {
    if let Err(e) = raw::epoll_ctl(epfd, libc::EPOLL_CTL_ADD, fd, Some(event)) {
        return Some(Err(e));
    }
    let known = born(epfd).and_then(|set| {
        with(epfd, set, |set, w| {
            set.is_strangers_too();
            set.expose(true, w);
            w.end_event();
            let _ = raw::epoll_ctl(epfd, libc::EPOLL_CTL_DEL, fd, None);
            set.control(libc::EPOLL_CTL_ADD, fd, target, Some((event.events, event.u64)), w)
        })
    });
    if let (None, Target::Conn(conn)) = (known, target) {
        // There is no place for the set: it stays the kernel's, and so does what is in it.
        world::uncounted(conn);
    }
    Some(known.unwrap_or(Ok(())))
}

/// Number `fd` stands for connection `conn` now. A program may register a socket before it connects it.
pub fn connected(fd: i32, conn: u32) {
    for (i, place) in places() {
        match place.lock(i) {
            Some(locked) => locked.once(|set, w| set.connected(fd, conn, w)),
            // A handler inside the lock cannot know.
            None => Ground::new(place, i).uncounted(conn),
        }
    }
}

/// Does `f` with each set in which connection `conn` may be.
fn with_sets_of(conn: u32, f: impl Fn(&mut Set, &mut Ground)) {
    each_set_of(conn, |i| with_index(i, &f));
}

/// Calls `f` for each of them.
fn each_set_of(conn: u32, f: impl Fn(u32)) {
    match world::registered(conn) {
        world::Registered::Nowhere => {}
        world::Registered::In(i) => f(i),
        world::Registered::Anywhere => places().for_each(|(i, _)| f(i)),
    }
}

/// The program closes `fd` of connection `conn`: what sets have of it changes with that. `other`: another number of this
/// process for the same socket; `kept`: relatives have it.
pub fn closing(fd: i32, conn: u32, other: Option<i32>, kept: bool) {
    with_sets_of(conn, |set, w| set.closing(fd, conn, other, kept, w));
}

/// Number `fd` of connection `conn` is about to stand for another file, which the program takes for the same connection: what
/// sets have of it goes over, with [`replaced`].
pub fn replacing(fd: i32, conn: u32) {
    with_sets_of(conn, |set, w| set.replacing(fd, conn, w));
}

/// Number `fd` stands for it.
pub fn replaced(fd: i32) {
    for (i, _) in places() {
        with_index(i, |set, w| set.replaced(fd, w));
    }
}

/// `fd` stands for connection `conn` now: perhaps a registration was left behind under that number.
pub fn reopened(fd: i32, conn: u32) {
    with_sets_of(conn, |set, _| set.reopened(fd, conn));
}

/// The bells of connection `conn` were taken, and what they announced was not: no kernel tells of it any more.
pub fn bells_are_gone(conn: u32) {
    with_sets_of(conn, |set, w| set.bells_are_gone(conn, w));
}

/// A bell of connection `conn` was taken, or its word is cold, while a set that it tells may sleep: who sleeps there looks at
/// everything. The caller may have a connection's lock, or be inside that very set: then whoever has the set does it.
#[cold]
pub fn bell_was_taken(conn: u32) {
    each_set_of(conn, |i| {
        if let Some(p) = place(i) {
            p.rob(conn);
            p.wake_robbed_now(i);
        }
    });
}

/// Wakes who sleeps in the sets of this process, for something that is of none of them. The caller may have a connection's lock, as in
/// [`bell_was_taken`].
#[cold]
pub fn wake_sleepers() {
    for (i, p) in begun() {
        p.robbed.store(SEVERAL, Ordering::SeqCst);
        p.wake_robbed_now(i);
    }
}

/// What connection `conn` has is an edge anew.
pub fn rises_anew(conn: u32) {
    with_sets_of(conn, |set, w| set.rises_anew(conn, w));
}

/// The set that `fd` stands for.
pub fn at(fd: i32) -> Option<SetName> {
    let Entry::Epoll(i) = fdtable::get(fd) else { return None };
    // Another thread may have closed it, and the place have another set's name.
    Some(name(i)).filter(|_| fdtable::get(fd) == Entry::Epoll(i))
}

/// One more descriptor of a set. False: another thread has closed the last one meanwhile, and the place is nobody's, or another
/// set's.
pub fn retain(set: SetName) -> bool {
    let more = |refs: u32| (refs > 0).then_some(refs + 1);
    let counted = place(set.place)
        .is_some_and(|p| p.refs.fetch_update(Ordering::AcqRel, Ordering::Relaxed, more).is_ok());
    // Asked once it cannot be closed any more.
    let is_it = counted && is_open(set);
    if counted && !is_it {
        close(-1, set.place);
    }
    is_it
}

/// Descriptor `fd` of set `i` is closed.
pub fn close(fd: i32, i: u32) {
    let Some(p) = place(i) else { return };
    if let Some(locked) = p.lock(i) {
        locked.once(|set, w| closed(fd, i, p, set, w));
    }
}

/// The same where that was done past us: its number may be another file's by now.
pub fn was_closed(fd: i32, i: u32) {
    if let Some(p) = place(i) {
        let _ = p.fd.compare_exchange(fd, -1, Ordering::Relaxed, Ordering::Relaxed);
    }
    close(fd, i);
}

fn closed(fd: i32, i: u32, p: &Place, set: &mut Set, w: &mut Ground) {
    if p.refs.fetch_sub(1, Ordering::AcqRel) != 1 {
        let now = p.fd.load(Ordering::Relaxed);
        if now == fd || now == -1 {
            // Calls are made by another number of it from now on.
            fdtable::each(|other, e| {
                if e == Entry::Epoll(i) && other != fd {
                    p.fd.store(other, Ordering::Relaxed);
                }
            });
        }
        return;
    }
    let inherited = set.is_inherited();
    if p.given.load(Ordering::Relaxed) {
        set.is_left_to_others(w);
    }
    // Places are taken from the first on, so a few that are used again and again have their memory at once.
    set.close(places::is_early(i), w);
    // Behind the connections, whose words say which group it is.
    w.leave_groups(inherited);
    w.end_event();
    p.fd.store(-1, Ordering::Relaxed);
    p.life.fetch_add(1, Ordering::Relaxed);
    places::give_back(i, p);
}

/// Does `f` with the set of that name, unless it is closed. The caller may have the lock of a set that has it inside, and its
/// place may be by now that of a set that has the caller's inside: that one's lock is not waited for.
fn with_open(name: SetName, f: impl FnOnce(&mut Set, &mut Ground)) {
    let is_open = || is_open(name);
    let Some(p) = place(name.place).filter(|_| is_open()) else { return };
    p.begin_in_child(name.place);
    if let Some(locked) = p.lock.lock_while(is_open).map(|had| p.had(name.place, had)) {
        locked.once(|set, w| {
            if is_open() {
                f(set, w)
            }
        });
    }
}

/// Makes a set's readiness the kernel's while somebody polls the set itself, or no more. Nothing where it is closed.
pub fn expose(name: SetName, more: bool) {
    with_open(name, |set, w| {
        set.expose(more, w);
        // Its event would make the set itself readable. Whoever sleeps in it now may be on the way to be woken by it.
        if more && !set.is_slept_in() {
            w.end_event();
        }
    });
}

/// Whether a set that is watched from outside, and readable as the kernel has it, has something for the program.
pub fn is_ready(name: SetName) -> bool {
    let mut ready = true;
    with_open(name, |set, w| ready = set.is_ready(w));
    ready
}

/// The set is given to somebody who does not see channels: from now on it is the kernel's.
pub fn give_away(i: u32) {
    with_index(i, |set, w| {
        place(i).iter().for_each(|p| p.given.store(true, Ordering::Relaxed));
        set.is_strangers_too();
        set.expose(true, w);
        w.end_event();
    });
}

/// The set is the kernel's alone from now on, and its number `fd` not ours. Whoever sleeps in it goes on in the kernel's.
pub fn hand_over(fd: i32, i: u32) {
    with_index(i, |set, w| {
        set.hand_over(w);
        w.end_event();
        if let Some(p) = place(i) {
            p.handed_over.store(name(i).life.wrapping_add(1), Ordering::Relaxed);
        }
    });
    fdtable::set(fd, Entry::None);
    close(fd, i);
}

/// The arena at `range` is about to be unmapped; no connection in it is live any more. False while some thread may still
/// look at one that was, or works with a set. The caller may have a connection's lock.
pub fn forget_arena(range: &core::ops::Range<usize>) -> bool {
    let forgotten = begun()
        .all(|(i, p)| p.lock_soon(i).map(|locked| locked.once(|_, w| w.forget_groups_in(range))).is_some());
    forgotten && spin::nobody_looks()
}

/// This process becomes another program, which knows of no set: relatives that have connections of its sets are told by bells from
/// here on, and its groups are free. Where that fails, the sets go on, and have hot ones anew.
pub fn before_exec() {
    for (i, _) in begun() {
        with_index(i, |set, w| {
            if !set.is_inherited() {
                set.cool(w);
                w.leave_groups(false);
            }
        });
    }
}
