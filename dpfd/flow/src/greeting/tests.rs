use std::{assert, assert_eq, vec};

use super::*;

cases! {
    who_has_nothing_to_say_says_nothing
    both_may_begin_at_once
    a_hello_is_repeated_ever_less_often
    a_restarted_peer_is_the_peer_as_soon_as_it_knows_a_new_name_of_mine
    a_late_hello_changes_nothing
    both_restarted_at_once_meet
    a_restart_has_a_name_that_nobody_knows
    a_peer_is_by_its_name_with_one_end_only
}

fn hello(reply: Reply, current: u32) -> Hello {
    let Reply { mine, yours, ask } = reply;
    Hello { mine, yours, current, ask, first: 0, room: 4, part_max: 9, user: 0, resume: (0, 0) }
}

/// Carries HELLOs between two until nobody has one; the first is due by itself.
fn talk(a: &mut Greeting, b: &mut Greeting, now: u64) {
    for _ in 0..10 {
        while let Some(reply) = a.take(now) {
            b.hello(now, &hello(reply, a.outgoing()));
        }
        while let Some(reply) = b.take(now) {
            a.hello(now, &hello(reply, b.outgoing()));
        }
    }
    assert_eq!((a.take(now), b.take(now)), (None, None), "they came to an end");
}

fn are_together(a: &Greeting, b: &Greeting) -> bool {
    (a.theirs, b.theirs) == (Some(b.mine), Some(a.mine)) && a.confirmed && b.confirmed
}

fn met() -> (Greeting, Greeting) {
    let (mut a, mut b) = (Greeting::new(1), Greeting::new(2));
    a.want(0);
    talk(&mut a, &mut b, 0);
    assert!(are_together(&a, &b));
    (a, b)
}

fn who_has_nothing_to_say_says_nothing() {
    let mut rests = Greeting::new(1);
    assert_eq!((rests.take(1 << 60), rests.due()), (None, None));
    let (a, b) = met();
    assert_eq!((a.due(), b.due()), (None, None));
}

fn both_may_begin_at_once() {
    let (mut a, mut b) = (Greeting::new(1), Greeting::new(2));
    a.want(0);
    b.want(0);
    let (from_a, from_b) = (a.take(0).unwrap(), b.take(0).unwrap());
    a.hello(0, &hello(from_b, 0));
    b.hello(0, &hello(from_a, 0));
    talk(&mut a, &mut b, 1);
    assert!(are_together(&a, &b));
}

fn a_hello_is_repeated_ever_less_often() {
    let mut a = Greeting::new(1);
    a.want(7);
    let mut now = 7;
    let mut gaps = vec![];
    for _ in 0..9 {
        assert!(a.take(now).is_some_and(|reply| reply.yours == 0 && reply.ask));
        assert_eq!(a.take(now), None);
        gaps.push((a.due().unwrap() - now) / 1_000_000);
        now = a.due().unwrap();
    }
    assert_eq!(gaps, [20, 40, 80, 160, 320, 640, 1000, 1000, 1000]);
}

fn a_restarted_peer_is_the_peer_as_soon_as_it_knows_a_new_name_of_mine() {
    let (mut a, b) = met();
    let (name, tag_before) = (a.mine, a.outgoing());
    let mut again = Greeting::new(3);
    again.want(5);
    let first = hello(again.take(5).unwrap(), 0);
    assert!(!a.hello(5, &first), "anybody can say that");
    assert_eq!((a.mine, a.outgoing()), (name, tag_before));
    assert!(again.hello(5, &hello(a.take(5).unwrap(), a.outgoing())));
    // Its HELLO got lost; a part that it sends says the same.
    assert_eq!(a.frame(6, again.outgoing()), Ok(Some(first)));
    assert!(a.mine != name && a.confirmed && a.theirs == Some(again.mine));
    assert_eq!(a.frame(7, tag(b.mine, name)), Err(Refused::Incarnation));
}

fn a_late_hello_changes_nothing() {
    let (mut a, mut b) = met();
    let mut before = Greeting::new(4);
    before.want(0);
    let late = hello(before.take(0).unwrap(), 0);
    let state = |a: &Greeting, b: &Greeting| (a.mine, a.theirs, b.mine, b.theirs);
    let was = state(&a, &b);
    for now in (0..1_000_000_000).step_by(50_000_000) {
        a.hello(now, &late);
        b.hello(now, &late);
        b.hello(now, &Hello { yours: a.mine, ..late });
        talk(&mut a, &mut b, now);
    }
    assert_eq!(state(&a, &b), was);
    assert!(are_together(&a, &b));
}

fn both_restarted_at_once_meet() {
    let (mut a, mut b) = met();
    for n in 0..20 {
        let (old_a, old_b) = (a.clone(), b.clone());
        (a, b) = (Greeting::new(10 + n), Greeting::new(50 + n));
        // Each hears first what the other's former self had been about to say.
        let from =
            |g: &Greeting| hello(Reply { mine: g.mine, yours: g.theirs.unwrap(), ask: true }, g.outgoing());
        a.hello(0, &from(&old_b));
        b.hello(0, &from(&old_a));
        a.want(0);
        let mut now = 0;
        while !are_together(&a, &b) {
            talk(&mut a, &mut b, now);
            now += 20_000_000;
            assert!(now < 10_000_000_000);
        }
    }
}

fn a_restart_has_a_name_that_nobody_knows() {
    let (mut a, b) = met();
    let (name, tag_before) = (a.mine, b.outgoing());
    a.restart();
    assert!(a.mine != name && a.outgoing() == 0 && !a.confirmed);
    assert_eq!(a.frame(9, tag_before), Err(Refused::Early));
    assert_eq!(a.due(), Some(9), "and whoever knows the former one is told");
}

fn a_peer_is_by_its_name_with_one_end_only() {
    let (mut a, b) = met();
    // One that may be there instead of the peer is told another name of this end ...
    a.hello(1, &hello(Reply { mine: 77, yours: 0, ask: true }, 0));
    let offered = a.take(1).unwrap().mine;
    // ... by which the peer calls it, in a HELLO that was long on its way.
    let (mine, theirs) = (a.mine, b.mine);
    assert!(!a.hello(2, &hello(Reply { mine: theirs, yours: offered, ask: false }, 5)));
    assert_eq!((a.mine, a.theirs), (mine, Some(theirs)));
}
