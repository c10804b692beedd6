//! Waiting on an epoll set: what the shim may decide without the kernel (PROTOCOLS W3, W5, W6, W18).
//!
//! The kernel's set stays as it is. A connection in it is *cold* at first: its sender rings a bell for new bytes, the
//! bell makes the TCP socket readable, and the kernel's readiness is the truth. A wait that was woken by a bell may make
//! the connection *hot*: from then on the set looks at its ring itself, its sender does not ring, and changes of its
//! registration are told to the kernel only before the set sleeps.
//!
//! ```text
//!            a bell brought an event, and may_be_hot() holds
//!      Cold ------------------------------------------------> Hot
//!        ^                                                     |
//!        +-----------------------------------------------------+
//!          one of these came: another wait, a registration of the same connection that may be told, of the same value;
//!          the set is exposed or inherited; one-shot, exclusive; its number was closed;
//!          the direction is on TCP; nothing came for many sleeps
//! ```
//!
//! Hot is a privilege that needs proof for every way in which the program could wait for the connection; each reason
//! against it is counted here and ends by itself, so the connection becomes hot again with a later bell.
//!
//! This module has no I/O: it calls a [`World`], which is the shim or a model. It takes no lock either; its caller holds
//! the set's own. Nothing here is read without that lock but what [`World::list`] was given.

mod change;
mod ends;
mod filter;
mod gone;
mod hot;
mod outside;
mod plain;
mod relatives;
mod replaced;
mod report;
mod rows;
mod torn;
mod waiters;

pub use report::Out;
pub use rows::{Look, Once, Row, Rows, SetName, Target};

use dp_edge::ring::Pos;
use gone::Gone;
use plain::Plain;
use waiters::Waiters;

/// Always reported, wanted or not.
pub const ALWAYS: u32 = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
/// Something to read.
pub const IN: u32 = (libc::EPOLLIN | libc::EPOLLRDNORM) as u32;
/// Room to write.
pub const OUT: u32 = (libc::EPOLLOUT | libc::EPOLLWRNORM) as u32;
/// The other end has ended; or both.
pub const RDHUP: u32 = libc::EPOLLRDHUP as u32;
/// See [`RDHUP`].
pub const HUP: u32 = libc::EPOLLHUP as u32;
/// Edge-triggered.
pub const ET: u32 = libc::EPOLLET as u32;
/// Disabled by its first report.
pub const ONESHOT: u32 = libc::EPOLLONESHOT as u32;
/// What only the kernel can do: wake one of several sets, report once.
pub const SPECIAL: u32 = (libc::EPOLLONESHOT | libc::EPOLLEXCLUSIVE) as u32;

/// All values, as [`Set::mark`] has each.
const ANYTHING: u64 = !0;

/// Most hot connections in one set: looking at more costs more than their bells.
pub const MAX_HOT: usize = 1024;

/// What a look at the kernel's side of a connection found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// Something to read, or an end, or an error: what the kernel says holds.
    Ready,
    /// Only a bell, which is gone now; a new byte will be a new one.
    Quiet,
}

