//! Which calls doze, what wakes them, and that they miss nothing that no wake-up tells of.

use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt::ReceiveTimeout};
use nix::sys::time::TimeVal;

use crate::driver::user::endpoint::UserEndpoint;
use crate::driver::user::testing;
use crate::driver::{Sleep, Step};
use crate::edge::wake::Event;
use crate::endpoint::{wait, Endpoint};
use crate::error::Error;
use dp_edge::sys::unix;

/// Between two messages: so brief is a sleep that the next one is dozed through.
const BRISK: Duration = Duration::from_micros(100);
/// How long anything may take that happens at all.
const SOON: Duration = Duration::from_secs(20);

#[derive(Clone)]
struct Open {
    endpoint: Arc<Endpoint>,
    inner: Arc<UserEndpoint>,
}

fn open(dpid: u16) -> Open {
    let (endpoint, inner) = testing::open_whole(dpid);
    Open { endpoint: endpoint.into(), inner }
}

/// One that reads in place and never looks.
fn receiver(dpid: u16) -> Open {
    let to = open(dpid);
    to.endpoint.pool(64 << 10).expect("a pool");
    to.endpoint.set_spin(0);
    to
}

impl Open {
    fn send(&self, to: &Open, number: u64) {
        self.endpoint.send_to(&number.to_ne_bytes(), to.endpoint.addr()).expect("room");
    }
    fn try_recv(&self) -> Result<u64, Error> {
        let message = self.endpoint.recv()?.to_vec();
        Ok(u64::from_ne_bytes(message.try_into().expect("eight bytes")))
    }
    fn recv(&self) -> u64 {
        self.try_recv().expect("a message")
    }
    fn dozes(&self) -> u32 {
        self.inner.rx().sleeps.number
    }
    fn readable(&self, ms: i32) -> bool {
        unix::wait(self.endpoint.as_fd().as_raw_fd(), libc::POLLIN, ms).expect("poll") != 0
    }
}

/// Sends numbers from 0 on, one in a while, until told to stop; how many.
fn brisk(from: &Open, to: &Open, stop: &Arc<AtomicBool>) -> JoinHandle<u64> {
    let (from, to, stop) = (from.clone(), to.clone(), stop.clone());
    thread::spawn(move || {
        let mut sent = 0;
        while !stop.load(Ordering::Relaxed) {
            from.send(&to, sent);
            sent += 1;
            thread::sleep(BRISK);
        }
        sent
    })
}

/// Receives until it dozes; then what was sent is received to the end. The next number.
fn receive_until_it_dozes(from: &Open, to: &Open) {
    let stop = Arc::new(AtomicBool::new(false));
    let sender = brisk(from, to, &stop);
    let (end, mut next) = (Instant::now() + SOON, 0);
    while to.dozes() < 20 {
        assert!(Instant::now() < end, "it never dozes");
        assert_eq!(to.recv(), next);
        next += 1;
    }
    stop.store(true, Ordering::Relaxed);
    let sent = sender.join().expect("the sender");
    (next..sent).for_each(|n| assert_eq!(to.recv(), n));
}

#[test]
fn brief_sleeps_are_dozed_through_and_the_descriptor_tells_the_truth_behind_them() {
    let (from, to) = (open(7201), receiver(7202));
    receive_until_it_dozes(&from, &to);
    for n in 0..20 {
        // The lease is over.
        thread::sleep(Duration::from_millis(10));
        assert!(!to.readable(0), "a bell for nothing, {n}");
        from.send(&to, n);
        assert!(to.readable(10_000), "no bell, {n}");
        assert_eq!(to.recv(), n);
    }
    assert!(!to.inner.rx().sleeps.watched, "the lease never ends");
}

#[test]
fn long_sleeps_are_not() {
    let (from, to) = (open(7203), receiver(7204));
    receive_until_it_dozes(&from, &to);
    let brief_after = |since: u64| {
        to.inner.slept(Sleep::Socket(Some(since)), true);
        to.inner.rx().sleeps.habit.brief
    };
    // From then on, and since the machine was started: the test itself takes as long as it does.
    assert!(brief_after(u64::MAX));
    assert!(!brief_after(0));
    assert!(!to.inner.may_doze(&to.inner.rx()));
}

