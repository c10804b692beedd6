//! Copies of messages that are nobody's to release.

use super::tests::{next, text, Edge};
use super::*;
use dp_edge::ring::Cursor;
use dp_edge::sync::Ordering;

fn given_back(edge: &Edge) -> u64 {
    Cursor::unpack(edge.segment.rx().cursor.load(Ordering::Acquire)).pos.raw()
}

fn copied(tokens: &mut Tokens) -> Option<(Vec<u8>, u16)> {
    let mut into = [0; 64];
    let copied = tokens.copy_first(&mut into)?;
    Some((into[..copied.size()].to_vec(), copied.from().dpid))
}

/// An edge whose descriptor was looked at.
fn edge(tokens: &mut Tokens, from: u16) -> Edge {
    let mut edge = Edge::into(tokens, from);
    edge.send(b"first").unwrap();
    let got = next(tokens).unwrap();
    tokens.release(got.number);
    edge
}

#[test]
fn a_copy_is_counted_and_its_lines_go_back_at_once() {
    let mut tokens = Tokens::default();
    let mut a = edge(&mut tokens, 7);
    for i in 0..100u8 {
        a.send(&[i; 60]).unwrap();
        assert_eq!(copied(&mut tokens), Some((vec![i; 60], 7)));
        assert_eq!(given_back(&a), a.tail.pos.raw());
    }
    assert_eq!((copied(&mut tokens), tokens.loaned(), tokens.taken()), (None, 0, (101, 6005)));
}

#[test]
fn nothing_is_copied_behind_what_is_lent() {
    let mut tokens = Tokens::default();
    let mut a = edge(&mut tokens, 7);
    for i in 0..3u8 {
        a.send(&[i; 10]).unwrap();
    }
    let held = tokens.look_first().unwrap();
    let before = given_back(&a);
    assert_eq!(copied(&mut tokens), None);
    let second = tokens.look_first().unwrap();
    tokens.release(second.number);
    assert_eq!((copied(&mut tokens), given_back(&a), text(&held)), (None, before, vec![0; 10]));
    // Nothing of the second is left, though it was released before the first.
    tokens.release(held.number);
    assert_eq!(copied(&mut tokens), Some((vec![2; 10], 7)));
    assert_eq!((given_back(&a), tokens.loaned()), (a.tail.pos.raw(), 0));
}

#[test]
fn what_has_to_be_asked_first_or_is_long_is_not_copied() {
    let mut tokens = Tokens::default();
    let mut a = Edge::into(&mut tokens, 7);
    a.send(b"behind the descriptor").unwrap();
    assert_eq!(copied(&mut tokens), None);
    tokens.emptied(0);
    tokens.add_own(Addr::local(9), Own::Bytes((*b"before").into(), Beside::default()));
    assert_eq!(copied(&mut tokens), None);
    assert_eq!(text(&next(&mut tokens).unwrap()), b"before");
    assert_eq!(copied(&mut tokens), Some((b"behind the descriptor".to_vec(), 7)));
    let mut b = Edge::with_ring(&mut tokens, 8, 4 * SHORT);
    tokens.emptied(1);
    for len in [SHORT, SHORT + 1] {
        b.send(&vec![3; len]).unwrap();
    }
    tokens.turn = 1;
    let mut into = vec![0; SHORT + 1];
    assert_eq!(tokens.copy_first(&mut into).map(|copied| copied.size()), Some(SHORT));
    assert!(into[..SHORT].iter().all(|byte| *byte == 3) && into[SHORT] == 0);
    tokens.turn = 1;
    assert!(tokens.copy_first(&mut into).is_none() && tokens.waiting());
}

#[test]
fn senders_have_their_turns() {
    let mut tokens = Tokens::default();
    let mut edges = [edge(&mut tokens, 7), edge(&mut tokens, 8)];
    for edge in &mut edges {
        (0..40).for_each(|_| edge.send(b"x").unwrap());
    }
    let first: Vec<u16> = (0..2 * STREAK).filter_map(|_| copied(&mut tokens)).map(|(_, from)| from).collect();
    assert_eq!(first.len(), 2 * STREAK as usize);
    assert!(first.iter().filter(|from| **from == 7).count() >= STREAK as usize - 1, "{first:?}");
    assert!(first.iter().filter(|from| **from == 8).count() >= STREAK as usize - 1, "{first:?}");
}

#[test]
fn what_is_being_copied_is_not_released_by_others() {
    let mut tokens = Tokens::default();
    let mut a = edge(&mut tokens, 7);
    for i in 0..3u8 {
        a.send(&[i; 10]).unwrap();
    }
    let before = given_back(&a);
    let mut take = || tokens.look_first().unwrap();
    let (first, second, third) = (take(), take(), take());
    tokens.copy(third.number);
    tokens.release(second.number);
    assert_eq!(tokens.loaned(), 1);
    assert!(!tokens.release_oldest(2), "the third is not the program's");
    assert!(tokens.release_oldest(1) && !tokens.release_oldest(1));
    assert_eq!((tokens.loaned(), given_back(&a), text(&third)), (0, before + 2, vec![2; 10]));
    tokens.release(first.number);
    assert_eq!(given_back(&a), before + 2);
    tokens.release(third.number);
    tokens.release(third.number);
    assert_eq!((tokens.loaned(), given_back(&a)), (0, a.tail.pos.raw()));
    // Of one in memory of its own, too.
    tokens.add_own(Addr::local(9), Own::Bytes((*b"its own").into(), Beside::default()));
    let own = next(&mut tokens).unwrap();
    tokens.copy(own.number);
    assert!(!tokens.release_oldest(1));
    assert_eq!(text(&own), b"its own");
    tokens.release(own.number);
    assert!(tokens.release_oldest(0) && tokens.loaned() == 0);
}
