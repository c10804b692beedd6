//! Proofs: one is inside, and everybody gets there, in all schedules and with all stale loads.

use loom::sync::{Condvar, Mutex, MutexGuard};

use super::{is_odd, Biased, Turn};
use crate::sync::{AtomicU32, Ordering};

/// The kernel's queue of who sleeps on `held`.
#[derive(Default)]
pub struct Bed {
    queue: Mutex<()>,
    woken: Condvar,
}

pub fn its(turn: &Mutex<Turn>) -> MutexGuard<'_, Turn> {
    turn.lock().unwrap()
}

pub fn try_its(turn: &Mutex<Turn>) -> Option<MutexGuard<'_, Turn>> {
    turn.try_lock().ok()
}

impl<T> Biased<T> {
    /// FUTEX_WAKE.
    pub(super) fn wake(&self, _held: &AtomicU32) {
        let _queue = self.bed.queue.lock().unwrap();
        self.bed.woken.notify_all();
    }

    /// FUTEX_WAIT, until it is even.
    pub(super) fn await_even(&self, held: &AtomicU32) {
        let mut queue = self.bed.queue.lock().unwrap();
        while is_odd(held.load(Ordering::Acquire)) {
            queue = self.bed.woken.wait(queue).unwrap();
        }
    }
}

#[cfg(test)]
mod tests {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    use super::super::{is, Biased, Guard, OWNERS};
    use crate::sync::Ordering;
    use crate::sys::barrier::model::WITHOUT;

    /// A number that loom watches: two who are inside at once, or one that sees it as it was, are found out.
    #[derive(Default)]
    struct Number(UnsafeCell<u32>);

    // SAFETY: loom watches who touches it.
    unsafe impl Send for Number {}

    impl Number {
        fn count(&mut self) -> u32 {
            self.0.with_mut(|n| {
                // SAFETY: loom has seen to it that nobody else is here.
                unsafe {
                    *n += 1;
                    *n
                }
            })
        }
    }

    /// A thread's name; the others have its multiples.
    const ONE: u64 = OWNERS as u64;

    type Lock = Biased<Number>;

    /// A lock that the first thread owns.
    fn owned() -> Arc<Lock> {
        let lock = Lock::default();
        drop(lock.lock_as(ONE));
        assert_eq!(lock.owner.load(Ordering::Relaxed), ONE);
        Arc::new(lock)
    }

    fn explore(without: [bool; 2], f: impl Fn() + Sync + Send + 'static) {
        WITHOUT.set(without);
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = builder.preemption_bound.or(Some(3));
        builder.max_branches = 20_000;
        builder.check(f);
    }

    fn count(guard: Option<Guard<'_, Number>>) -> u32 {
        guard.map_or(0, |mut number| {
            number.count();
            1
        })
    }

    /// The owner comes so often, and each of the others once, by this way.
    fn together(owner: u32, others: u64, enter: fn(&Lock, u64) -> Option<Guard<'_, Number>>) {
        let lock = owned();
        let threads: Vec<_> = (2..2 + others)
            .map(|me| {
                let lock = lock.clone();
                thread::spawn(move || count(enter(&lock, me * ONE)))
            })
            .collect();
        let mut all: u32 = (0..owner).map(|_| count(Some(lock.lock_as(ONE)))).sum();
        for thread in threads {
            all += thread.join().unwrap();
        }
        assert_eq!(lock.lock_as(ONE).count(), all + 1, "somebody's number was lost");
    }

    fn waits(lock: &Lock, me: u64) -> Option<Guard<'_, Number>> {
        Some(lock.lock_as(me))
    }

    fn is_guest(lock: &Lock, _: u64) -> Option<Guard<'_, Number>> {
        Some(lock.lock_as_guest())
    }

    fn tries(lock: &Lock, me: u64) -> Option<Guard<'_, Number>> {
        lock.try_lock_as(me)
    }

    #[test]
    fn loom_one_is_inside() {
        explore([false; 2], || together(2, 1, waits));
    }

    #[test]
    fn loom_one_of_three_is_inside() {
        explore([false; 2], || together(1, 2, waits));
    }

    #[test]
    fn loom_a_guest_is_alone_inside() {
        explore([false; 2], || together(2, 1, is_guest));
    }

    #[test]
    fn loom_who_tries_is_alone_inside() {
        explore([false; 2], || together(2, 1, tries));
    }

    /// A thread that has had it once is the owner here: the right goes from hand to hand.
    #[test]
    fn loom_a_right_goes_from_hand_to_hand() {
        explore([false; 2], || {
            let lock = owned();
            let other = {
                let lock = lock.clone();
                thread::spawn(move || (0..3).map(|_| count(waits(&lock, 2 * ONE))).sum::<u32>())
            };
            let all = count(waits(&lock, ONE)) + other.join().unwrap();
            assert_eq!(all, 4);
            assert_eq!(lock.lock_as(3 * ONE).count(), 5);
            // The thread that had it used it, has lost it, has it not.
            (0..2).for_each(|_| drop(lock.lock_as(3 * ONE)));
            assert!(is(lock.owner.load(Ordering::Relaxed), 3 * ONE));
        });
    }

    #[test]
    #[should_panic(expected = "Causality violation")]
    fn loom_broken_without_the_owners_fence() {
        explore([true, false], || together(2, 1, waits));
    }

    #[test]
    #[should_panic(expected = "Causality violation")]
    fn loom_broken_without_the_others_fence() {
        explore([false, true], || together(2, 1, waits));
    }
}
