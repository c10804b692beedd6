//! Plain and in place, and the passage between them.

use dpfd::driver::Driver;

use crate::kit::*;

pub fn messages_from_before_the_pool_keep_their_sender(d: Driver) {
    let first = numbers(3);
    let b = open(d, first);
    let (x, y) = (open(d, first + 1), open(d, first + 2));
    for a in [&x, &y] {
        a.target(b.addr()).expect("a target");
    }
    x.send(b"from x").expect("room");
    assert!(becomes_readable(&b));
    write(&y, b"from y");
    until("both", || fionread(&b) > 0);
    let mut got = Vec::new();
    for _ in 0..2 {
        let m = b.recv().expect("a message");
        got.push((m.from().dpid, m.to_vec()));
    }
    got.sort();
    assert_eq!(got, [(first + 1, b"from x".to_vec()), (first + 2, b"from y".to_vec())]);
}

pub fn plain_after_in_place(d: Driver) {
    // Pool mode is one way: a plain read gets empty packets, and the messages stay for the calls.
    let (a, b) = pooled(d, 64 << 10);
    a.send(b"zero").expect("room");
    assert_eq!(recv(&b), b"zero");
    until("an edge that its sender uses", || is_direct(d, &a, &b));
    a.send(b"one").expect("room");
    assert!(becomes_readable(&b));
    assert_eq!(read(&b), b"");
    assert_eq!(recv(&b), b"one");
    a.send(b"two").expect("room");
    assert_eq!(recv(&b), b"two");
}

pub fn messages_are_released_in_any_order(d: Driver) {
    let (a, b) = pooled(d, 16 << 10);
    for round in 0..200u64 {
        (0..6).for_each(|i| a.send(&numbered(round * 6 + i, 300)).expect("room"));
        let mut held: Vec<_> = (0..6).map(|_| b.recv().expect("a message")).collect();
        for (i, m) in held.iter().enumerate() {
            assert_eq!(number_of(&m.to_vec()), round * 6 + i as u64);
        }
        assert_eq!(b.stat().loaned, 6);
        while !held.is_empty() {
            let m = held.remove((round as usize * 7 + held.len()) % held.len());
            assert_eq!(m.to_vec().len(), 300);
        }
        assert_eq!(b.stat().loaned, 0);
    }
}

pub fn fsync_releases_the_oldest(d: Driver) {
    let (a, mut b) = pooled(d, 16 << 10);
    (0..10).for_each(|i| a.send(&numbered(i, 300)).expect("room"));
    (0..10).for_each(|_| std::mem::forget(b.recv().expect("a message")));
    b.release_oldest(4).expect("ten are loaned");
    assert_eq!(b.stat().loaned, 6);
    assert_eq!(b.release_oldest(7).unwrap_err().errno(), libc::EINVAL);
    b.release_oldest(6).expect("six are loaned");
    b.release_oldest(0).expect("none");
    assert_eq!(b.release_oldest(1).unwrap_err().errno(), libc::EINVAL);
}

pub fn the_pool_is_bounded(d: Driver) {
    // A receiver that releases nothing stops its sender; what it holds stays whole.
    let (a, b) = pooled(d, 16 << 10);
    a.set_nonblocking(true).expect("a flag");
    let mut held = Vec::new();
    let mut sent = 0u64;
    let mut quiet = 0;
    while quiet < 50 {
        match a.send(&numbered(sent, 1000)) {
            Ok(()) => (sent, quiet) = (sent + 1, 0),
            Err(e) if is_would_block(&e) => quiet += 1,
            Err(e) => panic!("{e}"),
        }
        while readable(&b) && held.len() < 8 {
            held.push(b.recv().expect("a message"));
        }
        std::thread::sleep(std::time::Duration::from_micros(200));
    }
    assert!(sent < 1000, "{sent} messages of 1000 bytes in a pool of 16 KiB and the sender's buffers");
    held.iter().enumerate().for_each(|(i, m)| assert_eq!(m.to_vec(), numbered(i as u64, 1000)));
    let n = held.len() as u64;
    drop(held);
    (n..sent).for_each(|i| assert_eq!(number_of(&recv(&b)), i));
}

pub fn a_pool_has_one_size(d: Driver) {
    let b = open(d, numbers(1));
    b.pool(8192).expect("a pool");
    b.pool(8192).expect("the same");
    let error = b.pool(16384).unwrap_err();
    assert_eq!(error.errno(), libc::EBUSY, "{error}");
    assert_eq!(b.stat().pool, 8192);
}

pub fn more_senders_than_the_pool_has_edges(d: Driver) {
    const SENDERS: u16 = 8;
    let first = numbers(SENDERS + 1);
    let b = open(d, first);
    b.pool(8192).expect("a pool");
    let all: Vec<_> = (1..=SENDERS).map(|k| open(d, first + k)).collect();
    std::thread::scope(|s| {
        for a in &all {
            a.target(b.addr()).expect("a target");
            s.spawn(move || (0..500u64).for_each(|i| a.send(&numbered(i, 100)).expect("room")));
        }
        let mut next = [0; SENDERS as usize];
        for _ in 0..500 * u64::from(SENDERS) {
            let m = b.recv().expect("a message");
            let k = usize::from(m.from().dpid - first - 1);
            assert_eq!(number_of(&m.to_vec()), next[k], "sender {k}");
            next[k] += 1;
        }
    });
    assert!(b.stat().edges <= 2);
}
