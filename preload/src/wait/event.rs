//! Events of polls: an eventfd beside the program's descriptors, by which senders wake whoever sleeps ([`crate::link`]), and for
//! strangers an end of a socket pair.
//!
//! A process has a few, and a poll has one of them to itself while it sleeps, because it reads what it was woken by: an
//! event that stays readable would end the next poll at once.

use core::sync::atomic::{AtomicU32, Ordering};

use dp_edge::sys::raw;
use libc::{pollfd, POLLIN};

use crate::epoll::next_number;
use crate::own::{self, Mine};
use crate::poke::Poke;
use crate::state;

/// Polls of one process that sleep by events at the same time.
const EVENTS: usize = 16;
/// Descriptors of a poll that is worth one: its array is copied.
pub const FEW: usize = 48;

/// An event of polls. All zero: not made yet.
pub struct Event {
    fd: Mine,
    /// The same for strangers, once there is one.
    poke: Poke,
    number: AtomicU32,
    /// The process that made it. Polls of its children are not to be woken by it.
    owner: AtomicU32,
    /// The thread that sleeps by it; 0: none.
    sleeper: AtomicU32,
}

static TABLE: [Event; EVENTS] = [const {
    Event {
        fd: Mine::none(),
        poke: Poke::new(),
        number: AtomicU32::new(0),
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
        self.fd.fd().filter(|_| self.is_ours())
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
        self.fd.take().close();
        self.poke.close();
        let Some(number) = next_number() else { return false };
        let Some(fd) = raw::eventfd().ok().and_then(own::high) else { return false };
        self.number.store(number, Ordering::Relaxed);
        self.owner.store(state::owner(), Ordering::Relaxed);
        self.fd.hold(fd);
        true
    }

    /// Its number and its descriptor.
    pub fn name(&self) -> Option<(u32, i32)> {
        self.fd().map(|fd| (self.number.load(Ordering::Relaxed), fd))
    }

    /// What a stranger is given in its place.
    pub fn far(&self) -> Option<i32> {
        self.poke.far(|_| true)
    }

    /// Whether somebody has written to it.
    pub fn is_told(&self) -> bool {
        [self.fd(), self.poke.near()].into_iter().flatten().any(raw::is_readable)
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
        let near = self.poke.near();
        let more = if near.is_some() { 2 } else { 1 };
        let mut list = [pollfd { fd: -1, events: 0, revents: 0 }; FEW + 2];
        list[..n].copy_from_slice(fds);
        for (entry, fd) in list[n..].iter_mut().zip([fd, near.unwrap_or(-1)]) {
            *entry = pollfd { fd, events: POLLIN, revents: 0 };
        }
        let got = kernel(&mut list[..n + more]);
        if got.is_ok() {
            fds.copy_from_slice(&list[..n]);
        }
        if list[n].revents != 0 {
            raw::take_event(fd);
        }
        if let Some(near) = near.filter(|_| list[n + 1].revents != 0) {
            self.poke.take(near);
        }
        got
    }
}

/// Wakes who sleeps by an event, for something that is of none of its descriptors.
#[cold]
pub fn wake_sleepers() {
    for fd in TABLE.iter().filter(|e| e.sleeper.load(Ordering::SeqCst) != 0).filter_map(Event::fd) {
        raw::signal_event(fd);
    }
}

/// In a forked child: threads of the parent may have been in polls. Their events are given up when the child makes its
/// own.
pub fn inherited() {
    TABLE.iter().for_each(|e| state::clear(&e.sleeper));
}
