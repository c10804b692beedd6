//! A lock that one thread takes and leaves without a locked instruction: biased locking, with membarrier(2).
//!
//! Each side of an endpoint belongs to one thread nearly always, and every send and receive takes and leaves its lock:
//! two locked instructions of 5 to 6 ns, on a path that has 40 ns in all. So who has had it `ENOUGH` times in a row
//! becomes its *owner*, and says by a plain store that it is inside; everybody else has to be careful instead.
//!
//! ```text
//!   owner                               any other, having the turn
//!   owner is me?                        owner = nobody
//!   its held = odd                      heavy fence
//!   light fence                         its held is odd? Sleeps until it is not.
//!   owner is still me? inside.          inside.
//!   ...                                 ...
//!   its held = even                     owner = as before, or nobody
//!   light fence                         gives the turn away
//!   owner is nobody? Wakes whoever
//!   sleeps until held is even
//! ```
//!
//! An owner that finds itself put out at its second look leaves as it would from inside, and takes a turn. One of the two
//! sees the other, at the owner's coming and at its going. The turn is a mutex; where there is no owner, it is all there
//! is. An owner that was put out less than `ENOUGH` uses after the last time loses its right: a lock that changes hands
//! is an ordinary mutex again.
//!
//! A former owner that was stopped between its look at `owner` and its store to `held` stores whenever it goes on, and
//! takes it back. So each owner has a `held` of its own, for the lock's life; the first `OWNERS` threads get one, and
//! all others take turns always.
//!
//! As with a mutex, whoever asks for what it has itself (from a signal handler) waits for ever, and a child of a fork
//! finds it as it was at the fork. The scheme is that of D. Dice, M. Moir and W. Scherer, "Quickly Reacquirable
//! Locks", 2010, without an atomic instruction to give the right away, because the turn is held then.

use core::cell::UnsafeCell;
use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ops::{Deref, DerefMut};
use core::panic::{RefUnwindSafe, UnwindSafe};

#[cfg(loom)]
use loom::sync::{Mutex, MutexGuard};
#[cfg(not(loom))]
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use super::barrier;
#[cfg(not(loom))]
use super::futex;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Uses in a row by one thread that make it the owner, or keep it the owner: as many as save what it takes to put it out.
const ENOUGH: u32 = if cfg!(loom) { 1 } else { 512 };
/// Threads that may be owners of one lock, one after the other; a power of two, and their names are multiples of it.
const OWNERS: usize = 8;
/// No thread has this name.
const NOBODY: u64 = 0;

/// A lock with an owner, and what it protects. On lines of its own: the other side's owner may be another thread.
#[repr(align(64))]
pub struct Biased<T> {
    /// The thread that needs no turn, plus the index of its `held`. Written by whoever has the turn.
    owner: AtomicU64,
    /// Odd: this owner is inside. Grows by two with each of its uses; written by one thread, ever, or by one after the other
    /// of the same name.
    held: [AtomicU32; OWNERS],
    turn: Mutex<Turn>,
    /// The turn of the one that is inside, if it is there in turn; with the guard it would keep that out of registers.
    taken: UnsafeCell<MaybeUninit<MutexGuard<'static, Turn>>>,
    #[cfg(loom)]
    bed: proof::Bed,
    value: UnsafeCell<T>,
}

// SAFETY: one thread at a time has a guard, and it is another's value only while that one has none: as a mutex.
unsafe impl<T: Send> Sync for Biased<T> {}
// SAFETY: where it can be moved nobody is inside, or never will be again (a guard was forgotten): `taken` is not read.
unsafe impl<T: Send> Send for Biased<T> {}

// As a mutex whose poison is not looked at.
impl<T> UnwindSafe for Biased<T> {}
impl<T> RefUnwindSafe for Biased<T> {}

/// What those who come one by one leave each other.
#[derive(Debug, Default)]
struct Turn {
    /// The thread that came last, but for visits; nobody, if that was a guest. How often in a row.
    last: u64,
    streak: u32,
    /// Whom the one that is inside put out: as in `owner`. Whether it is there for a visit.
    evicted: u64,
    visit: bool,
    /// Whose `held` is which, and what it was when its owner was put out last, or began.
    owners: [(u64, u32); OWNERS],
}

/// The value, for as long as this is there.
pub struct Guard<'a, T> {
    lock: &'a Biased<T>,
    /// As in `owner`; or [`NOBODY`], who is there in turn.
    owner: u64,
    /// A guard is its thread's.
    _value: PhantomData<*mut T>,
}

