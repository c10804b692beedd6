//! A direction moves between TCP and its ring, several times: every byte comes once and in order, no bell
//! is taken for data and no data for a bell (E5-E7, W4).

use std::collections::VecDeque;

use dp_edge::ring::{self, Cursor, Kind, Lines, Pos, Tail};
use dp_edge::sync::{AtomicU32, Ordering};
use dp_edge::testing::explore;
use dp_edge::testing::lines::Heap;
use dp_edge::Error;
use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
use loom::thread;

use super::ends::{Feed, Room};
use crate::bell::{Owed, Word};
use crate::stream;
use crate::switch::{in_ring, RxLine, TxLine, View};

/// A byte on TCP.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Byte {
    Data(u8),
    Bell,
}

#[derive(Default)]
struct Queue {
    bytes: VecDeque<Byte>,
    over: bool,
}

struct Shared {
    own: Heap,
    /// A longer one, in which somebody else's tokens lie.
    spare: Heap,
    tx: TxLine,
    rx: RxLine,
    word: Word,
    tcp: Mutex<Queue>,
    more: Condvar,
}

impl Shared {
    /// Asked for at each look.
    fn ring(&self) -> &Heap {
        match self.tx.ring() {
            0 => &self.own,
            _ => &self.spare,
        }
    }
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.tcp.lock().unwrap()
    }
    /// FIONREAD.
    fn queued(&self) -> usize {
        self.queue().bytes.len()
    }
    fn put(&self, b: Byte) {
        self.queue().bytes.push_back(b);
        self.more.notify_all();
    }
    /// Sleeps until TCP is readable.
    fn readable(&self) {
        let mut q = self.queue();
        while q.bytes.is_empty() {
            assert!(!q.over, "lost wake-up");
            q = self.more.wait(q).unwrap();
        }
    }
}

/// What is left out of the protocol.
#[derive(Clone, Copy, PartialEq)]
enum Without {
    Nothing,
    /// The receiver looks at the epoch, then counts what is on TCP.
    CountingFirst,
    /// The receiver drains what it finds on TCP, not what it counted before it armed.
    CountedDrain,
    /// The sender switches again though the receiver has not followed.
    Acknowledgement,
    /// The sender goes over to the spare ring as soon as it is back on TCP.
    Following,
    /// It does not make the header there invalid that comes next.
    Invalidation,
    /// In the middle of a ring epoch it goes over though there is something in the ring.
    Emptiness,
}

/// When TCP refuses a bell (EAGAIN).
#[derive(Clone, Copy)]
enum Refuses {
    Never,
    /// While data from before the ring waits there: the receiver will read it, and look at the ring then.
    BehindData,
    /// While anything waits there, bells too. The protocol does *not* stand this: a receiver that drains
    /// those bells has looked at the ring already. Loopback takes a fourth byte whenever it took three.
    BehindAnything,
}

struct Sender<'a> {
    s: &'a Shared,
    tail: Tail,
    /// Bytes put on TCP, bells included.
    kernel: u64,
    refuses: Refuses,
    without: Without,
    /// The next ring epoch is to be in the spare ring.
    outgrown: bool,
}

impl Sender<'_> {
    fn byte(&mut self, i: u8) {
        if !in_ring(self.s.tx.epoch()) {
            self.s.put(Byte::Data(i));
            self.kernel += 1;
            return;
        }
        let bytes = u64::from(i).to_le_bytes();
        while let Err(e) =
            stream::push(self.s.ring(), &mut self.tail, &self.s.rx.cursor, &mut Feed::one(&bytes))
        {
            assert_eq!(e, Error::Full);
            thread::yield_now();
        }
        if let Owed::Bell(_) = self.s.word.after_publish(&[], &AtomicU32::new(0)) {
            let refused = match self.refuses {
                Refuses::Never => false,
                Refuses::BehindData => self.s.queue().bytes.iter().any(|b| *b != Byte::Bell),
                Refuses::BehindAnything => self.s.queued() > 0,
            };
            if refused {
                self.s.word.undo_bell();
            } else {
                self.s.put(Byte::Bell);
                self.kernel += 1;
            }
        }
    }

    fn go_over(&mut self) {
        self.outgrown = false;
        if self.without != Without::Invalidation {
            self.s.spare.header(self.tail.pos).store(0, Ordering::Relaxed);
        }
        self.s.tx.go_over(1);
    }

    /// In the middle of a ring epoch: as soon as the receiver has taken everything, which its cursor says.
    fn widen(&mut self) {
        let taken = || Cursor::unpack(self.s.rx.cursor.load(Ordering::Acquire)).pos;
        while self.without != Without::Emptiness && taken() != self.tail.pos {
            thread::yield_now();
        }
        self.tail.seen = self.tail.pos;
        self.go_over();
    }

    fn switch(&mut self) {
        if in_ring(self.s.tx.epoch()) {
            assert!(self.s.tx.to_tcp(self.tail.pos, self.kernel));
            if self.outgrown && self.without == Without::Following {
                self.go_over();
            }
        } else if self.without == Without::Acknowledgement {
            let anybody = RxLine::default();
            anybody.acknowledge(self.s.tx.epoch());
            assert!(self.s.tx.to_ring(&anybody, self.kernel));
        } else {
            if self.outgrown && self.s.rx.caught_up(&self.s.tx) {
                self.go_over();
            }
            // Refused while the receiver is an epoch behind: the bytes go on over TCP.
            self.s.tx.to_ring(&self.s.rx, self.kernel);
        }
    }
}

