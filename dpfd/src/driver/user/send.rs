//! Sending: `dp_write`, `dp_sendto`, `dp_target`.
//!
//! The light-weight call of the paper: straight into the receiver's pool, without a system call unless the
//! receiver sleeps. Everything else goes through the endpoint's own pair ([`super::link`]).

use std::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

use super::inner::{Inner, Tx, MAX_MESSAGE};
use super::link::{plain_limit, Delivery, Link, Path, Way};
use super::note::{Envelope, ENVELOPE};
use super::service::Command;
use crate::addr::Addr;
use crate::edge::far;
use crate::error::{Error, Result};
use crate::sys::{process, raw, unix};

/// Calls in which an endpoint proves that nobody writes plainly on it, before it stops asking.
const ALONE: u32 = 64;
/// How long a sender that may wait looks for room while nothing is taken, ns.
const ROOM_WAIT: u64 = 40_000;
/// How long a message that only a pool can take waits for its receiver to get one, ns.
const POOL_WAIT: u64 = 1_000_000_000;
/// How often it looks.
const POOL_LOOK: Duration = Duration::from_millis(1);

impl Inner {
    /// `dp_target`.
    ///
    /// # Errors
    ///
    /// [`Error::NoRoute`], [`Error::BadDpid`].
    pub fn set_target(&self, to: Addr) -> Result<()> {
        let to = self.here(to)?;
        let mut tx = self.tx();
        let (ix, new) = tx.link(to);
        tx.target = Some(ix);
        // Named again: another one may have it by now.
        let again = core::mem::take(&mut tx.links[ix].denied);
        drop(tx);
        if new || again {
            self.process.command(Command::Attach(self.entry.serial, to));
        } else {
            // Plain writes that waited for a target go now.
            self.process.command(Command::Resume(self.entry.serial));
        }
        Ok(())
    }

    /// An address on this node, as it is kept.
    fn here(&self, to: Addr) -> Result<Addr> {
        if to.dpid == 0 {
            return Err(Error::BadDpid(0));
        }
        if to.nid != 0 && to.nid != self.process.nid {
            return Err(Error::NoRoute(to.nid));
        }
        Ok(Addr::local(to.dpid))
    }

    /// `dp_write`, `dp_sendto`.
    ///
    /// # Errors
    ///
    /// [`Error::NoTarget`], [`Error::NoRoute`], [`Error::TooLong`], [`Error::WouldBlock`],
    /// [`Error::Interrupted`], [`Error::Closed`].
    #[inline]
    pub fn send(&self, fd: i32, to: Option<Addr>, msg: &[u8]) -> Result<()> {
        self.send_for(Duration::MAX, fd, to, msg)
    }

    /// The same, but a wait ends with [`Error::WouldBlock`] after about `patience`.
    ///
    /// # Errors
    ///
    /// As [`Inner::send`].
    #[inline]
    pub fn send_for(&self, patience: Duration, fd: i32, to: Option<Addr>, msg: &[u8]) -> Result<()> {
        let mut tx = self.tx();
        let ix = match to {
            None => tx.target.ok_or(Error::NoTarget)?,
            Some(to) => self.link_to(&mut tx, to)?,
        };
        if tx.alone {
            let link = &mut tx.links[ix];
            if link.path == Path::Direct && link.deliver_edge(msg) == Some(Delivery::Done) {
                return Ok(());
            }
        }
        self.send_slow(tx, ix, patience, fd, msg)
    }

    fn link_to(&self, tx: &mut Tx, to: Addr) -> Result<usize> {
        let to = self.here(to)?;
        let (ix, new) = tx.link(to);
        if new {
            self.process.command(Command::Attach(self.entry.serial, to));
        }
        Ok(ix)
    }

