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

fn shrink_numbers(tools: &Tools, best: &mut Difference, deadline: Instant) {
    for at in 0..best.script.0.len() {
        for word in 0..best.script.0.get(at).map_or(0, |line| line.words.len()) {
            for smaller in [1_u64, 10, 100, 1000, 10_000, 100_000] {
                let Some(Ok(value)) =
                    best.script.0.get(at).and_then(|line| line.words.get(word)).map(|w| w.parse::<u64>())
                else {
                    break;
                };
                if smaller >= value || Instant::now() >= deadline {
                    break;
                }
                let mut candidate = best.script.clone();
                candidate.0[at].words[word] = smaller.to_string();
                if try_it(tools, best, candidate) {
                    break;
                }
            }
        }
    }
}

/// Whether the candidate fails, too, twice; then it is the best.
fn try_it(tools: &Tools, best: &mut Difference, candidate: Script) -> bool {
    if candidate == best.script {
        return false;
    }
    let Verdict::Differs(_) = tools.check(&candidate, best.shimmed) else { return false };
    let Verdict::Differs(again) = tools.check(&candidate, best.shimmed) else { return false };
    *best = *again;
    true
}
