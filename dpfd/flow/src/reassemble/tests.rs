use std::{assert, assert_eq, vec, vec::Vec};

use super::*;

cases! {
    more_room_is_taken_when_nothing_is_kept
    parts_come_out_in_order_whatever_order_they_came_in
    what_the_sink_refuses_is_kept_and_said_to_be_here
    nothing_beyond_the_room_or_longer_than_a_place_is_kept
    a_part_that_does_not_continue_its_message_is_refused
    room_is_what_the_memory_holds
    bits_go_on_behind_the_sixteenth
}

type Small = Reassembly<Vec<u8>, 8>;

fn small(expected: u32) -> Small {
    let mut small = Small::new(vec![0; 8 * 4], 4).unwrap();
    small.restart(expected, 1);
    small
}

fn piece(first: bool, last: bool, total: u32, bytes: &[u8]) -> Piece<'_> {
    Piece { first, last, total, immediate: first.then_some(7), bytes }
}

/// A sink with this much room, and what it got.
struct Got(usize, Vec<(u64, u32, Vec<u8>)>);

impl Sink for Got {
    fn put(&mut self, part: Part<'_>) -> bool {
        if self.0 == 0 {
            return false;
        }
        self.0 -= 1;
        assert_eq!(part.immediate, Some(7));
        self.1.push((part.message, part.begin, Vec::from(part.bytes)));
        true
    }
}

fn more_room_is_taken_when_nothing_is_kept() {
    for first in [0, u32::MAX - 5] {
        let number = |i: u32| first.wrapping_add(i);
        let mut small = Small::new(vec![0; 2 * 4], 4).unwrap();
        small.restart(first, 1);
        let mut got = Got(99, vec![]);
        assert_eq!(small.room(), 2);
        assert_eq!(small.arrive(number(2), piece(true, true, 1, b"c"), &mut got), Err(Refused::Beyond));
        assert_eq!(small.arrive(number(1), piece(true, true, 1, b"b"), &mut got), Ok(Arrival::Kept));
        assert!(small.grow(vec![0; 8 * 4]).is_err(), "one is kept");
        assert!(small.arrive(number(0), piece(true, true, 1, b"a"), &mut got).is_ok());
        assert!(small.grow(vec![0; 3 * 4]).is_err(), "no more fit");
        assert_eq!(small.grow(vec![0; 8 * 4]).unwrap().len(), 2 * 4);
        assert_eq!(small.room(), 8);
        for i in (3..10).rev() {
            assert_eq!(
                small.arrive(number(i), piece(true, true, 1, &[i as u8]), &mut got),
                Ok(Arrival::Kept)
            );
        }
        assert!(small.arrive(number(2), piece(true, true, 1, b"c"), &mut got).is_ok());
        assert_eq!((got.1.len(), small.expected()), (10, number(10)));
    }
}

fn parts_come_out_in_order_whatever_order_they_came_in() {
    let first = u32::MAX - 1;
    let number = |i: u32| first.wrapping_add(i);
    let mut small = small(first);
    let mut got = Got(9, vec![]);
    assert_eq!(small.arrive(number(2), piece(false, true, 2, b"ij"), &mut got), Ok(Arrival::Kept));
    assert_eq!(small.arrive(number(2), piece(false, true, 2, b"ij"), &mut got), Ok(Arrival::Again));
    assert_eq!(small.arrive(number(3), piece(true, true, 0, b""), &mut got), Ok(Arrival::Kept));
    assert_eq!(small.arrived(), (0b1100, false));
    assert_eq!(
        small.arrive(number(0), piece(true, false, 10, b"abcd"), &mut got),
        Ok(Arrival::Taken { waited: true })
    );
    assert_eq!(small.arrived(), (0b110, false));
    assert_eq!(
        small.arrive(number(1), piece(false, false, 4, b"efgh"), &mut got),
        Ok(Arrival::Taken { waited: true })
    );
    assert_eq!(small.arrive(number(1), piece(false, false, 4, b"efgh"), &mut got), Ok(Arrival::Again));
    let expected = [(0, 0, &b"abcd"[..]), (0, 4, b"efgh"), (0, 8, b"ij"), (1, 0, b"")];
    assert!(got.1.iter().map(|(m, b, bytes)| (*m, *b, &bytes[..])).eq(expected));
    assert_eq!((small.expected(), small.messages(), small.arrived()), (number(4), 2, (0, false)));
}

