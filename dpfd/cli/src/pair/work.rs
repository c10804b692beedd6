//! What the second process does, once it is told to.

use std::io;
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::time::Duration;

use dp_measure::cost::bandwidth::ACK;
use dp_measure::cost::probe::Load;
use dpfd::{Addr, Endpoint};
use nix::time::{clock_gettime, ClockId};

use super::buffer::{self, Buffer, Walk};
use super::clock::{Clock, Timing};
use super::crowd::{Crowd, Door, Watched};
use super::end::{each, End};
use super::endpoints::{OneEnd, SILENCE};
use super::helper::{self, Control};
use super::link::Link;
use super::peer::{Done, Job, Task};
use super::requests::{reply, reply_to_all, Requester};
use super::{cores, endpoints, exchange, Result, STOP};

/// `dp peer`: the second process, until the first is gone.
pub fn serve() -> ExitCode {
    let mut worker = Worker {
        ends: Vec::new(),
        pooled: 0,
        idle: Vec::new(),
        buffer: Buffer::default(),
        clock: Clock::new(),
    };
    helper::serve(|control, job, fds| worker.obey(control, job, fds))
}

/// Ends that another node may have here: one for each route, of which a graph has fewer.
const MOST_MET: usize = 16;
/// What the pools of all of those may have, bytes: four of the largest.
const MOST_POOLED: usize = 1 << 29;

const NO_SUCH_WAY: &str = "no such way";

/// What it keeps from one job to the next.
struct Worker {
    ends: Vec<End>,
    /// Bytes of the pools of those that met another node's.
    pooled: usize,
    idle: Vec<Endpoint>,
    buffer: Buffer,
    clock: Clock,
}

impl Worker {
    fn obey(&mut self, control: &Control, job: Job, fds: Vec<OwnedFd>) -> Result<()> {
        match job {
            Job::Stay(core) => cores::stay(core)?,
            Job::Open { transport, role } => self.ends.push(End::new(transport, role, fds)?),
            Job::Meet { with: (nid, dpid), pool, route, greeting } => {
                self.pooled += pool.unwrap_or_default();
                if self.ends.len() >= MOST_MET || self.pooled > MOST_POOLED {
                    return Err(format!(
                        "no more than {MOST_MET} routes at once, with pools of {MOST_POOLED} bytes together: name fewer with --route, \
                         or a shorter --ring"
                    )
                    .into());
                }
                let mut end = OneEnd::by_route(&route, pool)?;
                control.say(end.endpoint.dpid())?;
                end.meet(&route, Addr { nid, dpid }, greeting)?;
                self.ends.push(End::Endpoint(end));
            }
            Job::Close => {
                self.ends.clear();
                self.pooled = 0;
            }
            Job::Check { end } => self.ends.get(end).ok_or(NO_SUCH_WAY)?.check()?,
            Job::Go => return Err("nothing to go on with".into()),
            Job::Idle { count, pooled } => {
                endpoints::idle(&mut self.idle, count, pooled)?;
                return control.say(endpoints::resident()?);
            }
            Job::Crowd { end, kind, count, first } => {
                let (door, port) = Door::open(kind, first)?;
                let before = endpoints::resident()?;
                control.say(port)?;
                self.join(end, door.take(count)?)?;
                return control.say(endpoints::resident()?.saturating_sub(before));
            }
            Job::On { end, task } => {
                let ends = self.ends.get_mut(end..).filter(|ends| !ends.is_empty()).ok_or(NO_SUCH_WAY)?;
                let cpu = cpu_seconds()?;
                control.say(())?;
                let done = work(control, ends, task, &mut self.buffer, self.clock)?;
                return control.say(Done { cpu_s: cpu_seconds()? - cpu, ..done });
            }
        }
        control.say(())
    }

