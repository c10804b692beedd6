//! Epoll sets: which channels are hot in them, and waiting (PROTOCOLS W3, W6, and bell.rs on groups).
//!
//! The kernel's set stays as it is; what the program registered is also noted here for channels. A channel
//! whose bell brought an event becomes *hot*: from then on the set looks at its ring itself, its sender
//! does not ring, and registrations of it are changed here first and told to the kernel only before the
//! set sleeps. Channels not used for a while cool down, so the cost grows with the active ones.
//!
//! Lock order: a set's lock, then a connection's. Nothing sleeps in the kernel holding either.

mod regs;
mod wait;

use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use dpfd::edge::arena::GROUPS;
use dpfd::edge::bell::Group;
use dpfd::edge::slot::Side;
use dpfd::edge::stream;
use dpfd::edge::switch::in_ring;
use dpfd::family::{Conn, Family, Stage};
use dpfd::sys::raw;

use crate::fdtable::{self, Entry};
use crate::{channel, state};
use regs::{Reg, Regs};
pub use wait::wait;

const SETS: usize = 1024;
static TABLE: [AtomicPtr<Set>; SETS] = [const { AtomicPtr::new(core::ptr::null_mut()) }; SETS];

/// Most hot channels in one set: looking at more costs more than their bells.
const MAX_HOT: usize = 1024;
/// Sleeps without a hit after which a hot channel cools.
const STALE: u8 = 32;
const MAX_ARENAS: usize = 32;

/// One epoll set of the program.
pub struct Set {
    lock: AtomicU32,
    refs: AtomicU32,
    fd: i32,
    /// Watched in ways the shim does not see (nested, shared with a child, several waiters): all armed.
    armed: AtomicU32,
    waiters: AtomicU32,
    regs: Regs,
    hot: [u32; MAX_HOT],
    hot_n: usize,
    turn: usize,
    groups: [(usize, u8); MAX_ARENAS],
    groups_n: usize,
    serial: u32,
    dirty: u32,
    peeks: u32,
    spin: u32,
    checked: u64,
    hits: u32,
    of_child: bool,
}

/// The set's lock; released on drop. A spinning lock: holders never sleep.
///
/// It does not borrow the set: sets stay mapped as long as a descriptor of theirs is open.
struct Guard(*const AtomicU32);

impl Drop for Guard {
    fn drop(&mut self) {
        // SAFETY: see the type.
        unsafe { (*self.0).store(0, Ordering::Release) };
    }
}

fn acquire(lock: &AtomicU32) -> Option<Guard> {
    for turn in 0..20_000u32 {
        if lock.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return Some(Guard(lock));
        }
        if turn < 200 {
            core::hint::spin_loop();
        } else {
            raw::yield_now();
        }
    }
    // A signal handler inside the set's own critical section: the caller takes the kernel's way.
    None
}

/// The set behind an index.
fn set_of(i: u32) -> Option<&'static mut Set> {
    let p = TABLE[i as usize % SETS].load(Ordering::Acquire);
    // SAFETY: made by make(), freed by close() only when its last descriptor is; every access but the
    // atomic fields is under the set's lock.
    (!p.is_null()).then(|| unsafe { &mut *p })
}

