//! The other process: this program again, on a core of its own, told over a socket what to do.

use std::io;
use std::process::ExitCode;
use std::time::Instant;

use dp_measure::cost::bandwidth::ACK;
use dp_measure::cost::probe::Load;
use dpfd::Dpid;
use serde::{Deserialize, Serialize};

use super::bandwidth;
use super::ends::{self, each, Buffer, End};
use super::timing::{Clock, Timing};
use crate::bench::cores;
use crate::bench::lat::STOP;
use crate::bench::link::{Link, Transport};
use crate::bench::Result;
use crate::helper::{self, Control, Helper};

/// What the first process tells the other one. Ends are counted from 0 as they come.
#[derive(Serialize, Deserialize)]
pub enum Job {
    /// Stay on this core.
    Stay(usize),
    /// Take your end of a way: its descriptors come along, or the number of the pair of endpoints.
    Open { transport: Transport, pair: Dpid, pool: usize },
    /// Do this on one of the ends.
    On { end: usize, task: Task },
    /// Go on.
    Now,
}

/// What is done on one end.
#[derive(Serialize, Deserialize, Clone, Copy)]
pub enum Task {
    /// Receive so many packets, if `later` only when told to go on: ns for each, if `steady` those of the second half.
    Take { load: Load, packets: usize, later: bool, steady: bool },
    /// Send messages back as they come, but the one that says stop.
    Echo { load: Load },
    /// Send so many packets each time a message of one byte says 1; so many times.
    Feed { packet: usize, packets: usize, times: usize },
    /// Receive so many bytes.
    Empty { packet: usize, bytes: usize },
    /// Receive so many packets, then acknowledge.
    Drain { packet: usize, packets: usize },
    /// Send and receive so many, by turns: ns for all.
    Exchange { packet: usize, packets: usize, ahead: usize },
    /// The same with two threads, the second on this core if there is one for it.
    Threads { packet: usize, packets: usize, core: Option<usize> },
}

/// What it answers: that it begins; then what came of it.
#[derive(Serialize, Deserialize)]
pub enum Answer {
    Ready,
    /// ns.
    Ns(f64),
}

/// Starts it, on this core.
pub fn start(core: usize) -> Result<Helper> {
    let helper = Helper::start(&["cost", "--peer"])?;
    helper.tell(&Job::Stay(core), &[])?;
    Ok(helper)
}

/// The other process.
pub fn serve() -> ExitCode {
    let (mut ends, mut buffer, clock) = (Vec::new(), Buffer::default(), Clock::new());
    helper::serve(|control, job, fds| match job {
        Job::Stay(core) => Ok(cores::stay(core)?),
        Job::Open { transport, pair, pool } => {
            ends.push(End::new(transport, fds, pair, false, pool)?);
            control.say(Answer::Ready)
        }
        Job::Now => Err("nothing to go on with".into()),
        Job::On { end, task } => {
            let end = ends.get_mut(end).ok_or("no such way")?;
            control.say(Answer::Ready)?;
            let ns = match task {
                Task::Threads { packet, packets, core } => {
                    bandwidth::threads(end.endpoint()?, packet, packets, core)?
                }
                _ => each!(end, link => obey(control, task, link, &mut buffer, clock))?,
            };
            control.say(Answer::Ns(ns))
        }
    })
}

fn obey<L: Link>(
    control: &Control,
    task: Task,
    link: &mut L,
    buffer: &mut Buffer,
    clock: Clock,
) -> Result<f64> {
    let start = Instant::now();
    match task {
        Task::Take { load, packets, later, steady } => {
            let mut into = buffer.walk(load);
            if later {
                control.hear::<Job>()?;
            }
            let timing = if steady { Timing::Steady } else { Timing::Chunks };
            return Ok(timing.of(clock, load.packet, packets, |n| ends::take(link, &mut into, n))?);
        }
        Task::Echo { load } => echo(link, load, buffer)?,
        Task::Feed { packet, packets, times } => {
            let (mut go, mut from) = ([0], buffer.walk(Load::whole(packet)));
            for _ in 0..times {
                link.recv_all(&mut go)?;
                ends::send(link, &mut from, packets * usize::from(go[0]))?;
            }
        }
        Task::Empty { packet, bytes } => {
            let mut into = buffer.walk(Load::whole(packet));
            ends::take(link, &mut into, bytes / packet)?;
            link.recv_all(&mut into.next()[..bytes % packet])?;
        }
        Task::Drain { packet, packets } => {
            ends::take(link, &mut buffer.walk(Load::whole(packet)), packets)?;
            link.send(&[0; ACK])?;
        }
        Task::Exchange { packet, packets, ahead } => {
            return Ok(bandwidth::by_turns(link, buffer.walk(Load::whole(packet)), packets, ahead)?);
        }
        Task::Threads { .. } => return Err("threads are for endpoints".into()),
    }
    Ok(clock.since(start))
}

/// What came goes back from where it was put.
fn echo<L: Link>(link: &mut L, load: Load, buffer: &mut Buffer) -> io::Result<()> {
    let mut message = buffer.walk(load);
    loop {
        ends::take(link, &mut message, load.packets())?;
        if *message.mark() == STOP {
            return Ok(());
        }
        ends::send(link, &mut message, load.packets())?;
    }
}
