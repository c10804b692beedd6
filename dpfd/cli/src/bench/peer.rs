//! The second process: this program again, on its own core, told over a socket what to do.

use std::io;
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use dpfd::Endpoint;
use nix::time::{clock_gettime, ClockId};
use serde::{Deserialize, Serialize};

use super::channel::Channel;
use super::cores::{self, Cores};
use super::crowd::{Crowd, Door, Watched};
use super::endpoints::{self, OneEnd};
use super::floor::Floor;
use super::futex::Futex;
use super::link::{Fds, Link, Spinning, Transport};
use super::nodes::Nodes;
use super::queues::Queues;
use super::{flood, lat, waiting, Result, What};
use crate::helper::{self, Control, Helper};

/// What the first process tells the second.
#[derive(Serialize, Deserialize)]
enum Job {
    /// Stay on this core.
    Stay(usize),
    /// Take your end of a way: its descriptors come along, or the pair of endpoints to open.
    Open { transport: Transport, ring: usize, pair: u16 },
    /// Answer round trips, or drain, on the so-manieth way, messages of so many bytes.
    Turn { series: usize, what: What, size: usize },
    /// Wait for one message.
    Await { series: usize, size: usize },
    /// Take so many messages that are there already.
    Take { series: usize, count: u32, size: usize },
    /// Forget all ways.
    Close,
    /// Have so many more of this way that nobody uses, and wait for all of them, where that is how it waits.
    Crowd { series: usize, kind: Transport, count: usize, first: u32 },
    /// Have so many endpoints that nobody uses.
    Idle { count: usize, pooled: bool },
}

/// What it answers: first that it begins, then what it did.
#[derive(Serialize, Deserialize)]
enum Answer {
    Ready,
    Done {
        messages: u64,
        cpu_s: f64,
    },
    /// How long each took, ns.
    Took(f64),
    Idle {
        rss: u64,
    },
    /// Where to connect to.
    Door {
        port: u16,
        rss: u64,
    },
}

/// The second process, seen from the first.
pub struct Peer {
    helper: Helper,
    open: usize,
    /// Pairs of endpoints so far.
    pairs: u16,
}

impl Peer {
    /// Starts it, on the second core.
    pub fn start(cores: Cores) -> Result<Peer> {
        let helper = Helper::start(&["bench", "lat", "--peer"])?;
        helper.tell(&Job::Stay(cores.b), &[])?;
        Ok(Peer { helper, open: 0, pairs: 0 })
    }

    /// Makes a way of sending between the two.
    pub fn open(
        &mut self,
        transport: Transport,
        size: usize,
        ring: usize,
        nodes: Option<&Nodes>,
    ) -> Result<Series> {
        let make = || {
            let [ours, theirs] = transport.make(size, nodes)?;
            self.helper.tell(&Job::Open { transport, ring, pair: self.pairs }, &theirs)?;
            let end = End::new(transport, ours, ring, self.pairs, true)?;
            // Some ways lose what is sent to nobody.
            self.helper.answer::<Answer>()?;
            Ok(end)
        };
        let end = make().map_err(|e: Box<dyn std::error::Error>| format!("{}: {e}", transport.name()))?;
        self.open += 1;
        self.pairs += 1;
        Ok(Series { transport, size, ring, end, index: self.open - 1, turns: Vec::new() })
    }

    pub fn close_all(&mut self) -> Result<()> {
        self.open = 0;
        self.helper.tell(&Job::Close, &[])
    }

    /// Has it keep `count` endpoints that nobody uses; bytes resident then.
    pub fn idle(&mut self, count: usize, pooled: bool) -> Result<u64> {
        self.helper.tell(&Job::Idle { count, pooled }, &[])?;
        match self.helper.answer()? {
            Answer::Idle { rss } => Ok(rss),
            _ => Err("an answer out of turn".into()),
        }
    }

