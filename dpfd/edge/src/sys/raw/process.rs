//! Processes, threads, their signals and limits.

use super::{call, read_file};

/// getpid(2), uncached.
#[inline]
pub fn getpid() -> u32 {
    sys!(SYS_getpid).unwrap_or(0) as u32
}

/// getuid(2): the real user.
pub fn getuid() -> u32 {
    sys!(SYS_getuid).unwrap_or(0) as u32
}

/// getppid(2): 0 if the parent is in another pid namespace.
pub fn getppid() -> u32 {
    sys!(SYS_getppid).unwrap_or(0) as u32
}

/// gettid(2).
pub fn gettid() -> u32 {
    sys!(SYS_gettid).unwrap_or(0) as u32
}

/// The number in a symbolic link of /proc.
fn number_in_link(path: &core::ffi::CStr) -> Option<u32> {
    let mut text = [0u8; 32];
    let n = sys!(SYS_readlinkat, libc::AT_FDCWD, path.as_ptr(), text.as_mut_ptr(), text.len()).ok()?;
    let mut digits = text[..n].iter().filter(|b| b.is_ascii_digit());
    digits.try_fold(0u32, |n, b| n.checked_mul(10)?.checked_add(u32::from(b - b'0'))).filter(|&n| n != 0)
}

/// The inode of this process's pid namespace, which the kernel keeps within 32 bits. `None` without a /proc
/// that knows us.
pub fn pid_namespace() -> Option<u32> {
    number_in_link(c"/proc/self/ns/pid")
}

/// Whether the numbers in /proc are those of our pid namespace.
pub fn proc_is_ours() -> bool {
    number_in_link(c"/proc/self") == Some(getpid())
}

/// kill(2) with signal 0: 0, or why not.
pub fn probe_process(pid: u32) -> Result<(), i32> {
    sys!(SYS_kill, pid, 0usize).map(|_| ())
}

/// tgkill(2) with signal 0: whether process `pid` has a thread `tid`, or why that is not known.
pub fn probe_thread(pid: u32, tid: u32) -> Result<(), i32> {
    sys!(SYS_tgkill, pid, tid, 0usize).map(|_| ())
}

/// What /proc says in `file` of another thread of this process.
fn thread_file<'a>(tid: u32, file: &str, text: &'a mut [u8; 512]) -> Option<&'a [u8]> {
    use std::io::Write;
    let mut path = [0u8; 48];
    write!(&mut path[..47], "/proc/self/task/{tid}/{file}").ok()?;
    let n = read_file(core::ffi::CStr::from_bytes_until_nul(&path).ok()?, text).ok()?;
    Some(&text[..n])
}

/// Where the stack of another thread of this process ends, if the thread sleeps in the kernel.
pub fn thread_stack(tid: u32) -> Option<u64> {
    let mut text = [0u8; 512];
    // The call's number and arguments, the stack pointer, the place in the program; or "running".
    let line = core::str::from_utf8(thread_file(tid, "syscall", &mut text)?).ok()?;
    u64::from_str_radix(line.trim_end().rsplit(' ').nth(1)?.strip_prefix("0x")?, 16).ok()
}

/// Whether another thread of this process is on its way out of the kernel for good: one that was joined may be found for
/// a moment longer.
pub fn thread_is_ending(tid: u32) -> bool {
    /// Among a task's flags (linux/sched.h), which are the seventh field behind its name.
    const PF_EXITING: u32 = 4;
    let flags_of = |stat: &[u8]| {
        let behind_name = stat.iter().rposition(|&b| b == b')')? + 2;
        let field = stat.get(behind_name..)?.split(|&b| b == b' ').nth(6)?;
        core::str::from_utf8(field).ok()?.parse::<u32>().ok()
    };
    let mut text = [0u8; 512];
    thread_file(tid, "stat", &mut text).and_then(flags_of).is_some_and(|flags| flags & PF_EXITING != 0)
}

/// Whether this thread runs on its alternate signal stack, and `frame` does not lie there: a handler has
/// interrupted whoever put something at `frame`.
pub fn on_signal_stack_above(frame: u64) -> bool {
    // SAFETY: plain data.
    let mut stack: libc::stack_t = unsafe { core::mem::zeroed() };
    let told = sys!(SYS_sigaltstack, 0usize, &mut stack as *mut libc::stack_t).is_ok();
    let start = stack.ss_sp as u64;
    told && stack.ss_flags & libc::SS_ONSTACK != 0 && !(start..start + stack.ss_size as u64).contains(&frame)
}

/// Blocks all signals of this thread, those too that libc keeps for itself; what was blocked before.
pub fn block_signals() -> u64 {
    let (all, mut before) = (u64::MAX, 0u64);
    let _ = sys!(SYS_rt_sigprocmask, libc::SIG_SETMASK, &all as *const u64, &mut before as *mut u64, 8usize);
    before
}

/// Signals of faults, which a thread brings upon itself: one that is blocked ends the process.
const FAULTS: [libc::c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

/// The same but for signals of faults.
pub fn block_signals_but_faults() -> u64 {
    let faults = FAULTS.iter().fold(0u64, |mask, signal| mask | 1 << (signal - 1));
    let (others, mut before) = (!faults, 0u64);
    let _ = sys!(SYS_rt_sigprocmask, libc::SIG_BLOCK, &others as *const u64, &mut before as *mut u64, 8usize);
    before
}

/// Blocks exactly these signals from now on.
pub fn set_blocked_signals(mask: u64) {
    let _ = sys!(SYS_rt_sigprocmask, libc::SIG_SETMASK, &mask as *const u64, 0usize, 8usize);
}

/// The signals that this thread has blocked.
pub fn blocked_signals() -> u64 {
    let mut mask = 0u64;
    let _ = sys!(SYS_rt_sigprocmask, libc::SIG_BLOCK, 0usize, &mut mask as *mut u64, 8usize);
    mask
}

/// What the kernel does for a signal: the handler, or SIG_DFL or SIG_IGN, and the flags of sigaction(2). `None`: there is no such signal.
pub fn signal_action(signal: usize) -> Option<(usize, usize)> {
    // As below.
    let mut action = [0usize; 4];
    sys!(SYS_rt_sigaction, signal, 0usize, action.as_mut_ptr(), 8usize)
        .is_ok()
        .then_some((action[0], action[1]))
}

/// What a signal does from now on: SIG_DFL or SIG_IGN. One that does not exist, or cannot be set, stays as it is.
pub fn set_signal_action(signal: usize, action: usize) {
    // The kernel's own form: handler, flags, restorer, mask.
    let action = [action, 0, 0, 0];
    let _ = sys!(SYS_rt_sigaction, signal, action.as_ptr(), 0usize, 8usize);
}

/// Whether a file may be written, or grow, up to `end`. Beyond RLIMIT_FSIZE that is not an error but a signal, SIGXFSZ.
pub fn may_write_up_to(end: u64) -> bool {
    // The kernel's own form: soft limit, hard limit.
    let mut limit = [u64::MAX; 2];
    let _ = sys!(SYS_prlimit64, 0usize, libc::RLIMIT_FSIZE as usize, 0usize, limit.as_mut_ptr());
    end <= limit[0]
}
