//! The service: one thread of the library in every process that has endpoints, asleep unless needed.
//!
//! It takes plain writes to their targets, finds targets, gives senders edges, and sees when endpoints close.
//! `dp_write` and `dp_read` never need it once a link is direct. It blocks all signals, holds no lock while it
//! sleeps, and waits in one epoll for everything.
//!
//! | file | holds |
//! |---|---|
//! | this one | the loop, commands, the lease of receivers without bells |
//! | `pairs` | what our endpoints' programs sent: read, and put into backlogs |
//! | `backlog` | backlogs: delivered, as far as there is room |
//! | `outgoing` | links of our endpoints to others: attach, lose, find again |
//! | `incoming` | links of others to our endpoints: who may, edges, bells |
//! | `proxies` | links of others to endpoints of other nodes, where this process is the gateway |
//! | `routed` | which of those links say how their messages go |
//! | `earlier` | edges that endpoints of other nodes have here, for when the next gateway asks for another |
//! | `conns` | the connections that links go over: notes, and who may have how many |

mod backlog;
mod conns;
mod earlier;
mod incoming;
mod outgoing;
mod pairs;
mod proxies;
mod routed;

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

use self::conns::{Conn, Role};
use self::earlier::Earlier;
use self::pairs::Local;
use self::proxies::Awaiting;
use self::routed::Routed;
use super::endpoint::UserEndpoint;
use super::link::Link;
use super::note::Note;
use super::process::Process;
use super::readiness::LEASE;
use super::shared::Command;
use crate::addr::Addr;
use crate::error::{Error, Result};
use dp_edge::sys::process;

/// How soon something that could not be done is tried again; after each time in vain twice as late, to this.
const RETRY: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(160)];

/// What an event is about; the number beside it in the lower half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum Kind {
    Wake,
    Door,
    Endpoint,
    Conn,
    Registry,
    Room,
}

fn event(flags: EpollFlags, kind: Kind, number: u32) -> EpollEvent {
    EpollEvent::new(flags, u64::from(kind as u32) << 32 | u64::from(number))
}

#[derive(Debug)]
struct Service {
    process: Arc<Process>,
    epoll: Epoll,
    endpoints: HashMap<u32, Local>,
    by_addr: HashMap<Addr, u32>,
    /// Links to endpoints of other nodes that wait for the gateway's word, and of such that are held back.
    awaiting: Vec<Awaiting>,
    /// Proxies that are to end when their last sender lets go.
    ending: HashSet<u32>,
    /// This process is the gateway, and about to be it no more: nobody is let in to proxies.
    rests: bool,
    /// Senders to them that say how their messages go.
    routed: Routed,
    earlier: Earlier,
    conns: HashMap<u32, Conn>,
    /// Connections that a process has here.
    of_pid: HashMap<i32, usize>,
    /// Connections by the other process's name.
    out: HashMap<String, u32>,
    /// Links by what they join: the connection each was asked for on, and its number there.
    asked: HashMap<(u32, Addr), (u32, u32)>,
    numbers: u32,
    /// Links whose destinations were not found, and the watch that tells of new ones.
    absent: HashSet<(u32, Addr)>,
    inotify: Option<Inotify>,
    /// Links that wait for a writable descriptor.
    rooms: HashMap<u32, (u32, Addr, Arc<OwnedFd>)>,
    retry: Option<Instant>,
    pause: Duration,
    /// Endpoints to read again: their backlog has gone.
    todo: Vec<u32>,
    /// For want of descriptors or memory, until the next try: the door is shut, connections neither heard nor told
    /// all, pairs not read, edges not given.
    door_shut: bool,
    short: HashSet<u32>,
    unread: HashSet<u32>,
    without_edges: HashSet<u32>,
    /// Endpoints some of whose senders ended while they were in a call.
    uncollected: HashSet<u32>,
    /// Receivers on lease.
    leases: HashMap<u32, Watched>,
    /// Endpoints with senders that nobody tells anything.
    wakers: HashSet<u32>,
}

