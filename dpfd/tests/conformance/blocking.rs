//! Waiting, and not waiting.

use std::os::fd::{AsFd, AsRawFd};
use std::thread;
use std::time::{Duration, Instant};

use dpfd::driver::Driver;
use dpfd::Addr;
use nix::sys::pthread::{pthread_kill, pthread_self};
use nix::sys::signal::{sigaction, SaFlags, SigAction, SigHandler, SigSet, Signal};

use crate::kit::*;

const SHORT: Duration = Duration::from_millis(60);

pub fn nothing_there_is_eagain(d: Driver) {
    let (a, b) = pair(d);
    b.set_nonblocking(true).expect("a flag");
    assert!(read_would_block(&b));
    assert!(is_would_block(&b.recv().unwrap_err()));
    a.send(b"1").expect("room");
    assert!(becomes_readable(&b));
    assert_eq!(recv(&b), b"1");
    assert!(is_would_block(&b.recv().unwrap_err()));
}

/// Fills the way until EAGAIN; how many went.
fn fill(a: &dpfd::Endpoint, to: Addr, len: usize) -> u64 {
    let mut n = 0;
    let mut pauses = 0;
    while pauses < 30 {
        match a.send_to(&numbered(n, len), to) {
            Ok(()) => (n, pauses) = (n + 1, 0),
            Err(e) if is_would_block(&e) => {
                // The service takes some on yet.
                pauses += 1;
                thread::sleep(Duration::from_millis(1));
            }
            Err(e) => panic!("{e}"),
        }
        assert!(n < 1_000_000, "the way never fills");
    }
    n
}

pub fn no_room_is_eagain_and_nothing_is_lost(d: Driver) {
    for pool in [None, Some(16 << 10)] {
        let (a, b) = pair(d);
        if let Some(pool) = pool {
            b.pool(pool).expect("a pool");
        }
        a.set_nonblocking(true).expect("a flag");
        let n = fill(&a, b.addr(), 200);
        assert!(!writable(&a), "full, and poll says so");
        for i in 0..n {
            let got = if pool.is_some() { recv(&b) } else { read(&b) };
            assert_eq!(got, numbered(i, 200));
        }
        until("room", || writable(&a));
        a.send(&numbered(n, 200)).expect("room");
        let got = if pool.is_some() { recv(&b) } else { read(&b) };
        assert_eq!(number_of(&got), n);
    }
}

pub fn a_receiver_waits_for_a_message(d: Driver) {
    let (a, b) = pooled(d, 64 << 10);
    let sender = thread::spawn(move || {
        thread::sleep(SHORT);
        a.send(b"late").expect("room");
        a
    });
    let began = Instant::now();
    assert_eq!(recv(&b), b"late");
    assert!(began.elapsed() >= SHORT / 2);
    drop(sender.join());
}

pub fn a_sender_waits_for_room(d: Driver) {
    let (a, b) = pooled(d, 4096);
    a.set_nonblocking(true).expect("a flag");
    let n = fill(&a, b.addr(), 1000);
    a.set_nonblocking(false).expect("a flag");
    let sender = thread::spawn(move || {
        (n..n + 1000).for_each(|i| a.send(&numbered(i, 1000)).expect("room"));
        a
    });
    thread::sleep(SHORT);
    assert!(!sender.is_finished(), "1000 messages of 1000 bytes fit nowhere");
    (0..n + 1000).for_each(|i| assert_eq!(number_of(&recv(&b)), i));
    drop(sender.join());
}

pub fn a_missing_target_does_not_hold_up_others(d: Driver) {
    // Its own descriptor is full of messages for nobody; others have room of their own, and run out of it.
    for pool in [None, Some(4096)] {
        let (a, b) = pair(d);
        // As often as it takes until calls do not look at the descriptor any more.
        for i in 0..100 {
            a.send(&numbered(i, 16)).expect("room");
            read(&b);
        }
        if let Some(pool) = pool {
            b.pool(pool).expect("a pool");
            thread::sleep(SHORT); // until its sender has heard of it
        }
        a.set_nonblocking(true).expect("a flag");
        fill(&a, local(numbers(1)), 1000);
        a.set_nonblocking(false).expect("a flag");
        let sender = thread::spawn(move || {
            (0..1000).for_each(|i| a.send(&numbered(i, 1000)).expect("room"));
            a
        });
        for i in 0..1000 {
            if i % 100 == 0 {
                thread::sleep(Duration::from_millis(5));
            }
            assert!(becomes_readable(&b), "message {i}");
            let got = if pool.is_some() { recv(&b) } else { read(&b) };
            assert_eq!(number_of(&got), i);
        }
        drop(sender.join());
    }
}