/// The surroundings of the state machine: the kernel's set, and connections.
pub trait World {
    /// epoll_ctl(2) on the kernel's set: `events` and `data` of `fd`.
    fn ctl(&mut self, op: i32, fd: i32, events: u32, data: u64) -> Result<(), i32>;
    /// One more, or one less, registration of a connection, in any set of any relative; how many there are now.
    fn watch(&mut self, conn: u32, more: bool) -> u32;
    /// Registrations of a connection now.
    fn watched(&self, conn: u32) -> u32;
    /// One of these was told its one event, and stands in nobody's way until interest is set anew; or it does again.
    fn rests(&mut self, conn: u32, rests: bool);
    /// The connection is waited for in a way that cannot be counted: by this process, until it says so no more.
    fn uncounted(&mut self, conn: u32);
    /// Somebody who has a set together with relatives asks there for one event of a connection: they hear of that.
    fn asks_for_one(&mut self, conn: u32);
    /// Whether somebody did.
    fn may_be_for_one(&self, conn: u32) -> bool;
    /// Whether the connection is a channel, or about to be one.
    fn is_channel(&self, conn: u32) -> bool;
    /// Makes its sender ring no more; false where that may not be. Looking at its ring again is up to the caller.
    fn make_hot(&mut self, conn: u32) -> bool;
    /// The sender of a connection that this set has hot rings again from here on (fenced).
    fn make_cold(&mut self, conn: u32);
    /// The same of one that another set may have hot, of this process or of a relative.
    fn make_cold_beside(&mut self, conn: u32);
    /// Whether a sender has told this set, which said that it sleeps, and has not said since that it is awake.
    fn is_told(&self) -> bool;
    /// Whether nobody made its sender ring again meanwhile.
    fn is_hot(&self, conn: u32) -> bool;
    /// Whether its ring has something, be it behind bytes that are on their way through TCP.
    fn has_tokens(&self, conn: u32) -> bool;
    /// Follows the sender; whether the ring has something, and a receive now would bring bytes.
    fn waiting(&mut self, conn: u32, io: i32) -> bool;
    /// Behind the last thing in its ring; `from` is where the last look ended. Where bytes on TCP come before the ring, its
    /// beginning: of what stands behind them nobody was told, whatever was told of them.
    fn frontier(&self, conn: u32, from: Option<Pos>) -> Pos;
    /// Whether a send would go into the ring, or fail at once.
    fn writable(&self, conn: u32) -> bool;
    /// Whether the kernel has room for more of a connection whose sends go through TCP.
    fn has_room(&self, io: i32) -> bool;
    /// Follows the sender; whether its bytes still come through the ring, and nothing is on TCP before them.
    fn in_ring(&mut self, conn: u32, io: i32) -> bool;
    /// Whether the other end has shut down or closed: then the kernel has more to tell than the ring.
    fn is_ending(&self, conn: u32) -> bool;
    /// Whether an error was met that the program was not told of, and the kernel does not have any more.
    fn has_error(&self, conn: u32) -> bool;
    /// Whether the other end has died with bytes unread, of which the kernel knew nothing. It has heard of it now, and has an
    /// event for that.
    fn died(&mut self, conn: u32, io: i32) -> bool;
    /// Takes bells out of the kernel, as far as that may be; `arm` asks for a new one with the next byte.
    fn settle(&mut self, conn: u32, io: i32, arm: bool) -> Settled;
    /// The next byte shall be a new bell, whatever lies in the kernel already.
    fn arm(&mut self, conn: u32);
    /// Whether the kernel has something of that descriptor: bytes, bells, an end.
    fn has_bytes(&self, io: i32) -> bool;
    /// Whether the kernel knows of an end of that descriptor's, whatever lies before it.
    fn has_end(&self, io: i32) -> bool;
    /// The kernel has ended sleeps for nothing, so many times in a row, and has something of that connection: it may be a bell for
    /// somebody who never takes it.
    fn woke_in_vain(&mut self, conn: u32, io: i32, times: u32);
    /// Wakes somebody who sleeps in the kernel's set, by an event with this value. False: the kernel has no such event.
    fn kick(&mut self, data: u64) -> bool;
    /// No such event comes any more.
    fn unkick(&mut self);
    /// Whether the kernel's set has an event.
    fn is_readable(&self) -> bool;
    /// Whether another set, of which the kernel says that it has an event, has one for the program ([`Set::is_ready`]).
    fn is_set_ready(&mut self, set: SetName) -> bool;
    /// Whether a thread of this process lives.
    fn thread_lives(&self, tid: u32) -> bool;
    /// An inherited set is used here from now on: whoever else has it is to hear of that. `wake`: also who sleeps in it; then no
    /// stranger has it.
    fn used_by_both(&mut self, wake: bool);
    /// Another set begins, or ceases, to be watched from outside. Nothing where it is closed.
    fn expose(&mut self, set: SetName, more: bool);
    /// Whether a relative that has inherited this set has begun to use it.
    fn relatives_began(&self) -> bool;
    /// Whether there is one that may begin to use it at any moment.
    fn relatives_may_come(&self) -> bool;
    /// Whether this process has another set open.
    fn is_open(&self, set: SetName) -> bool;
    /// Place `at` of the list that is looked at without the lock.
    fn list(&mut self, at: usize, conn: u32, reads: bool);
    /// Its length.
    fn listed(&mut self, n: usize);
}

