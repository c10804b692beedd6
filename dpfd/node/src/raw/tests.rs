use dp_flow::{crc32c, Address, Place};

use super::*;
use crate::incoming::Budget;

#[derive(Debug)]
struct Sending(Vec<u8>);

impl Message for Sending {
    fn size(&self) -> usize {
        self.0.len()
    }
    fn immediate(&self) -> Option<u64> {
        None
    }
    fn copy_from(&self, begin: usize, to: &mut [u8]) -> usize {
        let n = to.len().min(self.0.len() - begin);
        to[..n].copy_from_slice(&self.0[begin..][..n]);
        n
    }
}

/// Has room for so many messages.
#[derive(Default)]
struct Pool {
    room: usize,
    messages: Vec<Vec<u8>>,
}

impl Receiver for Pool {
    fn is_there(&mut self) -> bool {
        true
    }

    fn has_room(&mut self, _: usize) -> bool {
        true
    }
    fn take(&mut self, message: &[u8], _: Option<u64>, _: Place) -> bool {
        let has_room = self.room > 0;
        if has_room {
            self.room -= 1;
            self.messages.push(message.to_vec());
        }
        has_room
    }
}

const BYTES: usize = 100_000;

fn both() -> [Datagrams<Sending>; 2] {
    let at = |nid| Address { nid, dpid: 4000 };
    let one = |from, to| Datagrams::new(Config::new(at(from), at(to), from.into(), Some(crc32c))).unwrap();
    [one(1, 2), one(2, 1)]
}

fn frames(from: &mut Datagrams<Sending>) -> Vec<Vec<u8>> {
    let mut out = vec![0; 2000];
    std::iter::from_fn(|| from.poll_transmit(Some(7), &mut out).map(|len| out[..len].to_vec())).collect()
}

#[test]
fn a_message_without_room_is_lost_whole_and_keeps_nothing() {
    let [mut here, mut there] = both();
    let (mut budget, mut pool) = (Budget::new(BYTES), Pool { room: 1, ..Pool::default() });
    for len in [5000, 3000, 10] {
        here.push(0, Sending(vec![7; len]), true);
    }
    for frame in frames(&mut here) {
        there.on_frame(0, &frame, |_| Ok(()), &mut budget, BYTES, &mut pool).unwrap();
    }
    assert_eq!((pool.messages.len(), pool.messages[0].len()), (1, 5000));
    assert_eq!(budget.left(), BYTES);
    let (counts, _) = there.counts();
    assert_eq!((counts.messages_in, counts.messages_lost, counts.no_room), (1, 2, 2));
    assert_eq!((here.counts().1, here.waiting()), (Sent { messages: 3, dropped: 0 }, 0));
}

#[test]
fn what_is_dropped_here_is_counted_and_the_next_one_comes() {
    let [mut here, mut there] = both();
    let (mut budget, mut pool) = (Budget::new(BYTES), Pool { room: 9, ..Pool::default() });
    let mut out = vec![0; 2000];
    here.push(0, Sending(vec![1; 5000]), true);
    here.push(0, Sending(vec![2; 10]), true);
    let len = here.poll_transmit(Some(7), &mut out).expect("the first of four");
    there.on_frame(0, &out[..len], |_| Ok(()), &mut budget, BYTES, &mut pool).unwrap();
    here.drop_waiting();
    here.push(0, Sending(vec![3; 10]), true);
    for frame in frames(&mut here) {
        there.on_frame(0, &frame, |_| Ok(()), &mut budget, BYTES, &mut pool).unwrap();
    }
    assert_eq!(pool.messages, [vec![3; 10]]);
    assert_eq!(budget.left(), BYTES);
    assert_eq!(here.counts().1, Sent { messages: 1, dropped: 2 });
    assert_eq!(there.counts().0.messages_lost, 1, "the one that had begun");
}

