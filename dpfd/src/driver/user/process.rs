//! What the endpoints of one process share: the registry, the service thread, how it is told things.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::endpoint::UserEndpoint;
use super::gateway::Asked;
use super::registry::{Entry, Member, Registry};
use super::service::{self, Answer};
use crate::addr::OWN_NID;
use crate::addr::{Addr, Dpid, Nid, PRIVILEGED};
use crate::error::{Error, Result};
use crate::graph::Part;
use dp_edge::sys::{barrier, process, unix};

/// How long a process that exits waits for what it sent to reach its receivers.
const LINGER: Duration = Duration::from_secs(2);
/// How long another process may take to say whether its endpoint is open, ms.
const ANSWER: i32 = 1000;
/// How long it may take to end.
const ENDING: Duration = Duration::from_secs(1);

/// What the service is told. Endpoints are named by their serial numbers.
#[derive(Debug)]
pub enum Command {
    /// A new endpoint.
    Open(Arc<UserEndpoint>),
    /// It has a new destination.
    Attach(u32, Addr),
    /// Its target changed: what waited for one may go.
    Resume(u32),
    /// A destination is gone.
    Lost(u32, Addr),
    /// It has a pool now.
    Pool(u32),
    /// Its receiver waits in the library: watch that it comes back.
    Hot(u32),
    /// The descriptor of a destination is full, and so is its own pair: its link wants to hear of room there.
    Busy(u32, Addr),
    /// It sends something that waits for what nobody tells: it is to try again soon.
    Awaited(u32),
    /// It has outgrown the edge to a destination.
    Outgrown(u32, Addr),
    /// The connection `.0` must hear that link `.1` has room.
    Room(u32, u32),
    /// The gateway, which this process is, knows no route to that node.
    Refuse(Nid),
    /// It is not the gateway any more.
    GatewayEnded,
}

/// A process with endpoints.
#[derive(Debug)]
pub struct Process {
    /// This node's own number.
    pub nid: Nid,
    /// Whether another CPU could run the other side.
    pub many_cpus: bool,
    /// Where endpoints find each other.
    pub registry: Registry,
    /// This process in it.
    pub member: Member,
    /// The edges that it may use, if it was given a strict graph.
    pub graph: Option<Arc<Part>>,
    wake: OwnedFd,
    commands: Mutex<Vec<Command>>,
    endpoints: Mutex<HashMap<u32, Weak<UserEndpoint>>>,
    gateway: Mutex<Option<Arc<Asked>>>,
    serials: AtomicU32,
    generation: u32,
}

/// One place for each generation of forks: a child never meets a lock that a thread of its parent held at the fork.
static CURRENT: [Mutex<Option<Arc<Process>>>; GENERATIONS] = [const { Mutex::new(None) }; GENERATIONS];
/// Forks within forks after which a place is used again.
const GENERATIONS: usize = 64;

fn place(generation: u32) -> &'static Mutex<Option<Arc<Process>>> {
    &CURRENT[generation as usize % GENERATIONS]
}

fn held<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `DP_NID`, or 1: a node without a graph is node 1, and so is one whose number cannot be.
fn own_nid() -> Nid {
    let told = std::env::var_os(OWN_NID.name).and_then(|value| OWN_NID.parse(&value).ok().flatten());
    told.unwrap_or(OWN_NID.default) as Nid
}

/// Before there is a second thread that takes microseconds, later milliseconds: in a thread of its own then, for which
/// nobody waits. Where it does not come about, locks are mutexes.
fn prepare_fences() {
    if process::is_alone() {
        return barrier::prepare();
    }
    let prepare = || {
        process::block_signals();
        barrier::prepare();
    };
    let _ = std::thread::Builder::new().name("dp-fences".to_string()).stack_size(64 * 1024).spawn(prepare);
}

