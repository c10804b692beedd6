use std::{assert, assert_eq, vec, vec::Vec};

use super::*;
use crate::{crc32c, Address};

cases! {
    what_comes_in_order_comes_whole
    each_loss_is_counted_whatever_part_it_was
    a_message_without_room_is_lost_whole_and_the_next_one_comes
    a_restart_of_the_sender_is_no_loss_and_its_old_frames_are_dropped
    frames_of_others_are_dropped_and_counted
    a_way_that_becomes_shorter_shortens_the_rest_of_a_message
    a_message_on_whose_way_the_tag_changes_is_lost_once
    a_message_whose_rest_is_not_waited_for_is_lost_and_its_rest_is_nothing
}

const A: Address = Address { nid: 1, dpid: 1024 };
const B: Address = Address { nid: 2, dpid: 2048 };

fn config(from: Address, to: Address, incarnation: u32) -> Config {
    Config { part_max: 4, first_number: u32::MAX, ..Config::new(from, to, incarnation, Some(crc32c)) }
}

fn frames(raw: &mut Raw, bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut source = |id: u64, begin: u32, out: &mut [u8]| {
        assert_eq!(id, 77);
        out.copy_from_slice(&bytes[begin as usize..][..out.len()]);
        out.len()
    };
    let mut rest = raw.begin(77, Outgoing { total: bytes.len() as u32, immediate: Some(3) }).unwrap();
    let mut out = vec![0; raw.frame_max()];
    core::iter::from_fn(|| raw.write(&mut rest, &mut source, &mut out).map(|len| Vec::from(&out[..len])))
        .collect()
}

/// Whole messages that come of these frames.
fn come<'a>(raw: &mut Raw, frames: impl IntoIterator<Item = &'a Vec<u8>>, room: usize) -> Vec<Vec<u8>> {
    let (mut whole, mut partial, mut room) = (vec![], vec![], room);
    for frame in frames {
        let mut sink = |part: Part<'_>| {
            if room == 0 {
                return false;
            }
            room -= 1;
            if part.begin == 0 {
                partial.clear();
            }
            assert_eq!((partial.len(), part.immediate), (part.begin as usize, Some(3)));
            partial.extend_from_slice(part.bytes);
            if part.is_last() {
                whole.push(core::mem::take(&mut partial));
            }
            true
        };
        raw.on_frame(frame, &mut sink).unwrap();
    }
    whole
}

fn both() -> (Raw, Raw) {
    (Raw::new(config(A, B, 1)).unwrap(), Raw::new(config(B, A, 2)).unwrap())
}

fn what_comes_in_order_comes_whole() {
    let (mut here, mut there) = both();
    for bytes in [&b""[..], b"abc", b"abcd", b"abcdefghi"] {
        let frames = frames(&mut here, bytes);
        assert_eq!(frames.len(), bytes.len().div_ceil(4).max(1));
        assert_eq!(come(&mut there, &frames, 99), [bytes]);
    }
    assert_eq!(*there.counts(), RawCounts { messages_in: 4, ..RawCounts::default() });
}

fn each_loss_is_counted_whatever_part_it_was() {
    for missing in 0..3 {
        let (mut here, mut there) = both();
        let before = frames(&mut here, b"x");
        let mut broken = frames(&mut here, b"abcdefghi");
        let gone = frames(&mut here, b"all of it");
        let after = frames(&mut here, b"y");
        let late = broken.remove(missing);
        let came = come(&mut there, before.iter().chain(&broken).chain(&after), 99);
        assert_eq!(came, [b"x", b"y"]);
        let counts = *there.counts();
        assert_eq!(
            (counts.frames_lost, counts.messages_lost, counts.messages_in),
            (1 + gone.len() as u64, 2, 2)
        );
        // What was overtaken changes nothing any more.
        assert!(come(&mut there, [&late, &after[0]], 99).is_empty());
        assert_eq!(*there.counts(), RawCounts { frames_late: 2, ..counts });
    }
}

fn a_message_without_room_is_lost_whole_and_the_next_one_comes() {
    let (mut here, mut there) = both();
    let (first, second) = (frames(&mut here, b"abcdefghi"), frames(&mut here, b"x"));
    assert!(come(&mut there, &first, 1).is_empty());
    assert_eq!(come(&mut there, &second, 9), [b"x"]);
    let counts = there.counts();
    assert_eq!((counts.frames_lost, counts.messages_lost, counts.no_room), (0, 1, 1));
}