#[test]
fn only_some_wait_for_a_greeting_and_frames_of_strangers_are_nothing() {
    let [mut here, mut there] = both();
    let (mut budget, mut pool) = (Budget::new(BYTES), Pool { room: 999, ..Pool::default() });
    let mut out = vec![0; 2000];
    (0..200).for_each(|_| here.push(0, Sending(vec![1; 10]), false));
    assert_eq!((here.waiting(), here.counts().1.dropped), (128, 72));
    assert_eq!(here.poll_transmit(None, &mut out), None);
    for frame in frames(&mut here) {
        let refused = Err(Refused::Incarnation);
        let admit = |tag| if tag == 7 { Ok(()) } else { Err(Refused::Incarnation) };
        assert_eq!(
            there.on_frame(0, &frame, |_| Err(Refused::Incarnation), &mut budget, BYTES, &mut pool),
            refused
        );
        there.on_frame(0, &frame, admit, &mut budget, BYTES, &mut pool).unwrap();
    }
    assert_eq!((pool.messages.len(), there.counts().0.refused), (128, 128));
}

#[test]
fn the_oldest_makes_room_and_none_waits_long_for_a_greeting() {
    let [mut here, _] = both();
    let mut budget = Budget::new(BYTES);
    (0..130).for_each(|i| here.push(i, Sending(vec![i as u8; 10]), false));
    assert_eq!(here.next().map(|first| first.0[0]), Some(2), "the ring of the sender frees its oldest first");
    assert_eq!(here.next_timeout(false), Some(2 + PATIENCE));
    here.expire(100 + PATIENCE, false, &mut budget, BYTES);
    assert_eq!((here.next().map(|first| first.0[0]), here.waiting()), (Some(101), 29));
    assert_eq!(here.next_timeout(true), None);
    here.expire(u64::MAX, true, &mut budget, BYTES);
    assert_eq!(here.waiting(), 29, "for room alone they wait as long as it takes");
    assert_eq!(here.counts().1.dropped, 101);
}

/// What another node makes this one keep is given back, whatever ends the message.
#[test]
fn a_message_without_its_end_keeps_nothing() {
    for end in ["gap", "tag", "time"] {
        let [mut here, mut there] = both();
        let (mut budget, mut pool) = (Budget::new(BYTES), Pool { room: 9, ..Pool::default() });
        here.push(0, Sending(vec![7; 5000]), true);
        let mut out = vec![0; 2000];
        let of = |tag: u32, here: &mut Datagrams<Sending>, out: &mut Vec<u8>| {
            let len = here.poll_transmit(Some(tag), out).expect("four of them");
            out[..len].to_vec()
        };
        let first = of(7, &mut here, &mut out);
        there.on_frame(0, &first, |_| Ok(()), &mut budget, BYTES, &mut pool).unwrap();
        assert_eq!(budget.left(), BYTES - 5000);
        match end {
            "gap" => {
                of(7, &mut here, &mut out);
                let third = of(7, &mut here, &mut out);
                there.on_frame(1, &third, |_| Ok(()), &mut budget, BYTES, &mut pool).unwrap();
            }
            "tag" => {
                let second = of(8, &mut here, &mut out);
                there.on_frame(1, &second, |_| Ok(()), &mut budget, BYTES, &mut pool).unwrap();
            }
            _ => {
                there.expire(REST - 1, true, &mut budget, BYTES);
                assert_eq!((budget.left(), there.next_timeout(true)), (BYTES - 5000, Some(REST)));
                there.expire(REST, true, &mut budget, BYTES);
                for frame in frames(&mut here) {
                    there.on_frame(REST, &frame, |_| Ok(()), &mut budget, BYTES, &mut pool).unwrap();
                }
            }
        }
        assert_eq!((budget.left(), there.next_timeout(true), pool.messages.len()), (BYTES, None, 0), "{end}");
        assert_eq!(there.counts().0.messages_lost, 1, "{end}");
    }
}

#[test]
fn frames_that_were_not_let_in_are_no_use_of_it() {
    let [mut here, mut there] = both();
    let (mut budget, mut pool) = (Budget::new(BYTES), Pool::default());
    here.push(0, Sending(vec![1; 10]), true);
    assert!(here.is_used() && !there.is_used());
    for frame in frames(&mut here) {
        let stranger = |_| Err(Refused::Incarnation);
        assert!(there.on_frame(0, &frame, stranger, &mut budget, BYTES, &mut pool).is_err());
        assert!(!there.is_used());
        there.on_frame(0, &frame, |_| Ok(()), &mut budget, BYTES, &mut pool).unwrap();
        assert!(there.is_used());
    }
}
