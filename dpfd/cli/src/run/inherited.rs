//! What this process was given at its start and the standard library changes before `main`: `dp run` hands it on as it was.
//!
//! The standard library ignores SIGPIPE, and sets it to end the program that it executes, whatever was before; and where
//! descriptor 0, 1 or 2 is closed, it opens /dev/null there. systemd starts services with SIGPIPE ignored: such a one is told
//! EPIPE of a client that has gone, and would be ended under `dp run`.
#![expect(unsafe_code, reason = "what runs before main, and between fork and exec")]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// Whether SIGPIPE was ignored, and which of the first three descriptors were closed, a bit each.
static IGNORED: AtomicBool = AtomicBool::new(false);
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Runs before the standard library's start.
#[ctor::ctor(unsafe)]
fn remember() {
    // SAFETY: plain data, which the call fills; it changes nothing.
    let ignored = unsafe {
        let mut now: libc::sigaction = core::mem::zeroed();
        libc::sigaction(libc::SIGPIPE, core::ptr::null(), &mut now) == 0 && now.sa_sigaction == libc::SIG_IGN
    };
    IGNORED.store(ignored, Ordering::Relaxed);
    for fd in 0..3 {
        // SAFETY: the call only asks.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1 {
            CLOSED.fetch_or(1 << fd, Ordering::Relaxed);
        }
    }
}

/// Has the program begin with what this process began with.
pub fn hand_on(command: &mut Command) {
    // SAFETY: the closure makes system calls only; it runs in this process, which becomes the program.
    unsafe { command.pre_exec(restore) };
}

/// Behind what the standard library does before it executes a program.
fn restore() -> io::Result<()> {
    if IGNORED.load(Ordering::Relaxed) {
        // SAFETY: no handler is set.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    }
    for fd in (0..3).filter(|fd| CLOSED.load(Ordering::Relaxed) & (1 << fd) != 0) {
        // SAFETY: it was closed when this process began; nobody else put something there.
        unsafe { libc::close(fd) };
    }
    Ok(())
}