/// Starts the thread.
///
/// # Errors
///
/// EMFILE; [`Error::NoThread`].
pub fn start(process: Arc<Process>) -> Result<()> {
    let failed = |call| move |e: nix::Error| Error::System { call, errno: e as i32 };
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(failed("epoll_create"))?;
    let add =
        |fd: &OwnedFd, kind| epoll.add(fd, event(EpollFlags::EPOLLIN, kind, 0)).map_err(failed("epoll_ctl"));
    add(process.shared.wake_fd(), Kind::Wake)?;
    add(&process.shared.member.door, Kind::Door)?;
    let mut service = Service {
        process,
        epoll,
        endpoints: HashMap::new(),
        by_addr: HashMap::new(),
        awaiting: Vec::new(),
        ending: HashSet::new(),
        rests: false,
        routed: Routed::default(),
        earlier: Earlier::default(),
        conns: HashMap::new(),
        of_pid: HashMap::new(),
        out: HashMap::new(),
        asked: HashMap::new(),
        numbers: 0,
        absent: HashSet::new(),
        inotify: None,
        rooms: HashMap::new(),
        retry: None,
        pause: RETRY[0],
        todo: Vec::new(),
        door_shut: false,
        short: HashSet::new(),
        unread: HashSet::new(),
        without_edges: HashSet::new(),
        uncollected: HashSet::new(),
        leases: HashMap::new(),
        wakers: HashSet::new(),
    };
    std::thread::Builder::new()
        .name("dp-service".to_string())
        .stack_size(256 * 1024)
        .spawn(move || {
            process::block_signals();
            service.run();
        })
        .map_err(|_| Error::NoThread)?;
    Ok(())
}

/// A receiver that has no bells: a lease.
#[derive(Debug)]
struct Watched {
    /// Its calls when the lease began: if there are none until its end, it is over.
    seen: u32,
    until: Instant,
}

impl Watched {
    fn from(now: Instant, inner: &UserEndpoint) -> Watched {
        let seen = inner.visits.load(std::sync::atomic::Ordering::Relaxed);
        Watched { seen, until: now + LEASE }
    }
}

impl Service {
    fn run(&mut self) {
        let mut events = [EpollEvent::empty(); 64];
        loop {
            let n = match self.epoll.wait(&mut events, self.timeout()) {
                Ok(n) => n,
                Err(nix::Error::EINTR) => continue,
                // The program closed what was ours (closefrom): nothing can be served any more.
                Err(_) => return,
            };
            for e in &events[..n] {
                let number = e.data() as u32;
                match (e.data() >> 32) as u32 {
                    k if k == Kind::Wake as u32 => {
                        let mut word = [0; 8];
                        let _ = nix::unistd::read(self.process.shared.wake_fd(), &mut word);
                    }
                    k if k == Kind::Door as u32 => self.accept(),
                    k if k == Kind::Endpoint as u32 => self.pump(number),
                    k if k == Kind::Conn as u32 => self.conn_event(number, e.events()),
                    k if k == Kind::Registry as u32 => self.registry_changed(),
                    _ => self.room_event(number),
                }
            }
            self.obey();
            while let Some(serial) = self.todo.pop() {
                self.pump(serial);
            }
            self.after_wait(n == 0);
        }
    }

    fn timeout(&self) -> EpollTimeout {
        let lease = self.leases.values().map(|watched| watched.until).min();
        let next = [lease, self.retry].into_iter().flatten().min();
        match next.map(|at| at.saturating_duration_since(Instant::now())) {
            // Rounded up, or the last millisecond would be spun through.
            Some(d) => EpollTimeout::try_from(d + Duration::from_micros(999)).unwrap_or(EpollTimeout::ZERO),
            None => EpollTimeout::NONE,
        }
    }

    /// `quiet`: nothing came while it waited, which says too that the time is over: a program's clock may stand still
    /// (libfaketime).
    fn after_wait(&mut self, quiet: bool) {
        #[cfg(test)]
        self.process.shared.absent.store(self.absent.len(), Ordering::Relaxed);
        if !self.leases.is_empty() {
            let (now, endpoints) = (Instant::now(), &self.endpoints);
            self.leases.retain(|serial, watched| {
                let Some(local) = endpoints.get(serial) else { return false };
                if !quiet && now < watched.until {
                    return true;
                }
                let over = local.inner.end_lease(watched.seen);
                *watched = Watched::from(now, &local.inner);
                !over
            });
        }
        if self.retry.is_some_and(|at| at <= Instant::now()) {
            self.retry = None;
            self.pause = (self.pause * 2).min(RETRY[1]);
            self.again();
        }
    }

    fn again(&mut self) {
        if self.door_shut {
            self.watch_door(true);
        }
        self.conns_again();
        for serial in core::mem::take(&mut self.without_edges) {
            self.pool_started(serial);
        }
        for serial in core::mem::take(&mut self.uncollected) {
            self.collect(serial);
        }
        for serial in core::mem::take(&mut self.unread) {
            self.pump(serial);
        }
        self.attach_held_back();
        self.look_for_absent();
        self.wake_senders();
    }

    fn wake_senders(&mut self) {
        for serial in core::mem::take(&mut self.wakers) {
            let Some(local) = self.endpoints.get(&serial) else { continue };
            let woken: Vec<Waker> = local.inner.guest_tx().links.iter_mut().flat_map(Link::woken).collect();
            woken.into_iter().for_each(Waker::wake);
        }
    }

