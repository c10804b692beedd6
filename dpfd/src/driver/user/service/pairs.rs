//! The pairs of our endpoints: read, and what was in them put into the backlogs of its links.
//!
//! What the service reads from a pair it must keep: a message whose destination has no room, or does not exist
//! yet, waits in the *backlog* of its link, so that messages for others go on. Once [`Tx::may_park`] says no, the endpoint's
//! pair is left alone; it fills up, and the writer waits there. It is read on, up to a limit, once a receiver is there for what is
//! behind.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::Ordering;
use std::sync::Arc;

use nix::sys::epoll::EpollFlags;

use super::super::endpoint::UserEndpoint;
use super::super::link::{Body, Destination, Path, Queued};
use super::super::note::{Envelope, Inside};
use super::super::tx::Tx;
use super::{event, Kind, Service};
use crate::addr::Addr;
use crate::edge::beside::Beside;
use dp_edge::sys::unix;

/// Messages taken from one endpoint before others have their turn.
const TURN: usize = 64;

/// An endpoint of this process, as the service sees it.
#[derive(Debug)]
pub struct Local {
    pub inner: Arc<UserEndpoint>,
    /// Its pair is not read at the moment.
    pub stalled: bool,
    /// Every descriptor was closed; it lingers until what it sent is delivered.
    pub closed: bool,
    /// Nothing is left in its pair.
    read_out: bool,
    /// Its pair is being read: what a delivery makes room for is read by that loop, not by one inside it.
    pumping: bool,
}

impl Local {
    pub fn new(inner: Arc<UserEndpoint>) -> Local {
        Local { inner, stalled: false, closed: false, read_out: false, pumping: false }
    }
}

impl Service {
    /// Reads what an endpoint's program sent, and takes it on.
    pub fn pump(&mut self, serial: u32) {
        let Some(local) = self.endpoints.get_mut(&serial) else { return };
        if core::mem::replace(&mut local.pumping, true) {
            return;
        }
        loop {
            self.pump_turn(serial);
            let Some(local) = self.endpoints.get_mut(&serial) else { return };
            // One that is closed is not watched any more: all there is room for, now.
            if !local.closed {
                local.pumping = false;
                return;
            }
            if !more_to_read(local) {
                local.pumping = false;
                return self.linger(serial);
            }
        }
    }

    fn pump_turn(&mut self, serial: u32) {
        let mut buf = Vec::new();
        for _ in 0..TURN {
            let Some(local) = self.endpoints.get(&serial) else { return };
            let (inner, closed) = (local.inner.clone(), local.closed);
            match take_one(&inner, &mut buf) {
                Ok(Taken::First { to, unknown: true }) => self.attach(serial, to),
                Ok(Taken::First { to, .. }) => self.flush(serial, to),
                // Nobody can name a target any more.
                Ok(Taken::Untargeted) if closed => inner.guest_tx().untargeted = None,
                Ok(Taken::Untargeted | Taken::NoRoom) => {
                    self.stall(serial, true);
                    return self.see_hang_up(serial);
                }
                Ok(Taken::Another | Taken::Other) | Err(libc::EINTR) => {}
                Err(libc::EAGAIN) => return self.stall(serial, false),
                // It stays in the pair until there is what it takes to have it.
                Err(libc::EMFILE | libc::ENOMEM) => {
                    self.stall(serial, true);
                    self.unread.insert(serial);
                    self.retry_soon();
                    return self.see_hang_up(serial);
                }
                // The end, or an error that is one.
                Ok(Taken::End) | Err(_) => {
                    if let Some(local) = self.endpoints.get_mut(&serial) {
                        local.read_out = true;
                    }
                    return self.closed(serial);
                }
            }
        }
        // Level-triggered: the rest at the next turn.
        self.stall(serial, false);
    }

    /// Leaves an endpoint's pair alone, or reads it again.
    fn stall(&mut self, serial: u32, stalled: bool) {
        let Some(local) = self.endpoints.get_mut(&serial) else { return };
        if local.stalled == stalled || local.closed {
            return;
        }
        local.stalled = stalled;
        let flags = if stalled { EpollFlags::empty() } else { EpollFlags::EPOLLIN };
        let _ = self.epoll.modify(&local.inner.back, &mut event(flags, Kind::Endpoint, serial));
    }

