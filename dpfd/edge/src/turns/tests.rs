use std::cell::RefCell;

use super::*;

#[test]
fn what_was_left_meanwhile_is_done_by_who_has_the_thing() {
    let (turns, thing) = (Turns::new(), RefCell::new(0));
    let mut rounds = 0;
    let done = turns.visit(
        || thing.try_borrow_mut().ok(),
        |n, left| {
            assert_eq!(left, rounds == 1);
            **n += 1;
            rounds += 1;
            if rounds == 1 {
                // Another one comes, and finds it taken.
                turns.leave();
                assert!(!turns.visit(|| thing.try_borrow_mut().ok(), |_, _| panic!("two at once")));
            }
        },
    );
    assert!(done);
    assert_eq!((*thing.borrow(), rounds), (2, 2));
}

#[test]
fn the_helper_is_woken_once_and_only_for_what_it_would_do_much_too_late() {
    let turns = Turns::new();
    assert!(!turns.is_due(5 * LATE), "it does not sleep");
    assert_eq!(turns.plan(u64::MAX), 5 * LATE);
    assert!(!turns.is_due(6 * LATE) && !turns.is_due(4 * LATE));
    assert!(turns.is_due(3 * LATE), "two milliseconds too late");
    assert!(!turns.is_due(2 * LATE), "it is woken already");
    assert_eq!(turns.plan(LATE), LATE);
    assert_eq!(turns.plan(3 * LATE), 2 * LATE);
}

#[test]
fn one_of_those_who_wait_is_woken_by_routes() {
    let turns = Turns::new();
    assert!(turns.begin_wait(true), "nobody else waits");
    assert!(!turns.begin_wait(false) && turns.has_leader());
    turns.end_wait(true);
    assert!(!turns.has_leader());
    assert!(!turns.begin_wait(true), "the other one is to be the next");
    assert!(turns.begin_wait(false));
}

#[test]
fn one_who_never_comes_back_is_followed_by_the_next_who_waits() {
    let turns = Turns::new();
    assert!(turns.begin_wait(false), "nobody else waits");
    assert!(!turns.begin_wait(false));
    turns.forget_leader();
    assert!(!turns.has_leader());
    assert!(turns.begin_wait(false));
}

#[test]
fn the_helper_is_woken_once_by_the_one_on_whom_it_relies() {
    let turns = Turns::new();
    assert!(!turns.rely(), "nobody sleeps");
    assert!(turns.begin_wait(false) && turns.rely());
    assert!(!turns.begin_wait(false) && !turns.end_wait(false), "another one");
    assert!(turns.end_wait(true));
    assert!(turns.begin_wait(false) && !turns.end_wait(true), "it is woken already");
    assert!(turns.begin_wait(false) && turns.rely());
    turns.stop_relying();
    assert!(!turns.end_wait(true), "it does not sleep");
}

#[test]
fn calls_that_come_often_take_what_comes_but_for_others_who_wait() {
    let turns = Turns::new();
    let since = turns.waits();
    assert!(!turns.are_taken(since));
    assert!(turns.begin_wait(false) && turns.are_taken(since) && turns.are_taken(turns.waits()));
    assert!(!turns.begin_wait(false));
    turns.end_wait(true);
    assert!(!turns.are_taken(since), "somebody sleeps whom routes do not wake");
    turns.end_wait(false);
    assert!(turns.are_taken(since) && !turns.are_taken(turns.waits()));
}
