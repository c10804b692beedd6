//! How a receive sleeps that has slept before, or has a part of what it wants: for as long as is left of SO_RCVTIMEO, which is the
//! whole call's. The kernel's own recv would begin that anew each time, and a peer that sends a byte now and then would hold the
//! call for ever. With a part, a handler ends it, also one that restarts calls; so it sleeps in poll(2), which is never restarted.

use dp_edge::sys::raw;

use super::peek::More;
use crate::channel::Channel;
use crate::{errno, real, signals, socket, state};

/// The sleeps of one call.
#[derive(Default)]
pub(super) struct Sleeps {
    /// When the first one began.
    began: Option<u64>,
    /// The limit, ns, once it was asked for.
    limit: Option<Option<u64>>,
}

impl Sleeps {
    /// When the first one began: now, if this is that.
    pub fn began(&mut self) -> u64 {
        *self.began.get_or_insert_with(state::now)
    }

    /// What is left of the limit, ns; `None`: there is none.
    fn left(&mut self, fd: i32) -> Option<u64> {
        let began = self.began();
        let limit = *self.limit.get_or_insert_with(|| socket::limit(fd, libc::SO_RCVTIMEO));
        limit.map(|ns| ns.saturating_sub(state::now() - began))
    }

    /// Whether there is one.
    pub fn have_limit(&mut self, fd: i32) -> bool {
        self.limit.get_or_insert_with(|| socket::limit(fd, libc::SO_RCVTIMEO)).is_some()
    }

    /// Until there are bytes, or the end. `recv`: the kernel's own, which sleeps for all of the limit, and knows which handlers
    /// restart it.
    pub fn one_more(
        &mut self,
        fd: i32,
        has_part: bool,
        recv: impl FnOnce() -> Result<usize, i32>,
    ) -> Result<usize, i32> {
        let first = self.began.is_none();
        self.began();
        if first && !has_part {
            return recv();
        }
        match self.left(fd) {
            None if !has_part => recv(),
            // Where there is a limit, no handler restarts the kernel's recv either.
            left => poll(&mut [readable(fd)], left),
        }
    }
}

fn readable(fd: i32) -> libc::pollfd {
    libc::pollfd { fd, events: libc::POLLIN, revents: 0 }
}

/// poll(2) of libc, a point of cancellation. EAGAIN: the time is over.
fn poll(fds: &mut [libc::pollfd], left: Option<u64>) -> Result<usize, i32> {
    // Rounded up, as every time limit of the kernel is.
    let ms = left.map_or(-1, |ns| ns.div_ceil(1_000_000).min(i32::MAX as u64) as i32);
    // SAFETY: as many as there are.
    match errno::took(unsafe { real::poll()(fds.as_mut_ptr(), fds.len() as _, ms) } as isize) {
        Ok(0) => Err(libc::EAGAIN),
        other => other,
    }
}

/// The longest time between two looks of a peek that has a limit, ns.
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
            let slept = match sleeps.left(self.fd) {
                left if there == 0 => {
                    poll(&mut [readable(self.fd)], left).and_then(|_| self.ends_or_goes_on())
                }
                Some(left) => look_again(left, || has_more() || socket::ended(self.fd)).map(|_| has_more()),
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

/// Looks whether something `came` until the time that is `left` is over.
fn look_again(mut left: u64, came: impl Fn() -> bool) -> Result<usize, i32> {
    let mut rest = 1_000_000;
    while left > 0 {
        let before = state::now();
        match poll(&mut [], Some(rest.min(left))) {
            Err(libc::EAGAIN) => {}
            other => return other,
        }
        if came() {
            return Ok(0);
        }
        left = left.saturating_sub(state::now() - before);
        rest = (2 * rest).min(LOOK);
    }
    Err(libc::EAGAIN)
}
