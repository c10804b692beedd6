//! Messages that were accepted from the sender and not acknowledged yet, in order.

use crate::frame::next_part;
use crate::number::place;

/// A message to be sent. Its bytes stay with whoever sends it; see [`Source`](crate::Source).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub struct Outgoing {
    /// Bytes, up to [`MESSAGE_MAX`](dp_abi::MESSAGE_MAX).
    pub total: u32,
    /// Eight bytes that the receiver is told with the first part.
    pub immediate: Option<u64>,
}

#[derive(Clone, Debug, Hash)]
pub(crate) struct Outbox<const W: usize> {
    /// Messages before this one are acknowledged, or were reported as lost.
    done: u64,
    /// The message that the next new part is of, and how much of it has been cut.
    current: u64,
    cut: u32,
    /// The next message to be accepted.
    next: u64,
    messages: [Outgoing; W],
}

/// The next new part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cut {
    pub message: u64,
    pub begin: u32,
    pub bytes: u16,
    pub last: bool,
}

impl<const W: usize> Outbox<W> {
    pub fn new() -> Outbox<W> {
        Outbox { done: 0, current: 0, cut: 0, next: 0, messages: [Outgoing::default(); W] }
    }

    pub fn is_full(&self) -> bool {
        self.next - self.done == W as u64
    }

    /// Accepts a message, where there is room. Its number.
    pub fn push(&mut self, message: Outgoing) -> u64 {
        let number = self.next;
        self.messages[place::<W>(number as u32)] = message;
        self.next += 1;
        number
    }

    pub fn get(&self, message: u64) -> Outgoing {
        self.messages[place::<W>(message as u32)]
    }

    /// The next new part, of up to `part_max` bytes.
    pub fn next_cut(&self, part_max: u16) -> Option<Cut> {
        if self.current == self.next {
            return None;
        }
        let Outgoing { total, immediate } = self.get(self.current);
        let left = total - self.cut;
        let bytes = next_part(part_max, self.cut, left, immediate);
        Some(Cut { message: self.current, begin: self.cut, bytes, last: u32::from(bytes) == left })
    }

    /// That part has its number now.
    pub fn take_cut(&mut self, cut: &Cut) {
        self.cut += u32::from(cut.bytes);
        if cut.last {
            self.current += 1;
            self.cut = 0;
        }
    }

    /// So many more messages are acknowledged.
    pub fn acknowledged(&mut self, messages: u64) {
        self.done += messages;
    }

    /// Messages before this one are acknowledged or lost.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// Forgets all that are not acknowledged: from which message to before which.
    pub fn lose(&mut self) -> (u64, u64) {
        let lost = (self.done, self.next);
        (self.done, self.current, self.cut) = (self.next, self.next, 0);
        lost
    }
}

#[cfg(any(test, kernel_tests))]
pub(crate) mod tests {
    use std::{assert, assert_eq};

    use super::*;
    use crate::frame::write_piece_head;

    cases! {
        messages_are_cut_into_full_parts_and_a_rest
        frames_of_a_message_are_of_one_length_but_the_last
        what_is_not_acknowledged_is_lost_with_what_was_not_begun
    }

    fn cuts<const W: usize>(
        outbox: &mut Outbox<W>,
        part_max: u16,
    ) -> impl Iterator<Item = (u64, u32, u16, bool)> + '_ {
        core::iter::from_fn(move || {
            let cut = outbox.next_cut(part_max)?;
            outbox.take_cut(&cut);
            Some((cut.message, cut.begin, cut.bytes, cut.last))
        })
    }

    fn messages_are_cut_into_full_parts_and_a_rest() {
        let mut outbox = Outbox::<4>::new();
        for total in [0, 10, 25] {
            outbox.push(Outgoing { total, immediate: None });
        }
        let expected =
            [(0, 0, 0, true), (1, 0, 10, true), (2, 0, 6, false), (2, 6, 10, false), (2, 16, 9, true)];
        assert!(cuts(&mut outbox, 10).eq(expected));
    }

    fn frames_of_a_message_are_of_one_length_but_the_last() {
        for immediate in [None, Some(7)] {
            let mut outbox = Outbox::<4>::new();
            outbox.push(Outgoing { total: 100, immediate });
            for (_, begin, bytes, last) in cuts(&mut outbox, 30) {
                let mut out = [0; 12];
                let (head, _) = write_piece_head(&mut out, begin == 0, last, 100, immediate);
                assert!(last || head + usize::from(bytes) == 30, "{begin}: {head} and {bytes}");
            }
            // Where there is less room than that takes, it goes on all the same.
            outbox.push(Outgoing { total: 3, immediate });
            assert!(cuts(&mut outbox, 1).map(|(.., bytes, _)| bytes).eq([1; 3]));
        }
    }

    fn what_is_not_acknowledged_is_lost_with_what_was_not_begun() {
        let mut outbox = Outbox::<4>::new();
        for _ in 0..4 {
            assert!(!outbox.is_full());
            outbox.push(Outgoing { total: 1, immediate: None });
        }
        assert!(outbox.is_full());
        outbox.take_cut(&outbox.next_cut(9).unwrap());
        outbox.acknowledged(1);
        assert_eq!(outbox.lose(), (1, 4));
        assert!(outbox.next_cut(9).is_none());
        assert_eq!(outbox.push(Outgoing::default()), 4, "numbers go on");
    }
}
