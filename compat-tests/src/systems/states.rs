//! How far apart the two cores are. A virtual machine's processors are moved about by its host: now they share a cache, now
//! they do not, and what takes 60 ns to go from the one to the other takes 260 a moment later. Only turns that met the same
//! distance can be compared.

use serde::Serialize;

/// Distances that differ by no more than this are the same.
const SAME: f64 = 1.35;
/// Two neighbours in the order of distances belong to different states if they differ by more than this.
const GAP: f64 = 1.3;

/// A distance, and how often it was met.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct State {
    /// The least of its distances, ns.
    pub low: f64,
    /// The largest.
    pub high: f64,
    /// Turns that met it.
    pub turns: usize,
}

impl State {
    /// Whether this is one of its distances.
    pub fn has(&self, floor: f64) -> bool {
        (self.low..=self.high).contains(&floor)
    }
}

/// Whether two turns met the same distance.
pub fn alike(one: f64, other: f64) -> bool {
    one.max(other) <= SAME * one.min(other)
}

/// The states these distances belong to: a gap divides one from the next. Those met more often are first.
pub fn of(floors: impl Iterator<Item = f64>) -> Vec<State> {
    let mut floors: Vec<f64> = floors.collect();
    floors.sort_by(f64::total_cmp);
    let state =
        |floors: &[f64]| State { low: floors[0], high: floors[floors.len() - 1], turns: floors.len() };
    let mut states: Vec<State> = floors.chunk_by(|low, high| *high <= GAP * low).map(state).collect();
    states.sort_by_key(|state| std::cmp::Reverse(state.turns));
    states
}

#[cfg(test)]
mod tests;
