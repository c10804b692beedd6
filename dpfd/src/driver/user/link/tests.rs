//! What a link keeps when its edge is replaced.

use super::super::out_edge::OFTEN;
use super::*;
use crate::addr::Addr;
use crate::edge::inbox::Inbox;
use dp_edge::ring::{Cursor, Pos};
use dp_edge::sync::Ordering;

/// A link to a receiver with this inbox, with no edge.
fn link(inbox: &Inbox) -> Link {
    let mut link = Link::new(Addr::local(7));
    pooled(&mut link, inbox, None);
    link
}

fn pooled(link: &mut Link, inbox: &Inbox, edge: Option<Segment>) {
    let (back, _) = unix::pair().expect("a pair");
    let fd = inbox.fd().try_clone_to_owned().expect("a descriptor");
    link.pooled(Arc::new(back), Doorbell::open(&fd).expect("an inbox"), edge);
}

fn owed(link: &mut Link) -> Due {
    let Destination::Pool { bell, .. } = &mut link.destination else { panic!("no pool") };
    bell.owed()
}

fn edge() -> Segment {
    edge_of(4096)
}

fn edge_of(bytes: usize) -> Segment {
    Segment::create(bytes).expect("an edge").0
}

#[test]
fn what_was_rung_for_once_is_not_rung_for_again_over_a_longer_edge() {
    let inbox = Inbox::create().expect("an inbox");
    let mut link = link(&inbox);
    assert_eq!(owed(&mut link), Due::Bell);
    pooled(&mut link, &inbox, Some(edge()));
    assert_eq!(owed(&mut link), Due::Nothing, "a second bell, which nobody takes");
    inbox.arm().arm();
    assert_eq!(owed(&mut link), Due::Bell);
}

#[test]
fn only_what_is_sent_for_a_step_owes_its_receiver_the_bell_still() {
    let inbox = Inbox::create().expect("an inbox");
    let (back, receiver) = unix::pair().expect("a pair");
    let back = Arc::new(back);
    for (inside, left, rung) in [(true, Due::Bell, false), (false, Due::Nothing, true)] {
        inbox.arm().arm();
        let fd = inbox.fd().try_clone_to_owned().expect("a descriptor");
        let mut link = Link::new(Addr::local(7));
        link.pooled(back.clone(), Doorbell::open(&fd).expect("an inbox"), Some(edge()));
        link.inside = inside;
        let pieces = [IoSlice::new(b"x")];
        assert!(link.deliver_soon(&Parts::new(&pieces)));
        assert_eq!(link.sent.0, 1);
        assert_eq!(owed(&mut link), left, "inside: {inside}");
        let bell = unix::wait(receiver.as_raw_fd(), libc::POLLIN, 0).expect("a socket");
        assert_eq!(bell & libc::POLLIN != 0, rung, "inside: {inside}");
    }
}

#[test]
fn a_longer_edge_is_asked_for_by_who_sends_much_and_less_and_less_often() {
    assert_eq!(asked_of(64 << 10), [4, 12, 28, 60]);
    assert_eq!(asked_of(4096), [1, 2, 3, 5, 9, 17, 33], "a short one sooner");
}

/// The MiB after which that happens.
fn asked_of(bytes: usize) -> Vec<u64> {
    let inbox = Inbox::create().expect("an inbox");
    let mut link = link(&inbox);
    let often = |link: &mut Link| (0..OFTEN).for_each(|_| link.count_short());
    often(&mut link);
    link.sent.1 = 1 << 40;
    assert!(!link.asks_for_longer(), "it has none");
    pooled(&mut link, &inbox, Some(edge_of(bytes)));
    let mut asked = Vec::new();
    for mib in 1..64u64 {
        link.sent.1 = (1 << 40) + (mib << 20);
        assert!(!link.asks_for_longer(), "never short, {mib} MiB");
        often(&mut link);
        if link.asks_for_longer() {
            asked.push(mib);
        }
        if let Destination::Pool { edge: Some(edge), .. } = &mut link.destination {
            edge.forget_short();
        }
    }
    asked
}

#[test]
fn an_edge_is_asked_for_by_who_has_none_and_sends_much_and_less_and_less_often() {
    let inbox = Inbox::create().expect("an inbox");
    let (back, receiver) = unix::pair().expect("a pair");
    let fd = inbox.fd().try_clone_to_owned().expect("a descriptor");
    let mut link = Link::new(Addr::local(7));
    link.pooled(Arc::new(back), Doorbell::open(&fd).expect("an inbox"), None);
    let mut asked = Vec::new();
    for count in 1..=200 {
        send(&mut link, &inbox);
        assert_eq!(unix::recv_bytes(receiver.as_raw_fd(), &mut [0; 8]), Ok(1));
        if link.asks_for_longer() {
            asked.push(count);
        }
    }
    assert_eq!(asked, [16, 48, 112]);
    pooled(&mut link, &inbox, Some(edge()));
    (0..20).for_each(|_| send(&mut link, &inbox));
    assert!(!link.asks_for_longer(), "it has one");
}

/// Sends one short message.
fn send(link: &mut Link, inbox: &Inbox) {
    let tag = inbox.fd().try_clone_to_owned().expect("a descriptor");
    let pieces = [IoSlice::new(b"x")];
    assert_eq!(link.deliver(&Parts::new(&pieces), &tag, &mut || ()), Delivery::Done);
}

/// An edge, and its receiver's side.
fn both_sides() -> (Segment, Segment) {
    let (edge, fd) = Segment::create(4096).expect("an edge");
    (edge, Segment::open(fd).expect("the same"))
}

fn release(edge: &Segment, lines: u64) {
    let cursor = Cursor { pos: Pos::new(lines), ..Cursor::default() };
    edge.rx().cursor.store(cursor.pack(), Ordering::Release);
}

#[test]
fn a_link_is_done_where_its_receiver_is_another_that_was_sent_nothing() {
    let inbox = Inbox::create().expect("an inbox");
    let mut link = link(&inbox);
    let (first, _theirs) = both_sides();
    pooled(&mut link, &inbox, Some(first));
    assert!(link.is_done(), "nothing was sent");
    send(&mut link, &inbox);
    assert!(!link.is_done(), "it is not read");
    link.unlink();
    assert!(link.is_done(), "nobody reads it any more");
    pooled(&mut link, &inbox, Some(edge()));
    assert!(link.is_done(), "the next one was sent nothing");
}

#[test]
fn what_is_in_the_former_edge_counts_until_a_longer_one_is_read() {
    let inbox = Inbox::create().expect("an inbox");
    for (read_before, done) in [(1, true), (0, false)] {
        let mut link = link(&inbox);
        let ((first, first_theirs), (longer, theirs)) = (both_sides(), both_sides());
        pooled(&mut link, &inbox, Some(first));
        send(&mut link, &inbox);
        release(&first_theirs, read_before);
        pooled(&mut link, &inbox, Some(longer));
        assert_eq!(link.is_done(), done, "{read_before} read before");
        send(&mut link, &inbox);
        assert!(!link.is_done());
        release(&theirs, 1);
        assert!(link.is_done(), "read before: {read_before}");
    }
}
