//! The loop of a gateway that is a process: one thread, one epoll. After something has happened it looks for a moment before it
//! sleeps. Nearly always something else comes before what is due, which is put off then: a timer stands for that
//! (`standing.rs`), and is not set anew for each sleep.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use dp_edge::sys::epoll::Told;
use dp_edge::sys::process;
use dpfd::driver::user::registry::Registry;
use dpfd::Addr;
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};
use nix::sys::prctl::set_timerslack;
use nix::sys::resource::{getrlimit, setrlimit, Resource};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use crate::gate::{system, Gate, ASKED, OTHERS, STATUS};
pub use crate::gate::{CannotServe, Options};
use crate::look::Look;
use crate::node::Node;
use crate::proxies::Proxies;
use crate::standing::Standing;

/// What epoll knows things by; routes begin at `OTHERS`.
const SIGNALS: u64 = 2;
const DUE: u64 = 4;
/// While it looks, epoll is asked each so many rounds: routes and proxies are looked at themselves.
const ROUNDS: u32 = 8;
/// While it looks in vain, whoever is ready to run goes first each so many rounds.
const YIELDS: u32 = 4;
/// How long a gateway that is told to end waits for acknowledgements, nanoseconds. Told once more, it does not.
const ENDING: u64 = 2_000_000_000;
/// How often it looks meanwhile whether senders have let go, nanoseconds.
const LETTING_GO: u64 = 2_000_000;

/// A gateway that is about to run.
pub struct Server {
    gate: Gate,
    signals: SignalFd,
    standing: Standing,
    look: Look,
    /// Of its looks.
    round: u32,
    /// Until when it waits, having been told to end.
    end: Option<u64>,
    /// When proxies are looked at again that had no room.
    resume: Option<u64>,
}

