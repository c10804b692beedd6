//! Random programs against a plain model of epoll(7): one set, two threads, connections whose bytes come through a ring,
//! descriptors that are none, duplicates, values that several registrations share.
//!
//! The world below is the kernel and the peers as they are under the shim: it knows bells, not bytes. Beside it stands
//! what the program believes it talks to: epoll over sockets whose bytes are in the kernel. After every step no thread
//! may sleep while that one has something of which nobody was told; what is reported must be there; and a wait that does
//! not sleep reports all there is.

mod asleep;
mod edges;
mod forks;
mod kernel;
mod late;
mod outside;
mod replaced;
mod world;

use proptest::prelude::*;

use super::*;
use kernel::{CONNS, FILES};
use world::Sim;

/// One operation of a program, or of its peers.
#[derive(Debug, Clone)]
enum Op {
    Add(i32, u32, u64),
    Mod(i32, u32, u64),
    Del(i32),
    /// The peer sends on a connection, or something else becomes ready.
    Arrives(usize),
    /// The program takes some, or all, of what is there.
    Takes(usize, bool),
    Dup(usize),
    Close(i32),
    /// A thread waits without sleeping, for so many events.
    Look(usize, usize),
    /// A thread waits until there is something, and has room for so many events.
    Sleep(usize, usize),
    /// A receive or a poll makes a connection hot that no set watches: what comes is not rung for.
    Heats(usize),
    Expose(bool),
    /// Somebody takes the bells of a connection, and leaves what they announced.
    Robbed(usize),
    /// Its sender goes to TCP and back to its ring while the window is full; and what it sent there arrives.
    GoesOut(usize),
    Lands(usize),
    /// The program's own sends go through TCP, or through the ring again.
    Splices(usize, bool),
    /// A connection's peer closes, or is killed.
    Ends(usize, bool),
    /// The peer resets a connection, or is killed with bytes unread.
    Resets(usize, bool),
    /// The set is closed, perhaps under threads that sleep in it, and another one takes its memory, or not.
    Closes(bool),
    /// Somebody left the set in the middle of a change, and it is mended.
    Torn,
    /// The program connects a socket.
    Connects(usize),
    /// A set among the registered files is closed, and another one has its place, and often its number.
    RenewsInner,
    /// A connection's number comes to stand for another file, which the program takes for the same.
    Replaced(i32),
    /// Another set gets a connection as well, or has it no more.
    Elsewhere(usize, bool),
    /// That one has it hot, if nobody waits for it here.
    HeatsElsewhere(usize),
    /// What comes next happens before a thread runs that was woken.
    AtOnce,
}

fn events() -> impl Strategy<Value = u32> {
    let plain = prop_oneof![3 => Just(IN), 3 => Just(OUT), 3 => Just(IN | OUT), 1 => Just(0)];
    let how = prop_oneof![4 => Just(0), 3 => Just(ET), 1 => Just(ONESHOT), 1 => Just(ET | ONESHOT)];
    (plain, how).prop_map(|(bits, how)| bits | how)
}

fn op() -> impl Strategy<Value = Op> {
    let number = 0..12i32;
    let thread = 0..2usize;
    // Few values, so that some are shared; and those that are the descriptor's own.
    let data = prop_oneof![2 => 1..4u64, 3 => 100..112u64];
    let file = 0..FILES;
    prop_oneof![
        4 => (number.clone(), events(), data.clone()).prop_map(|(fd, e, d)| Op::Add(fd, e, d)),
        3 => (number.clone(), events(), data).prop_map(|(fd, e, d)| Op::Mod(fd, e, d)),
        2 => number.clone().prop_map(Op::Del),
        8 => file.clone().prop_map(Op::Arrives),
        6 => (file.clone(), any::<bool>()).prop_map(|(f, all)| Op::Takes(f, all)),
        1 => file.prop_map(Op::Dup),
        1 => number.prop_map(Op::Close),
        6 => (thread.clone(), 1..5usize).prop_map(|(t, max)| Op::Look(t, max)),
        5 => (thread, prop_oneof![Just(1usize), Just(8)]).prop_map(|(t, room)| Op::Sleep(t, room)),
        2 => (0..CONNS).prop_map(Op::Heats),
        1 => any::<bool>().prop_map(Op::Expose),
        1 => (0..FILES).prop_map(Op::Robbed),
        1 => (0..FILES).prop_map(Op::GoesOut),
        2 => (0..FILES).prop_map(Op::Lands),
        1 => (0..FILES, any::<bool>()).prop_map(|(f, by_tcp)| Op::Splices(f, by_tcp)),
        1 => (0..FILES, any::<bool>()).prop_map(|(f, killed)| Op::Ends(f, killed)),
        1 => (0..FILES, any::<bool>()).prop_map(|(f, killed)| Op::Resets(f, killed)),
        1 => any::<bool>().prop_map(Op::Closes),
        1 => (0..FILES).prop_map(Op::Connects),
        1 => Just(Op::Torn),
        1 => Just(Op::RenewsInner),
        1 => (0..FILES, any::<bool>()).prop_map(|(f, more)| Op::Elsewhere(f, more)),
        2 => (0..CONNS).prop_map(Op::HeatsElsewhere),
        8 => Just(Op::AtOnce),
        1 => (0..12i32).prop_map(Op::Replaced),
    ]
}