struct Receiver<'a> {
    s: &'a Shared,
    epoch: u64,
    /// Bytes taken from TCP, bells included.
    kernel: u64,
    /// Before this position, TCP's bytes are bells.
    data: u64,
    got: Vec<u8>,
    without: Without,
}

impl Receiver<'_> {
    fn drain(&mut self, n: usize) {
        let mut q = self.s.queue();
        for b in q.bytes.drain(..n) {
            assert_eq!(b, Byte::Bell, "data taken for a bell");
        }
        self.kernel += n as u64;
    }

    fn read(&mut self, n: usize) {
        let mut q = self.s.queue();
        for b in q.bytes.drain(..n) {
            match b {
                Byte::Data(i) => self.got.push(i),
                Byte::Bell => panic!("a bell delivered as data"),
            }
        }
        self.kernel += n as u64;
    }

    /// One attempt in a TCP epoch. False: nothing there, and a new byte will make TCP readable.
    fn on_tcp(&mut self) -> bool {
        let mut there = self.s.queued();
        let view = self.s.tx.view(self.epoch).expect("an epoch that can be");
        if self.without == Without::CountingFirst {
            there = self.s.queued();
        }
        let limit = match view {
            View::Same => there,
            View::RingAt(p) if p == self.kernel => {
                self.epoch += 1;
                return true;
            }
            View::RingAt(p) => there.min((p - self.kernel) as usize),
            View::TcpAt { .. } => unreachable!("no such answer in a TCP epoch"),
        };
        let bells = self.data.saturating_sub(self.kernel) as usize;
        if bells > 0 {
            self.drain(bells.min(limit));
        } else {
            self.read(limit);
        }
        if limit > 0 {
            return true;
        }
        self.s.word.arm();
        self.s.tx.moved(self.epoch)
    }

    /// One attempt in a ring epoch.
    fn on_ring(&mut self) -> bool {
        let s = self.s;
        let mut room = Room::room(8, 8);
        match stream::pull_where(|| s.ring(), || true, &s.rx.cursor, &mut room, false) {
            Ok(_) => {
                self.got.push(room.got()[0]);
                return true;
            }
            Err(e) => assert_eq!(e, Error::Empty),
        }
        match s.tx.view(self.epoch).expect("an epoch that can be") {
            View::TcpAt { end, q } => {
                if Cursor::unpack(s.rx.cursor.load(Ordering::Acquire)).pos == end {
                    self.data = q;
                    self.epoch += 1;
                    s.rx.acknowledge(self.epoch);
                } else {
                    assert!(stream::waiting(s.ring(), &s.rx.cursor), "the ring ends before its end");
                }
                return true;
            }
            view => assert_eq!(view, View::Same),
        }
        let mut there = s.queued();
        s.word.arm();
        if stream::waiting(s.ring(), &s.rx.cursor) || s.tx.moved(self.epoch) {
            if there > 0 {
                s.word.unarm();
            }
            return true;
        }
        if self.without == Without::CountedDrain {
            there = s.queued();
        }
        self.drain(there);
        false
    }
}

/// Sends bytes (`b`), switches (`s`), outgrows its ring (`l`) and leaves it for a longer one when it is empty (`w`) as
/// `script` says; receives them all.
fn converse(script: &'static str, refuses: Refuses, without: Without) {
    let s = Arc::new(Shared {
        own: Heap::new(4),
        spare: Heap::new(8),
        tx: TxLine::default(),
        rx: RxLine::default(),
        word: Word::default(),
        tcp: Mutex::default(),
        more: Condvar::new(),
    });
    s.rx.reset(Pos::default());
    // The former owner was at the same positions.
    for at in (0..8).map(Pos::new) {
        // SAFETY: 8 bytes, behind the header of a line.
        unsafe { s.spare.put(at, ring::HEADER, [0xff; 8].as_ptr(), 8) };
        ring::commit(&s.spare, at, 8, Kind::Data).unwrap();
    }
    let sender = {
        let s = s.clone();
        thread::spawn(move || {
            let mut sender =
                Sender { s: &s, tail: Tail::default(), kernel: 0, refuses, without, outgrown: false };
            let mut i = 0;
            for step in script.chars() {
                match step {
                    's' => sender.switch(),
                    'l' => sender.outgrown = true,
                    'w' => sender.widen(),
                    _ => {
                        sender.byte(i);
                        i += 1;
                    }
                }
            }
            s.queue().over = true;
            s.more.notify_all();
        })
    };
    let n = script.matches('b').count();
    let mut r = Receiver { s: &s, epoch: 0, kernel: 0, data: 0, got: Vec::new(), without };
    while r.got.len() < n {
        let more = if in_ring(r.epoch) { r.on_ring() } else { r.on_tcp() };
        if !more {
            s.readable();
        }
    }
    assert_eq!(r.got, (0..n as u8).collect::<Vec<_>>());
    sender.join().unwrap();
}

