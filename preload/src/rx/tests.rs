mod bells;
mod broken;
mod sleep;

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use dp_channel::tcp;
use dp_edge::ring;

use super::*;

use crate::testing::{receive, send, Pair};
use crate::{life, state};

/// What a hook does first; `None`: the long way.
fn quick(c: Channel, n: usize) -> Option<usize> {
    let mut bytes = vec![0; n];
    let mut w = Walk::one(bytes.as_mut_ptr(), n);
    c.quick_receive(fdtable::settled(c.fd), &mut w)
}

/// W16: a short receive means that nothing is left. An epoll set asks at the same time what is ready, and follows the sender
/// as soon as the ring is empty; the receive has to find out all the same that the stream goes on over TCP. A program on
/// tokio stood still otherwise: it was told of those bytes before, and of each edge once.
#[test]
fn a_receive_is_short_only_where_nothing_is_left_whoever_else_follows_the_sender() {
    let pair = Pair::live();
    let (to, from) = (pair.client, pair.server);
    let over = AtomicBool::new(false);
    thread::scope(|s| {
        s.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                from.has_news(&from.receiving());
            }
        });
        let mut short = Vec::new();
        for round in 0..ROUNDS {
            // Every other time without a bell, which would have the receive look again.
            if round / 2 % 2 == 0 {
                from.receiving().word.make_hot();
            } else {
                from.receiving().word.make_cold();
            }
            assert_eq!(send(to, b"ring", 0), Ok(4));
            assert_eq!(send(to, b"tcp", libc::MSG_DONTROUTE), Ok(3), "what the kernel alone can do");
            let got = if round % 2 == 0 { quick(from, 100) } else { None };
            let got = got.or_else(|| receive(from, 100).ok().map(|bytes| bytes.len()));
            if got != Some(7) {
                short.push(got);
                let _ = receive(from, 100);
            }
        }
        over.store(true, Ordering::Relaxed);
        assert!(short.is_empty(), "{} of {ROUNDS} are short: {:?}", short.len(), short[0]);
    });
}

const ROUNDS: u32 = 100_000;

const NUMBERS: u32 = 50_000;
/// The two ends for the handler below, and how many numbers it has sent.
static ENDS: AtomicPtr<(Channel, Channel)> = AtomicPtr::new(core::ptr::null_mut());
static SENT: AtomicU32 = AtomicU32::new(0);

/// All that others can do between two instructions of a receive: follow its sender, and send more, in the ring or on TCP.
extern "C" fn others_go_on(_: i32) {
    // SAFETY: set before there is a handler, and there until nobody sends the signal any more.
    let Some((to, from)) = (unsafe { ENDS.load(Ordering::Acquire).as_ref() }) else { return };
    from.has_news(&from.receiving());
    let number = SENT.load(Ordering::Relaxed);
    if number < NUMBERS {
        let flags = if number % 2 == 0 { 0 } else { libc::MSG_DONTROUTE };
        if send(*to, &number.to_le_bytes(), flags) == Ok(4) {
            SENT.store(number + 1, Ordering::Relaxed);
        }
    }
}

