//! Makes a script that fails short: leaves lines out and makes numbers small while it still fails.

use std::time::{Duration, Instant};

use super::check::{Difference, Verdict};
use super::run::Tools;
use super::script::Script;

/// The smallest script that was found in the time.
pub fn shrink(tools: &Tools, found: Difference, time: Duration) -> Difference {
    let deadline = Instant::now() + time;
    let mut best = found;
    // What comes after the line that differs has no part in it.
    let mut cut = best.script.clone();
    cut.0.truncate(best.line + 1);
    try_it(tools, &mut best, cut);
    let mut piece = best.script.0.len() / 2;
    while piece > 0 && Instant::now() < deadline {
        let mut at = 0;
        let mut smaller = false;
        while at < best.script.0.len() && Instant::now() < deadline {
            let mut candidate = best.script.clone();
            candidate.0.drain(at..(at + piece).min(candidate.0.len()));
            if try_it(tools, &mut best, candidate) {
                smaller = true;
            } else {
                at += piece;
            }
        }
        if !smaller || piece > 1 {
            piece /= 2;
        }
    }
    shrink_numbers(tools, &mut best, deadline);
    best
}

/// Sizes and counts of bytes only: with a shorter time, or less room for events, it would be another question.
fn shrink_numbers(tools: &Tools, best: &mut Difference, deadline: Instant) {
    const MOVE_BYTES: [&str; 11] = [
        "send", "write", "writev", "sendmsg", "sendmmsg", "recv", "read", "readv", "recvmsg", "recvmmsg",
        "drain",
    ];
    for at in 0..best.script.0.len() {
        let words = &best.script.0[at].words;
        let Some(what) = words.iter().position(|word| MOVE_BYTES.contains(&word.as_str())) else { continue };
        for smaller in ["10", "100", "1000", "10000", "100000"] {
            let value = |text: &str| text.parse::<u64>().unwrap_or(0);
            let Some(present) = best.script.0[at].words.get(what + 2) else { break };
            if value(smaller) >= value(present) || Instant::now() >= deadline {
                break;
            }
            let mut candidate = best.script.clone();
            smaller.clone_into(&mut candidate.0[at].words[what + 2]);
            if try_it(tools, best, candidate) {
                break;
            }
        }
    }
}

/// Whether the candidate fails, too, twice; then it is the best.
fn try_it(tools: &Tools, best: &mut Difference, candidate: Script) -> bool {
    if candidate == best.script {
        return false;
    }
    let fails = || match tools.check(&candidate, best.shimmed) {
        Verdict::Differs(again) if again.severity() >= best.severity() => Some(*again),
        _ => None,
    };
    let Some(again) = fails().and_then(|_| fails()) else { return false };
    *best = again;
    true
}
