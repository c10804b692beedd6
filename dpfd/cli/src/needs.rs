//! What the shim needs of its surroundings, whoever asks: `dp doctor` of a host or a process, `dp enable` of a unit.

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

/// System calls of the shim's beside those that a program makes itself; dp-preload(7) lists them as well.
pub const CALLS: &[&str] = &[
    "accept4",
    "bind",
    "chdir",
    "clone",
    "close",
    "close_range",
    "connect",
    "dup3",
    "epoll_ctl",
    "epoll_pwait",
    "eventfd2",
    "exit_group",
    "fallocate",
    "fcntl",
    "fstat",
    "fstatfs",
    "ftruncate",
    "futex",
    "getdents64",
    "getegid",
    "geteuid",
    "getpeername",
    "getpid",
    "getppid",
    "getrandom",
    "getsockname",
    "getsockopt",
    "gettid",
    "getuid",
    "ioctl",
    "kill",
    "listen",
    "lseek",
    "madvise",
    "memfd_create",
    "mmap",
    "mprotect",
    "mremap",
    "munlock",
    "munmap",
    "nanosleep",
    "newfstatat",
    "openat",
    "ppoll",
    "prctl",
    "pread64",
    "prlimit64",
    "pwrite64",
    "read",
    "readlinkat",
    "recvfrom",
    "recvmsg",
    "rt_sigaction",
    "rt_sigprocmask",
    "sched_getaffinity",
    "sched_yield",
    "sendmsg",
    "sendto",
    "setsid",
    "setsockopt",
    "shutdown",
    "sigaltstack",
    "socket",
    "statx",
    "tgkill",
    "wait4",
    "write",
    "writev",
];

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
