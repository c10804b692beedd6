//! The event of an epoll set: an eventfd in the kernel's set, by which senders wake whoever sleeps there ([`crate::link`]), and
//! for strangers an end of a socket pair.
//!
//! It is registered edge-triggered, so each signal is news and nobody has to read it. What the kernel reports of it is
//! told by its value, and no program hears of it.

use core::sync::atomic::{AtomicU32, Ordering};

use dp_channel::bell::BY_BELL;
use dp_edge::sys::raw;
use libc::epoll_event;

use crate::own::{self, Mine};
use crate::poke::Poke;
use crate::state;

/// All zero is none.
pub struct Event {
    fd: Mine,
    /// The same for strangers, once there is one.
    poke: Poke,
    /// By which its senders know it.
    number: AtomicU32,
    /// The process that made it. In a child of its the kernel's set is the parent's, too, and so is the event.
    owner: AtomicU32,
}

/// A number that no other event of the family has.
pub fn next_number() -> Option<u32> {
    let before = state::family()?.header().events.fetch_add(1, Ordering::Relaxed);
    Some(before.saturating_add(BY_BELL + 1))
}

/// The value of all events of this process. A program's value is a number or a pointer of its own: not a place of ours,
/// turned into no place at all.
fn value() -> u64 {
    static HERE: u8 = 0;
    (&raw const HERE as u64) ^ 0x9e37_79b9_7f4a_7c15
}

/// Takes what the kernel reports of events out of the `n` first entries; how many are left.
///
/// # Safety
///
/// The program's array has so many entries.
pub unsafe fn without(events: *mut epoll_event, n: usize) -> usize {
    // SAFETY: by the contract.
    let events = unsafe { core::slice::from_raw_parts_mut(events, n) };
    let value = value();
    let mut kept = 0;
    for k in 0..n {
        if events[k].u64 != value {
            events[kept] = events[k];
            kept += 1;
        }
    }
    kept
}

impl Event {
    /// Its number and descriptor, made for the set `epfd` if there is none. `None`: there can be none.
    pub fn of(&self, epfd: i32) -> Option<(u32, i32)> {
        if let Some(fd) = self.fd() {
            return Some((self.number.load(Ordering::Relaxed), fd));
        }
        // A child of vfork has its parent's memory, and descriptors of its own.
        if state::is_borrowed_memory() {
            return None;
        }
        // A parent's, if there is one.
        self.forget();
        let number = next_number()?;
        let fd = own::high(raw::eventfd().ok()?)?;
        if !watch(epfd, fd) {
            raw::close(fd);
            return None;
        }
        self.number.store(number, Ordering::Relaxed);
        self.owner.store(state::owner(), Ordering::Relaxed);
        self.fd.hold(fd);
        Some((number, fd))
    }

    /// What a stranger is given in place of the event, where that is.
    pub fn far(&self, epfd: i32) -> Option<i32> {
        self.poke.far(|near| watch(epfd, near))
    }

    /// The kernel's set told of an event.
    pub fn heard(&self) {
        if self.fd().is_some() {
            self.poke.heard();
        }
    }

    fn fd(&self) -> Option<i32> {
        self.fd.fd().filter(|_| self.owner.load(Ordering::Relaxed) == state::owner())
    }

    /// Wakes whoever sleeps in the set by it, if there is one.
    pub fn signal(&self) {
        if let Some(fd) = self.fd() {
            raw::signal_event(fd);
        }
    }

    /// How whoever sleeps in the set is woken.
    pub fn how(&self) -> u32 {
        self.fd().map_or(BY_BELL, |_| self.number.load(Ordering::Relaxed))
    }

    /// The set `epfd` is woken by bells alone from now on.
    pub fn end(&self, epfd: i32) {
        if let Some(fd) = self.fd() {
            // Its senders may have it open for long, so closing it would not take it out.
            for fd in [Some(fd), self.poke.near()].into_iter().flatten() {
                let _ = raw::epoll_ctl(epfd, libc::EPOLL_CTL_DEL, fd, None);
            }
            self.poke.end();
        }
        self.forget();
    }

    fn forget(&self) {
        self.fd.take().close();
        self.poke.close();
    }
}

/// Each signal of `fd` is news to the set, whether or not anybody reads it.
fn watch(epfd: i32, fd: i32) -> bool {
    let event = epoll_event { events: (libc::EPOLLIN | libc::EPOLLET) as u32, u64: value() };
    raw::epoll_ctl(epfd, libc::EPOLL_CTL_ADD, fd, Some(event)).is_ok()
}
