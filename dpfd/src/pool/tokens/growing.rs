//! A sender that goes over to a longer edge: in order, with what is loaned staying where it is.

use super::tests::{long, next, text, Edge};
use super::*;
use crate::edge::message;
use crate::edge::segment::Segment;
use dp_edge::ring::{Cursor, Lines, Tail};
use dp_edge::sync::Ordering;

/// Bytes of a longer edge.
const LONG: usize = 16384;

impl Edge {
    /// Offers the sender a longer edge; as it is on its side. It goes over by [`Edge::goes_over`].
    fn grow(&self, tokens: &mut Tokens) -> Segment {
        let (ours, fd) = Segment::create_for_receiver(LONG).unwrap();
        tokens.add_longer(self.segment.key(), Longer::new(ours));
        Segment::open(fd).unwrap()
    }

    fn goes_over(&mut self, to: Segment) {
        (self.segment, self.tail) = (to, Tail::default());
    }

    fn given_back(&self) -> u64 {
        Cursor::unpack(self.segment.rx().cursor.load(Ordering::Acquire)).pos.raw()
    }
}

#[test]
fn messages_of_a_sender_that_goes_over_keep_their_order() {
    let mut tokens = Tokens::default();
    let mut a = Edge::into(&mut tokens, 7);
    (0..3u8).for_each(|i| a.send(&[i; 100]).unwrap());
    let longer = a.grow(&mut tokens);
    // One that knows and does not go over yet.
    (3..5u8).for_each(|i| a.send(&[i; 100]).unwrap());
    a.goes_over(longer);
    (5..9u8).for_each(|i| a.send(&vec![i; 2000]).unwrap());
    for i in 0..9u8 {
        assert!(tokens.waiting());
        let len = if i < 5 { 100 } else { 2000 };
        assert_eq!(tokens.next_len(), Some(len), "message {i}");
        let got = next(&mut tokens).unwrap();
        assert_eq!(text(&got), vec![i; len]);
        tokens.release(got.number);
    }
    assert!(!tokens.waiting() && next(&mut tokens).is_none());
    assert_eq!((tokens.edges().count(), tokens.corrupt), (1, 0));
    assert_eq!(tokens.returned, Returned { shares: 4096, grown: 0 });
    assert_eq!((a.given_back(), tokens.taken()), (a.tail.pos.raw(), (9, 5 * 100 + 4 * 2000)));
    // Its end gives back the longer one.
    a.told.gone.store(true, Ordering::Relaxed);
    assert!(next(&mut tokens).is_none());
    assert_eq!(tokens.returned, Returned { shares: 4096, grown: LONG });
}

#[test]
fn what_is_lent_stays_where_it_is_when_its_sender_goes_over() {
    let mut tokens = Tokens::default();
    let mut a = Edge::into(&mut tokens, 7);
    (0..4u8).for_each(|i| a.send(&[i; 100]).unwrap());
    let mut loaned: Vec<_> = (0..4).map(|_| next(&mut tokens).unwrap()).collect();
    // Behind one that is still held.
    tokens.release(loaned[1].number);
    let longer = a.grow(&mut tokens);
    a.goes_over(longer);
    (4..7u8).for_each(|i| a.send(&[i; 100]).unwrap());
    loaned.extend((4..7).map(|_| next(&mut tokens).unwrap()));
    assert_eq!((tokens.loaned(), tokens.loaned.kept()), (6, 3));
    for (i, got) in loaned.iter().enumerate().filter(|(i, _)| *i != 1) {
        assert_eq!(text(got), [i as u8; 100]);
    }
    // The lines of the longer one go back when its own messages are released, in whatever order.
    for (i, back) in [(5, 0), (3, 0), (4, 4), (0, 4), (2, 4), (6, 6)] {
        assert_eq!(text(&loaned[i]), [i as u8; 100]);
        assert_eq!(tokens.returned.shares, if i < 6 { 0 } else { 4096 }, "before message {i}");
        tokens.release(loaned[i].number);
        assert_eq!(a.given_back(), back, "after message {i}");
    }
    assert_eq!((tokens.loaned(), tokens.loaned.kept(), tokens.loaned.first()), (0, 0, 7));
}

#[test]
fn messages_that_lie_elsewhere_go_over_too() {
    let mut tokens = Tokens::default();
    let mut a = Edge::into(&mut tokens, 7);
    let memory = |n: u8| Memory::new(long(&[n; 5000]), Beside::default()).unwrap();
    let send = |a: &mut Edge| {
        message::send_out_of_line(&a.segment.lines(), &mut a.tail, &a.segment.rx().cursor, 1).unwrap();
    };
    // Its packet is taken off the descriptor before its token is seen, there as here.
    tokens.add_out_of_line(a.segment.key(), 1, memory(1));
    send(&mut a);
    let longer = a.grow(&mut tokens);
    tokens.add_out_of_line(longer.key(), 1, memory(2));
    a.goes_over(longer);
    send(&mut a);
    for n in 1..3 {
        assert_eq!(tokens.next_len(), Some(5000));
        let got = next(&mut tokens).unwrap();
        assert_eq!(text(&got), [n; 5000]);
        tokens.release(got.number);
    }
    assert_eq!(tokens.corrupt, 0);
}