/// Many begin with two connections that are hot and have nothing, with a thread that sleeps then, or with somebody outside: few
/// would come so far.
fn program() -> impl Strategy<Value = Vec<Op>> {
    let begins = (0..4usize, events()).prop_map(|(how, events)| {
        let hot = |conn: usize| {
            let add = Op::Add(conn as i32, events | IN, 100 + conn as u64);
            [add, Op::Arrives(conn), Op::Look(0, 4), Op::Takes(conn, true)]
        };
        match how {
            0 => Vec::new(),
            1 => [hot(0), hot(1)].concat(),
            // Something that no bell announced, in a set that is watched from outside.
            2 => [&hot(0)[..], &hot(1), &[Op::Arrives(0), Op::Arrives(0), Op::Expose(true)]].concat(),
            _ => [&hot(0)[..], &hot(1), &[Op::Look(0, 4), Op::Sleep(0, 8)]].concat(),
        }
    });
    (begins, prop::collection::vec(op(), 1..60)).prop_map(|(begins, ops)| [begins, ops].concat())
}

fn run(ops: &[Op]) -> Result<(), String> {
    follow(ops).map(drop)
}

fn follow(ops: &[Op]) -> Result<Sim, String> {
    let mut sim = Sim::new();
    let mut at_once = false;
    for op in ops {
        if !at_once {
            sim.settle()?;
        }
        at_once = false;
        match *op {
            Op::Add(fd, events, data) => sim.control(libc::EPOLL_CTL_ADD, fd, events, data)?,
            Op::Mod(fd, events, data) => sim.control(libc::EPOLL_CTL_MOD, fd, events, data)?,
            Op::Del(fd) => sim.control(libc::EPOLL_CTL_DEL, fd, 0, 0)?,
            Op::Arrives(file) => sim.arrives(file),
            Op::Takes(file, all) => sim.takes(file, all),
            Op::Dup(file) => sim.dup(file),
            Op::Close(fd) => sim.close(fd),
            Op::Look(thread, max) => sim.look(thread, max)?,
            Op::Sleep(thread, room) => sim.sleep_with(thread, room)?,
            Op::Heats(file) => sim.heats(file),
            Op::Expose(more) => sim.expose(more),
            Op::Robbed(file) => sim.robbed(file),
            Op::GoesOut(file) => sim.goes_out(file),
            Op::Lands(file) => sim.lands(file),
            Op::Splices(file, by_tcp) => sim.splices(file, by_tcp),
            Op::Ends(file, killed) => sim.ends(file, killed),
            Op::Resets(file, killed) => sim.resets(file, killed),
            Op::Closes(keep) => sim.closes(keep),
            Op::Connects(file) => sim.connects(file),
            Op::Torn => sim.tears(),
            Op::RenewsInner => sim.renews_inner(),
            Op::Elsewhere(file, more) => sim.elsewhere(file, more),
            Op::HeatsElsewhere(file) => sim.heats_elsewhere(file),
            Op::AtOnce => at_once = true,
            Op::Replaced(fd) => sim.replaces(fd),
        }
    }
    sim.settle()?;
    Ok(sim)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20000, max_shrink_iters: 20_000, ..ProptestConfig::default() })]
    #[test]
    fn random_programs_are_told_what_epoll_would_tell_them(ops in program()) {
        if let Err(e) = run(&ops) {
            prop_assert!(false, "{e}\n{ops:#?}");
        }
    }

    #[test]
    fn what_is_handed_over_is_as_the_program_believes(ops in program()) {
        if let Err(e) = follow(&ops).and_then(|mut sim| sim.hand_over()) {
            prop_assert!(false, "{e}\n{ops:#?}");
        }
    }
}

/// What Apache's event MPM does (case G1): a thread adds a connection to the set in which another one sleeps.
#[test]
fn what_is_added_while_somebody_sleeps_wakes_them() {
    run(&[Op::Sleep(0, 8), Op::Arrives(0), Op::Add(0, IN, 1)]).unwrap();
    run(&[
        Op::Add(0, IN, 1),
        Op::Arrives(0),
        Op::Look(0, 4),
        Op::Takes(0, true),
        Op::Sleep(0, 8),
        Op::Arrives(0),
    ])
    .unwrap();
    // Deleted and added anew, by another thread, while the first one sleeps and the request is there already.
    let ops = [
        Op::Add(0, IN, 1),
        Op::Arrives(0),
        Op::Look(0, 4),
        Op::Takes(0, true),
        Op::Look(0, 4),
        Op::Del(0),
        Op::Sleep(0, 8),
        Op::Arrives(0),
        Op::Add(0, IN, 1),
    ];
    run(&ops).unwrap();
}

