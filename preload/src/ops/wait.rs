//! poll, select, epoll: the argument forms; the work is in [`crate::wait`] and [`crate::epoll`].

use core::ffi::c_int;

use libc::{epoll_event, fd_set, pollfd, sigset_t, size_t, timespec, timeval};

use super::{errno, give_int};
use crate::fdtable::{self, Entry};
use crate::retire::retire;
use crate::walk::nowhere;
use crate::{epoll, kept, life, real, state, wait};
use dp_edge::sys::raw;

const MS: i64 = 1_000_000;

fn nanoseconds(t: &timespec) -> Option<i64> {
    if t.tv_sec < 0 || !(0..1_000_000_000).contains(&t.tv_nsec) {
        return None;
    }
    Some(t.tv_sec.saturating_mul(1_000_000_000).saturating_add(t.tv_nsec))
}

fn result(n: c_int) -> Result<i32, i32> {
    if n < 0 {
        Err(errno())
    } else {
        Ok(n)
    }
}

/// libc's ppoll with a timeout in nanoseconds, negative for ever.
fn kernel_poll(fds: &mut [pollfd], timeout: i64, mask: *const sigset_t) -> Result<i32, i32> {
    let t = timespec { tv_sec: timeout / 1_000_000_000, tv_nsec: timeout % 1_000_000_000 };
    let t = if timeout < 0 { core::ptr::null() } else { &raw const t };
    // SAFETY: the program's array and mask.
    result(unsafe { real::ppoll()(fds.as_mut_ptr(), fds.len() as _, t, mask) })
}

/// # Safety
///
/// `fds` is the program's array of `n`.
unsafe fn list<'a>(fds: *mut pollfd, n: libc::nfds_t) -> &'a mut [pollfd] {
    if fds.is_null() || n == 0 || n > 1 << 20 {
        return &mut [];
    }
    // SAFETY: by the contract.
    unsafe { core::slice::from_raw_parts_mut(fds, n as usize) }
}

/// poll(2).
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn poll(fds: *mut pollfd, n: libc::nfds_t, timeout: c_int) -> c_int {
    // SAFETY: the program's array.
    let all = unsafe { list(fds, n) };
    let kernel = || {
        // SAFETY: the program's arguments.
        unsafe { real::poll()(fds, n, timeout) }
    };
    if let Some(rc) = wait::by_kernel(all, timeout != 0, kernel) {
        return rc;
    }
    let ns = if timeout < 0 { -1 } else { i64::from(timeout) * MS };
    give_int(wait::poll(all, ns, false, |f, t| kernel_poll(f, t, core::ptr::null())))
}

/// ppoll(2).
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn ppoll(
    fds: *mut pollfd,
    n: libc::nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the program's array.
    let all = unsafe { list(fds, n) };
    // SAFETY: the program's timeout, if it has one.
    let ns = unsafe { timeout.as_ref() }.map_or(Some(-1), nanoseconds);
    let kernel = || {
        // SAFETY: the program's arguments.
        unsafe { real::ppoll()(fds, n, timeout, mask) }
    };
    let Some(ns) = ns else { return kernel() };
    if let Some(rc) = wait::by_kernel(all, ns != 0, kernel) {
        return rc;
    }
    give_int(wait::poll(all, ns, !mask.is_null(), |f, t| kernel_poll(f, t, mask)))
}

/// What -D_FORTIFY_SOURCE makes of poll.
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn poll_chk(fds: *mut pollfd, n: libc::nfds_t, timeout: c_int, room: size_t) -> c_int {
    if (n as usize).saturating_mul(size_of::<pollfd>()) > room {
        // SAFETY: glibc's own check ends the program.
        return unsafe { real::__poll_chk()(fds, n, timeout, room) };
    }
    // SAFETY: the program's arguments.
    unsafe { poll(fds, n, timeout) }
}

/// What -D_FORTIFY_SOURCE makes of ppoll.
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn ppoll_chk(
    fds: *mut pollfd,
    n: libc::nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
    room: size_t,
) -> c_int {
    if (n as usize).saturating_mul(size_of::<pollfd>()) > room {
        // SAFETY: glibc's own check ends the program.
        return unsafe { real::__ppoll_chk()(fds, n, timeout, mask, room) };
    }
    // SAFETY: the program's arguments.
    unsafe { ppoll(fds, n, timeout, mask) }
}

/// Descriptors for which the list lies on the stack.
const FEW: usize = 64;
const NOBODY: pollfd = pollfd { fd: -1, events: 0, revents: 0 };