    /// Does what the service was told.
    fn obey(&mut self) {
        let commands = self.process.shared.commands();
        for inner in self.process.opened() {
            self.opened(inner);
        }
        // A gateway asks many at once, and all links are looked through for them.
        let mut unused = Vec::new();
        for command in commands {
            match command {
                Command::EndUnused(serial) => unused.push(serial),
                command => self.command(command),
            }
        }
        self.end_unused(&unused);
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Attach(serial, to) => {
                self.pause = RETRY[0];
                self.attach(serial, to);
            }
            Command::Resume(serial) => self.pump(serial),
            Command::Lost(serial, to) => self.lost(serial, to),
            Command::Pool(serial) => self.pool_started(serial),
            Command::Watch(serial) => {
                if let Some(local) = self.endpoints.get(&serial) {
                    self.leases.insert(serial, Watched::from(Instant::now(), &local.inner));
                }
            }
            Command::Busy(serial, to) => self.busy(serial, to),
            Command::Awaited(serial) => {
                self.wakers.insert(serial);
                self.retry_soon();
            }
            Command::Outgrown(serial, to) => self.outgrown(serial, to),
            Command::Route(serial) => self.tell_how(serial),
            Command::EndUnused(serial) => self.end_unused(&[serial]),
            Command::Refuse(nid) => self.answer_awaiting(Some(nid)),
            Command::GatewayRests => self.gateway_rests(),
            Command::GatewayEnded => {
                self.rests = false;
                self.answer_awaiting(None);
            }
            Command::Room(conn, link) => {
                self.tell(conn, Note::Room { link }, &[]);
            }
        }
    }

    fn opened(&mut self, inner: Arc<UserEndpoint>) {
        let serial = inner.entry.serial;
        let added = self.epoll.add(&inner.back, event(EpollFlags::EPOLLIN, Kind::Endpoint, serial));
        let addr = inner.addr();
        self.by_addr.insert(addr, serial);
        self.endpoints.insert(serial, Local::new(inner));
        if added.is_err() {
            self.retire(serial);
        }
        self.proxy_opened(addr);
    }

    fn number(&mut self) -> u32 {
        self.numbers = self.numbers.wrapping_add(1);
        self.numbers
    }

    /// Every descriptor of the endpoint was closed: its number is free, its links end.
    fn retire(&mut self, serial: u32) {
        let Some(local) = self.endpoints.get(&serial) else { return };
        local.inner.retire();
        local.inner.rouse_for_good();
        let addr = local.inner.addr();
        if self.by_addr.get(&addr) == Some(&serial) {
            self.by_addr.remove(&addr);
        }
        if local.inner.senders.load(Ordering::Relaxed) > 0 {
            self.links_in_gone(serial);
        }
    }

    /// Everything it had sent is delivered: nothing of it is left.
    fn over(&mut self, serial: u32) {
        let Some(local) = self.endpoints.remove(&serial) else { return };
        let _ = self.epoll.delete(&local.inner.back);
        self.process.forget(serial);
        self.leases.remove(&serial);
        self.ending.remove(&serial);
        self.absent.retain(|(s, _)| *s != serial);
        self.rooms.retain(|_, (s, _, _)| *s != serial);
        // Links in an endpoint that somebody may still hold would keep descriptors.
        let links = local.inner.guest_tx().take_all();
        for link in links {
            self.detach(serial, link.to);
            link.wakers.wake_all();
        }
        if let Some(told) = local.inner.at_end.get() {
            told(serial);
        }
    }

    fn retry_soon(&mut self) {
        let at = Instant::now() + self.pause;
        self.retry = Some(self.retry.map_or(at, |old| old.min(at)));
    }

    /// Has the service told when entries are made. Where inotify cannot be had, it looks now and then.
    fn watch_registry(&mut self) {
        if self.inotify.is_some() {
            return;
        }
        let made = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).ok().filter(|i| {
            let flags = AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO;
            i.add_watch(self.process.shared.registry.folder(), flags).is_ok()
                && self.epoll.add(i.as_fd(), event(EpollFlags::EPOLLIN, Kind::Registry, 0)).is_ok()
        });
        match made {
            Some(inotify) => self.inotify = Some(inotify),
            None => self.retry_soon(),
        }
    }

    fn registry_changed(&mut self) {
        self.pause = RETRY[0];
        if let Some(inotify) = &self.inotify {
            while inotify.read_events().is_ok_and(|e| !e.is_empty()) {}
        }
        self.look_for_absent();
        if self.absent.is_empty() {
            // Nobody waits: other people's entries are none of our business.
            if let Some(inotify) = self.inotify.take() {
                let _ = self.epoll.delete(inotify.as_fd());
            }
        }
    }

    fn look_for_absent(&mut self) {
        for (serial, to) in core::mem::take(&mut self.absent) {
            self.attach(serial, to);
        }
    }
}