fn a_restart_of_the_sender_is_no_loss_and_its_old_frames_are_dropped() {
    let (mut here, mut there) = both();
    let old = frames(&mut here, b"old");
    assert_eq!(come(&mut there, &old, 9), [b"old"]);
    let mut here = Raw::new(config(A, B, 3)).unwrap();
    assert_eq!(come(&mut there, &frames(&mut here, b"new"), 9), [b"new"]);
    let mut sink = |_: Part<'_>| unreachable!();
    assert_eq!(there.on_frame(&old[0], &mut sink), Err(Refused::Incarnation));
    assert_eq!(come(&mut there, &frames(&mut here, b"more"), 9), [b"more"]);
    let counts = there.counts();
    assert_eq!((counts.frames_lost, counts.messages_lost, counts.restarts, counts.refused), (0, 0, 1, 1));
}

fn frames_of_others_are_dropped_and_counted() {
    let (mut here, mut there) = both();
    let frame = &frames(&mut here, b"x")[0];
    let mut sink = |_: Part<'_>| unreachable!();
    assert_eq!(here.on_frame(frame, &mut sink), Err(Refused::Address));
    let mut damaged = frame.clone();
    damaged[20] ^= 1;
    assert_eq!(there.on_frame(&damaged, &mut sink), Err(Refused::Checksum));
    assert_eq!((here.counts().refused, there.counts().refused), (1, 1));
}

fn a_way_that_becomes_shorter_shortens_the_rest_of_a_message() {
    let (mut here, mut there) = both();
    let bytes = b"abcdefghi";
    let mut source = |_: u64, begin: u32, out: &mut [u8]| {
        out.copy_from_slice(&bytes[begin as usize..][..out.len()]);
        out.len()
    };
    let mut rest = here.begin(0, Outgoing { total: 9, immediate: Some(3) }).unwrap();
    let (mut out, mut frames) = (vec![0; here.frame_max()], vec![]);
    for part_max in [4, 2, 1, 9, 9] {
        here.set_part_max(part_max);
        assert!(!rest.is_done() || part_max == 9);
        frames.extend(here.write(&mut rest, &mut source, &mut out).map(|len| Vec::from(&out[..len])));
    }
    assert!(rest.is_done());
    assert_eq!(frames.len(), 5, "1, 2, 1, 4 and 1 bytes; never more than it was made for");
    assert_eq!(come(&mut there, &frames, 9), [bytes]);
}

/// The sender's tag changes while a message is on its way, or it was restarted.
fn a_message_on_whose_way_the_tag_changes_is_lost_once() {
    for restarted in [false, true] {
        let (mut here, mut there) = both();
        let begun = frames(&mut here, b"abcdefghi");
        assert!(come(&mut there, &begun[..1], 9).is_empty());
        if restarted {
            here = Raw::new(config(A, B, 3)).unwrap();
            assert_eq!(come(&mut there, &frames(&mut here, b"new"), 9), [b"new"]);
        } else {
            let mut again = Raw::new(config(A, B, 1)).unwrap();
            again.set_tag(3);
            let renamed = frames(&mut again, b"abcdefghi");
            assert!(come(&mut there, &renamed[1..], 9).is_empty());
        }
        assert_eq!(there.counts().messages_lost, 1, "{restarted}");
    }
}

fn a_message_whose_rest_is_not_waited_for_is_lost_and_its_rest_is_nothing() {
    let (mut here, mut there) = both();
    let begun = frames(&mut here, b"abcdefghi");
    assert!(come(&mut there, &begun[..1], 9).is_empty());
    assert!(there.is_inside());
    (0..2).for_each(|_| there.give_up_begun());
    assert!(!there.is_inside());
    assert!(come(&mut there, &begun[1..], 9).is_empty());
    assert_eq!(come(&mut there, &frames(&mut here, b"x"), 9), [b"x"]);
    let counts = there.counts();
    assert_eq!((counts.messages_lost, counts.messages_in, counts.frames_lost), (1, 1, 0));
}
