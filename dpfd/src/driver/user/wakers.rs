//! Futures that wait to send on a link: what for, and whom to wake.
//!
//! A future cannot sleep until something changes that the descriptor does not tell. It leaves a *waker* with its link
//! instead. Wakers are left and ended under the lock of the sender's side, under which links change, so none is left too
//! late. They are other people's code: they are called, and dropped, outside of the lock.

use std::collections::HashMap;
use std::task::Waker;

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
}

/// The wakers of one link.
#[derive(Debug, Default)]
pub struct Wakers {
    last: u64,
    all: HashMap<u64, (Until, Waker)>,
}

impl Wakers {
    /// One more; its number.
    pub fn add(&mut self, until: Until, waker: Waker) -> u64 {
        self.last += 1;
        self.all.insert(self.last, (until, waker));
        self.last
    }

    /// Another task has this one by now: the waker of the former. None: it was ended.
    pub fn replace(&mut self, id: u64, waker: Waker) -> Result<Waker, Waker> {
        match self.all.get_mut(&id) {
            Some((_, old)) => Ok(core::mem::replace(old, waker)),
            None => Err(waker),
        }
    }

    /// Takes one back.
    pub fn remove(&mut self, id: u64) -> Option<Waker> {
        self.all.remove(&id).map(|(_, waker)| waker)
    }

    /// Ends those whose time has come, for who looks after what nobody tells, and those with news.
    pub fn end(&mut self, has_news: impl Fn(Until) -> bool) -> Vec<Waker> {
        let ended = |until: Until| until == Until::Later || has_news(until);
        let ids: Vec<u64> = self.all.iter().filter(|(_, n)| ended(n.0)).map(|(id, _)| *id).collect();
        ids.into_iter().filter_map(|id| self.remove(id)).collect()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// How many there are.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// The link is over.
    pub fn wake_all(self) {
        self.all.into_values().for_each(|(_, waker)| waker.wake());
    }
}
