use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32};

use std::sync::Arc;

use super::*;
use crate::edge::message;
use crate::edge::out_of_line;
use crate::edge::parts::Parts;
use crate::edge::segment::Segment;
use crate::pool::in_edge::Sender;
use dp_edge::ring::Cursor;
use dp_edge::ring::{Lines, Tail};
use dp_edge::sync::Ordering;

#[derive(Debug, Default)]
pub(super) struct Told {
    rooms: AtomicU32,
    pub(super) gone: AtomicBool,
}

impl Sender for Told {
    fn room(&self) {
        self.rooms.fetch_add(1, Ordering::Relaxed);
    }
    fn gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }
}

/// A sender and its edge into `tokens`.
pub(super) struct Edge {
    pub(super) segment: Segment,
    pub(super) tail: Tail,
    pub(super) told: Arc<Told>,
}

impl Edge {
    pub(super) fn into(tokens: &mut Tokens, from: u16) -> Edge {
        Edge::with_ring(tokens, from, 4096)
    }
    pub(super) fn with_ring(tokens: &mut Tokens, from: u16, bytes: usize) -> Edge {
        let (ours, fd) = Segment::create_for_receiver(bytes).unwrap();
        let segment = Segment::open(fd).unwrap();
        let told = Arc::new(Told::default());
        tokens.add(InEdge::new(ours, Addr::local(from), told.clone()));
        Edge { segment, tail: Tail::default(), told }
    }
    pub(super) fn send(&mut self, text: &[u8]) -> Result<(), Error> {
        message::send_bytes(&self.segment.lines(), &mut self.tail, &self.segment.rx().cursor, text)
    }
}

/// Sealed memory with these bytes.
pub(super) fn long(bytes: &[u8]) -> OwnedFd {
    out_of_line::make(&Parts::new(&[IoSlice::new(bytes)])).unwrap()
}

/// As the driver does.
pub(super) fn next(tokens: &mut Tokens) -> Option<Got> {
    let mut dropped = false;
    loop {
        match tokens.look() {
            Look::Got(got) => return Some(got),
            Look::Fresh(ix) => tokens.emptied(ix),
            Look::Failed(errno) => panic!("errno {errno}"),
            Look::Nothing if tokens.ended && !dropped => {
                dropped = true;
                tokens.mark_ended();
                tokens.drop_ended();
            }
            Look::Nothing => return None,
        }
    }
}

#[allow(unsafe_code, clippy::allow_attributes)]
pub(super) fn text(got: &Got) -> Vec<u8> {
    let mut to = vec![0; got.size()];
    // SAFETY: it is loaned, and the pool lives.
    unsafe { got.copy_to(&mut to) };
    to
}

#[test]
fn lines_go_back_only_behind_released_messages() {
    let mut tokens = Tokens::default();
    let mut a = Edge::into(&mut tokens, 7);
    for i in 0..3u8 {
        a.send(&[i; 100]).unwrap();
    }
    let got: Vec<_> = (0..3).map(|_| next(&mut tokens).unwrap()).collect();
    let cursor = || Cursor::unpack(a.segment.rx().cursor.load(Ordering::Acquire)).pos.raw();
    tokens.release(got[1].number);
    assert_eq!((cursor(), tokens.loaned()), (0, 2), "the first is still held");
    tokens.release(got[0].number);
    assert_eq!((cursor(), tokens.loaned()), (4, 1), "both go back at once");
    assert_eq!(text(&got[2]), [2; 100]);
    tokens.release(got[2].number);
    tokens.release(got[2].number);
    assert_eq!((cursor(), tokens.loaned()), (6, 0));
}

#[test]
fn a_sender_that_wants_room_is_told_once() {
    let mut tokens = Tokens::default();
    let mut a = Edge::into(&mut tokens, 7);
    while a.send(&[0; 500]).is_ok() {}
    a.segment.space().want();
    for _ in 0..2 {
        let got = next(&mut tokens).unwrap();
        tokens.release(got.number);
    }
    assert_eq!(a.told.rooms.load(Ordering::Relaxed), 1);
    assert!(a.send(&[0; 500]).is_ok());
}

#[test]
fn a_busy_sender_does_not_starve_another() {
    let mut tokens = Tokens::default();
    let (mut a, mut b) = (Edge::into(&mut tokens, 1), Edge::into(&mut tokens, 2));
    b.send(b"b").unwrap();
    for i in 0..200 {
        a.send(b"a").unwrap();
        let got = next(&mut tokens).unwrap();
        tokens.release(got.number);
        if got.from() == Addr::local(2) {
            return;
        }
        assert!(i <= STREAK, "{i} messages of one sender in a row");
    }
}