impl Process {
    /// This process, with its service running; a child of a fork gets its own.
    ///
    /// # Errors
    ///
    /// [`Error::Folder`], [`Error::Graph`]; EMFILE, EAGAIN (no more threads).
    pub fn current() -> Result<Arc<Process>> {
        process::watch_forks();
        let generation = process::generation();
        let mut current = held(place(generation));
        if let Some(p) = current.as_ref().filter(|p| p.generation == generation) {
            return Ok(p.clone());
        }
        // An ancestor's: its thread does not run here, and nothing of it is ours to close.
        if let Some(parent) = current.take() {
            core::mem::forget(parent);
        }
        // Before there is anything to clear away.
        let graph = Part::of_environment(own_nid)?;
        let wake = nix::sys::eventfd::EventFd::from_flags(
            nix::sys::eventfd::EfdFlags::EFD_CLOEXEC | nix::sys::eventfd::EfdFlags::EFD_NONBLOCK,
        )
        .map_err(|e| Error::System { call: "eventfd", errno: e as i32 })?;
        let registry = Registry::open()?;
        let member = registry.join()?;
        let p = Arc::new(Process {
            nid: own_nid(),
            many_cpus: process::cpus() > 1,
            registry,
            member,
            graph,
            wake: wake.into(),
            commands: Mutex::default(),
            endpoints: Mutex::default(),
            gateway: Mutex::default(),
            serials: AtomicU32::new(1),
            generation,
        });
        prepare_fences();
        service::start(p.clone()).inspect_err(|_| p.registry.leave(&p.member))?;
        *current = Some(p.clone());
        process::at_exit(at_exit);
        Ok(p)
    }

    /// This process, if it has or had endpoints of this driver.
    pub fn started() -> Option<Arc<Process>> {
        let generation = process::generation();
        held(place(generation)).as_ref().filter(|p| p.generation == generation).cloned()
    }

    /// Tells the service.
    pub fn command(&self, command: Command) {
        let mut commands = held(&self.commands);
        commands.push(command);
        if commands.len() == 1 {
            self.nudge();
        }
    }

    fn nudge(&self) {
        let one = 1u64.to_ne_bytes();
        let _ = nix::unistd::write(&self.wake, &one);
    }

    /// What the service was told since it last asked.
    pub fn commands(&self) -> Vec<Command> {
        core::mem::take(&mut *held(&self.commands))
    }

    /// Readable when there are commands.
    pub fn wake_fd(&self) -> &OwnedFd {
        &self.wake
    }

    /// Opens endpoint `dpid` (0: any free one): the program's descriptor, and the endpoint.
    ///
    /// # Errors
    ///
    /// Those of `dp_open`.
    pub fn open(self: &Arc<Process>, dpid: Dpid) -> Result<(OwnedFd, Arc<UserEndpoint>)> {
        if dpid != 0 && dpid < PRIVILEGED && !process::may_bind_service() {
            return Err(Error::Privileged(dpid));
        }
        self.make(|entry| {
            let found = if dpid == 0 { self.registry.enter_any(entry) } else { self.enter(dpid, entry) };
            found.map(Addr::local)
        })
    }

    /// Opens the proxy of an endpoint of another node: one that the gateway alone knows.
    ///
    /// # Errors
    ///
    /// [`Error::InUse`], [`Error::BadDpid`]; EMFILE.
    pub fn open_proxy(self: &Arc<Process>, addr: Addr) -> Result<(OwnedFd, Arc<UserEndpoint>)> {
        let open = |inner: Arc<UserEndpoint>| inner.addr() == addr && !inner.is_closed();
        match addr.dpid {
            0 => Err(Error::BadDpid(0)),
            dpid if self.endpoints().into_iter().any(open) => Err(Error::InUse(dpid)),
            _ => self.make(|_| Ok(addr)),
        }
    }

