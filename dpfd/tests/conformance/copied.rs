//! Receiving a copy: the same messages in the same order as in place, and nothing loaned behind.

use std::thread;

use dpfd::driver::Driver;
use dpfd::{Endpoint, Error};

use crate::kit::*;

/// The next message, which `into` has room for.
fn copied<'a>(b: &Endpoint, into: &'a mut [u8]) -> &'a [u8] {
    let (len, _) = b.recv_from(into).expect("a message");
    &into[..len]
}

pub fn a_copy_is_the_message_and_its_sender(d: Driver) {
    let first = numbers(3);
    let b = open(d, first);
    let senders = [open(d, first + 1), open(d, first + 2)];
    let mut into = [0; 64];
    for i in 0..200u64 {
        for a in &senders {
            a.send_to(&numbered(i, 8 + (i % 50) as usize), b.addr()).expect("room");
            let (len, from) = b.recv_from(&mut into).expect("a message");
            assert_eq!((&into[..len], from), (&numbered(i, 8 + (i % 50) as usize)[..], a.addr()));
        }
    }
    let bytes: u64 = (0..200).map(|i| 8 + i % 50).sum();
    assert_eq!((b.stat().received, b.stat().loaned), ((400, 2 * bytes), 0));
}

pub fn a_copy_tells_what_had_no_room(d: Driver) {
    let (a, b) = pooled(d, 64 << 10);
    for _ in 0..100 {
        for text in ["a message", "the next"] {
            a.send(text.as_bytes()).expect("room");
        }
        let mut into = *b"......";
        assert_eq!(b.recv_from(&mut into[..5]).expect("a message"), (9, a.addr()));
        assert_eq!(&into, b"a mes.");
        assert!(becomes_readable(&b));
        assert_eq!(b.recv_from(&mut []).expect("a message"), (8, a.addr()));
    }
    a.send(b"").expect("room");
    assert_eq!(b.recv_from(&mut [0; 8]).expect("an empty message"), (0, a.addr()));
    b.set_nonblocking(true).expect("a flag");
    assert!(matches!(b.recv_from(&mut [0; 8]), Err(Error::WouldBlock)));
    assert!(!readable(&b));
}

pub fn copies_of_every_size(d: Driver) {
    let (a, b) = pair(d);
    let mut into = vec![0; 1 << 20];
    // Around a line, where a message is loaned first, a sender's part of the pool, and what is out of line.
    let around = [8, 56, 64, 4096, 16 << 10, 64 << 10, 128 << 10, 1 << 20];
    let sizes = around.iter().flat_map(|n| [n.max(&9) - 1, *n, (n + 1).min(1 << 20)]);
    for (i, len) in sizes.cycle().take(3 * 24).enumerate() {
        a.send(&numbered(i as u64, len)).expect("room");
        assert!(copied(&b, &mut into) == numbered(i as u64, len), "message {i}, {len} bytes");
        assert_eq!(b.stat().loaned, 0);
    }
}

pub fn copies_and_lent_messages_in_turn(d: Driver) {
    // By chance: some are kept for a while and released in any order, some are copied. Many times the pool in all, so that
    // room which does not come back shows.
    let (a, b) = pooled(d, 32 << 10);
    const COUNT: u64 = 4_000;
    let len = |i: u64| 8 + (i * 37 % 500) as usize;
    let sender = thread::spawn(move || {
        (0..COUNT).for_each(|i| a.send(&numbered(i, len(i))).expect("room"));
        a
    });
    let (mut held, mut into) = (Vec::new(), [0; 600]);
    let mut chance = 1u64;
    for i in 0..COUNT {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let dice = chance >> 33;
        if dice % 3 == 0 {
            held.push((i, b.recv().expect("a message")));
        } else {
            assert_eq!(copied(&b, &mut into), numbered(i, len(i)), "message {i}");
        }
        while held.len() > (dice % 5) as usize {
            let (i, message) = held.swap_remove(dice as usize % held.len());
            assert_eq!(message.to_vec(), numbered(i, len(i)), "message {i}, loaned");
        }
        assert_eq!(b.stat().loaned, held.len());
    }
    drop(held);
    assert_eq!((b.stat().loaned, b.stat().received.0), (0, COUNT));
    drop(sender.join());
}

pub fn threads_that_copy_share_the_messages(d: Driver) {
    const COUNT: u64 = 6_000;
    let (a, b) = pooled(d, 64 << 10);
    let take = || {
        let (mut sum, mut last, mut into) = (0, None, [0; 64]);
        loop {
            let i = number_of(copied(&b, &mut into));
            if i >= COUNT {
                return sum;
            }
            assert!(last < Some(i), "{i} behind {last:?}");
            (sum, last) = (sum + i, Some(i));
        }
    };
    let sum = thread::scope(|scope| {
        let takers: Vec<_> = (0..3).map(|_| scope.spawn(take)).collect();
        (0..COUNT + 3).for_each(|i| a.send(&numbered(i, 40)).expect("room"));
        takers.into_iter().map(|t| t.join().expect("no failure")).sum::<u64>()
    });
    assert_eq!(sum, COUNT * (COUNT - 1) / 2);
}

pub fn a_sender_that_waits_for_room_goes_on_behind_a_copy(d: Driver) {
    let (a, b) = pooled(d, 16 << 10);
    let sender = thread::spawn(move || {
        (0..3_000u64).for_each(|i| a.send(&numbered(i, 1000)).expect("room"));
        a
    });
    let mut into = [0; 1000];
    for i in 0..3_000u64 {
        if i % 500 == 0 {
            thread::sleep(std::time::Duration::from_millis(5)); // it sleeps by now
        }
        assert_eq!(copied(&b, &mut into), numbered(i, 1000));
    }
    drop(sender.join());
}