#[test]
fn nonsense_ends_its_edge_and_no_other() {
    let mut tokens = Tokens::default();
    let (mut a, mut b) = (Edge::into(&mut tokens, 1), Edge::into(&mut tokens, 2));
    a.send(b"good").unwrap();
    let held = next(&mut tokens).unwrap();
    a.segment.lines().header(a.tail.pos).store(u64::MAX, Ordering::Release);
    b.send(b"fine").unwrap();
    let got = next(&mut tokens).unwrap();
    assert_eq!((text(&got), got.from()), (b"fine".to_vec(), Addr::local(2)));
    assert!(next(&mut tokens).is_none());
    assert_eq!(tokens.corrupt, 1);
    // What is loaned stays readable; the share comes back after it.
    assert_eq!((text(&held), tokens.returned.shares), (b"good".to_vec(), 0));
    tokens.release(held.number);
    assert!(next(&mut tokens).is_none());
    assert_eq!(tokens.returned, Returned { shares: 4096, grown: 0 });
}

#[test]
fn an_ended_sender_is_read_to_its_end() {
    let mut tokens = Tokens::default();
    let mut a = Edge::into(&mut tokens, 1);
    a.send(b"last words").unwrap();
    a.told.gone.store(true, Ordering::Relaxed);
    let got = next(&mut tokens).unwrap();
    assert_eq!(text(&got), b"last words");
    tokens.release(got.number);
    assert!(next(&mut tokens).is_none());
    assert_eq!((tokens.returned.shares, tokens.edges().count()), (4096, 0));
    assert!(!tokens.release_oldest(1));
}

#[test]
fn an_ended_sender_has_its_share_until_its_last_message_is_released() {
    let mut tokens = Tokens::default();
    let mut a = Edge::into(&mut tokens, 1);
    a.send(b"last words").unwrap();
    let got = next(&mut tokens).unwrap();
    a.told.gone.store(true, Ordering::Relaxed);
    assert!(next(&mut tokens).is_none());
    assert_eq!((tokens.returned.shares, tokens.edges().count()), (0, 1));
    assert_eq!(text(&got), b"last words");
    tokens.release(got.number);
    assert!(next(&mut tokens).is_none());
    assert_eq!((tokens.returned.shares, tokens.edges().count()), (4096, 0));
}

#[test]
fn a_message_that_is_kept_keeps_no_others() {
    let mut tokens = Tokens::default();
    let (mut a, mut b) = (Edge::into(&mut tokens, 1), Edge::into(&mut tokens, 2));
    a.send(b"kept").unwrap();
    let kept = next(&mut tokens).unwrap();
    for i in 0..1000u32 {
        b.send(&i.to_ne_bytes()).unwrap();
        let got = next(&mut tokens).unwrap();
        assert_eq!(text(&got), i.to_ne_bytes());
        assert_eq!(tokens.loaned(), 2);
        tokens.release(got.number);
        assert_eq!(tokens.loaned(), 1);
    }
    tokens.add_own(Addr::local(3), Own::Bytes(b"own"[..].into(), Beside::default()));
    let own = next(&mut tokens).unwrap();
    assert_eq!((text(&own), tokens.loaned.kept()), (b"own".to_vec(), 1));
    tokens.release(own.number);
    assert_eq!(tokens.loaned.kept(), 0, "released memory is kept");
    assert!(!tokens.release_oldest(2));
    assert!(tokens.release_oldest(1));
    tokens.release(kept.number); // twice is once
    assert_eq!(tokens.loaned(), 0);
    // All room is there again.
    for _ in 0..100 {
        a.send(&[0; 100]).unwrap();
        let got = next(&mut tokens).unwrap();
        tokens.release(got.number);
    }
}

#[test]
fn the_next_length_is_that_of_the_next_message() {
    let mut tokens = Tokens::default();
    let (mut a, mut b) = (Edge::into(&mut tokens, 1), Edge::into(&mut tokens, 2));
    for i in 0..200usize {
        // Both have some, so that turns change.
        let _ = a.send(&vec![1; 10 + i % 3]);
        let _ = b.send(&vec![2; 20 + i % 5]);
        let told = tokens.next_len().unwrap();
        let got = next(&mut tokens).unwrap();
        assert_eq!(told, got.size(), "message {i}");
        tokens.release(got.number);
    }
}

#[test]
fn a_message_released_early_goes_back_with_those_before_it() {
    let mut tokens = Tokens::default();
    let mut edges = [Edge::into(&mut tokens, 1), Edge::into(&mut tokens, 2)];
    let loaned = [0, 1, 0].map(|ix| {
        edges[ix].send(b"x").unwrap();
        next(&mut tokens).unwrap().number
    });
    for number in [loaned[2], loaned[0], loaned[1]] {
        tokens.release(number);
    }
    for edge in &edges {
        let given = Cursor::unpack(edge.segment.rx().cursor.load(Ordering::Acquire)).pos;
        assert_eq!(given, edge.tail.pos);
        edge.told.gone.store(true, Ordering::Relaxed);
    }
    assert!(next(&mut tokens).is_none());
    assert_eq!(tokens.edges().count(), 0, "their shares go back");
}
