//! What a flow counts: frames that were dropped, by reason, and what went well.

use core::fmt;

/// Why a frame was dropped. Nothing else has happened then, and it may come again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Refused {
    /// It is shorter than a header, or than its header says.
    Short,
    /// It is of another version of the layout.
    Version,
    /// It is of a kind that is not known, or that this end does not speak (RAW for a flow, all others for raw mode).
    Kind,
    /// The fields of its header, or those behind it, contradict one another.
    Contradiction,
    /// Its checksum is wrong: it was damaged on its way.
    Checksum,
    /// It is not from the endpoint that this flow is with, or not to this one.
    Address,
    /// It belongs to an earlier incarnation of one of the two ends.
    Incarnation,
    /// It came before this end knew with whom it speaks.
    Early,
    /// It acknowledges what was never sent.
    Acknowledged,
    /// Its number is beyond the room that was granted.
    Beyond,
    /// Its part does not continue the message before it, or begins one that is longer than any may be.
    Part,
    /// Its part is longer than this end said that it takes.
    Long,
}

impl Refused {
    /// How many reasons there are.
    pub const COUNT: usize = 12;

    /// All of them, in the order of [`Counts::refused`].
    pub const ALL: [Refused; Refused::COUNT] = [
        Refused::Short,
        Refused::Version,
        Refused::Kind,
        Refused::Contradiction,
        Refused::Checksum,
        Refused::Address,
        Refused::Incarnation,
        Refused::Early,
        Refused::Acknowledged,
        Refused::Beyond,
        Refused::Part,
        Refused::Long,
    ];

    /// The reason in a few words.
    pub const fn words(self) -> &'static str {
        match self {
            Refused::Short => "shorter than it says",
            Refused::Version => "another version",
            Refused::Kind => "of no use here",
            Refused::Contradiction => "contradicts itself",
            Refused::Checksum => "damaged",
            Refused::Address => "for others",
            Refused::Incarnation => "of an earlier incarnation",
            Refused::Early => "before the flow began",
            Refused::Acknowledged => "acknowledges what was not sent",
            Refused::Beyond => "beyond the room",
            Refused::Part => "does not continue its message",
            Refused::Long => "too long a part",
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

impl core::error::Error for Refused {}

/// Counters of a flow since it was made, over all of its incarnations. They wrap around.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Frames given out by `poll_transmit`, of all kinds.
    pub frames_out: u64,
    /// Parts among them that had been sent before.
    pub repeats: u64,
    /// Frames that were taken in, of all kinds.
    pub frames_in: u64,
    /// Parts that had come before. Dropped.
    pub again: u64,
    /// Parts that came before another one with a lower number.
    pub out_of_order: u64,
    /// Times that nothing at all was heard of what was sent until the time-out.
    pub timeouts: u64,
    /// Times that it turned out that answers had only been late.
    pub early_timeouts: u64,
    /// Messages of which the last part was given to the sink.
    pub messages_in: u64,
    /// Messages that the other end has acknowledged.
    pub messages_out: u64,
    /// Acknowledgements of parts as long as the way carries ([`Flow::set_part_max`](crate::Flow::set_part_max)).
    pub full_parts: u64,
    /// Messages that were reported as lost to their sender.
    pub messages_lost: u64,
    /// Calls of `poll_transmit` with a buffer shorter than `frame_max`: nothing was sent.
    pub short_buffers: u64,
    refused: [u64; Refused::COUNT],
}

impl Counts {
    /// Frames that were dropped for this reason.
    pub fn refused(&self, reason: Refused) -> u64 {
        self.refused[reason as usize]
    }

    /// Frames that were dropped, for whatever reason.
    pub fn refused_sum(&self) -> u64 {
        self.refused.iter().fold(0, |sum, n| sum.wrapping_add(*n))
    }

    pub(crate) fn refuse(&mut self, reason: Refused) {
        add(&mut self.refused[reason as usize], 1);
    }
}

/// Nothing a flow does depends on what it counted, so counters do not tell its states apart.
impl core::hash::Hash for Counts {
    fn hash<H: core::hash::Hasher>(&self, _: &mut H) {}
}

pub(crate) fn add(count: &mut u64, n: u64) {
    *count = count.wrapping_add(n);
}

#[cfg(any(test, kernel_tests))]
pub(crate) mod tests {
    use std::assert_eq;

    use super::*;

    cases! {
        every_reason_has_a_counter_of_its_own
    }

    fn every_reason_has_a_counter_of_its_own() {
        let mut counts = Counts::default();
        for (n, reason) in Refused::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, n);
            (0..=n).for_each(|_| counts.refuse(reason));
        }
        for (n, reason) in Refused::ALL.into_iter().enumerate() {
            assert_eq!(counts.refused(reason), n as u64 + 1, "{reason}");
        }
        assert_eq!(counts.refused_sum(), (1..=Refused::COUNT as u64).sum::<u64>());
    }
}
