//! What a waiter learns of its spins, as a state machine: how long the next one takes, if it is not left out.
//!
//! ```text
//!            hit: twice as long             a miss of the shortest                 its waits are over
//!   Spins ────────────────────▶ Spins ──────────────────────────▶ Rests ──────────────────────────▶ Tries
//!     ▲   a miss: half as long              a probe's hit: Spins  ▲   │                               │
//!     │                                                           │   ▼ a short probe now and then    │
//!     │                                                           └─────────── a miss, or only late ──┤
//!     └──────────────────────────────── a hit that came soon: the other side looks, too ──────────────┘
//! ```
//!
//! Two sides that answer each other may both sleep each time, though either could answer in a microsecond: each finds that
//! spins are in vain, for what it waits for takes the other's wake-up, which is longer than the longest spin, and so sleeps
//! itself. Nothing in that record ever changes by itself. So a waiter whose spins are left out tries, rarely, a few waits in
//! a row, to outlast a wake-up; the other side's probes then find that answers come soon, and both spin from there on.
//! Where that brings nothing, the next attempt is twice as many waits away.

/// A spin that helped lately lasts so long at least, where the bound allows it, ns.
const USEFUL: u32 = 1_000;
/// Shorter than this spinning is left out, ns.
const TOO_SHORT: u32 = 500;
/// While spins are left out, a probe is made in every so many'th wait, for so large a part of the longest spin.
const PROBE_EVERY: u16 = 4;
const PROBE: u32 = 8;
/// An attempt outlasts a wake-up: so many times the longest spin, but no longer than this, ns, unless that is longer itself.
const ATTEMPT: u32 = 4;
const LONG_ENOUGH: u32 = 200_000;
/// So many waits in a row: an answering side that probes every fourth time meets eight of them.
const IN_A_ROW: u8 = 32;
/// Waits until the first attempt; twice as many after each that brought nothing, as often as this.
const FIRST_REST: u16 = 32;
const MOST_IN_VAIN: u8 = 11;

/// What a waiter has learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Spins pay.
    Spins {
        /// The next takes so long, ns.
        budget: u32,
        /// Attempts in vain before that.
        in_vain: u8,
    },
    /// They do not.
    Rests {
        /// So many waits more go by with no more than a probe.
        waits: u16,
        /// Attempts in vain in a row.
        in_vain: u8,
    },
    /// An attempt.
    Tries {
        /// So many waits more are spun through.
        waits: u8,
        /// Attempts in vain before this one.
        in_vain: u8,
    },
}

use Pace::{Rests, Spins, Tries};

impl Pace {
    /// The next spin takes up to `ns`.
    pub const fn new(ns: u32) -> Pace {
        if ns == 0 {
            return Pace::rest(0);
        }
        Spins { budget: ns, in_vain: 0 }
    }

    const fn rest(in_vain: u8) -> Pace {
        let in_vain = if in_vain < MOST_IN_VAIN { in_vain } else { MOST_IN_VAIN };
        // The longest fits: 32 << 11 is 65536, one more than a u16 has.
        let waits = (FIRST_REST as u32) << in_vain;
        Rests { waits: if waits > u16::MAX as u32 { u16::MAX } else { waits as u16 }, in_vain }
    }

    /// Whether spins pay, so that the next one is not left out.
    #[inline(always)]
    pub const fn pays(self) -> bool {
        matches!(self, Spins { .. })
    }

    /// Whether an attempt is being made.
    #[inline]
    pub const fn tries(self) -> bool {
        matches!(self, Tries { .. })
    }

    /// A wait begins: how long it spins, ns, at most `longest`, or four times that, but no more than 200 us, in an attempt. 0: it
    /// is left out. Where it is not, [`Pace::learn`] hears what it brought.
    #[inline]
    pub fn begin(&mut self, longest: u32) -> u32 {
        match self {
            Spins { budget, .. } => (*budget).min(longest),
            _ => self.begin_seldom(longest),
        }
    }

