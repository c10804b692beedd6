//! Waiting on a set: look at the hot channels, ask the kernel now and then, sleep only in the kernel.

use core::sync::atomic::Ordering;

use dpfd::edge::bell;
use dpfd::edge::stream;
use dpfd::family::{Family, Stage};
use dpfd::look;
use dpfd::sys::raw;
use libc::epoll_event;

use super::{acquire, set_of, tx_in_ring, waiting, Set, ET, IN, OUT};
use crate::rx;
use crate::{channel, state};

/// The kernel is asked at least this often while hot channels keep a set busy, ns and calls (W6).
const ASK_NS: u64 = 50_000;
const ASK_CALLS: u32 = 32;

/// A sender that was killed between waking the group and sending the bell leaves everybody in the group to
/// believe that the bell is out. If a relative keeps the connection open, no FIN wakes us: look again then (L6).
const SECOND_LOOK: i64 = 1_000_000_000;

/// Milliseconds that are left of a timeout that began at `start`; negative is for ever.
fn left(timeout: i64, start: u64) -> i64 {
    if timeout < 0 {
        return -1;
    }
    (timeout - (state::now() - start) as i64).max(0)
}

/// `epoll_wait` on set `i`: `timeout` in nanoseconds, negative for ever.
///
/// `kernel(events, max, timeout_ns)` is libc's call, a cancellation point. `quiet`: the caller changes the
/// signal mask for the wait, so nothing may delay signals in user space. `None`: not a set of ours.
pub fn wait(
    i: u32,
    events: *mut epoll_event,
    max: i32,
    timeout: i64,
    quiet: bool,
    kernel: impl Fn(*mut epoll_event, i32, i64) -> Result<i32, i32>,
) -> Option<Result<i32, i32>> {
    let family = state::family()?;
    let set = set_of(i)?;
    if max <= 0 || events.is_null() {
        return None;
    }
    let alone = set.waiters.fetch_add(1, Ordering::SeqCst) == 0;
    if !alone || set.of_child {
        // Two waiters, or a set shared with the parent: every channel is armed, the kernel decides.
        if set.armed.load(Ordering::Relaxed) == 0 {
            if let Some(_guard) = acquire(&set.lock) {
                set.arm_all(family);
            }
        }
    }
    let result = wait_loop(family, set, events, max, timeout, quiet, kernel);
    set.waiters.fetch_sub(1, Ordering::SeqCst);
    Some(result)
}

fn wait_loop(
    family: Family,
    set: &mut Set,
    events: *mut epoll_event,
    max: i32,
    timeout: i64,
    quiet: bool,
    kernel: impl Fn(*mut epoll_event, i32, i64) -> Result<i32, i32>,
) -> Result<i32, i32> {
    let mut start = 0;
    let mut spun = false;
    loop {
        if set.peeks > 0 {
            if let Some(_guard) = acquire(&set.lock) {
                set.serial = set.serial.wrapping_add(1);
                // SAFETY: room for max entries.
                let kernel_has = unsafe { raw::epoll_poll(set.fd, events, max) }.unwrap_or(0);
                let n = set.filter(family, events, 0, kernel_has);
                let n = set.peeked(family, events, n, max);
                if n > 0 {
                    return Ok(n);
                }
            }
        }
        if set.hot_n > 0 {
            let Some(guard) = acquire(&set.lock) else { return kernel(events, max, timeout) };
            set.serial = set.serial.wrapping_add(1);
            set.hits += 1;
            let now = state::now();
            let mut n = 0;
            // The kernel first when its turn has come, or a full array would keep it out for ever. With nothing
            // to report, the call that sleeps asks it anyway.
            let due = set.hits >= ASK_CALLS || now - set.checked > ASK_NS;
            if timeout == 0 || (due && set.glance(family)) {
                set.sync(family);
                n = set.ask(family, events, max, now);
            }
            let peeks = set.peeks;
            n = set.look(family, events, n, max);
            // Something came to one that it took from the hot ones meanwhile, without a bell.
            let peeked = set.peeks > peeks;
            drop(guard);
            if n > 0 || timeout == 0 {
                return Ok(n);
            }
            if start == 0 {
                start = now;
            }
            if peeked {
                continue;
            }
            if !quiet && !spun && set.spin_worthwhile(family) {
                spun = true;
                if set.spin(family, left(timeout, start)) {
                    continue;
                }
            }
        } else if start == 0 {
            start = state::now();
        }
        // To sleep: say so to every group, then look once more (bell.rs).
        if let Some(_guard) = acquire(&set.lock) {
            set.sync(family);
            set.each_group(|g| g.doze());
            bell::settle();
            if set.any_news(family) {
                set.each_group(|g| g.wake());
                if timeout >= 0 && left(timeout, start) == 0 {
                    return Ok(0);
                }
                continue;
            }
        }
        let mut rest = left(timeout, start);
        if set.wary && !(0..SECOND_LOOK).contains(&rest) {
            rest = SECOND_LOOK;
        }
        let got = kernel(events, max, rest);
        let Some(_guard) = acquire(&set.lock) else { return got };
        set.each_group(|g| g.wake());
        let got = got?;
        set.serial = set.serial.wrapping_add(1);
        set.checked = state::now();
        set.hits = 0;
        set.grow_old(family);
        let mut n = set.filter(family, events, 0, got);
        n = set.look(family, events, n, max);
        if n > 0 || (timeout >= 0 && left(timeout, start) == 0) {
            return Ok(n);
        }
        spun = true;
    }
}

