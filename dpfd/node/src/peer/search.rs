//! How long packets may be on a route where long ones vanish and nobody says so: a router that is kept from speaking, a switch
//! whose MTU is shorter than its ports', a tunnel. The method is that of RFC 8899, whose names stand in brackets.
//!
//! Just before a short question, which asks whether the route works, goes one that is as long as packets may be. Where the
//! short ones are answered and the long ones are not, packets are shortened at once to a length that nearly every path
//! carries, and then the longest that comes through is searched for. Losses of both kinds alike change nothing.
//!
//! ```text
//!            long ones are not answered                        found
//!   Trusted -----------------------------> Searching --------------------------> Found
//!      ^                                       ^    ^   not even these           |   |
//!      |                                       |    +----------------------------+   |
//!      | answered                              | not answered                        | a minute later
//!      +-------------------------------- Raising <-----------------------------------+
//! ```

/// Questions of a length in a row without an answer after which it does not come through (MAX_PROBES). Random losses of a tenth
/// of all frames in both directions look like that once in 800 times, and then cost a search.
const MISSED: u32 = 4;
/// A question is missed if so long after the answer to the short one behind it there is none to it, nanoseconds.
const LATE: u64 = 100_000_000;
/// It says nothing where no short one was answered for so long.
const VOID: u64 = 2_000_000_000;
/// Lengths to go on with (BASE_PLPMTU): RFC 8899's; what every IPv4 path carries in a datagram of 576; what is left.
const BASES: [usize; 3] = [1200, 548, LEAST];
const LEAST: usize = 256;
/// Bytes between what comes through and what does not at which the search ends.
const CLOSE: usize = 16;
/// After so long it is tried whether all lengths come through again (PMTU_RAISE_TIMER; ten minutes there, where probes
/// cross other people's networks).
const RAISE: u64 = 60_000_000_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// All that the route says comes through.
    #[default]
    Trusted,
    /// Packets of `fits` bytes come through, as far as is known or, unless `sure`, is hoped; those of `fails` do not.
    Searching { fits: usize, sure: bool, fails: usize },
    /// Packets of `fits` bytes come through, and not many more, until something else is tried.
    Found { fits: usize, until: u64 },
    /// The same, and it is asked whether those do that the route would carry.
    Raising { fits: usize },
}

/// A long question that was not answered.
#[derive(Clone, Copy, Debug)]
struct Question {
    number: u32,
    length: usize,
    at: u64,
    /// When a short one that was sent after it was answered.
    overtaken: Option<u64>,
}

/// How long packets may be on a route, as far as that is known, and the question that is under way.
#[derive(Debug, Default)]
pub(super) struct Search {
    state: State,
    asked: Option<Question>,
    /// How many in a row, the last of which was so long.
    missed: u32,
    missing: usize,
    /// What the route said last.
    mtu: usize,
    /// The longest packet that was sent since one so long is known to have come through.
    sent: usize,
}

impl Search {
    /// Bytes of the longest packet that comes through, where the route says `mtu`.
    pub fn limit(&self, mtu: usize) -> usize {
        self.shortened().map_or(mtu, |fits| fits.min(mtu))
    }

    /// The same, where it is not what the route says.
    pub fn shortened(&self) -> Option<usize> {
        match self.state {
            State::Trusted => None,
            State::Searching { fits, .. } | State::Found { fits, .. } | State::Raising { fits } => Some(fits),
        }
    }

    /// The same, where it is less than the route said last.
    pub fn shorter(&self) -> Option<usize> {
        self.shortened().filter(|fits| *fits < self.mtu)
    }

    /// Packets of up to so many bytes leave.
    #[inline]
    pub fn sent(&mut self, longest: usize) {
        self.sent = self.sent.max(longest);
    }

    /// Whether questions are to follow one another quickly.
    pub fn is_urgent(&self) -> bool {
        let searches = matches!(self.state, State::Searching { .. } | State::Raising { .. });
        searches || self.missed > 0
    }

