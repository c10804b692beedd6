//! The seam between nodes: one process of a node is its *gateway*, the proxy of all endpoints of other nodes.
//!
//! ```text
//!   this node                                        |  another node
//!   sender --> edge --> proxy endpoint --> gateway ==|==> gateway --> proxy endpoint --> edge --> receiver
//!   1/4000              2/7000                       |               1/4000                       2/7000
//! ```
//!
//! An address of another node is looked up like any other: its sender's service asks the process that the registry's entry
//! `gateway` names for a way there. That process learns which addresses are asked for ([`Gateway::asked`]), and opens an
//! endpoint for each ([`Gateway::open`]) or refuses its node ([`Gateway::refuse`]). Such a *proxy* is in no registry; in all
//! else it is an endpoint like others: who sends to it, waits, is told of room and of its end as on one node, and what it
//! sends comes from its address. So replies find their way by themselves.
//!
//! A proxy that nobody uses may end, and another come ([`crate::Endpoint`]'s `end_unused`): endpoints of this node let go of it
//! where all that they sent was released, and ask for another when they send again.
//!
//! What a gateway does with messages, and by which routes, is its own affair. Several routes are its to choose from for each
//! destination. It can end and be started again: its senders wait meanwhile, as for any endpoint that is not there, and what
//! it had taken and not handed on is its to keep. Users that are not its own are refused before it is asked.

use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::eventfd::{EfdFlags, EventFd};

use super::asked::Asked;
use super::endpoint::UserEndpoint;
use super::inside::Inside;
use super::process::Process;
use super::registry::Entry;
use super::route::Wish;
use super::shared::Command;
use crate::addr::{Addr, Dpid, Nid};
use crate::error::{Error, Result};

/// This process as the gateway of its node, until dropped.
#[derive(Debug)]
pub struct Gateway {
    process: Arc<Process>,
    entry: Entry,
    asked: Arc<Asked>,
}

impl Gateway {
    /// Makes this process the gateway of the node whose endpoints find each other where its own do.
    ///
    /// # Errors
    ///
    /// [`Error::HasGateway`]; those of opening an endpoint.
    pub fn start() -> Result<Gateway> {
        let process = Process::current()?;
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let wake =
            EventFd::from_flags(flags).map_err(|e| Error::System { call: "eventfd", errno: e as i32 })?;
        let asked = Arc::new(Asked::new(wake));
        let entry = Entry { process: process.shared.member.name.clone(), serial: 0 };
        if !process.shared.registry.enter_gateway(&entry)? {
            let process = process.shared.registry.gateway().map_or_else(String::new, |entry| entry.process);
            return Err(Error::HasGateway { process });
        }
        process.set_gateway(Some(asked.clone()));
        Ok(Gateway { process, entry, asked })
    }

    /// The number of the node, as programs here have it.
    pub fn nid(&self) -> Nid {
        self.process.shared.nid
    }

    /// Calls of this process's endpoints step the gateway from now on, for good.
    ///
    /// # Errors
    ///
    /// [`Error::HasGateway`]: they stepped one before.
    pub fn step_by(&self, inside: Arc<dyn Inside>) -> Result<()> {
        let process = self.process.shared.member.name.clone();
        self.process.shared.inside.set(inside).map_err(|_| Error::HasGateway { process })
    }

    /// The addresses that were asked for since the last call, each once. The descriptor is readable until then.
    pub fn asked(&self) -> Vec<Addr> {
        self.asked.take()
    }

    /// The graph is strict: endpoints of this node may send to other nodes along these edges alone, from one here to one there,
    /// and who tries another gets EACCES, whether its program was given the graph or not. To be said before anybody asks.
    pub fn restrict(&self, edges: HashSet<(Dpid, Addr)>) {
        self.asked.restrict(edges);
    }

    /// Opens the proxy of an endpoint of another node; whoever asked for it is answered. An address that nobody asked for
    /// can have one, too.
    ///
    /// # Errors
    ///
    /// [`Error::BadNid`]: it is this node's. [`Error::BadDpid`], [`Error::InUse`]; those of opening an endpoint.
    pub fn open(&self, addr: Addr) -> Result<(OwnedFd, Arc<UserEndpoint>)> {
        if addr.nid == 0 || addr.nid == self.process.shared.nid {
            return Err(Error::BadNid(addr.nid.into()));
        }
        self.process.open_proxy(addr)
    }

    /// Whether an endpoint of this node has that number, or had it lately.
    pub fn has(&self, dpid: Dpid) -> bool {
        self.process.shared.registry.look_up(dpid).is_some()
    }

    /// Its routes have these names: endpoints can choose among them ([`crate::Endpoint::set_route`]).
    ///
    /// # Errors
    ///
    /// Those of writing a file.
    pub fn offer(&self, names: &[&str]) -> Result<()> {
        self.process.shared.registry.offer_routes(&self.entry.process, names)
    }

    /// What endpoints chose since the last call, in that order. Costs nothing where nobody did.
    #[inline]
    pub fn wishes(&self) -> Vec<Wish> {
        self.asked.take_wishes()
    }

    /// This process is about to end: endpoints are asked to let go of proxies. One does as soon as all that it sent there was
    /// taken and released ([`crate::Endpoint::has_senders`] says whether any has not); what it sends from then on waits in its own
    /// process for the next gateway.
    pub fn rest(&self) {
        self.process.shared.command(Command::GatewayRests);
    }

    /// No route leads to that node: whoever asked is told so, and its calls fail, until it names a target there again or
    /// another gateway comes.
    pub fn refuse(&self, nid: Nid) {
        self.process.shared.command(Command::Refuse(nid));
    }
}

/// Waits until what endpoints of this process have sent to other nodes is with its gateway, or `limit` is over. Whether it is. What
/// waits for an endpoint of this node is not waited for.
pub fn hand_over(limit: Duration) -> bool {
    Process::started().is_none_or(|process| process.hand_over(limit, |to| to.nid != 0))
}

impl AsFd for Gateway {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.asked.wake.as_fd()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.process.shared.registry.remove_gateway(&self.entry);
        self.process.set_gateway(None);
        self.process.shared.command(Command::GatewayEnded);
    }
}
