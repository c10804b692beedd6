//! Random programs against a plain model of epoll(7): two sets with two threads each, connections whose bytes come through a ring,
//! descriptors that are none, duplicates, values that several registrations share.
//!
//! The world below is the kernel and the peers as they are under the shim: it knows bells, not bytes. Beside it stands
//! what the program believes it talks to: epoll over sockets whose bytes are in the kernel. After every step no thread
//! may sleep while that one has something of which nobody was told; what is reported must be there; and a wait that does
//! not sleep reports all there is.

mod asleep;
mod edges;
mod forks;
mod hot;
mod kernel;
mod kick;
mod late;
mod outside;
mod replaced;
mod world;

use proptest::prelude::*;

use super::*;
use kernel::{CONNS, EXCLUSIVE, FILES, PRI};
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
    /// A connection's peer sends a byte out of band.
    Urgent(usize),
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
    /// A thread does not come to run when it is woken; or it does.
    Holds(usize),
    Goes(usize),
    /// What is no connection is registered and closed without a word, many times.
    Wears,
    /// What comes next is done with the program's other set.
    OtherSet,
}

fn events() -> impl Strategy<Value = u32> {
    let plain = prop_oneof![3 => Just(IN), 3 => Just(OUT), 3 => Just(IN | OUT), 1 => Just(0)];
    let beside = prop_oneof![6 => Just(0), 1 => Just(RDHUP), 1 => Just(PRI), 1 => Just(RDHUP | PRI)];
    let how = prop_oneof![4 => Just(0), 3 => Just(ET), 1 => Just(ONESHOT), 1 => Just(ET | ONESHOT)];
    let usual = (plain.clone(), beside, how).prop_map(|(bits, beside, how)| bits | beside | how);
    // Which may be asked for together with little else.
    let (single, edge) = ((libc::EPOLLIN | libc::EPOLLOUT) as u32, prop_oneof![Just(0), Just(ET)]);
    let exclusive = (plain, edge).prop_map(move |(bits, edge)| bits & single | edge | EXCLUSIVE);
    prop_oneof![12 => usual.clone(), 2 => exclusive, 1 => usual.prop_map(|bits| bits | EXCLUSIVE)]
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
        2 => thread.clone().prop_map(Op::Holds),
        2 => thread.clone().prop_map(Op::Goes),
        1 => Just(Op::Wears),
        5 => (thread, prop_oneof![Just(1usize), Just(8)]).prop_map(|(t, room)| Op::Sleep(t, room)),
        2 => (0..CONNS).prop_map(Op::Heats),
        1 => any::<bool>().prop_map(Op::Expose),
        1 => (0..FILES).prop_map(Op::Robbed),
        1 => (0..FILES).prop_map(Op::GoesOut),
        2 => (0..FILES).prop_map(Op::Lands),
        1 => (0..FILES, any::<bool>()).prop_map(|(f, by_tcp)| Op::Splices(f, by_tcp)),
        1 => (0..FILES, any::<bool>()).prop_map(|(f, killed)| Op::Ends(f, killed)),
        1 => (0..FILES, any::<bool>()).prop_map(|(f, killed)| Op::Resets(f, killed)),
        1 => (0..CONNS).prop_map(Op::Urgent),
        4 => Just(Op::OtherSet),
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
    let begins = (0..8usize, events()).prop_map(|(how, events)| {
        let hot = |conn: usize| {
            let add = Op::Add(conn as i32, events | IN, 100 + conn as u64);
            [add, Op::Arrives(conn), Op::Look(0, 4), Op::Takes(conn, true)]
        };
        match how {
            0 => Vec::new(),
            1 => [hot(0), hot(1)].concat(),
            // Something that no bell announced, in a set that is watched from outside.
            2 => [&hot(0)[..], &hot(1), &[Op::Arrives(0), Op::Arrives(0), Op::Expose(true)]].concat(),
            // A connection in two sets, of which one has it hot.
            3 => [&hot(0)[..], &[Op::OtherSet], &hot(0), &[Op::Sleep(0, 8), Op::OtherSet]].concat(),
            4 => [&hot(0)[..], &hot(1), &[Op::Sleep(0, 8), Op::OtherSet], &hot(0)].concat(),
            5 => [&hot(0)[..], &hot(1), &[Op::Look(0, 4), Op::Sleep(0, 8)]].concat(),
            // A thread has the kernel's word of one event, for which another one looks by itself, in a set of a worn server.
            6 => {
                let once = Op::Add(0, events & !EXCLUSIVE | IN | ONESHOT, 100);
                let told = [Op::Heats(0), Op::Arrives(0), Op::AtOnce, Op::Holds(0)];
                [&[Op::Wears, Op::Sleep(0, 8)], &told[..], &[once]].concat()
            }
            _ => vec![Op::Wears, Op::Sleep(0, 8), Op::Sleep(1, 1), Op::Holds(0)],
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
            Op::Holds(thread) => sim.holds(thread),
            Op::Goes(thread) => sim.goes(thread)?,
            Op::Wears => sim.wears()?,
            Op::OtherSet => sim.swap(),
            Op::Urgent(file) => sim.sends_urgent(file),
            Op::Replaced(fd) => sim.replaces(fd),
        }
    }
    sim.settle()?;
    sim.all_go()?;
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
