//! A timer that is left as it is while what is due is put off: each message puts an acknowledgement or a time-out off, and a time that
//! is part of a sleep is given to the hardware and taken back for each of them. In a virtual machine each of the two is an exit to the
//! host, 4 us. This one rings once in vain instead, when the time comes that was due first.

use std::os::fd::{AsFd, BorrowedFd};

use dp_edge::sys::process;
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

/// As above. Readable from the time on at which it rings.
#[derive(Debug)]
pub(crate) struct Standing {
    timer: TimerFd,
    /// When it rings; none: it is not set.
    at: Option<u64>,
}

impl Standing {
    /// It is not set.
    ///
    /// # Errors
    ///
    /// Those of timerfd_create(2).
    pub fn new() -> nix::Result<Standing> {
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        Ok(Standing { timer: TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?, at: None })
    }

    /// It rings by then at the latest, of [`process::now`]'s clock. False: it cannot be set.
    pub fn ring_by(&mut self, due: u64) -> bool {
        if self.at.is_some_and(|at| at <= due) {
            return true;
        }
        // 0 would take it back.
        let time = TimeSpec::nanoseconds(i64::try_from(due.max(1)).unwrap_or(i64::MAX));
        let set = self.timer.set(Expiration::OneShot(time), TimerSetTimeFlags::TFD_TIMER_ABSTIME).is_ok();
        self.at = set.then_some(due);
        set
    }

    /// It has rung, or is about to be asked.
    pub fn hear(&mut self) {
        // One that was set anew since it rang does not tell of it any more.
        if self.at.is_some_and(|at| at <= process::now()) {
            self.at = None;
            let _ = nix::unistd::read(&self.timer, &mut [0; 8]);
        }
    }
}

impl AsFd for Standing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use nix::poll::{poll, PollFd, PollFlags, PollTimeout};

    use super::*;

    fn rings_within(standing: &Standing, ms: u16) -> bool {
        let mut looked = [PollFd::new(standing.as_fd(), PollFlags::POLLIN)];
        poll(&mut looked, PollTimeout::from(ms)).expect("poll") > 0
    }

    #[test]
    fn it_rings_when_the_first_was_due_and_then_no_more() {
        let mut standing = Standing::new().expect("a timer");
        let now = process::now();
        assert!(standing.ring_by(now + 3_600_000_000_000));
        assert!(!rings_within(&standing, 0));
        assert!(standing.ring_by(now + 1_000_000), "earlier");
        assert!(standing.ring_by(now + 3_600_000_000_000), "put off, which it does not notice");
        assert!(rings_within(&standing, 10_000));
        standing.hear();
        assert!(!rings_within(&standing, 0));
        assert!(standing.ring_by(0) && rings_within(&standing, 10_000), "what is over is due at once");
    }
}
