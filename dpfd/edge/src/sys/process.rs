//! What a library needs to know of the process it lives in: forks, exits, its CPU, capabilities, locks.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Once;
use std::time::Duration;

use super::raw;

mod alone;
pub use alone::keep_from_children;

static FORKS: AtomicU32 = AtomicU32::new(0);
static WATCH: Once = Once::new();

extern "C" fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    alone::in_child();
}

/// How many forks lie between the process that first asked and this one: a number that a child does not share
/// with its parent. One load.
#[inline(always)]
pub fn generation() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// Starts counting; needed once, before the first [`generation`] that matters.
pub fn watch_forks() {
    WATCH.call_once(|| {
        // SAFETY: the handler is async-signal-safe: loads, stores and calls of the kernel.
        unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    });
}

/// Has `f` called when the process exits by exit(3) or a return from main.
pub fn at_exit(f: extern "C" fn()) {
    // SAFETY: a function of the program's whole life.
    unsafe { libc::atexit(f) };
}

/// The CPU this thread runs on, plus one.
#[inline(always)]
pub fn cpu() -> u32 {
    // SAFETY: no argument; -1 becomes 0, "unknown".
    (unsafe { libc::sched_getcpu() } + 1) as u32
}

/// Whether this thread is the process's only one, as far as /proc tells.
pub fn is_alone() -> bool {
    use std::os::unix::fs::MetadataExt;
    // A folder for each thread, and the usual two links.
    std::fs::metadata("/proc/self/task").is_ok_and(|threads| threads.nlink() == 3)
}

/// CPUs of the machine, whichever of them this process may use: the other side may use others.
pub fn cpus() -> usize {
    // SAFETY: no pointer.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1)
}

/// Whether a page has the 4 KiB ([`super::together::PAGE`]) on which shared memory is laid out. Kernels for aarch64 may have
/// pages of 16 or 64 KiB.
pub fn has_usual_pages() -> bool {
    // SAFETY: no pointer.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }) == Ok(super::together::PAGE)
}

/// Nanoseconds of the monotonic clock.
#[inline]
pub fn now() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills the struct it is given.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Sleeps for so long, or less: until a signal comes; and where a program has forbidden itself to sleep (seccomp), for the
/// turns of a loop, of which the standard library's sleep makes a panic.
pub fn rest(time: Duration) {
    let time = libc::timespec {
        tv_sec: time.as_secs() as libc::time_t,
        tv_nsec: time.subsec_nanos() as libc::c_long,
    };
    // SAFETY: reads a timespec, and writes nothing.
    let slept = unsafe { raw::call(libc::SYS_nanosleep, [&raw const time as usize, 0, 0, 0, 0, 0]) };
    if slept.is_err_and(|errno| errno != libc::EINTR) {
        (0..1000).for_each(|_| crate::sync::relax());
    }
}

/// Looks so often, and says whether `f` came.
#[inline(always)]
pub fn looks(times: u32, f: &mut impl FnMut() -> bool) -> bool {
    for _ in 0..times {
        if (*f)() {
            return true;
        }
        crate::sync::relax();
    }
    false
}

/// Spins for `ns` until `f`, and says whether it came. The looks are counted, too: a program's clock may stand still
/// (libfaketime), and then this takes some times as long.
#[inline]
pub fn spin_for(ns: u64, mut f: impl FnMut() -> bool) -> bool {
    /// What as many looks as are made between two looks at the clock take at least, ns.
    const AT_LEAST: u64 = 100;
    // The clock is asked behind the first looks: what comes among them need not wait for its answer.
    let mut end = None;
    for _ in 0..=ns / AT_LEAST {
        if looks(64, &mut f) {
            return true;
        }
        let now = now();
        if now >= *end.get_or_insert(now + ns) {
            return false;
        }
    }
    false
}

/// Whether the process has rights that whoever started it has not (AT_SECURE: setuid, setgid, file capabilities): nothing in
/// its environment is to be believed then.
pub fn is_privileged() -> bool {
    // SAFETY: a number; the loader has kept what the kernel said.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// The effective user of the process.
pub fn effective_user() -> u32 {
    // SAFETY: no arguments, no failure.
    unsafe { libc::geteuid() }
}

/// The effective group of the process.
pub fn effective_group() -> u32 {
    // SAFETY: no arguments, no failure.
    unsafe { libc::getegid() }
}

/// Whether the process may use privileged numbers: CAP_NET_BIND_SERVICE is in its effective set.
pub fn may_bind_service() -> bool {
    #[repr(C)]
    struct Head {
        version: u32,
        pid: i32,
    }
    const VERSION_3: u32 = 0x2008_0522;
    const CAP_NET_BIND_SERVICE: u32 = 10;
    let mut head = Head { version: VERSION_3, pid: 0 };
    let mut data = [[0u32; 3]; 2];
    // SAFETY: both structs are what capget(2) wants for version 3.
    let r = unsafe { libc::syscall(libc::SYS_capget, &mut head, data.as_mut_ptr()) };
    r == 0 && data[0][0] & (1 << CAP_NET_BIND_SERVICE) != 0
}

/// Descriptors that this process may have (RLIMIT_NOFILE).
pub fn descriptor_limit() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: fills the struct it is given.
    let r = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    if r == 0 {
        usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX)
    } else {
        1024
    }
}

