//! How a receive sleeps: in poll(2), which can end from time to time, to look for a wake-up that was lost, and after what is left of
//! SO_RCVTIMEO, which is the whole call's. The kernel's own recv knows only that limit, and would begin it anew each time: a peer that
//! sends a byte now and then would hold the call for ever.
//!
//! poll(2) is never restarted. So where a handler ends it, the question is what the kernel's recv would do (signal(7)): it goes on
//! behind a handler that restarts calls, and ends by any once it has a part of what it wants, or a limit.

use dp_channel::family::{Conn, Stage};
use dp_edge::sys::raw;

use super::peek::More;
use crate::channel::Channel;
use crate::lost::{FIRST_NET, LAST_NET};
use crate::{errno, inside, real, signals, socket, state};

/// The sleeps of one call.
pub(super) struct Sleeps {
    /// When the first one began.
    began: Option<u64>,
    /// The limit, ns, once it was asked for.
    limit: Option<Option<u64>>,
    /// After how long the next sleep looks again, ns.
    net: u64,
    /// Whatever ends the first one ends the call: the kernel's recv has that.
    one: bool,
}

impl Default for Sleeps {
    fn default() -> Self {
        // Another thread may close the number, and another connection have it. The kernel's recv goes on with the one that it began
        // with; poll(2) is woken by that, and then asks the number.
        let net = if inside::alone() { FIRST_NET as u64 } else { NEVER };
        Sleeps { began: None, limit: None, net, one: false }
    }
}

/// In place of a time after which a sleep looks again.
const NEVER: u64 = u64::MAX / 4;

impl Sleeps {
    /// Of a call in a process that has no other thread, but tests'.
    #[cfg(test)]
    pub fn alone() -> Sleeps {
        Sleeps { net: FIRST_NET as u64, ..Sleeps::default() }
    }

    /// Of a call whose first sleep began then.
    #[cfg(test)]
    pub fn since(began: u64) -> Sleeps {
        Sleeps { began: Some(began), ..Sleeps::default() }
    }

    /// Of a call that sleeps once, whatever ends that.
    pub fn one() -> Sleeps {
        Sleeps { one: true, ..Sleeps::default() }
    }

    /// When the first one began: now, if this is that.
    pub fn began(&mut self) -> u64 {
        *self.began.get_or_insert_with(state::now)
    }

    /// The limit, ns; `None`: there is none, nor was there ever one.
    fn limit(&mut self, c: &Channel) -> Option<u64> {
        if !c.has(Conn::LIMITED) {
            return None;
        }
        *self.limit.get_or_insert_with(|| socket::limit(c.fd, libc::SO_RCVTIMEO))
    }

    /// What is left of it.
    fn left(&mut self, c: &Channel) -> Option<u64> {
        let began = self.began();
        self.limit(c).map(|ns| ns.saturating_sub(state::now() - began))
    }

    /// Whether there is one.
    pub fn have_limit(&mut self, c: &Channel) -> bool {
        self.limit(c).is_some()
    }

    /// What a call is told that a handler has ended. The kernel's recv looks at the time first: on a busy machine, where the thread runs
    /// again when its limit is over as well, it is told of that.
    pub fn ended_by_handler(&mut self, c: &Channel) -> i32 {
        match self.left(c) {
            Some(0) => libc::EAGAIN,
            _ => libc::EINTR,
        }
    }

    /// Until there are bytes, or the end, or what a lost wake-up was for. `recv`: the kernel's own, which sleeps for all of the limit,
    /// and knows which handlers restart it.
    pub fn one_more(
        &mut self,
        c: &Channel,
        has_part: bool,
        recv: impl FnOnce() -> Result<usize, i32>,
    ) -> Result<usize, i32> {
        let first = self.began.is_none();
        self.began();
        let may_recv = !has_part && (first || !self.have_limit(c));
        // A low-water mark, for which it has left its ring, keeps poll(2) silent about what recv would take.
        if may_recv && (self.one || self.net == NEVER || c.receiving().word.is_raw()) {
            return recv();
        }
        let has_news = || c.stage() == Stage::Live && c.has_news(&c.receiving());
        match self.poll(c, has_part, || c.finds_lost(has_news)) {
            // What is in the error queue alone (MSG_ERRQUEUE) ends every poll(2), and no recv; which would begin a limit anew.
            Ok(libc::POLLERR) if may_recv && !self.have_limit(c) => recv(),
            Ok(libc::POLLERR) => self.beside_an_error(c, has_news).map(|()| 1),
            // No list is short enough where a process may have no descriptor (RLIMIT_NOFILE).
            Err(libc::EINVAL) if may_recv => recv(),
            Ok(libc::POLLNVAL) => Err(libc::EBADF),
            other => other.map(|_| 1),
        }
    }

    /// Something lies in the error queue: until there is anything else, or the limit is over. Any handler ends it, as the call has a
    /// limit, or a part.
    fn beside_an_error(&mut self, c: &Channel, has_news: impl Fn() -> bool) -> Result<(), i32> {
        // An error of the connection itself looks the same.
        match socket::peek_one(c.fd) {
            Err(libc::EAGAIN) => {}
            other => return other.map(|_| ()),
        }
        let left = self.left(c).unwrap_or(NEVER);
        look_again(left, || has_news() || poll(readable(c.fd), 0) != Ok(libc::POLLERR))
    }

