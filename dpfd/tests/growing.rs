//! A pool that nobody gave a size grows for a sender that fills its part again and again; nothing is lost or overtaken.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use dpfd::driver::Driver;
use dpfd::{Endpoint, Error, Message};
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};

/// What the usual pool has before it grows, bytes.
const USUAL: usize = 262_144;
/// How long anything may take that happens at all.
const SOON: Duration = Duration::from_secs(60);
/// How long services may take to tell each other of a longer part.
const HEARD: Duration = Duration::from_millis(500);

fn open(dpid: u16) -> Endpoint {
    static FOLDER: Once = Once::new();
    FOLDER.call_once(|| {
        let dir = std::env::temp_dir().join(format!("dp-growing-{}", std::process::id()));
        std::env::set_var("DP_RUNTIME_DIR", dir);
    });
    // The kernel driver has one ring for all, and it does not grow.
    Endpoint::open_on(Driver::User, dpid).expect("a free number")
}

/// The content of message `number`: it says so at its beginning and at its end.
fn content(number: u64, len: usize) -> Vec<u8> {
    let mut message = vec![number as u8; len];
    message[..8].copy_from_slice(&number.to_ne_bytes());
    message[len - 8..].copy_from_slice(&number.to_ne_bytes());
    message
}

/// Whether a sender waits in its calls. If not, what is found full depends on nobody's processor.
#[derive(Clone, Copy, PartialEq)]
enum Waits {
    Yes,
    No,
}

/// Sends messages until `enough` are sent. The sender, and how many it sent.
fn flood(
    to: &Endpoint,
    len: usize,
    waits: Waits,
    enough: impl Fn(u64) -> bool + Send + 'static,
) -> JoinHandle<(Endpoint, u64)> {
    let to = to.addr();
    thread::spawn(move || {
        let from = open(0);
        from.set_nonblocking(waits == Waits::No).expect("a descriptor");
        let (end, mut number) = (Instant::now() + SOON, 0);
        while !enough(number) {
            let message = content(number, len);
            while let Err(error) = from.send_to(&message, to) {
                assert!(matches!(error, Error::WouldBlock) && Instant::now() < end, "{number}: {error}");
                thread::yield_now();
            }
            number += 1;
        }
        (from, number)
    })
}

/// Receives messages with so many in hand all the time, and looks at each twice.
struct Receiver<'a> {
    to: &'a Endpoint,
    len: usize,
    hold: usize,
    next: u64,
    held: VecDeque<(u64, Message<'a>)>,
}

