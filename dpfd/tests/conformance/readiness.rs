//! poll, select and epoll tell the truth.

use std::os::fd::{AsFd, AsRawFd};
use std::thread;
use std::time::{Duration, Instant};

use dpfd::driver::Driver;
use dpfd::Endpoint;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use crate::kit::*;

pub fn poll_tells_a_plain_message(d: Driver) {
    let (a, b) = pair(d);
    assert!(!readable(&b));
    write(&a, b"1");
    assert!(becomes_readable(&b));
    read(&b);
    assert!(!readable(&b));
}

pub fn poll_is_quiet_after_the_last(d: Driver) {
    let (a, b) = pooled(d, 64 << 10);
    for n in 1..40 {
        (0..n).for_each(|i| a.send(&numbered(i, 50)).expect("room"));
        for i in 0..n {
            assert!(becomes_readable(&b), "{i} of {n} read");
            assert_eq!(number_of(&recv(&b)), i);
        }
        assert!(is_quiet(&b), "all {n} read");
    }
}

pub fn pollout_while_there_is_room(d: Driver) {
    let (a, b) = pooled(d, 64 << 10);
    assert!(writable(&a));
    for i in 0..1000 {
        assert!(writable(&a));
        a.send(&numbered(i, 100)).expect("room");
        recv(&b);
    }
}

fn watch(e: &Endpoint, flags: EpollFlags) -> Epoll {
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).expect("an epoll");
    epoll.add(e.as_fd(), EpollEvent::new(flags, 7)).expect("a registration");
    epoll
}

fn told(epoll: &Epoll, wait: Duration) -> bool {
    let mut events = [EpollEvent::empty(); 4];
    let ms = EpollTimeout::try_from(wait).expect("a short wait");
    epoll.wait(&mut events, ms).expect("a wait") > 0
}

fn drain(b: &Endpoint) -> Vec<u64> {
    let mut all = Vec::new();
    loop {
        match b.recv() {
            Ok(m) => all.push(number_of(&m.to_vec())),
            Err(e) if is_would_block(&e) => return all,
            Err(e) => panic!("{e}"),
        }
    }
}

pub fn edge_triggered_tells_every_message(d: Driver) {
    let (a, b) = pooled(d, 64 << 10);
    b.set_nonblocking(true).expect("a flag");
    let epoll = watch(&b, EpollFlags::EPOLLIN | EpollFlags::EPOLLET);
    let _ = drain(&b);
    let sender = thread::spawn(move || {
        for i in 0..5000u64 {
            a.send(&numbered(i, 16)).expect("room");
            if i % 3 == 0 {
                thread::yield_now();
            }
            if i % 500 == 0 {
                thread::sleep(Duration::from_millis(1));
            }
        }
        a
    });
    let mut next = 0;
    while next < 5000 {
        let heard = told(&epoll, SOON);
        assert!(heard, "message {next} was not told; readable: {}, {:?}", readable(&b), b.stat());
        for i in drain(&b) {
            assert_eq!(i, next);
            next += 1;
        }
    }
    drop(sender.join());
    while told(&epoll, Duration::from_millis(20)) {
        assert!(drain(&b).is_empty(), "nothing more was sent");
    }
}

pub fn level_triggered_tells_until_read(d: Driver) {
    for pool in [false, true] {
        let (a, b) = pair(d);
        if pool {
            b.pool(64 << 10).expect("a pool");
        }
        let epoll = watch(&b, EpollFlags::EPOLLIN);
        assert!(!told(&epoll, Duration::ZERO));
        (0..3).for_each(|i| a.send(&numbered(i, 16)).expect("room"));
        for i in 0..3 {
            assert!(told(&epoll, SOON) && told(&epoll, SOON));
            let got = if pool { recv(&b) } else { read(&b) };
            assert_eq!(number_of(&got), i);
        }
        assert!(!told(&epoll, Duration::from_millis(20)));
    }
}

pub fn several_watchers(d: Driver) {
    let (a, b) = pooled(d, 64 << 10);
    b.set_nonblocking(true).expect("a flag");
    let one = watch(&b, EpollFlags::EPOLLIN);
    let two = watch(&b, EpollFlags::EPOLLIN | EpollFlags::EPOLLET);
    let outer = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).expect("an epoll");
    outer.add(&one.0, EpollEvent::new(EpollFlags::EPOLLIN, 1)).expect("nested");
    for i in 0..200 {
        a.send(&numbered(i, 16)).expect("room");
        assert!(told(&outer, SOON) && told(&one, SOON) && told(&two, SOON) && becomes_readable(&b));
        assert_eq!(drain(&b), [i]);
        assert!(!told(&outer, Duration::ZERO));
    }
}

pub fn poll_in_pool_mode_is_true(d: Driver) {
    // The receiver polls before every call, and never calls in vain: each message must be told.
    let (a, b) = pooled(d, 16 << 10);
    thread::scope(|s| {
        s.spawn(|| (0..20_000u64).for_each(|i| a.send(&numbered(i, 8 + (i % 120) as usize)).expect("room")));
        for i in 0..20_000 {
            if !becomes_readable(&b) {
                // The sender would keep the scope from ending.
                eprintln!("message {i} was not told: {:?} {b:?}\n{a:?}", b.stat());
                std::thread::sleep(std::time::Duration::from_millis(50));
                eprintln!("now readable: {}", readable(&b));
                std::process::abort();
            }
            assert_eq!(number_of(&recv(&b)), i);
        }
    });
    assert!(is_quiet(&b));
}

pub fn turning_from_waiting_to_polling(d: Driver) {
    // Waits in the call first, so that nobody rings; then polls: told a little late at most, and never not.
    let (a, b) = pooled(d, 64 << 10);
    let echo = pooled(d, 64 << 10);
    let (ea, eb) = echo;
    let other = thread::spawn(move || {
        for i in 0..400u64 {
            eb.recv().expect("a turn");
            if i >= 300 {
                thread::sleep(Duration::from_millis(i % 7));
            }
            a.send(&numbered(i, 16)).expect("room");
        }
        (a, eb)
    });
    for i in 0..300 {
        ea.send(b"go").expect("room");
        assert_eq!(number_of(&recv(&b)), i);
    }
    for i in 300..400 {
        ea.send(b"go").expect("room");
        let began = Instant::now();
        assert!(becomes_readable(&b), "message {i}");
        assert!(began.elapsed() < Duration::from_secs(2), "told late: {:?}", began.elapsed());
        assert_eq!(number_of(&recv(&b)), i);
    }
    drop(other.join());
}

pub fn select_with_many_endpoints(d: Driver) {
    use nix::sys::select::{select, FdSet};
    let pairs: Vec<_> = (0..20).map(|_| pooled(d, 8 << 10)).collect();
    // select(2) ends at 1024.
    let pairs: Vec<_> = pairs.into_iter().filter(|(_, b)| b.as_raw_fd() < 1024).collect();
    for (k, (a, _)) in pairs.iter().enumerate() {
        if k % 3 == 0 {
            a.send(&numbered(k as u64, 16)).expect("room");
        }
    }
    let mut got = Vec::new();
    while got.len() < pairs.len().div_ceil(3) {
        let mut set = FdSet::new();
        pairs.iter().for_each(|(_, b)| set.insert(b.as_fd()));
        assert!(select(None, &mut set, None, None, None).expect("a wait") > 0);
        for (k, (_, b)) in pairs.iter().enumerate() {
            if set.contains(b.as_fd()) {
                assert_eq!(number_of(&recv(b)), k as u64);
                got.push(k);
            }
        }
    }
    assert!(got.iter().all(|k| k % 3 == 0));
}
