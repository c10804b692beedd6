//! When this side begins a handshake, and when again.

use crate::config::Limits;
use crate::handshake::Pending;

#[derive(Default)]
pub(crate) struct Calling {
    /// What waits for an answer, and the time that its INITIATION says.
    pending: Option<(u64, Pending)>,
    /// When the next INITIATION is due; nothing: none is wanted.
    at: Option<u64>,
    /// From when on nobody wants one any more.
    until: u64,
    /// Time between the last and the next. 0: there was no last one since a handshake came about.
    gap: u64,
    /// When the last one was sent.
    last: Option<u64>,
    /// The time that it said.
    time: u64,
}

impl Calling {
    /// A session is wanted. The first INITIATION is due at once, unless there was one just before.
    pub fn want(&mut self, limits: &Limits, now: u64) {
        self.until = now.saturating_add(limits.give_up_after);
        if self.at.is_some() {
            return;
        }
        let Some(last) = self.last else {
            self.at = Some(now);
            return;
        };
        if now.saturating_sub(last) > limits.retry_last {
            self.gap = 0;
        }
        self.at = Some(now.max(last.saturating_add(self.gap.max(limits.retry_first))));
    }

    /// Whether one is due. If so, it counts as sent.
    pub fn is_due(&mut self, limits: &Limits, now: u64) -> bool {
        if self.at.is_none_or(|at| at > now) {
            return false;
        }
        if now >= self.until {
            (self.at, self.pending) = (None, None);
            return false;
        }
        self.gap = self.gap.saturating_mul(2).clamp(limits.retry_first, limits.retry_last);
        self.at = Some(now.saturating_add(self.gap));
        self.last = Some(now);
        true
    }

    /// What an INITIATION says of its time: what a wall clock would show, but later than all before.
    pub fn stamp(&mut self, epoch: u64, now: u64) -> u64 {
        self.time = epoch.saturating_add(now).max(self.time.saturating_add(1));
        self.time
    }

    pub fn sent(&mut self, time: u64, pending: Pending) {
        self.pending = Some((time, pending));
    }

    /// Whether an INITIATION of this time waits for its answer.
    pub fn waits_for(&self, time: u64) -> bool {
        self.pending.as_ref().is_some_and(|(sent, _)| *sent == time)
    }

    /// The other side knows a later time than was said: the next INITIATION says a later one, and is due at once.
    pub fn later(&mut self, now: u64, least: u64) {
        self.time = self.time.max(least);
        (self.pending, self.at) = (None, Some(now));
    }

    /// What waits. An answer that contradicts it ends it; the next INITIATION is due anyway.
    pub fn take(&mut self) -> Option<Pending> {
        self.pending.take().map(|(_, pending)| pending)
    }

    /// There is a session.
    pub fn done(&mut self) {
        (self.at, self.pending, self.gap) = (None, None, 0);
    }

    /// When the next one is due.
    pub fn due(&self) -> Option<u64> {
        self.at
    }

    pub fn is_idle(&self) -> bool {
        self.at.is_none()
    }
}
