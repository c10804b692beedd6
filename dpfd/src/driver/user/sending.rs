//! One message on its way, sent step by step: by a thread that waits in between, or by a future.
//!
//! A thread sleeps until its pair has room, and wakes every few milliseconds to see whether something changed that the
//! descriptor does not tell. A future leaves a waker with its link for that ([`super::wakers`]); one that is dropped takes
//! it along.

use std::task::{Context, Poll, Waker};

use super::endpoint::UserEndpoint;
use super::load::Load;
use super::shared::Command;
use super::tx::Tx;
use super::wakers::Until;
use crate::addr::Addr;
use crate::driver::Sleep;
use crate::edge::parts::Parts;
use crate::error::{Error, Result};
use dp_edge::sys::{process, raw};
use std::time::Duration;

/// How long a thread waits for room, before it looks for what its descriptor does not tell.
const ROOM: Duration = Duration::from_millis(10);
/// The same at first where acknowledgements bring it: another thread may have taken them.
const ROOM_INSIDE: Duration = Duration::from_micros(200);
/// Steps in a row that bring something, and no room, before it sleeps.
const STEPS: u32 = 64;

/// One message that is sent.
#[derive(Debug)]
pub struct Sending<'a> {
    inner: &'a UserEndpoint,
    to: Option<Addr>,
    load: Load<'a>,
    link: Option<usize>,
    registered: Option<u64>,
    thread: bool,
    /// The last attempt found a link that is inside.
    inside: bool,
    /// Since when it sleeps for room there, ns, with pauses.
    since: Option<u64>,
}

/// How long to sleep for room that comes by acknowledgements, where so many ns were waited already: as long again, so that one that
/// waits for a node that is down does not wake for nothing all the time.
fn room_inside(waited: u64) -> Duration {
    Duration::from_nanos(waited).clamp(ROOM_INSIDE, ROOM)
}

impl<'a> Sending<'a> {
    /// A message to `to`, or to the target of the moment in which it is first tried; of a future.
    pub fn new(inner: &'a UserEndpoint, to: Option<Addr>, msg: Parts<'a>) -> Sending<'a> {
        Sending {
            inner,
            to,
            load: Load::of_a_future(msg),
            link: None,
            registered: None,
            thread: false,
            inside: false,
            since: None,
        }
    }

    /// The same, of a thread.
    pub fn of_a_thread(inner: &'a UserEndpoint, to: Option<Addr>, msg: Parts<'a>) -> Sending<'a> {
        Sending { load: Load::new(msg), thread: true, ..Sending::new(inner, to, msg) }
    }

    /// Tries, and waits for nothing. None: it is sent, and this must not be called again.
    ///
    /// # Errors
    ///
    /// As [`crate::Endpoint::send_to`]; of a future without [`Error::WouldBlock`].
    pub fn attempt(&mut self, fd: i32) -> Result<Option<Until>> {
        let mut steps = 0;
        loop {
            let inner = self.inner;
            let mut tx = inner.tx();
            let waker = self.take_waker(&mut tx);
            let tried = self.attempt_under(&mut tx, fd);
            let link = self.link.and_then(|ix| tx.links.get(ix)).filter(|link| link.inside);
            let to = link.map(|link| link.to);
            drop(tx);
            drop(waker);
            self.inside = to.is_some();
            let (Some(to), Some(inside)) = (to, inner.process.inside.get()) else { return tried };
            match tried {
                Ok(None) => inside.sent(to),
                // What a step acknowledges makes room. Whoever waits for long looks up now and then.
                Ok(Some(Until::Later)) if self.thread && steps < STEPS && inside.step() => {
                    steps += 1;
                    continue;
                }
                _ => {}
            }
            return tried;
        }
    }

    fn attempt_under(&mut self, tx: &mut Tx, fd: i32) -> Result<Option<Until>> {
        let ix = match self.link {
            Some(ix) => ix,
            None => self.inner.link_to(tx, self.to)?,
        };
        self.link = Some(ix);
        // A thread comes here because that did not do.
        if !self.thread && self.load.near().is_some_and(|msg| tx.deliver_edge(ix, &msg)) {
            return Ok(None);
        }
        let waits = || self.thread && !raw::is_nonblocking(fd);
        match self.inner.attempt(tx, ix, fd, &mut self.load, waits)? {
            Some(_) if self.thread && !waits() => Err(Error::WouldBlock),
            tried => Ok(tried),
        }
    }

    /// Where a thread sleeps until it tries again.
    pub fn sleep(&mut self) -> Sleep {
        let rests = self.load.rest();
        match self.inner.process.inside.get().filter(|_| self.inside) {
            Some(inside) => {
                let now = process::now();
                let room = room_inside(now.saturating_sub(*self.since.get_or_insert(now)));
                let time = inside.until_due().map_or(room, |due| due.min(room));
                Sleep::Routes { since: None, routes: inside.descriptor(), time: Some(time) }
            }
            None => rests.map_or(Sleep::Room(ROOM), Sleep::Moment),
        }
    }

    /// Ready when the service has news that make another attempt worth it. Where [`Until::is_polled`], the caller
    /// waits for the descriptor, too.
    pub fn poll_news(&mut self, until: Until, cx: &mut Context<'_>) -> Poll<()> {
        let waker = cx.waker().clone();
        let inner = self.inner;
        let mut tx = inner.tx();
        let Some(link) = self.link.and_then(|ix| tx.links.get_mut(ix)) else { return Poll::Ready(()) };
        if let Some(id) = self.registered {
            // Another task may poll the future by now.
            let (left, pending) = match link.wakers.replace(id, waker) {
                Ok(old) => (old, true),
                Err(unused) => (unused, false),
            };
            drop(tx);
            drop(left);
            if pending {
                return Poll::Pending;
            }
            self.registered = None;
            return Poll::Ready(());
        }
        if link.has_news(until) {
            return Poll::Ready(());
        }
        self.registered = Some(link.wakers.add(until, waker));
        drop(tx);
        if until == Until::Later {
            inner.process.command(Command::Awaited(inner.entry.serial));
        }
        Poll::Pending
    }

    fn take_waker(&mut self, tx: &mut Tx) -> Option<Waker> {
        let (id, ix) = (self.registered.take()?, self.link?);
        tx.links.get_mut(ix)?.wakers.remove(id)
    }
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        if self.registered.is_some() {
            let inner = self.inner;
            let waker = self.take_waker(&mut inner.tx());
            drop(waker);
        }
    }
}

#[cfg(test)]
mod tests;
