//! A set that a fork has shared.

use super::super::*;
use super::kernel::CONNS;
use super::world::Sim;

/// A hot connection, of which the program changes something that the kernel has not heard of at the fork.
fn changed_and_forked(change: impl Fn(&mut Sim)) -> Sim {
    let mut sim = Sim::new();
    sim.control(libc::EPOLL_CTL_ADD, 0, IN, 1).unwrap();
    sim.arrives(0);
    assert_eq!(sim.wait_now(0, 4).unwrap(), [1]);
    assert_eq!(sim.hot(), 1);
    sim.takes(0, true);
    change(&mut sim);
    sim.forks();
    sim
}

/// The parent goes by what it has told the kernel, so it alone tells it the rest.
#[test]
fn a_child_tells_the_kernel_nothing_that_its_parent_has_not() {
    let changes: [fn(&mut Sim); 2] = [
        |sim| sim.control(libc::EPOLL_CTL_MOD, 0, IN | OUT, 1).unwrap(),
        |sim| sim.control(libc::EPOLL_CTL_DEL, 0, 0, 0).unwrap(),
    ];
    for change in changes {
        let mut sim = changed_and_forked(change);
        let before = sim.told_kernel(0, 0).expect("registered");
        assert_eq!(before & OUT, 0);
        sim.expose(true);
        let _ = sim.wait_now(0, 4);
        assert_eq!(sim.told_kernel(0, 0), Some(before));
    }
}

/// What a child registers, it takes back, and nothing of its parent's.
#[test]
fn a_child_takes_back_what_it_has_registered_and_no_more() {
    type Ends = fn(&mut Sim);
    let ends: [Ends; 3] =
        [|sim| sim.control(libc::EPOLL_CTL_DEL, 1, 0, 0).unwrap(), |sim| sim.close(1), |sim| sim.leaves()];
    for forks in [1, 2] {
        for end in ends {
            let mut sim = Sim::new();
            sim.control(libc::EPOLL_CTL_ADD, 0, IN, 1).unwrap();
            (0..forks).for_each(|_| sim.forks());
            sim.control(libc::EPOLL_CTL_ADD, 1, IN, 2).unwrap();
            assert_eq!((sim.watched(0), sim.watched(1)), (1, 1));
            end(&mut sim);
            assert_eq!((sim.watched(0), sim.watched(1)), (1, 0));
        }
    }
}

/// The parent sleeps, and a bell is on its way to it, when a child begins to use the set.
#[test]
fn a_child_leaves_to_its_parent_the_bell_that_tells_it() {
    let mut sim = Sim::new();
    sim.control(libc::EPOLL_CTL_ADD, 0, IN, 1).unwrap();
    sim.arrives(0);
    assert_eq!(sim.wait_now(0, 4).unwrap(), [1]);
    sim.takes(0, true);
    sim.sleep(0).unwrap();
    sim.arrives(0);
    sim.takes(0, true);
    assert_eq!(sim.bells(0), 1);
    sim.forks();
    let _ = sim.wait_now(1, 4);
    assert_eq!(sim.bells(0), 1, "taken from whoever it was for");
}

/// An edge is told once, and the kernel has told it to a process that reads it slowly.
#[test]
fn what_a_relative_was_told_is_not_lost() {
    let begins: [fn(&mut Sim); 2] = [Sim::is_used_by_relatives, Sim::relative_begins];
    for (events, is_lost) in [(IN, true), (IN | ET, false), (IN | ONESHOT, false)] {
        for (n, begin) in begins.iter().enumerate() {
            let mut sim = Sim::new();
            sim.control(libc::EPOLL_CTL_ADD, 0, events, 1).unwrap();
            begin(&mut sim);
            sim.arrives(0);
            sim.tells_a_relative(0);
            assert_eq!(sim.finds_lost(), is_lost, "{events:#x}, {n}");
        }
    }
}

/// The parent has closed a connection before its child did, which so did not hear that its registration ended with it; another
/// one has the entry and the number.
#[test]
fn what_nobody_took_back_is_in_nobodys_way() {
    for forks in [0, 1] {
        let mut sim = Sim::new();
        sim.control(libc::EPOLL_CTL_ADD, 0, IN | ET, 1).unwrap();
        (0..forks).for_each(|_| sim.forks());
        sim.is_another(0);
        sim.control(libc::EPOLL_CTL_ADD, 0, IN, 2).unwrap();
        assert_eq!(sim.watched(0), 1);
        sim.control(libc::EPOLL_CTL_ADD, 0, IN, 3).unwrap();
        assert_eq!(sim.watched(0), 1);
        sim.arrives(0);
        assert_eq!(sim.wait_now(0, 4).unwrap(), [2]);
        sim.close(0);
        assert_eq!(sim.watched(0), 0);
    }
}

/// What a child registered itself goes over with its number.
#[test]
fn what_a_child_registered_is_replaced() {
    let mut sim = Sim::new();
    sim.forks();
    sim.control(libc::EPOLL_CTL_ADD, 0, IN, 1).unwrap();
    sim.replaces(0);
    sim.arrives(CONNS);
    assert_eq!(sim.wait_now(0, 4).unwrap(), [1]);
}

/// One thread here was told, and gave the work to a relative, which has done it and waits for the next event: whoever is told.
#[test]
fn the_next_event_that_a_relative_asked_for_is_told_here() {
    for is_child in [false, true] {
        let mut sim = Sim::new();
        // Its parent hears of it by its doing alone.
        if is_child {
            sim.forks();
        }
        sim.control(libc::EPOLL_CTL_ADD, 0, IN | ONESHOT, 1).unwrap();
        for _ in 0..3 {
            sim.arrives(0);
            assert_eq!(sim.wait_now(0, 4).unwrap(), [1]);
            sim.takes(0, true);
            assert!(sim.wait_now(0, 4).unwrap().is_empty());
            sim.relative_sets_anew(0, 0);
        }
    }
}

/// What a child registered itself lives as long as the file does.
#[test]
fn what_a_child_registered_stays_with_a_copy() {
    let mut sim = Sim::new();
    sim.forks();
    sim.control(libc::EPOLL_CTL_ADD, 0, IN, 1).unwrap();
    sim.dup(0);
    sim.close(0);
    assert_eq!(sim.watched(0), 1, "whoever waits in another way must not make it hot");
    sim.arrives(0);
    assert_eq!(sim.wait_now(0, 4).unwrap(), [1]);
}
