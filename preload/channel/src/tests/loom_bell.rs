//! The wake word: no schedule in which a receiver sleeps beside a message nobody will tell it of (W1-W5).

use dp_edge::ring::{self, Lines, Tail};
use dp_edge::sync::{AtomicU32, AtomicU64, Ordering};
use dp_edge::testing::explore;
use dp_edge::testing::kernel::Kernel;
use dp_edge::testing::lines::Heap;
use dp_edge::Error;
use loom::sync::{Arc, Mutex};
use loom::thread;

use super::ends::{Feed, Room};
use crate::bell::{Group, Owed, Telling, Word};
use crate::stream;

/// One edge and its socket.
pub struct Edge {
    pub ring: Heap,
    pub cursor: AtomicU64,
    pub word: Word,
    /// By which event its sleeper is woken.
    pub event: AtomicU32,
    pub kernel: Kernel,
    /// Bells taken out of the kernel so far; locked from counting to draining.
    pub drained: Mutex<u32>,
}

pub fn edge() -> Edge {
    Edge {
        ring: Heap::new(4),
        cursor: AtomicU64::new(0),
        word: Word::default(),
        event: AtomicU32::new(0),
        kernel: Kernel::new(1),
        drained: Mutex::new(0),
    }
}

impl Edge {
    /// The sender's whole call. With `fence` false the token is published by a plain release.
    pub fn send(&self, tail: &mut Tail, i: u64, fence: bool) {
        if self.publish(tail, i, fence, &[]).is_some() {
            self.kernel.ring(0);
        }
    }

    /// All but the bell, if one is owed, and what is said behind it.
    pub fn publish(&self, tail: &mut Tail, i: u64, fence: bool, groups: &[Group]) -> Option<Telling> {
        match self.owed(tail, i, fence, groups) {
            Owed::Bell(telling) => Some(telling),
            // A receiver that left is told over TCP, by the next call.
            Owed::Nothing | Owed::Left => None,
            Owed::Event(..) => unreachable!("nobody here has an event"),
        }
    }

    /// All but waking the receiver; how that is done.
    pub fn owed(&self, tail: &mut Tail, i: u64, fence: bool, groups: &[Group]) -> Owed {
        if fence {
            let m = i.to_le_bytes();
            while stream::push(&self.ring, tail, &self.cursor, &mut Feed::one(&m)).is_err() {
                thread::yield_now();
            }
        } else {
            ring::invalidate_next(&self.ring, tail.pos, 1);
            let stamp = tail.pos.raw() | 0x8000_0000;
            self.ring.header(tail.pos).store(stamp << 32 | 8, Ordering::Release);
            tail.pos = tail.pos.add(1);
        }
        self.word.after_publish(groups, &self.event)
    }

    /// A receive that does not sleep; also for several receivers.
    pub fn take(&self) -> bool {
        let mut room = Room::room(8, 8);
        match stream::pull(&self.ring, &self.cursor, &mut room, false) {
            Ok(_) => true,
            Err(e) => {
                assert_eq!(e, Error::Empty);
                false
            }
        }
    }

    pub fn waiting(&self) -> bool {
        stream::waiting(&self.ring, &self.cursor)
    }
}

/// How a receiver goes to sleep.
#[derive(Clone, Copy)]
pub enum Sleep {
    /// W4: count, arm, fence, look, drain the counted, sleep. The resting state.
    Armed,
    /// The same, for an edge that is hot: W2's sleeper count arms it.
    Sleeper,
    /// Broken: drain what is counted, then arm, then sleep.
    DrainFirst,
    /// Broken: arm and sleep without another look.
    Blind,
    /// Broken: sleeps armed, but drains whatever is there, counted or not.
    Unbounded,
}

/// Returns when there may be a message.
fn sleep(e: &Edge, how: Sleep) {
    let mut drained = e.drained.lock().unwrap();
    let drain = |drained: &mut u32, upto: u32| {
        let n = e.kernel.drain(0, upto.wrapping_sub(*drained));
        *drained += n;
    };
    match how {
        Sleep::Armed => {
            let counted = e.word.arm().bells;
            if e.waiting() {
                if counted != *drained {
                    e.word.unarm();
                }
                return;
            }
            drain(&mut drained, counted);
        }
        Sleep::Sleeper => {
            let counted = e.word.sleep().bells;
            if e.waiting() {
                e.word.awake();
                return;
            }
            drain(&mut drained, counted);
        }
        Sleep::DrainFirst => {
            drain(&mut drained, e.word.bells());
            e.word.arm();
        }
        Sleep::Blind => {
            let counted = e.word.arm().bells;
            drain(&mut drained, counted);
        }
        Sleep::Unbounded => {
            e.word.arm();
            if e.waiting() {
                return;
            }
            *drained += e.kernel.drain(0, u32::MAX);
        }
    }
    drop(drained);
    e.kernel.readable();
    if let Sleep::Sleeper = how {
        e.word.awake();
    }
}

