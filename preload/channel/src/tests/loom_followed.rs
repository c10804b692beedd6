//! One thread receives, and another one asks what there is, which follows the sender: every byte comes once and in order,
//! whatever the first one was at (E6).

use std::collections::VecDeque;

use dp_edge::ring::{Cursor, Pos, Tail};
use dp_edge::sync::{AtomicU64, Ordering};
use dp_edge::testing::explore;
use dp_edge::testing::lines::Heap;
use dp_edge::Error;
use loom::sync::{Arc, Mutex};
use loom::thread;

use super::ends::{Feed, Room};
use crate::stream;
use crate::switch::{in_ring, RxLine, TxLine, View};

struct Shared {
    ring: Heap,
    tx: TxLine,
    rx: RxLine,
    tcp: Mutex<VecDeque<u8>>,
    /// The receiver's lock, and what it guards: bytes taken from TCP.
    taken: Mutex<u64>,
    epoch: AtomicU64,
}

impl Shared {
    /// Under the lock: as far as everything of an epoch was taken.
    fn catch_up(&self, taken: u64) {
        for _ in 0..2 {
            let r = self.epoch.load(Ordering::Relaxed);
            match self.tx.view(r).expect("an epoch that can be") {
                View::TcpAt { end, .. } => {
                    if Cursor::unpack(self.rx.cursor.load(Ordering::Acquire)).pos != end {
                        return;
                    }
                    self.epoch.store(r + 1, Ordering::Release);
                    self.rx.acknowledge(r + 1);
                }
                View::RingAt(p) if p == taken => self.epoch.store(r + 1, Ordering::Release),
                View::RingAt(_) | View::Same => return,
            }
        }
    }

    /// A receive of one byte that does not wait.
    fn receive(&self, asks: bool) -> Option<u8> {
        let r = self.epoch.load(Ordering::Relaxed);
        if in_ring(r) {
            let mut room = Room::room(8, 8);
            let still = || !asks || self.epoch.load(Ordering::Relaxed) == r;
            match stream::pull_where(|| &self.ring, still, &self.rx.cursor, &mut room, false) {
                Ok(_) => return Some(room.got()[0]),
                Err(e) => assert_eq!(e, Error::Empty),
            }
        }
        let mut taken = self.taken.lock().unwrap();
        let there = self.tcp.lock().unwrap().len() as u64;
        self.catch_up(*taken);
        let r = self.epoch.load(Ordering::Relaxed);
        let limit = match self.tx.view(r).expect("an epoch that can be") {
            View::RingAt(p) => there.min(p - *taken),
            _ => there,
        };
        if in_ring(r) || limit == 0 {
            return None;
        }
        *taken += 1;
        self.tcp.lock().unwrap().pop_front()
    }
}

/// `asks`: whether a receive from the ring asks before it takes, whether its epoch still is the receiver's.
fn converse(asks: bool) {
    let s = Arc::new(Shared {
        ring: Heap::new(4),
        tx: TxLine::default(),
        rx: RxLine::default(),
        tcp: Mutex::default(),
        taken: Mutex::default(),
        epoch: AtomicU64::new(1),
    });
    s.rx.reset(Pos::default());
    assert!(s.tx.to_ring(&s.rx, 0));
    let mut tail = Tail::default();
    let mut push = {
        let s = s.clone();
        move |i: u8| {
            stream::push(&s.ring, &mut tail, &s.rx.cursor, &mut Feed::one(&u64::from(i).to_le_bytes()))
                .unwrap();
            tail.pos
        }
    };
    // What the two know of already: a byte in the ring, and one behind it on TCP.
    let end = push(0);
    assert!(s.tx.to_tcp(end, 0));
    s.tcp.lock().unwrap().push_back(1);
    assert_eq!(s.receive(true), Some(0));
    let sender = {
        let s = s.clone();
        thread::spawn(move || {
            // As soon as it may, or not at all.
            if s.tx.to_ring(&s.rx, 1) {
                push(2);
            }
        })
    };
    let follower = {
        let s = s.clone();
        thread::spawn(move || s.catch_up(*s.taken.lock().unwrap()))
    };
    let mut got: Vec<u8> = (0..2).filter_map(|_| s.receive(asks)).collect();
    sender.join().unwrap();
    follower.join().unwrap();
    got.extend((0..2).filter_map(|_| s.receive(asks)));
    assert!(got == [1] || got == [1, 2], "{got:?}");
}

#[test]
fn loom_followed_while_it_receives() {
    explore(Some(3), || converse(true));
}

#[test]
#[should_panic = "[2, 1]"]
fn loom_broken_receive_that_does_not_ask_where_it_is() {
    explore(Some(3), || converse(false));
}
