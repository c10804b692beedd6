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
    a.send_to(b"for later", local(first + 1)).expect("kept until then");
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

pub fn plain_writes_and_calls_in_turn(d: Driver) {
    for pool in [false, true] {
        let (a, b) = pair(d);
        if pool {
            b.pool(64 << 10).expect("a pool");
        }
        let sender = thread::spawn(move || {
            for i in 0..20_000u64 {
                match ((i * 2_654_435_761) >> 7) & 1 {
                    0 => write(&a, &numbered(i, 24)),
                    _ => a.send(&numbered(i, 24)).expect("room"),
                }
                // Sometimes all of it is on its way, and sometimes some is with the service.
                (0..i % 512).for_each(|_| std::hint::spin_loop());
            }
            a
        });
        for i in 0..20_000u64 {
            let got = if pool { recv(&b) } else { read(&b) };
            assert_eq!(number_of(&got), i);
        }
        drop(sender.join());
    }
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

pub fn plain_writes_go_to_the_target_of_their_moment(d: Driver) {
    let first = numbers(3);
    let a = open(d, first);
    a.target(local(first + 1)).expect("a target");
    (0..100u64).for_each(|i| write(&a, &numbered(i, 20)));
    a.target(local(first + 2)).expect("another");
    (0..50u64).for_each(|i| write(&a, &numbered(i, 30)));
    let (b, c) = (open(d, first + 1), open(d, first + 2));
    (0..100u64).for_each(|i| assert_eq!(read(&b), numbered(i, 20)));
    (0..50u64).for_each(|i| assert_eq!(read(&c), numbered(i, 30)));
}

pub fn plain_writes_and_sends_keep_their_order_for_who_asks(d: Driver) {
    for _ in 0..20 {
        let (a, b) = pooled(d, 64 << 10);
        a.keep_order();
        for i in 0..200u64 {
            a.send(&numbered(i, 10)).expect("room");
            assert_eq!(recv(&b), numbered(i, 10));
        }
        for i in 0..20u64 {
            write(&a, &numbered(2 * i, 10));
            a.send(&numbered(2 * i + 1, 10)).expect("room");
        }
        (0..40u64).for_each(|i| assert_eq!(recv(&b), numbered(i, 10)));
    }
}

pub fn a_target_can_be_changed_while_messages_wait_for_the_former(d: Driver) {
    let first = numbers(3);
    let (a, b) = (open(d, first), open(d, first + 1));
    a.set_nonblocking(true).expect("a flag");
    a.target(local(first + 2)).expect("a target that is not there");
    let mut n = 0;
    while a.send(&numbered(n, 1000)).is_ok() {
        n += 1;
    }
    a.set_nonblocking(false).expect("a flag");
    a.target(b.addr()).expect("no wait");
    assert_eq!(a.stat().target, b.addr());
    let c = open(d, first + 2);
    (0..n).for_each(|i| assert_eq!(recv(&c), numbered(i, 1000)));
    a.send(b"there").expect("room");
    assert_eq!(recv(&b), b"there");
}
