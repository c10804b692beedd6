//! A receiver of one edge as the product is one, by the steps of its state: it sleeps on the edge's word, or on its
//! descriptor, falls silent when it was woken, and the service ends its lease at any moment (U3).

use dp_edge::ring::Tail;
use dp_edge::sync::settle;
use dp_edge::testing::explore;
use dp_edge::testing::kernel::Kernel;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use super::one_edge::{edge, Edge};
use crate::edge::arm::{Arm, Due, Rung};
use crate::edge::event_count::EventCount;
use crate::edge::wake::{self, Bell, Event, Sleeper, Wake};

/// What the receiver's lock guards.
#[derive(Default)]
struct Rx {
    wake: Wake,
    late: bool,
    /// It was roused: it listens for bells from now on.
    listens: bool,
}

struct Endpoint {
    arm: Arm,
    edge: Edge,
    count: EventCount,
    kernel: Kernel,
    rx: Mutex<Rx>,
    /// The kernel's queue of who sleeps on the word, and whether nobody wakes it any more.
    over: Mutex<bool>,
    woken: Condvar,
}

struct Call<'a>(&'a Endpoint, &'a mut Rx);

impl Sleeper for Call<'_> {
    type Error = ();
    fn wake(&mut self) -> &mut Wake {
        &mut self.1.wake
    }
    fn drain(&mut self) -> Result<(), ()> {
        let heard = self.0.kernel.drain(0, u32::MAX) > 0;
        self.1.late = !heard;
        self.1.wake = self.1.wake.step(Event::Drained { heard });
        Ok(())
    }
    fn waiting(&self) -> bool {
        self.0.edge.waiting()
    }
}

/// Where a call sleeps.
enum Sleep {
    Word(u32),
    Descriptor,
}

impl Endpoint {
    fn new() -> Endpoint {
        let e = Endpoint {
            arm: Arm::default(),
            edge: edge(),
            count: EventCount::default(),
            kernel: Kernel::new(1),
            rx: Mutex::default(),
            over: Mutex::new(false),
            woken: Condvar::new(),
        };
        e.arm.arm(); // the first message rings
        e
    }

    fn notify(&self) {
        self.count.count();
        let _over = self.over.lock().unwrap();
        self.woken.notify_all();
    }

    fn sleep_on_word(&self, key: u32) {
        let mut over = self.over.lock().unwrap();
        while self.count.key() == key {
            assert!(!*over, "lost wake-up");
            over = self.woken.wait(over).unwrap();
        }
    }

    fn send(&self, messages: u64) {
        let (mut tail, mut rung) = (Tail::default(), Rung::default());
        for i in 0..messages {
            self.edge.publish(&mut tail, i, true);
            match self.arm.owes(&mut rung) {
                Due::Nothing => {}
                Due::Bell => self.kernel.ring(0),
                Due::Futex => self.notify(),
            }
        }
        self.kernel.over();
        *self.over.lock().unwrap() = true;
        self.woken.notify_all();
    }

    /// The service, without the descriptor to read from.
    fn end_lease(&self, how: How) {
        let mut rx = self.rx.lock().unwrap();
        let dozed = rx.wake.is_dozing();
        rx.wake = rx.wake.step(Event::Rouse);
        rx.listens = true;
        if dozed && how != How::Unroused {
            self.notify();
        }
        if !rx.wake.is_armed() {
            rx.wake.go(Event::Ask, &self.arm);
            settle();
            if how != How::Unlooked && self.edge.waiting() {
                rx.wake.go(Event::Look, &self.arm);
                self.kernel.ring(0);
                rx.wake.go(Event::Told(true), &self.arm);
            }
        }
    }

    /// A call of the program: whether it found a message.
    fn receive(&self) -> bool {
        let mut rx = self.rx.lock().unwrap();
        if self.edge.take() {
            if !rx.wake.is_silent() {
                if self.edge.waiting() {
                    self.keep_readable(&mut rx);
                } else {
                    self.settle(&mut rx);
                }
            }
            return true;
        }
        let how = self.lie_down(&mut rx);
        drop(rx);
        match how {
            None => {}
            Some(Sleep::Descriptor) => {
                self.kernel.readable();
                let mut rx = self.rx.lock().unwrap();
                rx.wake = rx.wake.step(Event::Spent);
            }
            Some(Sleep::Word(key)) => {
                self.sleep_on_word(key);
                let mut rx = self.rx.lock().unwrap();
                if rx.wake.is_dozing() {
                    rx.wake.go(Event::Woken, &self.arm);
                    if rx.wake.bell() == Bell::None && !rx.listens {
                        rx.wake.go(Event::Silence { emptied: false }, &self.arm);
                    }
                }
            }
        }
        false
    }

    fn lie_down(&self, rx: &mut Rx) -> Option<Sleep> {
        rx.wake.go(Event::Cool, &self.arm);
        let empty = rx.wake.bell() == Bell::None || rx.wake.is_settled();
        if rx.listens {
            let settled = rx.wake.is_settled() || !self.settle(rx);
            return settled.then_some(Sleep::Descriptor);
        }
        if !empty && self.settle(rx) {
            return None;
        }
        let (key, late) = (self.count.key(), rx.late);
        wake::doze(&mut Call(self, rx), &self.arm, late).then_some(Sleep::Word(key))
    }

    fn settle(&self, rx: &mut Rx) -> bool {
        let there = wake::settle(&mut Call(self, rx), &self.arm).unwrap();
        if there {
            self.keep_readable(rx);
        }
        there
    }

    fn keep_readable(&self, rx: &mut Rx) {
        if rx.wake.bell() != Bell::There {
            rx.wake.go(Event::Look, &self.arm);
            self.kernel.ring(0);
            rx.wake.go(Event::Told(true), &self.arm);
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Right,
    /// Broken: the lease ends, and who sleeps on the word is not told.
    Unroused,
    /// Broken: the word is armed, and the edge not looked at.
    Unlooked,
}

fn talk(messages: u64, how: How) {
    let e = Arc::new(Endpoint::new());
    let threads = [
        thread::spawn({
            let e = e.clone();
            move || e.send(messages)
        }),
        thread::spawn({
            let e = e.clone();
            move || e.end_lease(how)
        }),
    ];
    let mut left = messages;
    while left > 0 {
        left -= u64::from(e.receive());
    }
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn loom_lease_of_a_sleeper_ends_at_any_moment() {
    explore(Some(2), || talk(2, How::Right));
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn loom_broken_lease_that_rouses_nobody() {
    explore(Some(2), || talk(2, How::Unroused));
}

/// A program that polls is told by the service alone.
fn poll_behind_silence(how: How) {
    let e = Arc::new(Endpoint::new());
    e.rx.lock().unwrap().wake.go(Event::Silence { emptied: true }, &e.arm);
    let sender = thread::spawn({
        let e = e.clone();
        move || e.send(1)
    });
    e.end_lease(how);
    e.kernel.readable();
    while !e.receive() {}
    sender.join().unwrap();
}

#[test]
fn loom_program_that_polls_is_told_when_the_lease_is_over() {
    explore(Some(3), || poll_behind_silence(How::Right));
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn loom_broken_lease_that_does_not_look() {
    explore(Some(3), || poll_behind_silence(How::Unlooked));
}
