//! Edges are told once, each with all that is ready.

use super::super::*;
use super::world::Sim;

/// Whether the kernel still has the other one, which is asked because of the value, makes no new edge of it.
#[test]
fn an_edge_of_a_stranger_is_told_once() {
    let mut sim = Sim::new();
    sim.control(libc::EPOLL_CTL_ADD, 0, IN | ET, 1).unwrap();
    sim.control(libc::EPOLL_CTL_ADD, 3, IN | ET, 1).unwrap();
    sim.arrives(3);
    assert_eq!(sim.wait_now(0, 4).unwrap(), [1]);
    assert!(sim.wait_now(0, 4).unwrap().is_empty());
    // Nor is what was disabled by its one report reported again.
    sim.control(libc::EPOLL_CTL_MOD, 3, IN | ONESHOT, 1).unwrap();
    assert_eq!(sim.wait_now(0, 4).unwrap(), [1]);
    sim.arrives(0);
    assert_eq!(sim.wait_now(0, 4).unwrap(), [1]);
    assert!(sim.wait_now(0, 4).unwrap().is_empty());
}

/// An edge that was told is not told again because its connection is the kernel's to watch from then on.
#[test]
fn an_edge_is_told_once_also_when_its_connection_cools() {
    type Cools = fn(&mut Sim);
    let ways: [Cools; 3] = [
        |sim| sim.expose(true),
        |sim| sim.control(libc::EPOLL_CTL_ADD, 3, IN, 1).unwrap(),
        |sim| sim.robbed(0),
    ];
    for events in [IN | ET, IN | OUT | ET] {
        for cools in ways {
            let mut sim = Sim::new();
            sim.control(libc::EPOLL_CTL_ADD, 0, events, 1).unwrap();
            sim.arrives(0);
            assert_eq!(sim.wait_now(0, 4).unwrap(), [1]);
            assert_eq!(sim.hot(), 1);
            cools(&mut sim);
            assert_eq!(sim.hot(), 0);
            assert!(sim.wait_now(0, 4).unwrap().is_empty());
            sim.arrives(0);
            assert_eq!(sim.wait_now(0, 4).unwrap(), [1]);
        }
    }
}

/// Setting interest is an edge in the kernel, also where the kernel hears of it later: with that of the end it is one.
#[test]
fn an_end_behind_a_change_of_interest_is_told_once() {
    let mut sim = Sim::new();
    sim.control(libc::EPOLL_CTL_ADD, 0, IN | OUT | ET, 1).unwrap();
    sim.arrives(0);
    assert_eq!(sim.wait_now(0, 4).unwrap(), [1]);
    assert_eq!(sim.hot(), 1);
    sim.control(libc::EPOLL_CTL_MOD, 0, IN | ET, 1).unwrap();
    sim.ends(0, false);
    assert_eq!(sim.wait_with_bits(0, 4).unwrap(), [(IN, 1)]);
    assert!(sim.wait_now(0, 4).unwrap().is_empty());
}

/// The same of a peer that was killed, of which nothing but the kernel says so; and from then on the kernel tells of the
/// connection.
#[test]
fn a_death_behind_a_change_of_interest_is_told_once() {
    for events in [IN | OUT, IN | OUT | ET] {
        let mut sim = Sim::new();
        sim.control(libc::EPOLL_CTL_ADD, 0, events & !OUT, 1).unwrap();
        sim.arrives(0);
        assert_eq!(sim.wait_now(0, 4).unwrap(), [1]);
        assert_eq!(sim.hot(), 1);
        sim.takes(0, true);
        sim.control(libc::EPOLL_CTL_MOD, 0, events, 1).unwrap();
        sim.ends(0, true);
        assert_eq!(sim.wait_with_bits(0, 4).unwrap(), [(IN | OUT, 1)]);
        assert_eq!(sim.hot(), 0);
        assert_eq!(sim.wait_now(0, 4).unwrap().is_empty(), events & ET != 0);
    }
}

/// The same where what the peer sends next goes through TCP: the kernel's edge of it is that of the change as well.
#[test]
fn bytes_on_tcp_behind_a_change_of_interest_are_told_once() {
    let mut sim = Sim::new();
    sim.control(libc::EPOLL_CTL_ADD, 0, IN | ET, 1).unwrap();
    sim.arrives(0);
    assert_eq!(sim.wait_now(0, 4).unwrap(), [1]);
    assert_eq!(sim.hot(), 1);
    sim.takes(0, true);
    sim.control(libc::EPOLL_CTL_MOD, 0, IN | OUT | ET, 1).unwrap();
    assert_eq!(sim.wait_with_bits(0, 4).unwrap(), [(OUT, 1)]);
    sim.goes_out(0);
    sim.lands(0);
    assert_eq!(sim.wait_with_bits(0, 4).unwrap(), [(IN | OUT, 1)]);
    assert!(sim.wait_now(0, 4).unwrap().is_empty());
}

