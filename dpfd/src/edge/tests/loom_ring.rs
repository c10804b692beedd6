//! Publication and space: a token is seen whole or not at all, and its lines are not reused too early
//! (R1-R3).

use dp_edge::ring::{self, lines_for, Kind, Lines, Tail, HEADER};
use dp_edge::sync::{AtomicU64, Ordering};
use dp_edge::testing::explore;
use dp_edge::testing::lines::{at_line, Heap};
use dp_edge::Error;
use loom::sync::Arc;
use loom::thread;

use super::receiver::Receiver;
use crate::edge::message;

/// A ring and the line with its cursor.
struct Shared {
    ring: Heap,
    cursor: AtomicU64,
}

fn shared() -> Arc<Shared> {
    Arc::new(Shared { ring: Heap::strict(4), cursor: AtomicU64::new(0) })
}

/// The payload of message `i`: no two words alike, none 0, each of them a header that `look` would
/// believe at some position of the ring's second lap, if ever it looked there.
fn payload(i: usize, len: usize) -> Vec<u8> {
    let word = |w: usize| (0x8000_0004_u64 + w as u64 / 8) << 32 | (i as u64 * 16 + 8);
    (0..len / 8).flat_map(|w| word(w + 1).to_le_bytes()).collect()
}

/// Which bytes of a received message the sparse ring keeps: words 0 and those at line starts.
fn check(i: usize, got: &[u8]) {
    let want = payload(i, got.len());
    for w in 0..got.len() / 8 {
        if (w + 1) % 8 <= 1 {
            assert_eq!(got[w * 8..w * 8 + 8], want[w * 8..w * 8 + 8], "message {i}, word {w}");
        }
    }
}

type SendFn = fn(&Shared, &mut Tail, &[u8]) -> Result<(), Error>;

fn right(s: &Shared, tail: &mut Tail, m: &[u8]) -> Result<(), Error> {
    message::send_bytes(&s.ring, tail, &s.cursor, m)
}

/// `message::send_bytes` taken apart, with one of its steps left out.
fn steps(
    s: &Shared,
    tail: &mut Tail,
    m: &[u8],
    invalidate: bool,
    order: Ordering,
    wait_for_room: bool,
) -> Result<(), Error> {
    let lines = lines_for(m.len());
    if wait_for_room {
        tail.reserve(4, lines, &s.cursor)?;
    }
    if invalidate {
        ring::invalidate_next(&s.ring, tail.pos, lines);
    }
    // SAFETY: a slice; messages of this file fit the ring.
    unsafe { s.ring.put(tail.pos, HEADER, m.as_ptr(), m.len()) };
    let header = u64::from(tail.pos.raw() as u32 | 0x8000_0000) << 32 | m.len() as u64;
    s.ring.header(tail.pos).store(header, order);
    tail.pos = tail.pos.add(lines);
    Ok(())
}

/// Sends messages of the given lengths from one thread to another.
fn transfer(lens: &'static [usize], send: SendFn) {
    let s = shared();
    let sender = {
        let s = s.clone();
        thread::spawn(move || {
            let mut tail = Tail::default();
            for (i, &len) in lens.iter().enumerate() {
                let m = payload(i, len);
                while let Err(e) = send(&s, &mut tail, &m) {
                    assert_eq!(e, Error::Full);
                    thread::yield_now();
                }
            }
        })
    };
    let mut receiver = Receiver::default();
    for (i, &len) in lens.iter().enumerate() {
        let mut buf = vec![0u8; 256];
        let n = loop {
            match receiver.recv(&s.ring, &s.cursor, &mut buf) {
                Ok(n) => break n,
                Err(e) => assert_eq!(e, Error::Empty),
            }
            thread::yield_now();
        };
        assert_eq!(n, len);
        check(i, &buf[..n]);
    }
    sender.join().unwrap();
    assert_eq!(receiver.look(&s.ring), Err(Error::Empty));
}

/// Once around the ring and on, one line a message: every reuse of a line is explored.
#[test]
fn loom_small_messages_wrap() {
    explore(Some(3), || transfer(&[8, 0, 8, 8, 8], right));
}

/// Tokens of one to three lines: next headers fall on lines that held payload a lap before.
#[test]
fn loom_long_messages_wrap() {
    explore(Some(3), || transfer(&[72, 8, 136, 64], right));
}

/// A handful, without any bound on preemptions.
#[test]
fn loom_two_messages_unbounded() {
    explore(None, || transfer(&[8, 72], right));
}

#[test]
#[should_panic(expected = "assertion")]
fn loom_broken_without_invalidating_the_next_header() {
    // The payload of the first message is a header for the second lap; nothing overwrites it in time.
    explore(Some(2), || {
        transfer(&[136, 8, 8], |s, t, m| steps(s, t, m, false, Ordering::Release, true));
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_broken_relaxed_header() {
    explore(Some(2), || transfer(&[8], |s, t, m| steps(s, t, m, true, Ordering::Relaxed, true)));
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_broken_overwriting_what_was_not_taken() {
    explore(Some(2), || {
        transfer(&[136, 136], |s, t, m| steps(s, t, m, true, Ordering::Release, false));
    });
}

/// A receiver that gives lines back before, or without ordering after, its copy.
fn take(early: bool, order: Ordering) {
    let s = shared();
    let mut tail = Tail::default();
    for i in 0..3 {
        right(&s, &mut tail, &payload(i, 8)).unwrap();
    }
    let sender = {
        let s = s.clone();
        thread::spawn(move || {
            for i in 3..5 {
                while right(&s, &mut tail, &payload(i, 8)).is_err() {
                    thread::yield_now();
                }
            }
        })
    };
    let back = || s.cursor.store(at_line(ring::Pos::new(2)).pack(), order);
    if early {
        back();
    }
    for i in 0..2 {
        let mut buf = [0u8; 8];
        let at = ring::Pos::new(i as u64);
        assert_eq!(ring::look(&s.ring, at).map(|t| (t.len, t.kind)), Ok((8, Kind::Data)));
        // SAFETY: eight bytes of our own.
        unsafe { s.ring.get(at, HEADER, buf.as_mut_ptr(), 8) };
        check(i, &buf);
    }
    if !early {
        back();
    }
    sender.join().unwrap();
}

#[test]
fn loom_lines_given_back_after_the_copy() {
    explore(Some(3), || take(false, Ordering::Release));
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_broken_relaxed_cursor() {
    explore(Some(2), || take(false, Ordering::Relaxed));
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_broken_lines_given_back_before_the_copy() {
    explore(Some(2), || take(true, Ordering::Release));
}
