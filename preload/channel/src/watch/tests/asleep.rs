//! What happens to a connection while a thread sleeps in its set, and somebody has said that he wakes that thread.

use super::super::*;
use super::world::Sim;
use super::{run, Op};

/// Two connections that are hot, and have nothing.
fn two_hot(events: u32) -> Sim {
    let mut sim = Sim::new();
    for conn in [0, 1] {
        sim.control(libc::EPOLL_CTL_ADD, conn, events, conn as u64).unwrap();
        sim.arrives(conn as usize);
        sim.wait_now(0, 4).unwrap();
        sim.takes(conn as usize, true);
    }
    sim.wait_now(0, 4).unwrap();
    assert_eq!(sim.hot(), 2);
    sim
}

/// A bell on a connection of which the program wants nothing to read wakes nobody: the others' senders must not rely on it.
#[test]
fn a_connection_whose_reading_is_paused_wakes_nobody_for_the_others() {
    for paused in [0, ET, OUT | ET] {
        let mut sim = two_hot(IN | ET);
        sim.control(libc::EPOLL_CTL_MOD, 0, paused, 0).unwrap();
        sim.wait_now(0, 4).unwrap();
        sim.sleep(0).unwrap();
        sim.settle().unwrap();
        for conn in [0, 1] {
            sim.arrives(conn);
            sim.settle().unwrap();
        }
    }
    let hot = |fd: i32| [Op::Add(fd, IN | ET, 100 + fd as u64), Op::Arrives(fd as usize), Op::Look(0, 4)];
    let then = [
        Op::Takes(0, true),
        Op::Takes(1, true),
        Op::Look(0, 4),
        Op::Mod(0, OUT | ET, 100),
        Op::Look(0, 4),
        Op::Sleep(0, 8),
        Op::Arrives(0),
        Op::Arrives(1),
    ];
    run(&hot(0).into_iter().chain(hot(1)).chain(then).collect::<Vec<_>>()).unwrap();
}

/// What wakes a thread is no event of a stranger that had the value and was closed.
#[test]
fn what_wakes_is_not_reported() {
    let mut sim = two_hot(IN);
    sim.sleep(0).unwrap();
    sim.control(libc::EPOLL_CTL_ADD, 5, OUT | ET, 7).unwrap();
    sim.close(5);
    sim.control(libc::EPOLL_CTL_MOD, 0, IN | OUT, 7).unwrap();
    sim.settle().unwrap();
}

/// The same where another set gets the connection, and another thread takes its bytes: with them it would take the bell.
#[test]
fn who_was_told_by_a_connection_that_another_set_gets_wakes() {
    for events in [IN, IN | ET] {
        let mut sim = two_hot(events);
        sim.sleep(0).unwrap();
        sim.arrives(0);
        sim.elsewhere(0, true);
        sim.takes(0, true);
        sim.arrives(1);
        sim.settle().unwrap();
    }
}

/// The one that was told is not awake yet when another thread takes the connection away on which its bell is.
#[test]
fn who_was_told_by_a_connection_that_goes_wakes_for_the_others() {
    type Goes = fn(&mut Sim);
    let ways: [Goes; 4] = [
        |sim| sim.control(libc::EPOLL_CTL_DEL, 0, 0, 0).unwrap(),
        |sim| sim.control(libc::EPOLL_CTL_MOD, 0, 0, 0).unwrap(),
        |sim| sim.control(libc::EPOLL_CTL_MOD, 0, OUT | ET, 0).unwrap(),
        |sim| sim.close(0),
    ];
    for events in [IN, IN | ET] {
        for goes in ways {
            let mut sim = two_hot(events);
            sim.sleep(0).unwrap();
            sim.arrives(0);
            goes(&mut sim);
            sim.settle().unwrap();
            sim.arrives(1);
            sim.settle().unwrap();
        }
    }
}

/// Two connections with something that nobody rang for, as the threads that had them before looked at them.
fn two_unannounced() -> Sim {
    let mut sim = Sim::new();
    for conn in [0, 1] {
        sim.heats(conn);
        sim.arrives(conn);
    }
    sim
}

/// Two threads of a pool, each with room for one event, and two connections that are handed over before either of them runs.
#[test]
fn who_has_room_for_one_wakes_the_next_for_the_other() {
    for how in [0, ET, ONESHOT] {
        let mut sim = two_unannounced();
        sim.sleep_with(0, 1).unwrap();
        sim.sleep_with(1, 1).unwrap();
        for conn in [0, 1] {
            sim.control(libc::EPOLL_CTL_ADD, conn, IN | how, conn as u64).unwrap();
        }
        sim.settle().unwrap();
    }
}

/// A thread that does not sleep is told in place of the one that was woken, and takes what wakes.
#[test]
fn what_wakes_and_was_taken_by_another_thread_is_sent_again() {
    for how in [0, ET, ONESHOT] {
        let mut sim = two_unannounced();
        sim.sleep(0).unwrap();
        sim.control(libc::EPOLL_CTL_ADD, 0, IN | how, 0).unwrap();
        assert_eq!(sim.wait_with_bits(1, 8).unwrap(), [(IN, 0)]);
        sim.control(libc::EPOLL_CTL_ADD, 1, IN | how, 1).unwrap();
        sim.settle().unwrap();
    }
}

/// The set is closed before the thread runs, and the event that woke it goes with it. In the kernel its wait goes on.
#[test]
fn who_was_told_by_an_event_of_a_set_that_is_closed_hears_of_what_came() {
    for events in [IN, IN | ET] {
        for comes in [false, true] {
            let mut sim = two_hot(events);
            sim.sleep(0).unwrap();
            if comes {
                sim.tells_by_event(1);
            }
            sim.leaves();
            assert_eq!(sim.told_by_kernel(), if comes { vec![1] } else { vec![] });
        }
    }
}

/// Nothing could be sent to whoever sleeps, for want of a descriptor: the next one who would wake him tries again.
#[test]
fn somebody_who_could_not_be_woken_is_woken_by_the_next_change() {
    let mut sim = Sim::new();
    sim.sleep(0).unwrap();
    // No bell tells of it: a receive looks by itself.
    sim.heats(0);
    sim.arrives(0);
    sim.has_descriptors(false);
    sim.control(libc::EPOLL_CTL_ADD, 0, IN, 1).unwrap();
    sim.has_descriptors(true);
    sim.control(libc::EPOLL_CTL_MOD, 0, IN, 1).unwrap();
    sim.settle().unwrap();
}
