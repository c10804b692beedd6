//! Whether channels to a server are worth their preparation.
//!
//! To make a channel costs each side some forty system calls, about as much as its first [`PAYS`] lines save. Where
//! connections end before that, later ones wait longer for their offer: so one that is short never has one, and one that is
//! long loses little. What the long ones saved is set off against what the short ones cost.

use dp_edge::sync::{AtomicU32, Ordering};

/// Lines through the rings from which on a channel has paid: some thirty exchanges of small messages.
pub const PAYS: u64 = 64;

/// So many connections that did not pay, and none that did, put offers off by one step.
const STEP: u32 = 16;

/// The turns of the first offer, step by step.
const TURNS: [u32; 4] = [1, 8, 32, 128];

/// Kept for each server family, by all processes of the client family. Two that count at once may count as one: nothing
/// depends on the number being exact.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Worth(AtomicU32);

impl Worth {
    /// Nothing is known of the server.
    pub fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// A channel ended through which so many lines had gone, both ways.
    pub fn count(&self, lines: u64) {
        let debt = self.0.load(Ordering::Relaxed);
        let saved = u32::try_from(lines / PAYS).unwrap_or(u32::MAX);
        let now = if saved == 0 { debt + 1 } else { debt.saturating_sub(saved) };
        // The debt has a limit, so that connections that have become longer are found out soon.
        let now = now.min(STEP * TURNS.len() as u32 - 1);
        if now != debt {
            self.0.store(now, Ordering::Relaxed);
        }
    }

    /// At which turn after the first `DP_AFTER` calls a connection is to have its first offer; 1: at once.
    pub fn first_turn(&self) -> u32 {
        TURNS[(self.0.load(Ordering::Relaxed) / STEP) as usize % TURNS.len()]
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn after(short: u32) -> Worth {
        let worth = Worth::default();
        (0..short).for_each(|_| worth.count(PAYS - 1));
        worth
    }

    #[test]
    fn short_connections_put_offers_off_step_by_step_and_not_further() {
        let turns: Vec<u32> = [0, 15, 16, 31, 32, 47, 48, 10_000].map(|n| after(n).first_turn()).to_vec();
        assert_eq!(turns, [1, 1, 8, 8, 32, 32, 128, 128]);
    }

    #[test]
    fn one_that_paid_sets_off_as_many_short_ones_as_it_paid_for() {
        let worth = after(32);
        worth.count(PAYS);
        assert_eq!(worth.first_turn(), 8, "31 are left");
        worth.count(16 * PAYS);
        assert_eq!(worth.first_turn(), 1, "15 are left");
        worth.count(u64::MAX);
        (0..15).for_each(|_| worth.count(0));
        assert_eq!(worth.first_turn(), 1, "nothing is saved up");
    }

    #[test]
    fn long_connections_are_found_out_soon() {
        let worth = after(10_000);
        worth.count(64 * PAYS);
        assert_eq!(worth.first_turn(), 1);
    }
}
