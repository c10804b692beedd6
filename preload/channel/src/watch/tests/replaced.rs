//! A number that comes to stand for another file keeps its registration.

use super::super::*;
use super::kernel::CONNS;
use super::world::Sim;

/// The file behind the numbers that [`Sim::replaces`] replaces.
const OTHER: usize = CONNS;

#[test]
fn what_was_registered_goes_over_with_the_number() {
    for events in [IN, IN | ET, IN | ONESHOT] {
        let mut sim = Sim::new();
        sim.control(libc::EPOLL_CTL_ADD, 0, events, 1).unwrap();
        sim.replaces(0);
        assert!(sim.wait_now(0, 4).unwrap().is_empty());
        sim.arrives(OTHER);
        assert_eq!(sim.wait_now(0, 4).unwrap(), [1]);
        sim.control(libc::EPOLL_CTL_MOD, 0, events, 2).unwrap();
        assert_eq!(sim.wait_now(0, 4).unwrap(), [2]);
        sim.control(libc::EPOLL_CTL_DEL, 0, 0, 0).unwrap();
        sim.arrives(OTHER);
        assert!(sim.wait_now(0, 4).unwrap().is_empty());
    }
}

/// What the kernel was not told yet of a hot one counts.
#[test]
fn the_last_word_of_a_hot_one_goes_over() {
    for change in [None, Some(IN | OUT)] {
        let mut sim = Sim::new();
        sim.control(libc::EPOLL_CTL_ADD, 0, IN, 1).unwrap();
        sim.arrives(0);
        assert_eq!(sim.wait_now(0, 4).unwrap(), [1]);
        assert_eq!(sim.hot(), 1);
        sim.takes(0, true);
        match change {
            Some(events) => sim.control(libc::EPOLL_CTL_MOD, 0, events, 2).unwrap(),
            None => sim.control(libc::EPOLL_CTL_DEL, 0, 0, 0).unwrap(),
        }
        sim.replaces(0);
        assert_eq!(sim.hot(), 0);
        let told = sim.wait_now(0, 4).unwrap();
        assert_eq!(told, change.map_or(vec![], |_| vec![2]));
    }
}

/// One whose only report was told says nothing before the program asks anew.
#[test]
fn what_was_spent_stays_spent() {
    let mut sim = Sim::new();
    sim.control(libc::EPOLL_CTL_ADD, 0, IN | ONESHOT, 1).unwrap();
    sim.arrives(0);
    assert_eq!(sim.wait_now(0, 4).unwrap(), [1]);
    sim.replaces(0);
    sim.arrives(OTHER);
    assert!(sim.wait_now(0, 4).unwrap().is_empty());
    sim.control(libc::EPOLL_CTL_MOD, 0, IN | ONESHOT, 1).unwrap();
    assert_eq!(sim.wait_now(0, 4).unwrap(), [1]);
}
