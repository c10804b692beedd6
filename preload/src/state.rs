//! What the shim keeps per process: settings, the family's memory, who we are.
//!
//! Everything here is reached from real, so it is plain atomics: no lock, no allocation, no destructor.

use core::cell::Cell;
use core::sync::atomic::{fence, AtomicBool, AtomicI32, AtomicPtr, AtomicU32, Ordering};
use std::sync::OnceLock;

use dp_channel::arena::Geometry;
use dp_channel::family::{Family, Reason, SLOTS};
use dp_edge::ring::LINE;
use dp_edge::sys::{raw, sparse, together};
use dp_rules::config::environment;
use dp_rules::Settings;

/// Set once the constructor has run and nothing forbids taking part.
pub static ON: AtomicBool = AtomicBool::new(false);
/// Why there are to be no new channels in this process; 0: there may be.
static ENDED: AtomicU32 = AtomicU32::new(0);
static FAMILY: AtomicPtr<Family> = AtomicPtr::new(core::ptr::null_mut());
static FAMILY_FD: AtomicI32 = AtomicI32::new(-1);
/// CPUs this process may run on, at start.
pub static CPUS: AtomicU32 = AtomicU32::new(1);
/// Calls on a connection before it is offered (`DP_AFTER`).
pub static AFTER: AtomicU32 = AtomicU32::new(environment::AFTER.default as u32);
/// Whether nobody has set `DP_AFTER`, so that offers may come later where channels do not pay.
pub static LEARNS: AtomicBool = AtomicBool::new(true);
/// Lines per ring (`DP_RING` / 64).
pub static RING_LINES: AtomicU32 = AtomicU32::new((environment::RING.default as usize / LINE) as u32);
/// Lines of a ring that a stream goes over to (`DP_RING_LONG` / 64); not more than those: there is none.
pub static SPARE_LINES: AtomicU32 = AtomicU32::new((environment::RING_LONG.default as usize / LINE) as u32);
/// Longest time a wait looks in user space before it sleeps, ns (`DP_SPIN`).
pub static SPIN: AtomicU32 = AtomicU32::new(environment::SPIN.default as u32);
/// Seed of forced switches (`DP_CHAOS`), 0 off.
pub static CHAOS: AtomicU32 = AtomicU32::new(0);
/// Whether a rule of ours ever said how long waits spin.
static SPINS: AtomicBool = AtomicBool::new(false);
/// The largest of [`RING_LINES`] and what rules ask for: a server fills rings of clients by this measure.
static MOST_RING_LINES: AtomicU32 = AtomicU32::new(0);
/// The same of [`SPARE_LINES`].
static MOST_SPARE_LINES: AtomicU32 = AtomicU32::new(0);

static NAME: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
static NAME_LEN: AtomicU32 = AtomicU32::new(0);

const PAGE: usize = together::PAGE;

/// The page that a forked child finds zeroed (MADV_WIPEONFORK): member number + 1, and the pid.
#[repr(C)]
struct Self_ {
    member: AtomicU32,
    pid: AtomicU32,
}
static SELF: AtomicPtr<Self_> = AtomicPtr::new(core::ptr::null_mut());

thread_local! {
    /// Thread id and the pid it was read in; const-initialised, no destructor.
    static TID: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
}

/// There are no new channels from now on.
pub fn end_channels(why: Reason) {
    ENDED.store(why as u32, Ordering::SeqCst);
    // Before whoever ends them looks for connections: one that begins meanwhile is seen by that look, or sees this (`life::track`).
    fence(Ordering::SeqCst);
}

/// Why there are to be no new channels in this process.
pub fn ended() -> Option<Reason> {
    Reason::from_number(ENDED.load(Ordering::SeqCst)).filter(|&why| why != Reason::None)
}

/// Keeps the program's name. Called by the constructor only.
pub fn set_program(name: &'static [u8]) {
    NAME_LEN.store(name.len() as u32, Ordering::Relaxed);
    NAME.store(name.as_ptr() as *mut u8, Ordering::Release);
}

/// The program's name, without its path.
pub fn program() -> &'static [u8] {
    let p = NAME.load(Ordering::Acquire);
    if p.is_null() {
        return b"";
    }
    // SAFETY: set together, from a leaked slice.
    unsafe { core::slice::from_raw_parts(p, NAME_LEN.load(Ordering::Relaxed) as usize) }
}

