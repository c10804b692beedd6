//! System calls without libc: no hook of ours on the way, no errno, no cancellation point.
//!
//! The shim replaces `read`, `close` and their kin; what it does for itself must not come back to it.
//! Only calls that cannot block for long are made this way: sleeping belongs in libc's own functions,
//! which are cancellation points.

/// What a call returns: the value, or an errno.
pub type Res = Result<usize, i32>;

#[inline(always)]
fn check(r: isize) -> Res {
    if (-4095..0).contains(&r) {
        Err(-r as i32)
    } else {
        Ok(r as usize)
    }
}

/// A system call with up to six arguments.
///
/// # Safety
///
/// As for the call itself: pointers among the arguments must be valid for what it does with them.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub unsafe fn call(n: libc::c_long, a: [usize; 6]) -> Res {
    let r: isize;
    // SAFETY: the syscall instruction clobbers rcx, r11 and memory the call writes to, nothing else.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") n as isize => r,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2], in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    check(r)
}

/// A system call with up to six arguments.
///
/// # Safety
///
/// As for the call itself: pointers among the arguments must be valid for what it does with them.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub unsafe fn call(n: libc::c_long, a: [usize; 6]) -> Res {
    let r: isize;
    // SAFETY: svc 0 changes x0 and memory the call writes to, nothing else.
    unsafe {
        core::arch::asm!(
            "svc 0",
            in("x8") n,
            inlateout("x0") a[0] => r,
            in("x1") a[1], in("x2") a[2], in("x3") a[3], in("x4") a[4], in("x5") a[5],
            options(nostack),
        );
    }
    check(r)
}

macro_rules! sys {
    ($n:ident $(, $a:expr)*) => {{
        let mut args = [0usize; 6];
        let given: &[usize] = &[$($a as usize),*];
        args[..given.len()].copy_from_slice(given);
        // SAFETY: the wrapper below says what its pointers must be.
        unsafe { call(libc::$n, args) }
    }};
}

/// recvfrom(2) into `len` bytes at `buf`.
///
/// # Safety
///
/// `buf` is writable for `len` bytes.
#[inline]
pub unsafe fn recv(fd: i32, buf: *mut u8, len: usize, flags: i32) -> Res {
    sys!(SYS_recvfrom, fd, buf, len, flags)
}

/// sendto(2) from `len` bytes at `buf`.
///
/// # Safety
///
/// `buf` is readable for `len` bytes.
#[inline]
pub unsafe fn send(fd: i32, buf: *const u8, len: usize, flags: i32) -> Res {
    sys!(SYS_sendto, fd, buf, len, flags)
}

/// recvmsg(2).
///
/// # Safety
///
/// `msg` and everything it points to is valid for the call.
pub unsafe fn recvmsg(fd: i32, msg: *mut libc::msghdr, flags: i32) -> Res {
    sys!(SYS_recvmsg, fd, msg, flags)
}

/// sendmsg(2).
///
/// # Safety
///
/// `msg` and everything it points to is valid for the call.
pub unsafe fn sendmsg(fd: i32, msg: *const libc::msghdr, flags: i32) -> Res {
    sys!(SYS_sendmsg, fd, msg, flags)
}

/// ioctl(2) with a request that writes one int (FIONREAD, SIOCOUTQ).
pub fn ioctl_int(fd: i32, request: libc::c_ulong) -> Result<i32, i32> {
    let mut value = 0i32;
    sys!(SYS_ioctl, fd, request, &mut value as *mut i32)?;
    Ok(value)
}

/// Bytes the kernel holds for reading (FIONREAD).
#[inline]
pub fn queued(fd: i32) -> Result<usize, i32> {
    ioctl_int(fd, libc::FIONREAD).map(|n| n.max(0) as usize)
}