impl Set {
    fn any_news(&mut self, family: Family) -> bool {
        self.wary = false;
        for k in 0..self.hot_n {
            let r = self.hot[k];
            let reg = self.regs.get(r);
            let c = family.conn(reg.conn);
            self.wary |= channel::slot(c).is_some_and(|s| s.shared.load(Ordering::Relaxed) != 0);
            if reg.want & IN != 0 {
                let rx = channel::receiving(c);
                if rx.tx.moved(c.rx_epoch.load(Ordering::Relaxed)) {
                    rx::news(family, reg.fd, c, &rx); // follows
                }
                // As look() has it, or the two would disagree for ever.
                let unseen = waiting(c)
                    && (reg.want & ET == 0
                        || reg
                            .seen
                            .is_none_or(|seen| stream::frontier(&rx.ring(), &rx.rx.cursor, seen) != seen));
                if unseen || !rx.word.is_hot() {
                    return true;
                }
            }
            if reg.want & OUT != 0 && (reg.want & ET == 0 || reg.out_edge) && tx_in_ring(c) {
                return true;
            }
        }
        false
    }

    /// Whether looking before sleeping can pay: some peer runs on another CPU.
    fn spin_worthwhile(&mut self, family: Family) -> bool {
        if self.spin == 0 {
            self.spin = look::again(state::SPIN.load(Ordering::Relaxed));
            return false;
        }
        for k in 0..self.hot_n.min(64) {
            let r = self.hot[k];
            let c = family.conn(self.regs.get(r).conn);
            if c.stage() == Stage::Live && rx::may_spin(c, &channel::receiving(c)) {
                return true;
            }
        }
        false
    }

    /// Looks at the hot channels until one has something, or the budget or `limit` ns are over.
    fn spin(&mut self, family: Family, limit: i64) -> bool {
        let longest = state::SPIN.load(Ordering::Relaxed);
        let mut budget = self.spin.min(longest);
        if limit >= 0 {
            budget = budget.min(limit.min(i64::from(u32::MAX)) as u32);
        }
        let hit = rx::spin_until(budget, || self.glance(family));
        self.spin = look::learned(self.spin, hit, longest);
        hit
    }

    /// A look without the lock: a stale list entry only means a look too many.
    fn glance(&mut self, family: Family) -> bool {
        for k in 0..self.hot_n {
            let r = self.hot[k];
            let reg = self.regs.get(r);
            if reg.want & IN != 0 {
                let c = family.conn(reg.conn);
                if c.stage() == Stage::Live && rx::hint(c, &channel::receiving(c)) {
                    return true;
                }
            }
        }
        false
    }
}
