//! What somebody hears who watches the set itself: in another set, by poll, in the kernel (io_uring), or in another process.
//!
//! He asks the kernel, which knows of bells alone. While there is something in the set that no bell announced, the event by
//! which sleepers are woken makes it readable.

use super::{Set, World};

impl Set {
    /// Makes the kernel's set readable while somebody watches from outside and something is to be reported that no bell
    /// announced, and takes that back otherwise.
    pub(super) fn tell_outside(&mut self, w: &mut impl World) {
        let watched = self.exposed > 0 && self.peeks > 0;
        if !watched && self.kicked.is_none() {
            return;
        }
        let mut rows = if watched { 0..self.rows.high() } else { 0..0 };
        let is_silent = |&r: &u32| self.rows.is_used(r) && self.rows.get(r).silent && self.has_unheard(r, w);
        match rows.find(is_silent) {
            Some(r) if self.kicked.is_none() || self.kick_is_spent => {
                self.put_kick(r, w);
            }
            // Else it is for somebody who sleeps.
            None if !self.waiters.anyone_asleep() => self.take_kick(w),
            _ => {}
        }
    }

    /// A connection's row that had this value has it no more: an event of ours with it could pass for one of another row's. Whoever sleeps
    /// looks at everything, whichever value woke him.
    pub(super) fn loses_value(&mut self, data: u64, w: &mut impl World) {
        if self.kicked != Some(data) {
            return;
        }
        match self.to_kick() {
            Some(r) if self.waiters.anyone_asleep() => self.unheard &= self.put_kick(r, w),
            Some(_) => {
                self.kick_is_spent = true;
                self.tell_outside(w);
            }
            None => {
                self.take_kick(w);
                self.unheard = false;
            }
        }
    }

    /// Whether there is something for the program in a set that the kernel says is readable: what the last event of ours was
    /// for may have been taken since.
    pub fn is_ready(&mut self, w: &mut impl World) -> bool {
        if self.kicked.is_none() {
            return true;
        }
        self.tell_outside(w);
        self.kicked.is_some() || w.is_readable()
    }

    /// The kernel has an event, of row `r`, until somebody was told of it. False: there can be none now, and the next one is to try
    /// again.
    pub(super) fn put_kick(&mut self, r: u32, w: &mut impl World) -> bool {
        let data = self.rows.get(r).kernel_data;
        self.take_kick(w);
        // Before the call: who leaves this in the middle has it taken back.
        self.kicked = Some(data);
        let is_there = w.kick(data);
        if !is_there {
            self.kicked = None;
        }
        is_there
    }

    /// It has none any more.
    pub(super) fn take_kick(&mut self, w: &mut impl World) {
        self.kick_is_spent = false;
        if let Some(data) = self.kicked.take() {
            w.unkick();
            if self.waiters.anyone_asleep() {
                self.kicks.note(data, self.moment);
                self.moment = self.moment.wrapping_add(1);
            }
        }
    }
}
