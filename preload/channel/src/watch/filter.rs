//! What of the kernel's events a wait reports: the bells among them are drained and dropped, and what a bell announced
//! becomes hot.

use libc::epoll_event;

use super::{Once, Out, Row, Set, Settled, Target, World, ALWAYS, ET, HUP, IN, ONESHOT, OUT, RDHUP};

impl Set {
    /// [`Set::filter`] of what the kernel told a thread in its sleep, which began at a [`Set::moment`].
    pub fn filter_after_sleep(&mut self, from: u32, got: usize, out: &mut Out, w: &mut impl World) {
        self.slept_from = Some(from);
        self.filter(got, out, w);
        self.slept_from = None;
    }

    /// Goes through the kernel's `got` events behind what is in the array: drains bells, drops what was only a bell,
    /// makes hot what a bell announced.
    pub fn filter(&mut self, got: usize, out: &mut Out, w: &mut impl World) {
        let from = out.n;
        // Asked a second time it tells again what is level-triggered; a program that accepts for each entry would wait in
        // accept(2) for the second.
        let earlier = *self.asked.get_or_insert(from);
        for k in from..from + got {
            let e = out.events[k];
            let (bits, data) = (e.events, e.u64);
            // It may be the event of ours, which comes once.
            let ours = self.kicked == Some(data) && bits & !IN == 0;
            let fresh = ours && !self.kick_is_spent;
            self.kick_is_spent |= ours;
            let (first, second) = self.with_value(data, w);
            let told = out.events[earlier..from].iter().position(|e| e.u64 == data);
            let at = told.map_or(out.n, |at| earlier + at);
            let keep = match (first, second) {
                // Its registration is gone since, and its event was told. So it is dropped also where a copy of something that was closed
                // unseen may have the value: the program may have freed what that stands for.
                (None, _) if self.may_be_gone(data, w) => None,
                (None, _) if self.is_ours(data, bits) && !self.plain.has(data) => None,
                (None, _) => Some(bits),
                (Some(r), None) => match self.judge(r, bits, w) {
                    Some(0) => None,
                    // What it reported of this row already, it reports in one entry; `n <= k`, so there is room.
                    Some(bits) => {
                        self.put(r, bits, out);
                        None
                    }
                    None if self.rows.get(r).data == data => {
                        self.put(r, bits, out);
                        None
                    }
                    None => Some(bits),
                },
                (Some(_), Some(_)) => {
                    Some(self.judge_several(data, bits, fresh, at as u32, w)).filter(|&bits| bits != 0)
                }
            };
            match keep {
                Some(bits) if at < out.n => out.events[at].events |= bits,
                Some(bits) => {
                    out.events[out.n] = epoll_event { events: bits, u64: data };
                    out.n += 1;
                }
                None => {}
            }
        }
        if self.kicked.is_some() && !self.waiters.anyone_asleep() {
            self.take_kick(w);
        }
    }

    /// The row of a value, and a second one if there is. One that is there no more is none of several: the others would be told of
    /// without its being known which of them was, and so that the one event of it was. Nor is it what is told in place of what is gone.
    fn with_value(&mut self, data: u64, w: &mut impl World) -> (Option<u32>, Option<u32>) {
        loop {
            let mut rows = self.rows.with_data(data);
            let both = (rows.next(), rows.next());
            drop(rows);
            match both {
                (Some(one), Some(other)) if self.forget_if_gone(one, w) || self.forget_if_gone(other, w) => {}
                (Some(one), None) if self.may_be_gone(data, w) && self.forget_if_gone(one, w) => {}
                _ => return both,
            }
        }
    }

    /// What the kernel said may be of another one than row `r` ([`Set::may_be_of_another`]): what of it is so of that one now.
    fn as_of_now(&mut self, r: u32, bits: u32, w: &mut impl World) -> u32 {
        let row = *self.rows.get(r);
        if row.is_spent() {
            return 0;
        }
        let mut now = bits;
        if bits & (RDHUP | HUP) != 0 && !w.has_end(row.io) {
            now &= !(RDHUP | HUP | libc::EPOLLERR as u32);
        }
        if bits & IN != 0 && !w.has_bytes(row.io) {
            now &= !IN;
        }
        // An event of ours comes whatever is wanted, and that of another one may. What a relative wants is not known here.
        if self.is_ours(row.kernel_data, bits) || !self.is_shared(w) {
            now &= row.want | ALWAYS;
        }
        // The one report tells all that is ready, of which neither an event of ours nor that of another one says anything.
        if now & IN != 0 && row.want & (ET | ONESHOT) != 0 && w.has_room(row.io) {
            now |= row.want & OUT;
        }
        if now != 0 && row.want & ONESHOT != 0 {
            now |= Self::end_to_tell(&row, w);
        }
        if now == 0 {
            // If it was of this one after all, it was the one report.
            let _ = w.ctl(libc::EPOLL_CTL_MOD, row.io, row.kernel, row.kernel_data);
        }
        self.rows.get_mut(r).doubtful = true;
        now
    }

