//! When a side of a candidate does what, in turns: calls since the connection became worth a look.

use dp_channel::family::Reason;

use crate::client::Answer;
use crate::guests::Search;

#[cfg(test)]
mod tests;

/// From this turn on an offer that nobody answers is made anew, behind another hello, and an answer that is not followed by
/// a proof counts as wrong.
pub(super) const MOVES_ON: u32 = 16;

/// After this many calls *and* this long without an answer, ns, the connection is plain TCP for good.
const PATIENCE: u32 = 1 << 10;
const PATIENCE_NS: u64 = 2_000_000_000;
/// After this many calls, and as long, one ends that must be a channel.
const REQUIRED: u32 = 64;

/// Calls without an answer for which a connection goes on.
pub(super) fn patience(required: bool) -> u32 {
    if required {
        REQUIRED
    } else {
        PATIENCE
    }
}

/// Answers that prove to be wrong before a connection is left alone.
pub(super) const WRONG: u32 = 8;

/// Turns at which something is tried once more: often enough to be done in a connection of some thirty exchanges, then now
/// and then.
fn is_another_try(turn: u32) -> bool {
    turn.is_power_of_two() || turn % if turn < 64 { 8 } else { 64 } == 0
}

/// Where a side looks at this turn. Always at first.
pub(super) fn search_at(turn: u32) -> Option<Search> {
    if turn < 8 || is_another_try(turn) {
        Some(Search::Everywhere)
    } else {
        (turn % 8 == 0).then_some(Search::Mapped)
    }
}

/// Whether a candidate that would look there does something. A client has nothing to search: it makes its offer.
pub(super) fn tries(search: Option<Search>, client: bool, is_due: impl FnOnce() -> bool) -> bool {
    match search {
        Some(search) if client => search == Search::Everywhere && is_due(),
        search => search.is_some(),
    }
}

/// Turns since the first offer was due at turn `first`, that one included; 0: nobody has asked when it is.
pub(super) fn turns_since_due(turn: u32, first: u32) -> u32 {
    turn.saturating_sub(first.saturating_sub(1))
}

/// Whether somebody may still answer. `began`: when that was first asked beyond the [`patience`], 0: now.
pub(super) fn is_patient(turn: u32, patience: u32, began: u64, now: impl FnOnce() -> u64) -> bool {
    turn <= patience || began == 0 || turn % 64 != 0 || now().saturating_sub(began) < PATIENCE_NS
}

/// Whether a client makes its offer elsewhere. Perhaps another worker of the server took the last introduction, or another
/// family serves the address by now.
pub(super) fn moves_on(
    answer: Answer,
    turn: u32,
    shows_proof: bool,
    has_another: impl FnOnce() -> bool,
) -> bool {
    match answer {
        Answer::Proven => false,
        Answer::Wrong => true,
        Answer::Nothing if shows_proof || turn < 4 => false,
        Answer::Nothing => is_another_try(turn) && (turn >= MOVES_ON || has_another()),
    }
}

/// Whether a server that waits for the client's proof looks for another offer: this may be somebody else's, which hides the
/// true one.
pub(super) fn doubts(turn: u32) -> bool {
    turn >= MOVES_ON && turn.is_power_of_two()
}

/// Why a connection is given up that nobody has answered: where somebody did, and proved nothing, that is why.
pub(super) fn why_given_up(wrong: u32, unproven: Reason, silence: Reason) -> Reason {
    if wrong > 0 {
        unproven
    } else {
        silence
    }
}