impl Server {
    /// Opens everything, and is the gateway of its node from then on. From here on this thread takes SIGTERM and SIGINT as a
    /// wish that it ends. `DP_NID` must say what the graph does, and `DP_GRAPH` nothing. What does not work but is not
    /// needed is told to `warn`.
    ///
    /// # Errors
    ///
    /// See [`CannotServe`].
    pub fn open(options: Options, warn: impl FnMut(String)) -> Result<Server, CannotServe> {
        // Threads that are started below inherit it.
        let mut stop = SigSet::empty();
        stop.add(Signal::SIGTERM);
        stop.add(Signal::SIGINT);
        stop.thread_block().map_err(system("sigprocmask"))?;
        let signals = SignalFd::with_flags(&stop, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
            .map_err(system("signalfd"))?;
        let descriptors = many_descriptors();
        let spin = options.spin;
        let gate = Gate::open(options, descriptors, warn)?;
        let longest =
            if process::cpus() > 1 { u32::try_from(spin.as_nanos()).unwrap_or(u32::MAX) } else { 0 };
        let look = Look::new(longest);
        let standing = Standing::new().map_err(system("timerfd_create"))?;
        let mut server = Server { gate, signals, standing, look, round: 0, end: None, resume: None };
        server.listen().map_err(system("epoll_ctl"))?;
        Ok(server)
    }

    fn listen(&mut self) -> nix::Result<()> {
        let event = |token| EpollEvent::new(EpollFlags::EPOLLIN, token);
        let Gate { epoll, node, .. } = &self.gate;
        epoll.add(&self.signals, event(SIGNALS))?;
        epoll.add(&self.standing, event(DUE))?;
        for (at, route) in node.routes().iter().enumerate() {
            if let Some(descriptor) = route.descriptor() {
                epoll.add(descriptor, event(OTHERS + at as u64))?;
            }
        }
        Ok(())
    }

    /// A route is broken, or works again.
    fn listen_to_routes(&self) {
        let Gate { epoll, node, .. } = &self.gate;
        for (at, route) in node.routes().iter().enumerate() {
            let Some(descriptor) = route.descriptor() else { continue };
            hear(epoll, descriptor, node.is_heard(at), OTHERS + at as u64);
        }
    }

    /// Its node.
    pub fn node(&mut self) -> &mut Node<Proxies> {
        &mut self.gate.node
    }

    /// Runs until it is told to end. How many messages of programs here it had that nobody acknowledged: they are gone.
    ///
    /// # Errors
    ///
    /// epoll_wait(2) failed.
    pub fn run(&mut self) -> Result<usize, CannotServe> {
        // The kernel may be late by 50 us else, to wake a thread for several times at once.
        let _ = set_timerslack(1);
        let mut told = Told::new();
        let mut more = false;
        loop {
            let now = process::now();
            self.gate.node.local().pass(now);
            if self.end.is_some_and(|end| self.gate.is_through(now) || now >= end) {
                // Also what only a sender keeps here that never let go.
                self.gate.take_all(now);
                return Ok(self.gate.node.waiting());
            }
            let looks = self.look.goes_on(now);
            let mut done = 0;
            self.round = self.round.wrapping_add(1);
            if looks {
                done += self.look_around(now);
            }
            if !looks || self.round % ROUNDS == 0 {
                let there = !looks && self.gate.node.local().rest();
                let time = if more || looks || there { Some(0) } else { self.time_to_sleep(now) };
                match told.wait(self.gate.epoll.0.as_fd(), time) {
                    Ok(_) => done += self.serve(process::now(), &told),
                    Err(nix::libc::EINTR) => {}
                    Err(errno) => {
                        let error = io::Error::from_raw_os_error(errno);
                        return Err(CannotServe::System("epoll_pwait2".into(), error));
                    }
                }
            }
            let now = process::now();
            // Before the turn, which sends what that takes.
            self.resume = self.gate.resume(now);
            more = self.gate.node.turn(now);
            if self.gate.node.heard_changed() {
                self.listen_to_routes();
            }
            if done > 0 {
                self.look.came(now);
            } else if looks && !more && self.round % YIELDS == 0 {
                // Whoever it waits for may be ready to run on this processor (W19).
                std::thread::yield_now();
            }
        }
    }

    /// What epoll tells. How many messages and frames that were.
    fn serve(&mut self, now: u64, told: &Told) -> usize {
        let mut done = 0;
        for token in told.tokens() {
            match token {
                ASKED => self.gate.answer(now),
                SIGNALS => self.told_to_end(now),
                DUE => self.standing.hear(),
                STATUS => self.gate.tell(),
                token => match Proxies::address(token) {
                    Some(addr) => done += self.take(now, addr),
                    None => done += self.gate.node.receive(now, (token - OTHERS) as usize),
                },
            }
        }
        done
    }

    /// Takes what came without being told: no bell is rung for it, and epoll is not asked.
    fn look_around(&mut self, now: u64) -> usize {
        let mut done = 0;
        for route in 0..self.gate.node.routes().len() {
            done += self.gate.node.receive(now, route);
        }
        done + self.gate.look(now)
    }

    fn take(&mut self, now: u64, addr: Addr) -> usize {
        self.gate.take(now, addr, self.look.is_on())
    }

    fn told_to_end(&mut self, now: u64) {
        let again = self.end.is_some();
        while let Ok(Some(_)) = self.signals.read_signal() {}
        self.end = Some(if again { now } else { now.saturating_add(ENDING) });
        self.gate.node.local().stop();
    }

    /// For how long it sleeps, nanoseconds, if nothing comes; nothing: until the timer rings.
    fn time_to_sleep(&mut self, now: u64) -> Option<u64> {
        let ends = self.end.map(|end| end.min(now + LETTING_GO));
        let all = [self.gate.next_timeout(), self.resume, ends];
        let due = all.into_iter().flatten().min()?;
        let left = due.saturating_sub(now);
        (left == 0 || !self.standing.ring_by(due)).then_some(left)
    }
}

/// The folder in which the endpoints of this node find each other, if there is one.
///
/// # Errors
///
/// Those of [`Registry::open_existing`].
pub fn folder() -> dpfd::Result<Option<PathBuf>> {
    Ok(Registry::open_existing()?.map(|registry| Path::to_path_buf(registry.folder())))
}

/// Has a descriptor in the set, or not. Of one that stays there without being asked about the kernel still tells that it has hung up
/// or has an error, without end.
fn hear(epoll: &Epoll, descriptor: BorrowedFd<'_>, is_heard: bool, token: u64) {
    let _ = if is_heard {
        epoll.add(descriptor, EpollEvent::new(EpollFlags::EPOLLIN, token))
    } else {
        epoll.delete(descriptor)
    };
}

/// As many as there may be; how many that is. Where there are no more, proxies that cannot be opened wait.
fn many_descriptors() -> usize {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return 1024 };
    let now = if setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok() { hard } else { soft };
    usize::try_from(now).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use nix::sys::epoll::{EpollCreateFlags, EpollTimeout};

    use super::*;

    #[test]
    fn of_a_route_that_is_not_heard_nothing_is_told_also_where_it_has_hung_up() {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).expect("a set");
        let (route, other_end) = UnixStream::pair().expect("a pair");
        let told = || epoll.wait(&mut [EpollEvent::empty()], EpollTimeout::ZERO).expect("a set");
        drop(other_end);
        for heard in [true, false, false, true, true] {
            hear(&epoll, route.as_fd(), heard, OTHERS);
            assert_eq!(told(), usize::from(heard));
        }
    }
}