    /// A short question is about to leave. How long the one before it is to be, with this number, if there is to be one.
    pub fn ask(&mut self, now: u64, mtu: usize, number: u32) -> Option<usize> {
        self.mtu = mtu;
        if let Some(Question { length, at, overtaken, .. }) = self.asked {
            let missed = overtaken.is_some_and(|overtaken| now >= overtaken.saturating_add(LATE));
            if missed {
                self.miss(now, length);
            } else if now < at.saturating_add(VOID) {
                return None;
            }
            self.asked = None;
        }
        let length = self.next(now, mtu)?;
        self.asked = Some(Question { number, length, at: now, overtaken: None });
        Some(length)
    }

    /// The question did not leave, so it will not be missed.
    pub fn take_back(&mut self) {
        self.asked = None;
    }

    /// A frame of so many bytes came through: what is said of data is better evidence than that of questions (RFC 8899, 4.1).
    #[inline]
    pub fn arrived(&mut self, length: usize) {
        if length >= self.missing {
            self.missed = 0;
        }
    }

    /// A short question was answered that had left at `sent`.
    pub fn short_answered(&mut self, now: u64, sent: u64) {
        if let Some(asked) = self.asked.as_mut().filter(|asked| sent >= asked.at) {
            asked.overtaken.get_or_insert(now);
        }
    }

    /// A question of that number was answered; nothing happens if it is not the long one.
    pub fn answered(&mut self, now: u64, mtu: usize, number: u32) {
        let Some(Question { length, .. }) = self.asked.take_if(|asked| asked.number == number) else {
            return;
        };
        (self.missed, self.sent) = (0, 0);
        match &mut self.state {
            State::Searching { sure, .. } if !*sure => *sure = true,
            State::Searching { fits, .. } => *fits = length,
            State::Raising { .. } if length >= mtu => self.state = State::Trusted,
            State::Raising { .. } | State::Trusted | State::Found { .. } => {}
        }
        self.settle(now);
    }

    /// What length to ask for next.
    fn next(&mut self, now: u64, mtu: usize) -> Option<usize> {
        if let State::Searching { fails, .. } = &mut self.state {
            // The route itself carries no longer ones any more.
            *fails = mtu.saturating_add(1).min(*fails);
            self.settle(now);
        }
        // Where only short frames are sent, nobody asks. A length that was found bounds the frames, so a shorter one counts as long then.
        let long = match self.state {
            State::Found { fits, .. } => fits.min(LEAST) / 2,
            _ => LEAST,
        };
        let is_long = self.sent > long;
        match self.state {
            State::Trusted => is_long.then_some(mtu),
            State::Searching { fits, sure: false, .. } => Some(fits.min(mtu)),
            State::Searching { fits, fails, .. } => Some(fits + (fails - fits) / 2),
            State::Found { fits, until } if is_long && now >= until => {
                self.state = State::Raising { fits };
                Some(mtu)
            }
            // Where the shortest do not come through, either, there is nothing else to go on with.
            State::Found { fits, .. } => (is_long && fits > LEAST).then_some(fits.min(mtu)),
            State::Raising { .. } => Some(mtu),
        }
    }

    /// Nothing of that length came through; or was answered, which is the same to whoever asked.
    fn miss(&mut self, now: u64, length: usize) {
        (self.missed, self.missing) = (self.missed + 1, length);
        if self.missed < MISSED {
            return;
        }
        self.missed = 0;
        let shorter = |than: usize| match BASES.into_iter().find(|base| *base < than) {
            Some(fits) => State::Searching { fits, sure: false, fails: than },
            None => State::Found { fits: than, until: now.saturating_add(RAISE) },
        };
        self.state = match self.state {
            State::Trusted | State::Found { .. } | State::Searching { sure: false, .. } => shorter(length),
            State::Searching { fits, .. } | State::Raising { fits } => {
                State::Searching { fits, sure: true, fails: length }
            }
        };
        self.settle(now);
    }

    /// The search ends when there is little left to find.
    fn settle(&mut self, now: u64) {
        if let State::Searching { fits, sure: true, fails } = self.state {
            if fails <= fits + CLOSE {
                self.state = State::Found { fits, until: now.saturating_add(RAISE) };
            }
        }
    }
}

#[cfg(test)]
mod tests;