pub fn receive(e: &Edge, n: u32, how: Sleep) {
    for _ in 0..n {
        while !e.take() {
            sleep(e, how);
        }
    }
}

/// A sender of as many messages as `receivers` want together, on one edge.
fn talk(hot: bool, how: Sleep, fence: bool, receivers: &[u32]) {
    let e = Arc::new(edge());
    if hot {
        assert!(e.word.make_hot());
    }
    let others: Vec<_> = receivers[1..]
        .iter()
        .map(|&n| {
            let e = e.clone();
            thread::spawn(move || receive(&e, n, how))
        })
        .collect();
    let total: u32 = receivers.iter().sum();
    let sender = {
        let e = e.clone();
        thread::spawn(move || {
            let mut tail = Tail::default();
            (0..total).for_each(|i| e.send(&mut tail, u64::from(i), fence));
            e.kernel.over();
        })
    };
    receive(&e, receivers[0], how);
    for t in others {
        t.join().unwrap();
    }
    sender.join().unwrap();
}

/// Poll with an event of the sleeper's own, which is the kernel's second socket here.
fn sleep_by_event(e: &Edge, looks_again: bool) {
    let mut drained = e.drained.lock().unwrap();
    let counted = e.word.bells();
    e.word.sleep_by_event(&e.event, 7);
    let waiting = looks_again && e.waiting();
    if !waiting {
        *drained += e.kernel.drain(0, counted.wrapping_sub(*drained));
    }
    drop(drained);
    if !waiting {
        e.kernel.readable_of(2);
        e.kernel.drain(1, u32::MAX);
    }
    e.word.awake_by_event(&e.event, 7);
}

/// The same without one.
fn sleep_by_bell(e: &Edge) {
    let mut drained = e.drained.lock().unwrap();
    let counted = e.word.sleep().bells;
    let waiting = e.waiting();
    if !waiting {
        *drained += e.kernel.drain(0, counted.wrapping_sub(*drained));
    }
    drop(drained);
    if !waiting {
        e.kernel.readable_of(1);
    }
    e.word.awake();
}

/// One receiver that sleeps by an event, and perhaps another that does not.
fn by_event(first: u32, other: u32, looks_again: bool) {
    let e = Arc::new(edge());
    let sender = {
        let e = e.clone();
        thread::spawn(move || {
            let mut tail = Tail::default();
            for i in 0..first + other {
                match e.owed(&mut tail, u64::from(i), true, &[]) {
                    Owed::Event(7, Telling::NOBODY) => e.kernel.ring(1),
                    Owed::Bell(_) => e.kernel.ring(0),
                    owed => assert_eq!(owed, Owed::Nothing),
                }
            }
            e.kernel.over();
        })
    };
    let second = (other > 0).then(|| {
        let e = e.clone();
        thread::spawn(move || {
            for _ in 0..other {
                while !e.take() {
                    sleep_by_bell(&e);
                }
            }
        })
    });
    for _ in 0..first {
        while !e.take() {
            sleep_by_event(&e, looks_again);
        }
    }
    sender.join().unwrap();
    if let Some(second) = second {
        second.join().unwrap();
    }
}

/// Beside a sleeper by an event, a poll that would sleep by another one: it looks, takes nothing, and its time is over.
/// `minds`: it leaves the other's number alone.
fn beside_a_poll(minds: bool) {
    let e = Arc::new(edge());
    let sender = {
        let e = e.clone();
        thread::spawn(move || {
            match e.owed(&mut Tail::default(), 0, true, &[]) {
                Owed::Event(7, Telling::NOBODY) => e.kernel.ring(1),
                Owed::Event(8, Telling::NOBODY) => {} // the poll's
                Owed::Bell(_) => e.kernel.ring(0),
                owed => assert_eq!(owed, Owed::Nothing),
            }
            e.kernel.over();
        })
    };
    let poll = {
        let e = e.clone();
        thread::spawn(move || {
            if !minds {
                e.event.store(8, Ordering::Relaxed);
            }
            e.word.sleep_by_event(&e.event, 8);
            e.word.awake_by_event(&e.event, 8);
        })
    };
    while !e.take() {
        sleep_by_event(&e, true);
    }
    poll.join().unwrap();
    sender.join().unwrap();
}

