//! Several receivers on one edge without a lock (L1).

use dp_edge::ring::{self, Cursor, Lines, Tail, HEADER};
use dp_edge::sync::{AtomicU64, Ordering};
use dp_edge::testing::explore;
use dp_edge::testing::lines::{at_line, Heap};
use dp_edge::Error;
use loom::sync::Arc;
use loom::thread;

use super::ends::{Feed, Room};
use crate::stream;
struct Shared {
    ring: Heap,
    cursor: AtomicU64,
}

/// What message `i` says. As a word of payload it is also a header that `look` would believe where it
/// stands a lap later: a receiver with a stale cursor must not fall for it.
fn word(i: u64) -> u64 {
    (0x8000_0000 | i) << 32 | 8
}

impl Shared {
    /// A ring of four lines with messages `0..n` in it, one line each.
    fn with(n: u64) -> (Arc<Shared>, Tail) {
        let s = Arc::new(Shared { ring: Heap::new(4), cursor: AtomicU64::new(0) });
        let mut tail = Tail::default();
        (0..n).for_each(|i| s.push(&mut tail, i));
        (s, tail)
    }
    fn push(&self, tail: &mut Tail, i: u64) {
        let bytes = word(i).to_le_bytes();
        while let Err(e) = stream::push(&self.ring, tail, &self.cursor, &mut Feed::one(&bytes)) {
            assert_eq!(e, Error::Full);
            thread::yield_now();
        }
    }
}

type Pull = fn(&Shared, peek: bool) -> Result<u64, Error>;

fn right(s: &Shared, peek: bool) -> Result<u64, Error> {
    let mut room = Room::room(8, 8);
    let n = stream::pull(&s.ring, &s.cursor, &mut room, peek)?;
    assert_eq!(n, 8);
    Ok(u64::from_le_bytes(room.got().try_into().unwrap()))
}

/// A receive that believes the cursor it loaded: takes the token, then stores the new cursor.
fn no_swap(s: &Shared, _peek: bool) -> Result<u64, Error> {
    let at = Cursor::unpack(s.cursor.load(Ordering::Acquire)).pos;
    ring::look(&s.ring, at)?;
    let mut bytes = [0; 8];
    // SAFETY: eight bytes of our own.
    unsafe { s.ring.get(at, HEADER, bytes.as_mut_ptr(), 8) };
    s.cursor.store(at_line(at.add(1)).pack(), Ordering::SeqCst);
    Ok(u64::from_le_bytes(bytes))
}

/// A receive that commits by compare-and-swap, but believes what a stale cursor shows until then.
fn no_recheck(s: &Shared, peek: bool) -> Result<u64, Error> {
    loop {
        let seen = s.cursor.load(Ordering::Acquire);
        let at = Cursor::unpack(seen).pos;
        ring::look(&s.ring, at)?;
        let mut bytes = [0; 8];
        // SAFETY: eight bytes of our own.
        unsafe { s.ring.get(at, HEADER, bytes.as_mut_ptr(), 8) };
        let next = at_line(at.add(1)).pack();
        if peek || s.cursor.compare_exchange(seen, next, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
            return Ok(u64::from_le_bytes(bytes));
        }
    }
}

/// Two receivers try twice each while `sent` messages are added to the `full` that wait; what they leave
/// is taken afterwards. Every message comes to one of them, and to each in order.
fn share(full: u64, sent: u64, pull: Pull) {
    let (s, mut tail) = Shared::with(full);
    let take = move |s: &Shared| {
        let got: Vec<u64> = (0..2).filter_map(|_| pull(s, false).ok()).collect();
        assert!(got.is_sorted(), "a receiver got messages in another order: {got:x?}");
        got
    };
    let other = {
        let s = s.clone();
        thread::spawn(move || take(&s))
    };
    let sender = {
        let s = s.clone();
        thread::spawn(move || (full..full + sent).for_each(|i| s.push(&mut tail, i)))
    };
    let mut got = take(&s);
    got.extend(other.join().unwrap());
    sender.join().unwrap();
    while let Ok(w) = pull(&s, false) {
        got.push(w);
    }
    got.sort();
    assert_eq!(got, (0..full + sent).map(word).collect::<Vec<_>>());
}

#[test]
fn loom_two_receivers_share_every_message() {
    explore(Some(2), || share(2, 1, right));
}

#[test]
fn loom_two_receivers_race_for_the_first_message() {
    explore(Some(2), || share(0, 2, right));
}

#[test]
#[should_panic(expected = "assertion")]
fn loom_broken_two_receivers_without_the_swap() {
    explore(Some(2), || share(2, 1, no_swap));
}

/// A full ring and two receivers of one message each: neither may hear "empty", though the sender reuses
/// the line of the first message (and invalidates the header there) while a receiver still looks at it.
fn never_empty(pull: Pull) {
    let (s, mut tail) = Shared::with(3);
    let other = {
        let s = s.clone();
        thread::spawn(move || pull(&s, false))
    };
    let sender = {
        let s = s.clone();
        thread::spawn(move || s.push(&mut tail, 3))
    };
    let mine = pull(&s, false);
    let mut got = [mine.expect("never empty"), other.join().unwrap().expect("never empty")];
    got.sort();
    assert_eq!(got, [word(0), word(1)]);
    sender.join().unwrap();
}

#[test]
fn loom_stale_cursor_does_not_say_empty() {
    explore(Some(3), || never_empty(right));
}

#[test]
#[should_panic(expected = "never empty")]
fn loom_broken_stale_cursor_says_empty() {
    explore(Some(4), || never_empty(no_recheck));
}

/// A peek beside a receiver that takes: it shows a message that was at the front at some time.
fn peek(pull: Pull) {
    let (s, mut tail) = Shared::with(3);
    let taker = {
        let s = s.clone();
        thread::spawn(move || {
            right(&s, false).unwrap();
            right(&s, false).unwrap();
        })
    };
    let sender = {
        let s = s.clone();
        thread::spawn(move || (3..5).for_each(|i| s.push(&mut tail, i)))
    };
    let seen = pull(&s, true).expect("never empty");
    assert!(seen <= word(2), "a peek showed message {:x}", seen >> 32 & 0xff);
    taker.join().unwrap();
    sender.join().unwrap();
}

#[test]
fn loom_peek_beside_a_taker() {
    explore(Some(2), || peek(right));
}

#[test]
#[should_panic]
fn loom_broken_peek_without_a_second_look() {
    explore(Some(3), || peek(no_recheck));
}
