//! What the kernel told a thread in its sleep, while others were told of the same, closed it, and registered something else.

use libc::epoll_event;

use super::super::*;
use super::kernel::{File, Group, Kernel, CONNS, FILES};

const ONE: u32 = IN | ONESHOT;
const VALUE: u64 = 7;

/// A set with connection 0 at number 0, for one event, and a thread that sleeps in it; and since when.
fn asleep() -> (Set, Kernel, u32) {
    let (mut set, mut kernel) = (Set::new(), Kernel::default());
    kernel.files = vec![File::default(); FILES];
    kernel.numbers = [(0, 0), (1, 2)].into();
    set.control(libc::EPOLL_CTL_ADD, 0, Target::Conn(0), Some((ONE, VALUE)), &mut kernel).unwrap();
    set.control(libc::EPOLL_CTL_ADD, 1, Target::Conn(2), Some((ONE, 100)), &mut kernel).unwrap();
    set.enter(1, &mut kernel);
    set.sleeps(1, true);
    let from = set.moment();
    (set, kernel, from)
}

/// The events of the kernel's that the program is told of; `from`: the moment at which the sleep began that brought them.
fn told(set: &mut Set, kernel: &mut Kernel, from: Option<u32>, events: &[(u32, u64)]) -> Vec<(u32, u64)> {
    let mut room = [epoll_event { events: 0, u64: 0 }; 8];
    for (to, &(events, u64)) in room.iter_mut().zip(events) {
        *to = epoll_event { events, u64 };
    }
    let mut out = Out::new(&mut room);
    set.begin();
    match from {
        Some(from) => set.filter_after_sleep(from, events.len(), &mut out, kernel),
        None => set.filter(events.len(), &mut out, kernel),
    }
    let n = out.len();
    room[..n].iter().map(|e| (e.events, e.u64)).collect()
}

/// Another thread is told of connection 0, and closes it.
fn closes(set: &mut Set, kernel: &mut Kernel) {
    kernel.conn(0).on_tcp = 1;
    assert_eq!(told(set, kernel, None, &[(IN, VALUE)]), [(IN, VALUE)]);
    set.closing(0, 0, None, false, kernel);
    kernel.numbers.remove(&0);
    kernel.regs.retain(|key, _| key.1 != 0);
}

/// Connection 1, which is no channel yet, has the number, and the value.
fn next_one(set: &mut Set, kernel: &mut Kernel) {
    kernel.files[1].young = true;
    kernel.numbers.insert(0, 1);
    set.control(libc::EPOLL_CTL_ADD, 0, Target::Conn(1), Some((ONE, VALUE)), kernel).unwrap();
}

fn bytes_come(kernel: &mut Kernel) -> Vec<(u32, u64)> {
    kernel.conn(1).on_tcp += 1;
    kernel.event(1, false);
    kernel.poll(4)
}

#[test]
fn a_late_word_of_a_former_connection_is_dropped() {
    let (mut set, mut kernel, from) = asleep();
    closes(&mut set, &mut kernel);
    // Of the number nobody knows now.
    assert!(told(&mut set, &mut kernel, Some(from), &[(IN, VALUE)]).is_empty());
    next_one(&mut set, &mut kernel);
    for late in [IN, IN | RDHUP, IN | RDHUP | HUP] {
        assert!(told(&mut set, &mut kernel, Some(from), &[(late, VALUE)]).is_empty());
    }
    let own = bytes_come(&mut kernel);
    assert_eq!(own, [(IN, VALUE)]);
    assert_eq!(told(&mut set, &mut kernel, None, &own), own);
}

/// Whichever comes first, the other one would be a second report of one event, to two threads at the same time.
#[test]
fn one_event_of_the_next_connection_is_told_once() {
    for late_first in [true, false] {
        let (mut set, mut kernel, from) = asleep();
        closes(&mut set, &mut kernel);
        next_one(&mut set, &mut kernel);
        let own = bytes_come(&mut kernel);
        // The thread that has it fell asleep behind the registration.
        let mine = Some(set.moment());
        let (first, second) = if late_first { (Some(from), mine) } else { (mine, Some(from)) };
        assert_eq!(told(&mut set, &mut kernel, first, &own), own);
        assert!(told(&mut set, &mut kernel, second, &own).is_empty());
        // And once more when it is asked for.
        set.control(libc::EPOLL_CTL_MOD, 0, Target::Conn(1), Some((ONE, VALUE)), &mut kernel).unwrap();
        let again = kernel.poll(4);
        assert_eq!(told(&mut set, &mut kernel, None, &again), own);
    }
}

/// Where something may have the value that nobody knows of, events are not dropped without a reason.
#[test]
fn one_event_is_told_once_where_another_with_the_value_was_forgotten() {
    let (mut set, mut kernel, from) = asleep();
    set.may_tell_unknown(VALUE, &mut kernel);
    kernel.conn(0).put = 1;
    kernel.bell(0);
    let event = [(IN, VALUE)];
    assert_eq!(told(&mut set, &mut kernel, None, &event), event);
    assert!(told(&mut set, &mut kernel, Some(from), &event).is_empty());
    let later = Some(set.moment());
    assert_eq!(told(&mut set, &mut kernel, later, &event), event, "it is the forgotten one's");
}

