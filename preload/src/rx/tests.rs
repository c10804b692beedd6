use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use dp_channel::tcp;
use dp_edge::ring;

use super::*;

use crate::state;
use crate::testing::{receive, send, Pair};

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

/// A sleeper on a connection that is hot is told of each message that another thread does not take: who takes one asks for a new
/// bell.
#[test]
fn a_sleeper_is_told_again_when_another_thread_took_the_bell() {
    let pair = Pair::live();
    let (to, from) = (pair.client, pair.server);
    let word = from.receiving().word;
    assert!(word.make_hot());
    word.sleep();
    for _ in 0..3 {
        assert_eq!(send(to, b"message", 0), Ok(7));
        assert_eq!(raw::queued(from.fd), Ok(1), "a bell");
        assert_eq!(receive(from, 100).as_deref(), Ok(&b"message"[..]));
        assert_eq!(receive(from, 100), Err(libc::EAGAIN));
    }
    word.awake();
}

/// A bell that tells a set which sleeps stays until the set is awake, whoever takes the message.
#[test]
fn the_bell_of_a_set_that_sleeps_is_left_to_it() {
    let pair = Pair::live();
    let (to, from) = (pair.client, pair.server);
    let group = &from.my_groups()[0];
    assert!(from.receiving().word.heat_group(1));
    for _ in 0..3 {
        group.doze(dp_channel::bell::BY_BELL);
        assert_eq!(send(to, b"message", 0), Ok(7));
        assert_eq!(receive(from, 100).as_deref(), Ok(&b"message"[..]));
        assert_eq!(receive(from, 100), Err(libc::EAGAIN));
        assert_eq!(raw::queued(from.fd), Ok(1), "it is still there");
        group.wake();
        assert_eq!(receive(from, 100), Err(libc::EAGAIN));
        assert_eq!(raw::queued(from.fd), Ok(0));
    }
}

/// A peer that says for ever that a set of ours sleeps, with one bell left there, costs no processor.
#[test]
fn a_receive_beside_a_bell_that_nobody_takes_rests() {
    let pair = Pair::live();
    let (to, from) = (pair.client, pair.server);
    assert!(from.receiving().word.heat_group(1));
    from.my_groups()[0].doze(dp_channel::bell::BY_BELL);
    assert_eq!(send(to, b"message", 0), Ok(7));
    assert_eq!(receive(from, 100).as_deref(), Ok(&b"message"[..]));
    let (me, mut room) = (state::tid(), [0; 10]);
    let (before, began) = (rests(me), Instant::now());
    thread::scope(|s| {
        s.spawn(|| {
            thread::sleep(Duration::from_millis(300));
            // A machine that has other work lets it rest less often.
            while rests(me) - before < 20 && began.elapsed() < Duration::from_secs(20) {
                thread::sleep(Duration::from_millis(20));
            }
            assert_eq!(send(to, b"another", 0), Ok(7));
        });
        assert_eq!(blocking(from, &mut room), Ok(7));
    });
    let (rests, ms) = (rests(me) - before, began.elapsed().as_millis());
    assert!((20..2 * ms).contains(&rests), "{rests} rests in {ms} ms");
}

