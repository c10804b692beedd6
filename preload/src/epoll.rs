//! Epoll sets: which channels are hot in them, and waiting (PROTOCOLS W3, W6, and bell.rs on groups).
//!
//! The kernel's set stays as it is; what the program registered is also noted here for channels. A channel
//! whose bell brought an event becomes *hot*: from then on the set looks at its ring itself, its sender
//! does not ring, and registrations of it are changed here first and told to the kernel only before the
//! set sleeps. Channels not used for a while cool down, so the cost grows with the active ones.
//!
//! Lock order: a set's lock, then a connection's. Nothing sleeps in the kernel holding either.

mod change;
mod hot;
mod regs;
mod report;
mod wait;

use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use dpfd::edge::stream;
use dpfd::edge::switch::in_ring;
use dpfd::family::{Conn, Stage};
use dpfd::sys::raw;

use crate::fdtable::{self, Entry};
use crate::{channel, state};
use regs::Regs;
pub use wait::wait;

const SETS: usize = 1024;
static TABLE: [AtomicPtr<Set>; SETS] = [const { AtomicPtr::new(core::ptr::null_mut()) }; SETS];

/// Most hot channels in one set: looking at more costs more than their bells.
const MAX_HOT: usize = 1024;
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
    /// A hot channel's sender is more than one process (L6): seen by the last look before a sleep.
    wary: bool,
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

const ALWAYS: u32 = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
const IN: u32 = (libc::EPOLLIN | libc::EPOLLRDNORM) as u32;
const OUT: u32 = (libc::EPOLLOUT | libc::EPOLLWRNORM) as u32;
const ET: u32 = libc::EPOLLET as u32;

fn tx_in_ring(c: &Conn) -> bool {
    c.stage() == Stage::Live && in_ring(channel::sending(c).tx.epoch()) && channel::slot_live(c)
}

fn waiting(c: &Conn) -> bool {
    let rx = channel::receiving(c);
    stream::waiting(&rx.ring(), &rx.rx.cursor)
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
            if set.of_child {
                // The registration, and all that was said of it, is the parent's.
                set.unlist(r);
                continue;
            }
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
        // A child that closes its copy changes nothing of what the parent said.
        if !set.of_child {
            set.arm_all(family);
            set.each_group(|g| g.taken.store(0, Ordering::Release));
            set.regs.each(|reg| {
                family.conn(reg.conn).watched.fetch_sub(1, Ordering::SeqCst);
            });
        }
        (set.groups_n, set.hot_n) = (0, 0);
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
