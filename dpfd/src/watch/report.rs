//! What a wait reports: the hot connections' rings, and the kernel's events without the bells.

use libc::epoll_event;

use super::{Row, Set, Settled, Target, World, ALWAYS, ET, HUP, IN, ONESHOT, OUT, RDHUP};

/// The program's array, filled from the front.
#[derive(Debug)]
pub struct Out<'a> {
    events: &'a mut [epoll_event],
    n: usize,
}

impl<'a> Out<'a> {
    /// Nothing is in it yet.
    pub fn new(events: &'a mut [epoll_event]) -> Out<'a> {
        Out { events, n: 0 }
    }

    /// Entries filled.
    pub fn len(&self) -> usize {
        self.n
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// Whether there is room for no more.
    pub fn is_full(&self) -> bool {
        self.n == self.events.len()
    }

    /// What is not filled, for the kernel to fill; then [`Set::filter`] goes through it.
    pub fn rest(&mut self) -> &mut [epoll_event] {
        &mut self.events[self.n..]
    }
}

impl Set {
    /// A new wait, or a new turn of one: what was reported before is not in the array any more.
    pub fn begin(&mut self) {
        self.wait = self.wait.wrapping_add(1);
    }

    /// Whether what is hot comes before what the kernel has, so that neither keeps the other out of a short array.
    pub fn hot_first(&self) -> bool {
        self.hot_first
    }

    /// The array is full: who filled it comes second the next time.
    pub fn filled(&mut self, by_kernel: bool) {
        self.hot_first = by_kernel;
    }

    /// Whether the kernel is to be asked once more, as it has heard of something while it was asked.
    pub fn asks_again(&mut self) -> bool {
        core::mem::take(&mut self.ask_again)
    }

    /// Puts `bits` of row `r` into the array, together with what it has there already. False: no room.
    fn put(&mut self, r: u32, bits: u32, out: &mut Out) -> bool {
        let wait = self.wait;
        let row = self.rows.get_mut(r);
        if row.reported.0 == wait && (row.reported.1 as usize) < out.n {
            out.events[row.reported.1 as usize].events |= bits;
            return true;
        }
        if out.is_full() {
            return false;
        }
        row.reported = (wait, out.n as u32);
        out.events[out.n] = epoll_event { events: bits, u64: row.data };
        out.n += 1;
        true
    }

    /// Reports what the hot connections have.
    pub fn look(&mut self, out: &mut Out, w: &mut impl World) {
        let mut left = self.hot.len();
        let mut at = self.turn;
        while left > 0 && !out.is_full() {
            at %= self.hot.len();
            let r = self.hot.all()[at];
            let bits = self.look_at(r, w);
            if bits != 0 {
                self.put(r, bits, out);
            }
            if self.hot.all().get(at) == Some(&r) {
                left -= 1;
                at += 1;
            } else {
                // It is cold now, and the last one took its place: which of the others were looked at is not known any more.
                left = self.hot.len();
            }
        }
        self.turn = at;
    }

    /// What hot row `r` has to report; 0 for nothing. It may be cold afterwards, or gone.
    fn look_at(&mut self, r: u32, w: &mut impl World) -> u32 {
        let row = self.rows.get_mut(r);
        let Some(conn) = row.conn() else { return 0 };
        if w.is_ending(conn) {
            self.make_cold(r, w);
            return 0;
        }
        let edge = row.want & ET != 0;
        // Before the look: what comes in between is looked at, and is not taken for reported.
        let front = (edge && row.want & IN != 0).then(|| w.frontier(conn, row.seen));
        let reads = row.want & IN != 0 && w.waiting(conn, row.io);
        let writes = row.want & OUT != 0 && w.writable(conn);
        let mut due = !edge && (reads || writes);
        let mut room = writes;
        // What arrived is an edge also when it was taken since. It tells all that is ready, as the kernel's does.
        if front.is_some() && row.seen != front {
            room = Self::has_room(row, conn, w);
            if reads || room {
                row.seen = front;
                due = true;
            }
        }
        if edge && writes {
            due |= core::mem::replace(&mut row.out_edge, false);
        }
        if reads {
            row.age = 0;
        }
        if due {
            return if reads { row.want & IN } else { 0 } | if room { row.want & OUT } else { 0 };
        }
        let (want, dirty, io) = (row.want, row.dirty, row.io);
        if want & OUT != 0 && !writes && dirty {
            // The direction is on TCP now: only the kernel knows when it is writable.
            self.sync_row(r, w);
            if !self.rows.is_used(r) {
                return 0;
            }
        }
        if !w.is_hot(conn) || !w.is_channel(conn) || !w.in_ring(conn, io) {
            self.make_cold(r, w);
        }
        0
    }

    /// Whether row `row` is to be told of room, in the ring or on TCP.
    pub(super) fn has_room(row: &Row, conn: u32, w: &impl World) -> bool {
        row.want & OUT != 0 && (w.writable(conn) || w.has_room(row.io))
    }

    /// Reports cold connections with something in the ring that no bell announced.
    pub fn peeked(&mut self, out: &mut Out, w: &mut impl World) {
        let high = self.rows.high();
        let start = if high > 0 { self.turn as u32 % high } else { 0 };
        for k in 0..high {
            if self.peeks == 0 || out.is_full() {
                break;
            }
            let r = (start + k) % high;
            if !self.rows.is_used(r) || !self.rows.get(r).peek {
                continue;
            }
            if !self.rows.get(r).conn().is_some_and(|conn| w.has_tokens(conn)) {
                self.unpeek(r);
                continue;
            }
            // What lies behind bytes on their way through TCP stays to be looked at.
            if !self.has_unheard(r, w) {
                continue;
            }
            let row = *self.rows.get(r);
            // An edge, or the only report, tells all that is ready; else the kernel tells of writability.
            let writes = row.want & (ET | ONESHOT) != 0
                && row.conn().is_some_and(|conn| Self::has_room(&row, conn, w));
            let front = row.conn().filter(|_| row.want & ET != 0).map(|conn| w.frontier(conn, row.seen));
            if self.put(r, row.want & if writes { IN | OUT } else { IN }, out) {
                if front.is_some() {
                    self.rows.get_mut(r).seen = front;
                }
                // As level-triggered it stays to be looked at until it is empty.
                if row.want & (ET | ONESHOT) != 0 {
                    self.unpeek(r);
                }
                if row.want & ONESHOT != 0 {
                    self.spend(r, w);
                }
            }
        }
        self.turn = self.turn.wrapping_add(1);
    }

    /// A one-shot registration was reported by us: the kernel is to report it no more.
    fn spend(&mut self, r: u32, w: &mut impl World) {
        let row = self.rows.get_mut(r);
        row.spent = true;
        if row.detached {
            // Its number, by which alone the kernel finds it, is gone: its reports are dropped.
            return;
        }
        let (io, data) = (row.io, row.kernel_data);
        let _ = w.ctl(libc::EPOLL_CTL_MOD, io, ONESHOT | ET, data);
    }

    /// Goes through the kernel's `got` events behind what is in the array: drains bells, drops what was only a bell,
    /// makes hot what a bell announced.
    pub fn filter(&mut self, got: usize, out: &mut Out, w: &mut impl World) {
        let from = out.n;
        for k in from..from + got {
            let e = out.events[k];
            let (bits, data) = (e.events, e.u64);
            let mut rows = self.rows.with_data(data);
            let (first, second) = (rows.next(), rows.next());
            drop(rows);
            let keep = match (first, second) {
                // Its registration is gone since. Where another one that has no row has its value, the event may be of that.
                (None, _) if self.kicked == Some(data) && bits & !IN == 0 && !self.plain.has(data) => None,
                (None, _) => Some(bits),
                (Some(r), None) => match self.judge(r, bits, w) {
                    Some(0) => None,
                    // What it reported of this row already, it reports in one entry; `n <= k`, so there is room.
                    Some(bits) => {
                        self.put(r, bits, out);
                        None
                    }
                    None => Some(bits),
                },
                (Some(_), Some(_)) => {
                    Some(self.judge_several(data, bits, out.n as u32, w)).filter(|&bits| bits != 0)
                }
            };
            if let Some(bits) = keep {
                out.events[out.n] = epoll_event { events: bits, u64: data };
                out.n += 1;
            }
        }
        if self.kicked.is_some() && !self.waiters.anyone_asleep() {
            self.kicked = None;
            w.unkick();
        }
    }

    /// The kernel says `bits` of row `r`, and of no other: what the program shall hear. `None`: just that.
    fn judge(&mut self, r: u32, bits: u32, w: &mut impl World) -> Option<u32> {
        let row = *self.rows.get(r);
        let conn = match row.target {
            Target::Conn(conn) if w.is_channel(conn) => conn,
            _ => return None,
        };
        if row.want == 0 {
            return Some(0);
        }
        if self.forgotten & Self::mark(row.kernel_data) != 0 {
            let foreign = row.spent || bits & IN != 0 && !w.has_bytes(row.io);
            if foreign || (!row.dirty && bits & !(row.kernel | ALWAYS) != 0) {
                // It is not of this row.
                return None;
            }
        }
        if row.spent {
            return Some(0);
        }
        let mut bits = bits & (row.want | ALWAYS);
        if bits != 0 && bits == bits & OUT && row.want & ET != 0 && row.is_hot() && w.writable(conn) {
            // Of its room the set tells itself, once; this is the kernel's word of the same change.
            if !core::mem::take(&mut self.rows.get_mut(r).out_edge) {
                bits = 0;
            }
        }
        let once = row.want & ONESHOT != 0;
        if bits & (IN | RDHUP) != 0 && bits & HUP == 0 && w.died(conn, row.io) {
            return Some(self.drop_for_more(r, w));
        }
        if bits & IN != 0 {
            // Hot by our list and by the word: somebody else may have cooled it.
            let hot = row.is_hot() && w.is_hot(conn);
            if row.is_hot() && !hot {
                self.make_cold(r, w);
            }
            let settled = if hot { w.settle(conn, row.io, false) } else { self.settle_cold(r, conn, w) };
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
                Settled::Ready if !is_hot && row.want & (ET | ONESHOT) == 0 => self.peek_at(r, w),
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
        if bits != 0 && w.has_error(conn) {
            bits |= libc::EPOLLERR as u32;
        }
        if once {
            if bits == 0 && row.detached {
                // It was only a bell, and the kernel's one report cannot be had again: the program hears of it.
                bits = IN;
                self.rows.get_mut(r).spent = true;
            } else if bits == 0 {
                // It was only a bell, and the kernel took it for the one report.
                let _ = w.ctl(libc::EPOLL_CTL_MOD, row.io, row.want, row.kernel_data);
            } else {
                // The one report tells all that is ready, also what no bell announced.
                if row.want & IN != 0 && w.waiting(conn, row.io) {
                    bits |= row.want & IN;
                }
                self.unpeek(r);
                self.rows.get_mut(r).spent = true;
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
    fn judge_several(&mut self, data: u64, bits: u32, at: u32, w: &mut impl World) -> u32 {
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
                    if row.want & IN == 0 || row.spent {
                        continue;
                    }
                    let has = w.has_bytes(row.io);
                    let settled = self.settle_cold(r, conn, w);
                    bell |= has && settled == Settled::Quiet;
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
            true => bits & !IN,
            false => bits,
        }
    }
}