    /// Whether `bits` of a connection's row may be of something else with its value, so that the kernel tells of this one as well.
    /// For one event that would be twice; and what is gone may have had another end.
    ///
    /// - What was said in a sleep may be of a connection that is closed since, of which another thread was told by its ring, and
    ///   whose number this one has: it was registered during the sleep. Or another thread was told of this one meanwhile, and has
    ///   asked for the next event already.
    /// - It may be the kick of somebody who wanted all to be looked at. What no channel is, no look finds.
    fn may_be_of_another(&self, r: u32, bits: u32, w: &impl World) -> bool {
        let row = self.rows.get(r);
        let Target::Conn(conn) = row.target else { return false };
        let once = row.want & ONESHOT != 0;
        let of_former = self.is_in_sleep(row.born) && (once || self.may_be_gone(row.kernel_data, w));
        let of_former = of_former || row.told != row.born && self.is_late(row, w);
        of_former || self.is_ours(row.kernel_data, bits) && !w.is_channel(conn)
    }

    /// Whether what the kernel said in a sleep may be of what is gone, and row `r`, which has the value since, is the kernel's alone: then
    /// that is asked once more, unless it has told its one event.
    fn is_asked_again(&mut self, r: u32, w: &mut impl World) -> bool {
        let row = *self.rows.get(r);
        let doubted = row.conn().is_none() && self.is_in_sleep(row.born);
        if !doubted || !self.may_be_gone(row.kernel_data, w) {
            return false;
        }
        if row.is_spent() || row.want & (ET | ONESHOT) == 0 {
            return true;
        }
        // Another thread may be about to tell it.
        self.rows.get_mut(r).doubtful = true;
        w.ctl(libc::EPOLL_CTL_MOD, row.io, row.kernel, row.kernel_data).is_ok()
    }

    /// Whether another thread was told in this sleep of the one event of `row`, and the kernel may have told the same here.
    /// Where it was the kernel that told the other, it tells no more before somebody sets interest anew, and those of whom
    /// nobody hears here may have.
    fn is_late(&self, row: &Row, w: &impl World) -> bool {
        self.is_in_sleep(row.told) && (row.by_ring || !self.is_shared(w))
    }

    /// The kernel says `bits` of row `r`, and of no other: what the program shall hear. `None`: just that.
    fn judge(&mut self, r: u32, bits: u32, w: &mut impl World) -> Option<u32> {
        // The kernel cannot be kept from telling of an error and of an end (epoll_ctl(2)); a registration that it has disabled itself
        // tells neither.
        if self.rows.get(r).is_spent() && bits & !ALWAYS == 0 {
            return Some(0);
        }
        if self.is_asked_again(r, w) {
            return Some(0);
        }
        if !self.may_be_of_another(r, bits, w) {
            return self.judge_as(r, bits, w);
        }
        match self.as_of_now(r, bits, w) {
            0 => Some(0),
            now => Some(self.judge_as(r, now, w).unwrap_or(now)),
        }
    }