/// As from a sender that has not heard of the pool, or of the receiver's edge.
#[test]
fn a_message_on_the_descriptor_is_found_when_the_lease_is_over() {
    let (from, to) = (open(7205), receiver(7206));
    for n in 0..10 {
        receive_until_it_dozes(&from, &to);
        let other = to.clone();
        let late = thread::spawn(move || {
            thread::sleep(BRISK * (n % 3));
            let tag = other.inner.tag().expect("a tag");
            let parts = [IoSlice::new(&[7; 8])];
            unix::send(other.inner.back.as_raw_fd(), &parts, &[tag.as_fd()], 0).expect("room");
        });
        assert_eq!(to.recv(), u64::from_ne_bytes([7; 8]));
        late.join().expect("the sender");
    }
}

#[test]
fn another_sender_is_heard() {
    for n in 0..10 {
        let (from, to) = (open(7210 + 2 * n), receiver(7211 + 2 * n));
        receive_until_it_dozes(&from, &to);
        let other = to.clone();
        let new = thread::spawn(move || {
            let new = open(7240 + n);
            (0..20).for_each(|n| new.send(&other, n));
            new
        });
        (0..20).for_each(|n| assert_eq!(to.recv(), n));
        new.join().expect("the sender");
    }
}

#[test]
fn the_next_sender_is_heard_after_the_last_has_gone() {
    let to = receiver(7250);
    for n in 0..10 {
        let from = open(7251 + n);
        receive_until_it_dozes(&from, &to);
        drop(from);
    }
}

