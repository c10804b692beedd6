//! select and pselect: as a poll of what is in the sets.

use core::ffi::c_int;

use libc::{fd_set, pollfd, sigset_t, timespec, timeval};

use dp_channel::poll::select;

use super::give_int;
use super::wait::{nanoseconds, poll_ours};
use crate::fdtable::{self, Entry};
use crate::retire::retire;
use crate::tx::owed;
use crate::walk::nowhere;
use crate::{kept, real, state, wait};
use dp_edge::sys::raw;

/// Descriptors for which the list lies on the stack.
const FEW: usize = 64;
const NOBODY: pollfd = pollfd { fd: -1, events: 0, revents: 0 };

struct Sets {
    n: usize,
    set: [*mut fd_set; 3],
}

impl Sets {
    fn has(&self, which: usize, fd: usize) -> bool {
        let p = self.set[which].cast::<u64>();
        // SAFETY: the program's sets cover `n` descriptors, fd < n.
        !p.is_null() && unsafe { *p.add(fd / 64) } & (1 << (fd % 64)) != 0
    }
    fn events(&self, fd: usize) -> i16 {
        (0..3).filter(|&w| self.has(w, fd)).fold(0, |e, w| e | select::ASKED[w])
    }
    fn count(&self) -> usize {
        (0..self.n).filter(|&fd| self.events(fd) != 0).count()
    }
    fn gather(&self, out: &mut [pollfd]) {
        let all = (0..self.n).map(|fd| (fd, self.events(fd))).filter(|(_, events)| *events != 0);
        for (to, (fd, events)) in out.iter_mut().zip(all) {
            *to = pollfd { fd: fd as c_int, events, revents: 0 };
        }
    }
    /// Writes back what is ready.
    fn scatter(&mut self, list: &[pollfd]) {
        // What was in which set, the list says: by now the sets may say something else, where one is given in several
        // arguments. What is said of the last of them stands then, as the kernel writes them in this order.
        for p in list {
            for which in 0..3 {
                let Some(is_ready) = select::is_ready(p, which) else { continue };
                let (fd, bit) = (select::number(p), 1 << (select::number(p) % 64));
                // SAFETY: as in has(); it was in that set.
                let word = unsafe { &mut *self.set[which].cast::<u64>().add(fd / 64) };
                *word = if is_ready { *word | bit } else { *word & !bit };
            }
        }
    }
}

/// How many descriptors a select of `n` looks at. The kernel reads no more of the program's sets than its table has
/// places, so programs say more than their sets are long; and that table is larger for our own descriptors.
fn looked_at(n: c_int) -> c_int {
    if n as usize <= libc::FD_SETSIZE || state::family_fd() < 0 {
        return n;
    }
    let high = highest(n);
    // The table begins with 64 places, and grows by the power of two, in pages of 128 (fs/file.c).
    let places = if high < 64 { 64 } else { ((high / 128) as u32 + 1).next_power_of_two() as c_int * 128 };
    n.min(places)
}

/// The program's highest descriptor below `n`; -1: none.
fn highest(n: c_int) -> c_int {
    let mut piece = [NOBODY; FEW];
    let mut end = n.min(fdtable::LIMIT as c_int);
    while end > 0 {
        let from = (end - FEW as c_int).max(0);
        for (p, fd) in piece.iter_mut().zip(from..end) {
            *p = pollfd {
                fd: if fdtable::get(fd) == Entry::Internal { -1 } else { fd },
                events: 0,
                revents: 0,
            };
        }
        let asked = &mut piece[..(end - from) as usize];
        let known = raw::poll_now(asked).is_ok();
        if let Some(p) = asked.iter().rev().find(|p| p.fd >= 0 && (!known || p.revents & libc::POLLNVAL == 0))
        {
            return p.fd;
        }
        end = from;
    }
    -1
}

/// Whether any descriptor in the sets needs more than the kernel's own answer, or the call must not sleep for long; then the answer.
fn select_on(n: c_int, sets: [*mut fd_set; 3], ns: i64, mask: *const sigset_t) -> Option<Result<i32, i32>> {
    let n = usize::try_from(n).ok()?;
    // An address where nothing is, the kernel refuses.
    if sets.iter().any(|set| !set.is_null() && nowhere(*set)) {
        return None;
    }
    let mut sets = Sets { n, set: sets };
    use Entry::{Elsewhere, Listener, None as Nothing, Unconnected};
    let ours =
        |fd: usize| !matches!(fdtable::get(fd as c_int), Nothing | Listener(_) | Elsewhere | Unconnected(_));
    owed::look_after();
    let looks = ns != 0 && owed::is_any();
    let has_ours = (0..n).any(|fd| ours(fd) && (0..3).any(|w| sets.has(w, fd)));
    if !has_ours && !looks {
        return None;
    }
    let k = sets.count();
    kept::list(k, &mut [NOBODY; FEW], NOBODY, |list| match list.len() == k {
        true => select_with(&mut sets, list, looks, ns, mask),
        false => has_ours.then_some(Err(libc::ENOMEM)),
    })
}

fn select_with(
    sets: &mut Sets,
    list: &mut [pollfd],
    looks: bool,
    ns: i64,
    mask: *const sigset_t,
) -> Option<Result<i32, i32>> {
    sets.gather(list);
    let involved = wait::involves(list);
    if !involved && (!looks || list.is_empty()) {
        return None;
    }
    let got = select::select(list, ns, state::now, |list, ns| poll_ours(list, ns, mask));
    // Unlike select(2), poll(2) refuses lists that are longer than the limit of descriptors.
    if got == Err(libc::EINVAL) && list.len() as u64 > state::descriptor_limit() {
        if involved {
            retire();
        }
        return None;
    }
    if got.is_ok() {
        sets.scatter(list);
    }
    Some(got)
}

/// select(2). On Linux the time left is written back.
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn select(
    n: c_int,
    r: *mut fd_set,
    w: *mut fd_set,
    e: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    let n = looked_at(n);
    let ns = if timeout.is_null() {
        Some(-1)
    } else {
        // SAFETY: the program's timeout.
        let t = unsafe { *timeout };
        let small = t.tv_sec >= 0 && t.tv_usec >= 0;
        small.then(|| t.tv_sec.saturating_mul(1_000_000_000).saturating_add(t.tv_usec.saturating_mul(1000)))
    };
    let start = crate::state::now();
    match ns.and_then(|ns| select_on(n, [r, w, e], ns, core::ptr::null()).map(|g| (ns, g))) {
        Some((ns, got)) => {
            if ns >= 0 {
                let left = (ns - (crate::state::now() - start) as i64).max(0) / 1000;
                // SAFETY: the program's timeout.
                unsafe { *timeout = timeval { tv_sec: left / 1_000_000, tv_usec: left % 1_000_000 } };
            }
            give_int(got)
        }
        // SAFETY: the program's arguments.
        None => unsafe { real::select()(n, r, w, e, timeout) },
    }
}

/// pselect(2).
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn pselect(
    n: c_int,
    r: *mut fd_set,
    w: *mut fd_set,
    e: *mut fd_set,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let n = looked_at(n);
    // SAFETY: the program's timeout.
    let ns = if timeout.is_null() { Some(-1) } else { nanoseconds(unsafe { &*timeout }) };
    match ns.and_then(|ns| select_on(n, [r, w, e], ns, mask)) {
        Some(got) => give_int(got),
        // SAFETY: the program's arguments.
        None => unsafe { real::pselect()(n, r, w, e, timeout, mask) },
    }
}
