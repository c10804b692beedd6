//! What the program registers: noted here, and told to the kernel at once or before the set sleeps.

use core::sync::atomic::Ordering;

use dpfd::family::{Conn, Family, Stage};
use dpfd::sys::raw;

use super::regs::Reg;
use super::{tx_in_ring, Set, ALWAYS, OUT};
use crate::channel;

impl Set {
    pub(super) fn control(
        &mut self,
        family: Family,
        op: i32,
        fd: i32,
        conn: u32,
        event: Option<libc::epoll_event>,
    ) -> Option<Result<(), i32>> {
        let c = family.conn(conn);
        let known = self.regs.by_fd(fd, conn);
        match (op, known, event) {
            (libc::EPOLL_CTL_ADD, None, Some(e)) => Some(self.add(c, fd, conn, e)),
            (libc::EPOLL_CTL_ADD, Some(r), Some(e)) => {
                let reg = self.regs.get(r);
                if reg.want != 0 {
                    return Some(Err(libc::EEXIST));
                }
                // Deleted here, not yet in the kernel: there again.
                Some(self.change(c, r, e))
            }
            (libc::EPOLL_CTL_MOD, Some(r), Some(e)) => {
                if self.regs.get(r).want == 0 {
                    return Some(Err(libc::ENOENT));
                }
                Some(self.change(c, r, e))
            }
            (libc::EPOLL_CTL_DEL, Some(r), _) => {
                if self.regs.get(r).want == 0 {
                    return Some(Err(libc::ENOENT));
                }
                if self.regs.get(r).hot {
                    self.mark_dirty(r);
                    self.regs.get(r).want = 0;
                    return Some(Ok(()));
                }
                let result = raw::epoll_ctl(self.fd, op, fd, None).map(|_| ());
                self.remove(c, r);
                Some(result)
            }
            _ => None,
        }
    }

    fn add(&mut self, c: &Conn, fd: i32, conn: u32, e: libc::epoll_event) -> Result<(), i32> {
        // From here on the kernel's readiness counts, so senders must ring.
        if c.watched.fetch_add(1, Ordering::SeqCst) > 0 {
            c.set(Conn::ARMED);
        }
        raw::epoll_ctl(self.fd, libc::EPOLL_CTL_ADD, fd, Some(e)).inspect_err(|_| {
            c.watched.fetch_sub(1, Ordering::SeqCst);
        })?;
        if e.events & (libc::EPOLLONESHOT | libc::EPOLLEXCLUSIVE) as u32 != 0 {
            c.set(Conn::ARMED);
        }
        let reg = Reg {
            fd,
            conn,
            want: e.events | ALWAYS,
            kernel: e.events | ALWAYS,
            data: e.u64,
            kernel_data: e.u64,
            out_edge: true,
            ..Reg::default()
        };
        if let Some(r) = self.regs.insert(reg) {
            if c.stage() == Stage::Live {
                let word = channel::receiving(c).word;
                word.cool();
                // What came while nobody relied on the kernel was not rung for: look at it ourselves.
                if !self.heat(c, r) {
                    self.peek_at(c, r);
                }
            }
        } else {
            c.set(Conn::ARMED);
        }
        Ok(())
    }

    fn change(&mut self, c: &Conn, r: u32, e: libc::epoll_event) -> Result<(), i32> {
        let set_fd = self.fd;
        let reg = self.regs.get(r);
        let special = (libc::EPOLLONESHOT | libc::EPOLLEXCLUSIVE) as u32;
        let lazy = reg.hot && e.events & special == 0 && (e.events & OUT == 0 || tx_in_ring(c));
        if !lazy {
            raw::epoll_ctl(set_fd, libc::EPOLL_CTL_MOD, reg.fd, Some(e)).map(|_| ())?;
            reg.kernel = e.events | ALWAYS;
        }
        let old = reg.kernel_data;
        reg.want = e.events | ALWAYS;
        reg.data = e.u64;
        // Setting interest anew is a new chance for an edge.
        reg.out_edge = true;
        reg.seen = None;
        if !lazy {
            reg.kernel_data = e.u64;
            if old != e.u64 {
                self.regs.rehash();
            }
            if e.events & special != 0 {
                c.set(Conn::ARMED);
                if self.regs.get(r).hot {
                    self.cool(c, r);
                }
            }
        } else if reg.want != reg.kernel || reg.data != reg.kernel_data {
            self.mark_dirty(r);
        }
        Ok(())
    }

    fn mark_dirty(&mut self, r: u32) {
        let reg = self.regs.get(r);
        if !reg.dirty {
            reg.dirty = true;
            self.dirty += 1;
        }
    }

    /// Tells the kernel what changed here. Before every sleep, and before a channel cools.
    pub(super) fn sync(&mut self, family: Family) {
        if self.dirty == 0 {
            return;
        }
        let mut n = 0;
        while n < self.hot_n {
            let r = self.hot[n];
            if self.regs.get(r).dirty {
                self.sync_one(family, r);
            }
            // sync_one may have taken this one out and put the last one here.
            if n < self.hot_n && self.hot[n] == r {
                n += 1;
            }
        }
        self.dirty = 0;
    }

    pub(super) fn sync_one(&mut self, family: Family, r: u32) {
        let set_fd = self.fd;
        let reg = self.regs.get(r);
        reg.dirty = false;
        let c = family.conn(reg.conn);
        if reg.want == 0 {
            let _ = raw::epoll_ctl(set_fd, libc::EPOLL_CTL_DEL, reg.fd, None);
            self.cool(c, r);
            self.remove(c, r);
        } else if reg.want != reg.kernel || reg.data != reg.kernel_data {
            let e = libc::epoll_event { events: reg.want, u64: reg.data };
            let _ = raw::epoll_ctl(set_fd, libc::EPOLL_CTL_MOD, reg.fd, Some(e));
            reg.kernel = reg.want;
            if reg.kernel_data != reg.data {
                reg.kernel_data = reg.data;
                self.regs.rehash();
            }
        }
    }

    pub(super) fn remove(&mut self, c: &Conn, r: u32) {
        if self.regs.get(r).hot {
            self.cool(c, r);
        }
        self.unlist(r);
        c.watched.fetch_sub(1, Ordering::SeqCst);
    }

    /// Forgets a registration in this process, and nowhere else.
    pub(super) fn unlist(&mut self, r: u32) {
        if self.regs.get(r).hot {
            self.off_the_list(r);
        }
        if self.regs.get(r).peek {
            self.peeks -= 1;
        }
        self.regs.remove(r);
    }
}