/// Lines of a ring of so many bytes.
pub fn lines(bytes: u32) -> u32 {
    (bytes.max(4096).next_power_of_two() as usize / LINE) as u32
}

/// Sizes of an arena that we make, for channels with these settings.
pub fn geometry(settings: &Settings) -> Geometry {
    let own = |set: Option<u32>, all: &AtomicU32| set.map_or_else(|| all.load(Ordering::Relaxed), lines);
    let lines = own(settings.ring, &RING_LINES);
    let spare = Some(own(settings.ring_long, &SPARE_LINES)).filter(|&n| n > lines).unwrap_or(0);
    Geometry { slots: SLOTS as u32, lines, spare }
}

/// Keeps what rules ask for that concerns more than the connections they are for.
pub fn set_for_rules<'a>(of_rules: impl Iterator<Item = &'a Settings>) {
    let (mut ring, mut long) = (0, 0);
    for settings in of_rules {
        if settings.spin.is_some() {
            SPINS.store(true, Ordering::Relaxed);
        }
        ring = ring.max(settings.ring.map_or(0, lines));
        long = long.max(settings.ring_long.map_or(0, lines));
    }
    MOST_RING_LINES.store(ring, Ordering::Relaxed);
    MOST_SPARE_LINES.store(long, Ordering::Relaxed);
}

/// Whether a connection may have a spin of its own.
pub fn spins_differ() -> bool {
    SPINS.load(Ordering::Relaxed)
}

/// The largest arena of ours, by which those of clients are measured.
pub fn largest() -> Geometry {
    let lines = MOST_RING_LINES.load(Ordering::Relaxed).max(RING_LINES.load(Ordering::Relaxed));
    let spare = Some(longest()).filter(|&n| n > lines).unwrap_or(0);
    Geometry { slots: SLOTS as u32, lines, spare }
}

/// Lines of the longest ring for streams that we fill.
pub fn longest() -> u32 {
    MOST_SPARE_LINES.load(Ordering::Relaxed).max(SPARE_LINES.load(Ordering::Relaxed))
}

/// Zeroed memory of our own, without malloc; pages that nobody touches take none.
pub fn reserve<T>(bytes: usize) -> Option<*mut T> {
    sparse::reserve(bytes).map(<*mut u8>::cast)
}

/// Maps the page that tells a forked child from its parent.
pub fn prepare_self() -> bool {
    let Some(p) = reserve::<Self_>(PAGE) else { return false };
    // SAFETY: the page just mapped; it is never unmapped.
    if unsafe { libc::madvise(p.cast(), PAGE, libc::MADV_WIPEONFORK) } != 0 {
        return false;
    }
    // SAFETY: as above; Self_ is made of atomics, and zero is a value of them.
    unsafe { &*p }.pid.store(raw::getpid(), Ordering::Relaxed);
    SELF.store(p, Ordering::Release);
    true
}

fn self_page() -> Option<&'static Self_> {
    let p = SELF.load(Ordering::Acquire);
    // SAFETY: set once, never unmapped, made of atomics.
    (!p.is_null()).then(|| unsafe { &*p })
}

/// The family, if there is one already.
#[inline(always)]
pub fn family() -> Option<Family> {
    let p = FAMILY.load(Ordering::Acquire);
    // SAFETY: set once from a leaked box.
    (!p.is_null()).then(|| unsafe { *p })
}

/// Keeps the family, unless another thread was faster. `None`: there is no memory for it.
pub fn set_family(family: Family) -> Option<bool> {
    let place = leak_value(family)?;
    Some(FAMILY.compare_exchange(core::ptr::null_mut(), place, Ordering::AcqRel, Ordering::Acquire).is_ok())
}

/// Keeps the descriptor of the family's memory.
pub fn set_family_fd(fd: i32) {
    FAMILY_FD.store(fd, Ordering::Release);
}

/// The family's memory, -1 if there is none.
pub fn family_fd() -> i32 {
    FAMILY_FD.load(Ordering::Acquire)
}

/// Puts a value into a page of its own, without malloc.
pub fn leak_value<T>(value: T) -> Option<*mut T> {
    const { assert!(size_of::<T>() <= PAGE) };
    let p = together::take(PAGE)?.cast::<T>();
    // SAFETY: the page just taken, larger than T.
    unsafe { p.write(value) };
    Some(p)
}

