//! Hot and cold, and what the kernel is not told at once.

use super::{Look, Row, Set, Target, World, ET, IN, MAX_HOT, ONESHOT, OUT, SPECIAL};

/// Sleeps without anything after which a hot connection cools.
const STALE: u8 = 32;

impl Set {
    /// Whether a row may be looked at by the set itself: each reason against it, and no memory of any.
    fn may_be_hot(&mut self, r: u32, w: &mut impl World) -> bool {
        let row = self.rows.get(r);
        let quiet = self.exposed == 0 && !self.inherited && self.waiters.count() <= 1;
        quiet
            // It hears of what this process registers by the kernel alone, as soon as it waits for the first time.
            && !w.relatives_began()
            && !row.detached
            && row.want & SPECIAL == 0
            && row.kernel & SPECIAL == 0
            && self.hot.len() < MAX_HOT
            && self.is_only_one(r, w)
    }

    /// Whether the kernel's value tells this row from all others. Closed descriptors leave rows behind that the kernel
    /// has forgotten: it is asked.
    pub(super) fn is_only_one(&mut self, r: u32, w: &mut impl World) -> bool {
        let data = self.rows.get(r).kernel_data;
        loop {
            let other = self.rows.with_data(data).find(|&o| o != r);
            match other {
                None => return true,
                Some(other) if self.forget_if_gone(other, w) => {}
                Some(_) => return false,
            }
        }
    }

    /// Removes the row of a descriptor that is no connection and was closed, which nobody told us: of a stranger the kernel
    /// is asked, by adding it once more, which it refuses for one that it has, and changes nothing.
    pub(super) fn forget_if_gone(&mut self, r: u32, w: &mut impl World) -> bool {
        let row = *self.rows.get(r);
        let gone = match row.target {
            Target::Conn(_) => false,
            Target::Set(set) => !w.is_open(set),
            // On its way to another file (replaced.rs): the kernel is to hear of it later.
            Target::Other if row.kernel == 0 => false,
            // Of a number that is another file by now it tells nothing but an error of that one, in the moment before it
            // is taken out again.
            Target::Other => match w.ctl(libc::EPOLL_CTL_ADD, row.fd, ET | ONESHOT, row.kernel_data) {
                Ok(()) => w.ctl(libc::EPOLL_CTL_DEL, row.fd, 0, 0).is_ok(),
                Err(e) => matches!(e, libc::EBADF | libc::EPERM),
            },
        };
        if gone {
            self.lose(r, w);
        }
        gone
    }

    /// From here on the kernel may have a registration with this value for which there is no row. Its events would pass for
    /// those of one that was deleted here only, so the kernel forgets that now.
    pub(super) fn may_tell_unknown(&mut self, data: u64, w: &mut impl World) {
        self.forgotten |= Self::mark(data);
        loop {
            let Some(r) =
                self.rows.with_data(data).find(|&r| self.rows.get(r).want == 0 && self.rows.get(r).dirty)
            else {
                return;
            };
            self.sync_row(r, w);
        }
    }

    /// The bit of a value in `forgotten`.
    pub(super) fn mark(data: u64) -> u64 {
        1 << (data.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58)
    }

    /// Makes a row hot, if it may be. True when it is.
    pub(super) fn make_hot(&mut self, r: u32, w: &mut impl World) -> bool {
        if self.rows.get(r).is_hot() {
            return true;
        }
        let Some(conn) = self.rows.get(r).conn() else { return false };
        // The place in the list before the word: a hot one that is in no list is never looked at. Of an end the kernel tells.
        if w.is_ending(conn) || !self.may_be_hot(r, w) || !self.hot.push(r) {
            return false;
        }
        let at = self.hot.len() - 1;
        if !w.make_hot(conn) {
            self.hot.resize(at, 0);
            return false;
        }
        let row = self.rows.get_mut(r);
        row.look = Look::Hot(at as u32);
        row.age = 0;
        if core::mem::take(&mut row.peek) {
            self.peeks -= 1;
        }
        self.show(r, w);
        w.listed(self.hot.len());
        true
    }

    /// What the list that is looked at without the lock says of a hot row.
    pub(super) fn show(&mut self, r: u32, w: &mut impl World) {
        let row = self.rows.get(r);
        if let (Look::Hot(at), Some(conn)) = (row.look, row.conn()) {
            w.list(at as usize, conn, row.want & IN != 0);
        }
    }

    /// Takes a row out of the list of hot ones; its connection's word still says hot.
    pub(super) fn off_the_list(&mut self, r: u32, w: &mut impl World) {
        let Look::Hot(at) = self.rows.get(r).look else { return };
        self.rows.get_mut(r).look = Look::Cold;
        let last = self.hot.len() - 1;
        let moved = self.hot.all()[last];
        self.hot.all_mut()[at as usize] = moved;
        self.hot.resize(last, 0);
        if moved != r {
            self.rows.get_mut(moved).look = Look::Hot(at);
            self.show(moved, w);
        }
        w.listed(last);
    }

