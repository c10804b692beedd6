//! Sending: `dp_write`, `dp_sendto`, `dp_target`, as far as they do not wait.
//!
//! The light-weight call of the paper: straight into the receiver's pool, without a system call unless the
//! receiver sleeps. Everything else goes through the endpoint's own pair (`attempt.rs`).

use std::io::IoSlice;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::attempt::pair_holds;
use super::endpoint::UserEndpoint;
use super::link::Path;
use super::note::{Envelope, Inside};
use super::shared::Command;
use super::tx::Tx;
use crate::addr::Addr;
use crate::driver::{Sleep, Step};
use crate::edge::beside::Beside;
use crate::edge::message::Content;
use crate::error::{Error, Result};
use dp_edge::sys::biased::Guard;
use dp_edge::sys::{raw, unix};

/// How long a change of target waits for room in a pair that is full of plain writes, before it looks again.
const TARGET_ROOM: Duration = Duration::from_millis(100);

impl UserEndpoint {
    /// `dp_target`, or where to sleep where plain writes to the former target fill the pair.
    ///
    /// # Errors
    ///
    /// [`Error::NoRoute`], [`Error::BadDpid`], [`Error::NotInGraph`]; [`Error::WouldBlock`].
    pub fn try_target(&self, fd: i32, to: Addr) -> Result<Step<()>> {
        let to = self.here(to)?;
        let tx = self.tx();
        self.permit(&tx, to)?;
        self.find_route(&tx, to)?;
        // Plain writes that are still in the pair go to the former target. They were written before this call, so
        // what is not there now is with its link.
        if tx.plain.is_some_and(|former| former != to) && pair_holds(fd)? {
            let envelope = Envelope { key: self.key, to, what: Inside::Target, beside: Beside::default() };
            let (packet, len) = envelope.encode();
            match unix::send(fd, &[IoSlice::new(&packet[..len])], &[], libc::MSG_DONTWAIT) {
                Ok(_) => return self.targeted(tx, to, false),
                // Full of messages that say where they go; nobody was seen to write plainly.
                Err(libc::EAGAIN) if !self.mixed.load(Ordering::Relaxed) => {}
                Err(libc::EAGAIN) if raw::is_nonblocking(fd) => return Err(Error::WouldBlock),
                Err(libc::EAGAIN) => return Ok(Step::Wait(Sleep::Room(TARGET_ROOM))),
                Err(libc::EPIPE | libc::ECONNRESET) => return Err(Error::Closed),
                Err(e) => return Err(Error::system("sendmsg")(e)),
            }
        }
        self.targeted(tx, to, true)
    }

    /// Plain writes and direct messages of this endpoint keep their order from the first on. Without it, an endpoint
    /// on which nobody wrote plainly for 64 calls stops asking, until the service has read a plain write.
    pub fn keep_order(&self) {
        self.mixed.store(true, Ordering::Relaxed);
        self.tx().alone = false;
    }

    /// The rest of [`UserEndpoint::try_target`]. `plain`: for plain writes, too.
    fn targeted(&self, mut tx: Guard<'_, Tx>, to: Addr, plain: bool) -> Result<Step<()>> {
        let (ix, new) = tx.link(to);
        if plain {
            tx.plain = Some(to);
        }
        if let Some(former) = tx.target.replace(ix).filter(|former| *former != ix) {
            tx.links[former].leave();
        }
        tx.links[ix].former = None;
        // Named again: another one may have it by now.
        let again = tx.links[ix].refused.take().is_some();
        drop(tx);
        if new || again {
            self.process.command(Command::Attach(self.entry.serial, to));
        } else {
            // Plain writes that waited for a target go now.
            self.process.command(Command::Resume(self.entry.serial));
        }
        Ok(Step::Done(()))
    }

    /// An address, as it is kept: of this node without its number.
    fn here(&self, to: Addr) -> Result<Addr> {
        match to {
            Addr { dpid: 0, .. } => Err(Error::BadDpid(0)),
            Addr { nid, dpid } if nid == 0 || nid == self.process.nid => Ok(Addr::local(dpid)),
            elsewhere => Ok(elsewhere),
        }
    }

    /// Whether messages for there can be taken: to another node only if there is a gateway, or was one.
    #[inline(always)]
    fn find_route(&self, tx: &Tx, to: Addr) -> Result<()> {
        if to.nid == 0 || tx.find(to).is_some() || self.process.registry.gateway().is_some() {
            return Ok(());
        }
        Err(Error::NoRoute(to.nid))
    }

    /// Refuses a destination that is new where a strict graph has no edge to it.
    #[inline(always)]
    fn permit(&self, tx: &Tx, to: Addr) -> Result<()> {
        match &self.process.graph {
            Some(graph) if tx.find(to).is_none() => graph.check(self.dpid, to),
            _ => Ok(()),
        }
    }

    /// The light-weight call: whether the message went straight into its receiver's edge. Where not, it is sent step by step
    /// ([`super::sending`]).
    ///
    /// # Errors
    ///
    /// [`Error::NoTarget`], [`Error::NoRoute`], [`Error::NotInGraph`], [`Error::Closed`].
    #[inline(always)]
    pub fn send_soon(&self, to: Option<Addr>, msg: impl Content) -> Result<bool> {
        let mut tx = self.tx();
        let ix = self.link_to(&mut tx, to)?;
        let sent = tx.deliver_edge(ix, msg);
        if sent && tx.links[ix].inside {
            let to = tx.links[ix].to;
            drop(tx);
            self.step_behind(to);
        }
        Ok(sent)
    }

    /// A message was sent over a link that is inside: the gateway takes it on.
    #[inline(never)]
    pub(super) fn step_behind(&self, to: Addr) {
        if let Some(inside) = self.process.inside.get() {
            inside.sent(to);
        }
    }

    /// The link to a destination, or to the target.
    #[inline(always)]
    pub(super) fn link_to(&self, tx: &mut Tx, to: Option<Addr>) -> Result<usize> {
        match (to, tx.target) {
            (Some(to), _) => self.link_to_other(tx, to),
            (None, Some(ix)) => Ok(ix),
            (None, None) if tx.ended => Err(Error::Closed),
            (None, None) => Err(Error::NoTarget),
        }
    }

    fn link_to_other(&self, tx: &mut Tx, to: Addr) -> Result<usize> {
        let to = self.here(to)?;
        if tx.ended {
            return Err(Error::Closed);
        }
        self.permit(tx, to)?;
        self.find_route(tx, to)?;
        let (ix, new) = tx.link(to);
        if new {
            self.process.command(Command::Attach(self.entry.serial, to));
        }
        Ok(ix)
    }
}

impl Tx {
    /// The light-weight call: whether the message went straight into its receiver's edge.
    #[inline(always)]
    pub(super) fn deliver_edge(&mut self, ix: usize, msg: impl Content) -> bool {
        if !self.alone {
            return false;
        }
        let link = &mut self.links[ix];
        link.path == Path::Direct && link.deliver_soon(msg)
    }
}