/// E6: where others follow to TCP, the sender may be in the ring again, before a receive looks there that began earlier.
#[test]
fn bytes_come_in_order_whoever_else_follows_the_sender() {
    let pair = Pair::live();
    let mut ends = (pair.client, pair.server);
    let from = pair.server;
    ENDS.store(&raw mut ends, Ordering::Release);
    let over = AtomicBool::new(false);
    let mut wrong = None;
    thread::scope(|s| {
        // SAFETY: the handler allocates nothing. The thread is this one, which is there until the other one has ended.
        let me = unsafe {
            libc::signal(libc::SIGUSR2, others_go_on as *const () as usize);
            libc::pthread_self()
        };
        let over = &over;
        s.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                // SAFETY: as above.
                unsafe { libc::pthread_kill(me, libc::SIGUSR2) };
                thread::yield_now();
            }
        });
        let mut next = 0u32;
        while next < NUMBERS && wrong.is_none() {
            // Room for one, so that others are left behind it, in the ring and on TCP.
            let mut room = [0; 4];
            let mut w = Walk::one(room.as_mut_ptr(), 4);
            let got = from.quick_receive(fdtable::settled(from.fd), &mut w).map(|_| room.to_vec());
            if let Some(got) = got.or_else(|| receive(from, 4).ok()) {
                if got != next.to_le_bytes() {
                    wrong = Some((got, next));
                }
                next += 1;
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    ENDS.store(core::ptr::null_mut(), Ordering::Release);
    assert_eq!(wrong, None);
}

/// A receive that may sleep, in poll(2).
fn blocking(from: Channel, room: &mut [u8]) -> Result<usize, i32> {
    let frame = 0u8;
    let inside = Inside::enter(from.fd, &frame).expect("a connection");
    let mut w = Walk::one(room.as_mut_ptr(), room.len());
    let recv: Sleep = &|_, _| panic!("it is to find what was lost");
    let got = from.receive_by(&inside, &mut w, 0, recv, Sleeps::alone());
    inside.leave();
    got
}

/// A receiver ends between following its sender to TCP and saying so: whoever comes next says it, or the sender would wait for that
/// for ever, and never be in its ring again.
#[test]
fn a_receiver_that_ended_before_it_said_where_it_is_keeps_no_sender_on_tcp() {
    let pair = Pair::live();
    let (to, from) = (pair.client, pair.server);
    assert_eq!(send(to, b"ring", 0), Ok(4));
    assert_eq!(send(to, b"tcp", libc::MSG_DONTROUTE), Ok(3), "what the kernel alone can do");
    assert_eq!(
        from.receive_step(&mut Walk::one([0u8; 4].as_mut_ptr(), 4), 0, &mut Part::First),
        Step::Got(4)
    );
    let ends = || {
        assert!(from.rx_lock.try_lock(state::me()));
        let (_, q, _) = from.receiving().tx.beginnings();
        from.rx_data.store(q, Ordering::Relaxed);
        from.rx_epoch.fetch_add(1, Ordering::Release);
    };
    thread::scope(|scope| scope.spawn(ends).join().expect("a step"));
    assert_eq!(receive(from, 100).as_deref(), Ok(&b"tcp"[..]));
    assert_eq!(send(to, b"again", 0), Ok(5));
    assert!(in_ring(to.sending().tx.epoch()));
    assert_eq!(receive(from, 100).as_deref(), Ok(&b"again"[..]));
}

/// What one receive brings is one piece of the stream, whoever else receives, also across a border between ring and TCP.
#[test]
fn a_receive_goes_on_only_behind_what_it_has() {
    let sends: [fn(Channel, &[u8]); 2] = [
        |to, bytes| assert_eq!(send(to, bytes, 0), Ok(bytes.len()), "into the ring"),
        |to, bytes| {
            assert_eq!(send(to, bytes, libc::MSG_DONTROUTE), Ok(bytes.len()), "what the kernel alone can do")
        },
    ];
    let mut pair = Pair::live();
    // Which way the first part comes, which way the second, and how much of that another one takes between the two.
    for (first, second, another) in (0..8).map(|n| (n & 1, n >> 1 & 1, n >> 2)) {
        let (to, from) = (pair.client, pair.server);
        sends[first](to, b"some");
        let mut bytes = [0u8; 100];
        let mut w = Walk::one(bytes.as_mut_ptr(), bytes.len());
        let mut part = Part::First;
        assert_eq!(from.receive_step(&mut w, 0, &mut part), Step::Got(4));
        sends[second](to, b"more");
        assert!(another == 0 || receive(from, another) == Ok(b"m".to_vec()));
        let then = if another == 0 { Step::Got(4) } else { Step::Nothing };
        assert_eq!(from.receive_step(&mut w, 0, &mut part), then, "{first} {second} {another}");
        pair = Pair::live();
    }
}

/// Two receives with MSG_WAITALL beside each other: where one finds that the other has taken what comes next, it goes on behind that.
#[test]
fn receives_that_want_all_they_ask_for_end_beside_each_other() {
    const PIECES: usize = 100_000;
    let pair = Pair::live();
    let (to, from) = (pair.client, pair.server);
    let (taken, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let sleep = |_: i32, _: usize| {
        thread::yield_now();
        if over.load(Ordering::SeqCst) {
            Err(libc::EINTR)
        } else {
            Ok(1)
        }
    };
    let receives = || {
        let frame = 0u8;
        while !over.load(Ordering::SeqCst) {
            let inside = Inside::enter(from.fd, &frame).expect("a connection");
            let mut bytes = [0u8; 64];
            let mut w = Walk::one(bytes.as_mut_ptr(), bytes.len());
            let got = from.receive(&inside, &mut w, libc::MSG_WAITALL, &sleep).unwrap_or(0);
            inside.leave();
            taken.fetch_add(got, Ordering::SeqCst);
        }
    };
    thread::scope(|s| {
        (0..2).for_each(|_| drop(s.spawn(receives)));
        for n in 0..PIECES {
            loop {
                match send(to, &[n as u8; 7], 0) {
                    Err(libc::EAGAIN) => thread::yield_now(),
                    Ok(7) => break,
                    sent => {
                        over.store(true, Ordering::SeqCst);
                        panic!("piece {n}: {sent:?}");
                    }
                }
            }
        }
        // What is not whole is with the two.
        let end = Instant::now() + Duration::from_secs(20);
        while from.readable_bytes() != Ok(0) && Instant::now() < end {
            thread::yield_now();
        }
        over.store(true, Ordering::SeqCst);
        // One that has something waits for more, or for the end.
        // SAFETY: a number.
        unsafe { libc::shutdown(to.fd, libc::SHUT_WR) };
        if from.readable_bytes() != Ok(0) {
            // They would never see that it is over.
            eprintln!("{} of {} bytes were taken", taken.load(Ordering::SeqCst), PIECES * 7);
            std::process::abort();
        }
    });
    // What was on its way when nothing could be read.
    let mut sum = taken.load(Ordering::SeqCst);
    let end = Instant::now() + Duration::from_secs(10);
    while sum < PIECES * 7 && Instant::now() < end {
        sum += receive(from, 1000).map_or(0, |bytes| bytes.len());
    }
    assert_eq!(sum, PIECES * 7, "{:?} {:?}", from.stage(), receive(from, 100));
}
