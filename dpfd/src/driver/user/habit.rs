//! What a receiver has learned of its program's waits: whether the next sleep is brief, and whether it can do without bells
//! between its calls.
//!
//! To have no bells between calls (*silence*) costs a program that polls after all up to two leases, once. One that waits in
//! both by turns would pay that each time; so each message that was told late makes it keep its bells for twice as many
//! messages as the last one did, and being back in time makes up for it.

/// A sleep on the descriptor that was shorter says that the next one will be, too, ns.
const BRIEF: u64 = 1_000_000;
/// Messages behind a longer one that say as much.
const BURST: u8 = 8;
/// Sleeps on the edge that may end without a message: a sender can wake for nothing, and at no cost.
const PATIENCE: u8 = 8;
/// For how many messages a receiver that was told late has bells, at least and at most.
const ABSTAIN: [u16; 2] = [16, 4096];

/// As above.
#[derive(Debug, Default)]
pub struct Habit {
    /// The last sleep was brief.
    pub brief: bool,
    /// The program slept in `dp_read`: this many messages more, and it is not believed to wait in poll. 0: it may.
    trust: u8,
    /// Messages taken when it last dozed, and how often it was woken for none since.
    taken: u64,
    in_vain: u8,
    /// For so many messages no silence, and for how many it was the last time.
    pub abstains: [u16; 2],
}

impl Habit {
    /// Whether the endpoint may have no bells while the program is elsewhere.
    pub fn may_be_silent(&self) -> bool {
        self.abstains[0] == 0
    }

    /// After a lease in silence: whether a message waited at its end, so that a program that polls hears of it late.
    pub fn count_silence(&mut self, late: bool) {
        let last = self.abstains[1];
        self.abstains = match late {
            true => [last.saturating_mul(2).clamp(ABSTAIN[0], ABSTAIN[1]); 2],
            false => [0, last / 2],
        };
    }

    /// It slept on the descriptor for so long, ns, and was woken.
    pub fn slept(&mut self, ns: u64) {
        self.brief = ns < BRIEF;
        self.trust = if self.brief { 1 } else { BURST };
    }

    /// It sleeps on the edge, and has taken so many messages by now.
    pub fn dozes(&mut self, taken: u64) {
        self.in_vain = if taken == self.taken { self.in_vain + 1 } else { 0 };
        self.taken = taken;
        if self.in_vain == PATIENCE {
            (self.brief, self.in_vain) = (false, 0);
        }
    }

    /// The program waits in a call, and nowhere else.
    pub fn waits_here(&mut self) {
        self.trust = 1;
    }

    /// It did not come back in time.
    pub fn stays_away(&mut self) {
        (self.brief, self.trust) = (false, 0);
    }

    /// A message was taken: whether the program is believed to wait in its calls from here on.
    #[inline(always)]
    pub fn believes(&mut self) -> bool {
        if !self.may_be_silent() {
            self.abstains[0] -= 1;
            return false;
        }
        match self.trust {
            0 => false,
            left => {
                self.trust = left - 1;
                left == 1
            }
        }
    }
}

#[cfg(test)]
mod tests;
