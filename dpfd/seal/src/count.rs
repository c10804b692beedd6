//! What is counted: packets that were dropped, by reason, and what went well.

use core::fmt;

/// Why a packet was dropped. Nothing else has happened then, except where it says so.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Refused {
    /// It is shorter than any of its kind.
    Short,
    /// It does not begin as a packet: its sender does not seal, or is none of this network's.
    Plain,
    /// It is of another version of the layout.
    Version,
    /// It is of a kind that is not known.
    Kind,
    /// It is not from the node that this is with, or not to this one.
    Node,
    /// It was not made with the key of this graph.
    Key,
    /// It begins a handshake, and is not later than one that was answered: somebody replays it, or the sender's clock was
    /// set back. It is told what would be later, once a second at most while it is heard otherwise.
    Stale,
    /// It begins a handshake just after another one.
    Soon,
    /// It answers a handshake that nobody began, or that is over.
    Unasked,
    /// It contradicts the handshake that it belongs to.
    Handshake,
    /// Its sender authenticates and this side encrypts, or the reverse.
    Mode,
    /// It is of a session that is not known here. If there is none at all, or nothing else was heard for a while, a handshake begins from this side.
    Session,
    /// It came so much later than others that nobody knows any more whether it came before.
    Late,
    /// It came before.
    Again,
    /// Its tag is wrong: it was damaged on its way, or forged.
    Tag,
}

impl Refused {
    /// How many reasons there are.
    pub const COUNT: usize = 15;

    /// All of them, in the order of their counters.
    pub const ALL: [Refused; Refused::COUNT] = [
        Refused::Short,
        Refused::Plain,
        Refused::Version,
        Refused::Kind,
        Refused::Node,
        Refused::Key,
        Refused::Stale,
        Refused::Soon,
        Refused::Unasked,
        Refused::Handshake,
        Refused::Mode,
        Refused::Session,
        Refused::Late,
        Refused::Again,
        Refused::Tag,
    ];

    /// The reason in a few words.
    pub const fn words(self) -> &'static str {
        match self {
            Refused::Short => "too short",
            Refused::Plain => "not sealed",
            Refused::Version => "another version",
            Refused::Kind => "of no known kind",
            Refused::Node => "for or from others",
            Refused::Key => "another key",
            Refused::Stale => "a handshake of before",
            Refused::Soon => "a handshake too soon",
            Refused::Unasked => "answers no handshake",
            Refused::Handshake => "contradicts its handshake",
            Refused::Mode => "encrypted here and not there, or the reverse",
            Refused::Session => "of another session",
            Refused::Late => "too late",
            Refused::Again => "came before",
            Refused::Tag => "damaged or forged",
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

impl core::error::Error for Refused {}

/// Counters since they were made. They wrap around.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Frames that were sealed.
    pub sealed: u64,
    /// Frames that were opened.
    pub opened: u64,
    /// Sessions that began, as either side: at least one in two minutes of traffic, and one more after each restart.
    pub sessions: u64,
    /// Handshakes that this side began, repeats included.
    pub initiations: u64,
    /// Handshakes that came to nothing here, for want of random numbers.
    pub failures: u64,
    refused: [u64; Refused::COUNT],
}

impl Counts {
    /// Packets that were dropped for this reason.
    pub fn refused(&self, reason: Refused) -> u64 {
        self.refused[reason as usize]
    }

    /// Packets that were dropped, for whatever reason.
    pub fn refused_sum(&self) -> u64 {
        self.refused.iter().fold(0, |sum, n| sum.wrapping_add(*n))
    }

    /// Counts one that was dropped. For whoever sorts packets of several nodes, and finds some of none.
    pub fn refuse(&mut self, reason: Refused) {
        add(&mut self.refused[reason as usize]);
    }
}

pub(crate) fn add(count: &mut u64) {
    *count = count.wrapping_add(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
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
