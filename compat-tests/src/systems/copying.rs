//! memcpy between two buffers of one process on one core: no system that copies is faster, unless both ends share the
//! work.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use nix::sched::sched_setaffinity;
use nix::time::{clock_gettime, ClockId};
use nix::unistd::Pid;

use super::{Job, Sample};
use crate::measure::cores::set_of;
use crate::measure::Error;

/// Copies between two readings of the clock: at least this many bytes.
const CHUNK: usize = 1 << 16;
/// Both buffers begin at lines, and half a page from each other: where they begin at nearly the same place of their pages,
/// some processors take each load for one of what was just stored, and copy at a twentieth of the speed.
const PAGE: usize = 4096;

/// Copies messages of the job's size for its time, the same buffers again and again.
///
/// # Errors
/// This process may not use the core.
pub fn turn(core: usize, job: &Job) -> Result<Sample, Error> {
    let set = set_of(core)?;
    let (size, time) = (job.size, job.time);
    let copier = thread::spawn(move || -> nix::Result<Option<Sample>> {
        // 0 is the calling thread alone.
        sched_setaffinity(Pid::from_raw(0), &set)?;
        let mut memory = vec![1u8; 2 * size.next_multiple_of(PAGE) + 2 * PAGE];
        let start = memory.as_ptr().align_offset(PAGE);
        let (from, to) = memory[start..].split_at_mut(size.next_multiple_of(PAGE) + PAGE / 2);
        let (from, to) = (&from[..size], &mut to[..size]);
        let cpu = || clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(|t| Duration::from(t).as_secs_f64());
        let (before, start) = (cpu()?, Instant::now());
        let mut copies = 0;
        while start.elapsed() < time {
            for _ in 0..(CHUNK / size).max(1) {
                to.copy_from_slice(black_box(from));
                black_box(&mut *to);
                copies += 1;
            }
        }
        Ok(Sample::flood(size, copies, start.elapsed().as_secs_f64(), cpu()? - before))
    });
    let copied = copier.join().unwrap_or(Ok(None)).map_err(Error::system(format!("core {core}")))?;
    copied.ok_or_else(|| Error::words("memcpy", "nothing was copied"))
}
