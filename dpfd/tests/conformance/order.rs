//! Messages on one edge arrive in order and whole.

use std::thread;

use dpfd::driver::Driver;

use crate::kit::*;

pub fn messages_of_one_sender_arrive_in_order(d: Driver) {
    let (a, b) = pooled(d, 64 << 10);
    let sender = thread::spawn(move || {
        for i in 0..20_000u64 {
            a.send(&numbered(i, 8 + (i % 300) as usize)).expect("room");
        }
        a
    });
    for i in 0..20_000u64 {
        assert_eq!(recv(&b), numbered(i, 8 + (i % 300) as usize));
    }
    drop(sender.join());
}

pub fn many_senders_each_in_order(d: Driver) {
    const SENDERS: u16 = 12;
    const EACH: u64 = 2_000;
    let first = numbers(SENDERS + 1);
    let b = open(d, first);
    b.pool(256 << 10).expect("a pool");
    let senders: Vec<_> = (1..=SENDERS)
        .map(|k| {
            let a = open(d, first + k);
            a.target(local(first)).expect("a target");
            thread::spawn(move || {
                (0..EACH).for_each(|i| a.send(&numbered(i, 8 + (i % 90) as usize)).expect("room"));
                a
            })
        })
        .collect();
    let mut next = vec![0; SENDERS as usize];
    for _ in 0..u64::from(SENDERS) * EACH {
        let m = b.recv().expect("a message");
        let k = (m.from().dpid - first - 1) as usize;
        assert_eq!(m.to_vec(), numbered(next[k], 8 + (next[k] % 90) as usize), "sender {k}");
        next[k] += 1;
    }
    assert!(next.iter().all(|n| *n == EACH));
    senders.into_iter().for_each(|s| drop(s.join()));
}

pub fn one_sender_to_many(d: Driver) {
    const MANY: u16 = 10;
    let first = numbers(MANY + 1);
    let a = open(d, first);
    // The first one is missing: those behind it get theirs nevertheless.
    a.send_to(b"for later", local(first + 1)).expect("parked");
    let all: Vec<_> = (2..=MANY).map(|k| open(d, first + k)).collect();
    for i in 0..500u64 {
        for b in &all {
            a.send_to(&numbered(i, 40), b.addr()).expect("room");
        }
        if i % 50 == 0 {
            all.iter().for_each(|b| (0..if i == 0 { 1 } else { 50 }).for_each(|_| drop(b.recv())));
        }
    }
    for b in &all {
        (451..500).for_each(|i| assert_eq!(recv(b), numbered(i, 40)));
    }
    let late = open(d, first + 1);
    assert_eq!(recv(&late), b"for later");
}

pub fn plain_writes_keep_their_order(d: Driver) {
    let (a, b) = pair(d);
    let writer = thread::spawn(move || {
        (0..3_000u64).for_each(|i| write(&a, &numbered(i, 64)));
        a
    });
    (0..3_000u64).for_each(|i| assert_eq!(read(&b), numbered(i, 64)));
    drop(writer.join());
}

pub fn boundaries_stay(d: Driver) {
    let (a, b) = pair(d);
    for len in [8, 9, 100, 8] {
        write(&a, &numbered(len as u64, len));
    }
    for len in [8, 9, 100, 8] {
        assert_eq!(read(&b).len(), len);
    }
    b.pool(64 << 10).expect("a pool");
    for len in [8, 9, 100, 8] {
        a.send(&numbered(len as u64, len)).expect("room");
    }
    for len in [8, 9, 100, 8] {
        assert_eq!(recv(&b).len(), len);
    }
}

pub fn order_holds_while_the_receiver_gets_its_pool(d: Driver) {
    for round in 0..30u64 {
        let (a, b) = pair(d);
        let sender = thread::spawn(move || {
            (0..400u64).for_each(|i| a.send(&numbered(i, 32)).expect("room"));
            a
        });
        // Some are read plainly first, as many as chance will have it.
        let plain = round * 5 % 60;
        (0..plain).for_each(|i| assert_eq!(number_of(&read(&b)), i));
        (plain..400).for_each(|i| assert_eq!(number_of(&recv(&b)), i, "round {round}, {plain} read plainly"));
        drop(sender.join());
    }
}

pub fn order_holds_from_plain_to_direct(d: Driver) {
    for _ in 0..30 {
        let (a, b) = pooled(d, 64 << 10);
        // Plain writes first; a direct call right behind them must not overtake.
        (0..20u64).for_each(|i| write(&a, &numbered(i, 64)));
        (20..60u64).for_each(|i| a.send(&numbered(i, 64)).expect("room"));
        (60..70u64).for_each(|i| write(&a, &numbered(i, 64)));
        (70..80u64).for_each(|i| a.send(&numbered(i, 64)).expect("room"));
        (0..80u64).for_each(|i| assert_eq!(number_of(&recv(&b)), i));
    }
}

pub fn a_full_edge_keeps_the_order(d: Driver) {
    // An edge of 4 KiB, a receiver that rests now and then: edge, pair and service take turns.
    let (a, b) = pooled(d, 4096);
    let sender = thread::spawn(move || {
        (0..30_000u64).for_each(|i| a.send(&numbered(i, 8 + (i % 200) as usize)).expect("room"));
        a
    });
    for i in 0..30_000u64 {
        if i % 1000 == 0 {
            thread::sleep(std::time::Duration::from_millis(2));
        }
        assert_eq!(number_of(&recv(&b)), i);
    }
    drop(sender.join());
}