impl<'a> Receiver<'a> {
    fn new(to: &'a Endpoint, len: usize, hold: usize) -> Receiver<'a> {
        Receiver { to, len, hold, next: 0, held: VecDeque::new() }
    }

    fn receive(&mut self) {
        let message = self.to.recv().expect("a message");
        self.received(message);
    }

    fn received(&mut self, message: Message<'a>) {
        assert!(message.to_vec() == content(self.next, self.len), "message {}", self.next);
        self.held.push_back((self.next, message));
        self.next += 1;
        if self.held.len() > self.hold {
            // The oldest, and one that is not, by turns.
            let (number, message) =
                self.held.remove(self.next as usize % (1 + self.hold / 2)).expect("one more");
            assert!(message.to_vec() == content(number, self.len), "message {number}, later");
        }
    }

    /// If there is one: the descriptor does not wait.
    fn receive_now(&mut self) {
        match self.to.recv() {
            Ok(message) => self.received(message),
            Err(error) => {
                assert!(matches!(error, Error::WouldBlock), "{error}");
                thread::sleep(Duration::from_micros(100));
            }
        }
    }

    fn all(mut self, count: u64) {
        while self.next < count {
            self.receive();
        }
    }
}

/// A new sender floods it until its pool is so large, and everything is received; the sender.
fn grow(to: &Endpoint, pool: usize, len: usize, hold: usize, waits: Waits) -> Endpoint {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let sender = flood(to, len, waits, move |_| stopped.load(Ordering::Relaxed));
    let (mut receiver, end) = (Receiver::new(to, len, hold), Instant::now() + SOON);
    while to.stat().pool != pool {
        assert!(Instant::now() < end, "it does not grow: {:?}", to.stat());
        receiver.receive();
    }
    // Over the longer part, too, once the sender has heard of it.
    let (since, all) = (Instant::now(), receiver.next + 20_000_000 / len as u64);
    while receiver.next < all || since.elapsed() < HEARD {
        receiver.receive();
    }
    stop.store(true, Ordering::Relaxed);
    // The last it sends may have to wait for those in front of it.
    to.set_nonblocking(true).expect("a descriptor");
    while !sender.is_finished() {
        receiver.receive_now();
    }
    to.set_nonblocking(false).expect("a descriptor");
    let (from, sent) = sender.join().expect("the sender");
    receiver.all(sent);
    // The part it had comes back once it is known to be empty, so the sender went over. A bell that the service rings for
    // the last of them is taken, too.
    thread::sleep(Duration::from_millis(20));
    to.set_nonblocking(true).expect("a descriptor");
    assert!(matches!(to.recv(), Err(Error::WouldBlock)));
    to.set_nonblocking(false).expect("a descriptor");
    assert_eq!(to.stat().pool_left, USUAL, "it did not go over");
    from
}

fn readable(endpoint: &Endpoint, timeout: PollTimeout) -> bool {
    poll(&mut [PollFd::new(endpoint.as_fd(), PollFlags::POLLIN)], timeout).expect("poll") > 0
}

#[test]
fn a_sender_that_fills_its_part_again_and_again_gets_a_longer_one() {
    let to = open(7301);
    let from = grow(&to, USUAL + (4 << 20), 4000, 3, Waits::No);
    let stat = to.stat();
    assert_eq!((stat.edges, stat.corrupt, stat.loaned), (1, 0, 0));
    to.pool(USUAL).expect("the one it has");
    // A program that polls hears of what comes from then on, and of nothing else.
    from.set_nonblocking(false).expect("a descriptor");
    for number in 0..20 {
        thread::sleep(Duration::from_millis(5));
        assert!(!readable(&to, PollTimeout::ZERO), "a bell for nothing, {number}");
        from.send_to(&content(number, 64), to.addr()).expect("room");
        assert!(readable(&to, PollTimeout::from(10_000u16)), "no bell, {number}");
        assert_eq!(to.recv().expect("a message").to_vec(), content(number, 64));
    }
    // What it grew by goes back with its sender.
    drop(from);
    let end = Instant::now() + SOON;
    to.set_nonblocking(true).expect("a descriptor");
    while to.stat().pool != USUAL {
        assert!(Instant::now() < end, "it does not shrink: {:?}", to.stat());
        assert!(matches!(to.recv(), Err(Error::WouldBlock)));
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(to.stat().pool_left, USUAL);
}

/// Senders that have an edge each, and send nothing more.
fn attached(to: &Endpoint, count: usize) -> Vec<Endpoint> {
    let others: Vec<Endpoint> = (0..count).map(|_| open(0)).collect();
    let end = Instant::now() + SOON;
    for (before, other) in others.iter().enumerate() {
        while to.stat().edges == before {
            assert!(Instant::now() < end, "no edge: {:?}", to.stat());
            other.send_to(&content(0, 64), to.addr()).expect("room");
            assert_eq!(to.recv().expect("a message").len(), 64);
        }
    }
    others
}

/// Never more than one is under way, so its part is never full.
#[test]
fn a_sender_of_long_messages_gets_a_longer_part_and_one_of_short_ones_does_not() {
    for (dpid, len, others, grown) in
        [(7306, 16_000, 0, true), (7307, 4_000, 0, false), (7308, 4_000, 3, false)]
    {
        let to = open(dpid);
        // Others have what is longer, and leave this one 16 KiB.
        let _others = attached(&to, others);
        let end = Instant::now() + SOON;
        let from = open(0);
        let mut number = 0;
        // Enough for 4 MiB and for a turn of messages, and then for it to be heard.
        while number < 4_000 || (grown && to.stat().pool == USUAL) {
            assert!(Instant::now() < end, "it does not grow: {:?}", to.stat());
            from.send_to(&content(number, len), to.addr()).expect("room");
            let mut into = vec![0; len];
            assert_eq!(to.recv_from(&mut into).expect("a message"), (len, from.addr()));
            assert!(into == content(number, len), "message {number}");
            number += 1;
        }
        assert_eq!(to.stat().pool != USUAL, grown, "{len} bytes: {:?}", to.stat());
        assert_eq!(from.stat().full, 0);
    }
}

#[test]
fn a_sender_that_came_when_all_was_shared_out_gets_a_part_once_it_sends_much() {
    let to = open(7309);
    let others = attached(&to, 7);
    assert_eq!(to.stat().pool_left, 0);
    // A few messages do not do it.
    let sender = flood(&to, 4000, Waits::Yes, |sent| sent == 10);
    Receiver::new(&to, 4000, 3).all(10);
    thread::sleep(HEARD);
    assert_eq!((to.stat().edges, to.stat().pool), (7, USUAL));
    drop(sender.join().expect("the sender"));
    // Whole and in order, from the descriptor and then from its part.
    let sender = flood(&to, 4000, Waits::Yes, |sent| sent == 20_000);
    Receiver::new(&to, 4000, 3).all(20_000);
    let stat = to.stat();
    assert_eq!((stat.edges, stat.pool, stat.corrupt), (8, USUAL + (512 << 10), 0));
    drop(sender.join().expect("the sender"));
    let end = Instant::now() + SOON;
    to.set_nonblocking(true).expect("a descriptor");
    while to.stat().pool != USUAL {
        assert!(Instant::now() < end, "it does not shrink: {:?}", to.stat());
        assert!(matches!(to.recv(), Err(Error::WouldBlock)));
        thread::sleep(Duration::from_millis(1));
    }
    drop(others);
}

/// Whether or not its receiver keeps up: each message that such a part has no room for goes by the service.
#[test]
fn a_sender_with_a_part_for_a_few_messages_gets_a_longer_one_though_it_waits() {
    let to = open(7310);
    let _others = attached(&to, 6);
    let sender = flood(&to, 1000, Waits::Yes, |sent| sent == 20_000);
    Receiver::new(&to, 1000, 0).all(20_000);
    let stat = to.stat();
    assert_eq!((stat.edges, stat.pool, stat.corrupt), (7, USUAL + (512 << 10), 0));
    drop(sender.join().expect("the sender"));
}

#[test]
fn long_messages_and_several_senders_have_their_turns() {
    let to = open(7302);
    // Each is too long for the first part, so that it is out of line, one at a time; and none too long for the second.
    let first = grow(&to, USUAL + (4 << 20), 200_000, 0, Waits::No);
    let second = grow(&to, USUAL + (4 << 20) + (2 << 20), 4000, 3, Waits::No);
    assert_eq!(to.stat().edges, 2);
    drop((first, second));
}

/// One that waits counts only while its receiver is at it on another processor: where there is none, never.
#[test]
fn a_sender_that_waits_gets_a_longer_part_too() {
    let to = open(7305);
    if thread::available_parallelism().expect("a number").get() > 1 {
        drop(grow(&to, USUAL + (4 << 20), 4000, 3, Waits::Yes));
    } else {
        let sender = flood(&to, 4000, Waits::Yes, |sent| sent == 10_000);
        Receiver::new(&to, 4000, 3).all(10_000);
        assert_eq!(to.stat().pool, USUAL);
        drop(sender.join().expect("the sender"));
    }
}

#[test]
fn a_pool_that_was_given_a_size_keeps_it() {
    let to = open(7303);
    to.pool(USUAL).expect("a pool");
    let sender = flood(&to, 4000, Waits::No, |sent| sent == 10_000);
    Receiver::new(&to, 4000, 3).all(10_000);
    assert_eq!(to.stat().pool, USUAL);
    drop(sender.join().expect("the sender"));
}

#[test]
fn who_sends_little_has_what_it_had() {
    let to = open(7304);
    // Full all the time, but less than is in a longer part.
    let sender = flood(&to, 4000, Waits::No, |sent| sent == 900);
    Receiver::new(&to, 4000, 3).all(900);
    assert_eq!(to.stat().pool, USUAL);
    drop(sender.join().expect("the sender"));
}
