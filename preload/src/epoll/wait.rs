//! Waiting on a set: look at the hot connections, ask the kernel now and then, sleep only in the kernel.

use core::sync::atomic::Ordering;

use dp_channel::bell;
use dp_channel::family::Family;
use dp_channel::watch::{Out, Set, SetName};
use dp_edge::sys::raw;
use libc::epoll_event;

use super::world::Ground;
use super::{is_open, name, place, Locked, Place};
use crate::fdtable::{self, Entry};
use crate::lost::{self, FIRST_NET, LAST_NET};
use crate::own::Mine;
use crate::tx::owed;
use crate::{signals, spin, state};

/// The kernel is asked at least this often while hot channels keep a set busy, ns and calls (W6).
const ASK_NS: u64 = 50_000;
const ASK_CALLS: u32 = 32;

/// A sender that was killed between waking the group and sending the bell leaves everybody in the group to
/// believe that the bell is out. If a relative keeps the connection open, no FIN wakes us: look again then (L6). So too where a
/// relative that begins to use the set may take what was to tell us.
const SECOND_LOOK: i64 = 1_000_000_000;

/// Times a wait may find news that it does not report, before it sleeps a little all the same.
const PATIENCE: u32 = 100;

/// Milliseconds that are left of a timeout that began at `start`; negative is for ever.
fn left(timeout: i64, start: u64) -> i64 {
    if timeout < 0 {
        return -1;
    }
    (timeout - (state::now() - start) as i64).max(0)
}

/// The shorter of a rest, negative for ever, and a limit.
fn at_most(rest: i64, limit: i64) -> i64 {
    if (0..limit).contains(&rest) {
        rest
    } else {
        limit
    }
}

/// `epoll_wait` on set `i`, by its number `ep`: `timeout` in nanoseconds, negative for ever.
///
/// `kernel(set, events, max, timeout_ns)` is libc's call, a cancellation point. `quiet`: the caller changes the
/// signal mask for the wait, so nothing may delay signals in user space. `None`: not a set of ours.
pub fn wait(
    ep: i32,
    i: u32,
    events: *mut epoll_event,
    max: i32,
    timeout: i64,
    quiet: bool,
    kernel: impl Fn(i32, *mut epoll_event, i32, i64) -> Result<i32, i32>,
) -> Option<Result<i32, i32>> {
    let place = place(i)?;
    if max <= 0 || crate::walk::nowhere(events) {
        return None;
    }
    signals::begin();
    owed::look_after();
    let tid = state::tid();
    let mut locked = place.lock(i)?;
    if fdtable::get(ep) != Entry::Epoll(i) {
        locked.unlock();
        return None;
    }
    {
        let (set, mut w) = locked.parts();
        if set.enter(tid, &mut w) {
            w.end_event();
        }
    }
    let mut wait = Wait {
        place,
        i,
        name: name(i),
        ep,
        tid,
        events,
        max: max as usize,
        timeout,
        start: 0,
        spun: quiet,
        net: FIRST_NET,
        silent: 0,
        said: Said::Awake,
    };
    let (locked, result) = wait.run(locked, kernel)?;
    wait.end_wait(locked);
    Some(result)
}

/// What the set has been told of the thread that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    /// It looks by itself.
    Awake,
    /// It is about to sleep, and senders have heard of that.
    Dozes,
    /// So have other threads, and it sleeps.
    Sleeps,
}

struct Wait<'a> {
    place: &'a Place,
    i: u32,
    /// The set that it waits on: the place may be another's each time the lock is had again.
    name: SetName,
    /// By which number.
    ep: i32,
    tid: u32,
    events: *mut epoll_event,
    max: usize,
    timeout: i64,
    start: u64,
    spun: bool,
    net: i64,
    /// For how long its last sleeps brought nothing, ns: they may be shorter than that, for other reasons.
    silent: i64,
    said: Said,
}

type Ended<'a> = Option<(Locked<'a>, Result<i32, i32>)>;

