//! A gateway put together, without a loop: what a process of its own ([`crate::serve`]) and one inside a program
//! ([`crate::inside`]) have in common.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use dp_edge::sys::process;
use dp_graph::Graph;
use dp_route::library::LoadError;
use dp_seal::{keyfile, GraphKey};
use dpfd::driver::user::route::{code, Wish};
use dpfd::{Addr, Dpid, Nid};
use nix::sys::epoll::Epoll;
use thiserror::Error;

use crate::guard::NoGuard;
use crate::nart::Nart;
use crate::node::Node;
use crate::peer::Peer;
use crate::proxies::{Proxies, Taken, TURN};
use crate::status::{self, Door};
use crate::Limits;

mod open;
mod routes;
pub(crate) use open::system;

/// What epoll knows things by, beside the tokens of proxies: somebody asks for an endpoint of another node, or for the status.
pub(crate) const ASKED: u64 = 0;
/// As above.
pub(crate) const STATUS: u64 = 3;
/// Those who drive a gate have numbers below this for their own.
pub(crate) const OTHERS: u64 = 16;

/// How often proxies that could not be served are looked at, nanoseconds.
const RESUME: u64 = 10_000_000;

/// What a gateway is told.
#[derive(Debug)]
pub struct Options {
    /// Where everybody is.
    pub nart: Nart,
    /// The graph's key, where frames are to be sealed.
    pub key: Option<GraphKey>,
    /// How long it looks before it sleeps, at most. 0: not at all. One inside a program does not look: receivers do
    /// ([`dpfd::Endpoint::set_spin`]).
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
    /// `DP_NID` says another number than the graph.
    #[error(
        "DP_NID says that this is node {told}, and the graph that it is node {graph}; set it to {graph}"
    )]
    Number {
        /// As above.
        told: dpfd::Nid,
        /// As above.
        graph: dpfd::Nid,
    },
    /// The graph cannot be read, or is none.
    #[error("{0}")]
    Graph(String),
    /// None of this node's routes could be opened.
    #[error("no route of node {0} could be opened")]
    NoRoute(dpfd::Nid),
    /// A call of the system failed.
    #[error("{0}: {1}")]
    System(String, io::Error),
}

/// As above.
pub(crate) struct Gate {
    /// The first to go: with the node goes its being the gateway, and the next one's door has the same name.
    door: Door,
    pub(crate) node: Node<Proxies>,
    /// Tells of who asks, and of proxies; whoever drives this may add what it likes.
    pub(crate) epoll: Arc<Epoll>,
    folder: PathBuf,
    /// Of its routes.
    names: Vec<String>,
    /// Messages on their way from a proxy to the node, so that no memory is needed for each of them.
    taken: Vec<(Addr, Dpid, Taken)>,
}

impl Options {
    /// For node `nid` of the graph in this file, whose key is where it says: one that does not look before it sleeps, with the limits
    /// that a gateway has by default.
    ///
    /// # Errors
    ///
    /// [`CannotServe::Graph`].
    pub fn from_graph(file: &Path, nid: Nid) -> Result<Options, CannotServe> {
        let name = file.display().to_string();
        let fault = |why: &dyn fmt::Display| CannotServe::Graph(format!("{name}: {why}"));
        let text = std::fs::read_to_string(file).map_err(|why| fault(&why))?;
        let graph = Graph::parse(&text).map_err(|faults| CannotServe::Graph(faults.told(&name)))?;
        let nart = Nart::of(&graph, nid).map_err(|why| fault(&why))?;
        let key = graph.key.as_ref().filter(|_| nart.is_sealed());
        // Named as seen from the graph's own.
        let key = key.map(|key| file.parent().unwrap_or(Path::new("")).join(key));
        let read = |key: PathBuf| {
            let told = |why: &dyn fmt::Display| CannotServe::Graph(format!("{}: {why}", key.display()));
            keyfile::read(&key).map_err(|why| told(&why))
        };
        let key = key.map(read).transpose()?;
        Ok(Options { nart, key, spin: Duration::ZERO, limits: Limits::default(), libraries: Vec::new() })
    }
}