/// A number that nobody can guess.
///
/// # Errors
///
/// Those of getrandom(2), as a number: ENOSYS.
pub fn random() -> Result<u64, i32> {
    let mut bytes = [0; 8];
    // SAFETY: fills eight bytes, which the kernel never does by halves.
    if unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) } != bytes.len() as isize {
        // SAFETY: this thread's own number.
        return Err(unsafe { *libc::__errno_location() });
    }
    Ok(u64::from_ne_bytes(bytes))
}

fn lock_of(kind: libc::c_int) -> libc::flock {
    // SAFETY: plain data: the whole file.
    let mut lock: libc::flock = unsafe { core::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock
}

/// Locks a file for the life of this process: not inherited by fork, released by the kernel at its end. It is
/// released as well when the process closes *any* descriptor of the file.
pub fn lock_for_life(fd: BorrowedFd<'_>) -> bool {
    let lock = lock_of(libc::F_WRLCK);
    // SAFETY: a struct flock, as F_SETLK wants.
    unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETLK, &lock) == 0 }
}

/// Whether some other process holds such a lock.
pub fn is_locked(fd: BorrowedFd<'_>) -> bool {
    let mut lock = lock_of(libc::F_WRLCK);
    // SAFETY: a struct flock, as F_GETLK wants.
    let r = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETLK, &mut lock) };
    r == 0 && lock.l_type != libc::F_UNLCK as libc::c_short
}

/// Blocks every signal in this thread: it belongs to the library, handlers to the program.
pub fn block_signals() {
    // SAFETY: sigfillset makes a set, pthread_sigmask reads it.
    unsafe {
        let mut all: libc::sigset_t = core::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &all, core::ptr::null_mut());
    }
}

/// Whether process `pid` of user `uid`, as the kernel told them of a message, may stop this one by a signal: it is of our
/// own user, or the superuser with CAP_KILL, and sees us, because its pid namespace is ours. False where /proc does not
/// tell.
pub fn may_signal_us(pid: u32, uid: u32) -> bool {
    let ours = uid == raw::getuid();
    (ours || uid == 0) && status_here(pid).is_some_and(|status| ours || status.has_capability(CAP_KILL))
}

/// Whether process `pid` of user `uid` is one that would say so of us.
pub fn may_be_signalled(pid: u32, uid: u32) -> bool {
    let me = raw::getuid();
    (uid == me || me == 0) && status_here(pid).is_some() && raw::probe_process(pid).is_ok()
}

/// capabilities(7).
const CAP_KILL: u32 = 5;

/// What /proc says of process `pid`, if that is one of our own pid namespace.
fn status_here(pid: u32) -> Option<Status> {
    if pid == 0 || !raw::proc_is_ours() {
        return None;
    }
    let path = raw::numbered(b"/proc/", pid, b"/status");
    let path = core::ffi::CStr::from_bytes_until_nul(&path).ok()?;
    let mut status = Status::default();
    raw::read_lines(path, |line| status.hear(line)).ok()?;
    Some(status).filter(|status| status.namespaces == 1)
}

/// What /proc says of a process.
#[derive(Default)]
struct Status {
    /// A number for each pid namespace, from ours inward.
    namespaces: usize,
    /// Those that are effective.
    capabilities: u64,
}

impl Status {
    fn hear(&mut self, line: &[u8]) {
        let words = |text: &[u8]| text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).count();
        if let Some(numbers) = line.strip_prefix(b"NSpid:") {
            self.namespaces = words(numbers);
        } else if let Some(digits) = line.strip_prefix(b"CapEff:") {
            let digits = core::str::from_utf8(digits.trim_ascii()).unwrap_or_default();
            self.capabilities = u64::from_str_radix(digits, 16).unwrap_or(0);
        }
    }

    fn has_capability(&self, number: u32) -> bool {
        self.capabilities >> number & 1 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_tells_namespaces_and_capabilities() {
        let of = |lines: &[&str]| {
            let mut status = Status::default();
            lines.iter().for_each(|line| status.hear(line.as_bytes()));
            status
        };
        let status = of(&["Name:\tx", "NSpid:\t12\t1", "CapEff:\t0000000000000020", "NoNewPrivs:\t0"]);
        assert_eq!(status.namespaces, 2);
        assert!(status.has_capability(5) && !status.has_capability(4));
        assert!(!of(&["CapEff:\tx", "CapPrm:\t20", "Uid:\t7"]).has_capability(5));
        assert_eq!(of(&["Uid:\t7"]).namespaces, 0);
    }

    #[test]
    fn a_path_has_its_number() {
        for (number, path) in [(0, "/proc/0/x"), (7, "/proc/7/x"), (u32::MAX, "/proc/4294967295/x")] {
            let text = raw::numbered(b"/proc/", number, b"/x");
            assert_eq!(core::ffi::CStr::from_bytes_until_nul(&text).unwrap().to_str(), Ok(path));
        }
    }

    #[test]
    fn a_process_of_ours_may_signal_us_and_nobody_may() {
        assert!(may_signal_us(raw::getpid(), raw::getuid()));
        assert!(!may_signal_us(raw::getpid(), 65534));
        assert!(!may_signal_us(0, raw::getuid()));
    }
}
