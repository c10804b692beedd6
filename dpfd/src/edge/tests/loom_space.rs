//! A sender that waits for room: told, or it finds the room by itself (W8).

use dp_edge::ring::{self, Cursor, Pos, Tail};
use dp_edge::sync::{fence, AtomicU64, Ordering};
use dp_edge::testing::explore;
use dp_edge::testing::lines::{at_line, Heap};
use dp_edge::Error;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use crate::edge::message;
use crate::edge::space::Space;

/// One edge, and the note that says "room".
struct Edge {
    ring: Heap,
    cursor: AtomicU64,
    space: Space,
    note: Mutex<Note>,
    told: Condvar,
}

#[derive(Default)]
struct Note {
    unread: u32,
    /// The receiver has taken everything it ever will without more being sent.
    over: bool,
}

/// Which step is left out.
#[derive(Clone, Copy, PartialEq)]
enum Without {
    Nothing,
    /// The sender wishes without a fence.
    Fence,
    /// It does not try again behind its wish.
    Look,
    /// The receiver loads the wish before it gives the lines back.
    Order,
    /// It gives back without a fence.
    ReceiversFence,
}

impl Edge {
    fn tell(&self) {
        self.note.lock().unwrap().unread += 1;
        self.told.notify_all();
    }

    fn await_room(&self) {
        let mut note = self.note.lock().unwrap();
        while note.unread == 0 {
            assert!(!note.over, "lost wish");
            note = self.told.wait(note).unwrap();
        }
        note.unread -= 1;
    }

    fn send(&self, tail: &mut Tail, i: u64, without: Without) {
        let m = i.to_le_bytes();
        let attempt = |tail: &mut Tail| message::send_bytes(&self.ring, tail, &self.cursor, &m);
        while let Err(e) = attempt(tail) {
            assert_eq!(e, Error::Full);
            if without == Without::Fence {
                self.space.0.store(1, Ordering::Relaxed);
            } else {
                self.space.want();
            }
            if without == Without::Look || attempt(tail).is_err() {
                self.await_room();
            } else {
                return;
            }
        }
    }

    fn wish(&self) -> bool {
        self.space.0.load(Ordering::Relaxed) != 0 && self.space.0.swap(0, Ordering::AcqRel) != 0
    }

    fn give_back(&self, at: Pos, without: Without) {
        let at = at_line(at);
        let told = match without {
            Without::Order => {
                let wanted = self.wish();
                self.cursor.store(at.pack(), Ordering::Release);
                fence(Ordering::SeqCst);
                wanted
            }
            Without::ReceiversFence => {
                self.cursor.store(at.pack(), Ordering::Release);
                self.wish()
            }
            _ => self.space.give_back(&self.cursor, at),
        };
        if told {
            self.tell();
        }
    }
}

/// A ring with room for three tokens, and a sender with two more.
fn fill(without: Without) {
    let e = Arc::new(Edge {
        ring: Heap::strict(4),
        cursor: AtomicU64::new(Cursor::default().pack()),
        space: Space::default(),
        note: Mutex::default(),
        told: Condvar::new(),
    });
    let mut tail = Tail::default();
    (0..3).for_each(|i| e.send(&mut tail, i, without));
    let sender = {
        let e = e.clone();
        thread::spawn(move || (3..5).for_each(|i| e.send(&mut tail, i, without)))
    };
    let mut at = Pos::default();
    for _ in 0..2 {
        assert!(ring::look(&e.ring, at).is_ok());
        at = at.add(1);
        e.give_back(at, without);
    }
    e.note.lock().unwrap().over = true;
    e.told.notify_all();
    sender.join().unwrap();
}

#[test]
fn loom_sender_that_waits_for_room_is_told() {
    explore(Some(4), || fill(Without::Nothing));
}

#[test]
#[should_panic(expected = "lost wish")]
fn loom_broken_wish_without_a_fence() {
    explore(Some(3), || fill(Without::Fence));
}

#[test]
#[should_panic(expected = "lost wish")]
fn loom_broken_wish_without_a_look() {
    explore(Some(3), || fill(Without::Look));
}

#[test]
#[should_panic(expected = "lost wish")]
fn loom_broken_wish_read_before_the_room_is_given() {
    explore(Some(3), || fill(Without::Order));
}

#[test]
#[should_panic(expected = "lost wish")]
fn loom_broken_room_given_without_a_fence() {
    explore(Some(3), || fill(Without::ReceiversFence));
}
