//! Messages over the ring against a queue. On the heap, so that Miri can run it too: names begin with
//! `ring_`.

use std::collections::VecDeque;

use dp_edge::ring::{max_payload, Pos, LINE, SMALL};
use dp_edge::sync::Ordering;
use dp_edge::testing::edge::Edge;
use dp_edge::testing::lines::at_line;
use dp_edge::Error;
use proptest::prelude::*;

use super::receiver::Receiver;
use crate::edge::message;

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
    /// Send so many bytes.
    Send(usize),
    /// Receive into so much room.
    Receive(usize),
    /// Look without taking.
    Look,
}

fn deeds(count: u64) -> impl Strategy<Value = Vec<Do>> {
    let deed = prop_oneof![
        5 => length(count).prop_map(Do::Send),
        4 => length(count).prop_map(Do::Receive),
        1 => Just(Do::Look),
    ];
    prop::collection::vec(deed, 1..if cfg!(miri) { 20 } else { 120 })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn ring_messages_are_a_queue_of_messages(
        (count, at, deeds) in (2..7u32).prop_flat_map(|n| (Just(1u64 << n), start(), deeds(1 << n)))
    ) {
        let mut e = Edge::new(count, at);
        let mut receiver = Receiver::new(at);
        let mut queue: VecDeque<Vec<u8>> = VecDeque::new();
        for deed in deeds {
            match deed {
                Do::Send(len) => {
                    let m = e.bytes(len);
                    let was_empty = e.used() == 0;
                    match message::send_bytes(&e.ring, &mut e.tail, &e.cursor, &m) {
                        Ok(()) => queue.push_back(m),
                        Err(Error::TooLong(limit)) => {
                            prop_assert!(limit == max_payload(count) && len > limit);
                        }
                        Err(err) => prop_assert!(err == Error::Full && !was_empty),
                    }
                }
                Do::Receive(room) => {
                    let mut buf = vec![0; room];
                    match receiver.recv(&e.ring, &e.cursor, &mut buf) {
                        Ok(n) => {
                            let m = queue.pop_front().unwrap();
                            prop_assert_eq!(n, m.len());
                            prop_assert_eq!(&buf[..n.min(room)], &m[..n.min(room)]);
                        }
                        Err(err) => prop_assert!(err == Error::Empty && queue.is_empty()),
                    }
                }
                Do::Look => match receiver.look(&e.ring) {
                    Ok(n) => prop_assert_eq!(n, queue.front().unwrap().len()),
                    Err(err) => prop_assert!(err == Error::Empty && queue.is_empty()),
                },
            }
            e.check();
        }
    }
}

/// A peer's cursor is believed only between the one seen last and the tail.
#[test]
fn ring_cursor_that_moves_back_or_too_far_is_corrupt() {
    let mut e = Edge::new(8, Pos::new(LAST_POS));
    let bytes = [1; SMALL];
    for _ in 0..7 {
        message::send_bytes(&e.ring, &mut e.tail, &e.cursor, &bytes).unwrap();
    }
    let at = |n: u64| at_line(Pos::new(LAST_POS).add(n)).pack();
    for (word, want) in [
        (at(0), Ok(())),
        (at(3), Ok(())),
        (at(2), Err(Error::Corrupt)),
        (at(8), Err(Error::Corrupt)),
        (at(LAST_POS), Err(Error::Corrupt)),
        (at(7), Ok(())),
    ] {
        e.cursor.store(word, Ordering::Relaxed);
        assert_eq!(e.tail.refresh(&e.cursor), want, "cursor {word:x}");
    }
}
