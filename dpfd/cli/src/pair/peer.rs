//! The second process, seen from the first: what it can be told, and pairs of ends in both.
//!
//! One protocol for all that is measured. A job is answered when it is done; a task on an end is answered twice, when it
//! begins and when it is done. An answer in place of another is an error, because it has another form. The second process can
//! be on another node: what it is told goes by way of the process that serves there then ([`Line`]).

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU16, Ordering};

use dp_measure::cost::probe::Load;
use dp_measure::logp::probe::Load as Requests;
use dpfd::{Dpid, Nid};
use serde::{Deserialize, Serialize};

use super::clock::Timing;
use super::crowd::Crowd;
use super::end::{End, Role};
use super::helper::Helper;
use super::line::Line;
use super::nodes::Nodes;
use super::transport::Transport;
use super::Result;

/// What the first process tells the second. Ends are counted from 0 as they come.
#[derive(Serialize, Deserialize)]
pub enum Job {
    /// Stay on this core.
    Stay(usize),
    /// Take your end of a way; its descriptors come along.
    Open { transport: Transport, role: Role },
    /// Take an end of a way from another node's endpoint by the route of this name, and meet it. Answered with the end's
    /// number, then when they have met.
    Meet { with: (Nid, Dpid), pool: Option<usize>, route: String, greeting: u64 },
    /// Do this on an end. Answered when it begins, and with [`Done`].
    On { end: usize, task: Task },
    /// Go on, in the middle of a task.
    Go,
    /// See whether what an end sends goes the way that it is to go.
    Check { end: usize },
    /// Forget all ends.
    Close,
    /// Have so many endpoints that nobody uses. Answered with bytes resident then.
    Idle { count: usize, pooled: bool },
    /// Have so many more like this end that nobody uses, and wait for all of them, where that is how it waits; the first
    /// process has this number. Answered with the port to connect to, then with by how much resident memory grew.
    Crowd { end: usize, kind: Transport, count: usize, first: u32 },
}

/// Of messages and buffers that another node may ask for, bytes: what no measurement needs more of.
const LARGEST: usize = 1 << 26;
/// The same of packets.
const MOST: usize = 1 << 21;

impl Job {
    /// How often it is answered.
    pub fn answers(&self) -> u32 {
        match self {
            Job::On { .. } | Job::Meet { .. } => 2,
            Job::Go => 0,
            _ => 1,
        }
    }

    /// Whether it is to be told to go on, once.
    pub fn is_to_go_on(&self) -> bool {
        matches!(self, Job::On { task: Task::Take { later: true, .. }, .. })
    }

    /// Whether a process on another node may have it done.
    pub fn is_for_nodes(&self) -> bool {
        match self {
            Job::Meet { pool, .. } => pool.is_none_or(|bytes| bytes <= 2 * LARGEST),
            Job::On { task, .. } => task.is_for_nodes(),
            Job::Check { .. } | Job::Close | Job::Go => true,
            _ => false,
        }
    }
}

impl Task {
    fn is_for_nodes(self) -> bool {
        let some = |bytes: usize| (1..=LARGEST).contains(&bytes);
        match self {
            Task::Echo { load } => some(load.packet) && some(load.spread),
            Task::Drain { size } => some(size),
            Task::Reply(load) => some(load.size) && some(load.reply),
            Task::Take { load, packets, timing, .. } => {
                some(load.packet) && some(load.spread) && (timing.fewest()..=MOST).contains(&packets)
            }
            Task::Feed { packet, packets, .. } => some(packet) && packets <= MOST,
            Task::Empty { packet, bytes } => some(packet) && bytes / packet <= MOST,
            Task::Acknowledge { packet, packets } | Task::Exchange { packet, packets, .. } => {
                some(packet) && packets <= MOST
            }
            Task::Threads { packet, packets, core } => some(packet) && packets <= MOST && core.is_none(),
            Task::ReplyToAll { .. } | Task::Stream { .. } => false,
        }
    }
}

/// The work of one end.
#[derive(Serialize, Deserialize, Clone, Copy)]
pub enum Task {
    /// Send messages back as they come, but the one that says stop.
    Echo { load: Load },
    /// Receive messages of so many bytes, of a stream as many at once as there are, until one says stop.
    Drain { size: usize },
    /// Receive so many packets, if `later` only when told to go on: ns for each.
    Take { load: Load, packets: usize, later: bool, timing: Timing },
    /// Reply to requests until one says stop.
    Reply(Requests),
    /// The same on so many ends at once from this one on, or on this one endpoint if so many send to it.
    ReplyToAll { load: Requests, senders: usize },
    /// Send requests as fast as they are replied to: ns for each.
    Stream { load: Requests, seconds: f64 },
    /// Send so many packets each time a message of one byte says 1; so many times.
    Feed { packet: usize, packets: usize, times: usize },
    /// Receive so many bytes.
    Empty { packet: usize, bytes: usize },
    /// Receive so many packets, then acknowledge.
    Acknowledge { packet: usize, packets: usize },
    /// Send and receive so many, by turns: ns for all.
    Exchange { packet: usize, packets: usize, ahead: usize },
    /// The same with two threads, the second on this core if there is one for it.
    Threads { packet: usize, packets: usize, core: Option<usize> },
}

/// What came of a task.
#[derive(Serialize, Deserialize, Default)]
pub struct Done {
    /// Messages that were drained.
    pub messages: u64,
    /// What it took, as the task says.
    pub ns: f64,
    /// Processor time of the whole process.
    pub cpu_s: f64,
}

/// Both ends of one way: the own one, and where the other process keeps the other.
pub struct Pair {
    pub transport: Transport,
    /// The transport's, or the route's.
    pub name: String,
    pub end: End,
    pub index: usize,
}

