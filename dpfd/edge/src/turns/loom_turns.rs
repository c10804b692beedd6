//! Proofs: nothing is left that nobody does, and nothing becomes due while the helper sleeps on.

use loom::sync::Arc;
use loom::thread;

use super::{Turns, LATE};
use crate::sync::{fence, AtomicU32, Ordering};
use crate::testing::explore;

/// Which step is left out.
#[derive(Clone, Copy, PartialEq)]
enum Without {
    Nothing,
    /// The thread that lets go does not ask what is left.
    Question,
    /// The thread that leaves something does not try again.
    Attempt,
    /// Nobody fences between what it has due and what the helper plans.
    Fence,
}

/// A lock that can be found taken, made of what loom sees each access of: of its own it does not try whether it is.
struct Lock(AtomicU32);

struct Held<'a>(&'a Lock);

impl Lock {
    fn try_lock(&self) -> Option<Held<'_>> {
        self.0.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).ok().map(|_| Held(self))
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0 .0.store(0, Ordering::Release);
    }
}

/// Two who send, and a thing that one of them has: what each has published is taken by one of them.
fn senders(without: Without) {
    explore(Some(3), move || {
        let turns = Arc::new(Turns::new());
        let node = Arc::new(Lock(AtomicU32::new(0)));
        let sent = Arc::new(AtomicU32::new(0));
        let send = {
            let (turns, node, sent) = (turns.clone(), node.clone(), sent.clone());
            move || {
                sent.fetch_add(1, Ordering::Release);
                let mut all = 0;
                let mut take = || all += sent.swap(0, Ordering::AcqRel);
                if without == Without::Question {
                    turns.leave();
                    if let Some(_held) = node.try_lock() {
                        take();
                    }
                    return all;
                }
                if !turns.visit(|| node.try_lock(), |_, _| take()) && without != Without::Attempt {
                    turns.leave();
                    turns.visit(|| node.try_lock(), |_, _| take());
                }
                all
            }
        };
        let other = thread::spawn(send.clone());
        let taken = send() + other.join().unwrap();
        assert_eq!(taken, 2, "a message that nobody took");
    });
}

#[test]
fn loom_what_is_sent_while_another_one_steps_is_taken() {
    senders(Without::Nothing);
}

#[test]
#[should_panic(expected = "a message that nobody took")]
fn loom_who_lets_go_must_ask_what_is_left() {
    senders(Without::Question);
}

#[test]
#[should_panic(expected = "a message that nobody took")]
fn loom_who_leaves_something_must_try_again() {
    senders(Without::Attempt);
}

/// A call steps, and the helper goes to sleep: it sleeps no longer than what became due allows, or is woken.
fn helper(without: Without) {
    explore(Some(3), move || {
        let turns = Arc::new(Turns::new());
        turns.due.store(u64::MAX, Ordering::Relaxed);
        let caller = {
            let turns = turns.clone();
            thread::spawn(move || {
                if without == Without::Fence {
                    turns.due.store(LATE, Ordering::Relaxed);
                    return 2 * LATE < turns.planned.load(Ordering::Relaxed);
                }
                turns.is_due(LATE)
            })
        };
        let until = if without == Without::Fence {
            turns.planned.store(10 * LATE, Ordering::Relaxed);
            turns.due().min(10 * LATE)
        } else {
            turns.plan(10 * LATE)
        };
        let woken = caller.join().unwrap();
        assert!(woken || until <= 2 * LATE, "it sleeps over what is due");
        fence(Ordering::SeqCst);
    });
}

#[test]
fn loom_the_helper_does_not_sleep_over_what_is_due() {
    helper(Without::Nothing);
}

#[test]
#[should_panic(expected = "it sleeps over what is due")]
fn loom_both_must_fence() {
    helper(Without::Fence);
}

/// The helper relies on a call that sleeps, which ends its sleep: it is woken, or has seen that there is none.
fn relied(without: Without) {
    explore(Some(3), move || {
        let turns = Arc::new(Turns::new());
        assert!(turns.begin_wait(false));
        let caller = {
            let turns = turns.clone();
            thread::spawn(move || {
                if without == Without::Fence {
                    turns.leader.store(0, Ordering::Relaxed);
                    return turns.relies.load(Ordering::Relaxed) != 0;
                }
                turns.end_wait(true)
            })
        };
        let relies = if without == Without::Fence {
            turns.relies.store(1, Ordering::Relaxed);
            turns.has_leader()
        } else {
            turns.rely()
        };
        assert!(caller.join().unwrap() || !relies, "it relies on nobody");
        fence(Ordering::SeqCst);
    });
}

#[test]
fn loom_the_helper_relies_on_nobody_who_is_gone() {
    relied(Without::Nothing);
}

#[test]
#[should_panic(expected = "it relies on nobody")]
fn loom_who_ends_a_sleep_and_who_relies_on_it_must_fence() {
    relied(Without::Fence);
}
