//! What the shim needs of its surroundings, whoever asks: `dp doctor` of a host or a process, `dp enable` of a unit.

use std::os::raw::c_long;

/// Families of sockets beside the program's own: by the first the two ends find each other, by the second each proves that it
/// holds its end of the connection. What each is called in systemd.exec(5), and why it is needed.
pub const FAMILIES: &[(&str, &str)] = &[
    ("AF_UNIX", "the two ends find each other by it"),
    ("AF_NETLINK", "each end proves by it (sock_diag) that it holds its connection"),
];

/// What to do where one of them is missing.
pub const OPEN_FAMILIES: &str =
    "systemd: RestrictAddressFamilies= needs AF_UNIX and AF_NETLINK, which dp enable adds; other sandboxes: allow these sockets";

/// Fewer descriptors than this and a busy program meets its limit: the shim takes a dozen, and more with each server.
pub const FEW_FILES: u64 = 256;

macro_rules! calls {
    ($($number:ident),* $(,)?) => {
        /// System calls of the shim's beside those that a program makes itself; dp-preload(7) lists them as well.
        pub const CALLS: &[&str] = &[$(word(stringify!($number))),*];
        /// What each of them is for the kernel, in the same order.
        pub const NUMBERS: [c_long; CALLS.len()] = [$(libc::$number),*];
    };
}

calls![
    SYS_accept4,
    SYS_bind,
    SYS_chdir,
    SYS_clone,
    SYS_close,
    SYS_close_range,
    SYS_connect,
    SYS_dup3,
    SYS_epoll_ctl,
    SYS_epoll_pwait,
    SYS_eventfd2,
    SYS_exit_group,
    SYS_fallocate,
    SYS_fcntl,
    SYS_fstat,
    SYS_fstatfs,
    SYS_ftruncate,
    SYS_futex,
    SYS_getdents64,
    SYS_getegid,
    SYS_geteuid,
    SYS_getpeername,
    SYS_getpid,
    SYS_getppid,
    SYS_getrandom,
    SYS_getsockname,
    SYS_getsockopt,
    SYS_gettid,
    SYS_getuid,
    SYS_ioctl,
    SYS_kill,
    SYS_listen,
    SYS_lseek,
    SYS_madvise,
    SYS_memfd_create,
    SYS_mmap,
    SYS_mprotect,
    SYS_mremap,
    SYS_munlock,
    SYS_munmap,
    SYS_nanosleep,
    SYS_newfstatat,
    SYS_openat,
    SYS_ppoll,
    SYS_prctl,
    SYS_pread64,
    SYS_prlimit64,
    SYS_pwrite64,
    SYS_read,
    SYS_readlinkat,
    SYS_recvfrom,
    SYS_recvmsg,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_sched_getaffinity,
    SYS_sched_yield,
    SYS_sendmsg,
    SYS_sendto,
    SYS_setsid,
    SYS_setsockopt,
    SYS_shutdown,
    SYS_sigaltstack,
    SYS_socket,
    SYS_statx,
    SYS_tgkill,
    SYS_wait4,
    SYS_write,
    SYS_writev,
];

/// A call's name, of that of its number.
const fn word(number: &'static str) -> &'static str {
    let (_, word) = number.as_bytes().split_at("SYS_".len());
    match std::str::from_utf8(word) {
        Ok(word) => word,
        Err(_) => panic!("names are ASCII"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_lists_the_same_system_calls() {
        let page = include_str!("../../../man/dp-preload.7");
        let from = page.find(".Cm accept4 , bind").expect("the list");
        let list = &page[from..from + page[from..].find(".Pp").expect("its end")];
        let words = list.split([' ', '\n', ',']).filter(|word| !matches!(*word, "" | ".Cm"));
        assert_eq!(words.collect::<Vec<_>>(), CALLS);
    }
}
