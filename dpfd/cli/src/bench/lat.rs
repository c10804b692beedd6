//! Round trips: half of one is what a message takes one way.
//!
//! Reading the clock costs about as much as the cache does for a message, so the median comes from
//! batches: sixteen round trips between two readings, and the median over the batches. A batch hides what
//! happens once in a hundred times, so the 99th percentile comes from single round trips, less what one
//! reading of the clock takes.

use std::io;
use std::time::{Duration, Instant};

use dp_measure::stats::median;

use crate::pair::clock::Clock;
use crate::pair::floor::Floor;
use crate::pair::link::Link;
use crate::pair::STOP;

const BATCH: u32 = 16;
/// Round trips before a turn counts: caches, branch predictors and the core's clock get used to it.
const WARM_UP: u32 = 4 * BATCH;
/// Round trips that take longer on average are not timed in batches: the clock is nothing to them.
const LONG: Duration = Duration::from_millis(1);
/// Single round trips kept of one turn, at most.
const KEPT: usize = 100_000;

/// What one turn brought, nanoseconds one way.
#[derive(Debug, Clone, Default)]
pub struct Turn {
    pub p50: f64,
    pub singles: Vec<f32>,
    /// Of messages that wait: the median where the receiver had not waited for those before.
    pub unawaited: Option<f64>,
}

/// Measures round trips for `time`, after `least` of them or more, but no more than [`WARM_UP`], that do not count.
pub fn measure(
    time: Duration,
    least: u32,
    mut round_trip: impl FnMut() -> io::Result<()>,
) -> io::Result<Turn> {
    let begin = Instant::now();
    for done in 0..WARM_UP {
        // Of long messages few are enough: their time is in copying.
        if done >= least && begin.elapsed() > time / 10 {
            break;
        }
        round_trip()?;
    }
    let batch = if begin.elapsed() > LONG * WARM_UP { 1 } else { BATCH };
    let clock = Clock::new();
    let one_way = |from: Instant, to: Instant, trips: u32| clock.between(from, to) / f64::from(2 * trips);
    let mut batches = Vec::new();
    let start = Instant::now();
    let mut last = start;
    while last.duration_since(start) < time / 2 || batches.is_empty() {
        for _ in 0..batch {
            round_trip()?;
        }
        let now = Instant::now();
        batches.push(one_way(last, now, batch));
        last = now;
    }
    let mut singles = Vec::with_capacity(KEPT);
    while singles.is_empty() || last.duration_since(start) < time && singles.len() < KEPT {
        round_trip()?;
        let now = Instant::now();
        singles.push(one_way(last, now, 1) as f32);
        last = now;
    }
    Ok(Turn { p50: median(&batches), singles, unawaited: None })
}

/// The whole turn of the end that measures, over a link, whose rings have so many bytes if it has some.
pub fn over_link(link: &mut impl Link, size: usize, ring: usize, time: Duration) -> io::Result<Turn> {
    let (mut there, mut back) = (vec![0; size], vec![0; size]);
    if size > 1 {
        // An eventfd's count grows by what is written, and 0 wakes nobody.
        there[0] = 1;
    }
    // Long messages until every page of a ring was used: for the first time the kernel has to find and clear it.
    let least = ring.div_ceil(size) as u32;
    let turn = measure(time, least, || {
        link.send(&there)?;
        link.recv_all(&mut back)
    })?;
    there[size - 1] = STOP;
    link.send(&there)?;
    Ok(turn)
}

/// The same over the floor.
pub fn over_floor(floor: &mut Floor, time: Duration) -> io::Result<Turn> {
    let turn = measure(time, 1, || floor.round_trip())?;
    floor.stop();
    Ok(turn)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_round_trips_as_asked_for_do_not_count() {
        let trips = |least| {
            let mut trips = 0;
            let count = || {
                trips += 1;
                Ok(())
            };
            measure(Duration::ZERO, least, count).unwrap();
            trips
        };
        assert_eq!(trips(5), trips(1) + 4);
        assert_eq!(trips(1000), trips(1) + WARM_UP - 1);
    }

    #[test]
    fn a_turn_measures_what_a_round_trip_takes() {
        let nap = Duration::from_micros(200);
        let turn = measure(Duration::from_millis(20), 1, || {
            std::thread::sleep(nap);
            Ok(())
        })
        .unwrap();
        // One way is half of it, and a sleep never ends early.
        assert!(turn.p50 >= 99_000.0, "{}", turn.p50);
        assert!(turn.singles.iter().all(|&ns| ns >= 99_000.0));
    }
}
