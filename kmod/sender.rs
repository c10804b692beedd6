// SPDX-License-Identifier: GPL-2.0

//! What an endpoint knows as a sender: where to, what was refused, what it left for numbers that nobody has opened.

use kernel::{prelude::*, sync::Arc};

use crate::{
    abi,
    across::Away,
    pool::Pool,
    trace,
    wait::{Relay, WaitQueue},
};

/// Unopened numbers that one endpoint leaves messages for, at most.
const BACKLOG_MAX: usize = 16;
/// Destinations with a refused message whose room is told, beside the last, at most.
const EARLIER_MAX: usize = 64;

/// The sending side.
pub(crate) struct Tx {
    /// The default destination; node 0 is this one.
    pub(crate) target: Option<abi::Addr>,
    /// The pool that was sent to last, so that most messages find theirs without a search.
    pub(crate) route: Option<Arc<Pool>>,
    /// The same on another node of this kernel.
    pub(crate) away: Option<Away>,
    /// What was refused last: poll(2) is about that.
    pub(crate) refused: Option<Refusal>,
    pub(crate) waits_at: Option<Arc<WaitQueue>>,
    /// What was refused before that for other destinations: several may send on one endpoint.
    pub(crate) earlier: KVec<Earlier>,
    /// Unopened numbers that were sent to.
    pub(crate) backlog: KVec<Backlog>,
    /// Messages left for numbers that another user opened then.
    pub(crate) lost: u64,
    pub(crate) sent: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) full: u64,
}

/// A message that was not sent for want of room.
#[derive(Clone, Copy)]
pub(crate) struct Refusal {
    pub(crate) dpid: u32,
    pub(crate) len: u64,
    /// Not even a pool could be had, when so many numbers had been opened.
    pub(crate) homeless: Option<u64>,
}

/// A message that was refused before another one was; whoever sent it waits for poll(2) to tell, too.
pub(crate) struct Earlier {
    pub(crate) refusal: Refusal,
    /// poll(2) has told that there is room: over with the next refusal.
    pub(crate) told: bool,
    pub(crate) waits_at: Arc<WaitQueue>,
    pub(crate) relay: Pin<KBox<Relay>>,
}

/// An unopened number, and how many messages were left for it.
pub(crate) struct Backlog {
    pub(crate) pool: Arc<Pool>,
    pub(crate) messages: u64,
}

impl Tx {
    pub(crate) fn new() -> Self {
        Self {
            target: None,
            route: None,
            away: None,
            refused: None,
            waits_at: None,
            earlier: KVec::new(),
            backlog: KVec::new(),
            lost: 0,
            sent: 0,
            sent_bytes: 0,
            full: 0,
        }
    }

    /// Whether messages may be left at one more unopened number. If so, there is memory to remember it.
    pub(crate) fn may_park(&mut self) -> Result<bool> {
        if self.backlog.len() >= BACKLOG_MAX {
            (_, self.lost) = self.undelivered();
            self.backlog.retain(|p| !p.pool.is_opened() && !p.pool.is_closed());
        }
        let may = self.backlog.len() < BACKLOG_MAX;
        if may {
            self.backlog.reserve(1, GFP_KERNEL)?;
        }
        Ok(may)
    }

    /// Whether messages were left there. The table counts those who did.
    pub(crate) fn keeps(&self, pool: &Arc<Pool>) -> bool {
        self.backlog.iter().any(|p| Arc::ptr_eq(&p.pool, pool))
    }

    /// Remembers an unopened number.
    pub(crate) fn keep(&mut self, pool: &Arc<Pool>) -> Result {
        Ok(self.backlog.push(Backlog { pool: pool.clone(), messages: 0 }, GFP_KERNEL)?)
    }

    /// One more message was accepted.
    #[inline(always)]
    pub(crate) fn count_sent(&mut self, from: u32, to: abi::Addr, len: u64) {
        self.sent += 1;
        self.sent_bytes += len;
        trace::sent(from, to, len);
    }

    /// One more message for a number that nobody has opened.
    pub(crate) fn count_backlog(&mut self, dpid: u32) {
        // The last of them: one before it was opened by now, or is closed.
        if let Some(backlog) = self.backlog.iter_mut().rev().find(|p| p.pool.dpid == dpid) {
            backlog.messages += 1;
        }
    }

    /// Messages for numbers that nobody has opened, and for those that another user opened.
    pub(crate) fn undelivered(&self) -> (u64, u64) {
        let mut sum = (0, self.lost);
        for p in self.backlog.iter().filter(|p| !p.pool.is_opened()) {
            let which = if p.pool.is_closed() { &mut sum.1 } else { &mut sum.0 };
            *which += p.messages;
        }
        sum
    }

    /// The sender of what was refused last is told of room with the others. Without memory for that, it stays the last.
    /// `readers`: the queue that the endpoint is polled through.
    #[cold]
    pub(crate) fn set_last_aside(&mut self, readers: &WaitQueue) {
        let (Some(refusal), Some(waits_at)) = (self.refused, self.waits_at.clone()) else { return };
        if self.earlier.len() >= EARLIER_MAX {
            let _oldest = self.earlier.remove(0);
        }
        let Ok(relay) = KBox::pin_init(Relay::new(), GFP_KERNEL) else { return };
        if self.earlier.reserve(1, GFP_KERNEL).is_err() {
            return;
        }
        // SAFETY: on no queue yet; dropped before the endpoint goes, which holds `readers` as long. The queue is held
        // beside it.
        unsafe {
            relay.aim(readers);
            relay.attach(&waits_at);
        }
        // There is room for it.
        if self.earlier.push(Earlier { refusal, told: false, waits_at, relay }, GFP_KERNEL).is_ok() {
            self.refused = None;
        }
    }
}

impl Drop for Earlier {
    fn drop(&mut self) {
        // SAFETY: it is on this queue or on none.
        unsafe { self.relay.detach(&self.waits_at) };
    }
}
