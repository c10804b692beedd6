//! The helper of a gateway inside a program: it does what is due, and what routes bring, while no call of the program does, and
//! hears whoever asks for a proxy or rings for one (PROTOCOLS N17).

use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use dp_edge::sys::{process, unix};
use dp_edge::turns::LATE;
use nix::sys::epoll::{EpollEvent, EpollTimeout};
use nix::sys::prctl::set_timerslack;

use super::{Inner, Running, WAKE};
use crate::gate::{ASKED, STATUS};
use crate::proxies::Proxies;

/// Events of one call.
const EVENTS: usize = 64;
/// How long what is the helper's own waits while a call has the gate.
const BUSY: Duration = Duration::from_micros(50);

/// Until the gateway ends.
pub(super) fn run(inner: &Inner) {
    process::block_signals();
    // The kernel may be late by 50 us else, to wake a thread for several times at once.
    let _ = set_timerslack(1);
    let mut events = [EpollEvent::empty(); EVENTS];
    let mut gave = inner.turns.visits();
    let mut was_aside = false;
    while !inner.ends.load(Ordering::Acquire) {
        // Calls that wait, and have stepped since the last look, see to the routes.
        let aside = inner.gives_way(gave);
        gave = inner.turns.visits();
        inner.sleep(aside);
        let n = inner.control.wait(&mut events, EpollTimeout::ZERO).unwrap_or(0);
        let leaves = aside || inner.gives_way(gave);
        let gave_way = core::mem::replace(&mut was_aside, aside);
        if n == 0 && leaves && process::now() < inner.turns.due() {
            continue;
        }
        let visited = inner.visit(
            || inner.get(),
            |running, now| {
                let served: usize =
                    events[..n].iter().map(|event| inner.serve(running, now, event.data())).sum();
                let received = if leaves { 0 } else { running.receive(now) };
                if gave_way && received > 0 {
                    // The caller that routes wake has had time to take it.
                    inner.turns.forget_leader();
                }
                served + received
            },
        );
        if visited.is_none() {
            // A call is at it, and steps. Whoever waits for the lock itself would have each call wake it.
            process::rest(BUSY);
        }
    }
}

impl Inner {
    /// Whether a call waits whom routes wake, and calls have stepped since so many steps.
    fn gives_way(&self, gave: u32) -> bool {
        self.turns.has_leader() && self.turns.visits() != gave
    }

    /// Sleeps until something is due, somebody asks or rings, or routes have something, if it is not `aside`.
    fn sleep(&self, aside: bool) {
        let now = process::now();
        let until = self.turns.plan(if aside { now + LATE } else { u64::MAX });
        let time = (until < u64::MAX).then(|| Duration::from_nanos(until.saturating_sub(now)));
        let routes = if aside { -1 } else { self.descriptor };
        // A signal that comes to this thread all the same wakes it for nothing.
        let _ = unix::await_either(self.control.0.as_raw_fd(), routes, time);
    }

    /// How many messages that brought, or 1 for something else that is to be answered.
    fn serve(&self, running: &mut Running, now: u64, token: u64) -> usize {
        match token {
            ASKED => running.gate.answer(now),
            STATUS => running.gate.tell(),
            WAKE => drop(self.wake.read()),
            token => return Proxies::address(token).map_or(0, |addr| running.gate.take(now, addr, false)),
        }
        1
    }
}
