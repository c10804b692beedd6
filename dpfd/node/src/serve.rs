//! The loop of a gateway: one thread, one epoll. After something has happened it looks for a moment before it sleeps.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use dp_edge::sys::process;
use dp_route::library::{LoadError, Loaded};
use dp_seal::GraphKey;
use dpfd::driver::user::gateway::Gateway;
use dpfd::driver::user::registry::Registry;
use dpfd::{Addr, Dpid};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::resource::{getrlimit, setrlimit, Resource};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use thiserror::Error;

use crate::guard::{Keys, NoGuard};
use crate::look::Look;
use crate::nart::Nart;
use crate::node::Node;
use crate::peer::{Peer, Way};
use crate::places::Places;
use crate::proxies::{Proxies, Taken};
use crate::status::{self, Door};
use crate::Limits;

mod routes;

/// What epoll knows things by; routes begin at `ROUTES`.
const ASKED: u64 = 0;
const TIMER: u64 = 1;
const SIGNALS: u64 = 2;
const STATUS: u64 = 3;
const ROUTES: u64 = 16;
/// Events of one call.
const EVENTS: usize = 64;
/// Shorter waits are measured by the timer, longer ones by epoll itself, which counts milliseconds.
const SHORT: u64 = 20_000_000;
/// How often proxies that could not be served are looked at, nanoseconds.
const RESUME: u64 = 10_000_000;
/// While it looks, epoll is asked each so many rounds: routes and proxies are looked at themselves.
const ROUNDS: u32 = 8;
/// How long a gateway that is told to end waits for acknowledgements, nanoseconds. Told once more, it does not.
const ENDING: u64 = 2_000_000_000;
/// How long the former gateway may take to be cleared away, nanoseconds.
const CLEARED: u64 = 1_000_000_000;
/// Descriptors that a proxy takes with a receiver or two behind it; proxies that only frames use get half of all there are.
const DESCRIPTORS: usize = 8;
/// Those that it takes by itself. Frames open no more once proxies that programs here can send to have half of all.
const ATTACHED: usize = 4;
/// Proxies that frames of a node may open in any case.
const PROXIES_LEAST: usize = 16;
/// The file of places, in the folder of the registry.
const PLACES: &str = "gateway.places";

/// What a gateway is told.
#[derive(Debug)]
pub struct Options {
    /// Where everybody is.
    pub nart: Nart,
    /// The graph's key, where frames are to be sealed.
    pub key: Option<GraphKey>,
    /// How long it looks before it sleeps, at most. 0: not at all.
    pub spin: Duration,
    /// What one other node may cost.
    pub limits: Limits,
    /// Shared objects with routes.
    pub libraries: Vec<PathBuf>,
}