impl Gate {
    /// Takes messages from a proxy that is readable. `looks`: whoever drives this looks at it itself for a while. How many that were.
    pub fn take(&mut self, now: u64, addr: Addr, looks: bool) -> usize {
        self.hear_wishes(now);
        let Gate { node, taken, .. } = self;
        let n = node.local().take(addr, looks, |from, message| taken.push((addr, from, message)));
        self.send_taken(now);
        n
    }

    /// Takes all messages from a proxy whose sender says that there are some: nobody says so again.
    pub fn take_aside(&mut self, now: u64, addr: Addr) -> usize {
        self.hear_wishes(now);
        let mut all = 0;
        loop {
            let Gate { node, taken, .. } = self;
            let n = node.local().take_aside(addr, |from, message| taken.push((addr, from, message)));
            self.send_taken(now);
            all += n;
            if n < TURN {
                return all;
            }
        }
    }

    /// The same of all proxies, whoever sent there, and whether anybody said so or not.
    pub fn take_all(&mut self, now: u64) -> usize {
        let all = self.node.local().addresses();
        all.into_iter().map(|addr| self.take_aside(now, addr)).sum()
    }

    /// The gateway is to end. Whether nothing is left for which it would wait: no node that is not down has to acknowledge
    /// anything, and no program here can send it more.
    pub fn is_through(&mut self, now: u64) -> bool {
        // Before what they sent is taken: whoever has let go by then had put all of it there.
        let peers = self.node.peers();
        let up: Vec<_> =
            peers.iter().filter(|peer| peer.current().is_some()).map(|peer| peer.nid()).collect();
        let attached = self.node.local().attached().any(|nid| up.contains(&nid));
        self.take_all(now) == 0 && !attached && !self.node.waits_for_others()
    }

    /// A child of a fork has no descriptor of a route or of the door, nor `copy`, which may be a route's: as long as the child lives,
    /// the next gateway could not have what they stand for.
    pub fn keep_from_children(&self, copy: BorrowedFd<'_>) {
        let mut all = vec![self.door.listener().as_fd(), copy];
        for route in self.node.routes() {
            route.each_descriptor(&mut |fd| all.push(fd));
        }
        process::keep_from_children(&all);
    }

    /// Takes from proxies again that had no room. When to do so the next time, where some still have none.
    pub fn resume(&mut self, now: u64) -> Option<u64> {
        if !self.node.local().has_paused() {
            return None;
        }
        for addr in self.node.local().resume() {
            self.take_aside(now, addr);
        }
        self.node.local().has_paused().then_some(now + RESUME)
    }

    /// When something is due next, beside what [`Gate::resume`] says.
    pub fn next_timeout(&mut self) -> Option<u64> {
        [self.node.next_timeout(), self.node.local().next_sweep()].into_iter().flatten().min()
    }

    /// The same where nothing came: what may be due earlier than it was, all the same.
    pub fn next_in_vain(&mut self, now: u64) -> Option<u64> {
        let resume = self.node.local().has_paused().then_some(now + RESUME);
        [self.node.next_refresh(), resume].into_iter().flatten().min()
    }

    /// Takes what is in the proxies that are looked at.
    pub fn look(&mut self, now: u64) -> usize {
        self.hear_wishes(now);
        let Gate { node, taken, .. } = self;
        let n = node.local().look(|to, from, message| taken.push((to, from, message)));
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

    /// Opens proxies that were asked for.
    pub fn answer(&mut self, now: u64) {
        self.hear_wishes(now);
        let known: Vec<_> = self.node.peers().iter().map(Peer::nid).collect();
        self.node.local().answer(|nid| known.contains(&nid));
    }

    /// Tells who asks how it is.
    pub fn tell(&mut self) {
        let node = &mut self.node;
        self.door.answer(&self.folder, || status::Gateway::of(node, process::now()));
    }
}
