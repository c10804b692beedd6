//! Hot and cold: which channels a set looks at itself, and the groups by which it says that it sleeps.

use core::sync::atomic::Ordering;

use dpfd::edge::arena::GROUPS;
use dpfd::edge::bell::Group;
use dpfd::edge::slot::Side;
use dpfd::edge::switch::in_ring;
use dpfd::family::{Conn, Family, Stage};
use dpfd::sys::raw;

use super::{waiting, Set, MAX_ARENAS, MAX_HOT};
use crate::channel;

/// Sleeps without a hit after which a hot channel cools.
const STALE: u8 = 32;

impl Set {
    /// Makes a channel hot in this set, if it may be. True when it is.
    pub(super) fn heat(&mut self, c: &Conn, r: u32) -> bool {
        if self.regs.get(r).hot {
            return true;
        }
        if self.armed.load(Ordering::Relaxed) != 0
            || self.hot_n == MAX_HOT
            || c.stage() != Stage::Live
            || !in_ring(c.rx_epoch.load(Ordering::Relaxed))
            || c.has(Conn::ARMED)
            || c.watched.load(Ordering::SeqCst) != 1
        {
            return false;
        }
        let Some(group) = self.group(c) else { return false };
        if !channel::receiving(c).word.heat_group(group) {
            return false;
        }
        let n = self.hot_n as u32;
        let reg = self.regs.get(r);
        reg.hot = true;
        reg.age = 0;
        reg.hot_at = n;
        self.hot[self.hot_n] = r;
        self.hot_n += 1;
        true
    }

    /// Back to the kernel's readiness. Bells ring from here on.
    pub(super) fn cool(&mut self, c: &Conn, r: u32) {
        self.off_the_list(r);
        if c.stage() == Stage::Live {
            channel::receiving(c).word.cool();
            self.peek_at(c, r);
        }
    }

    /// Takes a channel out of the list of hot ones; its word still says hot.
    pub(super) fn off_the_list(&mut self, r: u32) {
        let at = self.regs.get(r).hot_at as usize;
        self.regs.get(r).hot = false;
        self.hot_n -= 1;
        if at != self.hot_n {
            let last = self.hot[self.hot_n];
            self.hot[at] = last;
            self.regs.get(last).hot_at = at as u32;
        }
    }

    /// A channel that is not hot here: what came while it was, no bell announced.
    pub(super) fn peek_at(&mut self, c: &Conn, r: u32) {
        if waiting(c) && !self.regs.get(r).peek {
            self.regs.get(r).peek = true;
            self.peeks += 1;
        }
    }

    pub(super) fn cool_checked(&mut self, family: Family, r: u32) {
        if self.regs.get(r).dirty {
            self.dirty -= 1;
            let gone = self.regs.get(r).want == 0;
            self.sync_one(family, r);
            if gone {
                return;
            }
        }
        let c = family.conn(self.regs.get(r).conn);
        self.cool(c, r);
    }

    /// Once per sleep: channels that had nothing for long leave the list of hot ones.
    pub(super) fn grow_old(&mut self, family: Family) {
        let mut k = 0;
        while k < self.hot_n {
            let r = self.hot[k];
            let reg = self.regs.get(r);
            reg.age = reg.age.saturating_add(1);
            if reg.age > STALE {
                let c = family.conn(reg.conn);
                if !waiting(c) {
                    self.cool_checked(family, r);
                    if waiting(c) {
                        // It came in between, unannounced: keep looking at it.
                        self.heat(c, r);
                    } else {
                        continue;
                    }
                }
            }
            k += 1;
        }
    }

    /// This set's group in the connection's arena (1-based).
    fn group(&mut self, c: &Conn) -> Option<u8> {
        let groups = my_groups(c);
        let at = groups.as_ptr() as usize;
        if let Some(g) = self.groups[..self.groups_n].iter().find(|g| g.0 == at) {
            return Some(g.1);
        }
        if self.groups_n == MAX_ARENAS {
            return None;
        }
        let space = u64::from(dpfd::family::space());
        let me = (space << 32) | u64::from(raw::getpid());
        // A pid says something only in its own namespace; elsewhere the owner counts as alive.
        let dead = |o: u64| o >> 32 == space && raw::probe_process(o as u32) == Err(libc::ESRCH);
        let i = (0..GROUPS).find(|&i| {
            let owner = groups[i].taken.load(Ordering::Relaxed);
            (owner == 0 || dead(owner))
                && groups[i].taken.compare_exchange(owner, me, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })?;
        groups[i].wake();
        self.groups[self.groups_n] = (at, i as u8 + 1);
        self.groups_n += 1;
        Some(i as u8 + 1)
    }

    pub(super) fn each_group(&self, f: impl Fn(&Group)) {
        for g in &self.groups[..self.groups_n] {
            // SAFETY: the address of this side's groups in an arena that a registered connection keeps
            // mapped; forget_groups() drops the entry before the last one goes.
            f(unsafe { &*(g.0 as *const Group).add(usize::from(g.1) - 1) });
        }
    }

    /// All channels back to the kernel's readiness, for good.
    pub(super) fn arm_all(&mut self, family: Family) {
        self.armed.store(1, Ordering::SeqCst);
        self.sync(family);
        while self.hot_n > 0 {
            let r = self.hot[self.hot_n - 1];
            let c = family.conn(self.regs.get(r).conn);
            self.cool(c, r);
        }
        self.regs.each(|reg| {
            let c = family.conn(reg.conn);
            c.set(Conn::ARMED);
            if matches!(c.stage(), Stage::Accepted | Stage::Live) {
                // Bells left from when it was hot would look like something to read.
                crate::rx::settle(family, reg.fd, c, true);
            }
        });
    }
}

/// This side's groups: client's and server's lie next to each other.
fn my_groups(c: &Conn) -> &'static [Group] {
    let theirs = channel::peer_groups(c).as_ptr();
    // SAFETY: arena.rs lays the client's groups out before the server's.
    unsafe {
        let mine = if c.side.load(Ordering::Relaxed) == Side::Client as u32 {
            theirs.sub(GROUPS)
        } else {
            theirs.add(GROUPS)
        };
        core::slice::from_raw_parts(mine, GROUPS)
    }
}
