//! A receiver of several edges and its one word: never asleep with something unseen (U3).

use dp_edge::ring::Tail;
use dp_edge::sync::settle;
use dp_edge::testing::explore;
use dp_edge::testing::kernel::Kernel;
use loom::sync::Arc;
use loom::thread;

use super::one_edge::{edge, Edge};
use crate::edge::arm::{Arm, Due, Rung};
use crate::edge::wake::{self, Sleeper, Wake};

/// An endpoint in pool mode: its descriptor, its word, an edge for each sender.
struct Endpoint {
    arm: Arm,
    edges: [Edge; 2],
    kernel: Kernel,
}

impl Endpoint {
    fn new(senders: u32) -> Endpoint {
        let e = Endpoint { arm: Arm::default(), edges: [edge(), edge()], kernel: Kernel::new(senders) };
        e.arm.arm(); // the first message rings
        e
    }

    fn waiting(&self) -> bool {
        self.edges.iter().any(Edge::waiting)
    }

    /// dp_read up to its sleep, for whoever takes `all` messages.
    fn receive(&self, mut all: u64, how: How) {
        while all > 0 {
            let got = self.edges.iter().filter(|e| e.take()).count() as u64;
            all -= got;
            // As after every message: the word is armed again once nothing is left.
            if (got == 0 || !self.waiting()) && all > 0 && !self.settle(how) {
                self.kernel.readable();
            }
        }
    }

    fn drain(&self) {
        self.kernel.drain(0, u32::MAX);
    }

    /// Whether something is there.
    fn settle(&self, how: How) -> bool {
        let there = match how {
            How::Right => {
                let mut receiver = Receiver { endpoint: self, wake: Wake::default() };
                wake::settle(&mut receiver, &self.arm).unwrap()
            }
            How::DrainBehind => {
                self.arm.arm();
                settle();
                if self.waiting() {
                    return true;
                }
                self.drain();
                self.waiting()
            }
            How::NoFence => {
                self.drain();
                self.arm.arm();
                self.waiting()
            }
            How::NoLook => {
                self.drain();
                self.arm.arm();
                false
            }
            How::ArmedOnce => {
                self.drain();
                if !self.arm.is_armed() {
                    self.arm.arm();
                }
                settle();
                self.waiting()
            }
        };
        if there {
            self.arm.disarm();
        }
        there
    }
}

/// One that knows nothing of what was before.
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
        self.endpoint.drain();
        Ok(())
    }
    fn waiting(&self) -> bool {
        self.endpoint.waiting()
    }
}

/// How the receiver goes to sleep.
#[derive(Clone, Copy)]
enum How {
    Right,
    /// Broken: bells are taken behind the arming. One that a slow sender rings for a message that was taken already is
    /// taken with them, and it will not ring again.
    DrainBehind,
    NoFence,
    NoLook,
    /// Broken: a word that is armed stays as it is, although its bell was taken.
    ArmedOnce,
}

fn send(e: &Endpoint, edge: usize, tail: &mut Tail, rung: &mut Rung, i: u64, fence: bool) {
    e.edges[edge].publish(tail, i, fence);
    if e.arm.owes(rung) == Due::Bell {
        e.kernel.ring(0);
    }
}

/// A sender for each edge, with so many messages each.
fn talk(messages: &[u64], how: How, fence: bool) {
    let e = Arc::new(Endpoint::new(messages.len() as u32));
    let senders: Vec<_> = messages
        .iter()
        .enumerate()
        .map(|(edge, &n)| {
            let e = e.clone();
            thread::spawn(move || {
                let (mut tail, mut rung) = (Tail::default(), Rung::default());
                (0..n).for_each(|i| send(&e, edge, &mut tail, &mut rung, i, fence));
                e.kernel.over();
            })
        })
        .collect();
    e.receive(messages.iter().sum(), how);
    for t in senders {
        t.join().unwrap();
    }
}

#[test]
fn loom_receiver_of_one_edge_is_woken() {
    explore(Some(4), || talk(&[2], How::Right, true));
}

#[test]
fn loom_receiver_of_two_edges_is_woken() {
    explore(Some(2), || talk(&[2, 1], How::Right, true));
}

/// The wake-up that was lost: a late bell, taken together with the wish for the next one.
#[test]
#[should_panic(expected = "lost wake-up")]
fn loom_broken_bells_taken_behind_the_arming() {
    explore(Some(4), || talk(&[2], How::DrainBehind, true));
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn loom_broken_arming_without_a_fence() {
    explore(Some(2), || talk(&[2], How::NoFence, true));
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn loom_broken_arming_without_a_look() {
    explore(Some(2), || talk(&[2], How::NoLook, true));
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn loom_broken_arming_under_an_old_number() {
    explore(Some(2), || talk(&[2], How::ArmedOnce, true));
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn loom_broken_sender_without_a_fence() {
    explore(Some(2), || talk(&[2], How::Right, false));
}

/// A receiver that looks by itself turns to polling, and the service arms the word in its place.
fn lease(look: bool) {
    let e = Arc::new(Endpoint::new(1));
    e.arm.disarm();
    let sender = {
        let e = e.clone();
        thread::spawn(move || {
            let (mut tail, mut rung) = (Tail::default(), Rung::default());
            (0..2).for_each(|i| send(&e, 0, &mut tail, &mut rung, i, true));
            e.kernel.over();
        })
    };
    let got = u64::from(e.edges[0].take());
    // The service, which cannot drain: it has no descriptor to read from.
    e.arm.arm();
    settle();
    if look && e.waiting() {
        e.arm.disarm();
        e.kernel.ring(0);
    }
    // The program: it polls before it calls.
    e.kernel.readable();
    e.receive(2 - got, How::Right);
    sender.join().unwrap();
}

#[test]
fn loom_lease_ends_while_messages_come() {
    explore(Some(3), || lease(true));
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn loom_broken_lease_without_a_look() {
    explore(Some(3), || lease(false));
}