    /// The same in poll(2); which events have ended it, none: a `look` that has found something. EAGAIN: the limit is over.
    fn poll(&mut self, c: &Channel, has_part: bool, look: impl Fn() -> bool) -> Result<i16, i32> {
        let mut until = state::now() + self.net;
        loop {
            let left = self.left(c);
            let net = until.saturating_sub(state::now());
            let slice = left.map_or(net, |left| left.min(net));
            // Once more: what was asked since takes longer than the way to the kernel.
            if signals::came() && (has_part || left.is_some() || signals::interrupted()) {
                return Err(self.ended_by_handler(c));
            }
            match poll(readable(c.fd), slice) {
                Err(libc::EAGAIN) if left.is_none_or(|left| left > net) => {
                    if self.net == NEVER {
                        continue;
                    }
                    self.net = (2 * self.net).min(LAST_NET as u64);
                    if look() {
                        self.net = FIRST_NET as u64;
                        return Ok(0);
                    }
                    until = state::now() + self.net;
                }
                Err(libc::EINTR) if left.is_none() && !has_part && !signals::ended_a_call() => {}
                Err(libc::EINTR) => return Err(self.ended_by_handler(c)),
                other => return other,
            }
        }
    }
}

fn readable(fd: i32) -> libc::pollfd {
    libc::pollfd { fd, events: libc::POLLIN, revents: 0 }
}

/// An entry of a list that the kernel passes over.
const NOTHING: libc::pollfd = libc::pollfd { fd: -1, events: 0, revents: 0 };

/// poll(2) of libc, a point of cancellation: the events. EAGAIN: the time is over.
fn poll(mut entry: libc::pollfd, left: u64) -> Result<i16, i32> {
    // Rounded up, as every time limit of the kernel is.
    let ms = left.div_ceil(1_000_000).min(i32::MAX as u64) as i32;
    // SAFETY: one entry.
    match errno::took(unsafe { real::poll()(&mut entry, 1, ms) } as isize) {
        Ok(0) => Err(libc::EAGAIN),
        other => other.map(|_| entry.revents),
    }
}

/// The longest time between two looks where no call of the kernel's sleeps for as long as it is to, ns.
const LOOK: u64 = 8_000_000;

impl Channel {
    /// MSG_PEEK with MSG_WAITALL, which saw `n` bytes: sleeps until there may be more. What is there stays there, so the kernel is
    /// asked to wait for one byte beyond it, be it data or a bell. It knows no limit for that but that of a whole call: where
    /// there is one, this looks again and again.
    pub(super) fn wait_for_more(
        &self,
        n: usize,
        sleeps: &mut Sleeps,
        recv: impl Fn(usize) -> Result<usize, i32>,
    ) -> More {
        let rx = self.receiving();
        rx.word.sleep();
        let there = raw::queued(self.fd).unwrap_or(0);
        let has_more = || self.readable_bytes().map_or(true, |now| now > n);
        let more = if has_more() {
            More::There
        } else if signals::came() {
            More::No
        } else {
            let slept = match sleeps.left(self) {
                _ if there == 0 => match sleeps.poll(self, true, || self.finds_lost(has_more)) {
                    Ok(libc::POLLERR) => sleeps.beside_an_error(self, has_more),
                    other => other.map(|_| ()),
                }
                .and_then(|()| self.ends_or_goes_on()),
                Some(left) => look_again(left, || has_more() || socket::ended(self.fd)).map(|()| has_more()),
                None => recv(there).map(|k| k > there),
            };
            self.told_of_more(slept)
        };
        // The slot may be another connection's by now.
        self.receiving().word.awake();
        more
    }

    /// Whether what has ended a sleep is no end of the stream; or the error that has.
    fn ends_or_goes_on(&self) -> Result<bool, i32> {
        match socket::peek_one(self.fd) {
            Ok(0) => Ok(false),
            // Another thread has taken that.
            Ok(_) | Err(libc::EAGAIN) => Ok(true),
            Err(e) => Err(e),
        }
    }

    fn told_of_more(&self, slept: Result<bool, i32>) -> More {
        match slept {
            Ok(true) => More::Came,
            // The number was closed meanwhile, and is another one.
            Err(libc::EBADF) => More::There,
            Ok(false) | Err(libc::EAGAIN | libc::EINTR) => More::No,
            Err(e) => {
                // W13: this call has bytes to give; the program's next one gets it.
                self.is_told_next(e);
                More::No
            }
        }
    }
}

/// Looks whether something `came` until the time that is `left` is over, or any handler has run.
fn look_again(mut left: u64, came: impl Fn() -> bool) -> Result<(), i32> {
    let mut rest = 1_000_000;
    while left > 0 {
        if signals::came() {
            return Err(libc::EINTR);
        }
        let before = state::now();
        match poll(NOTHING, rest.min(left)) {
            Err(libc::EAGAIN) => {}
            // As in [`Sleeps::ended_by_handler`].
            Err(libc::EINTR) if state::now() - before >= left => break,
            other => return other.map(|_| ()),
        }
        if came() {
            return Ok(());
        }
        left = left.saturating_sub(state::now() - before);
        rest = (2 * rest).min(LOOK);
    }
    Err(libc::EAGAIN)
}
