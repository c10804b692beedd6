//! What comes from the other side: frames, which the flow takes, and messages, which are offered to their receiver until it takes
//! them.

use dp_flow::{Place, Refused};
use dp_graph::trust::{Users, NOBODY};
use dpfd::driver::user::deposit::Deposit;
use dpfd::{Addr, Dpid};

use super::{Shared, Traffic, ACTIVE, AGAIN};
use crate::incoming::{Budget, Receiver};
use crate::local::{Local, Message};
use crate::places::{Places, Slot};

/// What the sink refused is offered again after this time, nanoseconds, at most: where the receiver has no room, and where it is
/// not open.
const AGAIN_MOST: [u64; 2] = [4_000_000, 250_000_000];
/// A message that is not whole, or that nobody takes, is given up after this time, nanoseconds, where others need its room: longer than
/// time-outs of a network that loses much are in a row.
const STALLED: u64 = 500_000_000;

struct To<'a, L> {
    local: &'a mut L,
    from: Addr,
    to: Dpid,
    places: &'a mut Places,
    slot: &'a mut Slot,
    /// The sending user may send to this node.
    admitted: bool,
    /// It said no; for it is not open.
    refused: bool,
    absent: bool,
}

impl<L: Local> Receiver for To<'_, L> {
    fn is_there(&mut self) -> bool {
        let there = self.admitted && self.local.reaches(self.from, self.to);
        (self.refused, self.absent) = (self.refused || !there, !there);
        there
    }

    fn has_room(&mut self, bytes: usize) -> bool {
        self.local.has_room(self.from, self.to, bytes)
    }

    fn take(&mut self, message: &[u8], immediate: Option<u64>, place: Place) -> bool {
        if !self.admitted {
            (self.refused, self.absent) = (true, true);
            return false;
        }
        // One that nobody here receives from needs no place: strangers cannot use them up.
        if self.slot.is_none() {
            if !self.is_there() {
                return false;
            }
            self.places.claim(self.slot);
        }
        let (places, slot) = (&*self.places, *self.slot);
        let mut published = || places.set(slot, place);
        let deposit = self.local.deposit(self.from, self.to, message, immediate, &mut published);
        let taken = deposit == Deposit::Done;
        if taken && self.slot.is_none() {
            self.places.took_unkept();
        }
        (self.refused, self.absent) = (self.refused || !taken, deposit == Deposit::Absent);
        taken
    }
}

impl<M: Message> Traffic<M> {
    /// A frame came.
    ///
    /// # Errors
    ///
    /// It was dropped, and counted by the flow.
    pub fn on_frame<L: Local>(
        &mut self,
        now: u64,
        by: usize,
        frame: &[u8],
        shared: &mut Shared<'_, L>,
    ) -> Result<(), Refused> {
        let admitted = self.admits(shared);
        // The frame may end this incarnation and begin another's, whose user may be another one: what comes with it is offered
        // again once it is known who that is.
        let (tag, asked) = (self.flow.state().tag, *shared.users != Users::Squash);
        let before = (self.flow.place(), self.flow.counts().messages_out);
        let full_before = self.flow.counts().full_parts;
        let Traffic { flow, incoming, ends, remote, slot, .. } = self;
        let (local, places) = (&mut *shared.local, &mut *shared.places);
        let mut to =
            To { local, from: *remote, to: ends.here, places, slot, admitted, refused: false, absent: false };
        let taken = flow.on_frame(now, frame, &mut |part: dp_flow::Part<'_>| {
            to.admitted = admitted && (!asked || part.place.tag == tag);
            let taken = incoming.put(part, shared.budget, shared.most, &mut to);
            // Also where it is the budget that has no room.
            to.refused |= !taken;
            taken
        });
        let (refused, absent) = (to.refused, to.absent);
        if taken.is_ok() {
            self.by = by;
        }
        self.see_incoming(now, before.0, shared);
        self.full_arrived = self.flow.counts().full_parts != full_before;
        self.listen(now);
        if self.used == 0 || before != (self.flow.place(), self.flow.counts().messages_out) {
            self.used = now;
        }
        self.active += u32::from(self.active < ACTIVE && before.0 != self.flow.place());
        if refused {
            self.absent = absent;
            if self.again.is_none() {
                self.pause = AGAIN;
                self.again = Some(now + self.pause);
            }
        }
        taken
    }

    /// Whether who sends may send here: where users are mapped, that is who is mapped to the user whose endpoints these are, or
    /// to root. Where they are squashed nobody asks: whoever has the graph's key may.
    fn admits<L>(&mut self, shared: &Shared<'_, L>) -> bool {
        if *shared.users == Users::Squash {
            self.user = None;
            return true;
        }
        let state = self.flow.state();
        let mapped = shared.users.mapped(state.peer_user);
        self.user = state.open.then_some(mapped.unwrap_or(NOBODY));
        state.open && mapped.is_some_and(|user| user == 0 || user == shared.owner)
    }

    /// The way by which its frames come.
    pub fn by(&self) -> usize {
        self.by
    }

    /// The user of this node that the sender counts as. `None` before the first message, and where the graph maps no users.
    pub fn user(&self) -> Option<u32> {
        self.user
    }

    /// Offers again what the sink had refused, if it is time, and gives up of what goes raw what is not waited for any longer.
    pub fn deliver<L: Local>(&mut self, now: u64, shared: &mut Shared<'_, L>) {
        self.expire_datagrams(now, shared);
        if self.again.is_none_or(|at| at > now) {
            return;
        }
        let admitted = self.admits(shared);
        let before = self.flow.place();
        let Traffic { flow, incoming, ends, remote, slot, .. } = self;
        let (local, places) = (&mut *shared.local, &mut *shared.places);
        let mut to =
            To { local, from: *remote, to: ends.here, places, slot, admitted, refused: false, absent: false };
        flow.deliver(now, &mut |part: dp_flow::Part<'_>| {
            let taken = incoming.put(part, shared.budget, shared.most, &mut to);
            to.refused |= !taken;
            taken
        });
        let (refused, absent) = (to.refused, to.absent);
        self.see_incoming(now, before, shared);
        if self.flow.place() != before {
            (self.used, self.pause) = (now, AGAIN);
        } else {
            self.pause = (2 * self.pause).min(AGAIN_MOST[usize::from(absent)]);
        }
        self.absent = absent;
        self.again = refused.then(|| now + self.pause);
        self.listen(now);
    }

    /// Parts may have been taken since the flow was at `before`, or the incarnation of those that were be over.
    fn see_incoming<L>(&mut self, now: u64, before: Option<Place>, shared: &mut Shared<'_, L>) {
        if self.flow.place() != before {
            self.taken = now;
        }
        self.incoming.clear_former(self.flow.state().tag, shared.budget, shared.most);
    }

    /// Others need the room of a message that is not whole, or that nobody takes. One on which nothing happened for long is given up,
    /// and sent again from its first part on, once its sender is back or its receiver has room. Whether it was.
    pub fn give_up_stalled(&mut self, now: u64, budget: &mut Budget, most: usize) -> bool {
        let stalled = self.incoming.holds() && now >= self.taken + STALLED;
        if stalled {
            self.incoming.clear(budget, most);
            self.flow.renew(now);
        }
        stalled
    }
}

#[cfg(test)]
mod tests;