    /// Back to the kernel's readiness: bells ring from here on, and the kernel hears what it was not told.
    pub(super) fn make_cold(&mut self, r: u32, w: &mut impl World) {
        if !self.rows.get(r).is_hot() {
            return;
        }
        self.sync_row(r, w);
        if !self.rows.is_used(r) {
            return;
        }
        self.off_the_list(r, w);
        let row = *self.rows.get(r);
        let Some(conn) = row.conn() else { return };
        w.make_cold(conn);
        self.peek_at(r, w);
        // What arrived since the last report is an edge of all that is ready, also when it was taken since: of that the
        // kernel tells, once interest is set anew.
        if row.want & ET != 0 && row.want & OUT != 0 && row.seen != Some(w.frontier(conn, row.seen)) {
            let _ = w.ctl(libc::EPOLL_CTL_MOD, row.io, row.kernel, row.kernel_data);
        }
        self.tell_in_its_place(r, w);
    }

    /// The kernel wakes nobody any more for what comes on it, so its sender must not be the one who tells for all.
    pub(super) fn cool_if_deaf(&mut self, r: u32, w: &mut impl World) {
        if self.rows.is_used(r) && self.rows.get(r).kernel & IN == 0 {
            self.make_cold(r, w);
        }
    }

    /// All rows back to the kernel's readiness.
    pub(super) fn cool_all(&mut self, w: &mut impl World) {
        while let Some(&r) = self.hot.all().last() {
            self.make_cold(r, w);
        }
    }

    /// A cold row: what came while it was hot, no bell announced.
    pub(super) fn peek_at(&mut self, r: u32, w: &mut impl World) {
        let row = self.rows.get(r);
        let Some(conn) = row.conn() else { return };
        if !row.peek
            && row.is_due()
            && !row.is_hot()
            && row.want & IN != 0
            && w.is_channel(conn)
            && w.has_tokens(conn)
        {
            // Of an edge that was told nothing is left to tell, though the program has not taken what it told of. What stands
            // behind bytes on TCP is none of that.
            let (edge, seen, io) = (row.want & ET != 0, row.seen, row.io);
            if edge && w.in_ring(conn, io) && seen == Some(w.frontier(conn, seen)) {
                return;
            }
            let row = self.rows.get_mut(r);
            (row.peek, row.silent) = (true, true);
            self.peeks += 1;
        }
    }

    pub(super) fn unpeek(&mut self, r: u32) {
        if core::mem::take(&mut self.rows.get_mut(r).peek) {
            self.peeks -= 1;
        }
    }

    /// The kernel shall hear of a change later.
    pub(super) fn mark_dirty(&mut self, r: u32) {
        if !core::mem::replace(&mut self.rows.get_mut(r).dirty, true) {
            self.dirty += 1;
        }
    }

    /// Tells the kernel all that it was not told. Before every sleep.
    pub fn sync(&mut self, w: &mut impl World) {
        self.sync_where(|_, _, _| true, w);
    }

    /// The kernel is about to be asked, without sleeping, for at most `room` events. What it was not told of are hot rows,
    /// whose rings are looked at anyway and whose events are judged by what is wanted now; it has to hear of them only
    /// where its old answers could take the room of others, and of those that are its own to tell of now, with their end or on
    /// TCP. And of those that wait for edges: telling it makes one, which is that of this answer, and would be one too many
    /// behind it.
    pub fn before_asking<W: World>(&mut self, room: usize, w: &mut W) {
        let crowded = room <= self.dirty as usize;
        let now = |row: &Row, conn, w: &mut W| {
            row.want & ET != 0
                || w.is_ending(conn)
                || !w.in_ring(conn, row.io)
                || row.want & OUT != 0 && !w.writable(conn)
        };
        self.sync_where(|row, conn, w| crowded || now(row, conn, w), w);
    }

    fn sync_where<W: World>(&mut self, which: impl Fn(&Row, u32, &mut W) -> bool, w: &mut W) {
        let mut k = 0;
        while self.dirty > 0 && k < self.hot.len() {
            let r = self.hot.all()[k];
            let row = self.rows.get(r);
            if row.dirty && row.conn().is_some_and(|conn| which(row, conn, w)) {
                self.sync_row(r, w);
                self.cool_if_deaf(r, w);
            }
            // It may have been taken out, and the last one put here.
            if self.hot.all().get(k) == Some(&r) {
                k += 1;
            }
        }
    }