    /// Has an end be one of many.
    fn join(&mut self, end: usize, crowd: Crowd) -> Result<()> {
        if end >= self.ends.len() {
            return Err(NO_SUCH_WAY.into());
        }
        let joined = match (self.ends.swap_remove(end), crowd) {
            (End::Fds(link), crowd) => End::Other(Box::new(Watched::new(link, crowd)?)),
            (end, Crowd::Endpoints(crowd)) => {
                self.idle.extend(crowd);
                end
            }
            _ => return Err("a way that has no crowd".into()),
        };
        self.ends.push(joined);
        let last = self.ends.len() - 1;
        self.ends.swap(end, last);
        Ok(())
    }
}

/// On the first of these ends, or on as many as the task is for.
fn work(control: &Control, ends: &mut [End], task: Task, buffer: &mut Buffer, clock: Clock) -> Result<Done> {
    match (task, &mut *ends) {
        (Task::Echo { .. }, [End::Floor(floor), ..]) => floor.echo()?,
        (Task::ReplyToAll { load, senders }, ends) => reply_to_all(ends, load, senders)?,
        (Task::Threads { packet, packets, core }, [end, ..]) => {
            let ns = exchange::threads(end.one()?, packet, packets, core)?;
            return Ok(Done { ns, ..Done::default() });
        }
        (task, ends) => return each!(&mut ends[0], link => on_link(control, link, task, buffer, clock)),
    }
    Ok(Done::default())
}

fn on_link<L: Link>(
    control: &Control,
    link: &mut L,
    task: Task,
    buffer: &mut Buffer,
    clock: Clock,
) -> Result<Done> {
    let mut done = Done::default();
    match task {
        Task::Echo { load } => echo(link, buffer.walk(load), load.packets())?,
        Task::Drain { size } => done.messages = drain(link, size)?,
        Task::Take { load, packets, later, timing } => {
            let mut into = buffer.walk(load);
            if later {
                let Job::Go = control.hear(SILENCE)? else {
                    return Err("told something else than to go on".into());
                };
            }
            // Of few packets the clock is a good part; reading it again, it is as warm as it will be.
            let clock = if timing == Timing::Whole { Clock::new() } else { clock };
            done.ns = timing.of(clock, load.packet, packets, |n| buffer::take(link, &mut into, n))?;
        }
        Task::Reply(load) => reply(link, load)?,
        Task::Stream { load, seconds } => done.ns = Requester::new(clock).of(load).stream(link, seconds)?,
        Task::Feed { packet, packets, times } => {
            let (mut go, mut from) = ([0], buffer.walk(Load::whole(packet)));
            for _ in 0..times {
                link.recv_all(&mut go)?;
                buffer::send(link, &mut from, packets * usize::from(go[0]))?;
            }
        }
        Task::Empty { packet, bytes } => {
            let mut into = buffer.walk(Load::whole(packet));
            buffer::take(link, &mut into, bytes / packet)?;
            link.recv_all(&mut into.next()[..bytes % packet])?;
        }
        Task::Acknowledge { packet, packets } => {
            buffer::take(link, &mut buffer.walk(Load::whole(packet)), packets)?;
            link.send(&[0; ACK])?;
        }
        Task::Exchange { packet, packets, ahead } => {
            done.ns = exchange::by_turns(link, buffer.walk(Load::whole(packet)), packets, ahead)?;
        }
        Task::ReplyToAll { .. } | Task::Threads { .. } => return Err("not on one link".into()),
    }
    Ok(done)
}

// The two below are functions of their own, so that what they send and receive by becomes a part of them.

/// What came goes back from where it was put.
#[inline(never)]
fn echo<L: Link>(link: &mut L, mut message: Walk<'_>, packets: usize) -> io::Result<()> {
    loop {
        buffer::take(link, &mut message, packets)?;
        if *message.mark() == STOP {
            return Ok(());
        }
        buffer::send(link, &mut message, packets)?;
    }
}

/// Takes messages as they come, of streams as many at once as there are. A message's bytes are in the buffer of the program
/// when it counts.
#[inline(never)]
fn drain<L: Link>(link: &mut L, size: usize) -> io::Result<u64> {
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

/// Processor time of this process.
pub fn cpu_seconds() -> nix::Result<f64> {
    Ok(Duration::from(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)?).as_secs_f64())
}
