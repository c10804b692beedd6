use std::{assert, assert_eq, vec, vec::Vec};

use super::*;
use crate::crc32c;

cases! {
    the_checksum_is_crc32c_and_can_be_continued
    a_part_says_what_was_written
    the_last_frame_of_a_long_message_is_filled_up_where_that_is_little
    a_hello_says_what_was_written
    each_byte_of_a_frame_is_where_the_picture_has_it
    nonsense_is_refused_with_its_reason
}

const A: Address = Address { nid: 1, dpid: 1024 };

fn header(kind: u8, flags: u8) -> Header {
    Header {
        kind,
        flags,
        from_nid: 1,
        from_dpid: 1024,
        to_nid: 2,
        to_dpid: 2048,
        tag: 5,
        number: 6,
        acknowledged: 7,
        word: Header::room_and_arrived(8, 9),
        ..Header::default()
    }
}

fn frame(kind: u8, flags: u8, behind: &[u8]) -> Vec<u8> {
    let mut out = vec![0; HEADER + behind.len()];
    out[HEADER..].copy_from_slice(behind);
    seal(&mut out, header(kind, flags), behind.len(), Some(crc32c));
    out
}

fn refused(frame: &[u8]) -> Refused {
    parse(frame, Some(crc32c)).expect_err("refused")
}

fn the_checksum_is_crc32c_and_can_be_continued() {
    // The check value of the catalogues.
    assert_eq!(crc32c(0, b"123456789"), 0xe306_9283);
    assert_eq!(crc32c(crc32c(0, b"1234"), b"56789"), 0xe306_9283);
    assert_eq!(crc32c(0, &[]), 0);
}

fn a_part_says_what_was_written() {
    for (first, last, immediate) in [(true, true, None), (true, true, Some(9)), (true, false, Some(1 << 60))]
    {
        let mut out = [0; 100];
        let (head, flags) = write_piece_head(&mut out[HEADER..], first, last, 5000, immediate);
        out[HEADER + head..][..3].copy_from_slice(b"abc");
        let len = seal(&mut out, header(KIND_PART, flags), head + 3, Some(crc32c));
        let (found, body) = parse(&out[..len], Some(crc32c)).unwrap();
        let total = if last { 3 } else { 5000 };
        assert_eq!(body, Body::Part(Piece { first, last, total, immediate, bytes: b"abc" }));
        assert_eq!((found.room(), found.arrived(), found.tag), (8, 9, 5));
        // What fills a short frame up changes nothing.
        assert_eq!(parse(&out, Some(crc32c)).unwrap().1, body);
    }
}

fn the_last_frame_of_a_long_message_is_filled_up_where_that_is_little() {
    let mut out = [1; HEADER + 100];
    let mut filled =
        |bytes: usize, begin, total| fill_up(&mut out, HEADER + bytes, 100, (begin, true), total) - HEADER;
    assert_eq!(filled(91, 1200, 1280), 100);
    assert_eq!(filled(89, 1200, 1280), 89, "more than a 128th of the message");
    assert_eq!((filled(99, 0, 1280), filled(100, 1200, 1280)), (99, 100), "the first one; a whole one");
    assert_eq!(filled(103, 1200, 1280), 103, "parts became shorter since");
    assert_eq!((out[HEADER + 90], &out[HEADER + 91..]), (1, &[0; 9][..]), "nothing else than zeros");
    assert_eq!(
        fill_up(&mut out, HEADER + 91, 100, (1200, false), 1280),
        HEADER + 91,
        "cut for a shorter way"
    );
}

fn a_hello_says_what_was_written() {
    let hello = Hello {
        mine: 1,
        yours: 5,
        current: 3,
        ask: true,
        first: 6,
        room: 8,
        part_max: 1400,
        user: 1000,
        resume: (4, 5),
    };
    let mut out = [0; HEADER + HELLO];
    let behind = write_hello(&mut out[HEADER..], &hello);
    seal(&mut out, header(KIND_HELLO, FLAG_ASK), behind, Some(crc32c));
    assert_eq!(parse(&out, Some(crc32c)).unwrap().1, Body::Hello(hello));
}