impl<T: Default> Default for Biased<T> {
    fn default() -> Self {
        Biased::new(T::default())
    }
}

impl<T> fmt::Debug for Biased<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Biased").finish_non_exhaustive()
    }
}

impl<T> Biased<T> {
    /// A lock that nobody owns.
    pub fn new(value: T) -> Biased<T> {
        Biased {
            owner: AtomicU64::new(NOBODY),
            held: Default::default(),
            turn: Mutex::new(Turn::default()),
            taken: UnsafeCell::new(MaybeUninit::uninit()),
            #[cfg(loom)]
            bed: proof::Bed::default(),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits until nobody else is inside.
    #[inline(always)]
    pub fn lock(&self) -> Guard<'_, T> {
        self.lock_as(this_thread())
    }

    /// As [`Biased::lock`], but never becomes the owner: for those who come often and do not stay.
    pub fn lock_as_guest(&self) -> Guard<'_, T> {
        let owner = self.enter_in_turn(NOBODY);
        Guard { lock: self, owner, _value: PhantomData }
    }

    /// Goes inside if nobody is there, or was a moment ago, or is about to be. It is a visit: whose right it is, or will be,
    /// does not change by it, so it should be rare. It costs as much as [`barrier::heavy`].
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        self.try_lock_as(this_thread())
    }

    #[inline(always)]
    fn lock_as(&self, me: u64) -> Guard<'_, T> {
        let owner = self.enter(me).unwrap_or_else(|| self.enter_in_turn(me));
        Guard { lock: self, owner, _value: PhantomData }
    }

    fn try_lock_as(&self, me: u64) -> Option<Guard<'_, T>> {
        let owner = self.enter(me).or_else(|| self.visit(me))?;
        Some(Guard { lock: self, owner, _value: PhantomData })
    }

    #[inline(always)]
    fn held(&self, owner: u64) -> &AtomicU32 {
        &self.held[owner as usize % OWNERS]
    }

    /// As the owner, if that is me: as what.
    #[inline(always)]
    fn enter(&self, me: u64) -> Option<u64> {
        let owner = self.owner.load(Ordering::Relaxed);
        if !is(owner, me) {
            return None;
        }
        let held = self.held(owner);
        let before = held.load(Ordering::Relaxed);
        if is_odd(before) {
            return None; // a signal handler, in the middle of its own thread's call
        }
        held.store(before.wrapping_add(1), Ordering::Relaxed);
        barrier::light();
        // Acquire: what the others did meanwhile, if they let it have its right again.
        if self.owner.load(Ordering::Acquire) != owner {
            self.leave(owner);
            return None;
        }
        Some(owner)
    }

    #[inline(always)]
    fn leave(&self, owner: u64) {
        let held = self.held(owner);
        held.store(held.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
        barrier::light();
        if self.owner.load(Ordering::Relaxed) == NOBODY {
            self.wake(held);
        }
    }

    /// `me`: nobody, for a guest.
    #[cold]
    #[inline(never)]
    fn enter_in_turn(&self, me: u64) -> u64 {
        let mut turn = its(&self.turn);
        let owner = self.owner.load(Ordering::Relaxed);
        if owner != NOBODY {
            self.put_out(owner, me);
            self.await_even(self.held(owner));
        }
        let again = turn.last == me && owner == NOBODY;
        turn.streak = if again { turn.streak.saturating_add(1) } else { 1 };
        (turn.last, turn.evicted, turn.visit) = (me, owner, false);
        self.keep(turn)
    }

    #[cold]
    fn visit(&self, me: u64) -> Option<u64> {
        let mut turn = try_its(&self.turn)?;
        let owner = self.owner.load(Ordering::Relaxed);
        if owner != NOBODY {
            let held = self.held(owner);
            // Asked first, for then it costs nothing.
            if is_odd(held.load(Ordering::Relaxed)) {
                return None;
            }
            self.put_out(owner, me);
            if is_odd(held.load(Ordering::Acquire)) {
                self.owner.store(owner, Ordering::Release);
                return None;
            }
        }
        (turn.evicted, turn.visit) = (owner, true);
        Some(self.keep(turn))
    }

    /// From here on the owner takes turns, and one that came in before is seen. Only by whoever has the turn.
    fn put_out(&self, owner: u64, me: u64) {
        self.owner.store(NOBODY, Ordering::Relaxed);
        if !is(owner, me) {
            barrier::heavy();
        }
    }

    fn keep(&self, turn: MutexGuard<'_, Turn>) -> u64 {
        // SAFETY: it is taken out again by `end_turn`, before the borrow that a guard has of this lock is over.
        let turn = unsafe { core::mem::transmute::<MutexGuard<'_, Turn>, MutexGuard<'static, Turn>>(turn) };
        // SAFETY: whoever has the turn is the only one that is here.
        unsafe { (*self.taken.get()).write(turn) };
        NOBODY
    }

    /// Gives the turn away, and says who owns it now.
    #[cold]
    #[inline(never)]
    fn end_turn(&self) {
        // SAFETY: the guard that ends is its who has the turn, and put it there; nobody reads it again before the next does.
        let mut turn = unsafe { (*self.taken.get()).assume_init_read() };
        let evicted = turn.evicted;
        let owner = if !barrier::is_ready() {
            NOBODY // nobody could put it out
        } else if turn.visit {
            evicted
        } else if evicted == NOBODY {
            turn.deserved()
        } else if is(evicted, turn.last) || self.uses(&mut turn, evicted) >= ENOUGH {
            evicted
        } else {
            NOBODY
        };
        if owner != NOBODY {
            if !turn.visit {
                *turn.began(owner) = self.held(owner).load(Ordering::Relaxed);
            }
            // Release: the owner must see what was done in this turn.
            self.owner.store(owner, Ordering::Release);
        }
    }

    /// How often this owner was inside since it was put out last, or began.
    fn uses(&self, turn: &mut Turn, owner: u64) -> u32 {
        self.held(owner).load(Ordering::Relaxed).wrapping_sub(*turn.began(owner)) / 2
    }
}

