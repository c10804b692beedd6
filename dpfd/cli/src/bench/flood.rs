//! One direction at full speed: messages in a second, or bytes.

use std::io;
use std::time::{Duration, Instant};

use crate::pair::link::Link;
use crate::pair::STOP;

/// Messages between two readings of the clock.
const CHUNK: u32 = 64;

/// Sends messages for `time`, then one that says stop; how many.
pub fn pour(link: &mut impl Link, size: usize, time: Duration) -> io::Result<u64> {
    let mut message = vec![0; size];
    let mut count = 0;
    let start = Instant::now();
    while start.elapsed() < time {
        for _ in 0..CHUNK.min((1 << 22) / size as u32).max(1) {
            link.send(&message)?;
            count += 1;
        }
    }
    message[size - 1] = STOP;
    link.send(&message)?;
    Ok(count)
}
