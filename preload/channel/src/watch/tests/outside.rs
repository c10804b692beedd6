//! What somebody hears who watches the set itself: by the kernel alone.

use super::super::*;
use super::world::Sim;

/// A connection that is hot and has something that no bell announced.
fn unheard(events: u32) -> Sim {
    let mut sim = Sim::new();
    sim.control(libc::EPOLL_CTL_ADD, 0, events, 1).unwrap();
    sim.arrives(0);
    assert_eq!(sim.wait_now(0, 4).unwrap(), [1]);
    sim.takes(0, true);
    assert_eq!(sim.hot(), 1);
    sim.arrives(0);
    sim.arrives(0);
    sim
}

#[test]
fn what_no_bell_announced_is_there_as_long_as_it_is() {
    for events in [IN, IN | ET] {
        let mut sim = unheard(events);
        sim.expose(true);
        assert!(sim.is_found_ready());
        assert_eq!(sim.wait_now(0, 4).unwrap(), [1]);
        sim.takes(0, false);
        // Level-triggered it is told again; an edge was told.
        assert_eq!(sim.is_found_ready(), events & ET == 0);
        sim.takes(0, true);
        assert!(!sim.is_found_ready());
        assert!(sim.wait_now(0, 4).unwrap().is_empty());
        sim.arrives(0);
        assert!(sim.is_found_ready());
    }
}

#[test]
fn it_may_come_into_a_set_that_is_watched_already() {
    let mut sim = unheard(IN);
    sim.control(libc::EPOLL_CTL_DEL, 0, 0, 0).unwrap();
    sim.expose(true);
    assert!(!sim.is_found_ready());
    sim.control(libc::EPOLL_CTL_ADD, 0, IN, 2).unwrap();
    assert!(sim.is_found_ready());
    sim.control(libc::EPOLL_CTL_MOD, 0, 0, 2).unwrap();
    assert!(!sim.is_found_ready());
}

/// The program has its one report, and has read nothing.
#[test]
fn what_was_told_once_is_not_there_any_more() {
    for events in [IN | ONESHOT, IN | ET] {
        let mut sim = Sim::new();
        sim.control(libc::EPOLL_CTL_ADD, 0, events, 1).unwrap();
        sim.arrives(0);
        assert_eq!(sim.wait_now(0, 4).unwrap(), [1]);
        sim.expose(true);
        assert!(!sim.is_found_ready());
        sim.control(libc::EPOLL_CTL_MOD, 0, events, 1).unwrap();
        assert!(sim.is_found_ready());
    }
}

/// What a stranger waits for in a set that is closed here, nobody counts any more: it is rung for, whoever else waits.
#[test]
fn what_is_left_to_others_stays_armed() {
    let mut sim = Sim::new();
    sim.control(libc::EPOLL_CTL_ADD, 0, IN | ET, 1).unwrap();
    sim.expose(true);
    sim.is_left_to_others();
    sim.heats(0);
    sim.arrives(0);
    assert_eq!(sim.bells(0), 1);
}