/// How often that thread has slept.
fn rests(tid: u32) -> u128 {
    let status = std::fs::read_to_string(format!("/proc/self/task/{tid}/status")).expect("a thread");
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.expect("a kernel that counts").trim().parse().expect("a number")
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

/// Its sender ended between its token and the bell, or has not seen that it sleeps.
#[test]
fn a_receive_that_sleeps_over_what_it_was_not_told_of_finds_it() {
    let pair = Pair::live();
    let (to, from) = (pair.client, pair.server);
    assert_eq!(send(to, b"first", 0), Ok(5));
    assert_eq!(receive(from, 100).as_deref(), Ok(&b"first"[..]));
    let lost = || state::family().expect("started").header().lost.load(Ordering::Relaxed);
    let (before, mut room) = (lost(), [1; 10]);
    let began = Instant::now();
    thread::scope(|s| {
        s.spawn(|| {
            while !from.receiving().word.has_sleepers() {
                thread::yield_now();
            }
            thread::sleep(Duration::from_millis(20));
            ring::commit(&to.sending().ring(), to.tail().pos, 4, ring::Kind::Data).expect("room");
        });
        assert_eq!(blocking(from, &mut room), Ok(4));
    });
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    assert!(lost() > before);
}

/// One that the connection has from its listener, or from before it was known, is the call's as well.
#[test]
fn a_receive_sleeps_for_no_longer_than_its_limit() {
    for ms in [50, 1200] {
        let pair = Pair::live();
        limit(pair.server, ms);
        in_time(ms, 700, || assert_eq!(blocking(pair.server, &mut [0; 10]), Err(libc::EAGAIN)));
    }
}

fn limit(c: Channel, ms: u64) {
    let limit = libc::timeval { tv_sec: (ms / 1000) as i64, tv_usec: (ms % 1000 * 1000) as i64 };
    raw::setsockopt(c.fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, &limit, size_of_val(&limit))
        .expect("a socket");
    c.note_options();
}

/// `f` takes so long, and one time of a few less than `more` longer: a machine that has other work may wake it late.
fn in_time(ms: u64, more: u64, f: impl Fn()) {
    let took = || {
        let began = Instant::now();
        f();
        let took = began.elapsed().as_millis() as u64;
        assert!(took >= ms, "{took} of {ms} ms");
        took
    };
    let mut least = u64::MAX;
    assert!(
        (0..6).any(|_| {
            least = least.min(took());
            least < ms + more
        }),
        "{least} ms, not {ms}"
    );
}

/// On a busy machine the thread runs again when its limit is over and a handler has run as well. The kernel's recv tells of the limit.
#[test]
fn a_receive_whose_limit_is_over_is_told_of_that_whatever_else_has_ended_it() {
    let pair = Pair::live();
    let c = pair.server;
    limit(c, 100);
    // SAFETY: plain data, a handler that does nothing, and a signal to this thread.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = does_nothing as *const () as usize;
        assert_eq!(signals::set(libc::SIGWINCH, &action, core::ptr::null_mut()), 0);
        signals::begin();
        libc::raise(libc::SIGWINCH);
    }
    assert!(signals::came());
    let slept = |ms: u64| {
        let mut sleeps = Sleeps::since(crate::state::now() - ms * 1_000_000);
        sleeps.one_more(&c, false, || panic!("it has slept before"))
    };
    assert_eq!((slept(1000), slept(0)), (Err(libc::EAGAIN), Err(libc::EINTR)));
}

extern "C" fn does_nothing(_: i32) {}

/// Time stamps of what was sent, say, which the program does not take: poll(2) tells of them at once, again and again.
#[test]
fn a_receive_beside_something_in_the_error_queue_sleeps_for_no_longer_than_its_limit() {
    let stamped = |fd| {
        let of = libc::SOF_TIMESTAMPING_TX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
        raw::setsockopt(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &of, size_of_val(&of))
            .expect("a socket");
        // SAFETY: a byte.
        assert_eq!(unsafe { raw::send(fd, [1u8].as_ptr(), 1, libc::MSG_NOSIGNAL) }, Ok(1));
    };
    // It comes while the call sleeps: a limit that began anew then would be over 400 ms late.
    in_time(800, 300, || {
        let pair = Pair::live();
        let from = pair.server;
        limit(from, 800);
        thread::scope(|s| {
            s.spawn(|| {
                thread::sleep(Duration::from_millis(400));
                stamped(from.fd);
            });
            assert_eq!(blocking(from, &mut [0; 10]), Err(libc::EAGAIN));
        });
    });
    let pair = Pair::live();
    let (to, from) = (pair.client, pair.server);
    limit(from, 800);
    stamped(from.fd);
    let mut list = [libc::pollfd { fd: from.fd, events: libc::POLLIN, revents: 0 }];
    assert_eq!((raw::poll_now(&mut list), list[0].revents), (Ok(1), libc::POLLERR));
    // It is there before, and what comes is received all the same.
    in_time(800, 700, || assert_eq!(blocking(from, &mut [0; 10]), Err(libc::EAGAIN)));
    limit(from, 20_000);
    thread::scope(|s| {
        s.spawn(|| {
            thread::sleep(Duration::from_millis(100));
            assert_eq!(send(to, b"later", 0), Ok(5));
        });
        assert_eq!(blocking(from, &mut [0; 10]), Ok(5));
    });
}

