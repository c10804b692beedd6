//! The end of a set, and an empty one in its place.

use super::{Set, Target, World, ET, IN};

impl Set {
    /// An empty set again. With `keep` it has its first pages already, for programs that make a set for each wait.
    ///
    /// One field after the other: a thread that is ended in the middle leaves each as it was or as it is to be, and whoever mends the
    /// set reads them ([`Set::mend`]).
    pub fn renew(&mut self, keep: bool) {
        // All of them by name, so that none is forgotten.
        let Set {
            rows,
            plain,
            special,
            detached,
            hot,
            waiters,
            exposed,
            inherited,
            forks,
            used_by_both,
            wait: _,
            dirty,
            peeks,
            turn,
            kicked,
            kick_is_spent,
            unheard,
            kicks,
            moment,
            gone,
            slept_from,
            forgotten,
            strangers,
            hot_first,
            ask_again,
            asked,
        } = self;
        waiters.clear();
        match keep {
            true => {
                hot.empty();
                rows.empty();
                plain.empty();
            }
            false => {
                hot.clear();
                rows.clear();
                plain.clear();
            }
        }
        (*special, *detached) = (0, 0);
        (*exposed, *inherited, *forks, *used_by_both) = (0, false, 0, false);
        (*dirty, *peeks, *turn) = (0, 0, 0);
        (*kicked, *kick_is_spent, *unheard) = (None, false, false);
        gone.clear();
        kicks.clear();
        (*moment, *slept_from, *forgotten, *strangers) = (0, None, 0, false);
        (*hot_first, *ask_again, *asked) = (false, false, None);
    }

    /// It is about to be closed here, and somebody else has the kernel's, too: nobody counts any more what is waited for there.
    pub fn is_left_to_others(&mut self, w: &mut impl World) {
        (0..self.rows.high()).filter_map(|r| self.conn_of(r)).for_each(|conn| w.uncounted(conn));
    }

    /// Its last descriptor is closed: everything it said of connections and of other sets is taken back.
    pub fn close(&mut self, keep: bool, w: &mut impl World) {
        // A thread that sleeps goes on in the kernel's set, and the event that has woken it may go now.
        let mut sleeps = self.waiters.anyone_asleep();
        for r in 0..self.rows.high() {
            if !self.rows.is_used(r) {
                continue;
            }
            let row = *self.rows.get(r);
            match row.target {
                // What the parent said stays said.
                Target::Conn(_) if self.is_parents(r) => self.off_the_list(r, w),
                Target::Conn(conn) => {
                    if row.is_hot() {
                        w.make_cold(conn);
                        let told = row.want & ET != 0 && row.seen == Some(w.frontier(conn, row.seen));
                        if sleeps && row.want & IN != 0 && !told && w.waiting(conn, row.io) {
                            self.take_kick(w);
                            w.kick(row.kernel_data);
                            sleeps = false;
                        }
                    }
                    self.stir(r, w);
                    w.watch(conn, false);
                }
                Target::Set(inner) => w.expose(inner, false),
                Target::Other => {}
            }
        }
        w.listed(0);
        self.renew(keep);
    }
}
