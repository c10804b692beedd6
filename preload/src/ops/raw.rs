//! `syscall(2)` used for calls of the table.

use core::ffi::{c_int, c_long, c_uint};

use libc::timespec;

use super::{aside, ask, copy, fd, fork, open, recv, ring, sandbox, select, send, wait};
use crate::walk::nowhere;
use crate::{real, state};

/// syscall(2): the numbers that mean a call of the table go the table's way.
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn syscall(n: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long {
    let x = a as c_int;
    // SAFETY: the program's arguments, cast to what the kernel takes them for.
    unsafe {
        match n {
            libc::SYS_read => recv::read(x, b as _, c) as c_long,
            libc::SYS_readv => recv::readv(x, b as _, c as c_int) as c_long,
            libc::SYS_recvfrom => recv::recvfrom(x, b as _, c, d as c_int, e as _, f as _) as c_long,
            libc::SYS_recvmsg => recv::recvmsg(x, b as _, c as c_int) as c_long,
            libc::SYS_write => send::write(x, b as _, c) as c_long,
            libc::SYS_writev => send::writev(x, b as _, c as c_int) as c_long,
            libc::SYS_sendto => send::sendto(x, b as _, c, d as c_int, e as _, f as _) as c_long,
            libc::SYS_sendmsg => send::sendmsg(x, b as _, c as c_int) as c_long,
            libc::SYS_sendmmsg => send::sendmmsg(x, b as _, c as c_uint, d as c_int).into(),
            libc::SYS_recvmmsg => recv::recvmmsg(x, b as _, c as c_uint, d as c_int, e as _).into(),
            libc::SYS_sendfile => copy::sendfile(x, b as c_int, c as _, d) as c_long,
            libc::SYS_splice => copy::splice(x, b as _, c as c_int, d as _, e, f as c_uint) as c_long,
            libc::SYS_socket => open::socket(x, b as c_int, c as c_int).into(),
            libc::SYS_connect => open::connect(x, b as _, c as _).into(),
            libc::SYS_accept4 => open::accept4(x, b as _, c as _, d as c_int).into(),
            libc::SYS_listen => open::listen(x, b as c_int).into(),
            libc::SYS_shutdown => open::shutdown(x, b as c_int).into(),
            libc::SYS_getpeername => ask::getpeername(x, b as _, c as _).into(),
            libc::SYS_setsockopt => ask::setsockopt(x, b as c_int, c as c_int, d as _, e as _).into(),
            libc::SYS_getsockopt => ask::getsockopt(x, b as c_int, c as c_int, d as _, e as _).into(),
            libc::SYS_close => fd::close(x).into(),
            libc::SYS_close_range => fd::close_range(a as c_uint, b as c_uint, c as c_int).into(),
            libc::SYS_dup => fd::dup(x).into(),
            libc::SYS_dup3 => fd::dup3(x, b as c_int, c as c_int).into(),
            libc::SYS_fcntl => fd::fcntl(x, b as c_int, c as _).into(),
            libc::SYS_ioctl => fd::ioctl(x, b as _, c as _).into(),
            libc::SYS_ppoll => with_time_left(c as _, || wait::ppoll(a as _, b as _, c as _, d as _).into()),
            libc::SYS_pselect6 => {
                // The sixth argument is an address of the mask's address, and its size.
                let mask = if nowhere(f as *const usize) { 0 } else { (f as *const usize).read_unaligned() };
                with_time_left(e as _, || {
                    select::pselect(x, b as _, c as _, d as _, e as _, mask as _).into()
                })
            }
            libc::SYS_epoll_create1 => wait::epoll_create1(x).into(),
            libc::SYS_epoll_pwait2 => wait::epoll_pwait2(x, b as _, c as c_int, d as _, e as _).into(),
            libc::SYS_epoll_ctl => wait::epoll_ctl(x, b as c_int, c as c_int, d as _).into(),
            libc::SYS_epoll_pwait => wait::epoll_pwait(x, b as _, c as c_int, d as c_int, e as _).into(),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_poll => wait::poll(a as _, b as _, c as c_int).into(),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_select => select::select(x, b as _, c as _, d as _, e as _).into(),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_epoll_wait => wait::epoll_wait(x, b as _, c as c_int, d as c_int).into(),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_epoll_create => wait::epoll_create(x).into(),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_dup2 => fd::dup2(x, b as c_int).into(),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_accept => open::accept(x, b as _, c as _).into(),
            // Positions are one word here.
            libc::SYS_preadv2 => recv::preadv2(x, b as _, c as c_int, d as i64, f as c_int) as c_long,
            libc::SYS_pwritev2 => send::pwritev2(x, b as _, c as c_int, d as i64, f as c_int) as c_long,
            libc::SYS_execve | libc::SYS_execveat => {
                super::leave::executing(|| real::syscall()(n, a, b, c, d, e, f))
            }
            libc::SYS_clone | libc::SYS_clone3 => match fork::copies(n, a) {
                Some(flags) => fork::forking(flags, || real::syscall()(n, a, b, c, d, e, f)),
                None => real::syscall()(n, a, b, c, d, e, f),
            },
            #[cfg(target_arch = "x86_64")]
            libc::SYS_fork => fork::forking(0, || real::syscall()(n, a, b, c, d, e, f)),
            libc::SYS_io_submit => {
                aside::submitted(b as c_long, c as _);
                real::syscall()(n, a, b, c, d, e, f)
            }
            libc::SYS_io_uring_setup => {
                let new = real::syscall()(n, a, b, c, d, e, f);
                if new >= 0 {
                    ring::cannot_be_followed();
                }
                new
            }
            libc::SYS_io_uring_enter => {
                ring::entering(b as c_uint);
                real::syscall()(n, a, b, c, d, e, f)
            }
            libc::SYS_io_uring_register => {
                ring::registering(b as c_uint);
                real::syscall()(n, a, b, c, d, e, f)
            }
            libc::SYS_setrlimit => {
                sandbox::limits(0, a as c_uint, b as _);
                real::syscall()(n, a, b, c, d, e, f)
            }
            libc::SYS_prlimit64 => {
                sandbox::limits(x, b as c_uint, c as _);
                real::syscall()(n, a, b, c, d, e, f)
            }
            libc::SYS_prctl => sandbox::prctl(x, b as _, c as _, d as _, e as _).into(),
            libc::SYS_seccomp => {
                sandbox::seccomp(a as c_uint, c as u64);
                real::syscall()(n, a, b, c, d, e, f)
            }
            _ => real::syscall()(n, a, b, c, d, e, f),
        }
    }
}

/// The kernel's call says how much time was left, libc's function does not.
///
/// # Safety
///
/// `time` is the program's, where there is one.
unsafe fn with_time_left(time: *mut timespec, call: impl FnOnce() -> c_long) -> c_long {
    // SAFETY: by the contract.
    let ns = if nowhere(time) { None } else { wait::nanoseconds(unsafe { &*time }) };
    let Some(ns) = ns.filter(|&ns| ns > 0) else { return call() };
    let start = state::now();
    let rc = call();
    let left = (ns - (state::now() - start) as i64).max(0);
    let errno = super::errno();
    // A time in memory that cannot be written to stays as it is, and the call's result counts all the same (select(2)): the kernel is
    // asked to write there first.
    // SAFETY: the kernel refuses an address where it cannot write.
    let is_written = unsafe {
        real::syscall()(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC as usize, time as usize, 0, 0, 0, 0)
            == 0
    };
    if is_written {
        // SAFETY: as above.
        unsafe { time.write(timespec { tv_sec: left / 1_000_000_000, tv_nsec: left % 1_000_000_000 }) };
    }
    if rc < 0 {
        super::fail(errno);
    }
    rc
}