/// Another thread was told during the sleep, took what there was, and has asked for the next event.
#[test]
fn a_late_word_of_an_event_that_was_told_is_no_second_one() {
    for more in [false, true] {
        let (mut set, mut kernel, from) = asleep();
        kernel.conn(0).on_tcp = 1;
        let event = [(IN, VALUE)];
        assert_eq!(told(&mut set, &mut kernel, None, &event), event);
        kernel.conn(0).on_tcp = 0;
        set.control(libc::EPOLL_CTL_MOD, 0, Target::Conn(0), Some((ONE, VALUE)), &mut kernel).unwrap();
        kernel.conn(0).on_tcp = u64::from(more);
        let late = told(&mut set, &mut kernel, Some(from), &event);
        assert_eq!(late.len(), usize::from(more), "{late:?}");
        kernel.conn(0).on_tcp = 1;
        let again = told(&mut set, &mut kernel, None, &event);
        assert_eq!(again.len(), usize::from(!more), "{again:?}");
    }
}

/// The same, where it has not: whoever did that is another process that has the set, of which nobody hears here.
#[test]
fn a_late_word_of_an_event_that_others_asked_for_is_told() {
    let event = [(IN, VALUE)];
    for strangers in [false, true] {
        for by_ring in [false, true] {
            let (mut set, mut kernel, from) = asleep();
            match strangers {
                false => kernel.relatives_began = true,
                true => set.is_strangers_too(),
            }
            if by_ring {
                by_the_ring(&mut set, &mut kernel);
            } else {
                kernel.conn(0).on_tcp = 1;
                assert_eq!(told(&mut set, &mut kernel, None, &event), event);
            }
            // What the ring brought, the kernel may have told as well.
            let late = told(&mut set, &mut kernel, Some(from), &event);
            assert_eq!(late.is_empty(), by_ring, "{late:?}");
        }
    }
}

/// Another thread is told of connection 0 by its ring.
fn by_the_ring(set: &mut Set, kernel: &mut Kernel) {
    kernel.conn(0).put = 1;
    set.control(libc::EPOLL_CTL_MOD, 0, Target::Conn(0), Some((ONE, VALUE)), kernel).unwrap();
    let mut room = [epoll_event { events: 0, u64: 0 }; 8];
    let mut out = Out::new(&mut room);
    set.begin();
    set.peeked(&mut out, kernel);
    assert_eq!(out.len(), 1, "by the ring");
}

/// A server closes what is no channel without a word, again and again; what has a value of a former one is dropped all the same, of
/// whichever kind.
#[test]
fn a_late_word_is_dropped_in_a_worn_set() {
    let (mut set, mut kernel, from) = asleep();
    for value in 1000..2000 {
        set.may_tell_unknown(value, &mut kernel);
    }
    assert!(!set.is_shared(&kernel), "strangers have it no more than before");
    closes(&mut set, &mut kernel);
    assert!(told(&mut set, &mut kernel, Some(from), &[(IN, VALUE)]).is_empty());
    let later = Some(set.moment());
    assert_eq!(told(&mut set, &mut kernel, later, &[(IN, VALUE)]), [(IN, VALUE)], "a copy has the value");
    // Another thread has asked for the next event, and closes it then. Or it has another value by then.
    for closes_it in [true, false] {
        let (mut set, mut kernel, from) = asleep();
        kernel.conn(0).on_tcp = 1;
        assert_eq!(told(&mut set, &mut kernel, None, &[(IN, VALUE)]), [(IN, VALUE)]);
        let next = if closes_it { VALUE } else { VALUE + 1 };
        set.control(libc::EPOLL_CTL_MOD, 0, Target::Conn(0), Some((ONE, next)), &mut kernel).unwrap();
        if closes_it {
            set.closing(0, 0, None, false, &mut kernel);
        }
        assert!(told(&mut set, &mut kernel, Some(from), &[(IN, VALUE)]).is_empty());
    }
}

/// What is no connection has the value next: it is asked for its one event, which is told if it has one.
#[test]
fn a_late_word_of_a_former_connection_is_no_event_of_what_is_none() {
    let all =
        [false, true].map(|alone| [(false, false), (true, false), (true, true)].map(|how| (how, alone)));
    for ((open, spent), alone) in all.concat() {
        let (mut set, mut kernel, from) = asleep();
        closes(&mut set, &mut kernel);
        if alone {
            set.closing(1, 2, None, false, &mut kernel);
            kernel.regs.clear();
        }
        kernel.numbers.insert(0, CONNS);
        set.control(libc::EPOLL_CTL_ADD, 0, Target::Other, Some((ONE, VALUE)), &mut kernel).unwrap();
        if spent {
            kernel.files[CONNS].put = 1;
            let own = kernel.poll(4);
            let later = Some(set.moment());
            assert_eq!(told(&mut set, &mut kernel, later, &own), own);
        }
        if !open {
            kernel.numbers.remove(&0);
            kernel.regs.retain(|key, _| key.1 != 0);
        }
        assert!(told(&mut set, &mut kernel, Some(from), &[(IN, VALUE)]).is_empty());
        kernel.files[CONNS].put = 2;
        let own = kernel.poll(4);
        assert_eq!(told(&mut set, &mut kernel, Some(from), &own), [], "it is asked once more");
        let own = kernel.poll(4);
        assert_eq!(own.is_empty(), !open || spent, "{open} {spent}");
        assert_eq!(told(&mut set, &mut kernel, None, &own), own);
    }
}

