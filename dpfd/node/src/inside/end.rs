//! The end of a gateway inside a program: what was sent is handed on, and the next gateway may come.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use dp_edge::sys::process;
use dpfd::driver::user::gateway;
use nix::fcntl::OFlag;
use nix::sys::eventfd::{EfdFlags, EventFd};

use super::{InProcess, Inner};

/// How long a program waits at the end of its gateway until that has what it sent, and then for acknowledgements.
const ENDING: Duration = Duration::from_secs(2);

impl Drop for InProcess {
    fn drop(&mut self) {
        if self.generation != process::generation() {
            // A child of a fork: the thread and the sockets are its parent's.
            core::mem::forget(self.helper.take());
            return;
        }
        if self.helper.is_some() {
            self.inner.hand_on();
        }
        self.inner.ends.store(true, Ordering::Release);
        self.inner.wake();
        if let Some(helper) = self.helper.take() {
            let _ = helper.join();
        }
        let running = self.inner.lock().take();
        process::keep_from_children(&[]);
        // The number stays, for calls that are about to sleep on it; the socket does not, since the next gateway wants its address as
        // soon as this one is none any more.
        let mut routes = self.inner.routes.lock().unwrap_or_else(PoisonError::into_inner);
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        if let Ok(never) = EventFd::from_flags(flags) {
            let _ = nix::unistd::dup3(never.as_fd(), &mut routes, OFlag::O_CLOEXEC);
        }
        drop(routes);
        drop(running);
    }
}

impl Inner {
    /// What was sent is acknowledged, and who sends on waits for the next gateway.
    fn hand_on(&self) {
        // Who is asked to let go has its proxy by then: one that waits for it would wait for the next gateway.
        gateway::hand_over(ENDING);
        // Not before: what this program cannot hand over, as to a node that is down, costs other programs nothing.
        let end = Instant::now() + ENDING;
        if let Some(running) = &mut *self.lock() {
            running.gate.node.local().stop();
        }
        while !self.is_through() && Instant::now() < end {
            process::rest(Duration::from_millis(1));
        }
    }

    fn is_through(&self) -> bool {
        let mut is_through = false;
        let visited = self.visit(
            || self.get(),
            |running, now| {
                is_through = running.gate.is_through(now);
                // What that took is to be sent.
                usize::from(!is_through)
            },
        );
        visited.is_some() && is_through
    }
}
