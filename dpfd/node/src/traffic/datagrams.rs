//! What goes between the two endpoints without a flow.

use std::cell::Cell;

use dp_flow::{Invalid, Place, Refused};
use dp_graph::trust::Users;
use dpfd::driver::user::deposit::Deposit;
use dpfd::{Addr, Dpid};

use super::{Shared, Traffic};
use crate::incoming::Receiver;
use crate::local::{Local, Message};
use crate::raw::Datagrams;

/// Where they go: into the receiver's pool, or nowhere.
struct To<'a, L> {
    local: &'a mut L,
    from: Addr,
    to: Dpid,
    /// The sending user may send to this node.
    admitted: &'a Cell<bool>,
}

impl<L: Local> Receiver for To<'_, L> {
    fn is_there(&mut self) -> bool {
        self.admitted.get() && self.local.reaches(self.from, self.to)
    }

    fn has_room(&mut self, bytes: usize) -> bool {
        self.local.has_room(self.from, self.to, bytes)
    }

    fn take(&mut self, message: &[u8], immediate: Option<u64>, _: Place) -> bool {
        self.admitted.get()
            && self.local.deposit(self.from, self.to, message, immediate, &mut || ()) == Deposit::Done
    }
}

impl<M: Message> Traffic<M> {
    /// Whether what the program here sends from now on goes raw.
    pub fn set_raw(&mut self, raw: bool) {
        self.sends_raw = raw;
    }

    fn datagrams(&mut self) -> Result<&mut Datagrams<M>, Invalid> {
        if self.datagrams.is_none() {
            // What it is told is what the flow was.
            let mut made = Box::new(Datagrams::new(self.config)?);
            made.set_part_max(self.part_max);
            self.datagrams = Some(made);
        }
        self.datagrams.as_deref_mut().ok_or(Invalid::Memory)
    }

    pub(super) fn send_raw(&mut self, now: u64, message: M) {
        self.flow.meet(now);
        let greeted = self.flow.tag().is_some();
        if let Ok(datagrams) = self.datagrams() {
            datagrams.push(now, message, greeted);
        }
    }

    pub(super) fn poll_datagrams(&mut self, out: &mut [u8]) -> Option<usize> {
        self.datagrams.as_mut()?.poll_transmit(self.flow.tag(), out)
    }

    /// The ends do not know each other any more, and something waits for that.
    pub(super) fn greet_for_datagrams(&mut self, now: u64) {
        if self.datagrams.as_ref().is_some_and(|datagrams| datagrams.waiting() > 0) {
            self.flow.meet(now);
        }
    }

    /// Gives up what would be waited for without end.
    pub(super) fn expire_datagrams<L>(&mut self, now: u64, shared: &mut Shared<'_, L>) {
        let greeted = self.flow.tag().is_some();
        if let Some(datagrams) = &mut self.datagrams {
            datagrams.expire(now, greeted, shared.budget, shared.most);
        }
    }

    /// When to do that, at the latest.
    pub(super) fn datagrams_timeout(&self) -> Option<u64> {
        self.datagrams.as_ref()?.next_timeout(self.flow.tag().is_some())
    }

    /// A frame without a flow came.
    ///
    /// # Errors
    ///
    /// It was dropped, and counted.
    pub fn on_datagram<L: Local>(
        &mut self,
        now: u64,
        frame: &[u8],
        shared: &mut Shared<'_, L>,
    ) -> Result<(), Refused> {
        self.datagrams().map_err(|_| Refused::Kind)?;
        let (users, owner, admitted) = (shared.users, shared.owner, Cell::new(false));
        let Traffic { flow, datagrams, remote, ends, .. } = self;
        let mut to = To { local: &mut *shared.local, from: *remote, to: ends.here, admitted: &admitted };
        let admit = |tag| {
            flow.admit(now, tag)?;
            // Whose it is, the greeting said; see `Traffic::admits`.
            let user = users.mapped(flow.state().peer_user);
            admitted.set(*users == Users::Squash || user.is_some_and(|user| user == 0 || user == owner));
            Ok(())
        };
        let datagrams = datagrams.as_mut().ok_or(Refused::Kind)?;
        let taken = datagrams.on_frame(now, frame, admit, shared.budget, shared.most, &mut to);
        if taken.is_ok() {
            self.used = now;
        }
        self.listen(now);
        taken
    }

    /// No route to the node works: what would go raw is lost.
    pub fn drop_datagrams(&mut self) {
        if let Some(datagrams) = &mut self.datagrams {
            datagrams.drop_waiting();
        }
    }

    /// What was counted of that, if there was any.
    pub fn raw_counts(&self) -> Option<(dp_flow::RawCounts, crate::raw::Sent)> {
        self.datagrams.as_ref().filter(|datagrams| datagrams.is_used()).map(|datagrams| datagrams.counts())
    }
}
