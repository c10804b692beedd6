//! An event of ours, by which the kernel wakes threads and tells whoever watches the set from outside.

use super::super::*;
use super::{follow, run, Op};

/// A connection that was reset is the kernel's alone by the time that an event of ours, which woke for it, is looked at.
#[test]
fn an_event_of_ours_for_what_is_no_channel_any_more_tells_of_room_too() {
    const ONCE: u32 = IN | ONESHOT;
    let hot = |conn: usize| {
        let add = Op::Add(conn as i32, ONCE, 100 + conn as u64);
        [add, Op::Arrives(conn), Op::Look(0, 4), Op::Takes(conn, true)]
    };
    let rest = [
        Op::Look(0, 4),
        Op::Sleep(0, 8),
        Op::Expose(true),
        Op::Arrives(1),
        Op::Look(1, 1),
        Op::Resets(1, false),
        Op::Add(2, OUT, 1),
        Op::Mod(1, IN | OUT | ONESHOT, 2),
        Op::Takes(1, true),
        Op::Look(0, 4),
    ];
    run(&[&hot(0)[..], &hot(1), &rest].concat()).unwrap();
}

/// A closed descriptor had the value of one that is registered for one event, and nobody saw it closed: an event of ours is that one
/// event all the same, and the kernel tells no second one.
#[test]
fn the_one_event_of_a_value_that_a_closed_one_had_is_told_once() {
    let hot = |conn: usize| {
        let add = Op::Add(conn as i32, IN | ET, 100 + conn as u64);
        [add, Op::Arrives(conn), Op::Look(0, 4), Op::Takes(conn, true)]
    };
    let rest = [
        Op::Add(4, IN, 102),
        Op::Look(0, 1),
        Op::Close(4),
        Op::Del(1),
        Op::Sleep(1, 1),
        Op::Sleep(0, 8),
        Op::Arrives(0),
        Op::Arrives(1),
        Op::Add(1, IN | ONESHOT, 102),
    ];
    let ops = [&hot(0)[..], &hot(1), &rest].concat();
    follow(&ops).unwrap().hand_over().unwrap();
    run(&[&ops[..], &[Op::Look(0, 4), Op::Look(1, 4)]].concat()).unwrap();
}

/// An event of ours is a connection's that gets another value. One that has the former value, and is no channel any more, is none
/// that it tells of.
#[test]
fn an_event_of_ours_whose_value_changes_is_no_others() {
    let ops = [
        Op::Add(0, IN, 100),
        Op::Arrives(0),
        Op::Look(0, 4),
        Op::Takes(0, true),
        Op::Arrives(0),
        Op::Arrives(0),
        Op::Expose(true),
        Op::Resets(2, false),
        Op::Look(0, 1),
        Op::Add(2, 0, 100),
        Op::Takes(2, true),
        Op::Mod(0, IN | OUT, 1),
        Op::Look(0, 2),
    ];
    run(&ops).unwrap();
}

/// An event of ours that sets off for a connection which wants nothing to read, and is no channel any more by the time that it comes.
#[test]
fn an_event_of_ours_tells_nothing_that_is_not_wanted() {
    let hot = |conn: usize| {
        let add = Op::Add(conn as i32, IN | ONESHOT, 100 + conn as u64);
        [add, Op::Arrives(conn), Op::Look(0, 4), Op::Takes(conn, true)]
    };
    let rest = [
        Op::Arrives(0),
        Op::Arrives(0),
        Op::Expose(true),
        Op::Resets(0, false),
        Op::Sleep(0, 8),
        Op::Sleep(1, 1),
        Op::Del(0),
        Op::Add(0, IN | OUT | ET, 1),
        Op::Takes(0, true),
        Op::Mod(0, OUT, 102),
    ];
    run(&[&hot(0)[..], &hot(1), &rest].concat()).unwrap();
}

/// The same with room for more: the kernel's own event stands behind that of ours, in the same answer, and what was forgotten with its
/// value is not taken for it.
#[test]
fn what_an_event_of_ours_told_the_kernel_does_not_tell_again() {
    let hot = |conn: usize| {
        let add = Op::Add(conn as i32, IN, 100 + conn as u64);
        [add, Op::Arrives(conn), Op::Look(0, 4), Op::Takes(conn, true)]
    };
    let rest = [
        Op::Arrives(0),
        Op::Arrives(0),
        Op::Expose(true),
        Op::Look(0, 1),
        Op::Add(5, IN, 3),
        Op::Look(0, 2),
        Op::RenewsInner,
        Op::Look(0, 1),
        Op::Look(0, 2),
        Op::Look(0, 1),
        Op::Mod(0, IN | OUT | ONESHOT, 3),
        Op::Takes(0, true),
        Op::Look(0, 2),
        Op::Look(0, 1),
    ];
    run(&[&hot(0)[..], &hot(1), &rest].concat()).unwrap();
}

/// What wakes a thread, or what it finds in a ring, may be its one report of a connection that has ended, which the kernel would have
/// told it together.
#[test]
fn the_one_report_tells_of_the_end_as_well() {
    let ends = [Op::Arrives(1), Op::Ends(1, false)];
    let add = Op::Add(1, IN | RDHUP | ONESHOT, 1);
    let woken = [&[Op::Sleep(0, 1)], &ends[..], core::slice::from_ref(&add)].concat();
    follow(&woken).and_then(|mut sim| sim.hand_over()).unwrap();
    // The kernel has filled the array, so the ring comes first now.
    let filled = [Op::Add(3, IN, 3), Op::Arrives(3), Op::Look(0, 1), Op::Takes(3, true), Op::Heats(1)];
    let mut sim = follow(&[&filled, &ends[..], &[add]].concat()).unwrap();
    assert_eq!(sim.wait_with_bits(0, 1).unwrap(), [(IN | RDHUP, 1)]);
}

/// The last connection that waits for bytes goes, and one stays that waits for room alone, whose value something had that was closed
/// unseen: an event of ours by that value would pass for bytes of it.
#[test]
fn an_event_of_ours_is_never_that_of_what_waits_for_room_alone() {
    let goes: [fn(i32) -> Op; 3] = [Op::Del, Op::Close, |fd| Op::Mod(fd, OUT, 3)];
    for goes in goes {
        let ops = [
            Op::Sleep(1, 1),
            Op::Sleep(0, 1),
            Op::Arrives(1),
            Op::Add(2, OUT | ET, 1),
            Op::Add(5, IN, 1),
            Op::Sleep(0, 8),
            Op::RenewsInner,
            Op::Add(1, IN | OUT | ET, 1),
            Op::Heats(2),
            goes(1),
        ];
        run(&ops).unwrap();
    }
}

/// It may be on its way when what it was for is of no interest any more.
#[test]
fn an_event_of_ours_for_what_is_of_no_interest_any_more_tells_nothing() {
    let ops = [
        Op::Wears,
        Op::Sleep(0, 8),
        Op::Heats(0),
        Op::Arrives(0),
        Op::Holds(0),
        Op::Add(0, IN | ONESHOT, 100),
        Op::Torn,
        Op::Mod(0, 0, 100),
        Op::Look(1, 1),
    ];
    run(&ops).unwrap();
}
