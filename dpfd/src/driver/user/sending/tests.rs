//! Which futures are woken, by what, and what is left of one that was dropped.

use std::io::IoSlice;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};

use super::{Sending, Until};
use crate::addr::Addr;
use crate::driver::user::endpoint::UserEndpoint;
use crate::driver::user::link::Link;
use crate::driver::user::testing;
use crate::driver::Served;
use crate::edge::parts::Parts;
use crate::endpoint::wait;
use crate::error::{Error, NoImmediate};
use dp_edge::sys::unix;

/// Larger than a plain receiver can take: it waits for a pool.
const LARGE: usize = 1 << 20;
/// How long anything may take that happens at all.
const SOON: Duration = Duration::from_secs(20);

#[derive(Default)]
struct Counter(AtomicU32);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Counter {
    fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
    fn counts(&self) -> bool {
        let end = Instant::now() + SOON;
        while self.count() == 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.count() > 0
    }
}

#[test]
fn who_waits_long_for_acknowledgements_looks_up_less_often() {
    let of = |us: u64| super::room_inside(us * 1000).as_micros();
    assert_eq!([0, 100, 1000, 5000, 60_000_000].map(of), [200, 200, 1000, 5000, 10_000]);
}

/// An endpoint without the door in front of it.
struct Open {
    fd: OwnedFd,
    inner: Arc<UserEndpoint>,
}

fn open(dpid: u16) -> Open {
    let (fd, inner) = testing::open(dpid);
    Open { fd, inner }
}

impl Open {
    fn wakers(&self) -> usize {
        self.inner.tx().links.iter().map(|link| link.wakers.count()).sum()
    }
    fn attempt(&self, sending: &mut Sending<'_>) -> Option<Until> {
        sending.attempt(self.fd.as_raw_fd()).expect("no error")
    }
}

/// A message of one piece; that piece stays until the program ends.
fn message_to<'a>(from: &'a Open, to: Addr, message: &'a [u8]) -> Sending<'a> {
    Sending::new(&from.inner, Some(to), Parts::new(Box::leak(Box::new([IoSlice::new(message)]))))
}

fn register(sending: &mut Sending<'_>, until: Until, counter: &Arc<Counter>) {
    let waker = Waker::from(counter.clone());
    assert!(sending.poll_news(until, &mut Context::from_waker(&waker)).is_pending());
}

/// Two endpoints, the first of which has found its way to the second, who reads plainly.
fn pair(dpid: u16) -> (Open, Open) {
    let (from, to) = (open(0), open(dpid));
    testing::send(&from.inner, &from.fd, Some(to.inner.addr()), b"first").expect("room");
    let end = Instant::now() + SOON;
    while to.inner.read_now(to.fd.as_raw_fd(), &mut [0; 8]).expect("no error").is_none() {
        assert!(Instant::now() < end, "the first message is missing");
        std::thread::sleep(Duration::from_millis(1));
    }
    (from, to)
}

/// A message that only a pool can take, tried once, and who is woken for it.
fn stuck<'a>(from: &'a Open, to: &Open, message: &'a [u8]) -> (Sending<'a>, Arc<Counter>) {
    let mut sending = message_to(from, to.inner.addr(), message);
    assert_eq!(from.attempt(&mut sending), Some(Until::Later));
    let counter = Arc::new(Counter::default());
    register(&mut sending, Until::Later, &counter);
    (sending, counter)
}