/// getsockopt(2) into a plain value; how many bytes the kernel filled in.
pub fn getsockopt<T: Copy>(fd: i32, level: i32, name: i32, value: &mut T) -> Res {
    let mut len = size_of::<T>() as libc::socklen_t;
    sys!(SYS_getsockopt, fd, level, name, value as *mut T, &mut len as *mut libc::socklen_t)?;
    Ok(len as usize)
}

/// An int socket option.
pub fn getsockopt_int(fd: i32, level: i32, name: i32) -> Result<i32, i32> {
    let mut v = 0i32;
    getsockopt(fd, level, name, &mut v).map(|_| v)
}

/// Sets an int socket option.
pub fn setsockopt_int(fd: i32, level: i32, name: i32, value: i32) -> Res {
    setsockopt(fd, level, name, &value, size_of::<i32>())
}

/// setsockopt(2) with the first `len` bytes of a plain value.
pub fn setsockopt<T: Copy>(fd: i32, level: i32, name: i32, value: &T, len: usize) -> Res {
    sys!(SYS_setsockopt, fd, level, name, value as *const T, len.min(size_of::<T>()))
}

/// Whether the close of this socket is a reset: SO_LINGER with no time.
pub fn resets_at_close(fd: i32) -> bool {
    linger(fd) == Some(0)
}

/// Whether the last close of this socket waits for what is to be sent: SO_LINGER with a time.
pub fn lingers_at_close(fd: i32) -> bool {
    linger(fd).is_some_and(|time| time != 0)
}

/// SO_LINGER's time, if it is on.
fn linger(fd: i32) -> Option<i32> {
    let mut linger = libc::linger { l_onoff: 0, l_linger: 0 };
    let told = getsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER, &mut linger).is_ok();
    (told && linger.l_onoff != 0).then_some(linger.l_linger)
}

/// From here on the close of this socket is a reset.
pub fn reset_at_close(fd: i32) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let _ = setsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER, &linger, size_of::<libc::linger>());
}

/// fcntl(2) with a plain argument.
#[inline]
pub fn fcntl(fd: i32, cmd: i32, arg: usize) -> Res {
    sys!(SYS_fcntl, fd, cmd, arg)
}

/// Whether O_NONBLOCK is set on the open file.
#[inline]
pub fn is_nonblocking(fd: i32) -> bool {
    fcntl(fd, libc::F_GETFL, 0).is_ok_and(|f| f as i32 & libc::O_NONBLOCK != 0)
}

/// close(2).
pub fn close(fd: i32) {
    let _ = sys!(SYS_close, fd);
}

/// socket(2).
pub fn socket(domain: i32, kind: i32, protocol: i32) -> Result<i32, i32> {
    sys!(SYS_socket, domain, kind, protocol).map(|fd| fd as i32)
}

/// connect(2), bind(2): a call with an address.
///
/// # Safety
///
/// `addr` is readable for `len` bytes.
pub unsafe fn connect(fd: i32, addr: *const libc::sockaddr, len: u32) -> Res {
    sys!(SYS_connect, fd, addr, len)
}

/// bind(2).
///
/// # Safety
///
/// `addr` is readable for `len` bytes.
pub unsafe fn bind(fd: i32, addr: *const libc::sockaddr, len: u32) -> Res {
    sys!(SYS_bind, fd, addr, len)
}

/// listen(2).
pub fn listen(fd: i32, backlog: i32) -> Res {
    sys!(SYS_listen, fd, backlog)
}

/// accept4(2) without an address.
pub fn accept(fd: i32, flags: i32) -> Result<i32, i32> {
    sys!(SYS_accept4, fd, 0usize, 0usize, flags).map(|fd| fd as i32)
}

/// epoll_create1(2), closed on exec.
pub fn epoll_create() -> Result<i32, i32> {
    sys!(SYS_epoll_create1, libc::EPOLL_CLOEXEC).map(|fd| fd as i32)
}

/// epoll_ctl(2).
pub fn epoll_ctl(ep: i32, op: i32, fd: i32, event: Option<libc::epoll_event>) -> Res {
    let mut e = event.unwrap_or(libc::epoll_event { events: 0, u64: 0 });
    sys!(SYS_epoll_ctl, ep, op, fd, &mut e as *mut libc::epoll_event)
}

