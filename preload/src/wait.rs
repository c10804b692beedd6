//! poll and select on channels: look, fix up what the kernel says, sleep only in the kernel (W2, W3).

mod event;
mod flight;
mod slept;

use core::cell::Cell;
use core::sync::atomic::Ordering;

use dp_channel::family::{Conn, Family, Stage};
use dp_channel::stream;
use dp_channel::switch::in_ring;
use dp_channel::watch::SetName;
use dp_edge::sys::raw;
use libc::{pollfd, POLLIN, POLLOUT, POLLRDNORM, POLLWRNORM};

use crate::channel::Channel;
use crate::fdtable::{self, Entry};
use crate::inside::brief::briefly;
use crate::lost::{self, never_comes, FIRST_NET, LAST_NET};
use crate::rx::Settled;
use crate::tx::owed;
use crate::{epoll, signals, spin, state};
pub use event::inherited;
use event::Event;
pub use flight::Flight;
use slept::{arm, with_room, Sleeper};

const IN: i16 = POLLIN | POLLRDNORM;
const OUT: i16 = POLLOUT | POLLWRNORM;

/// Whether any of the descriptors is, or may become, what needs more than the kernel's own answer.
pub fn involves(fds: &[pollfd]) -> bool {
    let Some(family) = state::family() else { return false };
    fds.iter().any(|p| match fdtable::get(p.fd) {
        Entry::Conn(i) => !matches!(family.conn(i).stage(), Stage::Plain | Stage::Unused),
        Entry::Epoll(_) => true,
        _ => false,
    })
}

