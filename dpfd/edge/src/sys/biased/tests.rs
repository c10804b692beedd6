//! On threads as they are.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use super::{this_thread, Biased, ENOUGH, NOBODY, OWNERS};
use crate::sync::Ordering;
use crate::sys::barrier;

fn owner<T>(lock: &Biased<T>) -> u64 {
    lock.owner.load(Ordering::Relaxed) & !(OWNERS as u64 - 1)
}

/// A lock that this thread owns.
fn owned() -> Arc<Biased<u64>> {
    barrier::prepare();
    assert!(barrier::is_ready(), "membarrier(2) is not to be had");
    let lock = Arc::new(Biased::new(0));
    for _ in 0..ENOUGH {
        assert_eq!(owner(&lock), NOBODY);
        *lock.lock() += 1;
    }
    assert_eq!(owner(&lock), this_thread());
    lock
}

/// In another thread.
fn elsewhere<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    thread::scope(|s| s.spawn(f).join().unwrap())
}

#[test]
fn who_has_it_often_enough_owns_it() {
    let lock = owned();
    let held = lock.held[0].load(Ordering::Relaxed);
    drop(lock.lock());
    drop(lock.try_lock().unwrap());
    assert_eq!(lock.held[0].load(Ordering::Relaxed), held + 4, "the owner took a turn");
}

#[test]
fn a_visit_leaves_the_right_where_it_is() {
    let lock = owned();
    (0..3).for_each(|_| elsewhere(|| *lock.try_lock().unwrap() += 1));
    assert_eq!(owner(&lock), this_thread());
    assert_eq!(*lock.lock(), u64::from(ENOUGH) + 3);
}

#[test]
fn one_on_its_way_there_is_not_stopped_by_a_visit() {
    barrier::prepare();
    let lock = Biased::new(0);
    for _ in 0..ENOUGH {
        drop(lock.lock());
        elsewhere(|| drop(lock.try_lock().unwrap()));
    }
    assert_eq!(owner(&lock), this_thread());
}

#[test]
fn who_is_put_out_now_and_then_keeps_its_right() {
    let lock = owned();
    (0..ENOUGH).for_each(|_| *lock.lock() += 1);
    elsewhere(|| *lock.lock() += 1);
    assert_eq!(owner(&lock), this_thread());
    // And a second, directly after it, does not.
    elsewhere(|| *lock.lock() += 1);
    assert_eq!(owner(&lock), NOBODY);
    assert_eq!(*lock.lock(), 2 * u64::from(ENOUGH) + 2);
}

#[test]
fn a_guest_is_never_the_owner_and_counts_as_another() {
    barrier::prepare();
    let lock = Biased::new(0);
    (0..2 * ENOUGH).for_each(|_| *lock.lock_as_guest() += 1);
    assert_eq!(owner(&lock), NOBODY);
    let lock = owned();
    drop(lock.lock_as_guest());
    assert_eq!(owner(&lock), NOBODY, "its owner had used it too seldom");
    assert_eq!(*lock.lock(), u64::from(ENOUGH));
}

#[test]
fn another_one_becomes_the_owner() {
    let lock = owned();
    elsewhere(|| {
        for _ in 0..ENOUGH {
            assert_ne!(owner(&lock), this_thread());
            drop(lock.lock());
        }
        assert_eq!(owner(&lock), this_thread());
    });
}

/// More threads than may be owners, each of them long enough: the last ones take turns, and nothing is lost.
#[test]
fn who_comes_too_late_takes_turns() {
    let lock = owned();
    let many = 2 * OWNERS as u64;
    // All at once, or they would have one name after the other.
    let (barrier, next) = (Barrier::new(many as usize), AtomicU64::new(0));
    thread::scope(|s| {
        for i in 0..many {
            let (lock, barrier, next) = (&lock, &barrier, &next);
            s.spawn(move || {
                barrier.wait();
                while next.load(Ordering::Acquire) != i {
                    thread::yield_now();
                }
                (0..2 * ENOUGH).for_each(|_| *lock.lock() += 1);
                let owns = owner(lock) == this_thread();
                next.fetch_add(1, Ordering::Release);
                barrier.wait();
                assert_eq!(owns, i < OWNERS as u64 - 1, "thread {i}");
            });
        }
    });
    assert_eq!(*lock.lock(), u64::from(ENOUGH) * (1 + 2 * many));
}

#[test]
fn who_is_inside_is_waited_for() {
    let lock = owned();
    let (barrier, came) = (Barrier::new(2), AtomicBool::new(false));
    thread::scope(|s| {
        let inside = lock.lock();
        s.spawn(|| {
            barrier.wait();
            assert!(lock.try_lock().is_none(), "two are inside");
            barrier.wait();
            drop(lock.lock());
            came.store(true, Ordering::Relaxed);
        });
        barrier.wait();
        barrier.wait();
        thread::sleep(Duration::from_millis(50));
        assert!(!came.load(Ordering::Relaxed), "two are inside");
        drop(inside);
    });
    assert!(came.load(Ordering::Relaxed));
}

#[test]
fn the_owner_waits_for_who_is_inside() {
    let lock = owned();
    let barrier = Barrier::new(2);
    thread::scope(|s| {
        s.spawn(|| {
            let mut inside = lock.lock();
            barrier.wait();
            thread::sleep(Duration::from_millis(50));
            *inside = 1000;
        });
        barrier.wait();
        assert!(lock.try_lock().is_none(), "two are inside");
        assert_eq!(*lock.lock(), 1000);
    });
}

/// An owner, and others who come often, seldom and only if nobody is there; then another owner.
#[test]
fn nothing_is_counted_twice_or_lost() {
    let lock = owned();
    let first = *lock.lock();
    const MANY: u64 = 300_000;
    let counted: u64 = thread::scope(|s| {
        let seldom = s.spawn(|| {
            for _ in 0..500 {
                *lock.lock() += 1;
                thread::sleep(Duration::from_micros(50));
            }
            500
        });
        let trying = s.spawn(|| {
            (0..MANY).filter(|i| i % 64 != 0 || lock.try_lock().map(|mut n| *n += 1).is_some()).count() as u64
                - (MANY - MANY.div_ceil(64))
        });
        let late = s.spawn(|| {
            thread::sleep(Duration::from_millis(5));
            (0..MANY).for_each(|_| *lock.lock() += 1);
            MANY
        });
        (0..MANY).for_each(|_| *lock.lock() += 1);
        MANY + [seldom, trying, late].map(|t| t.join().unwrap()).iter().sum::<u64>()
    });
    assert_eq!(*lock.lock(), first + counted);
}
