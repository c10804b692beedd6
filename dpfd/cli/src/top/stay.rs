//! How long bytes stay in a ring, as looks at two counters tell: what its sender has put in, and what its receiver has taken.
//!
//! No message carries a time, and nobody is asked. Whatever was sent between two looks is one *portion*; it is gone at the
//! first look at which the receiver has counted that far. So its stay is known within the times between these looks, and a
//! portion whose stay is not known well enough is only counted as unclear. What is in the ring on average, over what goes
//! through it in a second, is the mean stay of a byte (Little's law), which needs no portion to be followed.

use std::collections::VecDeque;

/// Pieces that are followed at once; a sender that puts in more is only counted.
const PORTIONS: usize = 4096;
/// Nanoseconds within which a stay is to be known, if that is more than its lower bound.
const CLEAR: u64 = 2_000;

/// One direction of a channel.
#[derive(Debug, Clone, Default)]
pub struct Stay {
    portions: VecDeque<Portion>,
    last: Option<Look>,
    pub histogram: Histogram,
    /// Pieces whose stay is not known well enough, or that were too many.
    pub unclear: u64,
    /// Bytes in the ring times nanoseconds, while looks were near to each other.
    area: f64,
    /// Bytes that were taken then.
    taken: u64,
    /// Nanoseconds and looks then.
    time: u64,
    looks: u64,
    /// Bytes in the ring at the last look.
    pub waiting: u64,
}

#[derive(Debug, Clone, Copy)]
struct Look {
    at: u64,
    sent: u64,
    taken: u64,
}

#[derive(Debug, Clone, Copy)]
struct Portion {
    /// It is gone when so much was taken.
    up_to: u64,
    /// The looks between which it came.
    between: (u64, u64),
}

impl Stay {
    /// A look at nanosecond `at`. `near`: it is one of many near to each other, so what came since the last one begins to
    /// be followed; else only what is in the ring is followed.
    pub fn look(&mut self, at: u64, sent: u64, taken: u64, near: bool) {
        self.waiting = sent.saturating_sub(taken);
        let Some(last) = self.last.replace(Look { at, sent, taken }) else { return };
        if sent < last.sent || taken < last.taken {
            // Another connection has the place.
            self.portions.clear();
            return;
        }
        if near {
            self.area += (at - last.at) as f64 * last.sent.saturating_sub(last.taken) as f64;
            self.taken += taken - last.taken;
            self.time += at - last.at;
            self.looks += 1;
            if sent > last.sent {
                if self.portions.len() < PORTIONS {
                    self.portions.push_back(Portion { up_to: sent, between: (last.at, at) });
                } else {
                    self.unclear += 1;
                }
            }
        }
        while self.portions.front().is_some_and(|portion| portion.up_to <= taken) {
            let Some(portion) = self.portions.pop_front() else { break };
            let shortest = last.at.saturating_sub(portion.between.1);
            let longest = at - portion.between.0;
            if longest - shortest <= CLEAR.max(shortest) {
                self.histogram.add(shortest.midpoint(longest));
            } else {
                self.unclear += 1;
            }
        }
    }

    /// After a time without looks: what came meanwhile is not followed.
    pub fn pause(&mut self) {
        if self.portions.is_empty() {
            self.last = None;
        }
    }

    /// Whether something is being followed.
    pub fn follows(&self) -> bool {
        !self.portions.is_empty()
    }

    /// Little's law, in nanoseconds.
    pub fn mean(&self) -> Option<f64> {
        (self.taken > 0).then(|| self.area / self.taken as f64)
    }

    /// Nanoseconds from one look to the next.
    pub fn resolution(&self) -> Option<u64> {
        self.time.checked_div(self.looks)
    }
}

/// Times in nanoseconds, each known to a quarter.
#[derive(Debug, Clone)]
pub struct Histogram {
    counts: [u64; 4 * OCTAVES],
}

/// Up to 2^40 ns, 18 minutes.
const OCTAVES: usize = 41;

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: [0; 4 * OCTAVES] }
    }
}

impl Histogram {
    fn add(&mut self, ns: u64) {
        let ns = ns.max(4);
        let octave = ns.ilog2() as usize;
        let quarter = (ns >> (octave - 2)) as usize & 3;
        self.counts[(4 * octave + quarter).min(4 * OCTAVES - 1)] += 1;
    }

    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The least time that this part of all, from 0 to 1, does not exceed.
    pub fn below(&self, part: f64) -> Option<u64> {
        let wanted = (self.count() as f64 * part).ceil().max(1.0) as u64;
        let mut sum = 0;
        self.counts.iter().enumerate().find_map(|(i, &count)| {
            sum += count;
            (sum >= wanted).then(|| (5 + i as u64 % 4) << (i / 4) >> 2)
        })
    }

    /// From one power of two of nanoseconds up to the next, and how many; without those at both ends that have none.
    pub fn octaves(&self) -> Vec<(u64, u64)> {
        let octave = |i: usize| (1 << i, self.counts[4 * i..4 * i + 4].iter().sum());
        let all: Vec<(u64, u64)> = (0..OCTAVES).map(octave).collect();
        let Some(first) = all.iter().position(|octave| octave.1 > 0) else { return Vec::new() };
        let last = all.iter().rposition(|octave| octave.1 > 0).unwrap_or(first);
        all[first..=last].to_vec()
    }
}

#[cfg(test)]
mod tests;