    #[cold]
    fn begin_seldom(&mut self, longest: u32) -> u32 {
        if let Rests { waits, in_vain } = self {
            *waits = waits.saturating_sub(1);
            if *waits > 0 {
                let probe = (longest / PROBE).max(TOO_SHORT).min(longest);
                return if *waits % PROBE_EVERY == 0 { probe } else { 0 };
            }
            *self = Tries { waits: IN_A_ROW, in_vain: *in_vain };
        }
        attempt(longest)
    }

    /// A spin of `budget` was over after `took` ns, and saw something (`hit`) or did not. Of an attempt that was broken off, since
    /// the wait had no more time or somebody else wanted the processor, nothing is learned but to rest again.
    #[inline]
    pub fn learn(&mut self, budget: u32, hit: bool, took: u32, longest: u32) {
        *self = match (*self, hit) {
            (Spins { in_vain, .. } | Rests { in_vain, .. }, true) => longer(budget, longest, in_vain),
            (Spins { in_vain, .. }, false) if budget / 2 < TOO_SHORT => Pace::rest(in_vain),
            (Spins { in_vain, .. }, false) => Spins { budget: budget / 2, in_vain },
            (Rests { .. }, false) => *self,
            (Tries { in_vain, .. }, true) if took <= longest => Spins { budget: longest, in_vain },
            (Tries { waits: waits @ 2.., in_vain }, true) => Tries { waits: waits - 1, in_vain },
            (Tries { in_vain, .. }, false) if took < attempt(longest) => Pace::rest(in_vain),
            (Tries { in_vain, .. }, _) => Pace::rest(in_vain + 1),
        };
    }
    /// A spin of `budget` by `spin`, which says whether it saw something, learned from.
    #[inline]
    pub fn spin(
        &mut self,
        budget: u32,
        longest: u32,
        now: impl Fn() -> u64,
        spin: impl FnOnce() -> bool,
    ) -> bool {
        // The others ask the clock by themselves, and not where they see something at once.
        let from = matches!(self, Tries { .. }).then(&now);
        let hit = spin();
        let took = from.map_or(0, |from| now().saturating_sub(from));
        self.learn(budget, hit, u32::try_from(took).unwrap_or(u32::MAX), longest);
        hit
    }

    /// In one word, which threads may share: they may lose each other's stores, as it is a measure, not a count. A word below
    /// 2^24 is the next spin in nanoseconds, as it was before there were attempts.
    pub const fn pack(self) -> u32 {
        const MOST: u32 = (1 << IN_VAIN_AT) - 1;
        let (state, in_vain, value) = match self {
            Spins { budget, in_vain } => (0, in_vain, if budget < MOST { budget } else { MOST }),
            Rests { waits, in_vain } => (1, in_vain, waits as u32),
            Tries { waits, in_vain } => (2, in_vain, waits as u32),
        };
        state << STATE_AT | (in_vain as u32) << IN_VAIN_AT | value
    }

    /// From a word of [`Pace::pack`]; of another one, something that does no harm.
    pub const fn unpack(word: u32) -> Pace {
        let value = word & ((1 << IN_VAIN_AT) - 1);
        let in_vain = (word >> IN_VAIN_AT & 15) as u8;
        match word >> STATE_AT {
            0 if value > 0 => Spins { budget: value, in_vain },
            1 => Rests { waits: value as u16, in_vain },
            2 => Tries { waits: value as u8, in_vain },
            _ => Pace::rest(in_vain),
        }
    }
}

/// How long an attempt takes, ns.
const fn attempt(longest: u32) -> u32 {
    let most = if longest > LONG_ENOUGH { longest } else { LONG_ENOUGH };
    let long = longest.saturating_mul(ATTEMPT);
    if long < most {
        long
    } else {
        most
    }
}

/// After a spin of `budget` that saw something. One that may be as long as it can pays again: what was in vain is forgotten.
fn longer(budget: u32, longest: u32, in_vain: u8) -> Pace {
    let next = budget.saturating_mul(2).max(USEFUL);
    match next < longest {
        true => Spins { budget: next, in_vain },
        false => Spins { budget: longest, in_vain: in_vain.saturating_sub(1) },
    }
}

/// Where in the word: the state, and attempts in vain; what is below is the state's own number.
const STATE_AT: u32 = 30;
const IN_VAIN_AT: u32 = 24;

#[cfg(test)]
mod tests;