fn what_the_sink_refuses_is_kept_and_said_to_be_here() {
    let mut small = small(5);
    let mut got = Got(1, vec![]);
    for number in 5..8 {
        small.arrive(number, piece(true, true, 1, b"x"), &mut got).unwrap();
    }
    assert_eq!((small.expected(), small.arrived()), (6, (0b11, false)));
    got.0 = 1;
    assert_eq!(small.deliver(&mut got), Ok(1));
    got.0 = 5;
    assert_eq!(small.deliver(&mut got), Ok(1));
    assert_eq!((small.expected(), got.1.len()), (8, 3));
}

fn nothing_beyond_the_room_or_longer_than_a_place_is_kept() {
    let mut small = small(u32::MAX);
    let mut got = Got(0, vec![]);
    assert_eq!(small.arrive(7, piece(true, true, 1, b"x"), &mut got), Err(Refused::Beyond));
    assert_eq!(small.arrive(6, piece(true, true, 1, b"x"), &mut got), Ok(Arrival::Kept));
    assert_eq!(small.arrive(3, piece(true, true, 5, b"12345"), &mut got), Err(Refused::Long));
    assert_eq!(small.arrive(u32::MAX - 1, piece(true, true, 1, b"x"), &mut got), Ok(Arrival::Again));
    assert_eq!(small.arrive(u32::MAX - 1000, piece(true, true, 1, b"x"), &mut got), Ok(Arrival::Again));
}

fn a_part_that_does_not_continue_its_message_is_refused() {
    let mut got = Got(9, vec![]);
    let mut none = small(0);
    assert_eq!(none.arrive(0, piece(false, true, 1, b"x"), &mut got), Err(Refused::Part));
    let mut begun = small(0);
    begun.arrive(0, piece(true, false, 6, b"abcd"), &mut got).unwrap();
    for wrong in [
        piece(true, true, 1, b"x"),
        piece(false, true, 1, b"e"),
        piece(false, false, 1, b"ef"),
        piece(false, true, 1, b"efg"),
    ] {
        assert_eq!(begun.arrive(1, wrong, &mut got), Err(Refused::Part));
    }
    // The right one can still come.
    assert_eq!(begun.arrive(1, piece(false, true, 1, b"ef"), &mut got), Ok(Arrival::Taken { waited: false }));
    // One that was kept, and said to be here, ends the flow.
    assert_eq!(begun.arrive(3, piece(false, true, 1, b"x"), &mut got), Ok(Arrival::Kept));
    assert_eq!(begun.arrive(2, piece(true, true, 1, b"x"), &mut got), Ok(Arrival::Broken));
}

fn room_is_what_the_memory_holds() {
    let room = |bytes: usize, part_max| Reassembly::<_, 64>::new(vec![0; bytes], part_max).map(|r| r.room());
    assert_eq!(
        [room(64 * 100, 100), room(63 * 100, 100), room(1000 * 100, 100)],
        [Some(64), Some(32), Some(64)]
    );
    assert_eq!([room(100, 100), room(99, 100), room(0, 100), room(5, 0)], [Some(1), None, None, None]);
}

fn bits_go_on_behind_the_sixteenth() {
    let mut wide = Reassembly::<_, 64>::new(vec![0; 64], 1).unwrap();
    wide.restart(u32::MAX - 9, 1);
    let mut got = Got(0, vec![]);
    for by in [1, 15, 16, 23, 24, 40] {
        wide.arrive((u32::MAX - 9).wrapping_add(by), piece(true, true, 1, b"x"), &mut got).unwrap();
    }
    let mut out = [0xff; 126];
    assert_eq!(wide.arrived(), (1 << 1 | 1 << 15, true));
    assert_eq!(wide.write_arrived(&mut out), 4);
    assert_eq!(out[..5], [0b1000_0001, 0b1, 0, 0b1, 0xff]);
}
