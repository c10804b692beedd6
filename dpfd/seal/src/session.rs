//! Sessions of two nodes: keys that both made together, for some minutes.
//!
//! ```text
//!    this side began, and is answered                      the other side began, and is answered
//!                 |                                                     |
//!                 |                                                     v
//!                 |                                                +--------+
//!                 |          +-------------------------------------|  next  |  nothing is sent by it yet
//!                 v          v   a packet comes: the other side    +--------+
//!              +---------+         has the keys, too
//!              | current |  what is sent
//!              +---------+
//!                   |  another one becomes current
//!                   v
//!              +---------+
//!              |   old   |  two of them; what is still on its way is opened
//!              +---------+
//!                   |  `end_after`, or two later ones
//!                   v
//!               forgotten
//! ```
//!
//! So whoever replays an INITIATION has this side make a `next` that nobody knows the keys of, and changes nothing of what
//! is sent and received.

use crate::cipher::Cipher;
use crate::config::Limits;
use crate::handshake::Keys;
use crate::replay::Replay;
use crate::Mode;

pub(crate) struct Session {
    pub id: u32,
    pub seal: Cipher,
    pub open: Cipher,
    /// The counter of the next packet.
    pub next: u64,
    pub replay: Replay,
    /// When it was made here.
    pub since: u64,
    /// This side began it.
    pub began: bool,
    /// A packet came by it: the other side sends by it, too.
    pub heard: bool,
}

impl Session {
    pub fn new(keys: &Keys, mode: Mode, began: bool, since: u64) -> Option<Session> {
        let (out, back) = if began { (&keys.forth, &keys.back) } else { (&keys.back, &keys.forth) };
        let (seal, open) = (Cipher::new(mode, out)?, Cipher::new(mode, back)?);
        Some(Session { id: keys.id, seal, open, next: 0, replay: Replay::new(), since, began, heard: false })
    }

    pub fn age(&self, now: u64) -> u64 {
        now.saturating_sub(self.since)
    }

    fn is_over(&self, limits: &Limits, now: u64) -> bool {
        self.age(now) >= limits.end_after
    }

    /// Whether a frame may be sealed with it.
    fn can_send(&self, limits: &Limits, now: u64) -> bool {
        !self.is_over(limits, now) && self.next < limits.end_frames
    }

    /// Whether it is time for its successor.
    pub fn is_worn(&self, limits: &Limits, now: u64) -> bool {
        // Else both sides would begin at once.
        let late = if self.began { 0 } else { limits.renew_after / 8 };
        self.age(now) >= limits.renew_after.saturating_add(late) || self.next >= limits.renew_frames
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.seal.clear();
        self.open.clear();
    }
}

/// Which of the sessions one is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Which {
    Current,
    Next,
    Old(usize),
}

/// Of one peer.
#[derive(Default)]
pub(crate) struct Sessions {
    current: Option<Session>,
    next: Option<Session>,
    old: [Option<Session>; 2],
}

impl Sessions {
    /// The one that is sent by, if there is any.
    pub fn sending(&mut self, limits: &Limits, now: u64) -> Option<&mut Session> {
        self.current.as_mut().filter(|session| session.can_send(limits, now))
    }

    /// The same, to look at.
    pub fn current(&self, limits: &Limits, now: u64) -> Option<&Session> {
        self.current.as_ref().filter(|session| session.can_send(limits, now))
    }

    /// The one that both sides call so, unless it is over.
    pub fn find(&mut self, id: u32, limits: &Limits, now: u64) -> Option<(Which, &mut Session)> {
        let [first, second] = &mut self.old;
        let all = [
            (Which::Current, &mut self.current),
            (Which::Next, &mut self.next),
            (Which::Old(0), first),
            (Which::Old(1), second),
        ];
        all.into_iter()
            .filter_map(|(which, session)| Some((which, session.as_mut()?)))
            .find(|(_, session)| session.id == id && !session.is_over(limits, now))
    }

    /// The other side answered: it has the keys.
    pub fn answered(&mut self, session: Session) {
        self.forget(session.id);
        self.succeed(session);
    }

    /// The other side was answered. Whether it has heard that is not known.
    pub fn offered(&mut self, session: Session) {
        self.forget(session.id);
        self.next = Some(session);
    }

    /// A packet of the next session came. If there is a later one already, that packet was long on its way, perhaps longer
    /// than its sender lived: then it is received by, and not sent.
    pub fn confirmed(&mut self) {
        let Some(session) = self.next.take() else { return };
        if self.current.as_ref().is_none_or(|current| current.since <= session.since) {
            self.succeed(session);
        } else {
            self.retire(Some(session));
        }
    }

    /// Forgets those that are over.
    pub fn expire(&mut self, limits: &Limits, now: u64) {
        let [first, second] = &mut self.old;
        for place in [&mut self.current, &mut self.next, first, second] {
            if place.as_ref().is_some_and(|session| session.is_over(limits, now)) {
                *place = None;
            }
        }
    }

    /// When the next one is over.
    pub fn next_end(&self, limits: &Limits) -> Option<u64> {
        let all = [&self.current, &self.next, &self.old[0], &self.old[1]];
        all.into_iter().flatten().map(|session| session.since.saturating_add(limits.end_after)).min()
    }

    fn succeed(&mut self, session: Session) {
        let before = self.current.replace(session);
        self.retire(before);
    }

    fn retire(&mut self, session: Option<Session>) {
        let [first, second] = &mut self.old;
        if session.is_some() {
            *second = std::mem::replace(first, session);
        }
    }

    /// One of 2^32 pairs of sessions has the same name; the earlier one is of no use then.
    fn forget(&mut self, id: u32) {
        let [first, second] = &mut self.old;
        for place in [&mut self.current, &mut self.next, first, second] {
            if place.as_ref().is_some_and(|session| session.id == id) {
                *place = None;
            }
        }
    }
}