/// An edge tells all that is ready, and of room on TCP only the kernel knows.
#[test]
fn an_edge_of_bytes_in_the_ring_tells_of_room_on_tcp() {
    let mut sim = Sim::new();
    sim.control(libc::EPOLL_CTL_ADD, 0, IN | OUT | ET, 1).unwrap();
    sim.arrives(0);
    sim.wait_now(0, 4).unwrap();
    assert_eq!(sim.hot(), 1);
    sim.splices(0, true);
    for _ in 0..2 {
        sim.arrives(0);
        assert_eq!(sim.wait_with_bits(0, 4).unwrap(), [(IN | OUT, 1)]);
        assert!(sim.wait_now(0, 4).unwrap().is_empty());
    }
}

/// A low-water mark that is met makes an edge of bytes that were told already, and only where something lies.
#[test]
fn a_low_water_mark_that_is_met_is_an_edge() {
    for events in [IN | ET, IN | OUT | ET] {
        let mut sim = Sim::new();
        sim.control(libc::EPOLL_CTL_ADD, 0, events, 1).unwrap();
        sim.arrives(0);
        assert_eq!(sim.wait_now(0, 4).unwrap(), [1]);
        assert!(sim.wait_now(0, 4).unwrap().is_empty());
        sim.mark_is_set(0);
        assert_eq!(sim.wait_now(0, 4).unwrap(), [1]);
        assert!(sim.wait_now(0, 4).unwrap().is_empty());
    }
}

/// Bytes that come on TCP in front of the ring are an edge of all that is ready, also where they were taken before the look: room is.
#[test]
fn an_edge_of_bytes_that_were_taken_tells_of_room() {
    let mut sim = Sim::new();
    sim.control(libc::EPOLL_CTL_ADD, 0, IN | OUT | ET, 100).unwrap();
    sim.arrives(0);
    assert_eq!(sim.wait_with_bits(0, 4).unwrap(), [(IN | OUT, 100)]);
    sim.takes(0, true);
    sim.goes_out(0);
    for _ in 0..2 {
        sim.lands(0);
        sim.takes(0, true);
    }
    assert_eq!(sim.hot(), 1);
    assert_eq!(sim.wait_with_bits(0, 4).unwrap(), [(OUT, 100)]);
    assert!(sim.wait_now(0, 4).unwrap().is_empty());
}

/// What stands in the ring behind bytes that are still on their way is not to be read yet, and is told of when it is.
#[test]
fn tokens_behind_bytes_on_their_way_are_not_ready() {
    for events in [IN, IN | ET] {
        let mut sim = Sim::new();
        sim.control(libc::EPOLL_CTL_ADD, 0, events, 1).unwrap();
        sim.arrives(0);
        sim.wait_now(0, 4).unwrap();
        assert_eq!(sim.hot(), 1);
        sim.takes(0, true);
        sim.goes_out(0);
        sim.arrives(0);
        assert!(sim.wait_now(0, 16).unwrap().is_empty());
        sim.sleep(0).unwrap();
        sim.lands(0);
        sim.settle().unwrap();
        sim.takes(0, true);
        assert!(sim.wait_now(0, 16).unwrap().is_empty());
        sim.lands(0);
        sim.settle().unwrap();
        sim.takes(0, events & ET != 0);
        assert_eq!(sim.wait_now(0, 16).unwrap().is_empty(), events & ET != 0);
    }
}

/// An edge of the first of such bytes is none of what stands behind them: a program that takes what it counts (FIONREAD), and
/// more that has come since, is told of the rest.
#[test]
fn an_edge_of_bytes_in_front_of_the_ring_is_not_that_of_the_ring() {
    for cold in [false, true] {
        let mut sim = Sim::new();
        sim.control(libc::EPOLL_CTL_ADD, 0, IN | ET, 1).unwrap();
        sim.expose(cold);
        sim.arrives(0);
        assert_eq!(sim.wait_now(0, 4).unwrap(), [1]);
        sim.takes(0, true);
        sim.goes_out(0);
        sim.arrives(0);
        sim.lands(0);
        assert_eq!(sim.wait_now(0, 4).unwrap(), [1]);
        sim.lands(0);
        sim.takes(0, false);
        assert_eq!(sim.wait_now(0, 4).unwrap(), [1], "cold: {cold}");
        assert!(sim.wait_now(0, 4).unwrap().is_empty());
    }
}
