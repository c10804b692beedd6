//! What a link keeps when its edge is replaced.

use super::super::out_edge::OFTEN;
use super::*;
use crate::addr::Addr;
use crate::edge::inbox::Inbox;

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
    Segment::create(4096).expect("an edge").0
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
fn a_longer_edge_is_asked_for_by_who_sends_much_and_less_and_less_often() {
    let inbox = Inbox::create().expect("an inbox");
    let mut link = link(&inbox);
    let often = |link: &mut Link| (0..OFTEN).for_each(|_| link.count_short());
    often(&mut link);
    link.sent.1 = 1 << 40;
    assert!(!link.asks_for_longer(), "it has none");
    pooled(&mut link, &inbox, Some(edge()));
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
    assert_eq!(asked, [4, 12, 28, 60]);
}
