//! What a wait reports: the hot channels' rings, and the kernel's events without the bells.

use core::sync::atomic::Ordering;

use dpfd::edge::stream;
use dpfd::edge::switch::in_ring;
use dpfd::family::{Family, Stage};
use dpfd::sys::raw;
use libc::epoll_event;

use super::{tx_in_ring, waiting, Set, ALWAYS, ET, IN, OUT};
use crate::channel;
use crate::rx::{self, Settled};

impl Set {
    /// Reports what the hot channels have, from `n` on; the new count.
    pub(super) fn look(&mut self, family: Family, events: *mut epoll_event, mut n: i32, max: i32) -> i32 {
        let hot_n = self.hot_n;
        let mut k = 0;
        while k < hot_n && k < self.hot_n && n < max {
            let at = (self.turn + k) % self.hot_n;
            k += 1;
            let r = self.hot[at];
            let serial = self.serial;
            let reg = self.regs.get(r);
            let c = family.conn(reg.conn);
            let mut ev = 0;
            if reg.want & IN != 0 && waiting(c) {
                if reg.want & ET == 0 {
                    ev |= reg.want & IN;
                } else {
                    let rx = channel::receiving(c);
                    let from = reg.seen.unwrap_or_default();
                    let front = stream::frontier(&rx.ring(), &rx.rx.cursor, from);
                    if reg.seen != Some(front) {
                        reg.seen = Some(front);
                        ev |= reg.want & IN;
                    }
                }
                reg.age = 0;
            }
            if reg.want & OUT != 0 && (reg.want & ET == 0 || reg.out_edge) {
                if tx_in_ring(c) {
                    ev |= reg.want & OUT;
                    reg.out_edge = false;
                } else if reg.dirty {
                    // The direction is on TCP now: only the kernel knows when it is writable.
                    self.dirty -= 1;
                    self.sync_one(family, r);
                    continue;
                }
            }
            if ev == 0 {
                let rx = channel::receiving(c);
                let fd = reg.fd;
                let gone = !rx.word.is_hot()
                    || c.stage() != Stage::Live
                    || (rx.tx.moved(c.rx_epoch.load(Ordering::Relaxed))
                        && !rx::news(family, fd, c, &rx)
                        && !in_ring(c.rx_epoch.load(Ordering::Relaxed)));
                if gone {
                    self.cool_checked(family, r);
                }
                continue;
            }
            let reg = self.regs.get(r);
            if reg.serial == serial {
                // SAFETY: `at` was filled in this call.
                unsafe { (*events.add(reg.at as usize)).events |= ev };
            } else {
                reg.serial = serial;
                reg.at = n as u32;
                // SAFETY: n < max.
                unsafe { *events.add(n as usize) = epoll_event { events: ev, u64: reg.data } };
                n += 1;
            }
        }
        if self.hot_n > 0 {
            self.turn = (self.turn + k) % self.hot_n;
        }
        n
    }

    /// Reports cold channels with something in the ring that no bell announced.
    pub(super) fn peeked(&mut self, family: Family, events: *mut epoll_event, mut n: i32, max: i32) -> i32 {
        for r in 0..self.regs.high() {
            let serial = self.serial;
            let reg = self.regs.get(r);
            if !reg.used || !reg.peek || n == max {
                continue;
            }
            let c = family.conn(reg.conn);
            let there = c.stage() == Stage::Live && waiting(c) && !reg.hot;
            if !there || reg.want & ET != 0 {
                reg.peek = false;
                self.peeks -= 1;
            }
            let ev = reg.want & IN;
            if !there || ev == 0 {
                continue;
            }
            if reg.serial == serial {
                // SAFETY: filled in this call.
                unsafe { (*events.add(reg.at as usize)).events |= ev };
                continue;
            }
            reg.serial = serial;
            reg.at = n as u32;
            // SAFETY: n < max.
            unsafe { *events.add(n as usize) = epoll_event { events: ev, u64: reg.data } };
            n += 1;
        }
        n
    }

    /// What the kernel has, without waiting.
    pub(super) fn ask(&mut self, family: Family, events: *mut epoll_event, max: i32, now: u64) -> i32 {
        self.checked = now;
        self.hits = 0;
        // SAFETY: room for max entries.
        match unsafe { raw::epoll_poll(self.fd, events, max) } {
            Ok(got) if got > 0 => self.filter(family, events, 0, got),
            _ => 0,
        }
    }

    /// Goes through the kernel's events `from..to`: drains bells, drops what was only a bell, heats.
    pub(super) fn filter(&mut self, family: Family, events: *mut epoll_event, from: i32, to: i32) -> i32 {
        let mut n = from;
        for k in from..to {
            // SAFETY: the kernel filled it.
            let mut e = unsafe { *events.add(k as usize) };
            if let Some(r) = self.regs.by_data(e.u64) {
                match self.judge(family, r, e.events) {
                    Some(0) => continue,
                    Some(bits) => {
                        let serial = self.serial;
                        let reg = self.regs.get(r);
                        e = epoll_event { events: bits, u64: reg.data };
                        if reg.serial == serial {
                            // SAFETY: filled earlier in this call.
                            unsafe { (*events.add(reg.at as usize)).events |= bits };
                            continue;
                        }
                        reg.serial = serial;
                        reg.at = n as u32;
                    }
                    None => {}
                }
            }
            // SAFETY: n <= k.
            unsafe { *events.add(n as usize) = e };
            n += 1;
        }
        n
    }

    /// The kernel says `bits` of a registered channel: what the program shall hear. `None`: just that.
    fn judge(&mut self, family: Family, r: u32, bits: u32) -> Option<u32> {
        let (fd, conn, want) = {
            let reg = self.regs.get(r);
            (reg.fd, reg.conn, reg.want)
        };
        let c = family.conn(conn);
        if !matches!(c.stage(), Stage::Accepted | Stage::Live) {
            return None;
        }
        if want == 0 {
            return Some(0);
        }
        let mut bits = bits & (want | ALWAYS);
        if bits & IN != 0 {
            crate::leave::follow_if_left(family, fd, c);
            // Hot by our list and by the word: somebody else may have cooled it.
            let hot = channel::receiving(c).word.is_hot();
            if !hot && self.regs.get(r).hot {
                self.cool_checked(family, r);
            }
            let was = rx::settle(family, fd, c, !hot);
            let heated = (hot && self.regs.get(r).hot) || self.heat(c, r);
            let epoch = c.rx_epoch.load(Ordering::Relaxed);
            // Behind a hand-back the edge may be that of bytes on TCP.
            let ring = in_ring(epoch) && !channel::receiving(c).tx.moved(epoch);
            match was {
                // A hot one is reported by look(), with its edges.
                Settled::News if heated && ring && waiting(c) => bits &= !IN,
                Settled::Quiet => {
                    bits &= !IN;
                    if bits & !ALWAYS == 0 && want & libc::EPOLLONESHOT as u32 != 0 && bits == 0 {
                        let reg = self.regs.get(r);
                        let e = epoll_event { events: reg.want, u64: reg.data };
                        let _ = raw::epoll_ctl(self.fd, libc::EPOLL_CTL_MOD, fd, Some(e));
                    }
                }
                _ => {}
            }
        }
        Some(bits)
    }
}