    pub(super) fn sync_row(&mut self, r: u32, w: &mut impl World) {
        let row = self.rows.get_mut(r);
        if !core::mem::take(&mut row.dirty) {
            return;
        }
        self.dirty -= 1;
        let row = *row;
        if row.want == 0 {
            let _ = w.ctl(libc::EPOLL_CTL_DEL, row.io, 0, 0);
            self.remove(r, w);
        } else if row.want != row.kernel || row.data != row.kernel_data {
            let _ = w.ctl(libc::EPOLL_CTL_MOD, row.io, row.want, row.data);
            self.rows.get_mut(r).kernel = row.want;
            self.rows.set_kernel_data(r, row.data);
        }
    }

    /// Forgets a registration that the kernel forgets, or has forgotten.
    pub(super) fn remove(&mut self, r: u32, w: &mut impl World) {
        let row = *self.rows.get(r);
        let parents = self.is_parents(r);
        // Its sender may have told whoever sleeps, who relies on that.
        let mut owes = false;
        if row.dirty {
            self.dirty -= 1;
        }
        self.goes(&row);
        self.off_the_list(r, w);
        self.unpeek(r);
        match row.target {
            Target::Conn(conn) => {
                // What the parent said stays said.
                if !parents {
                    self.stir(r, w);
                    if row.is_hot() {
                        w.make_cold(conn);
                        owes = self.waiters.anyone_asleep() && w.is_told();
                    }
                    w.watch(conn, false);
                }
            }
            Target::Set(inner) => w.expose(inner, false),
            Target::Other => {}
        }
        self.special -= usize::from(row.target != Target::Other);
        self.detached -= usize::from(row.detached);
        self.rows.remove(r);
        // By the value of one that stays: that of this one would pass for its own event.
        if let Some(other) = self.to_kick().filter(|_| owes) {
            self.kick(other, w);
        }
        // An event of ours is always a connection's.
        if row.conn().is_some() {
            self.loses_value(row.kernel_data, w);
        }
    }

    /// Once per sleep: rows that had nothing for long leave the list of hot ones.
    pub fn grow_old(&mut self, w: &mut impl World) {
        let mut k = 0;
        while k < self.hot.len() {
            let r = self.hot.all()[k];
            let row = self.rows.get_mut(r);
            row.age = row.age.saturating_add(1);
            let (old, conn) = (row.age > STALE, row.conn());
            if old && conn.is_some_and(|conn| !w.has_tokens(conn)) {
                self.make_cold(r, w);
            }
            if self.hot.all().get(k) == Some(&r) {
                k += 1;
            }
        }
    }

    /// Whether something came that a sleep would miss: for the look between saying that it sleeps and sleeping.
    pub fn has_news(&mut self, w: &mut impl World) -> bool {
        for k in 0..self.hot.len() {
            let r = self.hot.all()[k];
            let row = *self.rows.get(r);
            let Some(conn) = row.conn() else { continue };
            // As look_at() has it, or the two would disagree for ever.
            let writes = row.want & OUT != 0 && w.writable(conn);
            if row.want & IN != 0 {
                let follows = w.in_ring(conn, row.io);
                let edge = row.want & ET != 0;
                let unseen = (!edge || row.seen != Some(w.frontier(conn, row.seen)))
                    && (w.waiting(conn, row.io) || edge && (writes || Self::has_room(&row, conn, w)));
                if unseen || !follows || !w.is_hot(conn) {
                    return true;
                }
            }
            if writes && (row.want & ET == 0 || row.out_edge) {
                return true;
            }
        }
        self.peeks > 0 && self.rows.each().any(|r| self.has_unheard(r, w))
    }

    /// For a sleep that lasts long: whether a connection holds something that is to be reported and of which neither a
    /// bell nor a look told. Then a wake-up was lost; the next look reports it.
    pub fn find_lost(&mut self, w: &mut impl World) -> bool {
        let mut lost = self.has_news(w);
        for r in 0..self.rows.high() {
            let Some(conn) = self.conn_of(r) else { continue };
            let row = *self.rows.get(r);
            let due = !row.is_hot() && !row.peek && row.is_due() && row.want & IN != 0 && w.is_channel(conn);
            if !due || !w.waiting(conn, row.io) || w.has_bytes(row.io) {
                continue;
            }
            if row.want & ET != 0 && row.seen == Some(w.frontier(conn, row.seen)) {
                continue;
            }
            // Somebody else may have been told, and that was all there was to tell.
            if row.want & (ET | ONESHOT) != 0 && self.is_shared(w) {
                continue;
            }
            self.peek_at(r, w);
            lost = true;
        }
        lost
    }

    /// Whether a cold row has something that the kernel does not know of, and that is to be reported.
    pub(super) fn has_unheard(&self, r: u32, w: &mut impl World) -> bool {
        let row = self.rows.get(r);
        // An edge of bytes on TCP, which the kernel tells of, is none of what stands behind them.
        let is_next = |conn, w: &mut _| row.want & ET == 0 || World::in_ring(w, conn, row.io);
        row.peek
            && row.is_due()
            && row.want & IN != 0
            && row.conn().is_some_and(|conn| is_next(conn, w) && w.waiting(conn, row.io))
    }
}