    /// The same where it is so now.
    fn judge_as(&mut self, r: u32, bits: u32, w: &mut impl World) -> Option<u32> {
        let mut row = *self.rows.get(r);
        if row.want == 0 {
            // Deleted, whatever became of its connection since.
            return Some(0);
        }
        let conn = match row.target {
            Target::Conn(conn) if w.is_channel(conn) => conn,
            Target::Set(set) if bits == IN & bits && !w.is_set_ready(set) => {
                if row.want & ONESHOT != 0 && !row.detached {
                    // The kernel took it for the one report.
                    let _ = w.ctl(libc::EPOLL_CTL_MOD, row.io, row.want, row.kernel_data);
                }
                return Some(0);
            }
            _ if row.doubtful && row.is_spent() => return Some(0),
            _ => {
                // It may be connected yet.
                if row.want & ONESHOT != 0 {
                    self.spent(r, w);
                }
                // What was a channel a moment ago may have a change that the kernel was not told.
                return row.dirty.then_some(bits & (row.want | ALWAYS));
            }
        };
        if self.forgotten & Self::mark(row.kernel_data) != 0 {
            let kicked = self.is_ours(row.kernel_data, bits);
            // What another thread reported during the sleep, the kernel told as well; and what an event of ours reported, it tells once.
            let twice = row.is_spent() && (row.doubtful || self.is_late(&row, w));
            // Its bells may be gone by an event of ours that stood before this one.
            let empty = |w: &mut _| row.emptied != self.wait && !World::has_bytes(w, row.io);
            let foreign = row.is_spent() && !twice || !row.is_spent() && bits & IN != 0 && empty(w);
            // An event of ours may come when bytes are of no interest any more.
            if !kicked && (foreign || !row.dirty && bits & !(row.kernel | ALWAYS) != 0) {
                // It is not of this row.
                return None;
            }
            if twice && !kicked {
                self.rows.get_mut(r).doubtful = false;
            }
        }
        let kicked = self.is_ours(row.kernel_data, bits);
        if row.is_spent() {
            // A relative may have set interest anew, and the kernel tells whoever asks first.
            let of_relatives = self.is_shared(w) && !row.doubtful && !kicked && !self.is_late(&row, w);
            if !of_relatives {
                return Some(0);
            }
            self.rows.get_mut(r).once = Once::Due;
            self.stir(r, w);
        }
        if !row.dirty && !kicked && self.is_shared(w) {
            // In more than was known here, perhaps.
            row.want |= bits & !row.kernel;
        }
        let mut bits = bits & (row.want | ALWAYS);
        if bits & OUT != 0 && row.want & ET != 0 && row.is_hot() && w.writable(conn) {
            // Of its room the set tells itself, once: that is this. The kernel may tell of it once more, where it was set interest
            // anew; but it may as well be the edge of what came on TCP and was taken since.
            self.rows.get_mut(r).out_edge = false;
        }
        let (once, came) = (row.want & ONESHOT != 0, bits & IN);
        let had_again = !(once && row.detached);
        if bits & (IN | RDHUP) != 0 && bits & HUP == 0 && w.died(conn, row.io) && had_again {
            return Some(self.drop_for_more(r, w));
        }
        if bits & IN != 0 {
            // Hot by our list and by the word: somebody else may have cooled it.
            let hot = row.is_hot() && w.is_hot(conn);
            if row.is_hot() && !hot {
                self.make_cold(r, w);
            }
            let settled = if hot { w.settle(conn, row.io, false) } else { self.settle_cold(r, conn, w) };
            self.rows.get_mut(r).emptied = self.wait;
            let is_hot = hot || self.make_hot(r, w);
            // Behind a hand-back the edge may be that of bytes on TCP.
            let ring = w.in_ring(conn, row.io);
            // Of a hot one its ring tells, and what was reported before.
            let by_ring = is_hot && ring && w.waiting(conn, row.io) && !w.is_ending(conn);
            if !by_ring && row.want & ET != 0 && settled == Settled::Ready {
                let seen = Some(w.frontier(conn, row.seen));
                self.rows.get_mut(r).seen = seen;
            }
            if is_hot && !by_ring && settled == Settled::Ready {
                // It is the end, of which only the kernel tells, or bytes on TCP.
                self.make_cold(r, w);
            }
            match settled {
                Settled::Ready if by_ring => {
                    let over = bits & (HUP | RDHUP) != 0;
                    bits = (bits & !IN) | self.look_at(r, w);
                    if over {
                        self.make_cold(r, w);
                    }
                    // Of these bytes it was told: then the kernel's edge may be that of the end of one that was killed.
                    if bits & IN == 0 && row.want & ET != 0 && w.has_end(row.io) {
                        self.make_cold(r, w);
                        bits |=
                            row.want & IN | if Self::has_room(&row, conn, w) { OUT & row.want } else { 0 };
                    }
                }
                // What the program leaves in the ring has no bell: the next wait looks.
                Settled::Ready if !is_hot && row.want & (ET | ONESHOT) == 0 => {
                    self.peek_at(r, w);
                    // The bell stays as long as there is something.
                    if self.kicked != Some(row.kernel_data) {
                        self.rows.get_mut(r).silent = false;
                    }
                }
                Settled::Quiet => bits &= !IN,
                Settled::Ready => {}
            }
        }
        // Whatever it is told for, it is told of all that is ready: the kernel knows nothing of what no bell announced, and
        // there may be no room for a second look.
        if bits != 0 && bits & IN == 0 && row.want & IN != 0 && w.in_ring(conn, row.io) {
            let front = w.frontier(conn, row.seen);
            if w.waiting(conn, row.io) {
                bits |= row.want & IN;
                self.rows.get_mut(r).seen = Some(front);
            }
        }
        // The same of room, of which a row that cools just now has told the kernel only since.
        if bits & IN != 0 && row.dirty && w.writable(conn) {
            bits |= row.want & OUT;
        }
        // And where it may be an event of ours, which says nothing of room.
        if kicked && bits & IN != 0 && row.want & (ET | ONESHOT) != 0 && Self::has_room(&row, conn, w) {
            bits |= row.want & OUT;
        }
        // Nor of an end, and of one event there is no second report.
        if kicked && bits != 0 && once {
            bits |= Self::end_to_tell(&row, w);
        }
        if bits != 0 && w.has_error(conn) {
            bits |= libc::EPOLLERR as u32;
        }
        if bits == 0 && !once && !kicked && w.may_be_for_one(conn) && self.is_shared(w) {
            // It was only a bell; but a relative's one event may have gone for it, which nobody here can ask for again. A bell that stays
            // for whoever it is to wake is told of again where it was none, and by each wait: the program hears of it once.
            let stays = w.has_bytes(row.io);
            if !(stays && row.for_one) {
                bits = came;
            }
            self.rows.get_mut(r).for_one = stays;
        } else if row.for_one {
            self.rows.get_mut(r).for_one = false;
        }
        if once {
            if bits == 0 && row.detached {
                // It was only a bell, and the kernel's one report cannot be had again: the program hears of it.
                bits = IN;
                self.spent(r, w);
            } else if bits == 0 {
                // It was only a bell, and the kernel took it for the one report; or it was the event of ours, and the kernel's stands
                // behind it.
                self.rows.get_mut(r).doubtful |= kicked;
                let _ = w.ctl(libc::EPOLL_CTL_MOD, row.io, row.want, row.kernel_data);
            } else {
                // The one report tells all that is ready, also what no bell announced.
                if row.want & IN != 0 && w.waiting(conn, row.io) {
                    bits |= row.want & IN;
                }
                self.unpeek(r);
                match kicked {
                    // The kernel's own report may still be to come.
                    true => self.spend(r, w),
                    false => self.spent(r, w),
                }
            }
        }
        Some(bits)
    }