/// Computed by other means than this crate's. Both ends of a route may be of different versions, one of them in a kernel.
fn each_byte_of_a_frame_is_where_the_picture_has_it() {
    // From node 1, endpoint 1024 to node 2, endpoint 2048; tag 5, number 6, acknowledged 7, room 8, arrived 9.
    const NAMES: [u8; 24] = [0, 1, 4, 0, 0, 2, 8, 0, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0, 7, 0, 8, 0, 9];
    let is = |frame: &[u8], begin: [u8; 4], checksum: [u8; 4], behind: &[u8]| {
        assert_eq!(&frame[..4], &begin[..]);
        assert_eq!(&frame[4..CHECKSUM_AT], &NAMES[..]);
        assert_eq!(&frame[CHECKSUM_AT..HEADER], &checksum[..]);
        assert_eq!(&frame[HEADER..], behind);
    };
    let hello = Hello {
        mine: 0x0a0b_0c0d,
        yours: 5,
        current: 0x1112_1314,
        ask: true,
        first: 6,
        room: 8,
        part_max: 1400,
        user: 1000,
        resume: (0x1516_1718, 0x191a_1b1c),
    };
    let behind = [
        [0x0a, 0x0b, 0x0c, 0x0d, 0, 0, 3, 0xe8],
        [5, 0x78, 0, 0, 0x11, 0x12, 0x13, 0x14],
        [0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c],
    ];
    let mut out = [0; HEADER + HELLO];
    let len = write_hello(&mut out[HEADER..], &hello);
    seal(&mut out, header(KIND_HELLO, FLAG_ASK), len, Some(crc32c));
    is(&out, [2, 0x81, 0, 24], [0x49, 0x59, 0xd5, 0xd6], behind.as_flattened());

    let mut out = [0; HEADER + PART_HEAD + 3];
    let (head, flags) = write_piece_head(&mut out[HEADER..], true, false, 5000, Some(0x0102_0304_0506_0708));
    out[HEADER + head..].copy_from_slice(b"abc");
    seal(&mut out, header(KIND_PART, flags), head + 3, Some(crc32c));
    is(&out, [2, 0x52, 0, 15], [0x8e, 0xec, 0xe1, 0x43], b"\0\0\x13\x88\x01\x02\x03\x04\x05\x06\x07\x08abc");

    let both = FLAG_FIRST | FLAG_LAST;
    is(&frame(KIND_ACK, FLAG_ASK, &[0x81, 1]), [2, 0x83, 0, 2], [0x23, 0x1e, 0x11, 0xb0], &[0x81, 1]);
    is(&frame(KIND_RAW, both, b"abc"), [2, 0x34, 0, 3], [0x7a, 0x75, 0x15, 0x54], b"abc");
}

fn nonsense_is_refused_with_its_reason() {
    let good = frame(KIND_PART, FLAG_FIRST | FLAG_LAST, b"abc");
    assert_eq!(refused(&good[..HEADER - 1]), Refused::Short);
    assert_eq!(refused(&good[..HEADER + 2]), Refused::Short);
    let mut other = good.clone();
    other[0] = 1;
    assert_eq!(refused(&other), Refused::Version);
    assert_eq!(refused(&frame(0, 0, b"")), Refused::Kind);
    assert_eq!(refused(&frame(5, 0, b"")), Refused::Kind);
    for (flags, behind, why) in [
        (0, &b""[..], "nothing, and not an empty message"),
        (FLAG_FIRST, b"\0\0\0", "no total"),
        (FLAG_FIRST, b"\0\0\0\x03abc", "all of it, and not the last"),
        (FLAG_FIRST, b"\x01\0\0\x01abc", "longer than a message may be"),
        (FLAG_FIRST | FLAG_LAST | FLAG_IMMEDIATE, b"1234567", "no immediate"),
        (FLAG_IMMEDIATE | FLAG_LAST, b"123456789", "an immediate not in the first part"),
    ] {
        assert_eq!(refused(&frame(KIND_PART, flags, behind)), Refused::Contradiction, "{why}");
    }
    assert_eq!(refused(&frame(KIND_HELLO, 0, &[1; HELLO - 1])), Refused::Contradiction);
    assert_eq!(refused(&frame(KIND_HELLO, 0, &[0; HELLO])), Refused::Contradiction, "no name");
    assert_eq!(refused(&frame(KIND_ACK, 0, &[0; 129])), Refused::Contradiction);
    let mut out = [0; HEADER];
    for room in [0, ROOM_MAX + 1] {
        let header = Header { word: Header::room_and_arrived(room, 0), ..header(KIND_ACK, 0) };
        seal(&mut out, header, 0, Some(crc32c));
        assert_eq!(refused(&out), Refused::Contradiction, "room {room}");
    }
    assert!(!is_between(&header(KIND_ACK, 0), A, A));
}

/// Whatever a generator of random bytes thinks of.
#[cfg(test)]
mod any_bytes {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn whatever_bytes_come_parse_answers(
            mut bytes in prop::collection::vec(any::<u8>(), 0..400),
            kind in 0u8..6,
            sum: bool,
        ) {
            let _ = parse(&bytes, Some(crc32c));
            if bytes.len() >= HEADER {
                // Nearer to a frame, and with the right checksum.
                bytes[0] = 2;
                bytes[1] = bytes[1] & 0xf0 | kind;
                bytes[2] = 0;
                if sum {
                    let behind = usize::from(bytes[3]).min(bytes.len() - HEADER);
                    let head: [u8; HEADER] = bytes[..HEADER].try_into().unwrap();
                    let header = Header::decode(&head).unwrap();
                    seal(&mut bytes, header, behind, Some(crc32c));
                }
                if let Ok((_, Body::Part(piece) | Body::Raw(piece))) = parse(&bytes, sum.then_some(crc32c as Checksum)) {
                    assert!(piece.bytes.len() <= piece.total as usize || !piece.first);
                }
            }
        }

        #[test]
        fn one_or_two_wrong_bits_are_always_noticed(
            behind in prop::collection::vec(any::<u8>(), 1..1500),
            bits in prop::collection::hash_set(0usize..(HEADER + 1) * 8, 1..3),
        ) {
            let mut frame = frame(KIND_PART, FLAG_FIRST | FLAG_LAST, &behind);
            bits.iter().for_each(|bit| frame[bit / 8] ^= 1 << (bit % 8));
            assert!(parse(&frame, Some(crc32c)).is_err());
        }
    }
}