    /// Adds so many others to a way of sending; the first process's ends, and by how much the second one's resident memory
    /// grew.
    pub fn crowd(&mut self, series: &Series, count: usize) -> Result<(Crowd, u64)> {
        let job =
            Job::Crowd { series: series.index, kind: series.transport, count, first: std::process::id() };
        self.helper.tell(&job, &[])?;
        let Answer::Door { port, rss: before } = self.helper.answer()? else {
            return Err("an answer out of turn".into());
        };
        let ours = Crowd::connect(series.transport, port, count)?;
        match self.helper.answer()? {
            Answer::Idle { rss } => Ok((ours, rss.saturating_sub(before))),
            _ => Err("an answer out of turn".into()),
        }
    }

    pub fn pid(&self) -> u32 {
        self.helper.pid()
    }
}

/// Asked while spinning: an error when the other process is gone. The second process need not ask, the
/// kernel ends it with the first.
pub fn alive() -> io::Result<()> {
    use nix::sys::wait::{waitid, Id, WaitPidFlag, WaitStatus};
    // Looks at a child that has ended, and leaves it to be waited for.
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    let how = match waitid(Id::All, flags) {
        Ok(WaitStatus::StillAlive) | Err(nix::Error::ECHILD) => return Ok(()),
        Ok(WaitStatus::Exited(_, status)) => format!("it ended with status {status}"),
        Ok(WaitStatus::Signaled(_, signal, _)) => format!("{signal} ended it"),
        Ok(other) => format!("{other:?}"),
        Err(e) => e.to_string(),
    };
    Err(io::Error::other(format!("the second process is gone: {how}")))
}

/// One end of a way.
pub enum End {
    Floor(Floor),
    Endpoint(OneEnd),
    Channel(Channel),
    Fds(Fds),
    Other(Box<dyn Link>),
}

impl End {
    pub fn new(
        transport: Transport,
        fds: Vec<OwnedFd>,
        ring: usize,
        pair: u16,
        first: bool,
    ) -> io::Result<End> {
        fn these<const N: usize>(fds: Vec<OwnedFd>) -> io::Result<[OwnedFd; N]> {
            fds.try_into().map_err(|_| io::Error::other("another number of descriptors than that way has"))
        }
        Ok(match transport {
            Transport::Floor => End::Floor(Floor::new(these(fds)?, first)?),
            Transport::Endpoint
            | Transport::EndpointInPlace
            | Transport::EndpointAsleep
            | Transport::EndpointDefault
            | Transport::Kernel
            | Transport::Ethernet => End::Endpoint(OneEnd::new(transport, &fds, pair, ring, first)?),
            Transport::Plain | Transport::KernelPlain => End::Fds(endpoints::plain(transport, pair, first)?),
            Transport::Channel => End::Channel(Channel::new(pair, first)?),
            Transport::TcpSpin => End::Other(Box::new(Spinning::new(these(fds)?)?)),
            Transport::Mqueue => End::Other(Box::new(Queues::new(these(fds)?))),
            Transport::Futex => End::Other(Box::new(Futex::new(these(fds)?, first)?)),
            Transport::UnixDgram
            | Transport::UnixSeqpacket
            | Transport::UnixStream
            | Transport::Tcp
            | Transport::Pipe
            | Transport::Eventfd => End::Fds(Fds::new(these(fds)?)),
        })
    }
}

impl End {
    /// An error if this is not what was to be measured.
    pub fn check(&self) -> Result<()> {
        match self {
            End::Channel(channel) => channel.is_one(),
            _ => Ok(()),
        }
    }
}

/// Does the same to the link inside an end, whichever it is: one decision for many messages. The floor is no link.
macro_rules! each {
    ($end:expr, $link:ident => $do:expr) => {
        $crate::bench::peer::each!($end, $link => $do,
            _floor => Err(std::io::Error::other("the floor carries no messages")))
    };
    ($end:expr, $link:ident => $do:expr, $floor:ident => $other:expr) => {
        match $end {
            $crate::bench::peer::End::Endpoint($link) => $do,
            $crate::bench::peer::End::Channel($link) => $do,
            $crate::bench::peer::End::Fds($link) => $do,
            $crate::bench::peer::End::Other($link) => $do,
            $crate::bench::peer::End::Floor($floor) => $other,
        }
    };
}
pub(crate) use each;