#[test]
fn an_edge_grows_once_and_only_if_it_is_there() {
    let mut tokens = Tokens::default();
    let mut a = Edge::into(&mut tokens, 7);
    assert!(tokens.only_edge().is_some());
    let longer = a.grow(&mut tokens);
    assert!(tokens.only_edge().is_none(), "its sender may go elsewhere any moment");
    let refused = |tokens: &mut Tokens| core::mem::take(&mut tokens.returned).grown;
    let _second = a.grow(&mut tokens);
    assert_eq!(refused(&mut tokens), LONG);
    a.goes_over(longer);
    a.send(b"there").unwrap();
    assert_eq!(next(&mut tokens).map(|got| text(&got)), Some(b"there".to_vec()));
    assert!(tokens.only_edge().is_some());
    let _third = a.grow(&mut tokens);
    assert_eq!(refused(&mut tokens), LONG);
    let (ours, _fd) = Segment::create_for_receiver(LONG).unwrap();
    tokens.add_longer(!a.segment.key(), Longer::new(ours));
    assert_eq!(refused(&mut tokens), LONG);
}

#[test]
fn a_sender_that_ends_as_it_goes_over_is_read_to_its_end() {
    let mut tokens = Tokens::default();
    let mut a = Edge::into(&mut tokens, 7);
    a.send(b"here").unwrap();
    let longer = a.grow(&mut tokens);
    a.goes_over(longer);
    a.send(b"last words").unwrap();
    a.told.gone.store(true, Ordering::Relaxed);
    for words in [&b"here"[..], b"last words"] {
        tokens.mark_ended();
        tokens.drop_ended();
        let got = next(&mut tokens).unwrap();
        assert_eq!(text(&got), words);
        tokens.release(got.number);
    }
    assert!(next(&mut tokens).is_none());
    assert_eq!((tokens.returned, tokens.edges().count()), (Returned { shares: 4096, grown: LONG }, 0));
    // One that never went over gives both back as well.
    let b = Edge::into(&mut tokens, 8);
    let _longer = b.grow(&mut tokens);
    b.told.gone.store(true, Ordering::Relaxed);
    assert!(next(&mut tokens).is_none());
    assert_eq!(tokens.returned, Returned { shares: 8192, grown: 2 * LONG });
}

#[test]
fn a_longer_edge_that_is_on_its_way_is_not_missed() {
    let mut tokens = Tokens::default();
    let mut a = Edge::into(&mut tokens, 7);
    a.send(b"here").unwrap();
    let got = next(&mut tokens).unwrap();
    tokens.release(got.number);
    // The receiver has not heard of the longer one yet, and the sender is through with it.
    let (ours, fd) = Segment::create_for_receiver(LONG).unwrap();
    let key = a.segment.key();
    a.goes_over(Segment::open(fd).unwrap());
    a.send(b"last words").unwrap();
    // Another was gone before, so that ended ones are looked for; this one is when it is too late to ask.
    let b = Edge::into(&mut tokens, 8);
    b.told.gone.store(true, Ordering::Relaxed);
    assert!(matches!(tokens.look(), Look::Nothing) && tokens.ended);
    tokens.mark_ended();
    a.told.gone.store(true, Ordering::Relaxed);
    tokens.drop_ended();
    assert_eq!(tokens.edges().count(), 1, "what may be on its way was not asked for");
    tokens.add_longer(key, Longer::new(ours));
    assert_eq!(next(&mut tokens).map(|got| text(&got)), Some(b"last words".to_vec()));
}

#[test]
fn nonsense_in_a_longer_edge_ends_its_sender_and_no_other() {
    for nonsense in [u64::MAX, 1, 1 << 63 | 3 << 30, 1 << 63 | (LONG as u64)] {
        let mut tokens = Tokens::default();
        let (mut a, mut b) = (Edge::into(&mut tokens, 1), Edge::into(&mut tokens, 2));
        a.send(b"good").unwrap();
        let longer = a.grow(&mut tokens);
        longer.lines().header(Pos::default()).store(nonsense, Ordering::Release);
        let held = next(&mut tokens).unwrap();
        b.send(b"fine").unwrap();
        let got = next(&mut tokens).unwrap();
        assert_eq!((text(&got), got.from()), (b"fine".to_vec(), Addr::local(2)), "{nonsense:x}");
        tokens.release(got.number);
        assert!(next(&mut tokens).is_none());
        assert_eq!((tokens.corrupt, text(&held)), (1, b"good".to_vec()), "{nonsense:x}");
        tokens.release(held.number);
        assert!(next(&mut tokens).is_none());
        assert_eq!(tokens.edges().count(), 1);
    }
}
