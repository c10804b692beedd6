//! One direction at full speed: messages in a second, or bytes.

use std::io;
use std::time::{Duration, Instant};

use super::lat::STOP;
use super::link::Link;

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

/// The other end: takes messages as they come, of streams as many at once as there are. A message's bytes
/// are in the buffer of the program when it counts.
pub fn drain(link: &mut impl Link, size: usize) -> io::Result<u64> {
    let mut buf = vec![0; size.max(64 * 1024)];
    let mut bytes = 0;
    loop {
        let n = link.recv(&mut buf)?;
        bytes += n;
        if buf[n - 1] == STOP {
            return Ok((bytes / size) as u64 - 1);
        }
    }
}
