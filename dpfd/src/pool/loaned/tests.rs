//! One ring, as the kernel driver has it; the library's edges are in the tests of [`super::super::tokens`].

use super::*;

const RING: u32 = 0;

/// Messages that end at 10, 20, 30 and so on.
fn queue(messages: u64) -> Queue<u64> {
    let mut queue = Queue::default();
    (0..messages).for_each(|number| assert_eq!(queue.push(RING, 10 * (number + 1)), number));
    queue
}

/// What the ring's owner may overwrite from now on.
fn given(queue: &mut Queue<u64>) -> Option<u64> {
    let (given, _) = queue.give_back(RING, queue.first());
    queue.forget_done();
    given.map(|(end, _)| end)
}

#[test]
fn room_goes_back_in_order_whatever_the_order_of_releases() {
    let mut queue = queue(40);
    assert!(queue.mark(1).is_some() && queue.mark(1).is_none(), "twice is once");
    assert_eq!((given(&mut queue), queue.open()), (None, 39));
    assert!(queue.pop_oldest(0).is_none(), "one behind it was released before");
    assert!(queue.mark(0).is_some());
    assert_eq!((given(&mut queue), queue.open(), queue.first()), (Some(20), 38, 2));
    assert_eq!(queue.pop_oldest(2).map(|loan| loan.end), Some(30));
    assert!(queue.pop_oldest(2).is_none() && queue.pop_oldest(4).is_none(), "not the oldest");
    assert!(queue.mark(99).is_none() && queue.mark(0).is_none());
    (3..40).rev().for_each(|number| assert!(queue.mark(number).is_some()));
    assert_eq!((given(&mut queue), queue.open()), (Some(400), 0));
}

#[test]
fn what_was_given_up_goes_back_with_the_message_before_it() {
    let mut queue = queue(2);
    assert!(queue.extend(55));
    assert_eq!(queue.pop_oldest(0).map(|loan| loan.end), Some(10));
    assert_eq!(queue.pop_oldest(1).map(|loan| loan.end), Some(55));
    assert!(!queue.extend(60), "there is none before it");
}

#[test]
fn what_the_library_copies_is_not_the_programs() {
    let mut queue = queue(3);
    queue.copy(2);
    assert_eq!(queue.open(), 2);
    assert!(queue.get(2).is_some_and(|loan| !loan.is_open()));
    assert!(queue.mark(2).is_some());
    assert_eq!((given(&mut queue), queue.open()), (None, 2));
}

#[test]
fn an_immediate_is_known_until_its_message_is_released() {
    let mut queue = queue(1);
    queue.note(Beside::of(Some(7)));
    queue.push(RING, 20);
    assert_eq!((queue.immediate(0), queue.immediate(1)), (Some(7), None));
    assert!(queue.pop_oldest(0).is_none(), "there is something to forget");
    assert!(queue.mark(0).is_some());
    assert_eq!((given(&mut queue), queue.immediate(0)), (Some(10), None));
}