/// epoll_wait(2) that does not wait.
///
/// # Safety
///
/// `events` is writable for `max` entries.
pub unsafe fn epoll_poll(ep: i32, events: *mut libc::epoll_event, max: i32) -> Result<i32, i32> {
    #[cfg(target_arch = "x86_64")]
    return sys!(SYS_epoll_wait, ep, events, max, 0usize).map(|n| n as i32);
    #[cfg(not(target_arch = "x86_64"))]
    return sys!(SYS_epoll_pwait, ep, events, max, 0usize, 0usize, 8usize).map(|n| n as i32);
}

/// poll(2) without waiting.
pub fn poll_now(list: &mut [libc::pollfd]) -> Res {
    let t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let args = [list.as_mut_ptr() as usize, list.len(), &raw const t as usize, 0, 8, 0];
    // SAFETY: the list, a timeout of nothing, no mask.
    unsafe { call(libc::SYS_ppoll, args) }
}

/// Whether a descriptor is readable now; of an epoll set, whether it has an event.
pub fn is_readable(fd: i32) -> bool {
    poll_now(&mut [libc::pollfd { fd, events: libc::POLLIN, revents: 0 }]).is_ok_and(|n| n > 0)
}

/// getpid(2), uncached.
#[inline]
pub fn getpid() -> u32 {
    sys!(SYS_getpid).unwrap_or(0) as u32
}