/// What the kernel says of a list of which it knows all; `sleeps`: the call may wait. `None`: it does not.
pub fn by_kernel(fds: &[pollfd], sleeps: bool, kernel: impl FnOnce() -> i32) -> Option<i32> {
    if concerns(fds) {
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

fn live(family: Family, p: &pollfd) -> Option<Channel> {
    let c = Channel::new(family, p.fd, fdtable::conn(p.fd)?);
    matches!(c.stage(), Stage::Accepted | Stage::Live).then_some(c)
}

impl Channel {
    fn has_data(&self) -> bool {
        let rx = self.receiving();
        in_ring(self.rx_epoch.load(Ordering::Relaxed))
            && stream::waiting(&rx.ring(), &rx.rx.cursor)
            && !self.is_below_mark()
    }

    /// Follows the sender; whether the ring has something that makes the descriptor readable.
    fn is_readable(&self) -> bool {
        self.has_news(&self.receiving()) && !self.is_below_mark()
    }
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
    if let Some(n) = briefly(|| at_once(family, fds)) {
        return Ok(n);
    }
    signals::begin();
    let exposed = Exposed::begin(fds);
    // Where one has become a channel just now, the first look finds that out.
    let flight = (timeout != 0).then(|| Flight::begin(fds).0);
    let result = looking(family, fds, flight.as_ref(), timeout, quiet, kernel);
    if let Some(flight) = flight {
        flight.end();
    }
    exposed.end();
    result
}

/// The same, where sets in the list are exposed, and sleeps are counted.
fn looking(
    family: Family,
    fds: &mut [pollfd],
    flight: Option<&Flight>,
    timeout: i64,
    quiet: bool,
    kernel: impl Fn(&mut [pollfd], i64) -> Result<i32, i32>,
) -> Result<i32, i32> {
    let start = if timeout > 0 { state::now() } else { 0 };
    let mut spun = quiet;
    let mut net = FIRST_NET;
    let mut in_vain = 0;
    // What the kernel may have to say at once must not wait for a look. The call that sleeps asks it anyway.
    let mut ask = fds.iter().any(|p| p.fd >= 0 && (p.events & !IN != 0 || live(family, p).is_none()));
    loop {
        let look = if spun || timeout == 0 { 0 } else { budget(family, fds) };
        if timeout == 0 || (look > 0 && core::mem::take(&mut ask)) || any_news(family, fds) {
            let n = pass(family, fds, 0, &kernel)?;
            if n > 0 || timeout == 0 {
                asked(fds);
                return Ok(n);
            }
        }
        if look > 0 {
            spun = true;
            if spin(family, fds, look) {
                continue;
            }
        }
        let remaining = if timeout < 0 { -1 } else { (timeout - (state::now() - start) as i64).max(0) };
        owed::look_after();
        let slice = owed::limits(if (0..net).contains(&remaining) { remaining } else { net });
        let told = Cell::new(false);
        let asked_kernel = |fds: &mut [pollfd], timeout: i64| {
            let got = kernel(fds, timeout);
            told.set(got != Ok(0) || timeout == 0);
            got
        };
        let n = with_room(fds, |fds, room| asleep(family, fds, flight, slice, room, &asked_kernel))?;
        if slice == net && !told.get() {
            net = (net * 2).min(LAST_NET);
            if lost(family, fds) {
                lost::count();
                net = FIRST_NET;
            }
        }
        if n > 0 || remaining == 0 {
            asked(fds);
            return Ok(n);
        }
        spun = true;
        if !told.get() {
            in_vain = 0;
        } else {
            in_vain += 1;
            spin::rest_in_vain(in_vain);
            if in_vain >= spin::IN_VAIN {
                fds.iter().filter_map(|p| live(family, p)).for_each(|c| c.woke_in_vain(in_vain));
            }
        }
    }
}

/// Whether a channel holds something of which no bell told, and which nobody looks for.
#[cold]
fn lost(family: Family, fds: &[pollfd]) -> bool {
    never_comes(|| {
        fds.iter().any(|p| {
            p.events & IN != 0
                && live(family, p).is_some_and(|c| {
                    let rx = c.receiving();
                    !rx.word.is_hot() && !raw::is_readable(p.fd) && c.is_readable()
                })
        })
    })
}

/// A sleep of some seconds by an event brought nothing, and is not over to senders. Where a channel holds something all the same,
/// and neither the event nor a bell comes for it, a wake-up was lost; the next look finds what it was for.
#[cold]
fn count_if_untold(family: Family, fds: &[pollfd], event: &Event) {
    let holds = |p: &pollfd| {
        p.events & IN != 0 && live(family, p).is_some_and(|c| c.is_readable()) && !raw::is_readable(p.fd)
    };
    if never_comes(|| !event.is_told() && fds.iter().any(holds)) {
        lost::count();
    }
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
    /// The list of which the kernel was asked last, and when.
    static ASKED: Cell<(usize, usize, u64)> = const { Cell::new((0, 0, 0)) };
}

/// The kernel was asked of this list just now.
fn asked(fds: &[pollfd]) {
    if (2..=FEW).contains(&fds.len()) {
        ASKED.set((fds.as_ptr().addr(), fds.len(), state::now()));
    }
}

/// The commonest case without any system call: few descriptors, all of them channels, and one has something. The answer
/// is the whole one: where only the kernel could know more, because it was not asked lately, it is asked.
fn at_once(family: Family, fds: &mut [pollfd]) -> Option<i32> {
    if fds.len() > FEW || IN_A_ROW.replace(IN_A_ROW.get() + 1) >= ROW {
        IN_A_ROW.set(0);
        return None;
    }
    let mut n = 0;
    for p in fds.iter_mut() {
        p.revents = 0;
        if p.fd < 0 {
            continue;
        }
        // Urgent bytes, ends and errors are the kernel's to tell, and all of what is no channel.
        let c = live(family, p).filter(|_| p.events & !(IN | OUT) == 0)?;
        if c.stage() != Stage::Live
            || c.has(Conn::SHUT_WR | Conn::SHUT_RD)
            || c.receiving().tx.is_ending()
            || c.error.load(Ordering::Relaxed) != 0
        {
            return None;
        }
        if p.events & IN != 0 && c.has_data() {
            p.revents |= p.events & IN;
        }
        if p.events & OUT != 0 {
            if !in_ring(c.sending().tx.epoch()) {
                return None;
            }
            // A caller that waits for bytes as well wants to know of an end or an error first.
            if p.revents == 0 && p.events & IN != 0 {
                return None;
            }
            p.revents |= p.events & OUT;
        }
        n += i32::from(p.revents != 0);
    }
    if n == 0 {
        IN_A_ROW.set(0);
        return None;
    }
    let (list, len, when) = ASKED.get();
    let complete = fds.len() == 1
        || (list, len) == (fds.as_ptr().addr(), fds.len()) && state::now().saturating_sub(when) < HOLDS;
    complete.then_some(n)
}

fn any_news(family: Family, fds: &[pollfd]) -> bool {
    // Of sets the kernel tells: they are exposed.
    let has_some = |p: &pollfd| p.events & IN != 0 && live(family, p).is_some_and(|c| c.is_readable());
    briefly(|| fds.iter().any(has_some))
}

/// Asks the kernel, then makes its answer true for channels: a bell alone is nothing to read.
fn pass(
    family: Family,
    fds: &mut [pollfd],
    timeout: i64,
    kernel: &impl Fn(&mut [pollfd], i64) -> Result<i32, i32>,
) -> Result<i32, i32> {
    kernel(fds, timeout)?;
    Ok(briefly(|| correct(family, fds)))
}

/// What the kernel said of these descriptors, made true for channels; of how many there is something to say.
fn correct(family: Family, fds: &mut [pollfd]) -> i32 {
    let mut n = 0;
    for p in fds.iter_mut() {
        if let Some(c) = live(family, p) {
            // What the other end's death draws, the kernel has only since.
            let over = p.revents & if c.has(Conn::SHUT_WR) { libc::POLLERR } else { libc::POLLHUP } != 0;
            let told = p.revents & (IN | libc::POLLRDHUP | libc::POLLHUP) != 0;
            if told && !over && c.hears_of_death() {
                p.revents |= libc::POLLHUP | p.events & (IN | OUT | libc::POLLRDHUP);
            }
            if p.revents & IN != 0 && !c.has_counted() {
                let hot = c.receiving().word.is_hot();
                if c.settle(!hot) == Settled::Quiet {
                    p.revents &= !IN;
                }
            }
            // While the word is hot no bell tells that the sender went over to the ring: it is followed here.
            if p.events & IN != 0 && c.is_readable() {
                p.revents |= p.events & IN;
            }
            // A receive that had bytes to give met it, so the kernel does not have it any more (W13).
            if c.error.load(Ordering::Relaxed) != 0 {
                p.revents |= libc::POLLERR;
            }
        } else if let Entry::Epoll(i) = fdtable::get(p.fd) {
            if p.revents & IN != 0 && !epoll::is_ready(epoll::name(i)) {
                p.revents &= !IN;
            }
        }
        n += i32::from(p.revents != 0);
    }
    n
}

/// W2 for every channel in the list, one more look, then the kernel's wait. `room` is for as many of them as possible.
fn asleep(
    family: Family,
    fds: &mut [pollfd],
    flight: Option<&Flight>,
    timeout: i64,
    room: &mut [Sleeper],
    kernel: &impl Fn(&mut [pollfd], i64) -> Result<i32, i32>,
) -> Result<i32, i32> {
    let by_event = |p: &pollfd| live(family, p).is_some_and(|c| p.events & IN != 0 && c.may_have_event());
    let event = if fds.len() <= event::FEW && fds.iter().any(by_event) { event::take() } else { None };
    let (slept, news) = briefly(|| arm(family, fds, flight, event, room));
    let news = news || any_news(family, fds);
    let result = match event {
        _ if news => pass(family, fds, 0, kernel),
        _ if signals::came() => Err(libc::EINTR),
        Some(event) => {
            pass(family, fds, timeout, &|fds: &mut [pollfd], t| event.poll(fds, |fds| kernel(fds, t)))
        }
        None => pass(family, fds, timeout, kernel),
    };
    if let Some(event) = event.filter(|_| result == Ok(0) && timeout >= FIRST_NET) {
        count_if_untold(family, fds, event);
    }
    briefly(|| slept.awake(family));
    if let Some(event) = event {
        event.give_back();
    }
    result
}

/// How long a look may take, ns; the first channel's own record says what pays. 0: none would.
fn budget(family: Family, fds: &[pollfd]) -> u32 {
    let pays = |p: &pollfd| {
        live(family, p).is_some_and(|c| {
            p.events & IN != 0 && c.stage() == Stage::Live && spin::can_pay(&c, &c.receiving())
        })
    };
    let worthwhile = briefly(|| fds.iter().take(64).any(pays));
    let first = || fds.iter().find_map(|p| live(family, p));
    if worthwhile {
        first().map_or(0, |c| spin::budget(&c))
    } else {
        0
    }
}

/// Looks for a while.
fn spin(family: Family, fds: &[pollfd], budget: u32) -> bool {
    let Some(first) = fds.iter().find_map(|p| live(family, p)) else { return false };
    spin::looking(|| {
        fds.iter().filter_map(|p| live(family, p)).for_each(|c| spin::heat(&c));
        spin::and_learn(&first, budget, || {
            fds.iter().any(|p| live(family, p).is_some_and(|c| c.hint(&c.receiving()))) || signals::came()
        })
    })
}

#[cfg(test)]
mod tests;