/// An event of ours for a connection that is no channel any more, which has ended: of one event there is no second report.
#[test]
fn an_event_of_ours_for_what_is_no_channel_any_more_tells_of_the_end_too() {
    let (mut set, mut kernel, from) = asleep();
    kernel.conn(2).put = 1;
    let events = Some((ONE | RDHUP, 100));
    set.control(libc::EPOLL_CTL_MOD, 1, Target::Conn(2), events, &mut kernel).unwrap();
    let own = kernel.poll(4);
    assert_eq!(own, [(libc::EPOLLIN as u32, 100)], "no bell told of it");
    let c = kernel.conn(2);
    (c.young, c.ended, c.on_tcp) = (true, true, 1);
    let told = told(&mut set, &mut kernel, Some(from), &own);
    assert_eq!(told, [(libc::EPOLLIN as u32 | RDHUP, 100)]);
}

/// The kernel was kept from the one report, which was made of what stood in the ring. From the end of the connection, and from its
/// being no channel any more, it cannot be kept.
#[test]
fn an_end_is_no_second_report() {
    for (gone, forgotten) in [(false, false), (true, false), (false, true), (true, true)] {
        let (mut set, mut kernel, from) = asleep();
        by_the_ring(&mut set, &mut kernel);
        kernel.files[0].young = gone;
        if forgotten {
            set.may_tell_unknown(VALUE, &mut kernel);
        }
        let later = Some(set.moment());
        for from in [Some(from), later, None] {
            assert!(
                told(&mut set, &mut kernel, from, &[(HUP, VALUE)]).is_empty(),
                "{gone} {forgotten} {from:?}"
            );
        }
    }
}

/// What a relative has registered has a value like that of one which was told and is gone: the kernel tells of it, perhaps once.
#[test]
fn a_word_that_may_be_of_a_relatives_registration_is_told() {
    let (mut set, mut kernel, from) = asleep();
    closes(&mut set, &mut kernel);
    assert!(told(&mut set, &mut kernel, Some(from), &[(IN, VALUE)]).is_empty());
    kernel.relatives_began = true;
    assert_eq!(told(&mut set, &mut kernel, Some(from), &[(IN, VALUE)]), [(IN, VALUE)]);
}

/// The kernel takes a bell for the one event that a relative has asked for: whoever it tells cannot have it back, and tells the program.
#[test]
fn a_bell_that_may_have_been_a_relatives_one_event_is_told() {
    let (mut set, mut kernel, _) = asleep();
    set.control(libc::EPOLL_CTL_MOD, 1, Target::Conn(2), Some((IN, 100)), &mut kernel).unwrap();
    kernel.relatives_began = true;
    assert!(told(&mut set, &mut kernel, None, &[(IN, 100)]).is_empty());
    // By a set of the same, and before a child has begun to use that.
    (kernel.relatives_began, kernel.has_child) = (false, true);
    set.control(libc::EPOLL_CTL_MOD, 1, Target::Conn(2), Some((ONE, 100)), &mut kernel).unwrap();
    kernel.relatives_began = true;
    set.control(libc::EPOLL_CTL_MOD, 1, Target::Conn(2), Some((IN, 100)), &mut kernel).unwrap();
    assert_eq!(told(&mut set, &mut kernel, None, &[(IN, 100)]), [(IN, 100)]);
}

/// The same of a bell that stays, for a set that sleeps: it would be told of for ever, and is told of once, and once it is taken.
#[test]
fn a_bell_that_stays_is_told_once() {
    let (mut set, mut kernel, _) = asleep();
    kernel.relatives_began = true;
    set.control(libc::EPOLL_CTL_MOD, 1, Target::Conn(2), Some((ONE, 100)), &mut kernel).unwrap();
    set.control(libc::EPOLL_CTL_MOD, 1, Target::Conn(2), Some((IN, 100)), &mut kernel).unwrap();
    let bell = [(IN, 100)];
    for _ in 0..2 {
        kernel.group = Group::Told;
        (kernel.conn(2).grouped, kernel.conn(2).bells) = (true, 1);
        assert_eq!(told(&mut set, &mut kernel, None, &bell), bell);
        for _ in 0..3 {
            assert!(told(&mut set, &mut kernel, None, &bell).is_empty());
        }
        kernel.group = Group::Awake;
        assert_eq!(told(&mut set, &mut kernel, None, &bell), bell);
        assert_eq!(kernel.conn(2).bells, 0);
    }
}