fn make(fd: i32) -> Option<u32> {
    const BYTES: usize = size_of::<Set>().next_multiple_of(4096);
    // SAFETY: an anonymous mapping; zero is a valid Set but for the fields set below.
    let p = unsafe {
        libc::mmap(
            core::ptr::null_mut(),
            BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if p == libc::MAP_FAILED {
        return None;
    }
    let p = p.cast::<Set>();
    // SAFETY: just mapped, zeroed, nobody else knows it.
    unsafe {
        (*p).fd = fd;
        (*p).refs = AtomicU32::new(1);
        (*p).spin = state::SPIN.load(Ordering::Relaxed);
    }
    let place = (0..SETS).find(|&i| {
        TABLE[i].compare_exchange(core::ptr::null_mut(), p, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    });
    if place.is_none() {
        // SAFETY: mapped above.
        unsafe { libc::munmap(p.cast(), BYTES) };
    }
    place.map(|i| i as u32)
}

/// The program's `epoll_ctl` on a connection or a set of ours: whether it was dealt with, and how.
/// `None`: the kernel call is still to be made.
pub fn ctl(epfd: i32, op: i32, fd: i32, event: Option<libc::epoll_event>) -> Option<Result<(), i32>> {
    match fdtable::get(fd) {
        // A set inside a set: the inner one's readiness must be the kernel's.
        Entry::Epoll(inner) if op == libc::EPOLL_CTL_ADD => {
            share(inner);
            None
        }
        Entry::Conn(i) => {
            let family = state::family()?;
            let set = match fdtable::get(epfd) {
                Entry::Epoll(s) => set_of(s)?,
                Entry::None if op == libc::EPOLL_CTL_ADD => {
                    let s = make(epfd)?;
                    fdtable::set(epfd, Entry::Epoll(s));
                    set_of(s)?
                }
                _ => return None,
            };
            let guard = acquire(&set.lock)?;
            let set = set_of(match fdtable::get(epfd) {
                Entry::Epoll(s) => s,
                _ => return None,
            })?;
            let result = set.control(family, op, fd, i, event);
            drop(guard);
            result
        }
        _ => None,
    }
}

impl Set {
    fn control(
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
    fn sync(&mut self, family: Family) {
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

    fn sync_one(&mut self, family: Family, r: u32) {
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

    fn remove(&mut self, c: &Conn, r: u32) {
        if self.regs.get(r).hot {
            self.cool(c, r);
        }
        if self.regs.get(r).peek {
            self.peeks -= 1;
        }
        self.regs.remove(r);
        c.watched.fetch_sub(1, Ordering::SeqCst);
    }

    /// Makes a channel hot in this set, if it may be. True when it is.
    fn heat(&mut self, c: &Conn, r: u32) -> bool {
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
    fn cool(&mut self, c: &Conn, r: u32) {
        let at = self.regs.get(r).hot_at as usize;
        self.regs.get(r).hot = false;
        self.hot_n -= 1;
        if at != self.hot_n {
            let last = self.hot[self.hot_n];
            self.hot[at] = last;
            self.regs.get(last).hot_at = at as u32;
        }
        if c.stage() == Stage::Live {
            channel::receiving(c).word.cool();
            self.peek_at(c, r);
        }
    }

    /// A channel that is not hot here: what came while it was, no bell announced.
    fn peek_at(&mut self, c: &Conn, r: u32) {
        if waiting(c) && !self.regs.get(r).peek {
            self.regs.get(r).peek = true;
            self.peeks += 1;
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
        let pid = raw::getpid();
        let i = (0..GROUPS).find(|&i| {
            let owner = groups[i].taken.load(Ordering::Relaxed);
            (owner == 0 || raw::probe_process(owner) == Err(libc::ESRCH))
                && groups[i].taken.compare_exchange(owner, pid, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })?;
        groups[i].wake();
        self.groups[self.groups_n] = (at, i as u8 + 1);
        self.groups_n += 1;
        Some(i as u8 + 1)
    }

    fn each_group(&self, f: impl Fn(&Group)) {
        for g in &self.groups[..self.groups_n] {
            // SAFETY: the address of this side's groups in an arena that a registered connection keeps
            // mapped; forget_groups() drops the entry before the last one goes.
            f(unsafe { &*(g.0 as *const Group).add(usize::from(g.1) - 1) });
        }
    }

    /// All channels back to the kernel's readiness, for good.
    fn arm_all(&mut self, family: Family) {
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

const ALWAYS: u32 = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
const IN: u32 = (libc::EPOLLIN | libc::EPOLLRDNORM) as u32;
const OUT: u32 = (libc::EPOLLOUT | libc::EPOLLWRNORM) as u32;
const ET: u32 = libc::EPOLLET as u32;

fn tx_in_ring(c: &Conn) -> bool {
    c.stage() == Stage::Live && in_ring(channel::sending(c).tx.epoch()) && channel::slot_live(c)
}

fn waiting(c: &Conn) -> bool {
    let rx = channel::receiving(c);
    stream::waiting(&rx.ring, &rx.rx.cursor)
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

/// The program closes `fd`: what was noted of it goes. The kernel forgets it by itself, unless copies of
/// the descriptor remain.
pub fn forget(fd: i32) {
    let (Some(family), Some(conn)) = (state::family(), fdtable::conn(fd)) else { return };
    let c = family.conn(conn);
    if c.watched.load(Ordering::SeqCst) == 0 {
        return;
    }
    for slot in &TABLE {
        let p = slot.load(Ordering::Acquire);
        if p.is_null() {
            continue;
        }
        // SAFETY: as in set_of().
        let set = unsafe { &mut *p };
        let Some(_guard) = acquire(&set.lock) else { continue };
        if let Some(r) = set.regs.by_fd(fd, conn) {
            if set.regs.get(r).want == 0 || fdtable::refs(conn).load(Ordering::Relaxed) > 1 {
                let _ = raw::epoll_ctl(set.fd, libc::EPOLL_CTL_DEL, fd, None);
            }
            set.remove(c, r);
        }
    }
}

/// The set is watched in more than one way from now on.
pub fn share(i: u32) {
    if let (Some(set), Some(family)) = (set_of(i), state::family()) {
        set.refs.fetch_add(1, Ordering::Relaxed);
        if let Some(_guard) = acquire(&set.lock) {
            set.arm_all(family);
        }
    }
}

/// Makes a set's readiness the kernel's, before somebody polls the set itself.
pub fn expose(i: u32) {
    if let (Some(set), Some(family)) = (set_of(i), state::family()) {
        if set.armed.load(Ordering::Relaxed) == 0 {
            if let Some(_guard) = acquire(&set.lock) {
                set.arm_all(family);
            }
        }
    }
}

/// Whether some channel of the set has something that no bell announced.
pub fn has_news(i: u32) -> bool {
    let (Some(set), Some(family)) = (set_of(i), state::family()) else { return false };
    let Some(_guard) = acquire(&set.lock) else { return false };
    set.regs.any(|reg| {
        let c = family.conn(reg.conn);
        reg.want & IN != 0 && c.stage() == Stage::Live && waiting(c)
    })
}

/// A descriptor of the set is closed.
pub fn close(i: u32) {
    let (Some(set), Some(family)) = (set_of(i), state::family()) else { return };
    if set.refs.fetch_sub(1, Ordering::AcqRel) != 1 {
        return;
    }
    if let Some(_guard) = acquire(&set.lock) {
        if !set.of_child {
            set.arm_all(family);
        }
        set.each_group(|g| g.taken.store(0, Ordering::Release));
        set.groups_n = 0;
        set.regs.each(|reg| {
            family.conn(reg.conn).watched.fetch_sub(1, Ordering::SeqCst);
        });
        set.regs.clear();
    }
    // The memory stays in the table's place for the next set: a waiter may still be in it.
    TABLE[i as usize % SETS].store(core::ptr::null_mut(), Ordering::Release);
}

/// In a forked child: the sets are the parent's, too.
pub fn inherited() {
    for slot in &TABLE {
        let p = slot.load(Ordering::Acquire);
        if !p.is_null() {
            // SAFETY: as in set_of(); a new child has one thread.
            let set = unsafe { &mut *p };
            set.lock.store(0, Ordering::Relaxed);
            set.of_child = true;
        }
    }
}
