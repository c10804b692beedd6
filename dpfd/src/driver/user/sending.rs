//! Sending without a thread that waits: for futures.
//!
//! A blocking sender sleeps in poll(2) until its pair has room, and wakes every few milliseconds to see whether
//! something changed that the descriptor does not tell. A future cannot do that. It leaves a *waker* with its link
//! instead: what it waits for, and whom to wake. Wakers are left and ended under the lock of the sender's side,
//! under which links change, so none is left too late. A future that is dropped takes its waker along.
//!
//! Wakers are other people's code: they are called, and dropped, outside of the lock.

use std::collections::HashMap;
use std::task::{Context, Poll, Waker};

use super::endpoint::UserEndpoint;
use super::link::{Link, Path};
use super::load::Load;
use super::service::Command;
use super::tx::Tx;
use crate::addr::Addr;
use crate::edge::parts::Parts;
use crate::error::Result;

/// What a message that could not go waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// Room in the endpoint's own pair: its descriptor polls writable.
    Drained,
    /// The same, or that its link is direct: a pair full of messages for others is not in its way then.
    Room,
    /// That its link is direct, or ends: a long message waits for its turn there, and the pair has nothing to do with it.
    Direct,
    /// What nobody tells: that the destination gets a pool, or the kernel memory or descriptors.
    Later,
}

impl Until {
    /// Whether the descriptor polls writable for it.
    pub fn is_polled(self) -> bool {
        matches!(self, Until::Drained | Until::Room)
    }

    fn is_over(self, link: &Link) -> bool {
        let direct = link.path == Path::Direct;
        link.refused.is_some()
            || match self {
                Until::Room => direct,
                Until::Direct => direct || !link.has_edge(),
                Until::Drained | Until::Later => false,
            }
    }
}

/// The wakers of one link.
#[derive(Debug, Default)]
pub struct Wakers {
    last: u64,
    all: HashMap<u64, (Until, Waker)>,
}

impl Wakers {
    fn add(&mut self, until: Until, waker: Waker) -> u64 {
        self.last += 1;
        self.all.insert(self.last, (until, waker));
        self.last
    }

    /// The link is over.
    pub fn wake_all(self) {
        self.all.into_values().for_each(|(_, waker)| waker.wake());
    }
}

impl Link {
    /// Ends the wakers for which there is news, after the service did something for the link.
    pub fn woken(&mut self) -> Vec<Waker> {
        let ended = |until: Until| until == Until::Later || until.is_over(self);
        let ids: Vec<u64> = self.wakers.all.iter().filter(|(_, n)| ended(n.0)).map(|(id, _)| *id).collect();
        ids.iter().filter_map(|id| self.wakers.all.remove(id)).map(|(_, waker)| waker).collect()
    }
}

/// One message that a future sends.
#[derive(Debug)]
pub struct Sending<'a> {
    inner: &'a UserEndpoint,
    to: Option<Addr>,
    load: Load<'a>,
    link: Option<usize>,
    registered: Option<u64>,
}

impl<'a> Sending<'a> {
    /// A message to `to`, or to the target of the moment in which it is first tried.
    pub fn new(inner: &'a UserEndpoint, to: Option<Addr>, msg: Parts<'a>) -> Sending<'a> {
        Sending { inner, to, load: Load::of_a_future(msg), link: None, registered: None }
    }

    /// Tries, and waits for nothing. None: it is sent, and this must not be called again.
    ///
    /// # Errors
    ///
    /// As [`UserEndpoint::send`], without [`crate::Error::WouldBlock`].
    pub fn attempt(&mut self, fd: i32) -> Result<Option<Until>> {
        let inner = self.inner;
        let mut tx = inner.tx();
        let waker = self.take_waker(&mut tx);
        let tried = self.attempt_under(&mut tx, fd);
        drop(tx);
        drop(waker);
        tried
    }

    fn attempt_under(&mut self, tx: &mut Tx, fd: i32) -> Result<Option<Until>> {
        let ix = match self.link {
            Some(ix) => ix,
            None => self.inner.link_to(tx, self.to)?,
        };
        self.link = Some(ix);
        if self.load.near().is_some_and(|msg| tx.deliver_edge(ix, &msg)) {
            return Ok(None);
        }
        self.inner.attempt(tx, ix, fd, &mut self.load, || false)
    }

    /// Ready when the service has news that make another attempt worth it. Where [`Until::is_polled`], the caller
    /// waits for the descriptor, too.
    pub fn poll_news(&mut self, until: Until, cx: &mut Context<'_>) -> Poll<()> {
        let waker = cx.waker().clone();
        let inner = self.inner;
        let mut tx = inner.tx();
        let Some(link) = self.link.and_then(|ix| tx.links.get_mut(ix)) else { return Poll::Ready(()) };
        if let Some(id) = self.registered {
            let Some((_, old)) = link.wakers.all.get_mut(&id) else {
                self.registered = None;
                return Poll::Ready(());
            };
            // Another task may poll the future by now.
            let old = core::mem::replace(old, waker);
            drop(tx);
            drop(old);
            return Poll::Pending;
        }
        if until.is_over(link) {
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
        tx.links.get_mut(ix)?.wakers.all.remove(&id).map(|(_, waker)| waker)
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
