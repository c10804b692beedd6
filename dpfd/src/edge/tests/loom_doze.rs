//! A receiver that dozes on its only edge: never asleep with something unseen, and no bell on its descriptor (U3).

use dp_edge::ring::Tail;
use dp_edge::sync::settle;
use dp_edge::testing::explore;
use dp_edge::testing::kernel::Kernel;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use super::one_edge::{edge, Edge};
use crate::edge::arm::{Arm, Due, Rung};
use crate::edge::event_count::EventCount;
use crate::edge::wake::{self, Sleeper, Wake};

/// An endpoint in pool mode with one sender.
struct Endpoint {
    arm: Arm,
    edge: Edge,
    count: EventCount,
    kernel: Kernel,
    /// The kernel's queue of who sleeps on the word, and whether the sender is through.
    asleep: Mutex<bool>,
    woken: Condvar,
}

impl Endpoint {
    fn new() -> Endpoint {
        Endpoint {
            arm: Arm::default(),
            edge: edge(),
            count: EventCount::default(),
            kernel: Kernel::new(1),
            asleep: Mutex::new(false),
            woken: Condvar::new(),
        }
    }

    fn notify(&self) {
        self.count.count();
        self.wake();
    }

    /// FUTEX_WAKE.
    fn wake(&self) {
        let _asleep = self.asleep.lock().unwrap();
        self.woken.notify_all();
    }

    /// FUTEX_WAIT.
    fn sleep(&self, key: u32) {
        let mut over = self.asleep.lock().unwrap();
        while self.count.key() == key {
            assert!(!*over, "lost wake-up");
            over = self.woken.wait(over).unwrap();
        }
    }

    fn send(&self, tail: &mut Tail, rung: &mut Rung, i: u64, fence: bool) {
        self.edge.publish(tail, i, fence);
        match self.arm.owes(rung) {
            Due::Nothing => {}
            Due::Bell => self.kernel.ring(0),
            Due::Futex => self.notify(),
        }
    }

    fn sender(this: &Arc<Endpoint>, messages: u64, fence: bool) -> thread::JoinHandle<()> {
        let e = this.clone();
        thread::spawn(move || {
            let (mut tail, mut rung) = (Tail::default(), Rung::default());
            (0..messages).for_each(|i| e.send(&mut tail, &mut rung, i, fence));
            e.kernel.over();
            *e.asleep.lock().unwrap() = true;
            e.woken.notify_all();
        })
    }

    /// One sleep, if nothing is there: whether it slept.
    fn doze(&self, how: How) -> bool {
        let key = self.count.key();
        if how == How::Right {
            let mut receiver = Receiver { endpoint: self, wake: Wake::default() };
            let sleeps = wake::doze(&mut receiver, &self.arm, false);
            if sleeps {
                self.sleep(key);
                self.arm.disarm();
            }
            return sleeps;
        }
        self.arm.doze();
        if how != How::NoFence {
            settle();
        }
        if how != How::NoLook && self.edge.waiting() {
            self.arm.disarm();
            return false;
        }
        let key = if how == How::KeyBehind { self.count.key() } else { key };
        self.sleep(key);
        self.arm.disarm();
        true
    }
}

struct Receiver<'a> {
    endpoint: &'a Endpoint,
    wake: Wake,
}

impl Sleeper for Receiver<'_> {
    type Error = ();
    fn wake(&mut self) -> &mut Wake {
        &mut self.wake
    }
    fn drain(&mut self) -> Result<(), ()> {
        Ok(())
    }
    fn waiting(&self) -> bool {
        self.endpoint.edge.waiting()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Right,
    NoFence,
    NoLook,
    /// Broken: a wake-up between the look and this is one that it waits behind.
    KeyBehind,
}

fn talk(messages: u64, how: How, fence: bool) {
    let e = Arc::new(Endpoint::new());
    let sender = Endpoint::sender(&e, messages, fence);
    let mut left = messages;
    while left > 0 {
        if e.edge.take() {
            left -= 1;
        } else {
            e.doze(how);
        }
    }
    sender.join().unwrap();
}

#[test]
fn loom_dozing_receiver_is_woken() {
    explore(Some(4), || talk(2, How::Right, true));
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn loom_broken_dozing_without_a_fence() {
    explore(Some(2), || talk(2, How::NoFence, true));
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn loom_broken_dozing_without_a_look() {
    explore(Some(2), || talk(2, How::NoLook, true));
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn loom_broken_knocks_heard_behind_the_look() {
    explore(Some(2), || talk(2, How::KeyBehind, true));
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn loom_broken_knocking_sender_without_a_fence() {
    explore(Some(2), || talk(2, How::Right, false));
}

/// Armed for bells, nothing seen; then it dozes. Once it slept there is no bell and none comes, so that the descriptor need
/// not be emptied before the word is armed for bells again.
#[test]
fn loom_no_bell_for_who_dozed() {
    explore(Some(3), between_bells);
}

fn between_bells() {
    let e = Arc::new(Endpoint::new());
    e.arm.arm();
    settle();
    let sender = Endpoint::sender(&e, 2, true);
    let mut left = 2;
    if !e.edge.waiting() && e.doze(How::Right) {
        left -= u64::from(e.edge.take());
        assert_eq!(left, 1, "woken for nothing");
        assert_eq!(e.kernel.drain(0, u32::MAX), 0, "a bell that nobody takes");
    }
    while left > 0 {
        e.kernel.drain(0, u32::MAX);
        e.arm.arm();
        settle();
        if e.edge.take() {
            left -= 1;
        } else {
            e.kernel.readable();
        }
    }
    sender.join().unwrap();
}

/// The service ends the lease of a call that dozes, at any moment: it goes on with bells.
#[test]
fn loom_woken_receiver_hears_bells() {
    explore(Some(3), || {
        let e = Arc::new(Endpoint::new());
        let sender = Endpoint::sender(&e, 1, true);
        let service = {
            let e = e.clone();
            thread::spawn(move || e.notify())
        };
        let mut got = e.edge.take();
        if !got {
            e.doze(How::Right);
            got = e.edge.take();
        }
        while !got {
            e.kernel.drain(0, u32::MAX);
            e.arm.arm();
            settle();
            got = e.edge.take();
            if !got {
                e.kernel.readable();
            }
        }
        sender.join().unwrap();
        service.join().unwrap();
    });
}