#[test]
fn loom_switch_to_the_ring() {
    explore(Some(3), || converse("bsbb", Refuses::Never, Without::Nothing));
}

#[test]
fn loom_hand_back_to_tcp() {
    explore(Some(3), || converse("sbbsb", Refuses::Never, Without::Nothing));
}

#[test]
fn loom_several_epochs() {
    explore(Some(2), || converse("bsbsbsbsb", Refuses::Never, Without::Nothing));
}

#[test]
fn loom_over_to_a_longer_ring() {
    explore(Some(3), || converse("sblsbsbb", Refuses::Never, Without::Nothing));
}

#[test]
fn loom_over_to_a_longer_ring_when_empty() {
    explore(Some(3), || converse("sbwb", Refuses::Never, Without::Nothing));
    explore(Some(2), || converse("bsbwbbsb", Refuses::Never, Without::Nothing));
}

/// Both receivers see the change of rings, at whatever moment: each byte comes to one of them.
#[test]
fn loom_over_to_a_longer_ring_under_two_receivers() {
    explore(Some(3), || {
        let s = Arc::new((Heap::new(4), Heap::new(8), TxLine::default(), RxLine::default()));
        s.3.reset(Pos::default());
        // The former owner.
        ring::commit(&s.1, Pos::new(1), 8, Kind::Data).unwrap();
        let taker = |s: Arc<(Heap, Heap, TxLine, RxLine)>, tries: usize| {
            let ring = || if s.2.ring() == 0 { &s.0 } else { &s.1 };
            let mut got = Vec::new();
            for _ in 0..tries {
                let mut room = Room::room(8, 8);
                match stream::pull_where(ring, || true, &s.3.cursor, &mut room, false) {
                    Ok(_) => got.push(room.got()[0]),
                    Err(e) => assert_eq!(e, Error::Empty),
                }
                thread::yield_now();
            }
            got
        };
        let other = {
            let s = s.clone();
            thread::spawn(move || taker(s, 2))
        };
        let sender = {
            let s = s.clone();
            thread::spawn(move || {
                let mut tail = Tail::default();
                let push = |ring: &Heap, tail: &mut Tail, i: u8| {
                    stream::push(ring, tail, &s.3.cursor, &mut Feed::one(&u64::from(i).to_le_bytes()))
                        .unwrap();
                };
                push(&s.0, &mut tail, 0);
                // As soon as it can be, or not at all.
                if Cursor::unpack(s.3.cursor.load(Ordering::Acquire)).pos == tail.pos {
                    tail.seen = tail.pos;
                    s.1.header(tail.pos).store(0, Ordering::Relaxed);
                    s.2.go_over(1);
                    push(&s.1, &mut tail, 1);
                } else {
                    push(&s.0, &mut tail, 1);
                }
            })
        };
        let mut got = taker(s.clone(), 2);
        sender.join().unwrap();
        got.extend(other.join().unwrap());
        got.extend(taker(s, 2));
        got.sort_unstable();
        assert_eq!(got, [0, 1]);
    });
}

#[test]
#[should_panic]
fn loom_broken_going_over_with_something_in_the_ring() {
    explore(Some(3), || converse("sbwb", Refuses::Never, Without::Emptiness));
}

#[test]
fn loom_bells_that_tcp_has_no_room_for() {
    explore(Some(3), || converse("bbsbsb", Refuses::BehindData, Without::Nothing));
}

#[test]
#[should_panic(expected = "a bell delivered as data")]
fn loom_broken_not_counting_first() {
    explore(Some(2), || converse("bsbb", Refuses::Never, Without::CountingFirst));
}

#[test]
#[should_panic(expected = "data taken for a bell")]
fn loom_broken_draining_what_was_not_counted() {
    explore(Some(3), || converse("sbsb", Refuses::Never, Without::CountedDrain));
}

#[test]
#[should_panic]
fn loom_broken_switching_before_the_receiver_followed() {
    explore(Some(3), || converse("bsbsbsb", Refuses::Never, Without::Acknowledgement));
}

#[test]
#[should_panic(expected = "lost wake-up")]
fn loom_broken_bell_refused_behind_bells() {
    explore(Some(3), || converse("sbb", Refuses::BehindAnything, Without::Nothing));
}

#[test]
#[should_panic]
fn loom_broken_going_over_before_the_receiver_followed() {
    explore(Some(3), || converse("sblssb", Refuses::Never, Without::Following));
}

#[test]
#[should_panic]
fn loom_broken_going_over_to_what_lies_there() {
    explore(Some(3), || converse("slbssb", Refuses::Never, Without::Invalidation));
}
