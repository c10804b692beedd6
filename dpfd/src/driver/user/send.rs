//! Sending: `dp_write`, `dp_sendto`, `dp_target`.
//!
//! The light-weight call of the paper: straight into the receiver's pool, without a system call unless the
//! receiver sleeps. Everything else goes through the endpoint's own pair ([`super::link`]).

use std::io::IoSlice;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::endpoint::{UserEndpoint, MAX_MESSAGE};
use super::link::{plain_limit, Delivery, Destination, Link, Path, Refused};
use super::load::Load;
use super::note::{Envelope, Inside, ENVELOPE};
use super::sending::Until;
use super::service::Command;
use super::tx::Tx;
use crate::addr::Addr;
use crate::edge::message::Content;
use crate::edge::parts::Parts;
use crate::error::{Error, NoImmediate, Result};
use dp_edge::sys::biased::Guard;
use dp_edge::sys::{process, raw, unix};

/// Calls in which an endpoint proves that nobody writes plainly on it, before it stops asking.
const ALONE: u32 = 64;
/// How often a sender looks whether its receiver has got a pool.
const POOL_LOOK: Duration = Duration::from_millis(1);

/// Behind a message out of line, in the endpoint's own pair: so that a dozen of them fill it, and not hundreds,
/// each with a descriptor in flight.
static PADDING: [u8; 16 << 10] = [0; 16 << 10];

impl UserEndpoint {
    /// `dp_target`.
    ///
    /// # Errors
    ///
    /// [`Error::NoRoute`], [`Error::BadDpid`], [`Error::NotInGraph`]; [`Error::WouldBlock`] and [`Error::Interrupted`] where plain writes
    /// to the former target fill the pair.
    pub fn set_target(&self, fd: i32, to: Addr) -> Result<()> {
        let to = self.here(to)?;
        let mut tx = self.tx();
        self.permit(&tx, to)?;
        self.find_route(&tx, to)?;
        // Plain writes that are still in the pair go to the former target. They were written before this call, so
        // what is not there now is with its link.
        while tx.plain.is_some_and(|former| former != to) && pair_holds(fd)? {
            let envelope = Envelope { key: self.key, to, what: Inside::Target, immediate: None };
            let packet = envelope.encode();
            match unix::send(fd, &[IoSlice::new(&packet)], &[], libc::MSG_DONTWAIT) {
                Ok(_) => return self.targeted(tx, to, false),
                // Full of messages that say where they go; nobody was seen to write plainly.
                Err(libc::EAGAIN) if !self.mixed.load(Ordering::Relaxed) => break,
                Err(libc::EAGAIN) if raw::is_nonblocking(fd) => return Err(Error::WouldBlock),
                Err(libc::EAGAIN) => {}
                Err(libc::EPIPE | libc::ECONNRESET) => return Err(Error::Closed),
                Err(e) => return Err(Error::system("sendmsg")(e)),
            }
            drop(tx);
            unix::wait(fd, libc::POLLOUT, 100).map_err(Error::system("poll"))?;
            tx = self.tx();
        }
        self.targeted(tx, to, true)
    }

    /// Plain writes and direct messages of this endpoint keep their order from the first on. Without it, an endpoint
    /// on which nobody wrote plainly for 64 calls stops asking, until the service has read a plain write.
    pub fn keep_order(&self) {
        self.mixed.store(true, Ordering::Relaxed);
        self.tx().alone = false;
    }

