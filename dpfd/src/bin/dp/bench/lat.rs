//! Round trips: half of one is what a message takes one way.
//!
//! Reading the clock costs about as much as the cache does for a message, so the median comes from
//! batches: sixteen round trips between two readings, and the median over the batches. A batch hides what
//! happens once in a hundred times, so the 99th percentile comes from single round trips, less what one
//! reading of the clock takes.

use std::io;
use std::time::{Duration, Instant};

use super::floor::Floor;
use super::link::Link;

const BATCH: u32 = 16;
/// Round trips before a turn counts: caches, branch predictors and the core's clock get used to it.
const WARM_UP: u32 = 2 * BATCH;
/// Single round trips kept of one turn, at most.
const KEPT: usize = 100_000;

/// The last byte of a message that ends a turn; 0 in all others.
pub const STOP: u8 = 0xff;

/// What one turn brought, nanoseconds one way.
#[derive(Debug, Clone, Default)]
pub struct Turn {
    pub p50: f64,
    pub singles: Vec<f32>,
}

/// Measures round trips for `time`.
pub fn measure(time: Duration, mut round_trip: impl FnMut() -> io::Result<()>) -> io::Result<Turn> {
    for _ in 0..WARM_UP {
        round_trip()?;
    }
    let clock = clock_cost();
    let one_way = |from: Instant, to: Instant, trips: u32| {
        (to.duration_since(from).as_nanos() as f64 - clock).max(0.0) / f64::from(2 * trips)
    };
    let mut batches = Vec::new();
    let start = Instant::now();
    let mut last = start;
    while last.duration_since(start) < time / 2 || batches.is_empty() {
        for _ in 0..BATCH {
            round_trip()?;
        }
        let now = Instant::now();
        batches.push(one_way(last, now, BATCH));
        last = now;
    }
    let mut singles = Vec::with_capacity(KEPT);
    while singles.is_empty() || last.duration_since(start) < time && singles.len() < KEPT {
        round_trip()?;
        let now = Instant::now();
        singles.push(one_way(last, now, 1) as f32);
        last = now;
    }
    Ok(Turn { p50: median(&mut batches), singles })
}

/// The whole turn of the end that measures, over a link.
pub fn over_link(link: &mut impl Link, size: usize, time: Duration) -> io::Result<Turn> {
    let (mut there, mut back) = (vec![0; size], vec![0; size]);
    let turn = measure(time, || {
        link.send(&there)?;
        link.recv_all(&mut back)
    })?;
    there[size - 1] = STOP;
    link.send(&there)?;
    Ok(turn)
}

/// The same over the floor.
pub fn over_floor(floor: &mut Floor, time: Duration) -> io::Result<Turn> {
    let turn = measure(time, || floor.round_trip())?;
    floor.stop();
    Ok(turn)
}

/// The other end: sends back what comes, until told to stop; how many messages that was.
pub fn echo(link: &mut impl Link, size: usize) -> io::Result<u64> {
    let mut message = vec![0; size];
    let mut count = 0;
    loop {
        link.recv_all(&mut message)?;
        if message[size - 1] == STOP {
            return Ok(count);
        }
        link.send(&message)?;
        count += 1;
    }
}

/// Nanoseconds that one reading of the clock takes.
fn clock_cost() -> f64 {
    let mut costs: Vec<f64> = (0..64)
        .map(|_| {
            let start = Instant::now();
            start.elapsed().as_nanos() as f64
        })
        .collect();
    median(&mut costs)
}

/// The middle one, or the mean of the two middle ones. Of nothing, NaN.
pub fn median(of: &mut [f64]) -> f64 {
    of.sort_by(f64::total_cmp);
    let n = of.len();
    match n {
        0 => f64::NAN,
        _ => (of[(n - 1) / 2] + of[n / 2]) / 2.0,
    }
}

/// What 99 of 100 do not exceed.
pub fn p99(of: &mut [f32]) -> f64 {
    of.sort_by(f32::total_cmp);
    of.get((of.len() * 99).div_ceil(100).saturating_sub(1)).map_or(f64::NAN, |&x| f64::from(x))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_and_p99() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0]), 2.5);
        assert!(median(&mut []).is_nan());
        let mut hundred: Vec<f32> = (1..=100).map(|n| n as f32).collect();
        assert_eq!(p99(&mut hundred), 99.0);
        assert_eq!(p99(&mut [7.0]), 7.0);
        assert!(p99(&mut []).is_nan());
    }

    #[test]
    fn a_turn_measures_what_a_round_trip_takes() {
        let nap = Duration::from_micros(200);
        let turn = measure(Duration::from_millis(20), || {
            std::thread::sleep(nap);
            Ok(())
        })
        .unwrap();
        // One way is half of it, and a sleep never ends early.
        assert!(turn.p50 >= 99_000.0, "{}", turn.p50);
        assert!(turn.singles.iter().all(|&ns| ns >= 99_000.0));
    }
}
