//! The service: one thread of the library in every process that has endpoints, asleep unless needed.
//!
//! It takes plain writes to their targets, finds targets, gives senders edges, and sees when endpoints close.
//! `dp_write` and `dp_read` never need it once a link is direct. It blocks all signals, holds no lock while it
//! sleeps, and waits in one epoll for everything.
//!
//! | file | holds |
//! |---|---|
//! | this one | the loop, commands, the lease of hot receivers |
//! | [`outgoing`] | links of our endpoints to others: attach, deliver, park |
//! | [`incoming`] | links of others to our endpoints: who may, edges, bells |

mod incoming;
mod outgoing;

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

use self::incoming::Incoming;
use self::outgoing::{Local, Outgoing};
use super::inner::Inner;
use super::note::{Note, LEN};
pub use super::process::{Command, Process};
use super::recv::LEASE;
use crate::addr::{Addr, Dpid};
use crate::error::{Error, Result};
use crate::sys::{process, unix};

/// How soon something that could not be done is tried again.
const RETRY: Duration = Duration::from_millis(10);

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

/// A connection to another process's service.
#[derive(Debug)]
struct Conn {
    fd: Arc<OwnedFd>,
    role: Role,
    /// Notes that found no room.
    backlog: VecDeque<(Note, Vec<OwnedFd>)>,
}

#[derive(Debug)]
enum Role {
    Out(Outgoing),
    In(Incoming),
}

#[derive(Debug)]
struct Service {
    process: Arc<Process>,
    epoll: Epoll,
    endpoints: HashMap<u32, Local>,
    by_dpid: HashMap<Dpid, u32>,
    conns: HashMap<u32, Conn>,
    /// Connections by the other process's name.
    out: HashMap<String, u32>,
    numbers: u32,
    /// Links whose destinations were not found, and the watch that tells of new ones.
    absent: HashSet<(u32, Addr)>,
    inotify: Option<Inotify>,
    /// Links that wait for a writable descriptor.
    rooms: HashMap<u32, (u32, Addr, Arc<OwnedFd>)>,
    retry: Option<Instant>,
    /// Endpoints to read again: what they had parked has gone.
    todo: Vec<u32>,
    /// Receivers on lease, and their visits when last looked at.
    hot: HashMap<u32, u32>,
}

