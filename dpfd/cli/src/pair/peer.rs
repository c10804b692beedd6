//! The second process, seen from the first: what it can be told, and pairs of ends in both.
//!
//! One protocol for all that is measured. A job is answered when it is done; a task on an end is answered twice, when it
//! begins and when it is done. An answer in place of another is an error, because it has another form.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU16, Ordering};

use dp_measure::cost::probe::Load;
use dp_measure::logp::probe::Load as Requests;
use serde::{Deserialize, Serialize};

use super::clock::Timing;
use super::crowd::Crowd;
use super::end::{End, Role};
use super::helper::Helper;
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
    /// Do this on an end. Answered when it begins, and with [`Done`].
    On { end: usize, task: Task },
    /// Go on, in the middle of a task.
    Go,
    /// Forget all ends.
    Close,
    /// Have so many endpoints that nobody uses. Answered with bytes resident then.
    Idle { count: usize, pooled: bool },
    /// Have so many more like this end that nobody uses, and wait for all of them, where that is how it waits; the first
    /// process has this number. Answered with the port to connect to, then with by how much resident memory grew.
    Crowd { end: usize, kind: Transport, count: usize, first: u32 },
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
    pub end: End,
    pub index: usize,
}

/// The second process.
pub struct Peer {
    helper: Helper,
    ends: usize,
}

/// The number of another pair: endpoints and channels find each other by it.
pub fn next_pair() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Peer {
    /// Starts it, on this core.
    pub fn start(core: usize) -> Result<Peer> {
        let peer = Peer { helper: Helper::start()?, ends: 0 };
        peer.ask(&Job::Stay(core))?;
        Ok(peer)
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
            Ok(Pair { transport, end, index: self.taken()? })
        };
        make().map_err(|e: Box<dyn std::error::Error>| format!("{transport}: {e}").into())
    }

    /// Has it take an end.
    pub fn take(&self, transport: Transport, role: Role, fds: &[OwnedFd]) -> Result<()> {
        self.helper.tell(&Job::Open { transport, role }, fds)
    }

    /// Which end that is, once it has it.
    pub fn taken(&mut self) -> Result<usize> {
        self.helper.answer::<()>()?;
        self.ends += 1;
        Ok(self.ends - 1)
    }

    /// Has it forget all ends: numbers and memory are free then.
    pub fn close(&mut self) -> Result<()> {
        self.ends = 0;
        self.ask(&Job::Close)
    }

    /// Has it begin something.
    pub fn begin(&self, end: usize, task: Task) -> Result<()> {
        self.tell(end, task)?;
        self.begun()
    }

    /// Tells it to begin something.
    pub fn tell(&self, end: usize, task: Task) -> Result<()> {
        self.helper.tell(&Job::On { end, task }, &[])
    }

    /// Waits until it does.
    pub fn begun(&self) -> Result<()> {
        self.helper.answer()
    }

    /// Has it go on.
    pub fn go_on(&self) -> Result<()> {
        self.helper.tell(&Job::Go, &[])
    }

    /// What came of it.
    pub fn done(&self) -> Result<Done> {
        self.helper.answer()
    }

    /// Has it keep `count` endpoints that nobody uses; bytes resident then.
    pub fn idle(&self, count: usize, pooled: bool) -> Result<u64> {
        self.helper.tell(&Job::Idle { count, pooled }, &[])?;
        self.helper.answer()
    }

    /// Adds so many others to a way of sending; the first process's ends, and by how many bytes the second one grew.
    pub fn crowd(&self, pair: &Pair, count: usize) -> Result<(Crowd, u64)> {
        let (end, kind) = (pair.index, pair.transport);
        self.helper.tell(&Job::Crowd { end, kind, count, first: std::process::id() }, &[])?;
        let ours = Crowd::connect(kind, self.helper.answer()?, count)?;
        Ok((ours, self.helper.answer()?))
    }

    /// What came of something, and if it is an error, why that process gave up, if it did and said so.
    pub fn explained<T>(&self, done: Result<T>) -> Result<T> {
        self.helper.explained(done)
    }

    pub fn pid(&self) -> u32 {
        self.helper.pid()
    }

    fn ask(&self, job: &Job) -> Result<()> {
        self.helper.tell(job, &[])?;
        self.helper.answer()
    }
}