/// Why it did not run.
#[derive(Debug, Error)]
pub enum CannotServe {
    /// This process cannot be the gateway.
    #[error(transparent)]
    Gateway(#[from] dpfd::Error),
    /// A shared object is no route.
    #[error(transparent)]
    Library(#[from] LoadError),
    /// Frames to that node cannot be sealed.
    #[error("node {0}: {1}")]
    Guard(dpfd::Nid, NoGuard),
    /// None of this node's routes could be opened.
    #[error("no route of node {0} could be opened")]
    NoRoute(dpfd::Nid),
    /// A call of the system failed.
    #[error("{0}: {1}")]
    System(String, io::Error),
}

fn system<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> CannotServe {
    |error| CannotServe::System(what.into(), error.into())
}

/// A gateway that is about to run.
pub struct Server {
    node: Node<Proxies>,
    epoll: Rc<Epoll>,
    timer: TimerFd,
    /// For when it is set.
    timer_at: Option<u64>,
    signals: SignalFd,
    door: Door,
    folder: PathBuf,
    look: Look,
    /// Of its looks.
    round: u32,
    /// Until when it waits, having been told to end.
    end: Option<u64>,
    /// Messages on their way from a proxy to the node, so that no memory is needed for each of them.
    taken: Vec<(Addr, Dpid, Taken)>,
}

impl Server {
    /// Opens everything, and is the gateway of its node from then on. From here on this thread takes SIGTERM and SIGINT as a
    /// wish that it ends. `DP_NID` must say what the graph does, and `DP_GRAPH` nothing. What does not work but is not
    /// needed is told to `warn`.
    ///
    /// # Errors
    ///
    /// See [`CannotServe`].
    pub fn open(options: Options, mut warn: impl FnMut(String)) -> Result<Server, CannotServe> {
        let Options { nart, key, spin, limits, libraries } = options;
        // Threads that are started below inherit it.
        let mut stop = SigSet::empty();
        stop.add(Signal::SIGTERM);
        stop.add(Signal::SIGINT);
        stop.thread_block().map_err(system("sigprocmask"))?;
        let signals = SignalFd::with_flags(&stop, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
            .map_err(system("signalfd"))?;
        let descriptors = many_descriptors();
        let gateway = start_gateway()?;
        let libraries = libraries.iter().map(|path| Loaded::load(path)).collect::<Result<Vec<_>, _>>()?;
        let (routes, places) = routes::open(&nart.own, &libraries, &mut warn);
        if routes.is_empty() {
            return Err(CannotServe::NoRoute(nart.nid));
        }
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let keys = Keys { key, epoch: (wall.as_nanos() as u64).saturating_sub(process::now()) };
        let mut peers = Vec::new();
        for other in &nart.others {
            let mut ways = Vec::new();
            for &(own, at, security) in &other.ways {
                let guard = keys.guard(security, nart.nid, other.nid);
                let guard = guard.map_err(|why| CannotServe::Guard(other.nid, why))?;
                let users = nart.users(at.route());
                ways.extend(places[own].map(|route| Way::new(route, at, guard).with_users(users)));
            }
            if !ways.is_empty() {
                let mut peer = Peer::new(other.nid, other.name.clone(), ways, limits);
                other.wishes.iter().for_each(|(ends, route)| peer.wish(*ends, route));
                peers.push(peer);
            }
        }
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(system("epoll_create"))?;
        let timer =
            TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK)
                .map_err(system("timerfd_create"))?;
        let folder = Registry::open_existing()?.map(|registry| registry.folder().to_path_buf());
        let folder = folder.unwrap_or_default();
        let door = Door::open(&folder).map_err(system(folder.display().to_string()))?;
        let owner = std::fs::metadata(&folder).map_err(system(folder.display().to_string()))?.uid();
        let file = folder.join(PLACES);
        let places = Places::open(&file, nart.nid).map_err(system(file.display().to_string()))?;
        let seed = process::random().map_err(io::Error::from_raw_os_error).map_err(system("getrandom"))?;
        let epoll = Rc::new(epoll);
        let most = descriptors / 2 / DESCRIPTORS / peers.len().max(1);
        let most = most.clamp(PROXIES_LEAST, limits.flows.max(PROXIES_LEAST));
        let proxies = Proxies::new(gateway, epoll.clone(), most, descriptors / 2 / ATTACHED);
        // By the processor's instruction, where it has one.
        let checksum = Some(crc32c::crc32c_append as dp_flow::Checksum);
        let mut node = Node::new(nart.nid, proxies, routes, peers, places, checksum, seed);
        node.set_user(owner);
        let longest =
            if process::cpus() > 1 { u32::try_from(spin.as_nanos()).unwrap_or(u32::MAX) } else { 0 };
        let look = Look::new(longest);
        let mut server = Server {
            node,
            epoll,
            timer,
            timer_at: None,
            signals,
            door,
            folder,
            look,
            round: 0,
            end: None,
            taken: Vec::new(),
        };
        server.listen().map_err(system("epoll_ctl"))?;
        Ok(server)
    }

    fn listen(&mut self) -> nix::Result<()> {
        let event = |token| EpollEvent::new(EpollFlags::EPOLLIN, token);
        self.epoll.add(&self.timer, event(TIMER))?;
        self.epoll.add(&self.signals, event(SIGNALS))?;
        self.epoll.add(self.door.listener(), event(STATUS))?;
        for (at, route) in self.node.routes().iter().enumerate() {
            if let Some(descriptor) = route.descriptor() {
                self.epoll.add(descriptor, event(ROUTES + at as u64))?;
            }
        }
        let epoll = self.epoll.clone();
        epoll.add(self.node.local().asked_fd(), event(ASKED))
    }

    /// Its node.
    pub fn node(&mut self) -> &mut Node<Proxies> {
        &mut self.node
    }

    /// Runs until it is told to end. How many messages of programs here it had that nobody acknowledged: they are gone.
    ///
    /// # Errors
    ///
    /// epoll_wait(2) failed.
    pub fn run(&mut self) -> Result<usize, CannotServe> {
        let mut events = [EpollEvent::empty(); EVENTS];
        let mut more = false;
        loop {
            let now = process::now();
            self.node.local().pass(now);
            if self.end.is_some_and(|end| now >= end || !self.node.waits_for_others()) {
                return Ok(self.node.waiting());
            }
            let looks = self.look.goes_on(now);
            let mut done = 0;
            self.round = self.round.wrapping_add(1);
            if looks {
                done += self.look_around(now);
            }
            if !looks || self.round % ROUNDS == 0 {
                let there = !looks && self.node.local().rest();
                let wait = if more || looks || there { EpollTimeout::ZERO } else { self.sleep(now) };
                let n = match self.epoll.wait(&mut events, wait) {
                    Ok(n) => n,
                    Err(nix::Error::EINTR) => 0,
                    Err(error) => return Err(CannotServe::System("epoll_wait".into(), error.into())),
                };
                done += self.serve(process::now(), &events[..n]);
            }
            let now = process::now();
            more = self.node.turn(now);
            if self.end.is_none() && self.node.local().has_paused() {
                self.node.local().resume();
            }
            if done > 0 {
                self.look.came(now);
            }
        }
    }

    /// What epoll tells. How many messages and frames that were.
    fn serve(&mut self, now: u64, events: &[EpollEvent]) -> usize {
        let mut done = 0;
        for event in events {
            match event.data() {
                ASKED => self.answer(),
                TIMER => self.timed_out(),
                SIGNALS => self.told_to_end(now),
                STATUS => self.tell(),
                token => match Proxies::address(token) {
                    // One that ends takes nothing more.
                    Some(_) if self.end.is_some() => {}
                    Some(addr) => done += self.take(now, addr),
                    None => done += self.node.receive(now, (token - ROUTES) as usize),
                },
            }
        }
        done
    }

    /// Takes what came without being told: no bell is rung for it, and epoll is not asked.
    fn look_around(&mut self, now: u64) -> usize {
        let mut done = 0;
        for route in 0..self.node.routes().len() {
            done += self.node.receive(now, route);
        }
        let Server { node, taken, .. } = self;
        done += node.local().look(|to, from, message| taken.push((to, from, message)));
        self.send_taken(now);
        done
    }

    fn take(&mut self, now: u64, addr: Addr) -> usize {
        let Server { node, taken, look, .. } = self;
        let n = node.local().take(addr, look.is_on(), |from, message| taken.push((addr, from, message)));
        self.send_taken(now);
        n
    }

    fn send_taken(&mut self, now: u64) {
        for (to, from, message) in self.taken.drain(..) {
            self.node.send(now, from, to, message);
        }
    }

    fn told_to_end(&mut self, now: u64) {
        let again = self.end.is_some();
        while let Ok(Some(_)) = self.signals.read_signal() {}
        self.end = Some(if again { now } else { now.saturating_add(ENDING) });
        self.node.local().stop();
    }

    fn answer(&mut self) {
        let known: Vec<_> = self.node.peers().iter().map(Peer::nid).collect();
        self.node.local().answer(|nid| known.contains(&nid));
    }

    fn tell(&mut self) {
        let node = &mut self.node;
        self.door.answer(&self.folder, || status::Gateway::of(node));
    }

    fn timed_out(&mut self) {
        let _ = self.timer.wait();
        self.timer_at = None;
    }

    /// How long to sleep, for which the timer may have been set.
    fn sleep(&mut self, now: u64) -> EpollTimeout {
        let resume = self.node.local().has_paused().then_some(now + RESUME);
        let sweep = self.node.local().next_sweep();
        let all = [self.node.next_timeout(), resume, sweep, self.end];
        let Some(at) = all.into_iter().flatten().min() else {
            return EpollTimeout::NONE;
        };
        let left = at.saturating_sub(now);
        if left == 0 {
            return EpollTimeout::ZERO;
        }
        if left >= SHORT {
            let ms = left.div_ceil(1_000_000).min(60_000);
            return EpollTimeout::try_from(ms as i32).unwrap_or(EpollTimeout::ZERO);
        }
        // One that is set already and comes earlier wakes it for nothing, once.
        if self.timer_at.is_none_or(|set| set > at || set <= now) {
            let after = Expiration::OneShot(TimeSpec::from_duration(Duration::from_nanos(left)));
            if self.timer.set(after, TimerSetTimeFlags::empty()).is_err() {
                return EpollTimeout::ZERO;
            }
            self.timer_at = Some(at);
        }
        EpollTimeout::NONE
    }
}

/// Is the gateway from now on. The kernel takes its time to clear away one that was killed, whose lock is given up late.
fn start_gateway() -> dpfd::Result<Gateway> {
    let end = process::now() + CLEARED;
    loop {
        match Gateway::start() {
            Err(dpfd::Error::HasGateway { .. }) if process::now() < end => {
                std::thread::sleep(Duration::from_millis(10));
            }
            started => return started,
        }
    }
}

/// As many as there may be; how many that is. Where there are no more, proxies that cannot be opened wait.
fn many_descriptors() -> usize {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return 1024 };
    let now = if setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok() { hard } else { soft };
    usize::try_from(now).unwrap_or(usize::MAX)
}

/// The folder in which the endpoints of this node find each other, if there is one.
///
/// # Errors
///
/// Those of [`Registry::open_existing`].
pub fn folder() -> dpfd::Result<Option<PathBuf>> {
    Ok(Registry::open_existing()?.map(|registry| Path::to_path_buf(registry.folder())))
}