impl Turn {
    /// The thread that was here last as an owner, if it came often enough, and there is a place for it.
    fn deserved(&mut self) -> u64 {
        let thread = self.last;
        if self.streak < ENOUGH || thread == NOBODY {
            return NOBODY;
        }
        match self.owners.iter().position(|(its, _)| *its == thread || *its == NOBODY) {
            Some(place) => {
                self.owners[place].0 = thread;
                thread + place as u64
            }
            None => NOBODY,
        }
    }

    fn began(&mut self, owner: u64) -> &mut u32 {
        &mut self.owners[owner as usize % OWNERS].1
    }
}

#[cfg(not(loom))]
impl<T> Biased<T> {
    #[cold]
    fn wake(&self, held: &AtomicU32) {
        futex::wake(held.as_ptr() as usize);
    }

    #[cold]
    fn await_even(&self, held: &AtomicU32) {
        loop {
            // Acquire: what the owner did inside.
            let seen = held.load(Ordering::Acquire);
            if !is_odd(seen) {
                return;
            }
            // A signal is no reason to give up.
            let _ = futex::wait(held.as_ptr() as usize, seen);
        }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        match self.owner {
            NOBODY => self.lock.end_turn(),
            owner => self.lock.leave(owner),
        }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: whoever has a guard is alone inside, and this one's borrow keeps it.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and this guard is borrowed by nobody else.
        unsafe { &mut *self.lock.value.get() }
    }
}

/// Whether this owner is that thread.
#[inline(always)]
fn is(owner: u64, thread: u64) -> bool {
    owner & !(OWNERS as u64 - 1) == thread
}

#[inline(always)]
fn is_odd(held: u32) -> bool {
    held & 1 != 0
}

/// What no two threads of a process have in common as long as both are there: an address, of a word.
#[inline(always)]
fn this_thread() -> u64 {
    let me: u64;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the first word of a thread's control block is its own address (ELF handling for TLS, 3.4.6).
    unsafe {
        core::arch::asm!("mov {}, fs:0", out(reg) me, options(nostack, preserves_flags, pure, readonly));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: reads a register.
    unsafe {
        core::arch::asm!("mrs {}, tpidr_el0", out(reg) me, options(nostack, preserves_flags, pure, nomem));
    }
    me
}

#[cfg(not(loom))]
fn its(turn: &Mutex<Turn>) -> MutexGuard<'_, Turn> {
    turn.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(not(loom))]
fn try_its(turn: &Mutex<Turn>) -> Option<MutexGuard<'_, Turn>> {
    match turn.try_lock() {
        Ok(turn) => Some(turn),
        Err(TryLockError::Poisoned(e)) => Some(e.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

#[cfg(loom)]
use proof::{its, try_its};

#[cfg(loom)]
mod proof;
#[cfg(all(test, not(loom)))]
mod tests;