/// On TCP whatever call comes next is told of it; a ring with room knows of no error.
#[test]
fn an_error_behind_bytes_is_told_to_a_send_that_comes_next() {
    let pair = Pair::live();
    let (to, from) = (pair.client, pair.server);
    let quick = || from.quick_send(fdtable::settled(from.fd), &mut Walk::one(b"more".as_ptr().cast_mut(), 4));
    assert_eq!(send(from, b"unread", 0), Ok(6));
    assert_eq!(send(to, b"a part", 0), Ok(6));
    assert_eq!(quick(), Some(4));
    tcp::disconnect(to.fd);
    let (frame, mut room) = (0u8, [0; 10]);
    let inside = Inside::enter(from.fd, &frame).expect("a connection");
    let got = from
        .receive(&inside, &mut Walk::one(room.as_mut_ptr(), 10), libc::MSG_WAITALL, &|_, _| panic!("a part"));
    inside.leave();
    assert_eq!(got, Ok(6));
    assert_eq!(quick(), None);
    assert_eq!(send(from, b"more", 0), Err(libc::ECONNRESET));
}

/// A receiver ends, with its thread or its process, between a bell's arrival and its count: whoever comes next takes that bell for
/// drained, and no byte of what comes on TCP afterwards for one.
#[test]
fn a_bell_that_a_receiver_took_before_it_ended_is_counted() {
    let pair = Pair::live();
    let (to, from) = (pair.client, pair.server);
    // Both are in the ring afterwards.
    assert_eq!(send(to, b"first", 0), Ok(5));
    assert_eq!(receive(from, 100).as_deref(), Ok(&b"first"[..]));
    for turn in 0..3 {
        assert!(!from.bells_out(&from.receiving()));
        assert_eq!(send(to, b"message", 0), Ok(7));
        let ends = || {
            assert!(from.rx_lock.try_lock(state::me()));
            from.begin_drain();
            let mut bell = 0u8;
            // SAFETY: a byte.
            assert_eq!(unsafe { raw::recv(from.fd, &mut bell, 1, libc::MSG_DONTWAIT) }, Ok(1));
            // The position may have been counted already.
            if turn == 1 {
                from.rx_kernel.fetch_add(1, Ordering::Relaxed);
            }
        };
        thread::scope(|scope| scope.spawn(ends).join().expect("a bell"));
        assert_eq!(receive(from, 100).as_deref(), Ok(&b"message"[..]));
        assert!(!from.bells_out(&from.receiving()), "{} drained", from.drained.load(Ordering::Relaxed));
        assert_eq!(receive(from, 100), Err(libc::EAGAIN));
    }
    assert_eq!(send(to, b"by TCP", libc::MSG_DONTROUTE), Ok(6));
    assert_eq!(receive(from, 100).as_deref(), Ok(&b"by TCP"[..]));
}