/// Takes back what [`leak_value`] gave.
///
/// # Safety
///
/// `p` came from there and nobody uses it any more.
pub unsafe fn free_value<T>(p: *mut T) {
    // SAFETY: one page, by the contract.
    unsafe { together::give_back(p.cast(), PAGE) };
}

/// Descriptors a process must be allowed before the shim takes one of them.
pub const ROOMY: u64 = 64;

/// Descriptors this process may have, as far as that is of use.
pub fn descriptor_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: fills the struct it is given.
    match unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } {
        0 => limit.rlim_cur.min(1 << 20),
        _ => 1024,
    }
}

/// Whether the program has descriptors to spare.
pub fn roomy() -> bool {
    descriptor_limit() >= ROOMY
}

/// Our number among the family's members; joins if need be. `None` when there is no family, or too many are in it already.
pub fn member() -> Option<u32> {
    let page = self_page()?;
    match page.member.load(Ordering::Acquire) {
        0 => join(page),
        n => Some(n - 1),
    }
}

/// Our member number if we have joined.
#[inline]
pub fn member_if_joined() -> Option<u32> {
    self_page().and_then(|p| p.member.load(Ordering::Acquire).checked_sub(1))
}

#[cold]
fn join(page: &Self_) -> Option<u32> {
    let family = family()?;
    let pid = raw::getpid();
    // SAFETY: no arguments, no failure.
    let uid = unsafe { libc::geteuid() };
    // One thread of ours: a process is one member.
    if JOINING.swap(true, Ordering::Acquire) {
        // Not for ever: it may be the call that this handler has interrupted.
        (0..1000).take_while(|_| JOINING.load(Ordering::Acquire)).for_each(|_| raw::yield_now());
        return page.member.load(Ordering::Acquire).checked_sub(1);
    }
    let enlist = || family.enlist(|m| m.claim(pid, uid, program()));
    let found = match page.member.load(Ordering::Acquire) {
        0 => enlist().or_else(|| {
            if let Some(make_room) = MAKES_ROOM.get() {
                make_room(family);
            }
            enlist()
        }),
        n => Some(n - 1),
    };
    if let Some(i) = found {
        page.pid.store(pid, Ordering::Relaxed);
        page.member.store(i + 1, Ordering::Release);
    }
    JOINING.store(false, Ordering::Release);
    found
}

/// What gives back the places of the dead among the family's members. It knows connections, which stand on all that is
/// here, so it says who it is when the library is loaded.
pub static MAKES_ROOM: OnceLock<fn(Family)> = OnceLock::new();

/// A thread is making this process a member.
static JOINING: AtomicBool = AtomicBool::new(false);

/// In the child of a fork, whose page is empty: its number, if its parent reserved one, and who it is.
pub fn begin_as_child(member: Option<u32>, pid: u32) {
    // A thread of the parent may have been at it.
    if JOINING.load(Ordering::Relaxed) {
        JOINING.store(false, Ordering::Relaxed);
    }
    if let Some(page) = self_page() {
        // Also without a number: its own children of vfork are told by it.
        page.pid.store(pid, Ordering::Relaxed);
        page.member.store(member.map_or(0, |n| n + 1), Ordering::Release);
    }
}

/// In a forked child: what a thread of the parent had set is nobody's. A page that is not written to stays shared.
pub fn clear(word: &AtomicU32) {
    if word.load(Ordering::Relaxed) != 0 {
        word.store(0, Ordering::Release);
    }
}

/// The process whose memory this is; in a child of vfork, its parent. What notes it tells whether a fork came since.
pub fn owner() -> u32 {
    self_page().map_or(0, |page| page.pid.load(Ordering::Relaxed))
}

/// Whether this is a child of vfork (or a raw clone) that shares our memory: it must change nothing.
pub fn is_borrowed_memory() -> bool {
    self_page().is_some() && pid().is_none()
}

/// The id of this process; `None` in such a child.
pub fn pid() -> Option<u32> {
    let page = self_page()?;
    let (ours, now) = (page.pid.load(Ordering::Relaxed), raw::getpid());
    (ours == 0 || ours == now).then_some(now)
}