/// Starts the thread.
///
/// # Errors
///
/// EMFILE; EAGAIN (no more threads).
pub fn start(process: Arc<Process>) -> Result<()> {
    let failed = |call| move |e: nix::Error| Error::System { call, errno: e as i32 };
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(failed("epoll_create"))?;
    let add =
        |fd: &OwnedFd, kind| epoll.add(fd, event(EpollFlags::EPOLLIN, kind, 0)).map_err(failed("epoll_ctl"));
    add(process.wake_fd(), Kind::Wake)?;
    add(&process.member.door, Kind::Door)?;
    let mut service = Service {
        process,
        epoll,
        endpoints: HashMap::new(),
        by_dpid: HashMap::new(),
        conns: HashMap::new(),
        out: HashMap::new(),
        numbers: 0,
        absent: HashSet::new(),
        inotify: None,
        rooms: HashMap::new(),
        retry: None,
        todo: Vec::new(),
        hot: HashMap::new(),
    };
    std::thread::Builder::new()
        .name("dp-service".to_string())
        .stack_size(256 * 1024)
        .spawn(move || {
            process::block_signals();
            service.run();
        })
        .map_err(Error::io("pthread_create"))?;
    Ok(())
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
                        let _ = nix::unistd::read(self.process.wake_fd(), &mut word);
                    }
                    k if k == Kind::Door as u32 => self.accept(),
                    k if k == Kind::Endpoint as u32 => self.pump(number),
                    k if k == Kind::Conn as u32 => self.conn_event(number, e.events()),
                    k if k == Kind::Registry as u32 => self.registry_changed(),
                    _ => self.room_event(number),
                }
            }
            for command in self.process.commands() {
                self.command(command);
            }
            while let Some(serial) = self.todo.pop() {
                self.pump(serial);
            }
            self.after_wait(n == 0);
        }
    }

    fn timeout(&self) -> EpollTimeout {
        let lease = if self.hot.is_empty() { None } else { Some(Duration::from_millis(LEASE as u64)) };
        let retry = self.retry.map(|at| at.saturating_duration_since(Instant::now()));
        match [lease, retry].into_iter().flatten().min() {
            // Rounded up, or the last millisecond would be spun through.
            Some(d) => EpollTimeout::try_from(d + Duration::from_micros(999)).unwrap_or(EpollTimeout::ZERO),
            None => EpollTimeout::NONE,
        }
    }

    fn after_wait(&mut self, quiet: bool) {
        if quiet {
            let endpoints = &self.endpoints;
            self.hot.retain(|serial, seen| {
                let Some(local) = endpoints.get(serial) else { return false };
                let over = local.inner.cool(*seen);
                *seen = local.inner.visits.load(std::sync::atomic::Ordering::Relaxed);
                !over
            });
        }
        if self.retry.is_some_and(|at| at <= Instant::now()) {
            self.retry = None;
            self.look_for_absent();
        }
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Open(inner) => self.opened(inner),
            Command::Attach(serial, to) => self.attach(serial, to),
            Command::Resume(serial) => self.pump(serial),
            Command::Lost(serial, to) => self.lost(serial, to),
            Command::Pool(serial) => self.pool_started(serial),
            Command::Hot(serial) => {
                if let Some(local) = self.endpoints.get(&serial) {
                    let visits = local.inner.visits.load(std::sync::atomic::Ordering::Relaxed);
                    self.hot.insert(serial, visits);
                }
            }
            Command::Room(conn, link) => self.tell(conn, Note::Room { link }, Vec::new()),
        }
    }

    fn opened(&mut self, inner: Arc<Inner>) {
        let serial = inner.entry.serial;
        let added = self.epoll.add(&inner.back, event(EpollFlags::EPOLLIN, Kind::Endpoint, serial));
        self.by_dpid.insert(inner.dpid, serial);
        self.endpoints.insert(serial, Local::new(inner));
        if added.is_err() {
            self.retire(serial);
        }
    }

    fn number(&mut self) -> u32 {
        self.numbers = self.numbers.wrapping_add(1);
        self.numbers
    }

    fn add_conn(&mut self, fd: OwnedFd, role: Role) -> Option<u32> {
        let number = self.number();
        self.epoll.add(&fd, event(EpollFlags::EPOLLIN, Kind::Conn, number)).ok()?;
        self.conns.insert(number, Conn { fd: Arc::new(fd), role, backlog: VecDeque::new() });
        Some(number)
    }

    /// Sends a note, or keeps it until there is room.
    fn tell(&mut self, number: u32, note: Note, fds: Vec<OwnedFd>) {
        let Some(conn) = self.conns.get_mut(&number) else { return };
        if conn.backlog.is_empty() && send_note(&conn.fd, note, &fds) != Err(libc::EAGAIN) {
            return;
        }
        conn.backlog.push_back((note, fds));
        let both = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT;
        let _ = self.epoll.modify(&conn.fd, &mut event(both, Kind::Conn, number));
    }

    fn conn_event(&mut self, number: u32, flags: EpollFlags) {
        if flags.contains(EpollFlags::EPOLLOUT) {
            self.tell_backlog(number);
        }
        let mut buf = [0; LEN + 1];
        loop {
            let Some(conn) = self.conns.get(&number) else { return };
            let outgoing = matches!(conn.role, Role::Out(_));
            match unix::recv(conn.fd.as_raw_fd(), &mut buf, libc::MSG_DONTWAIT) {
                Ok(got) if got.len > 0 => {
                    let Some(note) = Note::decode(&buf[..got.len.min(buf.len())]) else {
                        return self.conn_ended(number); // another version, or no service at all
                    };
                    if outgoing {
                        self.hear_back(number, note, got.fds);
                    } else {
                        self.hear(number, note);
                    }
                }
                Err(libc::EAGAIN | libc::EINTR) => return,
                _ => return self.conn_ended(number),
            }
        }
    }

    fn tell_backlog(&mut self, number: u32) {
        let Some(conn) = self.conns.get_mut(&number) else { return };
        while let Some((note, fds)) = conn.backlog.pop_front() {
            if send_note(&conn.fd, note, &fds) == Err(libc::EAGAIN) {
                conn.backlog.push_front((note, fds));
                return;
            }
        }
        let _ = self.epoll.modify(&conn.fd, &mut event(EpollFlags::EPOLLIN, Kind::Conn, number));
    }

    fn conn_ended(&mut self, number: u32) {
        let Some(conn) = self.conns.remove(&number) else { return };
        let _ = self.epoll.delete(&conn.fd);
        match conn.role {
            Role::Out(out) => self.out_ended(number, out),
            Role::In(incoming) => self.in_ended(incoming),
        }
    }

    /// Every descriptor of the endpoint was closed: its number is free, its links end.
    fn retire(&mut self, serial: u32) {
        let Some(local) = self.endpoints.get(&serial) else { return };
        local.inner.retire();
        if self.by_dpid.get(&local.inner.dpid) == Some(&serial) {
            self.by_dpid.remove(&local.inner.dpid);
        }
        self.links_in_gone(serial);
    }

    /// Everything it had sent is delivered: nothing of it is left.
    fn over(&mut self, serial: u32) {
        let Some(local) = self.endpoints.remove(&serial) else { return };
        let _ = self.epoll.delete(&local.inner.back);
        self.process.forget(serial);
        self.hot.remove(&serial);
        self.absent.retain(|(s, _)| *s != serial);
        self.rooms.retain(|_, (s, _, _)| *s != serial);
        self.detach_all(serial);
        // Links in an endpoint that somebody may still hold would keep descriptors.
        let mut tx = local.inner.tx();
        tx.links.clear();
        tx.target = None;
        drop(tx);
        if let Some(told) = local.inner.at_end.get() {
            told(serial);
        }
    }

    fn retry_soon(&mut self) {
        let at = Instant::now() + RETRY;
        self.retry = Some(self.retry.map_or(at, |old| old.min(at)));
    }

    /// Has the service told when entries are made. Where inotify cannot be had, it looks now and then.
    fn watch_registry(&mut self) {
        if self.inotify.is_some() {
            return;
        }
        let made = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).ok().filter(|i| {
            let flags = AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO;
            i.add_watch(self.process.registry.folder(), flags).is_ok()
                && self.epoll.add(i.as_fd(), event(EpollFlags::EPOLLIN, Kind::Registry, 0)).is_ok()
        });
        match made {
            Some(inotify) => self.inotify = Some(inotify),
            None => self.retry_soon(),
        }
    }

    fn registry_changed(&mut self) {
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

fn send_note(fd: &OwnedFd, note: Note, fds: &[OwnedFd]) -> core::result::Result<usize, i32> {
    let fds: Vec<BorrowedFd<'_>> = fds.iter().map(|f| f.as_fd()).collect();
    unix::send(fd.as_raw_fd(), &[IoSlice::new(&note.encode())], &fds, libc::MSG_DONTWAIT)
}

/// Asks the process whose door is at `door` whether its endpoint is open; no answer within `ms` is a yes.
pub fn ask(door: &Path, dpid: Dpid, serial: u32, ms: i32) -> bool {
    let Ok(fd) = unix::connect(door) else { return false };
    if send_note(&fd, Note::Ask { dpid, serial }, &[]).is_err() {
        return true;
    }
    let mut buf = [0; LEN];
    if !unix::wait(fd.as_raw_fd(), libc::POLLIN, ms).is_ok_and(|e| e & libc::POLLIN != 0) {
        return true;
    }
    match unix::recv(fd.as_raw_fd(), &mut buf, libc::MSG_DONTWAIT) {
        Ok(got) => Note::decode(&buf[..got.len.min(LEN)]) != Some(Note::Answer { open: false }),
        Err(_) => true,
    }
}
