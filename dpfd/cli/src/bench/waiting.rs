//! Messages that are there already: what it takes a receiver to take one, U_r of the cost model.
//!
//! They come a few at a time, because reading the clock costs as much as taking one does. Their lines are still in the
//! sender's cache, as they are when a receiver comes a moment late. What it costs depends on what the receiver did before:
//! one that waited in its last call has nothing but the messages to look at; of one that did not, an endpoint's descriptor
//! had to tell poll(2) that there is something, and that has to be taken back.

use std::io;
use std::time::{Duration, Instant};

use super::lat;
use super::link::Link;

/// Messages at a time: no way here has room for fewer.
pub const COUNT: u32 = 8;

/// Until a receiver that was told to wait does.
pub const SETTLE: Duration = Duration::from_micros(50);

/// More than an endpoint's descriptor may stay silent after its program waited last.
pub const FORGOTTEN: Duration = Duration::from_millis(10);

/// Takes so many, and tells what each took, ns.
pub fn take(link: &mut impl Link, count: u32, size: usize) -> io::Result<f64> {
    let mut message = vec![0; size];
    let clock = lat::clock_cost();
    let start = Instant::now();
    for _ in 0..count {
        link.recv_all(&mut message)?;
    }
    let ns = start.elapsed().as_nanos() as f64;
    Ok((ns - clock).max(0.0) / f64::from(count))
}