    fn make(
        self: &Arc<Process>,
        enter: impl FnOnce(&Entry) -> Result<Addr>,
    ) -> Result<(OwnedFd, Arc<UserEndpoint>)> {
        let (front, back) = unix::pair().map_err(|errno| Error::System { call: "socketpair", errno })?;
        unix::mark_messages(back.as_fd());
        let key =
            process::random().map_err(std::io::Error::from_raw_os_error).map_err(Error::io("getrandom"))?;
        let serial = self.serials.fetch_add(1, Ordering::Relaxed);
        let entry = Entry { process: self.member.name.clone(), serial };
        let addr = enter(&entry)?;
        let inner = Arc::new(UserEndpoint::new(addr, entry, back, self.clone(), key));
        held(&self.endpoints).insert(serial, Arc::downgrade(&inner));
        self.command(Command::Open(inner.clone()));
        Ok((front, inner))
    }

    /// Whom to tell of addresses of other nodes: this process is the gateway, or no longer.
    pub fn set_gateway(&self, asked: Option<Arc<Asked>>) {
        *held(&self.gateway) = asked;
    }

    /// The same, asked.
    pub fn gateway(&self) -> Option<Arc<Asked>> {
        held(&self.gateway).clone()
    }

    fn enter(&self, dpid: Dpid, entry: &Entry) -> Result<Dpid> {
        for _ in 0..8 {
            if self.registry.enter(dpid, entry)? {
                return Ok(dpid);
            }
            let Some(old) = self.registry.look_up(dpid) else { continue };
            if self.is_open(dpid, &old) {
                return Err(Error::InUse(dpid));
            }
            self.registry.remove(dpid, &old);
        }
        Err(Error::InUse(dpid))
    }

    /// Whether the endpoint that an entry stands for is still open. The kernel knows before the service does.
    fn is_open(&self, dpid: Dpid, entry: &Entry) -> bool {
        if entry.process == self.member.name {
            let inner = held(&self.endpoints).get(&entry.serial).and_then(Weak::upgrade);
            return inner.is_some_and(|i| {
                let open = !i.is_closed();
                if !open {
                    i.retire();
                }
                open
            });
        }
        if !self.registry.lives(&entry.process) {
            self.registry.sweep();
            return false;
        }
        match service::ask(&self.registry.door_path(&entry.process), dpid, entry.serial, ANSWER) {
            Answer::Open | Answer::Nothing => true,
            Answer::Closed => false,
            Answer::Over => !self.ends(&entry.process),
        }
    }

    /// Whether a process that does not answer any more is about to end: the kernel takes its time to clear away a
    /// killed one, and gives up its lock late.
    fn ends(&self, process: &str) -> bool {
        let end = Instant::now() + ENDING;
        while self.registry.lives(process) {
            if Instant::now() >= end {
                return false;
            }
            process::rest(Duration::from_millis(1));
        }
        true
    }

    /// All endpoints that are open in this process.
    pub fn endpoints(&self) -> Vec<Arc<UserEndpoint>> {
        held(&self.endpoints).values().filter_map(Weak::upgrade).collect()
    }

    /// An endpoint is over.
    pub fn forget(&self, serial: u32) {
        held(&self.endpoints).remove(&serial);
    }

    /// Waits until everything sent is with its receiver, or `limit` is over. Whether it is.
    pub fn flush(&self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        loop {
            if !self.endpoints().iter().any(|i| i.unsent()) {
                return true;
            }
            if Instant::now() >= end {
                return false;
            }
            self.nudge();
            process::rest(Duration::from_millis(1));
        }
    }
}

/// At exit(3): what was written plainly may still be in this process's hands.
extern "C" fn at_exit() {
    let generation = process::generation();
    let Ok(current) = place(generation).try_lock() else { return };
    let Some(p) = current.as_ref().filter(|p| p.generation == generation) else { return };
    p.flush(LINGER);
    for inner in p.endpoints() {
        inner.retire();
    }
    let entry = Entry { process: p.member.name.clone(), serial: 0 };
    p.registry.remove_gateway(&entry);
    p.registry.leave(&p.member);
}