struct Sets {
    n: usize,
    set: [*mut fd_set; 3],
}

const BITS: [i16; 3] = [libc::POLLIN | libc::POLLRDNORM, libc::POLLOUT, libc::POLLPRI];
/// What makes a descriptor ready in each of the three sets, as the kernel's select has it.
const READY: [i16; 3] = [
    libc::POLLIN | libc::POLLRDNORM | libc::POLLHUP | libc::POLLERR | libc::POLLRDBAND,
    libc::POLLOUT | libc::POLLWRNORM | libc::POLLERR | libc::POLLWRBAND,
    libc::POLLPRI,
];

impl Sets {
    fn has(&self, which: usize, fd: usize) -> bool {
        let p = self.set[which].cast::<u64>();
        // SAFETY: the program's sets cover `n` descriptors, fd < n.
        !p.is_null() && unsafe { *p.add(fd / 64) } & (1 << (fd % 64)) != 0
    }
    fn events(&self, fd: usize) -> i16 {
        (0..3).filter(|&w| self.has(w, fd)).fold(0, |e, w| e | BITS[w])
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
    fn scatter(&mut self, list: &[pollfd]) -> Result<i32, i32> {
        if list.iter().any(|p| p.revents & libc::POLLNVAL != 0) {
            return Err(libc::EBADF);
        }
        let mut count = 0;
        for (w, ready) in READY.into_iter().enumerate() {
            if self.set[w].is_null() {
                continue;
            }
            for p in list {
                let fd = p.fd as usize;
                if self.has(w, fd) {
                    if p.revents & ready != 0 {
                        count += 1;
                    } else {
                        // SAFETY: as in has().
                        unsafe { *self.set[w].cast::<u64>().add(fd / 64) &= !(1 << (fd % 64)) };
                    }
                }
            }
        }
        Ok(count)
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

/// Whether any descriptor in the sets needs more than the kernel's own answer; then the answer.
fn select_on(n: c_int, sets: [*mut fd_set; 3], ns: i64, mask: *const sigset_t) -> Option<Result<i32, i32>> {
    let n = usize::try_from(n).ok()?;
    let mut sets = Sets { n, set: sets };
    use Entry::{Elsewhere, Listener, None as Nothing, Unconnected};
    let ours =
        |fd: usize| !matches!(fdtable::get(fd as c_int), Nothing | Listener(_) | Elsewhere | Unconnected(_));
    if !(0..n).any(|fd| ours(fd) && (0..3).any(|w| sets.has(w, fd))) {
        return None;
    }
    let k = sets.count();
    if k <= FEW {
        return select_with(&mut sets, &mut [NOBODY; FEW][..k], ns, mask);
    }
    // A thread's stack may be a small one.
    if k * size_of::<pollfd>() <= kept::SIZE {
        let with = |place: *mut u8| {
            // SAFETY: no more than fit, at the start of a page, and any bytes are a value of them.
            let list = unsafe { core::slice::from_raw_parts_mut(place.cast::<pollfd>(), k) };
            select_with(&mut sets, list, ns, mask)
        };
        return kept::with(with).unwrap_or(Some(Err(libc::ENOMEM)));
    }
    // A thread that is ended here leaves it; a frame with something to drop would end the process.
    let mut list = core::mem::ManuallyDrop::new(dp_edge::sys::pages::Pages::new());
    if !list.resize(k, NOBODY) {
        return Some(Err(libc::ENOMEM));
    }
    let answer = select_with(&mut sets, list.all_mut(), ns, mask);
    list.clear();
    answer
}

fn select_with(
    sets: &mut Sets,
    list: &mut [pollfd],
    ns: i64,
    mask: *const sigset_t,
) -> Option<Result<i32, i32>> {
    sets.gather(list);
    if !wait::involves(list) {
        return None;
    }
    let got = wait::poll(list, ns, !mask.is_null(), |f, t| kernel_poll(f, t, mask));
    // Unlike select(2), poll(2) refuses lists that are longer than the limit of descriptors.
    if got == Err(libc::EINVAL) && list.len() as u64 > state::descriptor_limit() {
        retire();
        return None;
    }
    Some(got.and_then(|_| sets.scatter(list)))
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

/// epoll_create(2).
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn epoll_create(size: c_int) -> c_int {
    // SAFETY: the program's argument.
    made(unsafe { real::epoll_create()(size) })
}

/// epoll_create1(2).
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn epoll_create1(flags: c_int) -> c_int {
    // SAFETY: the program's argument.
    made(unsafe { real::epoll_create1()(flags) })
}

fn made(fd: c_int) -> c_int {
    life::forget_stale(fd);
    epoll::born(fd);
    fd
}

/// epoll_ctl(2).
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn epoll_ctl(ep: c_int, op: c_int, fd: c_int, event: *mut epoll_event) -> c_int {
    let ours = matches!(fdtable::get(ep), Entry::Epoll(_))
        || !matches!(fdtable::get(fd), Entry::None | Entry::Unconnected(_));
    // An address where nothing is, the kernel refuses.
    if ours && (op == libc::EPOLL_CTL_DEL || !nowhere(event)) {
        // SAFETY: the program's event; not read where it need not be there.
        let e = (op != libc::EPOLL_CTL_DEL).then(|| unsafe { event.read_unaligned() });
        if let Some(r) = epoll::ctl(ep, op, fd, e) {
            return give_int(r.map(|()| 0));
        }
    }
    // SAFETY: the program's arguments.
    unsafe { real::epoll_ctl()(ep, op, fd, event) }
}

fn epoll_on(
    ep: c_int,
    events: *mut epoll_event,
    max: c_int,
    ns: i64,
    mask: *const sigset_t,
    fine: bool,
) -> Option<c_int> {
    let Entry::Epoll(i) = fdtable::get(ep) else { return None };
    let kernel = |set: c_int, events: *mut epoll_event, max: i32, ns: i64| {
        if fine {
            let t = timespec { tv_sec: ns / 1_000_000_000, tv_nsec: ns % 1_000_000_000 };
            let t = if ns < 0 { core::ptr::null() } else { &raw const t };
            // SAFETY: the program's array and mask; the program has found this call, too.
            return result(unsafe { real::epoll_pwait2()(set, events, max, t, mask) });
        }
        // Rounded up, as every timeout of the kernel is.
        let ms = if ns < 0 { -1 } else { ((ns + MS - 1) / MS).min(i64::from(i32::MAX)) as c_int };
        // SAFETY: the program's array and mask.
        result(unsafe {
            if mask.is_null() {
                real::epoll_wait()(set, events, max, ms)
            } else {
                real::epoll_pwait()(set, events, max, ms, mask)
            }
        })
    };
    epoll::wait(ep, i, events, max, ns, !mask.is_null(), kernel).map(give_int)
}

/// A wait on set `ep` in which nothing of ours takes part, but that its own event is not the program's to see.
fn alone(ep: c_int, events: *mut epoll_event, kernel: impl Fn() -> c_int) -> c_int {
    loop {
        let n = kernel();
        if n <= 0 || !matches!(fdtable::get(ep), Entry::Epoll(_)) {
            return n;
        }
        // SAFETY: the kernel filled as many entries.
        let n = unsafe { epoll::without(events, n as usize) };
        if n > 0 {
            return n as c_int;
        }
    }
}

/// epoll_wait(2).
///
/// # Safety
///
/// As for the call it replaces.
#[inline]
pub unsafe fn epoll_wait(ep: c_int, events: *mut epoll_event, max: c_int, timeout: c_int) -> c_int {
    let ns = if timeout < 0 { -1 } else { i64::from(timeout) * MS };
    match epoll_on(ep, events, max, ns, core::ptr::null(), false) {
        Some(n) => n,
        // SAFETY: the program's arguments.
        None => alone(ep, events, || unsafe { real::epoll_wait()(ep, events, max, timeout) }),
    }
}

/// epoll_pwait(2).
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn epoll_pwait(
    ep: c_int,
    events: *mut epoll_event,
    max: c_int,
    timeout: c_int,
    mask: *const sigset_t,
) -> c_int {
    let ns = if timeout < 0 { -1 } else { i64::from(timeout) * MS };
    match epoll_on(ep, events, max, ns, mask, false) {
        Some(n) => n,
        // SAFETY: the program's arguments.
        None => alone(ep, events, || unsafe { real::epoll_pwait()(ep, events, max, timeout, mask) }),
    }
}

/// epoll_pwait2(2).
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn epoll_pwait2(
    ep: c_int,
    events: *mut epoll_event,
    max: c_int,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the program's timeout.
    let ns = if timeout.is_null() { Some(-1) } else { nanoseconds(unsafe { &*timeout }) };
    match ns.and_then(|ns| epoll_on(ep, events, max, ns, mask, true)) {
        Some(n) => n,
        // SAFETY: the program's arguments.
        None => unsafe { real::epoll_pwait2()(ep, events, max, timeout, mask) },
    }
}