    /// A pair that is left alone tells its end nevertheless, again and again.
    fn see_hang_up(&mut self, serial: u32) {
        let local = self.endpoints.get(&serial).filter(|l| !l.closed);
        if local.is_some_and(|l| unix::hung_up(l.inner.back.as_fd())) {
            self.closed(serial);
        }
    }

    /// The program closed its last descriptor; what it had sent still goes.
    fn closed(&mut self, serial: u32) {
        self.retire(serial);
        if let Some(local) = self.endpoints.get_mut(&serial) {
            local.closed = true;
            local.inner.guest_tx().untargeted = None;
            // It would be reported for ever.
            let _ = self.epoll.delete(&local.inner.back);
        }
        self.linger(serial);
    }

    pub fn linger(&mut self, serial: u32) {
        let Some(local) = self.endpoints.get(&serial).filter(|l| !l.pumping) else { return };
        // What could not be read while there was no room is read now.
        if more_to_read(local) {
            self.todo.push(serial);
        } else if local.read_out && !local.inner.guest_tx().has_backlog() {
            self.over(serial);
        }
    }
}

/// Whether the pair may hold something, and the service has room for it.
fn more_to_read(local: &Local) -> bool {
    !local.read_out && local.inner.guest_tx().may_park()
}

/// What was taken from a pair.
enum Taken {
    /// A message, now the only one in the backlog of its link, whose destination may be unknown: the link is new, or rested.
    First { to: Addr, unknown: bool },
    /// One behind others, which wait for room or for their destination.
    Another,
    /// A plain write for which there is no target; it is kept, and nothing is taken behind it.
    Untargeted,
    /// There is no room for more.
    NoRoom,
    /// Something else than a message.
    Other,
    /// The end.
    End,
}

/// Takes a message from the pair and parks it, in one piece: a call that found the pair empty, and the message not
/// counted, would send past it.
fn take_one(inner: &UserEndpoint, buf: &mut Vec<u8>) -> Result<Taken, i32> {
    let mut tx = inner.guest_tx();
    if let Some(bytes) = tx.untargeted.take() {
        return Ok(take_plain(&mut tx, bytes));
    }
    if !tx.may_park() {
        return Ok(Taken::NoRoom);
    }
    let got = unix::take(inner.back.as_raw_fd(), buf)?;
    // A program that holds a copy of this end could have turned the marks off.
    if !got.marked && unix::hung_up(inner.back.as_fd()) {
        return Ok(Taken::End);
    }
    let bytes = &buf[..got.len.min(buf.len())];
    let Some((Envelope { to, what, beside, .. }, begin)) = Envelope::decode(bytes, inner.key) else {
        // The next direct message could overtake a plain write.
        inner.mixed.store(true, Ordering::Relaxed);
        tx.alone = false;
        return Ok(take_plain(&mut tx, bytes.to_vec()));
    };
    let [memory, _] = got.fds;
    let body = match (what, memory) {
        (Inside::Message, _) => Body::Bytes(bytes[begin..].to_vec()),
        (Inside::OutOfLine, Some(memory)) => Body::OutOfLine(memory),
        // Lost: its descriptor could not be had.
        (Inside::OutOfLine, None) => {
            if let Some(ix) = tx.find(to) {
                tx.unqueued(ix);
            }
            return Ok(Taken::Other);
        }
        (Inside::Target, _) => {
            tx.plain = Some(to);
            return Ok(Taken::Other);
        }
    };
    let (ix, _) = tx.link(to);
    Ok(park(&mut tx, ix, Queued { body, beside }))
}

/// A plain write: to the target of the moment.
fn take_plain(tx: &mut Tx, bytes: Vec<u8>) -> Taken {
    let Some(to) = tx.plain else {
        tx.untargeted = Some(bytes);
        return Taken::Untargeted;
    };
    let (ix, _) = tx.link(to);
    tx.queued(ix);
    park(tx, ix, Queued { body: Body::Bytes(bytes), beside: Beside::default() })
}

fn park(tx: &mut Tx, ix: usize, load: Queued) -> Taken {
    let link = &mut tx.links[ix];
    link.path = Path::Queued;
    let (to, unknown) = (link.to, matches!(link.destination, Destination::Unknown));
    match tx.park(ix, load) {
        1 => Taken::First { to, unknown },
        _ => Taken::Another,
    }
}