/// Lock owner word of this thread.
#[inline(always)]
pub fn me() -> u64 {
    let page = SELF.load(Ordering::Relaxed);
    if page.is_null() {
        return 1;
    }
    // SAFETY: set once, never unmapped, made of atomics.
    let page = unsafe { &*page };
    let pid = page.pid.load(Ordering::Relaxed);
    let member = page.member.load(Ordering::Relaxed);
    let (tid, of) = TID.get();
    if of == pid && pid != 0 && member != 0 {
        return (u64::from(member) << 32) | u64::from(tid);
    }
    me_slow(page)
}

/// This thread's id, without joining a family.
#[inline]
pub fn tid() -> u32 {
    let pid = owner();
    let (tid, of) = TID.get();
    if of == pid && pid != 0 {
        return tid;
    }
    let tid = raw::gettid();
    TID.set((tid, pid));
    tid
}

/// Whether a thread of this process lives. Doubt counts as alive.
pub fn thread_lives(tid: u32) -> bool {
    raw::probe_thread(raw::getpid(), tid) != Err(libc::ESRCH)
}

#[cold]
fn me_slow(page: &Self_) -> u64 {
    let member = member().map_or(0, |m| m + 1);
    // The first call of a forked child that does more than look.
    if let (Some(family), Some(n)) = (family(), member.checked_sub(1)) {
        family.member(n as usize).complete();
    }
    let tid = raw::gettid();
    TID.set((tid, page.pid.load(Ordering::Relaxed)));
    match member {
        0 => dp_channel::family::stranger(tid),
        _ => (u64::from(member) << 32) | u64::from(tid),
    }
}

/// Counts a connection left on TCP.
pub fn count(reason: Reason) {
    if let Some(f) = family() {
        f.count(reason);
    }
}

/// This process may have no AF_UNIX sockets, as far as it tried.
static NO_UNIX: AtomicBool = AtomicBool::new(false);

/// Keeps what became of a call for an AF_UNIX socket: a service's settings (systemd's RestrictAddressFamilies) or a filter may
/// forbid it.
pub fn unix(got: Result<i32, i32>) -> Result<i32, i32> {
    let forbidden = matches!(got, Err(libc::EAFNOSUPPORT | libc::EPERM | libc::EACCES));
    if got.is_ok() || forbidden {
        NO_UNIX.store(forbidden, Ordering::Relaxed);
    }
    got
}

/// Whether AF_UNIX sockets were refused.
pub fn unix_is_forbidden() -> bool {
    NO_UNIX.load(Ordering::Relaxed)
}

type Clock = unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> i32;

/// clock_gettime of libc itself: another preloaded library may make time stand still, and we wait by it.
static CLOCK: AtomicPtr<core::ffi::c_void> = AtomicPtr::new(core::ptr::null_mut());

/// Finds the clock.
pub fn prepare_clock() {
    // SAFETY: C strings; libc is loaded, and stays.
    unsafe {
        let libc = crate::real::dlopen()(c"libc.so.6".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if !libc.is_null() {
            CLOCK.store(libc::dlsym(libc, c"clock_gettime".as_ptr()), Ordering::Relaxed);
        }
    }
}

/// Nanoseconds of the monotonic clock (vDSO, no system call).
#[inline]
pub fn now() -> u64 {
    let t = time_of(libc::CLOCK_MONOTONIC);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// The time of day: seconds since 1970 in UTC, and nanoseconds.
pub fn since_1970() -> (u64, u32) {
    let t = time_of(libc::CLOCK_REALTIME);
    (t.tv_sec as u64, t.tv_nsec as u32)
}

#[inline]
fn time_of(which: libc::clockid_t) -> libc::timespec {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let clock = CLOCK.load(Ordering::Relaxed);
    // SAFETY: fills the struct it is given; the symbol of that name is such a function.
    unsafe {
        if clock.is_null() {
            libc::clock_gettime(which, &mut t);
        } else {
            core::mem::transmute::<*mut core::ffi::c_void, Clock>(clock)(which, &mut t);
        }
    }
    t
}

/// The CPU we run on, plus one.
#[inline(always)]
pub fn cpu() -> u32 {
    // SAFETY: no arguments; glibc reads it from the rseq area, without a system call.
    unsafe { libc::sched_getcpu() as u32 + 1 }
}