/// What one epoll set of the program knows, beside the kernel's set.
#[derive(Debug)]
pub struct Set {
    rows: Rows,
    /// What is registered while there are no rows.
    plain: Plain,
    /// Rows that are connections, or sets: without any the kernel's answer is as good.
    special: usize,
    /// Rows whose number was closed, while the file stays open.
    detached: usize,
    hot: dp_edge::sys::pages::Pages<u32>,
    waiters: Waiters,
    /// Times it is watched from outside: in another set, or by poll.
    exposed: u32,
    /// It was inherited by a fork: its parent waits on it as well.
    inherited: bool,
    /// How often it was, one after the other.
    forks: u8,
    /// Inherited, and used nevertheless; or used by somebody who has inherited it: everything in it is armed.
    used_by_both: bool,
    wait: u32,
    dirty: u32,
    peeks: u32,
    turn: usize,
    /// Somebody asleep, or outside, was sent an event with this value, and nobody has been here since.
    kicked: Option<u64>,
    /// The kernel may have told somebody of that event, and tells it once.
    kick_is_spent: bool,
    /// Nobody has come back from a sleep since then.
    unheard: bool,
    /// Those of before that were taken back while somebody slept: the kernel may have told him.
    kicks: Gone,
    /// Counts registrations, and reports of those for one event; anew after 2^32.
    moment: u32,
    /// What went while somebody slept, and was told before.
    gone: Gone,
    /// When the thread fell asleep that is told of the kernel's events now.
    slept_from: Option<u32>,
    /// Values, a bit for a sixty-fourth of them, of descriptors that were closed unseen. A copy of such a one may keep its
    /// registration alive in the kernel. In a server that closes what is no channel without a word, all of them in time.
    forgotten: u64,
    /// Strangers have the kernel's set as well.
    strangers: bool,
    /// The kernel filled the whole array the last time: what is hot comes first.
    hot_first: bool,
    /// The kernel has more to tell than what it was asked for just now.
    ask_again: bool,
    /// From which entry of the array on the kernel's answers stand, once it was asked in this turn.
    asked: Option<usize>,
}

impl Default for Set {
    fn default() -> Self {
        Self::new()
    }
}

impl Set {
    /// An empty set.
    pub const fn new() -> Set {
        Set {
            rows: Rows::new(),
            plain: Plain::new(),
            special: 0,
            detached: 0,
            hot: dp_edge::sys::pages::Pages::new(),
            waiters: Waiters::new(),
            exposed: 0,
            inherited: false,
            forks: 0,
            used_by_both: false,
            wait: 0,
            dirty: 0,
            peeks: 0,
            turn: 0,
            kicked: None,
            kick_is_spent: false,
            unheard: false,
            kicks: Gone::new(),
            moment: 0,
            gone: Gone::new(),
            slept_from: None,
            forgotten: 0,
            strangers: false,
            hot_first: false,
            ask_again: false,
            asked: None,
        }
    }

    /// The interest list.
    pub fn rows(&self) -> &Rows {
        &self.rows
    }

    /// Whether waiting is the kernel's business alone now.
    pub fn is_plain(&self) -> bool {
        self.special == 0
    }

    /// Hot connections.
    pub fn hot(&self) -> usize {
        self.hot.len()
    }

    /// Cold ones that have to be looked at before the next sleep.
    pub fn peeks(&self) -> u32 {
        self.peeks
    }

