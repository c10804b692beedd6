//! What this process was started with, as it was before Rust's runtime began: that ignores SIGPIPE, opens /dev/null in place of a
//! standard stream that is closed, and gives what it executes SIGPIPE's default. A program that `dp run` becomes has what it would
//! have had without.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// SIGPIPE was ignored.
static IGNORES_PIPE: AtomicBool = AtomicBool::new(false);
/// A bit for each of the descriptors 0 to 2 that was closed.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Called by the loader, before `main` of C, in which the runtime begins.
#[used]
#[link_section = ".init_array"]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: a sigaction of zeros is one.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the signal is only asked about, and the answer has its place.
    if unsafe { libc::sigaction(libc::SIGPIPE, std::ptr::null(), &mut action) } == 0 {
        IGNORES_PIPE.store(action.sa_sigaction == libc::SIG_IGN, Ordering::Relaxed);
    }
    for fd in 0..3 {
        // SAFETY: a question about a number.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
            CLOSED.fetch_or(1 << fd, Ordering::Relaxed);
        }
    }
}

/// What `command` executes has it as it was.
pub fn hand_on(command: &mut Command) {
    let restore = || {
        if IGNORES_PIPE.load(Ordering::Relaxed) {
            // SAFETY: no handler of ours is in its place.
            unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
        }
        for fd in (0..3).filter(|fd| CLOSED.load(Ordering::Relaxed) & (1 << fd) != 0) {
            // SAFETY: the runtime's /dev/null, which nobody uses behind this.
            unsafe { libc::close(fd) };
        }
        Ok(())
    };
    // SAFETY: two calls that are safe in a signal handler. It comes behind what the runtime does to SIGPIPE.
    unsafe { command.pre_exec(restore) };
}
