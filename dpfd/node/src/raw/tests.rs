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
        here.push(Sending(vec![7; len]), true);
    }
    for frame in frames(&mut here) {
        there.on_frame(&frame, |_| Ok(()), &mut budget, BYTES, &mut pool).unwrap();
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
    here.push(Sending(vec![1; 5000]), true);
    here.push(Sending(vec![2; 10]), true);
    let len = here.poll_transmit(Some(7), &mut out).expect("the first of four");
    there.on_frame(&out[..len], |_| Ok(()), &mut budget, BYTES, &mut pool).unwrap();
    here.drop_waiting();
    here.push(Sending(vec![3; 10]), true);
    for frame in frames(&mut here) {
        there.on_frame(&frame, |_| Ok(()), &mut budget, BYTES, &mut pool).unwrap();
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
    (0..200).for_each(|_| here.push(Sending(vec![1; 10]), false));
    assert_eq!((here.waiting(), here.counts().1.dropped), (128, 72));
    assert_eq!(here.poll_transmit(None, &mut out), None);
    for frame in frames(&mut here) {
        let refused = Err(Refused::Incarnation);
        let admit = |tag| if tag == 7 { Ok(()) } else { Err(Refused::Incarnation) };
        assert_eq!(
            there.on_frame(&frame, |_| Err(Refused::Incarnation), &mut budget, BYTES, &mut pool),
            refused
        );
        there.on_frame(&frame, admit, &mut budget, BYTES, &mut pool).unwrap();
    }
    assert_eq!((pool.messages.len(), there.counts().0.refused), (128, 128));
}
