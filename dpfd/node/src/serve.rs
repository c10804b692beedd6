//! The loop of a gateway: one thread, one epoll. After something has happened it looks for a moment before it sleeps. Until when it
//! sleeps is part of the call in which it does: nearly always something else comes first, and a timer that was set for an
//! acknowledgement would wake it for nothing.

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use dp_edge::sys::epoll::Told;
use dp_edge::sys::process;
use dp_route::library::LoadError;
use dp_seal::GraphKey;
use dpfd::driver::user::registry::Registry;
use dpfd::driver::user::route::{code, Wish};
use dpfd::{Addr, Dpid};
use nix::sys::epoll::Epoll;
use nix::sys::prctl::set_timerslack;
use nix::sys::signalfd::SignalFd;
use thiserror::Error;

use crate::guard::NoGuard;
use crate::look::Look;
use crate::nart::Nart;
use crate::node::Node;
use crate::peer::Peer;
use crate::proxies::{Proxies, Taken};
use crate::status::{self, Door};
use crate::Limits;

mod open;
mod routes;

/// What epoll knows things by; routes begin at `ROUTES`.
const ASKED: u64 = 0;
const SIGNALS: u64 = 2;
const STATUS: u64 = 3;
const ROUTES: u64 = 16;
/// How often proxies that could not be served are looked at, nanoseconds.
const RESUME: u64 = 10_000_000;
/// While it looks, epoll is asked each so many rounds: routes and proxies are looked at themselves.
const ROUNDS: u32 = 8;
/// While it looks in vain, whoever is ready to run goes first each so many rounds.
const YIELDS: u32 = 4;
/// How long a gateway that is told to end waits for acknowledgements, nanoseconds. Told once more, it does not.
const ENDING: u64 = 2_000_000_000;

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

/// A gateway that is about to run.
pub struct Server {
    /// The first to go: with the node goes its being the gateway, and the next one's door has the same name.
    door: Door,
    node: Node<Proxies>,
    epoll: Rc<Epoll>,
    signals: SignalFd,
    folder: PathBuf,
    look: Look,
    /// Of its looks.
    round: u32,
    /// Until when it waits, having been told to end.
    end: Option<u64>,
    /// Of its routes.
    names: Vec<String>,
    /// Messages on their way from a proxy to the node, so that no memory is needed for each of them.
    taken: Vec<(Addr, Dpid, Taken)>,
}

impl Server {
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
        // The kernel may be late by 50 us else, to wake a thread for several times at once.
        let _ = set_timerslack(1);
        let mut told = Told::new();
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
                let time = if more || looks || there { Some(0) } else { self.time_to_sleep(now) };
                match told.wait(self.epoll.0.as_fd(), time) {
                    Ok(_) => done += self.serve(process::now(), &told),
                    Err(nix::libc::EINTR) => {}
                    Err(errno) => {
                        let error = io::Error::from_raw_os_error(errno);
                        return Err(CannotServe::System("epoll_pwait2".into(), error));
                    }
                }
            }
            let now = process::now();
            more = self.node.turn(now);
            if self.end.is_none() && self.node.local().has_paused() {
                self.node.local().resume();
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
                ASKED => self.answer(now),
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
        self.hear_wishes(now);
        let Server { node, taken, .. } = self;
        done += node.local().look(|to, from, message| taken.push((to, from, message)));
        self.send_taken(now);
        done
    }

    fn take(&mut self, now: u64, addr: Addr) -> usize {
        self.hear_wishes(now);
        let Server { node, taken, look, .. } = self;
        let n = node.local().take(addr, look.is_on(), |from, message| taken.push((addr, from, message)));
        self.send_taken(now);
        n
    }

    /// Before anything is taken: a program has said how its messages go before it sent them.
    #[inline]
    fn hear_wishes(&mut self, now: u64) {
        for Wish { from, to, how, ended } in self.node.local().wishes() {
            if ended {
                self.node.link_ended(now, from, to);
                continue;
            }
            let name = self.names.iter().find(|name| code(name) == how.route);
            self.node.ask_for(from, to, name.map(String::as_str));
            self.node.ask_raw(from, to, how.raw);
        }
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

    fn answer(&mut self, now: u64) {
        self.hear_wishes(now);
        let known: Vec<_> = self.node.peers().iter().map(Peer::nid).collect();
        self.node.local().answer(|nid| known.contains(&nid));
    }

    fn tell(&mut self) {
        let node = &mut self.node;
        self.door.answer(&self.folder, || status::Gateway::of(node));
    }

    /// Until something is to be done, nanoseconds; nothing: for ever.
    fn time_to_sleep(&mut self, now: u64) -> Option<u64> {
        let resume = self.node.local().has_paused().then_some(now + RESUME);
        let sweep = self.node.local().next_sweep();
        let all = [self.node.next_timeout(), resume, sweep, self.end];
        all.into_iter().flatten().min().map(|at| at.saturating_sub(now))
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
