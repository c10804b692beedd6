//! A receiver leaves its ring for good: what it did not take is sent again over TCP, once (E8).

use dp_edge::ring::{Cursor, Tail};
use dp_edge::sync::{AtomicU32, Ordering};
use dp_edge::testing::explore;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use super::ends::Room;
use super::loom_bell::{edge, Edge};
use crate::bell::{Group, Owed, Word, BY_BELL};
use crate::stream;

const MESSAGES: u64 = 3;

fn take(e: &Edge) -> Option<u64> {
    let mut room = Room::room(8, 8);
    stream::pull(&e.ring, &e.cursor, &mut room, false).ok()?;
    Some(u64::from_le_bytes(room.got().try_into().unwrap()))
}

/// What no receiver committed, up to the tail.
fn replay(e: &Edge, tail: &Tail, freeze: bool) -> Vec<u64> {
    assert!(e.word.has_left());
    let mut at = match freeze {
        true => stream::freeze(&e.cursor),
        false => Cursor::unpack(e.cursor.load(Ordering::Acquire)),
    };
    let mut out = Vec::new();
    while at.pos != tail.pos {
        let mut room = Room::room(8, 8);
        assert_eq!(stream::retrieve(&e.ring, &mut at, &mut room), Ok(8));
        out.push(u64::from_le_bytes(room.got().try_into().unwrap()));
    }
    out
}

/// The receiver takes up to two messages, leaves, and rings. A relative of it that has not heard of it yet
/// goes on taking: what it commits is its own, what it does not is the sender's to send again.
fn leave(freeze: bool) {
    let shared = Arc::new((edge(), Mutex::new(false), Condvar::new()));
    let sender = {
        let shared = shared.clone();
        thread::spawn(move || {
            let (e, left, rung) = &*shared;
            let mut tail = Tail::default();
            for i in 0..MESSAGES {
                if e.word.has_left() {
                    let mut tcp = replay(e, &tail, freeze);
                    tcp.extend(i..MESSAGES);
                    return tcp;
                }
                e.send(&mut tail, i, true);
            }
            // Whatever the sender waits for next, the leaver's bell wakes it.
            let mut left = left.lock().unwrap();
            while !*left {
                left = rung.wait(left).unwrap();
            }
            replay(e, &tail, freeze)
        })
    };
    let (e, left, rung) = &*shared;
    let mut got: Vec<u64> = take(e).into_iter().collect();
    e.word.leave();
    *left.lock().unwrap() = true;
    rung.notify_all();
    got.extend([take(e), take(e)].into_iter().flatten());
    got.extend(sender.join().unwrap());
    assert_eq!(got, (0..MESSAGES).collect::<Vec<_>>());
}

#[test]
fn loom_leaving_loses_and_repeats_nothing() {
    explore(Some(3), || leave(true));
}

#[test]
#[should_panic(expected = "assertion")]
fn loom_broken_replay_without_freezing() {
    explore(Some(3), || leave(false));
}

/// The receiver reads on until it finds nothing, then gives the socket away. A sender that sees it read on leaves what is
/// unread where it is; one that does not takes it back.
fn give_away(look_after: bool) {
    let shared = Arc::new(edge());
    let sender = {
        let e = shared.clone();
        thread::spawn(move || {
            let mut tail = Tail::default();
            for i in 0..2 {
                e.send(&mut tail, i, true);
                if e.word.has_left() && e.word.is_read_on() {
                    return Vec::new();
                }
                if e.word.has_left() {
                    let mut tcp = replay(&e, &tail, true);
                    tcp.extend(i + 1..2);
                    return tcp;
                }
            }
            // Its next call would find out.
            match e.word.is_raw() {
                true if !e.word.is_read_on() => replay(&e, &tail, true),
                _ => Vec::new(),
            }
        })
    };
    let e = &*shared;
    e.word.leave_raw(true);
    let mut got: Vec<u64> = take(e).into_iter().collect();
    let unread = || stream::waiting(&e.ring, &e.cursor);
    let before = unread();
    e.word.stops_reading();
    let given = !(if look_after { unread() } else { before });
    let tcp = sender.join().unwrap();
    // What a relay would read: the ring, unless it was taken back.
    let rest: Vec<u64> = std::iter::from_fn(|| take(e)).collect();
    assert!(!given || rest.is_empty() || !tcp.is_empty(), "a stranger cannot see the ring");
    got.extend(rest);
    got.extend(tcp);
    assert!(got.iter().copied().eq(0..got.len() as u64));
}

#[test]
fn loom_what_is_left_for_a_reader_is_seen_by_it() {
    explore(Some(3), || give_away(true));
}

#[test]
#[should_panic(expected = "cannot see the ring")]
fn loom_broken_giving_away_without_a_look_after() {
    explore(Some(3), || give_away(false));
}

/// The receiver leaves while a watcher sleeps: a bell that it is sent was counted before, or it would be taken for data.
#[test]
fn loom_a_watcher_that_leaves_has_counted_its_bell() {
    explore(None, || {
        let shared = Arc::new((Word::default(), [Group::default()]));
        assert!(shared.0.heat_group(1));
        shared.1[0].doze(BY_BELL);
        let sender = {
            let shared = shared.clone();
            thread::spawn(move || shared.0.after_publish(&shared.1, &AtomicU32::new(0)))
        };
        shared.0.leave_raw(true);
        let counted = shared.0.bells();
        let owed = sender.join().unwrap();
        assert_eq!(counted, u32::from(matches!(owed, Owed::Bell(_))));
        // Who is told of nothing still counts as asleep.
        let asleep = !shared.1[0].is_awake() && !shared.1[0].is_told();
        assert_eq!(asleep, owed == Owed::Left);
    });
}
