//! A set that a fork has left with two processes, or that a stranger was given: what the kernel has of it, others change.

use super::{Set, World, ANYTHING, ONESHOT};

impl Set {
    /// In a forked child: the kernel's set is the parent's, too, and so are its connections' words. What the kernel was not
    /// told yet, the parent tells it.
    pub fn inherit(&mut self, w: &mut impl World) {
        self.inherited = true;
        self.used_by_both = false;
        self.forks = self.forks.wrapping_add(1);
        self.waiters.clear();
        // A kick that is under way is for the parent's threads.
        (self.unheard, self.kicked, self.kick_is_spent) = (false, None, false);
        for r in 0..self.rows.high() {
            if self.dirty == 0 {
                break;
            }
            if self.rows.is_used(r) && core::mem::take(&mut self.rows.get_mut(r).dirty) {
                self.dirty -= 1;
                if self.rows.get(r).want == 0 {
                    self.remove(r, w);
                }
            }
        }
    }

    /// Strangers have the kernel's set as well, which so has, or will have, what nobody noted: with any value.
    pub fn is_strangers_too(&mut self) {
        (self.forgotten, self.strangers) = (ANYTHING, true);
    }

    /// Whether it was inherited by a fork.
    pub fn is_inherited(&self) -> bool {
        self.inherited
    }

    /// Whether registration `r` of a connection is the parent's.
    pub(super) fn is_parents(&self, r: u32) -> bool {
        self.rows.get(r).forks != self.forks
    }

    /// A relative that has inherited the set has begun to use it.
    pub fn is_used_by_relatives(&mut self, w: &mut impl World) {
        if !core::mem::replace(&mut self.used_by_both, true) {
            self.expose(true, w);
        }
    }

    /// Whether others change what the kernel has of this set, of which nobody hears here: relatives, or strangers.
    pub(super) fn is_shared(&self, w: &impl World) -> bool {
        self.used_by_both || self.strangers || w.relatives_began()
    }

    /// An inherited set is used here, too: whoever else waits must hear of everything from the kernel. What it has of
    /// them is the parent's, and so is the group that a bell may tell: it stays known.
    pub(super) fn use_both(&mut self, w: &mut impl World) {
        if core::mem::replace(&mut self.used_by_both, true) {
            return;
        }
        while let Some(&r) = self.hot.all().last() {
            self.off_the_list(r, w);
        }
        for r in 0..self.rows.high() {
            if let Some(conn) = self.conn_of(r) {
                w.uncounted(conn);
                self.settle_row(r, w);
            }
        }
        w.used_by_both(self.exposed == 0);
        // Behind that: what the parent says to rest from now on, it takes back itself. One too many rests no more, which does no harm.
        for r in 0..self.rows.high() {
            if let Some(conn) = self.conn_of(r).filter(|_| self.rows.get(r).want & ONESHOT != 0) {
                w.rests(conn, false);
            }
        }
    }
}