    #[cold]
    fn send_slow<'a>(
        &'a self,
        mut tx: MutexGuard<'a, Tx>,
        ix: usize,
        patience: Duration,
        fd: i32,
        msg: &[u8],
    ) -> Result<()> {
        if msg.len() > MAX_MESSAGE {
            return Err(Error::TooLong { len: msg.len(), to: tx.links[ix].to, limit: MAX_MESSAGE });
        }
        let waits = || !raw::is_nonblocking(fd);
        let mut begun = None;
        let mut load = Load { msg, far: None };
        loop {
            // A plain write that waits in the pair was sent before.
            let behind = !tx.alone && pair_holds(fd)?;
            if !behind && !self.mixed.load(Ordering::Relaxed) {
                tx.calls = tx.calls.saturating_add(1);
                tx.alone = tx.calls >= ALONE;
            }
            let link = &mut tx.links[ix];
            if link.denied {
                return Err(Error::Denied(link.to));
            }
            if link.path == Path::Direct && !behind {
                match load.deliver(link, self.tag()?)? {
                    Delivery::Done => return Ok(()),
                    Delivery::Gone => {
                        link.path = Path::Queued;
                        self.process.command(Command::Lost(self.entry.serial, link.to));
                    }
                    Delivery::TooLong(limit) => load.too_long(link, limit)?,
                    Delivery::Full => {
                        self.full.fetch_add(1, Ordering::Relaxed);
                        if waits() && link.look_for_room(ROOM_WAIT) {
                            continue;
                        }
                        link.path = Path::Queued;
                    }
                }
            }
            match self.enqueue(&mut tx.links[ix], fd, &mut load) {
                Err(Error::WouldBlock) if waits() => {}
                done => return done,
            }
            // Outside of the lock, or the service could not make room.
            drop(tx);
            let room = unix::wait(fd, libc::POLLOUT, 10).map_err(Error::system("poll"))?;
            if self.is_closed() {
                return Err(Error::Closed);
            }
            if begun.get_or_insert_with(Instant::now).elapsed() >= patience {
                return Err(Error::WouldBlock);
            }
            if room & libc::POLLOUT != 0 {
                // It waits for its receiver's pool, not for room.
                std::thread::sleep(POOL_LOOK);
            }
            tx = self.tx();
        }
    }

    /// Puts a message into the endpoint's own pair, for the service to take on.
    fn enqueue(&self, link: &mut Link, fd: i32, load: &mut Load<'_>) -> Result<()> {
        let to = link.to;
        let tag = self.tag()?;
        let limit = plain_limit(&self.back) - ENVELOPE;
        let packet = Envelope { to }.encode();
        let sent = if load.msg.len() <= limit {
            unix::send(
                fd,
                &[IoSlice::new(&packet), IoSlice::new(load.msg)],
                &[tag.as_fd()],
                libc::MSG_DONTWAIT,
            )
        } else {
            if !matches!(link.way, Way::Pool { .. }) {
                load.too_long(link, limit)?;
                return Err(Error::WouldBlock);
            }
            let memory = load.far()?;
            unix::send(fd, &[IoSlice::new(&packet)], &[tag.as_fd(), memory.as_fd()], libc::MSG_DONTWAIT)
        };
        match sent {
            Ok(_) => {
                link.queued += 1;
                Ok(())
            }
            Err(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM | libc::ETOOMANYREFS) => Err(Error::WouldBlock),
            Err(libc::EINTR) => Err(Error::Interrupted),
            Err(libc::EPIPE | libc::ECONNRESET) => Err(Error::Closed),
            Err(libc::EBADF | libc::ENOTSOCK) => Err(Error::NotAnEndpoint(fd)),
            Err(e) => Err(Error::System { call: "sendmsg", errno: e }),
        }
    }
}

/// A message on its way: its bytes, and their copy in sealed memory once they need one.
struct Load<'a> {
    msg: &'a [u8],
    far: Option<OwnedFd>,
}

impl Load<'_> {
    fn far(&mut self) -> Result<&OwnedFd> {
        if self.far.is_none() {
            self.far = Some(far::make(self.msg).map_err(Error::io("memfd_create"))?);
        }
        self.far.as_ref().ok_or(Error::Closed)
    }

    fn deliver(&mut self, link: &mut Link, tag: &OwnedFd) -> Result<Delivery> {
        if self.far.is_none() {
            match link.deliver(self.msg, tag) {
                Delivery::TooLong(_) if matches!(link.way, Way::Pool { .. }) => {}
                other => return Ok(other),
            }
        }
        Ok(link.deliver_far(self.far()?, tag))
    }

    /// Who reads plainly cannot take it; who is about to get a pool can.
    fn too_long(&self, link: &Link, limit: usize) -> Result<()> {
        if link.plain_since > 0 && process::now() - link.plain_since > POOL_WAIT {
            return Err(Error::TooLong { len: self.msg.len(), to: link.to, limit });
        }
        Ok(())
    }
}

/// Whether the pair holds something that the service has not taken.
fn pair_holds(fd: i32) -> Result<bool> {
    let n = raw::ioctl_int(fd, libc::TIOCOUTQ).map_err(|_| Error::NotAnEndpoint(fd))?;
    Ok(n > 0)
}