#[test]
fn a_short_array_gets_both_what_is_hot_and_what_the_kernel_has() {
    let mut sim = Sim::new();
    sim.control(libc::EPOLL_CTL_ADD, 0, IN, 1).unwrap();
    sim.control(libc::EPOLL_CTL_ADD, 3, IN, 2).unwrap();
    sim.arrives(0);
    sim.arrives(3);
    let mut told = [0; 3];
    for _ in 0..20 {
        for data in sim.wait_now(0, 1).unwrap() {
            told[data as usize] += 1;
        }
    }
    assert!(told[1] >= 4 && told[2] >= 4, "{told:?}");
}

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

/// The kernel tells of writability, and takes the only place: what the ring has is told with it.
#[test]
fn one_place_is_enough_for_both() {
    let mut sim = Sim::new();
    sim.control(libc::EPOLL_CTL_ADD, 0, IN | ET, 1).unwrap();
    sim.arrives(0);
    sim.wait_now(0, 1).unwrap();
    for _ in 0..3 {
        sim.control(libc::EPOLL_CTL_MOD, 0, IN | OUT, 1).unwrap();
        assert_eq!(sim.wait_with_bits(0, 1).unwrap(), [(IN | OUT, 1)]);
    }
}

/// A receive took the bell of what came before; what came since has one that a change of interests took.
#[test]
fn the_one_report_tells_all_that_is_ready() {
    run(&[
        Op::Arrives(2),
        Op::Add(2, IN, 1),
        Op::Takes(2, false),
        Op::Arrives(2),
        Op::Mod(2, IN | OUT | ONESHOT, 1),
        Op::Look(0, 4),
    ])
    .unwrap();
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

/// A socket that is registered before it is connected is that connection from then on.
#[test]
fn a_socket_may_be_registered_before_it_is_connected() {
    for other in [None, Some(0), Some(3)] {
        let mut sim = Sim::new();
        // With a connection among them, and without.
        other.into_iter().for_each(|fd| sim.control(libc::EPOLL_CTL_ADD, fd, IN, 9).unwrap());
        sim.control(libc::EPOLL_CTL_ADD, 2, IN | ET, 1).unwrap();
        sim.connects(2);
        sim.arrives(2);
        assert_eq!(sim.wait_now(0, 4).unwrap(), [1]);
        assert_eq!(sim.hot(), 1, "a bell makes it hot");
        sim.control(libc::EPOLL_CTL_DEL, 2, 0, 0).unwrap();
        sim.closes(true);
    }
}

/// Of a socket that was registered for one event before it was connected, nobody knows here whether that was told.
#[test]
fn the_one_event_of_a_socket_before_its_connect_is_the_kernels_to_tell() {
    let before = [Op::Add(2, IN | OUT | ONESHOT, 1), Op::Look(0, 4)];
    for then in [Op::Torn, Op::Expose(true)] {
        let mut sim = follow(&before).unwrap();
        sim.arrives(2);
        match then {
            Op::Torn => sim.tears(),
            _ => sim.expose(true),
        }
        assert!(sim.wait_now(0, 4).unwrap().is_empty(), "told of its room before");
        sim.control(libc::EPOLL_CTL_MOD, 2, IN | ONESHOT, 1).unwrap();
        assert_eq!(sim.wait_now(0, 4).unwrap(), [1]);
    }
    let mut sim = follow(&[Op::Add(2, IN | ONESHOT, 1), Op::Look(0, 4)]).unwrap();
    sim.arrives(2);
    assert_eq!(sim.wait_now(0, 4).unwrap(), [1], "not told before");
}

/// A set that was closed is in nobody's way: neither the next one that has its place, perhaps its number, nor the values.
#[test]
fn a_set_that_is_made_anew_is_another_one() {
    let add = Op::Add(5, IN, 105);
    for close in [Op::RenewsInner, Op::Close(5)] {
        run(&[add.clone(), close, Op::RenewsInner, add.clone(), Op::Del(5), add.clone(), Op::Closes(true)])
            .unwrap();
    }
    let mut sim = Sim::new();
    sim.control(libc::EPOLL_CTL_ADD, 5, IN, 1).unwrap();
    sim.control(libc::EPOLL_CTL_ADD, 0, IN, 1).unwrap();
    sim.close(5);
    sim.arrives(0);
    sim.wait_now(0, 4).unwrap();
    assert_eq!(sim.hot(), 1, "the value is that of one registration");
}

/// A registration stays behind in the kernel when its number is closed and a copy of the descriptor is not; no number finds it
/// any more. Its value is remembered.
#[test]
fn what_a_closed_number_left_behind_is_told_of() {
    let left = [Op::Add(4, OUT, 1), Op::Dup(4), Op::Close(4)];
    for lost in [Op::Del(4), Op::Dup(0)] {
        let then = [lost, Op::Add(0, IN, 1), Op::Sleep(0, 8), Op::Look(0, 4)];
        run(&left.iter().chain(&then).cloned().collect::<Vec<_>>()).unwrap();
    } // Behind a connection with its value that is deleted here, and not in the kernel yet.
    let then = [Op::Arrives(0), Op::Add(0, IN, 1), Op::Del(0), Op::Look(0, 4)];
    run(&left.iter().chain(&then).cloned().collect::<Vec<_>>()).unwrap();
}

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
    // What is changed while others may change it as well, rests no more.
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