impl<'a> Wait<'a> {
    /// The program's array, empty.
    fn out(&self) -> Out<'static> {
        // SAFETY: the program vouches for its array, and it is used by this call alone.
        Out::new(unsafe { core::slice::from_raw_parts_mut(self.events, self.max) })
    }

    /// Whether the set was closed. Under its lock.
    fn is_closed(&self) -> bool {
        !is_open(self.name)
    }

    /// A number of the set, which is not over: that of the call may be closed, or another's. Under its lock.
    fn number(&self) -> i32 {
        match fdtable::get(self.ep) == Entry::Epoll(self.i) {
            true => self.ep,
            false => self.place.fd.load(Ordering::Relaxed),
        }
    }

    /// The thread is awake, or does not sleep after all: senders and other threads hear of it. Under the set's lock.
    fn end_sleep(&mut self, set: &mut Set, w: &mut Ground) {
        let said = core::mem::replace(&mut self.said, Said::Awake);
        if said == Said::Sleeps {
            set.sleeps(self.tid, false);
        }
        if said != Said::Awake {
            w.each_group(|g| g.wake());
        }
    }

    /// The end of every wait that has the lock. Of a set that was closed nobody is to hear anything: its place may be another's.
    fn end_wait(mut self, mut locked: Locked<'a>) {
        if !self.is_closed() {
            let (set, mut w) = locked.parts();
            self.end_sleep(set, &mut w);
            set.leave(self.tid, &mut w);
        }
        locked.unlock();
    }

    /// `None` where the lock cannot be had again, in a signal handler inside it.
    fn run(
        &mut self,
        mut locked: Locked<'a>,
        kernel: impl Fn(i32, *mut epoll_event, i32, i64) -> Result<i32, i32>,
    ) -> Ended<'a> {
        let (mut turns, mut in_vain) = (0, 0);
        loop {
            let (set, mut w) = locked.parts();
            // Nothing but the kernel's, and asked for at once: its answer is all there is.
            let busy = set.hot() > 0 || set.peeks() > 0;
            if busy || self.timeout == 0 {
                let n = self.look(set, &mut w);
                if n > 0 || self.timeout == 0 {
                    return Some((locked, Ok(n as i32)));
                }
            }
            if self.start == 0 && (self.timeout > 0 || busy) {
                self.start = state::now();
            }
            let looked = w.looked().filter(|_| set.hot() > 0);
            if let (false, Some(looked), Some(family)) = (self.spun, looked, state::family()) {
                self.spun = true;
                locked.unlock();
                let hit = self.spin(looked, family);
                locked = self.place.lock(self.i)?;
                if self.is_closed() {
                    return self.outlive(locked, Ok(0), kernel);
                }
                if hit {
                    continue;
                }
            }
            let (set, mut w) = locked.parts();
            turns += 1;
            // To sleep: the kernel hears of every change, every group that we sleep; then one more look (bell.rs).
            set.sync(&mut w);
            let mut rest = left(self.timeout, self.start);
            let mut news = false;
            if set.hot() > 0 || set.peeks() > 0 {
                let how = w.falls_asleep(set);
                w.each_group(|g| g.doze(how));
                self.said = Said::Dozes;
                bell::settle();
                news = set.has_news(&mut w);
                if news && turns < PATIENCE {
                    if rest == 0 {
                        return Some((locked, Ok(0)));
                    }
                    self.end_sleep(set, &mut w);
                    continue;
                }
                if self.place.relatives.may_come() || wary(set, state::family()) {
                    rest = at_most(rest, SECOND_LOOK);
                }
                if news {
                    rest = at_most(rest, 1_000_000);
                }
            }
            if signals::came() {
                return Some((locked, Err(libc::EINTR)));
            }
            if !set.is_plain() {
                rest = at_most(rest, self.net - self.silent);
            }
            rest = owed::limits(rest);
            let Some(asleep) = self.place.relatives.falls_asleep(set.hot() > 0) else {
                self.end_sleep(set, &mut w);
                set.is_used_by_relatives(&mut w);
                w.end_event();
                continue;
            };
            set.sleeps(self.tid, true);
            self.said = Said::Sleeps;
            let from = set.moment();
            let number = self.number();
            locked.unlock();
            let got = kernel(number, self.events, self.max as i32, rest);
            asleep.ends();
            owed::look_after();
            locked = self.place.lock(self.i)?;
            self.silent = if got == Ok(0) { self.silent.saturating_add(rest) } else { 0 };
            if self.silent >= self.net && !self.is_closed() {
                locked = self.cast_the_net(locked)?;
            }
            let got = got.map(|got| self.without_event(got));
            if self.is_closed() {
                return self.outlive(locked, got, kernel);
            }
            let (set, mut w) = locked.parts();
            self.end_sleep(set, &mut w);
            let got = match got {
                Ok(got) => got as usize,
                Err(e) => return Some((locked, Err(e))),
            };
            let n = self.report((got, from), set, &mut w);
            if n > 0 || (self.timeout >= 0 && left(self.timeout, self.start) == 0) {
                return Some((locked, Ok(n as i32)));
            }
            self.spun = true;
            if !news {
                turns = 0;
            }
            in_vain = if got > 0 { in_vain + 1 } else { 0 };
            if in_vain < spin::IN_VAIN {
                continue;
            }
            if !set.woke_in_vain(in_vain, &mut w) {
                in_vain = 0;
                continue;
            }
            locked.unlock();
            spin::rest_in_vain(in_vain);
            locked = self.place.lock(self.i)?;
            if self.is_closed() {
                return self.outlive(locked, Ok(0), kernel);
            }
        }
    }

    /// Whether it went over to the kernel, and is open there. Under its lock.
    fn is_the_kernels(&self) -> bool {
        self.place.handed_over.load(Ordering::Relaxed) == self.name.life.wrapping_add(1)
    }

    /// The set was closed by another thread, or a signal handler, with `got` as the kernel's last word. The kernel's own wait
    /// would go on, so this one does; but there is no number by which it could hear of anything more. One that went over to the
    /// kernel has its number, and hears of everything: nothing is called there but what the program calls.
    fn outlive(
        &self,
        locked: Locked<'a>,
        got: Result<i32, i32>,
        kernel: impl Fn(i32, *mut epoll_event, i32, i64) -> Result<i32, i32>,
    ) -> Ended<'a> {
        static EMPTY: Mine = Mine::none();
        let rest = left(self.timeout, self.start);
        if got != Ok(0) || rest == 0 {
            return Some((locked, got));
        }
        let set = match self.is_the_kernels() {
            true => Some(self.ep),
            false => EMPTY.or_make(raw::epoll_create),
        };
        let Some(set) = set else { return Some((locked, got)) };
        locked.unlock();
        let got = kernel(set, self.events, self.max as i32, rest);
        Some((self.place.lock(self.i)?, got))
    }

    /// What the kernel reported, but for the set's own event.
    fn without_event(&self, got: i32) -> i32 {
        // SAFETY: the kernel filled as many entries of the program's array.
        let kept = unsafe { super::without(self.events, got.max(0) as usize) as i32 };
        if kept < got && !self.is_closed() {
            self.place.event.heard();
        }
        kept
    }

    /// What there is now, without waiting: the hot ones' rings, what no bell announced, and the kernel's where its turn
    /// has come.
    fn look(&self, set: &mut Set, w: &mut Ground) -> usize {
        set.begin();
        let mut out = self.out();
        let now = state::now();
        let hits = self.place.hits.load(Ordering::Relaxed) + 1;
        self.place.hits.store(hits, Ordering::Relaxed);
        let hot_first = set.hot_first();
        if hot_first {
            set.look(&mut out, w);
            set.peeked(&mut out, w);
            if out.is_full() {
                set.filled(false);
                return out.len();
            }
        }
        let checked = self.place.checked.load(Ordering::Relaxed);
        let due = hits >= ASK_CALLS || now.saturating_sub(checked) > ASK_NS || set.peeks() > 0;
        // With nothing to report, the call that sleeps asks it anyway.
        let something = || {
            !out.is_empty()
                || set.peeks() > 0
                || state::family().is_some_and(|f| w.looked().is_some_and(|l| l.any(f)))
        };
        let asks = self.timeout == 0 || (due && something());
        if asks {
            self.ask(now, &mut out, set, w);
        }
        if !hot_first {
            set.look(&mut out, w);
            // One that ends is hot no more, and of its end the kernel tells, with what its ring still has.
            let cooled = !asks && set.peeks() > 0 && !out.is_full();
            if cooled {
                self.ask(now, &mut out, set, w);
            }
            set.peeked(&mut out, w);
            // There was something all the same: room, or what has come just now. The rest is told with it.
            if due && !asks && !cooled && !out.is_empty() && !out.is_full() {
                self.ask(now, &mut out, set, w);
            }
        } else if !out.is_full() {
            set.filled(false);
        }
        out.len()
    }

    /// Asks the kernel, at `now`, for what there is room for.
    fn ask(&self, now: u64, out: &mut Out, set: &mut Set, w: &mut Ground) {
        set.before_asking(out.rest().len(), w);
        self.place.checked.store(now, Ordering::Relaxed);
        self.place.hits.store(0, Ordering::Relaxed);
        let fd = self.place.fd.load(Ordering::Relaxed);
        for _ in 0..PATIENCE {
            let rest = out.rest();
            // SAFETY: room for as many entries.
            let got = unsafe { raw::epoll_poll(fd, rest.as_mut_ptr(), rest.len() as i32) };
            let (got, room) = (got.unwrap_or(0) as usize, rest.len());
            // SAFETY: the kernel filled as many entries.
            let told = unsafe { super::without(rest.as_mut_ptr(), got) };
            if told < got {
                self.place.event.heard();
            }
            set.filter(told, out, w);
            // Bells alone took all the room: what stands behind them is ready, too.
            if out.is_full() || !set.asks_again() && (got < room || !out.is_empty()) {
                break;
            }
        }
        if out.is_full() {
            set.filled(true);
        }
    }

    /// What the kernel returned from a sleep, which began at a moment of the set's, and what came by the way.
    fn report(&self, (got, from): (usize, u32), set: &mut Set, w: &mut Ground) -> usize {
        set.begin();
        self.place.checked.store(state::now(), Ordering::Relaxed);
        self.place.hits.store(0, Ordering::Relaxed);
        set.grow_old(w);
        let mut out = self.out();
        set.filter_after_sleep(from, got, &mut out, w);
        if set.asks_again() && !out.is_full() {
            self.ask(state::now(), &mut out, set, w);
        }
        if out.is_full() {
            set.filled(true);
        }
        set.look(&mut out, w);
        set.peeked(&mut out, w);
        out.len()
    }

    /// Looks at the hot channels until one has something, or the budget, or the time that is left, is over.
    fn spin(&self, looked: &super::Looked, family: Family) -> bool {
        let longest = looked.longest(family);
        let mut budget = spin::begin(&self.place.spin, longest);
        if budget == 0 {
            return false;
        }
        let rest = left(self.timeout, self.start);
        if rest >= 0 {
            budget = budget.min(rest.min(i64::from(u32::MAX)) as u32);
        }
        spin::looking(|| {
            if !looked.may_pay(family) {
                return false;
            }
            spin::learning(&self.place.spin, budget, longest, || looked.any(family) || signals::came())
        })
    }

    /// A sleep of some seconds brought nothing. If a connection holds something all the same, of which nobody has told
    /// when whatever was on its way has come, a wake-up was lost: it is counted, and reported by the next look.
    fn cast_the_net(&mut self, mut locked: Locked<'a>) -> Option<Locked<'a>> {
        self.net = (self.net * 2).min(LAST_NET);
        self.silent = 0;
        let (set, mut w) = locked.parts();
        if !set.find_lost(&mut w) {
            return Some(locked);
        }
        locked.unlock();
        let fd = self.place.fd.load(Ordering::Relaxed);
        let announced = !lost::never_comes(|| !raw::is_readable(fd));
        locked = self.place.lock(self.i)?;
        let (set, mut w) = locked.parts();
        if !self.is_closed() && !announced && set.find_lost(&mut w) {
            lost::count();
            self.net = FIRST_NET;
        }
        Some(locked)
    }
}

/// Whether a hot channel's sender is more than one process (L6).
fn wary(set: &Set, family: Option<Family>) -> bool {
    family.is_some_and(|family| {
        set.hot_rows()
            .filter_map(|row| row.conn())
            .any(|conn| family.conn(conn).slot().is_some_and(|s| s.shared.load(Ordering::Relaxed) != 0))
    })
}