/// Two endpoints, the second with such a pool, whose messages go directly: as often as it takes until calls do not look at the
/// descriptor any more.
fn acquainted(d: Driver, pool: Option<usize>) -> (dpfd::Endpoint, dpfd::Endpoint) {
    let (a, b) = pair(d);
    if let Some(pool) = pool {
        b.pool(pool).expect("a pool");
    }
    for i in 0..100 {
        a.send(&numbered(i, 16)).expect("room");
        let got = if pool.is_some() { recv(&b) } else { read(&b) };
        assert_eq!(number_of(&got), i);
    }
    (a, b)
}

/// More than the service takes, and less than the descriptor has room for: others would fit behind them.
fn send_some_to_nobody(d: Driver, a: &dpfd::Endpoint) {
    let nobody = local(numbers(1));
    a.set_nonblocking(true).expect("a flag");
    for i in 0..100 {
        if let Err(error) = a.send_to(&numbered(i, 100), nobody) {
            // The kernel keeps none for who is not there.
            assert!(is_would_block(&error) && d == Driver::Kernel, "{error}");
        }
    }
    a.set_nonblocking(false).expect("a flag");
    thread::sleep(SHORT);
}

pub fn a_few_messages_for_nobody_do_not_hold_up_others_either(d: Driver) {
    for pool in [None, Some(4096)] {
        let (a, b) = acquainted(d, pool);
        if pool.is_some() {
            until("an edge", || is_direct(d, &a, &b));
        } else {
            thread::sleep(SHORT);
        }
        send_some_to_nobody(d, &a);
        let sender = thread::spawn(move || {
            (0..2000).for_each(|i| a.send(&numbered(i, 1000)).expect("room"));
            a
        });
        thread::sleep(SHORT);
        for i in 0..2000 {
            assert!(becomes_readable(&b), "message {i}");
            let got = if pool.is_some() { recv(&b) } else { read(&b) };
            assert_eq!(number_of(&got), i);
        }
        drop(sender.join());
    }
}

pub fn a_receiver_that_comes_back_is_found_behind_messages_for_nobody(d: Driver) {
    for pool in [None, Some(4096)] {
        let (a, b) = acquainted(d, pool);
        send_some_to_nobody(d, &a);
        let n = b.dpid();
        drop(b);
        thread::sleep(SHORT);
        let b = reopen(d, n);
        thread::sleep(Duration::from_millis(200));
        a.set_nonblocking(true).expect("a flag");
        for i in 0..3 {
            a.send(&numbered(i, 16)).expect("room");
            assert!(becomes_readable(&b), "message {i}");
            assert_eq!(number_of(&recv(&b)), i);
        }
    }
}

/// The receiver is gone before there is anything for nobody, and what is sent to the next one while that is away is behind it.
pub fn the_next_receiver_gets_what_is_behind_messages_for_nobody(d: Driver) {
    for (pool, fills) in [(None, false), (Some(4096), false), (Some(4096), true)] {
        let (a, b) = acquainted(d, pool);
        let n = b.dpid();
        drop(b);
        thread::sleep(SHORT);
        if fills {
            a.set_nonblocking(true).expect("a flag");
            fill(&a, local(numbers(1)), 1000);
            a.set_nonblocking(false).expect("a flag");
        } else {
            send_some_to_nobody(d, &a);
        }
        let sender = thread::spawn(move || {
            (0..20).for_each(|i| a.send(&numbered(i, 1000)).expect("room"));
            a
        });
        thread::sleep(SHORT);
        let b = reopen(d, n);
        for i in 0..20 {
            assert!(becomes_readable(&b), "message {i}");
            assert_eq!(number_of(&recv(&b)), i);
        }
        // One that nobody sent anything to before.
        let a = sender.join().expect("the sender");
        let other = open(d, numbers(1));
        a.send_to(&numbered(7, 16), other.addr()).expect("room");
        assert!(becomes_readable(&other));
        assert_eq!(number_of(&recv(&other)), 7);
    }
}

pub fn plain_writes_do_not_wait_behind_messages_for_nobody(d: Driver) {
    let (a, b) = pair(d);
    write(&a, &numbered(0, 16));
    assert_eq!(number_of(&read(&b)), 0);
    send_some_to_nobody(d, &a);
    for i in 1..10 {
        write(&a, &numbered(i, 16));
        assert!(becomes_readable(&b), "message {i}");
        assert_eq!(number_of(&read(&b)), i);
    }
}

