//! poll and select on channels. What is told, and when this sleeps, is `dp_channel::poll`'s to decide; here are lists that are the
//! kernel's alone, answers in a row, sets that are watched from outside meanwhile, and what the decisions reach ([`ground`]).

mod event;
mod flight;
mod ground;
mod slept;

use core::cell::Cell;

use dp_channel::family::Stage;
use dp_channel::poll;
use dp_channel::watch::SetName;
use libc::pollfd;

use crate::fdtable::{self, Entry};
use crate::inside::brief::briefly;
use crate::tx::owed;
use crate::{epoll, signals, state};
pub use event::inherited;
pub use flight::Flight;
use ground::{Ground, Known};

/// Whether any of the descriptors is, or may become, what needs more than the kernel's own answer.
pub fn involves(fds: &[pollfd]) -> bool {
    let Some(family) = state::family() else { return false };
    fds.iter().any(|p| match fdtable::get(p.fd) {
        Entry::Conn(i) => !matches!(family.conn(i).stage(), Stage::Plain | Stage::Unused),
        Entry::Epoll(_) => true,
        _ => false,
    })
}

/// Wakes this process's threads that sleep in polls, selects and epoll sets, as far as there is something by which each can be woken,
/// for something that is of no descriptor of theirs. The caller may have a connection's lock.
pub fn wake_sleepers() {
    event::wake_sleepers();
    epoll::wake_sleepers();
}

/// What the kernel says of a list of which it knows all; `sleeps`: the call may wait. `None`: it does not, or this is not to sleep
/// for long.
pub fn by_kernel(fds: &[pollfd], sleeps: bool, kernel: impl FnOnce() -> i32) -> Option<i32> {
    if concerns(fds) {
        return None;
    }
    owed::look_after();
    // An empty list may be one that only the kernel can refuse.
    if sleeps && owed::is_any() && !fds.is_empty() {
        return None;
    }
    let (flight, moved) = if sleeps { Flight::begin(fds) } else { return Some(kernel()) };
    let answer = (!moved).then(kernel);
    flight.end();
    answer
}

/// Whether any of the descriptors needs more than the kernel's own answer.
fn concerns(fds: &[pollfd]) -> bool {
    let Some(family) = state::family() else { return false };
    fds.iter().any(|p| match fdtable::get(p.fd) {
        Entry::Conn(i) => matches!(family.conn(i).stage(), Stage::Accepted | Stage::Live),
        Entry::Epoll(_) => true,
        _ => false,
    })
}

/// poll(2): `timeout` in nanoseconds, negative for ever. `kernel(timeout)` is libc's ppoll on the same
/// array; `quiet`: it changes the signal mask, so nothing may delay signals in user space.
pub fn poll(
    fds: &mut [pollfd],
    timeout: i64,
    quiet: bool,
    kernel: impl Fn(&mut [pollfd], i64) -> Result<i32, i32>,
) -> Result<i32, i32> {
    let Some(family) = state::family() else { return kernel(fds, timeout) };
    // Also where something is always there.
    owed::look_after();
    if let Some(n) = briefly(|| at_once(fds, &Known(family))) {
        return Ok(n);
    }
    signals::begin();
    let exposed = Exposed::begin(fds);
    // Where one has become a channel just now, the first look finds that out.
    let flight = (timeout != 0).then(|| Flight::begin(fds).0);
    let mut ground = Ground::new(family, flight.as_ref(), &kernel);
    let result = poll::poll(fds, timeout, quiet, &mut ground);
    if result.is_ok() {
        asked(fds, &Known(family));
    }
    ground.end();
    if let Some(flight) = flight {
        flight.end();
    }
    exposed.end();
    result
}

/// Sets of one call that cease to be exposed with it. Any further one stays so for good, which costs looks, and no wake-up.
const SETS: usize = 8;

/// Sets in the list that are watched from outside while the call lasts, by name: their numbers may be others' at its end.
///
/// This has no destructor, as [`crate::inside::Inside`] has none. A thread that is ended in the call leaves them exposed.
#[must_use]
struct Exposed {
    sets: [SetName; SETS],
    n: usize,
}

impl Exposed {
    fn begin(fds: &[pollfd]) -> Exposed {
        let mut exposed = Exposed { sets: [SetName { place: 0, life: 0 }; SETS], n: 0 };
        for p in fds {
            let Entry::Epoll(i) = fdtable::get(p.fd) else { continue };
            let set = epoll::name(i);
            epoll::expose(set, true);
            if let Some(at) = exposed.sets.get_mut(exposed.n) {
                *at = set;
                exposed.n += 1;
            }
        }
        exposed
    }

    fn end(self) {
        self.sets.iter().take(self.n).for_each(|&set| epoll::expose(set, false));
    }
}

/// Answers in a row that may come without the kernel.
const ROW: u32 = 16;
/// Descriptors that are worth it.
const FEW: usize = 16;
/// How long what the kernel said of a list holds, ns: what happened since is as if it had happened a moment later.
const HOLDS: u64 = 50_000;

thread_local! {
    static IN_A_ROW: Cell<u32> = const { Cell::new(0) };
    /// The list of which the kernel was asked last, and said nothing that rings do not say, and when.
    static ASKED: Cell<(usize, usize, u64)> = const { Cell::new((0, 0, 0)) };
}

/// The kernel was asked of this list just now.
fn asked(fds: &[pollfd], w: &Known) {
    if (2..=FEW).contains(&fds.len()) {
        let known = briefly(|| poll::is_told_by_rings(fds, w));
        ASKED.set(if known { (fds.as_ptr().addr(), fds.len(), state::now()) } else { (0, 0, 0) });
    }
}

/// Whether the kernel was asked of this list lately.
fn knows_the_rest(fds: &[pollfd]) -> bool {
    let (list, len, when) = ASKED.get();
    (list, len) == (fds.as_ptr().addr(), fds.len()) && state::now().saturating_sub(when) < HOLDS
}

/// The commonest case without any system call: few descriptors, and not too often in a row.
fn at_once(fds: &mut [pollfd], w: &Known) -> Option<i32> {
    if fds.len() > FEW || IN_A_ROW.replace(IN_A_ROW.get() + 1) >= ROW {
        IN_A_ROW.set(0);
        return None;
    }
    let told = poll::at_once(fds, w);
    if told == Some(0) {
        IN_A_ROW.set(0);
    }
    told.filter(|&n| n > 0)
}

#[cfg(test)]
mod tests;
