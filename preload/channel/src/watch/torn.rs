//! A set whose change somebody has left in the middle: a thread that was ended there, or a longjmp.
//!
//! The rows are what counts; all else is made anew from them.

use super::{Look, Set, Target, World};

impl Set {
    /// Makes the set whole. What the kernel has of a change, and what a sender was told, is not known, so everything is told
    /// anew, and nothing is hot.
    pub fn mend(&mut self, w: &mut impl World) {
        self.rebuild(w);
        // Whoever left it may have been about to wake those who sleep.
        (self.unheard, self.kick_is_spent) = (false, true);
        self.cool_all(w);
        for r in 0..self.rows.high() {
            if let Some(conn) = self.conn_of(r) {
                w.make_cold(conn);
                self.hear(r, w);
            }
        }
    }

    /// Counts and lists what the rows say, and tells nobody.
    pub fn rebuild(&mut self, w: &mut impl World) {
        self.rows.rebuild();
        self.hot.resize(0, 0);
        (self.special, self.detached, self.dirty, self.peeks) = (0, 0, 0, 0);
        for r in 0..self.rows.high() {
            if !self.rows.is_used(r) {
                continue;
            }
            if self.rows.get(r).is_hot() {
                let at = self.hot.len() as u32;
                let look = if self.hot.push(r) { Look::Hot(at) } else { Look::Cold };
                self.rows.get_mut(r).look = look;
                self.show(r, w);
            }
            let row = self.rows.get(r);
            self.special += usize::from(row.target != Target::Other);
            self.detached += usize::from(row.detached);
            self.dirty += u32::from(row.dirty);
            self.peeks += u32::from(row.peek);
        }
        w.listed(self.hot.len());
    }
}
