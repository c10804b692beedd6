//! Whether a filter of system calls (seccomp(2)) that holds for this process already, and so for what it becomes, kills whoever
//! makes a call that the shim makes. Nobody can read a filter without privileges, so a child tries.
#![expect(
    unsafe_code,
    reason = "a child that makes system calls which do nothing, and ends by one that is forbidden"
)]

use std::fs;
use std::num::NonZeroUsize;
use std::os::raw::c_long;
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::sys::mman::{mmap_anonymous, MapFlags, ProtFlags};
use nix::sys::wait::waitpid;
use nix::unistd::{fork, ForkResult};

use crate::needs::{CALLS, NUMBERS};

/// The child has come to the end.
const ALIVE: usize = usize::MAX;

/// The first of the calls for which a filter kills; None also where that cannot be found out.
pub fn killing() -> Option<&'static str> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let mode = status.lines().find_map(|line| line.strip_prefix("Seccomp:"))?;
    if mode.trim() == "0" {
        return None;
    }
    let at = tried()?;
    CALLS.get(at).copied()
}

/// How far a child has come with the calls.
fn tried() -> Option<usize> {
    let size = NonZeroUsize::new(size_of::<AtomicUsize>())?;
    let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: new memory, which nothing else lies in; it is given back with this process, which is about to become a program.
    let shared = unsafe { mmap_anonymous(None, size, access, MapFlags::MAP_SHARED) }.ok()?;
    // SAFETY: it is mapped, large enough, aligned to a page, zero, and stays.
    let at = unsafe { shared.cast::<AtomicUsize>().as_ref() };
    // SAFETY: the child makes system calls only, and ends by one; no lock of the C library is needed for that.
    match unsafe { fork() }.ok()? {
        ForkResult::Child => try_all(at),
        ForkResult::Parent { child } => {
            // Whether SIGCHLD is ignored or not, it returns when the child has ended.
            while waitpid(child, None) == Err(nix::Error::EINTR) {}
            Some(at.load(Ordering::Acquire)).filter(|at| *at != ALIVE)
        }
    }
}

/// Makes each call in a way that changes nothing, as the shim would where filters look at what a call is for.
fn try_all(at: &AtomicUsize) -> ! {
    const NONE: c_long = -1;
    let call = |number: c_long, with: [c_long; 6]| {
        let [a, b, c, d, e, f] = with;
        // SAFETY: descriptors, addresses and sizes that the kernel refuses, or calls that only ask.
        unsafe { libc::syscall(number, a, b, c, d, e, f) }
    };
    // A core that is dumped of this child would be one of dp's.
    call(libc::SYS_prctl, [libc::PR_SET_DUMPABLE.into(), 0, 0, 0, 0, 0]);
    for (i, number) in NUMBERS.into_iter().enumerate() {
        at.store(i, Ordering::Release);
        match number {
            libc::SYS_socket => {
                let families = [
                    (libc::AF_UNIX, libc::SOCK_SEQPACKET, 0),
                    (libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_SOCK_DIAG),
                ];
                for (family, kind, protocol) in families {
                    call(
                        number,
                        [family.into(), (kind | libc::SOCK_CLOEXEC).into(), protocol.into(), 0, 0, 0],
                    );
                }
            }
            // Without CLONE_VM that cannot be.
            libc::SYS_clone => _ = call(number, [libc::CLONE_SIGHAND.into(), 0, 0, 0, 0, 0]),
            libc::SYS_ioctl => _ = call(number, [NONE, libc::FIONREAD as c_long, 0, 0, 0, 0]),
            libc::SYS_fcntl => _ = call(number, [NONE, libc::F_GETFD.into(), 0, 0, 0, 0]),
            libc::SYS_prctl => _ = call(number, [libc::PR_GET_DUMPABLE.into(), 0, 0, 0, 0, 0]),
            // Of no length.
            libc::SYS_mmap => {
                let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
                call(number, [0, 0, libc::PROT_READ.into(), flags.into(), NONE, 0]);
            }
            libc::SYS_mprotect | libc::SYS_munlock => _ = call(number, [0; 6]),
            // Signal 0 is none.
            libc::SYS_kill => _ = call(number, [std::process::id().into(), 0, 0, 0, 0, 0]),
            libc::SYS_tgkill => {
                let own = std::process::id().into();
                call(number, [own, own, 0, 0, 0, 0]);
            }
            libc::SYS_prlimit64 => _ = call(number, [0, libc::RLIMIT_NOFILE.into(), 0, 0, 0, 0]),
            // A program that may not end is none.
            libc::SYS_exit_group => {}
            _ => _ = call(number, [NONE; 6]),
        }
    }
    at.store(ALIVE, Ordering::Release);
    // SAFETY: it ends this child alone, without what is left to do at an exit.
    unsafe { libc::_exit(0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_no_filter_kills_all_calls_return() {
        assert_eq!(tried(), None);
        assert_eq!(killing(), None);
    }
}
