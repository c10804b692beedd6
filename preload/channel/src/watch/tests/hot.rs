//! Which connections a set may look at by itself, and which are the kernel's to tell of.

use super::super::*;
use super::follow;
use super::world::Sim;
use super::Op;

/// The kernel is not told at once that a hot connection's writability is of no interest any more. Where such answers could
/// take the room of others, it is.
#[test]
fn what_is_of_no_interest_any_more_takes_nobodys_room() {
    let mut sim = Sim::new();
    for conn in [0, 1] {
        sim.control(libc::EPOLL_CTL_ADD, conn, IN | OUT, conn as u64).unwrap();
        sim.arrives(conn as usize);
    }
    sim.wait_now(0, 4).unwrap();
    assert_eq!(sim.hot(), 2);
    for conn in [0, 1] {
        sim.takes(conn as usize, true);
        sim.control(libc::EPOLL_CTL_MOD, conn, IN, conn as u64).unwrap();
    }
    sim.control(libc::EPOLL_CTL_ADD, 3, IN, 3).unwrap();
    sim.arrives(3);
    for _ in 0..4 {
        assert_eq!(sim.wait_now(0, 2).unwrap(), [3]);
    }
}

/// What was registered before the first connection came has its value, too, also changed or deleted.
#[test]
fn a_value_counts_that_was_there_before_the_first_connection() {
    for (events_of_the_other, hot) in [(Some((IN, 1)), 0), (Some((IN, 2)), 1), (None, 1)] {
        let mut sim = Sim::new();
        sim.control(libc::EPOLL_CTL_ADD, 3, IN, 1).unwrap();
        match events_of_the_other {
            Some((events, data)) => sim.control(libc::EPOLL_CTL_MOD, 3, events, data).unwrap(),
            None => sim.control(libc::EPOLL_CTL_DEL, 3, 0, 0).unwrap(),
        }
        sim.control(libc::EPOLL_CTL_ADD, 0, IN, 1).unwrap();
        sim.arrives(0);
        sim.wait_now(0, 4).unwrap();
        assert_eq!(sim.hot(), hot, "{events_of_the_other:?}");
    }
}

#[test]
fn hot_is_a_privilege_that_comes_back() {
    let mut sim = Sim::new();
    let turn = |sim: &mut Sim| {
        sim.arrives(0);
        sim.wait_now(0, 4).unwrap();
        sim.takes(0, true);
    };
    sim.control(libc::EPOLL_CTL_ADD, 0, IN, 1).unwrap();
    turn(&mut sim);
    assert_eq!(sim.hot(), 1, "a bell makes it hot");
    // Another registration with the same value, and no more.
    sim.control(libc::EPOLL_CTL_ADD, 3, IN, 1).unwrap();
    assert_eq!(sim.hot(), 0);
    turn(&mut sim);
    assert_eq!(sim.hot(), 0);
    sim.control(libc::EPOLL_CTL_DEL, 3, 0, 0).unwrap();
    turn(&mut sim);
    assert_eq!(sim.hot(), 1);
    // One that is closed without our seeing it is found out.
    sim.control(libc::EPOLL_CTL_ADD, 3, IN, 1).unwrap();
    sim.close(3);
    turn(&mut sim);
    turn(&mut sim);
    assert_eq!(sim.hot(), 1);
    // Watched from outside, and no more.
    sim.expose(true);
    turn(&mut sim);
    assert_eq!(sim.hot(), 0);
    sim.expose(false);
    turn(&mut sim);
    assert_eq!(sim.hot(), 1);
    // A second waiter, and no more.
    sim.sleep(1).unwrap();
    turn(&mut sim);
    assert_eq!(sim.hot(), 0);
    sim.arrives(0);
    sim.settle().unwrap();
    turn(&mut sim);
    assert_eq!(sim.hot(), 1);
}

/// What Erlang's runtime does: a socket that often has something goes over to a second set, and stays in the first one, where it was
/// told its one event. It may be hot in the second one until interest is set in the first one anew.
#[test]
fn a_connection_that_was_told_its_one_event_is_in_no_other_sets_way() {
    let once = [Op::Add(0, IN | ONESHOT, 1), Op::Elsewhere(0, true), Op::HeatsElsewhere(0)];
    let mut sim = follow(&once).unwrap();
    assert!(!sim.is_hot_elsewhere(0), "the kernel may tell of it here");
    sim.arrives(0);
    assert_eq!(sim.wait_now(0, 4).unwrap(), [1]);
    sim.heats_elsewhere(0);
    assert!(sim.is_hot_elsewhere(0));
    sim.takes(0, true);
    sim.arrives(0);
    sim.sleep(0).unwrap();
    sim.control(libc::EPOLL_CTL_MOD, 0, IN | ONESHOT, 1).unwrap();
    sim.settle().unwrap();
    assert!(!sim.is_hot_elsewhere(0));
    // A registration that another set changes as well rests no more.
    sim.heats_elsewhere(0);
    assert!(sim.is_hot_elsewhere(0), "it was told of what no bell announced");
    sim.expose(true);
    assert!(!sim.is_hot_elsewhere(0));
}

/// A relative that has inherited the set may set interest anew, and nobody hears of it here.
#[test]
fn a_told_event_that_relatives_may_ask_for_again_is_in_the_way() {
    let told = [Op::Add(0, IN | ONESHOT, 1), Op::Elsewhere(0, true), Op::Arrives(0), Op::Look(0, 4)];
    let mut sim = follow(&told).unwrap();
    sim.heats_elsewhere(0);
    assert!(sim.is_hot_elsewhere(0));
    sim.is_used_by_relatives();
    sim.heats_elsewhere(0);
    assert!(!sim.is_hot_elsewhere(0));
    // It began just before the event was told.
    let mut sim = follow(&told[..3]).unwrap();
    sim.relatives_begin();
    assert_eq!(sim.wait_now(0, 4).unwrap(), [1]);
    sim.heats_elsewhere(0);
    assert!(!sim.is_hot_elsewhere(0));
    // This is the relative.
    let mut sim = follow(&told).unwrap();
    sim.forks();
    sim.control(libc::EPOLL_CTL_MOD, 0, IN | ONESHOT, 1).unwrap();
    assert_eq!(sim.resting(0), 0);
}