#[test]
fn who_waits_for_a_pool_is_woken_and_the_message_arrives() {
    let ((from, to), message) = (pair(7101), vec![0; LARGE]);
    let (mut sending, counter) = stuck(&from, &to, &message);
    to.inner.start_pool(None).expect("a pool");
    let end = Instant::now() + SOON;
    assert!(counter.counts());
    while from.attempt(&mut sending).is_some() {
        assert!(Instant::now() < end, "the pool is not heard of");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(testing::recv(&to.inner, &to.fd).expect("a message").size(), LARGE);
}

#[test]
fn who_waits_for_room_is_not_woken_without_any() {
    let (from, nobody) = (open(0), Addr::local(7102));
    let message = [0; 2000];
    let mut sending = message_to(&from, nobody, &message);
    let mut in_vain = 0;
    while in_vain < 5 {
        if from.attempt(&mut sending).is_none() {
            (sending, in_vain) = (message_to(&from, nobody, &message), 0);
        } else {
            in_vain += 1;
            std::thread::sleep(Duration::from_millis(10)); // the service takes some on, for a while
        }
    }
    let until = from.attempt(&mut sending).expect("no room");
    assert!(until.is_polled());
    let counter = Arc::new(Counter::default());
    register(&mut sending, until, &counter);
    std::thread::sleep(Duration::from_millis(60));
    assert_eq!(counter.count(), 0);
}

/// Sends it as a future does whose executor waits for the descriptor where the future does.
fn drive(from: &Open, to: Addr, message: &[u8]) {
    let mut sending = message_to(from, to, message);
    while let Some(until) = from.attempt(&mut sending) {
        let counter = Arc::new(Counter::default());
        let waker = Waker::from(counter.clone());
        if sending.poll_news(until, &mut Context::from_waker(&waker)).is_ready() {
            continue;
        }
        if until.is_polled() {
            unix::wait(from.fd.as_raw_fd(), libc::POLLOUT, 10).expect("poll");
        } else {
            assert!(counter.counts(), "nobody tells of {until:?}");
        }
    }
}

/// Else it has memory of its own, and all that are sent behind it.
#[test]
fn a_future_waits_for_room_on_the_direct_way() {
    const COUNT: u64 = 100;
    let (from, to) = pair(7106);
    to.inner.start_pool(Some(8 << 20)).expect("a pool");
    let address = to.inner.addr();
    let sender = std::thread::spawn(move || {
        let message = vec![0; LARGE];
        (0..COUNT).for_each(|_| drive(&from, address, &message));
        from
    });
    for _ in 0..COUNT {
        // The sender is faster: it finds its edge full nearly every time.
        std::thread::sleep(Duration::from_millis(2));
        let got = testing::recv(&to.inner, &to.fd).expect("a message");
        assert_eq!(got.size(), LARGE);
        to.inner.release(got.number);
    }
    let from = sender.join().expect("the sender");
    let out_of_line: u64 = from.inner.tx().links.iter().map(Link::out_of_line).sum();
    assert!(out_of_line < COUNT / 10, "{out_of_line} of {COUNT} messages had memory of their own");
}

#[test]
fn who_waits_for_a_turn_is_woken_when_the_receiver_goes() {
    let ((from, to), message) = (pair(7107), vec![0; LARGE]);
    to.inner.start_pool(Some(8 << 20)).expect("a pool");
    let end = Instant::now() + SOON;
    let (mut sending, until) = loop {
        assert!(Instant::now() < end, "there is room without end");
        let mut sending = message_to(&from, to.inner.addr(), &message);
        match from.attempt(&mut sending) {
            None => {}
            // It does not know of the pool yet.
            Some(Until::Later) => std::thread::sleep(Duration::from_millis(1)),
            Some(until) => break (sending, until),
        }
    };
    assert_eq!(until, Until::Direct);
    let counter = Arc::new(Counter::default());
    register(&mut sending, until, &counter);
    drop(to.fd);
    assert!(counter.counts());
    // The next one by that name may want it.
    assert_eq!(from.attempt(&mut sending), None);
}

#[test]
fn a_dropped_future_takes_its_waker_along() {
    let ((from, to), message) = (pair(7103), vec![0; LARGE]);
    for _ in 0..10 {
        let mut sending = message_to(&from, to.inner.addr(), &message);
        from.attempt(&mut sending);
        register(&mut sending, Until::Drained, &Arc::new(Counter::default()));
        assert_eq!(from.wakers(), 1);
        drop(sending);
        assert_eq!(from.wakers(), 0);
    }
}

#[test]
fn the_task_that_polled_last_is_woken() {
    let ((from, to), message) = (pair(7104), vec![0; LARGE]);
    let [first, second] = [const { Counter(AtomicU32::new(0)) }; 2].map(Arc::new);
    let mut sending = message_to(&from, to.inner.addr(), &message);
    from.attempt(&mut sending);
    register(&mut sending, Until::Drained, &first);
    register(&mut sending, Until::Drained, &second);
    assert_eq!(from.wakers(), 1);
    let links = from.inner.tx().take_all();
    links.into_iter().for_each(|link| link.wakers.wake_all());
    assert_eq!((first.count(), second.count()), (0, 1));
    assert_eq!(sending.attempt(from.fd.as_raw_fd()).unwrap_err().errno(), libc::ESHUTDOWN);
}

#[test]
fn a_receiver_that_knows_no_immediates_is_sent_none_and_all_else() {
    let (from, to) = pair(7209);
    let send = |parts: Parts<'_>| {
        let served = Served::User(from.inner.clone());
        wait::send_parts(&served, Duration::MAX, from.fd.as_raw_fd(), Some(to.inner.addr()), parts)
    };
    let with_immediate = Parts::new(&[]).with_immediate(7);
    send(with_immediate).expect("this one knows them");
    // As its service would have said it in an earlier version.
    from.inner.tx().links.iter_mut().for_each(|link| link.knows_immediates = false);
    assert!(
        matches!(send(with_immediate), Err(Error::NoImmediate(a, NoImmediate::OldReceiver)) if a == to.inner.addr())
    );
    send(Parts::new(&[IoSlice::new(b"plain")])).expect("room");
    let mut into = [0; 8];
    let mut next = || {
        let end = Instant::now() + SOON;
        loop {
            match to.inner.read_now(to.fd.as_raw_fd(), &mut into).expect("no error") {
                Some(len) => return into[..len].to_vec(),
                None => assert!(Instant::now() < end, "a message is missing"),
            }
        }
    };
    assert_eq!((next(), next()), (vec![], b"plain".to_vec()));
}