/// The same where one of the two has shut down, as after a request.
#[test]
fn a_bell_that_a_receiver_took_before_it_ended_is_counted_after_a_half_close() {
    for sender in [true, false] {
        let pair = Pair::live();
        let (to, from) = (pair.client, pair.server);
        assert_eq!(send(to, b"first", 0), Ok(5));
        assert_eq!(receive(from, 100).as_deref(), Ok(&b"first"[..]));
        assert_eq!(send(to, b"message", 0), Ok(7));
        // SAFETY: a number.
        assert_eq!(unsafe { libc::shutdown(if sender { to.fd } else { from.fd }, libc::SHUT_WR) }, 0);
        let ends = || {
            assert!(from.rx_lock.try_lock(state::me()));
            from.begin_drain();
            let mut bell = 0u8;
            // SAFETY: a byte.
            assert_eq!(unsafe { raw::recv(from.fd, &mut bell, 1, libc::MSG_DONTWAIT) }, Ok(1));
        };
        thread::scope(|scope| scope.spawn(ends).join().expect("a bell"));
        assert_eq!(from.as_receiver(|| from.bells_out(&from.receiving())), Some(false), "{sender}");
        assert_eq!(receive(from, 100).as_deref(), Ok(&b"message"[..]));
        if sender {
            assert_eq!(receive(from, 100), Ok(vec![]));
        } else {
            assert_eq!(send(to, b"by TCP", libc::MSG_DONTROUTE), Ok(6));
            assert_eq!(receive(from, 100).as_deref(), Ok(&b"by TCP"[..]));
        }
    }
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

/// W11: where the end took bytes with it before which the ring does not begin, that is a reset, which is told once.
#[test]
fn bytes_that_the_end_took_with_it_are_a_reset_that_is_told_once() {
    let pair = Pair::live();
    let (to, from) = (pair.client, pair.server);
    assert_eq!(send(to, b"here", libc::MSG_DONTROUTE), Ok(4));
    let out = to.sending();
    assert!(out.tx.to_ring(out.rx, 4 + 10), "ten bytes that never come");
    // SAFETY: a number.
    assert_eq!(unsafe { libc::shutdown(to.fd, libc::SHUT_WR) }, 0);
    assert_eq!(receive(from, 100), Ok(b"here".to_vec()));
    assert_eq!(receive(from, 100), Err(libc::ECONNRESET));
    assert_eq!(from.stage(), Stage::Plain, "what it says from now on, the kernel says");
}

/// I3: what no honest peer leaves where the cursor is, a token of no bytes or a cursor behind a token's last one, ends the connection
/// and not the time of whoever looks there: each look that takes nothing would find it again.
#[test]
fn a_peek_at_a_token_of_no_bytes_ends() {
    for (at_end, n, flags) in [
        (false, 1, libc::MSG_PEEK),
        (true, 1, libc::MSG_PEEK),
        (false, 0, 0),
        (true, 0, 0),
        (false, 100, libc::MSG_PEEK | libc::MSG_TRUNC),
    ] {
        let pair = Pair::live();
        let (to, from) = (pair.client, pair.server);
        assert_eq!(send(to, b"four", 0), Ok(4));
        let out = to.sending();
        if at_end {
            let at = Cursor { off: 4, ..Cursor::unpack(out.rx.cursor.load(Ordering::Relaxed)) };
            out.rx.cursor.store(at.pack(), Ordering::Relaxed);
        } else {
            assert_eq!(receive(from, 100).as_deref(), Ok(&b"four"[..]));
            ring::commit(&out.ring(), to.tail().pos, 0, ring::Kind::Data).expect("nothing is there");
        }
        let (tell, told) = mpsc::channel();
        // It would outlive a test that has failed.
        thread::spawn(move || {
            let (frame, mut room) = (0u8, [0u8; 100]);
            let inside = Inside::enter(from.fd, &frame).expect("a connection");
            let mut w = Walk::one(room.as_mut_ptr(), n);
            let got = from
                .receive(&inside, &mut w, flags | libc::MSG_DONTWAIT, &|_, _| panic!("it is not to sleep"));
            inside.leave();
            tell.send(got)
        });
        let got = told.recv_timeout(Duration::from_secs(1));
        assert_eq!(got, Ok(Err(libc::ECONNRESET)), "{at_end} {n} {flags:#x}");
        assert_eq!(from.stage(), Stage::Plain);
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