#[test]
fn loom_sleeper_by_an_event_beside_one_by_another() {
    explore(Some(2), || beside_a_poll(true));
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn loom_broken_number_of_another_overwritten() {
    explore(Some(2), || beside_a_poll(false));
}

#[test]
fn loom_sleeper_by_an_event_is_woken() {
    explore(Some(3), || by_event(2, 0, true));
}

#[test]
fn loom_sleeper_by_an_event_beside_one_by_bells() {
    explore(Some(2), || by_event(1, 1, true));
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn loom_broken_sleeper_by_an_event_without_a_last_look() {
    explore(Some(2), || by_event(1, 0, false));
}

#[test]
fn loom_armed_receiver_is_woken() {
    explore(Some(4), || talk(false, Sleep::Armed, true, &[3]));
}

#[test]
fn loom_hot_sleeper_is_woken() {
    explore(Some(4), || talk(true, Sleep::Sleeper, true, &[3]));
}

#[test]
fn loom_two_armed_receivers_are_woken() {
    explore(Some(2), || talk(false, Sleep::Armed, true, &[1, 1]));
}

#[test]
fn loom_two_hot_sleepers_are_woken() {
    explore(Some(2), || talk(true, Sleep::Sleeper, true, &[1, 1]));
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn loom_broken_no_fence_after_publishing() {
    explore(Some(2), || talk(false, Sleep::Armed, false, &[2]));
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn loom_broken_no_fence_before_a_hot_sleeper() {
    explore(Some(2), || talk(true, Sleep::Sleeper, false, &[2]));
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn loom_broken_drain_before_arm() {
    explore(Some(2), || talk(false, Sleep::DrainFirst, true, &[2]));
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn loom_broken_no_look_after_arming() {
    explore(Some(2), || talk(false, Sleep::Blind, true, &[2]));
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn loom_broken_draining_more_than_counted() {
    explore(Some(2), || talk(false, Sleep::Unbounded, true, &[2]));
}

/// Cold, hot, cold again, while messages come: `make_hot` and `make_cold` against a publishing sender.
fn change(look_after_cooling: bool) {
    let e = Arc::new(edge());
    let sender = {
        let e = e.clone();
        thread::spawn(move || {
            let mut tail = Tail::default();
            (0..3).for_each(|i| e.send(&mut tail, i, true));
            e.kernel.over();
        })
    };
    receive(&e, 1, Sleep::Armed);
    e.word.make_hot();
    receive(&e, 1, Sleep::Sleeper);
    if look_after_cooling {
        e.word.make_cold();
        receive(&e, 1, Sleep::Armed);
    } else if !e.take() {
        // Hot until now: what came since take() looked was told to nobody.
        let mut drained = e.drained.lock().unwrap();
        *drained += e.kernel.drain(0, e.word.make_cold().bells.wrapping_sub(*drained));
        drop(drained);
        e.kernel.readable();
        receive(&e, 1, Sleep::Armed);
    }
    sender.join().unwrap();
}

#[test]
fn loom_hot_and_cold_in_turn() {
    explore(Some(3), || change(true));
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn loom_broken_no_look_after_cooling() {
    explore(Some(3), || change(false));
}

/// `arm` ends up armed even if a bell is rung in the middle of it: a second receiver may take the message
/// that came with that bell, and nobody would arm again.
#[test]
fn loom_arm_leaves_it_armed() {
    explore(Some(5), || {
        let e = Arc::new(edge());
        let sender = {
            let e = e.clone();
            thread::spawn(move || e.send(&mut Tail::default(), 0, true))
        };
        let counted = e.word.arm().bells;
        // Rung now means: after we counted, so that bell stays in the kernel.
        assert!(!e.word.is_rung() || counted == 0);
        sender.join().unwrap();
    });
}

/// The other receiver of the test above, which takes what was published without arming.
#[test]
fn loom_arm_beside_a_receiver_that_never_sleeps() {
    explore(Some(2), || {
        let e = Arc::new(edge());
        let sender = {
            let e = e.clone();
            thread::spawn(move || {
                let mut tail = Tail::default();
                (0..2).for_each(|i| e.send(&mut tail, i, true));
                e.kernel.over();
            })
        };
        let thief = {
            let e = e.clone();
            thread::spawn(move || e.take())
        };
        while !e.take() {
            // Both may be gone to us: the thief takes one at most.
            sleep(&e, Sleep::Armed);
        }
        if !thief.join().unwrap() {
            receive(&e, 1, Sleep::Armed);
        }
        sender.join().unwrap();
    });
}
