//! Bytes over the ring against a queue. On the heap, so that Miri can run it too: names begin with
//! `ring_`.

use std::collections::VecDeque;

use dp_edge::ring::{Cursor, Pos, LINE, SMALL};
use dp_edge::sync::Ordering;
use dp_edge::testing::edge::Edge;
use dp_edge::Error;
use proptest::prelude::*;

use super::ends::{Feed, Room};
use crate::stream;

const LAST_POS: u64 = (1 << 48) - 1;

fn config() -> ProptestConfig {
    let cases = if cfg!(miri) { 8 } else { 256 };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// Where a ring starts: anywhere, and often so that positions or stamps wrap within the test.
fn start() -> impl Strategy<Value = Pos> {
    prop_oneof![
        Just(0),
        0..=LAST_POS,
        (0..300u64).prop_map(|n| LAST_POS - n),
        (0..300u64).prop_map(|n| (1 << 31) - n),
        (0..300u64).prop_map(|n| (1 << 32) - n),
    ]
    .prop_map(Pos::new)
}

/// Lengths around all the borders: empty, one line, the ring, more than the ring.
fn length(count: u64) -> impl Strategy<Value = usize> {
    let ring = count as usize * LINE;
    prop_oneof![
        0..=9usize,
        SMALL - 2..=SMALL + 2,
        0..=ring / 4,
        ring / 2 - 9..=ring / 2 + 9,
        ring - 2 * LINE..=ring + LINE
    ]
}

#[derive(Debug, Clone)]
enum Do {
    /// Send so many bytes, at least one, in pieces of the second number.
    Push(usize, usize),
    /// Send, but die before the tail is moved; what was sent may be taken before anybody mends it.
    PushAndDie(usize, bool),
    /// Receive into so much room, in pieces of the second number.
    Pull(usize, usize),
    /// Look without taking.
    Peek(usize),
}

fn deeds(count: u64) -> impl Strategy<Value = Vec<Do>> {
    let deed = prop_oneof![
        4 => (length(count), 1..100usize).prop_map(|(n, k)| Do::Push(n.max(1), k)),
        1 => (length(count), any::<bool>()).prop_map(|(n, taken)| Do::PushAndDie(n.max(1), taken)),
        4 => (length(count), 1..100usize).prop_map(|(n, k)| Do::Pull(n, k)),
        1 => length(count).prop_map(Do::Peek),
    ];
    prop::collection::vec(deed, 1..if cfg!(miri) { 20 } else { 120 })
}

fn pull(e: &Edge, queue: &mut VecDeque<u8>, room: usize, piece: usize, peek: bool) {
    let mut to = Room::room(room, piece);
    let want: Vec<u8> = queue.iter().copied().take(room).collect();
    match stream::pull(&e.ring, &e.cursor, &mut to, peek) {
        Ok(n) => assert_eq!((n, to.got()), (want.len(), &want[..])),
        Err(err) => {
            assert_eq!(err, Error::Empty);
            assert!(want.is_empty(), "{} bytes wait", queue.len());
        }
    }
    if !peek {
        queue.drain(..want.len());
    }
}

fn push(e: &mut Edge, queue: &mut VecDeque<u8>, len: usize, piece: usize) {
    let bytes = e.bytes(len);
    let was_empty = e.used() == 0;
    match stream::push(&e.ring, &mut e.tail, &e.cursor, &mut Feed::cut(&bytes, piece)) {
        Ok(n) => {
            assert!(n <= len && (n > 0 || len == 0));
            queue.extend(&bytes[..n]);
        }
        Err(err) => {
            assert_eq!(err, Error::Full);
            assert!(!was_empty, "an empty ring of {} lines has no room for {len} bytes", e.count());
        }
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn ring_stream_is_a_queue_of_bytes(
        (count, at, deeds) in (2..7u32).prop_flat_map(|n| (Just(1u64 << n), start(), deeds(1 << n)))
    ) {
        let mut e = Edge::new(count, at);
        let mut queue = VecDeque::new();
        for deed in deeds {
            match deed {
                Do::Push(len, piece) => push(&mut e, &mut queue, len, piece),
                Do::PushAndDie(len, taken) => {
                    let before = e.tail;
                    push(&mut e, &mut queue, len, 64);
                    if taken {
                        let all = queue.len();
                        pull(&e, &mut queue, all + 1, 64, false);
                    }
                    let alive = core::mem::replace(&mut e.tail, before);
                    stream::recover(&e.ring, &mut e.tail);
                    prop_assert_eq!(e.tail.pos, alive.pos);
                }
                Do::Pull(room, piece) => pull(&e, &mut queue, room, piece, false),
                Do::Peek(room) => pull(&e, &mut queue, room, 64, true),
            }
            e.check();
            prop_assert_eq!(stream::bytes_waiting(&e.ring, &e.cursor, usize::MAX), queue.len());
            prop_assert_eq!(stream::waiting(&e.ring, &e.cursor), e.used() > 0);
            let seen = Cursor::unpack(e.cursor.load(Ordering::Relaxed)).pos;
            for from in [at, seen, e.tail.pos] {
                prop_assert_eq!(stream::frontier(&e.ring, &e.cursor, from), e.tail.pos);
            }
        }
        // The rest comes out, down to nothing.
        let all = queue.len();
        pull(&e, &mut queue, all + 1, 64, false);
        prop_assert_eq!(e.used(), 0);
    }
}

/// A write larger than any token, through rings of all sizes: it goes on as long as somebody takes.
#[test]
fn ring_stream_moves_a_long_write_through_any_ring() {
    for lines in if cfg!(miri) { [4, 8] } else { [4, 1024] } {
        let mut e = Edge::new(lines, Pos::new(LAST_POS - 2));
        let bytes = e.bytes(if cfg!(miri) { 3_000 } else { 100_000 });
        let mut feed = Feed::cut(&bytes, 1000);
        let mut got = Vec::new();
        while got.len() < bytes.len() {
            let left = stream::Source::left(&feed);
            let pushed = match left {
                0 => 0,
                _ => stream::push(&e.ring, &mut e.tail, &e.cursor, &mut feed).unwrap_or(0),
            };
            let mut room = Room::room(333, 50);
            let pulled = stream::pull(&e.ring, &e.cursor, &mut room, false).unwrap_or(0);
            got.extend_from_slice(room.got());
            assert!(pushed + pulled > 0, "neither side moves with {left} bytes to go");
        }
        assert_eq!(got, bytes);
    }
}