    /// The kernel has an event of row `r` since that tells all of this one: the program hears of that.
    fn drop_for_more(&mut self, r: u32, w: &mut impl World) -> u32 {
        self.ask_again = true;
        let row = *self.rows.get(r);
        if row.want & ONESHOT != 0 && !row.detached {
            // It took this for the one report.
            let _ = w.ctl(libc::EPOLL_CTL_MOD, row.io, row.want, row.kernel_data);
        }
        0
    }

    /// The kernel says `bits` of one of several rows that have the same value: a bell is dropped only where that is
    /// certain, since a report too many is allowed, and one too few is not. `at` is where the report would stand.
    /// `ours`: it may be the event that wakes.
    fn judge_several(&mut self, data: u64, bits: u32, ours: bool, at: u32, w: &mut impl World) -> u32 {
        if bits & IN == 0 {
            return bits;
        }
        let (mut bell, mut ready, mut edges) = (false, false, false);
        let mut whose = None;
        let mut last = None;
        loop {
            // One after the other by number: the list may change on the way.
            let next = self.rows.with_data(data).filter(|&r| last.is_none_or(|last| r > last)).min();
            let Some(r) = next else { break };
            last = Some(r);
            let row = *self.rows.get(r);
            match row.target {
                Target::Conn(conn) if w.is_channel(conn) => {
                    if row.want & IN == 0 || row.is_spent() {
                        continue;
                    }
                    let has = w.has_bytes(row.io);
                    let settled = self.settle_cold(r, conn, w);
                    bell |= (has || ours) && settled == Settled::Quiet;
                    ready |= settled == Settled::Ready;
                    if settled == Settled::Ready && row.reported.0 != self.wait {
                        whose = whose.or(Some(r));
                    }
                    if row.want & (ET | ONESHOT) != 0 {
                        // An entry of its own, which was no more than a bell, and may be the one that counted.
                        ready |= row.want & ONESHOT != 0 && has;
                    } else {
                        self.peek_at(r, w);
                    }
                }
                _ => {
                    if !self.forget_if_gone(r, w) {
                        edges |= row.want & (ET | ONESHOT) != 0;
                    }
                }
            }
        }
        if let Some(r) = whose {
            // What its ring has is reported with this one.
            self.rows.get_mut(r).reported = (self.wait, at);
        }
        // Another one of them that is level-triggered is told by the next look at the kernel, which finds no bell then.
        match bell && !ready && !edges {
            true => {
                // By the look that follows, if it was none of ours.
                self.ask_again |= ours;
                bits & !IN
            }
            false => bits,
        }
    }
}
