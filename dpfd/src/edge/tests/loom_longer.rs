//! A sender that goes over to a longer edge: its receiver follows, and no message is lost or overtaken.

use dp_edge::ring::{self, Kind, Lines, Pos, Tail, HEADER};
use dp_edge::sync::{AtomicU64, Ordering};
use dp_edge::testing::explore;
use dp_edge::testing::lines::{at_line, Heap};
use dp_edge::Error;
use loom::sync::Arc;
use loom::thread;

use crate::edge::longer::{waits, went_over};
use crate::edge::message;

/// Which step is wrong.
#[derive(Clone, Copy, PartialEq)]
enum Broken {
    Nothing,
    /// The receiver looks here first, and there behind it.
    Looks,
    /// The sender's messages are published in this order.
    Published(Ordering),
}

struct Edges {
    here: Heap,
    there: Heap,
    /// Nobody gives anything back.
    cursors: [AtomicU64; 2],
}

/// Messages sent here, and there.
const COUNTS: [u64; 2] = [2, 2];

fn send(e: &Edges, broken: Broken) {
    let mut number = 0;
    for (ring, cursor, count) in [(&e.here, &e.cursors[0], COUNTS[0]), (&e.there, &e.cursors[1], COUNTS[1])] {
        let mut tail = Tail::default();
        for _ in 0..count {
            let text = u64::to_le_bytes(number);
            number += 1;
            if let Broken::Published(order) = broken {
                publish(ring, &mut tail, &text, order);
            } else {
                message::send_bytes(ring, &mut tail, cursor, &text).expect("room");
            }
        }
    }
}

/// As [`message::send_bytes`], but for the order.
fn publish(ring: &Heap, tail: &mut Tail, text: &[u8], order: Ordering) {
    // SAFETY: a slice, and one line.
    unsafe { ring.put(tail.pos, HEADER, text.as_ptr(), text.len()) };
    let header = u64::from(tail.pos.raw() as u32 | 0x8000_0000) << 32 | text.len() as u64;
    ring.header(tail.pos).store(header, order);
    tail.pos = tail.pos.add(1);
}

/// Receives everything, in order, whatever the sender does meanwhile.
fn receive(e: &Edges, broken: Broken) {
    let (mut ring, mut at, mut over) = (&e.here, Pos::default(), false);
    for number in 0..COUNTS[0] + COUNTS[1] {
        let token = loop {
            if !over && gone_over(e, at, broken) {
                (ring, at, over) = (&e.there, Pos::default(), true);
            }
            match ring::look(ring, at) {
                Err(Error::Empty) => thread::yield_now(),
                other => break other.expect("a token"),
            }
        };
        assert_eq!(token.kind, Kind::Data);
        let mut text = [0; 8];
        // SAFETY: one line, and a buffer as long as what is read.
        unsafe { ring.get(at, HEADER, text.as_mut_ptr(), text.len()) };
        assert_eq!(u64::from_le_bytes(text), number, "overtaken");
        at = at_line(at.add(token.lines())).pos;
    }
}

fn gone_over(e: &Edges, at: Pos, broken: Broken) -> bool {
    if broken == Broken::Looks {
        let nothing_here = ring::look(&e.here, at) == Err(Error::Empty);
        return nothing_here && waits(&e.there);
    }
    went_over(&e.here, at, &e.there)
}

fn go(broken: Broken) {
    let cursors = || AtomicU64::new(0);
    let e =
        Arc::new(Edges { here: Heap::strict(4), there: Heap::strict(4), cursors: [cursors(), cursors()] });
    let sender = {
        let e = e.clone();
        thread::spawn(move || send(&e, broken))
    };
    receive(&e, broken);
    sender.join().unwrap();
}

#[test]
fn loom_receiver_follows_a_sender_to_its_longer_edge() {
    explore(Some(3), || go(Broken::Nothing));
}

#[test]
#[should_panic(expected = "overtaken")]
fn loom_broken_looks_the_other_way_round() {
    explore(Some(3), || go(Broken::Looks));
}

#[test]
fn loom_receiver_follows_whoever_publishes_in_order() {
    explore(Some(3), || go(Broken::Published(Ordering::Release)));
}

/// It is overtaken, or read while it is written.
#[test]
#[should_panic]
fn loom_broken_order_of_the_senders_messages() {
    explore(Some(3), || go(Broken::Published(Ordering::Relaxed)));
}