    /// The connections that are hot, with the events wanted and a number that stands for them.
    pub fn hot_rows(&self) -> impl Iterator<Item = &Row> + '_ {
        self.hot.all().iter().map(|&r| self.rows.get(r))
    }

    /// Whether a thread sleeps in the kernel's set.
    pub fn is_slept_in(&self) -> bool {
        self.waiters.anyone_asleep()
    }

    /// A thread that falls asleep now is told of what is reported, and registered, since.
    pub fn moment(&self) -> u32 {
        self.moment
    }

    fn is_in_sleep(&self, moment: u32) -> bool {
        self.slept_from.is_some_and(|from| moment.wrapping_sub(from) < u32::MAX / 2)
    }

    /// The value that the kernel has of `row` is that of none any more, or of another one from here on.
    fn goes(&mut self, row: &Row) {
        // What is no connection the kernel alone tells of, and once. Of one that was told and rests it tells an end all the same.
        let was_told = row.conn().is_some() && (row.is_spent() || row.told != row.born);
        let last = if row.is_spent() { self.moment } else { row.told };
        if was_told {
            self.is_gone(row.kernel_data, last);
        }
    }

    /// Whether `bits` of this value may be an event of ours.
    fn is_ours(&self, data: u64, bits: u32) -> bool {
        let taken_back = |at| self.slept_from.is_some() && self.is_in_sleep(at);
        bits & !IN == 0 && (self.kicked == Some(data) || self.kicks.moment(data).is_some_and(taken_back))
    }

    /// What had this value is gone, and sleeps from before the moment behind `last` may have heard of it.
    fn is_gone(&mut self, data: u64, last: u32) {
        if self.waiters.anyone_asleep() {
            self.gone.note(data, last);
            self.moment = self.moment.wrapping_add(1);
        }
    }

    /// Whether the kernel may have told the thread that comes from its sleep of this value for what is gone since, and was told.
    fn may_be_gone(&self, data: u64, w: &impl World) -> bool {
        let in_sleep =
            self.slept_from.is_some() && self.gone.moment(data).is_some_and(|at| self.is_in_sleep(at));
        // What others register is not known here, and may have it, too.
        in_sleep && !self.is_shared(w)
    }

    /// The one event of row `r` is told, as the kernel told it.
    fn spent(&mut self, r: u32, w: &mut impl World) {
        let row = self.rows.get_mut(r);
        (row.once, row.told, row.by_ring) = (Once::Told, self.moment, false);
        self.moment = self.moment.wrapping_add(1);
        self.rest(r, w);
    }

    /// Nobody waits for row `r` before interest is set anew, so another set may have its connection hot. Only where nobody sets it but
    /// here.
    fn rest(&mut self, r: u32, w: &mut impl World) {
        let others = |set: &Self, w: &mut _| set.exposed > 0 || set.inherited || World::relatives_began(w);
        let Some(conn) = self.conn_of(r) else { return };
        if self.rows.get(r).rests || others(self, w) {
            return;
        }
        // Before it is said, as it is taken back before that is noted: one that was left in the middle is said to rest by none too many.
        self.rows.get_mut(r).rests = true;
        w.rests(conn, true);
        // A relative that has begun meanwhile has taken back what was said before.
        if others(self, w) {
            self.stir(r, w);
        }
    }

    /// The kernel is about to have interest in row `r` again. Whether it rested until now: then its word may be hot.
    fn stir(&mut self, r: u32, w: &mut impl World) -> bool {
        let Some(conn) = self.conn_of(r).filter(|_| self.rows.get(r).rests) else { return false };
        w.rests(conn, false);
        self.rows.get_mut(r).rests = false;
        true
    }

    /// Others may set interest from now on.
    fn stir_all(&mut self, w: &mut impl World) {
        for r in 0..self.rows.high() {
            if let (true, Some(conn)) = (self.stir(r, w), self.conn_of(r)) {
                w.make_cold_beside(conn);
            }
        }
    }

    /// A thread begins to wait. While there is another one, the kernel decides which of them hears of what.
    /// True: the kernel's set is not to have an event of ours any more, for relatives are found to use it.
    pub fn enter(&mut self, tid: u32, w: &mut impl World) -> bool {
        self.waiters.enter(tid);
        if self.waiters.count() > 1 {
            self.waiters.forget_dead(|tid| w.thread_lives(tid));
            if self.waiters.count() > 1 {
                self.cool_all(w);
            }
        }
        if self.inherited {
            self.use_both(w);
            return false;
        }
        let begins = !self.used_by_both && w.relatives_began();
        if begins {
            self.is_used_by_relatives(w);
        }
        begins
    }

    /// The thread's wait is over.
    pub fn leave(&mut self, tid: u32, w: &mut impl World) {
        self.waiters.leave(tid);
        if self.exposed > 0 {
            self.tell_outside(w);
        }
        self.tell_the_next(w);
    }

    /// The thread is about to sleep in the kernel, or is back. Whoever changes the set meanwhile tells the kernel at
    /// once.
    pub fn sleeps(&mut self, tid: u32, asleep: bool) {
        self.unheard &= asleep;
        if !self.waiters.anyone_asleep() {
            self.gone.clear();
            self.kicks.clear();
            // Nobody is left whom what was sent before could wake.
            self.unheard = false;
        }
        self.waiters.sleeps(tid, asleep);
    }

    /// The kernel has ended the sleep of a thread so many times in a row, and there was nothing to report. Whether it has something
    /// all the same: else other threads were quicker each time, and no sleep ends for nothing.
    pub fn woke_in_vain(&self, times: u32, w: &mut impl World) -> bool {
        let mut has = false;
        for r in 0..self.rows.high() {
            if let Some(conn) = self.conn_of(r).filter(|_| w.has_bytes(self.rows.get(r).io)) {
                w.woke_in_vain(conn, self.rows.get(r).io, times);
                has = true;
            }
        }
        has
    }

    /// The set's own readiness is about to be watched: it has to be the kernel's. Or no more.
    pub fn expose(&mut self, more: bool, w: &mut impl World) {
        if more {
            self.is_exposed(w);
        } else {
            self.exposed = self.exposed.saturating_sub(1);
        }
        self.tell_outside(w);
    }

    fn is_exposed(&mut self, w: &mut impl World) {
        if self.inherited {
            self.use_both(w);
        }
        self.exposed += 1;
        self.stir_all(w);
        self.cool_all(w);
        // Bells left from when they were hot would look like something to read.
        for r in 0..self.rows.high() {
            self.settle_row(r, w);
        }
    }

    /// All that is hot is watched by the kernel again, until it is hot anew.
    pub fn cool(&mut self, w: &mut impl World) {
        let last = self.hot.all().last().copied();
        // What becomes of this process may set interest in what it does not count.
        self.stir_all(w);
        self.cool_all(w);
        if let Some(r) = last.filter(|&r| self.waiters.anyone_asleep() && self.rows.is_used(r)) {
            self.kick(r, w);
        }
    }

    /// The kernel alone is to say what is ready, for good: it gets everything that was kept from it.
    pub fn hand_over(&mut self, w: &mut impl World) {
        // Threads that sleep go on in the kernel's set, which tells what there is. No event of ours may wake them any more:
        // the program would be told of.
        self.unheard = true;
        self.take_kick(w);
        self.is_exposed(w);
        for r in 0..self.rows.high() {
            if self.inherited || self.conn_of(r).is_none() {
                continue;
            }
            let row = *self.rows.get(r);
            if row.detached {
                // Its number, by which alone the kernel finds it, is gone.
                continue;
            }
            if row.is_spent() && row.doubtful {
                // Of others that were told the kernel knows.
                let _ = w.ctl(libc::EPOLL_CTL_MOD, row.io, row.want & (ET | SPECIAL), row.data);
            } else if row.want & ET != 0 && row.want & SPECIAL == 0 {
                // What was an edge here need not have been one there. One too many does no harm. (One-shot ones are never
                // looked at here, and setting interest would undo that they were told.)
                let _ = w.ctl(libc::EPOLL_CTL_MOD, row.io, row.want, row.data);
            }
        }
    }

    fn settle_row(&mut self, r: u32, w: &mut impl World) {
        if let Some(conn) = self.conn_of(r) {
            if w.is_channel(conn) {
                self.settle_cold(r, conn, w);
                self.peek_at(r, w);
            }
        }
    }

    /// Takes bells of a cold row out of the kernel, as far as that may be. Where somebody waits for edges, the next byte is
    /// to be a new bell, whatever lies in the kernel already.
    fn settle_cold(&mut self, r: u32, conn: u32, w: &mut impl World) -> Settled {
        let row = self.rows.get(r);
        let settled = w.settle(conn, row.io, true);
        if row.want & (ET | SPECIAL) != 0 || w.watched(conn) > 1 {
            w.arm(conn);
        }
        settled
    }

    fn conn_of(&self, r: u32) -> Option<u32> {
        self.rows.is_used(r).then(|| self.rows.get(r).conn()).flatten()
    }
}

#[cfg(test)]
mod tests;