/// The second process.
pub struct Peer {
    other: Other,
    ends: usize,
}

/// Where it is.
enum Other {
    Here(Helper),
    Node(Line),
}

impl Other {
    fn answer<A: for<'a> Deserialize<'a>>(&self) -> Result<A> {
        match self {
            Other::Here(helper) => helper.answer(),
            Other::Node(line) => line.answer(),
        }
    }

    fn tell(&self, job: Job, fds: &[OwnedFd]) -> Result<()> {
        match self {
            Other::Here(helper) => helper.tell(&job, fds),
            Other::Node(line) => line.tell(job),
        }
    }
}

/// The number of another pair: endpoints and channels find each other by it.
pub fn next_pair() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Peer {
    /// Starts it, on this core.
    pub fn start(core: usize) -> Result<Peer> {
        let peer = Peer { other: Other::Here(Helper::start()?), ends: 0 };
        peer.ask(Job::Stay(core))?;
        Ok(peer)
    }

    /// That of whoever serves on another node.
    pub fn of_node(line: Line) -> Peer {
        Peer { other: Other::Node(line), ends: 0 }
    }

    /// Makes a way of sending to the other node by the route of this name; both endpoints get a pool of so many bytes.
    pub fn open_by(&mut self, route: &str, pool: Option<usize>) -> Result<Pair> {
        let Other::Node(line) = &self.other else { return Err("no other node".into()) };
        let end = End::Endpoint(line.meet(route, pool)?);
        self.ends += 1;
        Ok(Pair { transport: Transport::Route, name: route.into(), end, index: self.ends - 1 })
    }

    /// Makes a way of sending between the two, for messages of up to `size` bytes; endpoints get a pool of so many.
    pub fn open(
        &mut self,
        transport: Transport,
        size: usize,
        pool: Option<usize>,
        nodes: Option<&Nodes>,
    ) -> Result<Pair> {
        let pair = next_pair();
        let mut make = || {
            let [ours, theirs] = transport.make(size, nodes)?;
            let role = |first| Role::OneOfTwo { pair, first, pool };
            self.take(transport, role(false), &theirs)?;
            let end = End::new(transport, role(true), ours)?;
            // Some ways lose what is sent to nobody.
            Ok(Pair { transport, name: transport.name().into(), end, index: self.taken()? })
        };
        make().map_err(|e: Box<dyn std::error::Error>| format!("{transport}: {e}").into())
    }

    /// Has it take an end.
    pub fn take(&self, transport: Transport, role: Role, fds: &[OwnedFd]) -> Result<()> {
        self.other.tell(Job::Open { transport, role }, fds)
    }

    /// Which end that is, once it has it.
    pub fn taken(&mut self) -> Result<usize> {
        self.other.answer::<()>()?;
        self.ends += 1;
        Ok(self.ends - 1)
    }

    /// Has it forget all ends: numbers and memory are free then.
    pub fn close(&mut self) -> Result<()> {
        self.ends = 0;
        self.ask(Job::Close)
    }

    /// Has it begin something.
    pub fn begin(&self, end: usize, task: Task) -> Result<()> {
        self.tell(end, task)?;
        self.begun()
    }

    /// Tells it to begin something.
    pub fn tell(&self, end: usize, task: Task) -> Result<()> {
        self.other.tell(Job::On { end, task }, &[])
    }

    /// Waits until it does.
    pub fn begun(&self) -> Result<()> {
        self.other.answer()
    }

    /// Has it go on.
    pub fn go_on(&self) -> Result<()> {
        self.other.tell(Job::Go, &[])
    }

    /// What came of it.
    pub fn done(&self) -> Result<Done> {
        self.other.answer()
    }

    /// Whether both ends of a pair send by the way that is to be measured: of a route to another node each node's gateway is
    /// asked.
    pub fn check(&self, pair: &Pair) -> Result<()> {
        pair.end.check()?;
        match &self.other {
            Other::Here(_) => Ok(()),
            Other::Node(_) => self.ask(Job::Check { end: pair.index }),
        }
    }

    /// Has it keep `count` endpoints that nobody uses; bytes resident then.
    pub fn idle(&self, count: usize, pooled: bool) -> Result<u64> {
        self.other.tell(Job::Idle { count, pooled }, &[])?;
        self.other.answer()
    }

    /// Adds so many others to a way of sending; the first process's ends, and by how many bytes the second one grew.
    pub fn crowd(&self, pair: &Pair, count: usize) -> Result<(Crowd, u64)> {
        let (end, kind) = (pair.index, pair.transport);
        self.other.tell(Job::Crowd { end, kind, count, first: std::process::id() }, &[])?;
        let ours = Crowd::connect(kind, self.other.answer()?, count)?;
        Ok((ours, self.other.answer()?))
    }

    /// What came of something, and if it is an error, why that process gave up, if it did and said so: who finds it gone has
    /// not asked it.
    pub fn explained<T>(&self, done: Result<T>) -> Result<T> {
        let last_words = || match &self.other {
            Other::Here(helper) => helper.last_words(),
            Other::Node(line) => line.last_words(),
        };
        done.map_err(|error| match last_words() {
            Some(words) if error.to_string() != words => format!("{error}: {words}").into(),
            _ => error,
        })
    }

    /// If it is on this machine.
    pub fn pid(&self) -> Option<u32> {
        match &self.other {
            Other::Here(helper) => Some(helper.pid()),
            Other::Node(_) => None,
        }
    }

    fn ask(&self, job: Job) -> Result<()> {
        self.other.tell(job, &[])?;
        self.other.answer()
    }
}