pub fn a_sender_waits_for_its_target(d: Driver) {
    let first = numbers(2);
    let a = open(d, first);
    a.target(local(first + 1)).expect("a target that is not there yet");
    let sender = thread::spawn(move || {
        (0..2000u64).for_each(|i| a.send(&numbered(i, 1000)).expect("room"));
        a
    });
    thread::sleep(SHORT);
    assert!(!sender.is_finished(), "nobody is there to take it");
    let b = open(d, first + 1);
    (0..2000).for_each(|i| assert_eq!(number_of(&recv(&b)), i));
    drop(sender.join());
}

pub fn plain_reads_and_writes_wait(d: Driver) {
    let (a, b) = pair(d);
    let reader = thread::spawn(move || {
        let got = read(&b);
        (got, b)
    });
    thread::sleep(SHORT);
    assert!(!reader.is_finished());
    write(&a, b"plain");
    let (got, b) = reader.join().expect("the reader");
    assert_eq!(got, b"plain");
    let writer = thread::spawn(move || {
        (0..2000u64).for_each(|i| write(&a, &numbered(i, 1000)));
        a
    });
    thread::sleep(SHORT);
    assert!(!writer.is_finished(), "2000 messages of 1000 bytes fit nowhere");
    (0..2000u64).for_each(|i| assert_eq!(number_of(&read(&b)), i));
    drop(writer.join());
}

pub fn a_signal_interrupts(d: Driver) {
    extern "C" fn nothing(_: i32) {}
    let action = SigAction::new(SigHandler::Handler(nothing), SaFlags::empty(), SigSet::empty());
    // SAFETY: a handler that does nothing, for a signal that nothing else here uses.
    unsafe { sigaction(Signal::SIGUSR2, &action) }.expect("a handler");
    let (_a, b) = pooled(d, 64 << 10);
    let (told, tells) = std::sync::mpsc::channel();
    let receiver = thread::spawn(move || {
        told.send(pthread_self()).expect("the test");
        b.recv().map(|m| m.len()).unwrap_err().errno()
    });
    let who = tells.recv().expect("the receiver");
    until("the interruption", || {
        if !receiver.is_finished() {
            pthread_kill(who, Signal::SIGUSR2).expect("the receiver");
        }
        thread::sleep(Duration::from_millis(5));
        receiver.is_finished()
    });
    assert_eq!(receiver.join().expect("the receiver"), libc::EINTR);
}

/// Receives messages that come one in a while, and between them signals; how often it was interrupted.
fn interrupted(d: Driver, signal: Signal, flags: SaFlags) -> u32 {
    extern "C" fn nothing(_: i32) {}
    const MESSAGES: u64 = 1000;
    let action = SigAction::new(SigHandler::Handler(nothing), flags, SigSet::empty());
    // SAFETY: a handler that does nothing, for a signal that nothing else here uses.
    unsafe { sigaction(signal, &action) }.expect("a handler");
    let (a, b) = pooled(d, 64 << 10);
    b.set_spin(0);
    let me = pthread_self();
    let sender = thread::spawn(move || {
        for n in 0..MESSAGES {
            thread::sleep(Duration::from_micros(50));
            pthread_kill(me, signal).expect("the receiver");
            thread::sleep(Duration::from_micros(50));
            a.send(&numbered(n, 8)).expect("room");
        }
        a
    });
    let (mut next, mut interruptions) = (0, 0);
    while next < MESSAGES {
        match b.recv() {
            Ok(message) => {
                assert_eq!(number_of(&message.to_vec()), next);
                next += 1;
            }
            Err(e) if e.errno() == libc::EINTR => interruptions += 1,
            Err(e) => panic!("{e}"),
        }
    }
    drop(sender.join());
    interruptions
}

pub fn a_signal_interrupts_brief_sleeps(d: Driver) {
    let interruptions = interrupted(d, Signal::SIGURG, SaFlags::empty());
    assert!(interruptions > 100, "{interruptions} of 1000 signals");
}

pub fn a_handler_that_restarts_interrupts_none(d: Driver) {
    assert_eq!(interrupted(d, Signal::SIGWINCH, SaFlags::SA_RESTART), 0);
}

pub fn a_receive_timeout_holds(d: Driver) {
    let (_a, b) = pooled(d, 64 << 10);
    let time = libc::timeval { tv_sec: 0, tv_usec: 50_000 };
    // SAFETY: a timeval, as SO_RCVTIMEO wants.
    let r = unsafe {
        libc::setsockopt(
            b.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVTIMEO,
            (&raw const time).cast(),
            size_of::<libc::timeval>() as u32,
        )
    };
    if r != 0 {
        return; // a driver whose descriptors are no sockets
    }
    let began = Instant::now();
    assert!(is_would_block(&b.recv().unwrap_err()));
    assert!(began.elapsed() >= Duration::from_millis(40));
}