/// A path with a number in it, and a zero at its end. By hand: a thread may be ended by a signal's handler anywhere in calls
/// that use it, and what formats has something to drop.
pub fn numbered(before: &[u8], number: u32, after: &[u8]) -> [u8; 64] {
    let mut path = [0u8; 64];
    let mut digits = [0u8; 10];
    let (mut at, mut rest) = (digits.len(), number);
    while at == digits.len() || rest > 0 {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let text = before.iter().chain(&digits[at..]).chain(after);
    for (to, from) in path[..63].iter_mut().zip(text) {
        *to = *from;
    }
    path
}

/// getuid(2): the real user.
pub fn getuid() -> u32 {
    sys!(SYS_getuid).unwrap_or(0) as u32
}

/// Whether /proc says that a descriptor of ours is an eventfd.
pub fn is_eventfd(fd: i32) -> bool {
    let mut text = [0u8; 32];
    let path = numbered(b"/proc/self/fd/", fd as u32, b"");
    let n = sys!(SYS_readlinkat, libc::AT_FDCWD, path.as_ptr(), text.as_mut_ptr(), text.len());
    n.is_ok_and(|n| &text[..n] == b"anon_inode:[eventfd]")
}

/// Adds 1 to an eventfd; false where that cannot be.
#[inline]
pub fn signal_event(fd: i32) -> bool {
    let one = 1u64;
    sys!(SYS_write, fd, &raw const one, 8usize) == Ok(8)
}

/// Takes all signals out of an eventfd.
pub fn take_event(fd: i32) {
    let mut count = 0u64;
    let _ = sys!(SYS_read, fd, &raw mut count, 8usize);
}

/// eventfd2(2), of 0, that blocks nobody and is closed on exec.
pub fn eventfd() -> Result<i32, i32> {
    sys!(SYS_eventfd2, 0usize, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK).map(|fd| fd as i32)
}

/// shutdown(2).
pub fn shutdown(fd: i32, how: i32) -> Res {
    sys!(SYS_shutdown, fd, how)
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

/// Blocks exactly these signals from now on.
pub fn set_blocked_signals(mask: u64) {
    let _ = sys!(SYS_rt_sigprocmask, libc::SIG_SETMASK, &mask as *const u64, 0usize, 8usize);
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

/// sched_yield(2).
pub fn yield_now() {
    let _ = sys!(SYS_sched_yield);
}

/// nanosleep(2) for `ns` < 1 s; may be cut short by a signal.
pub fn nap(ns: u32) {
    let t = libc::timespec { tv_sec: 0, tv_nsec: ns as libc::c_long };
    let _ = sys!(SYS_nanosleep, &t as *const libc::timespec, 0usize);
}

/// Adds a line to the end of a file, which is made if need be; what cannot be written, is not.
pub fn append(path: &core::ffi::CStr, line: &[u8]) {
    let how = libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT | libc::O_CLOEXEC;
    let Ok(fd) = sys!(SYS_openat, libc::AT_FDCWD, path.as_ptr(), how, 0o666usize) else { return };
    let pieces =
        [line, b"\n"].map(|piece| libc::iovec { iov_base: piece.as_ptr() as *mut _, iov_len: piece.len() });
    let _ = sys!(SYS_writev, fd, pieces.as_ptr(), pieces.len());
    close(fd as i32);
}

/// Reads a whole small file into `buf`; how much there was.
pub fn read_file(path: &core::ffi::CStr, buf: &mut [u8]) -> Res {
    let fd = sys!(SYS_openat, libc::AT_FDCWD, path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC, 0usize)?;
    let mut n = 0;
    let result = loop {
        if n == buf.len() {
            break Ok(n);
        }
        match sys!(SYS_read, fd, buf[n..].as_mut_ptr(), buf.len() - n) {
            Ok(0) => break Ok(n),
            Ok(k) => n += k,
            Err(e) => break Err(e),
        }
    };
    close(fd as i32);
    result
}

/// The longest line that [`read_lines`] tells in full.
const LINE: usize = 256;

/// Tells `f` each line of a file, without its end. Longer ones than 256 bytes are cut, since the caller's stack may be a small
/// one.
///
/// # Errors
///
/// Those of open(2) and read(2).
pub fn read_lines(path: &core::ffi::CStr, f: impl FnMut(&[u8])) -> Result<(), i32> {
    let fd = sys!(SYS_openat, libc::AT_FDCWD, path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC, 0usize)?;
    let result = lines(|to| sys!(SYS_read, fd, to.as_mut_ptr(), to.len()), f);
    close(fd as i32);
    result
}

fn lines(mut read: impl FnMut(&mut [u8]) -> Res, mut f: impl FnMut(&[u8])) -> Result<(), i32> {
    let (mut buf, mut n, mut cut) = ([0u8; LINE], 0, false);
    loop {
        let end = match read(&mut buf[n..])? {
            0 => {
                if n > 0 {
                    f(&buf[..n]);
                }
                return Ok(());
            }
            more => n + more,
        };
        let mut start = 0;
        while let Some(length) = buf[start..end].iter().position(|&b| b == b'\n') {
            // The rest of a line that was told is none.
            if !core::mem::take(&mut cut) {
                f(&buf[start..start + length]);
            }
            start += length + 1;
        }
        buf.copy_within(start..end, 0);
        n = end - start;
        if n == LINE {
            if !cut {
                f(&buf);
            }
            (n, cut) = (0, true);
        } else if cut {
            n = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lines_are_told_once_and_long_ones_cut(
            text in proptest::collection::vec(prop_oneof![9 => Just(b'x'), 1 => Just(b'\n'), 1 => any::<u8>()], 0..2000),
            step in 1usize..400,
        ) {
            let (mut at, mut told) = (0, Vec::new());
            let read = |to: &mut [u8]| {
                let n = step.min(to.len()).min(text.len() - at);
                to[..n].copy_from_slice(&text[at..at + n]);
                at += n;
                Ok(n)
            };
            lines(read, |line| told.push(line.to_vec())).unwrap();
            let mut expected: Vec<Vec<u8>> = text.split(|&b| b == b'\n').map(|line| line[..line.len().min(LINE)].to_vec()).collect();
            // What is behind the last end is no line.
            if expected.last().is_some_and(Vec::is_empty) {
                expected.pop();
            }
            prop_assert_eq!(told, expected);
        }
    }
}
