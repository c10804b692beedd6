//! Reading the clock often enough that a disturbance costs one sample, and seldom enough that reading costs nothing.

use std::hint::black_box;
use std::io;
use std::time::Instant;

use dp_edge::ring::{lines_for, LINE};
use dp_measure::stats::undisturbed;
use serde::{Deserialize, Serialize};

/// The clock, less what reading it takes.
#[derive(Clone, Copy)]
pub struct Clock {
    cost: f64,
}

impl Clock {
    pub fn new() -> Clock {
        let mut costs: Vec<f64> = (0..256)
            .map(|_| {
                let start = Instant::now();
                start.elapsed().as_nanos() as f64
            })
            .collect();
        Clock { cost: undisturbed(&mut costs) }
    }

    pub fn since(self, start: Instant) -> f64 {
        self.between(start, Instant::now())
    }

    pub fn between(self, start: Instant, end: Instant) -> f64 {
        ((end - start).as_nanos() as f64 - self.cost).max(0.0)
    }
}

/// Bytes of a window: more than an edge takes.
const WINDOW: usize = 5 << 18;
/// Of these, what the longest edges of both gateways take.
const FILL: usize = 8;
/// Bytes between two readings, about, and packets at most.
const BYTES: usize = 8192;
const PACKETS: usize = 64;
/// What a packet counts beside its bytes.
const BESIDE: usize = 128;

/// Packets of a window.
pub fn window(packet: usize) -> usize {
    (WINDOW / (lines_for(packet) as usize * LINE)).max(2)
}

/// How packets are timed.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Timing {
    /// All of them at once: they are few.
    Whole,
    /// In chunks, each of which is a sample.
    Chunks,
    /// In windows longer than what lies between sender and receiver, behind as much that fills it: while one of them is kept
    /// from its processor, the other's single packets are faster, not slower.
    Steady,
    /// The same behind so much that gateways between the two are full, too.
    Full,
}

impl Timing {
    /// Windows that fill what lies between sender and receiver.
    pub fn fill(self) -> usize {
        if self == Timing::Full {
            FILL
        } else {
            1
        }
    }

    /// Packets that can be timed so, at least.
    pub fn fewest(self) -> usize {
        match self {
            Timing::Whole | Timing::Chunks => 1,
            Timing::Steady | Timing::Full => self.fill() + 1,
        }
    }

    /// ns for each of so many packets of `packet` bytes, of which there are [`fewest`](Self::fewest) or more.
    #[inline(always)]
    pub fn of(
        self,
        clock: Clock,
        packet: usize,
        packets: usize,
        mut step: impl FnMut(usize) -> io::Result<()>,
    ) -> io::Result<f64> {
        let (before, chunk) = match self {
            Timing::Whole => (0, packets),
            Timing::Chunks => (0, (BYTES / (packet + BESIDE)).clamp(1, PACKETS)),
            Timing::Steady | Timing::Full => {
                let fill = self.fill();
                let window = window(packet).min(packets / (fill + 1));
                (packets - (packets - fill * window) / window * window, window)
            }
        };
        step(before)?;
        let packets = packets - before;
        let chunk = chunk.clamp(1, packets);
        let mut at = Vec::with_capacity(packets / chunk + 1);
        at.push(Instant::now());
        for _ in 0..packets / chunk {
            step(chunk)?;
            at.push(Instant::now());
        }
        step(packets % chunk)?;
        let ns = |pair: &[Instant]| clock.between(pair[0], pair[1]) / chunk as f64;
        Ok(undisturbed(&mut at.windows(2).map(ns).collect::<Vec<_>>()))
    }
}

/// Keeps the processor busy and touches nothing: each turn waits for the one before it.
#[inline(always)]
pub fn compute(turns: u32) {
    let mut x = black_box(1u64);
    for _ in 0..turns {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    }
    black_box(x);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_packets_are_sent_however_they_are_timed() {
        let clock = Clock { cost: 0.0 };
        for (packet, packets) in [(1, 1000), (1, 3), (4096, 7), (1 << 20, 2), (1 << 20, 6), (1 << 20, 20)] {
            for timing in [Timing::Whole, Timing::Chunks, Timing::Steady, Timing::Full] {
                if packets < timing.fewest() {
                    continue;
                }
                let mut sent = 0;
                let step = |n| {
                    sent += n;
                    Ok(())
                };
                assert!(timing.of(clock, packet, packets, step).unwrap().is_finite());
                assert_eq!(sent, packets);
            }
        }
    }

    #[test]
    fn what_fills_the_queue_does_not_count() {
        let (mut sent, nap) = (0, std::time::Duration::from_millis(50));
        let step = |n| {
            if sent == 0 {
                std::thread::sleep(nap);
            }
            sent += n;
            Ok(())
        };
        let ns = Timing::Steady.of(Clock { cost: 0.0 }, 1, 2, step).unwrap();
        assert!(ns < nap.as_nanos() as f64, "{ns}");
    }
}
