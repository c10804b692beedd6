//! What a wait reports: the program's array, and what the rings have; of the kernel's events see `filter.rs`.

use libc::epoll_event;

use super::{Row, Set, World, ET, IN, ONESHOT, OUT, RDHUP};

/// The program's array, filled from the front.
#[derive(Debug)]
pub struct Out<'a> {
    pub(super) events: &'a mut [epoll_event],
    pub(super) n: usize,
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
        self.asked = None;
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
    pub(super) fn put(&mut self, r: u32, bits: u32, out: &mut Out) -> bool {
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
    pub(super) fn look_at(&mut self, r: u32, w: &mut impl World) -> u32 {
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
            self.cool_if_deaf(r, w);
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

    /// The end of the other side, where row `row` is to be told of that and the kernel knows of one.
    pub(super) fn end_to_tell(row: &Row, w: &impl World) -> u32 {
        if row.want & RDHUP != 0 && w.has_end(row.io) {
            RDHUP
        } else {
            0
        }
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
            let end = if row.want & ONESHOT != 0 { Self::end_to_tell(&row, w) } else { 0 };
            if self.put(r, row.want & if writes { IN | OUT } else { IN } | end, out) {
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

    /// A one-shot registration was reported by us: the kernel is to report it no more. (Of an error and of an end it may all the
    /// same, which is dropped.)
    pub(super) fn spend(&mut self, r: u32, w: &mut impl World) {
        self.spent(r, w);
        let row = self.rows.get_mut(r);
        row.by_ring = true;
        if row.detached {
            // Its number, by which alone the kernel finds it, is gone: its reports are dropped.
            return;
        }
        let (io, data) = (row.io, row.kernel_data);
        let _ = w.ctl(libc::EPOLL_CTL_MOD, io, ONESHOT | ET, data);
    }
}