/// What one turn of one way brought.
pub enum Turn {
    Lat(lat::Turn),
    /// Messages in a second, and how many there were.
    Flood {
        rate: f64,
        messages: u64,
    },
}

/// All turns of one way, for one length of message.
pub struct Series {
    pub transport: Transport,
    size: usize,
    ring: usize,
    end: End,
    index: usize,
    /// With the CPU seconds of both processes.
    pub turns: Vec<(Turn, [f64; 2])>,
}

impl Series {
    /// Of all turns so far: their medians, and what 99 of 100 messages do not exceed.
    pub fn latency(&self) -> (Vec<f64>, f64) {
        let turns = || {
            self.turns.iter().filter_map(|(turn, _)| match turn {
                Turn::Lat(turn) => Some(turn),
                Turn::Flood { .. } => None,
            })
        };
        let p50 = turns().map(|turn| turn.p50).collect();
        let mut singles: Vec<f32> = turns().flat_map(|turn| turn.singles.iter().copied()).collect();
        (p50, lat::percentile(&mut singles, 990))
    }

    /// One more turn.
    pub fn turn(&mut self, peer: &mut Peer, what: What, time: Duration) -> Result<()> {
        let done = self.run(peer, what, time).and_then(|done| self.end.check().map(|()| done));
        let done = peer.helper.explained(done).map_err(|e| format!("{}: {e}", self.transport.name()))?;
        self.turns.push(done);
        Ok(())
    }

    fn run(&mut self, peer: &mut Peer, what: What, time: Duration) -> Result<(Turn, [f64; 2])> {
        let (size, ring) = (self.size, self.ring);
        if what == What::Waiting {
            return self.wait(peer, time);
        }
        peer.helper.tell(&Job::Turn { series: self.index, what, size }, &[])?;
        peer.helper.answer::<Answer>()?;
        let cpu = cpu_seconds()?;
        let start = Instant::now();
        let end = &mut self.end;
        let (sent, turn) = if what == What::Lat {
            let turn = each!(end, link => lat::over_link(link, size, ring, time), floor => lat::over_floor(floor, time));
            (None, Some(turn?))
        } else {
            (Some(each!(end, link => flood::pour(link, size, time))?), None)
        };
        let mine = cpu_seconds()? - cpu;
        let Answer::Done { messages, cpu_s } = peer.helper.answer()? else {
            return Err("an answer out of turn".into());
        };
        if sent.is_some_and(|sent| sent != messages) {
            return Err(format!("{} messages were sent, {messages} came", sent.unwrap_or(0)).into());
        }
        // Until the other process has them all: what is still under way was not carried.
        let turn = match turn {
            Some(turn) => Turn::Lat(turn),
            None => Turn::Flood { rate: messages as f64 / start.elapsed().as_secs_f64(), messages },
        };
        Ok((turn, [mine, cpu_s]))
    }

    /// Sends some messages, and then has them taken: for half of the time out of the blue, then each time after the receiver
    /// has waited for one before them.
    fn wait(&mut self, peer: &mut Peer, time: Duration) -> Result<(Turn, [f64; 2])> {
        let (series, size) = (self.index, self.size);
        let message = vec![0; size];
        let (mut awaited, mut unawaited) = (Vec::new(), Vec::new());
        // That it waited in the last turn is forgotten by then.
        std::thread::sleep(waiting::FORGOTTEN);
        let start = Instant::now();
        while unawaited.is_empty() || start.elapsed() < time / 2 {
            unawaited.push(self.taken(peer, &message)?);
        }
        while awaited.is_empty() || start.elapsed() < time {
            peer.helper.tell(&Job::Await { series, size }, &[])?;
            let told = Instant::now();
            while told.elapsed() < waiting::SETTLE {
                core::hint::spin_loop();
            }
            self.send(&message)?;
            peer.helper.answer::<Answer>()?;
            awaited.push(self.taken(peer, &message)?);
        }
        let p50 = lat::percentile(&mut awaited, 500);
        let unawaited = Some(lat::percentile(&mut unawaited, 500));
        Ok((Turn::Lat(lat::Turn { p50, singles: awaited, unawaited }), [0.0; 2]))
    }

