//! Sizes around every limit.

use std::thread;
use std::time::Duration;

use dpfd::driver::Driver;

use crate::kit::*;

pub fn empty_messages_are_messages(d: Driver) {
    let (a, b) = pair(d);
    write(&a, b"");
    assert!(becomes_readable(&b));
    assert_eq!((fionread(&b), read(&b).len()), (0, 0));
    write(&a, b"x");
    write(&a, b"");
    assert_eq!(read(&b), b"x");
    assert_eq!(read(&b), b"");
    a.send(b"").expect("room");
    assert_eq!(read(&b), b"");
    a.send(b"").expect("room");
    a.send(b"y").expect("room");
    assert_eq!(recv(&b), b"");
    assert_eq!(recv(&b), b"y");
    a.send(b"").expect("room");
    assert!(becomes_readable(&b));
    assert_eq!(recv(&b), b"");
    b.set_nonblocking(true).expect("a flag");
    assert!(is_would_block(&b.recv().unwrap_err()));
}

pub fn every_size_around_the_limits(d: Driver) {
    let (a, b) = pooled(d, 64 << 10);
    let limits =
        [8, 56, 64, 120, 128, 4088, 4096, 32704, 32760, 32768, 65536, 131_072, 212_944, 212_960, 300_000];
    for limit in limits {
        for len in (limit - 2).max(8)..=limit + 2 {
            a.send(&numbered(len as u64, len)).unwrap_or_else(|e| panic!("{len}: {e}"));
            assert!(recv(&b) == numbered(len as u64, len), "{len} bytes");
        }
    }
}

pub fn sixteen_mebibytes(d: Driver) {
    let (a, b) = pooled(d, 1 << 20);
    let most = a.stat().max_message;
    assert_eq!(most, 16 << 20);
    let sender = thread::spawn(move || {
        (0..4).for_each(|i| a.send(&numbered(i, most)).expect("room"));
        let error = a.send(&vec![0; most + 1]).unwrap_err();
        assert_eq!(error.errno(), libc::EMSGSIZE, "{error}");
        a
    });
    for i in 0..4 {
        assert!(recv(&b) == numbered(i, most), "message {i}");
    }
    sender.join().expect("the sender");
}

pub fn a_short_read_cuts_the_message(d: Driver) {
    use std::io::Read;
    let (a, b) = pair(d);
    write(&a, &[7; 1000]);
    write(&a, b"next");
    assert_eq!(file(&b).read(&mut [0; 10]).expect("a read"), 10);
    assert_eq!(read(&b), b"next");
}

pub fn fionread_tells_the_length(d: Driver) {
    let (a, b) = pair(d);
    for len in [1, 100, 65_536] {
        write(&a, &vec![1; len]);
        assert!(becomes_readable(&b));
        assert_eq!(fionread(&b) as usize, len);
        assert_eq!(read(&b).len(), len);
    }
}

pub fn plain_writes_of_64_kib(d: Driver) {
    use std::io::Write;
    let (a, b) = pair(d);
    let most = a.stat().max_plain;
    assert!(most >= 65_536, "{most}");
    for len in [65_536, most] {
        write(&a, &numbered(1, len));
        assert!(read(&b) == numbered(1, len), "{len} bytes");
    }
    let error = file(&a).write(&vec![0; most + 1]).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE));
}

pub fn messages_larger_than_the_pool(d: Driver) {
    let (a, b) = pooled(d, 4096);
    for i in 0..50u64 {
        let len = if i % 3 == 0 { 20_000 + i as usize } else { 100 };
        a.send(&numbered(i, len)).expect("room");
        if i % 7 == 6 {
            (i - 6..=i).for_each(|k| {
                let len = if k % 3 == 0 { 20_000 + k as usize } else { 100 };
                assert!(recv(&b) == numbered(k, len), "message {k}");
            });
        }
    }
    // A plain write of that size goes the same way.
    drop((49..50).map(|_| recv(&b)).collect::<Vec<_>>());
    write(&a, &numbered(1, 50_000));
    assert!(recv(&b) == numbered(1, 50_000));
}

pub fn many_writes_larger_than_the_pool(d: Driver) {
    // Each finds the one before it unread and waits with the service; what waits must not be counted for ever.
    let (a, b) = pooled(d, 4096);
    let writer = thread::spawn(move || {
        (0..60u64).for_each(|i| write(&a, &numbered(i, 50_000)));
        a
    });
    for i in 0..60u64 {
        if i % 10 == 0 {
            thread::sleep(std::time::Duration::from_millis(5));
        }
        assert!(recv(&b) == numbered(i, 50_000), "message {i}");
    }
    drop(writer.join());
}

pub fn large_messages_while_the_descriptor_is_full(d: Driver) {
    // It holds as many plain ones as it takes; then their receiver gets a pool, and the next has to wait for room
    // behind them, not in the pool.
    let (a, b) = pair(d);
    let mut sent = 0;
    while (sent as usize + 1) * 50_000 <= plain_room(d) {
        write(&a, &numbered(sent, 50_000));
        sent += 1;
        thread::sleep(std::time::Duration::from_millis(5));
    }
    b.pool(4096).expect("a pool");
    thread::sleep(std::time::Duration::from_millis(50)); // until its sender has heard of it
    let writer = thread::spawn(move || {
        (sent..sent + 3).for_each(|i| write(&a, &numbered(i, 50_000)));
        a
    });
    thread::sleep(std::time::Duration::from_millis(20));
    for i in 0..sent + 3 {
        assert!(becomes_readable(&b), "message {i} after {sent}: {:?}", b.stat());
        assert!(recv(&b) == numbered(i, 50_000), "message {i}");
    }
    drop(writer.join());
}

pub fn small_and_large_pools(d: Driver) {
    for pool in [4096, 5000, 65_536, 1 << 30] {
        let (a, b) = pooled(d, pool);
        a.send(&numbered(1, 3000)).expect("room");
        assert_eq!(recv(&b), numbered(1, 3000), "a pool of {pool}");
        assert_eq!(b.stat().pool, pool);
    }
    for pool in [0, 4095, (1 << 30) + 1] {
        let b = open(d, numbers(1));
        let error = b.pool(pool).unwrap_err();
        assert_eq!(error.errno(), libc::EINVAL, "{error}");
    }
}

pub fn the_longest_plain_message_waits_for_room(d: Driver) {
    let (a, b) = pair(d);
    let most = a.stat().max_plain;
    let sender = thread::spawn(move || {
        (0..4u64).for_each(|i| a.send(&numbered(i, most)).expect("it waits"));
        a
    });
    // Longer than a sender waits for its receiver to get a pool.
    thread::sleep(Duration::from_millis(1300));
    (0..4u64).for_each(|i| assert!(read(&b) == numbered(i, most), "message {i}"));
    drop(sender.join().expect("the sender"));
}

pub fn a_long_message_for_an_absent_receiver_is_taken(d: Driver) {
    let first = numbers(2);
    let a = open(d, first);
    a.set_nonblocking(true).expect("a flag");
    let long = numbered(1, 1 << 20);
    a.send_to(&long, local(first + 1)).expect("it waits elsewhere");
    a.send_to(b"behind", local(first + 1)).expect("room");
    let b = open(d, first + 1);
    assert!(recv(&b) == long);
    assert_eq!(recv(&b), b"behind");
}
