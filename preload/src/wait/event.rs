//! Events of polls: an eventfd beside the program's descriptors, by which senders wake whoever sleeps ([`crate::link`]).
//!
//! A process has a few, and a poll has one of them to itself while it sleeps, because it reads what it was woken by: an
//! event that stays readable would end the next poll at once. Where strangers wake it, by sockets, those are in an epoll set
//! of its own, with the eventfd, and the poll waits for that.

use core::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use dp_channel::family::Conn;
use dp_edge::sys::raw;
use libc::{epoll_event, pollfd, POLLIN};

use crate::epoll::{next_number, DRAINED};
use crate::{link, own, state};

/// Polls of one process that sleep by events at the same time.
const EVENTS: usize = 16;
/// Descriptors of a poll that is worth one: its array is copied.
pub const FEW: usize = 64;
/// Sockets that are told of in one look, and looks. What is left ends the next poll once more.
const MANY: usize = 16;
const TURNS: usize = 4;

/// An event of polls. All zero: not made yet.
pub struct Event {
    /// Plus one.
    fd: AtomicI32,
    /// The epoll set with it and the sockets, plus one; 0: there are none.
    set: AtomicI32,
    number: AtomicU32,
    woken: AtomicU32,
    /// The process that made it. Polls of its children are not to be woken by it.
    owner: AtomicU32,
    /// The thread that sleeps by it; 0: none.
    sleeper: AtomicU32,
}

static TABLE: [Event; EVENTS] = [const {
    Event {
        fd: AtomicI32::new(0),
        set: AtomicI32::new(0),
        number: AtomicU32::new(0),
        woken: AtomicU32::new(0),
        owner: AtomicU32::new(0),
        sleeper: AtomicU32::new(0),
    }
}; EVENTS];

/// An event for this thread alone, until it gives it back.
pub fn take() -> Option<&'static Event> {
    let me = state::tid();
    let is_left =
        |e: &Event, by: u32| e.sleeper.compare_exchange(by, me, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    // A thread that was cancelled in its poll gave nothing back. One of ours is that of a call that a signal handler
    // interrupted, and that is still to see what wakes it.
    let is_of_the_dead = |e: &&Event| {
        let by = e.sleeper.load(Ordering::Relaxed);
        by != me && !state::thread_lives(by) && is_left(e, by)
    };
    let mut all = TABLE.iter();
    let event = all.find(|e| is_left(e, 0)).or_else(|| TABLE.iter().find(is_of_the_dead))?;
    if event.fd().is_none() && !event.make() {
        event.give_back();
        return None;
    }
    Some(event)
}

impl Event {
    fn fd(&self) -> Option<i32> {
        let fd = self.fd.load(Ordering::Relaxed) - 1;
        (own::is(fd) && self.is_ours()).then_some(fd)
    }

    fn is_ours(&self) -> bool {
        self.owner.load(Ordering::Relaxed) == state::owner()
    }

    #[cold]
    fn make(&self) -> bool {
        // A child of vfork has its parent's memory, and descriptors of its own.
        if state::is_borrowed_memory() {
            return false;
        }
        let old = [&self.fd, &self.set].map(|fd| fd.swap(0, Ordering::Relaxed) - 1);
        if !self.is_ours() {
            old.into_iter().for_each(own::close);
        }
        let Some(number) = next_number() else { return false };
        let Some(fd) = raw::eventfd().ok().and_then(own::keep) else { return false };
        self.number.store(number, Ordering::Relaxed);
        self.owner.store(state::owner(), Ordering::Relaxed);
        self.fd.store(fd + 1, Ordering::Relaxed);
        true
    }

    /// The sender of connection `c` hears of it: its number.
    pub fn tell(&self, c: &Conn) -> Option<u32> {
        let fd = self.fd()?;
        let number = self.number.load(Ordering::Relaxed);
        link::tell(c, number, fd, &|socket| self.set_or_make(fd).is_some_and(|set| add(set, socket)));
        Some(number)
    }

    fn set(&self) -> Option<i32> {
        let fd = self.set.load(Ordering::Relaxed) - 1;
        (fd >= 0 && own::is(fd)).then_some(fd)
    }

    #[cold]
    fn set_or_make(&self, event: i32) -> Option<i32> {
        if let Some(set) = self.set() {
            return Some(set);
        }
        let set = own::keep(raw::epoll_create().ok()?)?;
        if !add(set, event) {
            own::forget(set);
            return None;
        }
        self.set.store(set + 1, Ordering::Relaxed);
        Some(set)
    }

    /// Others may have it.
    pub fn give_back(&self) {
        self.sleeper.store(0, Ordering::Release);
    }

    /// The kernel's poll of the program's array, and of the event. A cancellation point.
    pub fn poll(
        &self,
        fds: &mut [pollfd],
        kernel: impl FnOnce(&mut [pollfd]) -> Result<i32, i32>,
    ) -> Result<i32, i32> {
        let n = fds.len();
        let (Some(fd), true) = (self.fd(), n <= FEW) else { return kernel(fds) };
        let mut list = [pollfd { fd: -1, events: 0, revents: 0 }; FEW + 1];
        list[..n].copy_from_slice(fds);
        list[n] = pollfd { fd: self.set().unwrap_or(fd), events: POLLIN, revents: 0 };
        let got = kernel(&mut list[..=n]);
        if got.is_ok() {
            fds.copy_from_slice(&list[..n]);
        }
        if list[n].revents != 0 {
            self.take(fd);
        }
        got
    }

    /// Takes what woke it.
    fn take(&self, fd: i32) {
        let Some(set) = self.set() else { return raw::take_event(fd) };
        let mut told = [epoll_event { events: 0, u64: 0 }; MANY];
        for _ in 0..TURNS {
            // SAFETY: room for as many.
            if unsafe { raw::epoll_poll(set, told.as_mut_ptr(), MANY as i32) } != Ok(MANY as i32) {
                break;
            }
        }
        if (self.woken.fetch_add(1, Ordering::Relaxed) + 1) % DRAINED == 0 {
            link::drain(self.number.load(Ordering::Relaxed));
        }
    }
}

/// Edge-triggered, so nobody has to read it.
fn add(set: i32, fd: i32) -> bool {
    let event = epoll_event { events: (libc::EPOLLIN | libc::EPOLLET) as u32, u64: 0 };
    raw::epoll_ctl(set, libc::EPOLL_CTL_ADD, fd, Some(event)).is_ok()
}

/// In a forked child: threads of the parent may have been in polls. Their events are given up when the child makes its
/// own.
pub fn inherited() {
    TABLE.iter().for_each(|e| state::clear(&e.sleeper));
}