    /// The rest of [`UserEndpoint::set_target`]. `plain`: for plain writes, too.
    fn targeted(&self, mut tx: Guard<'_, Tx>, to: Addr, plain: bool) -> Result<()> {
        let (ix, new) = tx.link(to);
        if plain {
            tx.plain = Some(to);
        }
        tx.target = Some(ix);
        // Named again: another one may have it by now.
        let again = tx.links[ix].refused.take().is_some();
        drop(tx);
        if new || again {
            self.process.command(Command::Attach(self.entry.serial, to));
        } else {
            // Plain writes that waited for a target go now.
            self.process.command(Command::Resume(self.entry.serial));
        }
        Ok(())
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

    /// `dp_write`, `dp_sendto`.
    ///
    /// # Errors
    ///
    /// [`Error::NoTarget`], [`Error::NoRoute`], [`Error::NotInGraph`], [`Error::TooLong`], [`Error::WouldBlock`],
    /// [`Error::Interrupted`], [`Error::Closed`].
    #[inline(always)]
    pub fn send(&self, fd: i32, to: Option<Addr>, msg: &[u8]) -> Result<()> {
        self.send_for(Duration::MAX, fd, to, msg)
    }

    /// The same, but a wait ends with [`Error::WouldBlock`] after about `patience`.
    ///
    /// # Errors
    ///
    /// As [`UserEndpoint::send`].
    #[inline(always)]
    pub fn send_for(&self, patience: Duration, fd: i32, to: Option<Addr>, msg: &[u8]) -> Result<()> {
        let mut tx = self.tx();
        let ix = self.link_to(&mut tx, to)?;
        if tx.deliver_edge(ix, msg) {
            return Ok(());
        }
        self.send_slow(tx, ix, patience, fd, Parts::new(&[IoSlice::new(msg)]))
    }

    /// Sends pieces as one message, with an immediate if it has one: as [`UserEndpoint::send_for`] in all else.
    ///
    /// # Errors
    ///
    /// As [`UserEndpoint::send`]; [`Error::NoImmediate`].
    #[inline(always)]
    pub fn send_parts_for(
        &self,
        patience: Duration,
        fd: i32,
        to: Option<Addr>,
        msg: Parts<'_>,
    ) -> Result<()> {
        let mut tx = self.tx();
        let ix = self.link_to(&mut tx, to)?;
        if tx.deliver_edge(ix, &msg) {
            return Ok(());
        }
        self.send_slow(tx, ix, patience, fd, msg)
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

    #[cold]
    fn send_slow<'a>(
        &'a self,
        mut tx: Guard<'a, Tx>,
        ix: usize,
        patience: Duration,
        fd: i32,
        msg: Parts<'_>,
    ) -> Result<()> {
        let waits = || !raw::is_nonblocking(fd);
        let mut begun = None;
        let mut load = Load::new(msg);
        loop {
            match self.attempt(&mut tx, ix, fd, &mut load, waits)? {
                None => return Ok(()),
                Some(_) if !waits() => return Err(Error::WouldBlock),
                Some(_) => {}
            }
            // Outside of the lock, or the service could not make room.
            drop(tx);
            if let Some(rest) = load.rest() {
                process::rest(rest);
            } else {
                let room = unix::wait(fd, libc::POLLOUT, 10).map_err(Error::system("poll"))?;
                if self.is_closed() {
                    return Err(Error::Closed);
                }
                if room & libc::POLLOUT != 0 {
                    // It waits for its receiver's pool, not for room.
                    process::rest(POOL_LOOK);
                }
            }
            if begun.get_or_insert_with(Instant::now).elapsed() >= patience {
                return Err(Error::WouldBlock);
            }
            tx = self.tx();
        }
    }

    /// One attempt, which waits for nothing but, where the caller `waits`, for a moment for room in the edge.
    /// None: the message is sent.
    #[cold]
    pub(super) fn attempt(
        &self,
        tx: &mut Tx,
        ix: usize,
        fd: i32,
        load: &mut Load<'_>,
        waits: impl Fn() -> bool,
    ) -> Result<Option<Until>> {
        let pair = || plain_limit(&self.back) - ENVELOPE;
        loop {
            // A plain write that waits in the pair was sent before.
            let behind = !tx.alone && (tx.untargeted.is_some() || pair_holds(fd)?);
            if !behind && !self.mixed.load(Ordering::Relaxed) {
                tx.calls = tx.calls.saturating_add(1);
                tx.alone = tx.calls >= ALONE;
            }
            let Some(mut link) = tx.links.get_mut(ix) else { return Err(Error::Closed) };
            if load.msg.len() > MAX_MESSAGE {
                return Err(Error::TooLong { len: load.msg.len(), to: link.to, limit: MAX_MESSAGE });
            }
            match link.refused {
                Some(Refused::User) => return Err(Error::Denied(link.to)),
                Some(Refused::Node) => return Err(Error::NoRoute(link.to.nid)),
                None => {}
            }
            if load.msg.immediate().is_some() && link.refuses_immediates() {
                return Err(Error::NoImmediate(link.to, NoImmediate::OldReceiver));
            }
            let mut direct = None;
            if !behind && link.try_direct() {
                let immediate = load.msg.immediate().filter(|_| !link.has_edge());
                let mut made = None;
                let delivery = load.deliver(link, self.tag_for(immediate, &mut made)?)?;
                direct = Some(delivery);
                if link.asks_for_longer() {
                    self.process.command(Command::Outgrown(self.entry.serial, link.to));
                }
                match delivery {
                    Delivery::Done => return Ok(None),
                    Delivery::Gone => {
                        link.unlink();
                        self.process.command(Command::Lost(self.entry.serial, link.to));
                    }
                    Delivery::TooLong(limit) => load.too_long(link, limit)?,
                    Delivery::Full | Delivery::Busy | Delivery::Short | Delivery::NoWay => {
                        self.full.fetch_add(1, Ordering::Relaxed);
                        let full = delivery == Delivery::Full;
                        if full && !waits() {
                            link.count_short();
                        } else if full {
                            if link.look_for_room(load.room_wait()) {
                                link.count_short();
                                continue;
                            }
                            if load.rests(|| true, pair) {
                                return Ok(Some(Until::Later));
                            }
                        }
                        link.path = Path::Queued;
                    }
                }
            }
            // What is in front of it in the pair may never be taken: of those whose destinations are not there the service keeps
            // a few only. Who waits does so for room where it goes, or for those of its own that are in front of them.
            let may_wait = !behind && matches!(direct, None | Some(Delivery::Full | Delivery::Busy));
            if may_wait && !matches!(link.destination, Destination::Unknown) {
                if tx.is_jammed() && waits() {
                    return Ok(Some(Until::Room));
                }
                link = &mut tx.links[ix];
            }
            // While others are in front of it the direct way is not to be had, and would never be if each went there.
            let has_pool = matches!(link.destination, Destination::Pool { .. });
            if direct.is_none() && has_pool && load.rests(&waits, pair) {
                return Ok(Some(Until::Later));
            }
            // Of a future: it is told when there is room, or nobody is in front of it any more.
            let in_front = direct.is_none() && !behind;
            if (in_front || direct == Some(Delivery::Full)) && link.has_edge() && load.waits_for_a_turn(pair)
            {
                if !in_front && link.want_room() {
                    continue;
                }
                return Ok(Some(Until::Direct));
            }
            let Some(stuck) = self.enqueue(link, fd, load)? else {
                tx.queued(ix);
                return Ok(None);
            };
            let link = &mut tx.links[ix];
            match (stuck, direct) {
                // A direct link would not help: what is in the pair goes first.
                (Until::Room, _) if behind => return Ok(Some(Until::Drained)),
                // The pair is full, perhaps of messages for others: whoever knows of room on the direct way tells.
                (Until::Room, Some(Delivery::Full)) if link.want_room() => {}
                (Until::Room, Some(Delivery::Short)) => return Ok(Some(Until::Later)),
                (Until::Room, Some(Delivery::Busy)) => {
                    self.process.command(Command::Busy(self.entry.serial, link.to));
                    return Ok(Some(Until::Room));
                }
                _ => return Ok(Some(stuck)),
            }
        }
    }

    /// Puts a message into the endpoint's own pair, for the service to take on. None: it is there.
    fn enqueue(&self, link: &mut Link, fd: i32, load: &mut Load<'_>) -> Result<Option<Until>> {
        let limit = plain_limit(&self.back) - ENVELOPE;
        let immediate = load.msg.immediate();
        let envelope = |what| Envelope { key: self.key, to: link.to, what, immediate }.encode();
        let sent = if load.msg.len() <= limit {
            let envelope = envelope(Inside::Message);
            load.msg.behind(&envelope, |packet| unix::send(fd, packet, &[], libc::MSG_DONTWAIT))
        } else {
            // A receiver that reads plainly takes some that are too long for this pair only because of the envelope.
            if matches!(link.destination, Destination::Plain(_)) && load.msg.len() > plain_limit(&self.back) {
                load.too_long(link, limit + ENVELOPE)?;
                return Ok(Some(Until::Later));
            }
            let envelope = envelope(Inside::OutOfLine);
            let parts = [IoSlice::new(&envelope), IoSlice::new(&PADDING)];
            unix::send(fd, &parts, &[load.memory()?.as_fd()], libc::MSG_DONTWAIT)
        };
        match sent {
            Ok(_) => Ok(None),
            Err(libc::EAGAIN) => Ok(Some(Until::Room)),
            Err(libc::ENOBUFS | libc::ENOMEM | libc::ETOOMANYREFS) => Ok(Some(Until::Later)),
            Err(libc::EINTR) => Err(Error::Interrupted),
            Err(libc::EPIPE | libc::ECONNRESET) => Err(Error::Closed),
            Err(libc::EBADF | libc::ENOTSOCK) => Err(Error::NotAnEndpoint(fd)),
            Err(e) => Err(Error::System { call: "sendmsg", errno: e }),
        }
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

/// Whether the pair holds something that the service has not taken.
fn pair_holds(fd: i32) -> Result<bool> {
    let n = raw::ioctl_int(fd, libc::TIOCOUTQ).map_err(|_| Error::NotAnEndpoint(fd))?;
    Ok(n > 0)
}
