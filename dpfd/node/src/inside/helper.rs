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
/// Looks a millisecond apart at whether calls still come, before it relies on the one that sleeps on the routes.
const LOOKS: u32 = 100;
/// How long it does without looking at the routes: a call that was jumped out of never comes back, ns.
const RELIED: u64 = 1_000_000_000;

/// Who takes what routes have, until the helper asks again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Routes {
    /// The helper, whom they wake.
    Helper,
    /// Calls, which come more often than each millisecond.
    Calls,
    /// The call that sleeps on them; it wakes the helper when it does not any more.
    Sleeper,
}

/// Until the gateway ends.
pub(super) fn run(inner: &Inner) {
    process::block_signals();
    // The kernel may be late by 50 us else, to wake a thread for several times at once.
    let _ = set_timerslack(1);
    let mut events = [EpollEvent::empty(); EVENTS];
    let (mut waits, mut still) = (inner.turns.waits(), 0);
    while !inner.ends.load(Ordering::Acquire) {
        let routes = inner.whose(waits, &mut still);
        waits = inner.turns.waits();
        let over = inner.sleep(routes);
        let n = inner.control.wait(&mut events, EpollTimeout::ZERO).unwrap_or(0);
        let takes = match routes {
            Routes::Helper => !inner.turns.are_taken(waits),
            Routes::Calls => false,
            Routes::Sleeper => over,
        };
        if n == 0 && !takes && process::now() < inner.turns.due() {
            continue;
        }
        let visited = inner.visit(
            || inner.get(),
            |running, now| {
                let served: usize =
                    events[..n].iter().map(|event| inner.serve(running, now, event.data())).sum();
                let received = if takes { running.receive(now) } else { 0 };
                if routes == Routes::Sleeper && received > 0 {
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
    /// Whose the routes are next, where so many waits had begun when this was asked last; for how many looks the same call has slept.
    fn whose(&self, waits: u32, still: &mut u32) -> Routes {
        let calls = self.turns.waits() != waits;
        *still = if calls { 0 } else { still.saturating_add(1) };
        if !self.turns.are_taken(waits) {
            Routes::Helper
        } else if *still > LOOKS && self.turns.rely() {
            Routes::Sleeper
        } else {
            Routes::Calls
        }
    }

    /// Sleeps until something is due, somebody asks or rings, or routes have something, if that is the helper's. Whether the time is
    /// over.
    fn sleep(&self, routes: Routes) -> bool {
        let now = process::now();
        let (until, descriptor) = match routes {
            Routes::Helper => (u64::MAX, self.descriptor),
            Routes::Calls => (now + LATE, -1),
            Routes::Sleeper => (now + RELIED, -1),
        };
        let planned = if routes == Routes::Calls {
            // A call that sleeps until something is due would be woken beside this.
            self.turns.plan_late(until);
            until
        } else {
            self.turns.plan(until)
        };
        let time = (planned < u64::MAX).then(|| Duration::from_nanos(planned.saturating_sub(now)));
        // A signal that comes to this thread all the same wakes it for nothing.
        let _ = unix::await_either(self.control.0.as_raw_fd(), descriptor, time);
        self.turns.stop_relying();
        process::now() >= until
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