    fn taken(&mut self, peer: &mut Peer, message: &[u8]) -> Result<f32> {
        for _ in 0..waiting::COUNT {
            self.send(message)?;
        }
        peer.helper.tell(&Job::Take { series: self.index, count: waiting::COUNT, size: self.size }, &[])?;
        match peer.helper.answer()? {
            Answer::Took(ns) => Ok(ns as f32),
            _ => Err("an answer out of turn".into()),
        }
    }

    fn send(&mut self, message: &[u8]) -> Result<()> {
        Ok(each!(&mut self.end, link => link.send(message))?)
    }
}

fn cpu_seconds() -> nix::Result<f64> {
    Ok(Duration::from(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)?).as_secs_f64())
}

/// The second process.
pub fn serve() -> ExitCode {
    let (mut ends, mut idle) = (Vec::new(), Vec::new());
    helper::serve(|control, job, fds| obey(control, job, fds, &mut ends, &mut idle))
}

fn obey(
    control: &Control,
    job: Job,
    fds: Vec<OwnedFd>,
    ends: &mut Vec<End>,
    idle: &mut Vec<Endpoint>,
) -> Result<()> {
    match job {
        Job::Stay(core) => cores::stay(core)?,
        Job::Open { transport, ring, pair } => {
            ends.push(End::new(transport, fds, ring, pair, false)?);
            control.say(Answer::Ready)?;
        }
        Job::Close => ends.clear(),
        Job::Crowd { series, kind, count, first } => {
            let (door, port) = Door::open(kind, first)?;
            control.say(Answer::Door { port, rss: endpoints::resident()? })?;
            let crowd = door.take(count)?;
            let end =
                if series < ends.len() { ends.remove(series) } else { return Err("no such way".into()) };
            let end = match (end, crowd) {
                (End::Fds(link), crowd) => End::Other(Box::new(Watched::new(link, crowd)?)),
                (end, Crowd::Endpoints(crowd)) => {
                    idle.extend(crowd);
                    end
                }
                _ => return Err("a way that has no crowd".into()),
            };
            ends.insert(series, end);
            control.say(Answer::Idle { rss: endpoints::resident()? })?;
        }
        Job::Idle { count, pooled } => {
            endpoints::idle(idle, count, pooled)?;
            control.say(Answer::Idle { rss: endpoints::resident()? })?;
        }
        Job::Await { series, size } => {
            each!(ends.get_mut(series).ok_or("no such way")?, link => waiting::take(link, 1, size))?;
            control.say(Answer::Ready)?;
        }
        Job::Take { series, count, size } => {
            let ns =
                each!(ends.get_mut(series).ok_or("no such way")?, link => waiting::take(link, count, size))?;
            control.say(Answer::Took(ns))?;
        }
        Job::Turn { series, what, size } => {
            let end = ends.get_mut(series).ok_or("no such way")?;
            let cpu = cpu_seconds()?;
            control.say(Answer::Ready)?;
            let messages = if what == What::Lat {
                each!(end, link => lat::echo(link, size), floor => floor.echo())?
            } else {
                each!(end, link => flood::drain(link, size))?
            };
            control.say(Answer::Done { messages, cpu_s: cpu_seconds()? - cpu })?;
        }
    }
    Ok(())
}