/// While one listens for bells, no other dozes: it would hear of the next message, and the listener of none.
#[test]
fn several_threads_receive_on_one_endpoint() {
    let (from, to) = (open(7262), receiver(7263));
    let taken = Arc::new(AtomicU64::new(0));
    let stop = u64::MAX;
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let (to, taken) = (to.clone(), taken.clone());
            thread::spawn(move || {
                while to.recv() != stop {
                    taken.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for n in 0..3000 {
        from.send(&to, n);
        thread::sleep(BRISK * (n % 4) as u32 / 2);
    }
    let await_that = |what: &str, done: &dyn Fn() -> bool| {
        let end = Instant::now() + SOON;
        while !done() {
            assert!(Instant::now() < end, "{what}: {taken:?} of 3000 messages were received");
            thread::sleep(Duration::from_millis(1));
        }
    };
    await_that("all", &|| taken.load(Ordering::Relaxed) == 3000);
    // All at once: one bell, which wakes one thread.
    (0..3).for_each(|_| from.send(&to, stop));
    await_that("the end", &|| threads.iter().all(JoinHandle::is_finished));
}

#[test]
fn who_does_not_wait_is_told_at_once() {
    let (from, to) = (open(7264), receiver(7265));
    receive_until_it_dozes(&from, &to);
    to.endpoint.set_nonblocking(true).expect("a flag");
    assert!(matches!(to.try_recv(), Err(Error::WouldBlock)));
    from.send(&to, 5);
    assert!(to.readable(10_000));
    assert_eq!(to.recv(), 5);
}

#[test]
fn a_receive_timeout_is_over_a_lease_late_at_most() {
    let (from, to) = (open(7266), receiver(7267));
    receive_until_it_dozes(&from, &to);
    setsockopt(&to.endpoint.as_fd(), ReceiveTimeout, &TimeVal::new(0, 50_000)).expect("a socket");
    assert!(matches!(to.try_recv(), Err(Error::WouldBlock)));
}

/// A sender that is not honest wakes it without end, which costs it no call to the kernel: not so much as a doze each.
#[test]
fn wake_ups_for_nothing_are_believed_a_few_times_only() {
    let (from, to) = (open(7268), receiver(7269));
    receive_until_it_dozes(&from, &to);
    let before = to.dozes();
    let stop = Arc::new(AtomicBool::new(false));
    let (other, over) = (to.clone(), stop.clone());
    let waker = thread::spawn(move || {
        while !over.load(Ordering::Relaxed) {
            if let Some(edge) = other.inner.rx().tokens.first_edge() {
                edge.segment.event_count().notify();
            }
            thread::sleep(BRISK / 10);
        }
    });
    let (other, sender) = (to.clone(), from.clone());
    let late = thread::spawn(move || {
        thread::sleep(Duration::from_millis(200));
        sender.send(&other, 1);
    });
    assert_eq!(to.recv(), 1);
    let dozes = to.dozes() - before;
    stop.store(true, Ordering::Relaxed);
    waker.join().expect("the waker");
    late.join().expect("the sender");
    assert!(dozes < 30, "{dozes} dozes");
}

/// A call up to where it sleeps.
fn lie_down(inner: &UserEndpoint, fd: i32) -> Sleep {
    match inner.try_recv(fd).expect("no error") {
        Step::Wait(bed @ Sleep::Edge(..)) => bed,
        other => panic!("{other:?}"),
    }
}

/// A call that is about to doze, as far as it goes without sleeping.
fn about_to_doze(from: &Open, to: &Open) -> Sleep {
    receive_until_it_dozes(from, to);
    // The last message may have been there at once.
    to.inner.rx().sleeps.habit.brief = true;
    lie_down(&to.inner, to.endpoint.as_fd().as_raw_fd())
}

/// A signal handler that jumps out of it, or the thread's end.
#[test]
fn a_call_that_never_comes_back_leaves_the_descriptor_true() {
    for (first, interrupted, late) in
        [(7272, false, false), (7274, true, false), (7276, true, true), (7278, false, true)]
    {
        let (from, to) = (open(first), receiver(first + 1));
        let key = about_to_doze(&from, &to);
        to.inner.rx().late |= late;
        if late {
            let mut rx = to.inner.rx();
            rx.wake = rx.wake.step(Event::LieDown { late });
        }
        if interrupted {
            to.inner.slept(key, false);
        }
        for n in 0..3 {
            from.send(&to, n);
            assert!(to.readable(10_000), "no bell, {first}");
            assert_eq!(to.recv(), n);
            thread::sleep(Duration::from_millis(10));
        }
        let end = Instant::now() + SOON;
        while to.inner.rx().sleeps.watched {
            assert!(Instant::now() < end, "the lease never ends, {first}");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// News that come before it lies down.
#[test]
fn who_is_roused_before_it_sleeps_does_not() {
    let (from, to) = (open(7280), receiver(7281));
    receive_until_it_dozes(&from, &to);
    to.inner.rx().sleeps.habit.brief = true;
    let bed = lie_down(&to.inner, to.endpoint.as_fd().as_raw_fd());
    to.inner.rouse_if_free();
    wait::sleep(-1, bed).expect("no signal");
}

#[test]
fn closing_wakes_who_dozes() {
    let from = open(7282);
    let (fd, inner) = testing::open(7283);
    let raw = fd.as_raw_fd();
    inner.start_pool(None).expect("a pool");
    inner.max_spin.store(0, Ordering::Relaxed);
    let sender = thread::spawn(move || {
        for _ in 0..400 {
            from.endpoint.send_to(b"x", crate::Addr::local(7283)).expect("room");
            thread::sleep(BRISK);
        }
        from
    });
    for _ in 0..400 {
        let got = testing::recv(&inner, &fd).expect("a message");
        inner.release(got.number);
    }
    let _from = sender.join().expect("the sender");
    inner.rx().sleeps.habit.brief = true;
    let bed = lie_down(&inner, raw);
    let sleeper = thread::spawn(move || wait::sleep(-1, bed));
    thread::sleep(BRISK);
    drop(fd);
    let end = Instant::now() + SOON;
    while !sleeper.is_finished() {
        assert!(Instant::now() < end, "nobody woke it");
        thread::sleep(Duration::from_millis(1));
    }
}

/// The head of each message awaited with poll, its rest in the call: told late a few times, and not each time.
#[test]
fn who_waits_in_both_by_turns_has_bells_again() {
    const PAIRS: u64 = 400;
    let (from, to) = (open(7284), receiver(7285));
    receive_until_it_dozes(&from, &to);
    let other = to.clone();
    let sender = thread::spawn(move || {
        for n in 0..2 * PAIRS {
            from.send(&other, n);
            thread::sleep(BRISK * 2);
        }
        from
    });
    for n in 0..PAIRS {
        assert!(to.readable(10_000));
        assert_eq!(to.recv(), 2 * n);
        assert_eq!(to.recv(), 2 * n + 1);
    }
    let _from = sender.join().expect("the sender");
    // Doubled each time: seven of 400 are 16 << 6, and more than that find no room in 800 messages.
    let last = to.inner.rx().sleeps.habit.abstains[1];
    assert!(last <= 16 << 6, "told late so often that it has bells for {last} messages");
}
