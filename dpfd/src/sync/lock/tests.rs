//! One at a time, and nobody forgotten.

#[cfg(loom)]
use loom::{sync::Arc, thread};
#[cfg(not(loom))]
use std::{sync::Arc, thread};

use super::*;

/// Read, then written: two at once would lose one.
fn one_more(lock: &Lock<u64>) {
    let mut n = lock.lock();
    let was = *n;
    relax();
    *n = was + 1;
}

#[cfg(loom)]
#[test]
fn loom_one_at_a_time() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let lock = Arc::new(Lock::new(0));
        let other = lock.clone();
        let t = thread::spawn(move || one_more(&other));
        one_more(&lock);
        t.join().unwrap();
        assert_eq!(*lock.lock(), 2);
    });
}

#[cfg(not(loom))]
#[test]
fn one_at_a_time() {
    const EACH: u64 = 20_000;
    let lock = Arc::new(Lock::new(0));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let lock = lock.clone();
            thread::spawn(move || (0..EACH).for_each(|_| one_more(&lock)))
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!((*lock.lock(), lock.waiting.load(Ordering::Relaxed)), (4 * EACH, 0));
}

#[cfg(not(loom))]
#[test]
fn who_sleeps_is_woken() {
    let lock = Arc::new(Lock::new(0));
    for turn in 1..=50 {
        let held = lock.lock();
        let other = lock.clone();
        let sleeper = thread::spawn(move || one_more(&other));
        while lock.waiting.load(Ordering::Relaxed) == 0 {
            thread::yield_now();
        }
        assert!(lock.try_lock().is_none());
        drop(held);
        sleeper.join().unwrap();
        assert_eq!(*lock.lock(), turn);
    }
}

#[cfg(not(loom))]
#[test]
fn a_panic_gives_it_back() {
    let lock = Arc::new(Lock::new(7));
    let other = lock.clone();
    let panicked = thread::spawn(move || {
        let _held = other.lock();
        panic!("on purpose");
    });
    assert!(panicked.join().is_err());
    assert_eq!(*lock.try_lock().expect("free"), 7);
}
