//! Memory copies: M_ctc from cache to cache, M_ctm from cache to memory, M_mtm from memory to memory.

use std::hint::black_box;
use std::time::Instant;

use dp_measure::cost::fit::{Border, Pieces};
use dp_measure::cost::report::Parameter;
use dp_measure::stats::{undisturbed, Estimate};

use crate::pair::clock::Clock;

/// Lengths of copies.
const SIZES: [usize; 6] = [64, 256, 1024, 4096, 16_384, 65_536];
const NAMES: [&str; 3] = ["M_ctc", "M_ctm", "M_mtm"];
/// Bytes that are copied in a sample, about, and samples in a batch.
const SAMPLE: usize = 64 * 1024;
const SAMPLES: usize = 32;
/// What is memory is so many times as long as the last cache, within these bounds in bytes.
const TIMES: usize = 2;
const BOUNDS: [usize; 2] = [32 << 20, 128 << 20];

/// What is copied, and what it took so far.
pub struct Copies {
    from: Vec<u8>,
    to: Vec<u8>,
    /// How far the walks through memory are.
    at: usize,
    clock: Clock,
    batches: [[Vec<f64>; SIZES.len()]; 3],
}

impl Copies {
    /// `cache`: what the last cache holds.
    pub fn new(cache: usize, clock: Clock) -> Copies {
        let len = (TIMES * cache).clamp(BOUNDS[0], BOUNDS[1]) / SAMPLE * SAMPLE;
        Copies { from: vec![1; len], to: vec![2; len], at: 0, clock, batches: Default::default() }
    }

    /// One more batch of each.
    pub fn round(&mut self) {
        for kind in 0..NAMES.len() {
            for (i, size) in SIZES.into_iter().enumerate() {
                let ns = self.batch([kind == 2, kind > 0], size);
                self.batches[kind][i].push(ns);
            }
        }
    }

    /// ns of a copy of `size` bytes. What is not in memory is the same bytes each time.
    fn batch(&mut self, [from_memory, to_memory]: [bool; 2], size: usize) -> f64 {
        let mut samples = Vec::with_capacity(SAMPLES);
        // Untimed, so that what is to be in the cache is.
        (0..2).for_each(|_| self.copy(0, 0, size));
        for _ in 0..SAMPLES {
            let start = Instant::now();
            for _ in 0..SAMPLE / size {
                let [from, to] = [from_memory, to_memory].map(|walks| if walks { self.at } else { 0 });
                self.copy(from, to, size);
                self.at = (self.at + size) % self.from.len();
            }
            samples.push(self.clock.since(start) / (SAMPLE / size) as f64);
        }
        undisturbed(&mut samples)
    }

    #[inline(always)]
    fn copy(&mut self, from: usize, to: usize, size: usize) {
        self.to[to..to + size].copy_from_slice(black_box(&self.from[from..from + size]));
        black_box(&mut self.to);
    }

    /// The straight lines; `None` before the first round.
    pub fn result(&self) -> Option<Vec<Parameter>> {
        let all = [Border { name: "all", upto: usize::MAX }];
        let fit = |(name, batches): (&&str, &[Vec<f64>; SIZES.len()])| {
            let points: Vec<_> = SIZES.into_iter().zip(batches.iter().map(|b| Estimate::of(b))).collect();
            Some(Parameter::new(name, &Pieces::fit(&points, &all)?, &points))
        };
        NAMES.iter().zip(&self.batches).map(fit).collect()
    }
}
