//! What the kernel sends of a call: what does not fit into the ring, and bytes that only the kernel can move.

use core::sync::atomic::Ordering;

use dp_channel::family::Conn;

use super::{room, Call};
use crate::channel::Channel;
use crate::inside::Inside;
use crate::walk::Walk;

/// What the kernel is to send of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    /// A part, which is not to wait for room.
    NoWait,
    /// A part, which waits.
    Part,
    /// All of it, which waits.
    Whole,
}

impl Channel {
    /// A call whose bytes only the kernel can move, as splice(2), by the number that it is given: the direction is on TCP while it runs.
    pub fn send_by_kernel(
        &self,
        at: &Inside,
        kernel: impl FnOnce(i32) -> Result<usize, i32>,
    ) -> Result<usize, i32> {
        let pending = self.error.swap(0, Ordering::Relaxed);
        if pending != 0 {
            return Err(pending as i32);
        }
        loop {
            // As in `send`.
            let c = self.by(at.fd());
            let owed = || if c.has(Conn::OWES) { c.wait_behind(!c.is_nonblocking()) } else { Ok(()) };
            match owed().and_then(|()| c.enter_as_sender()) {
                Err(libc::EAGAIN | libc::EBADF) if at.fd() != c.fd => continue,
                other => other?,
            }
            match c.send_locked(&mut Walk::one(core::ptr::null_mut(), 0), Call::ByKernel, true) {
                _ if c.has(Conn::OWES) => c.tx_lock.unlock(),
                // It may wait for what it sends as well as for room, whatever the socket's own flag says.
                Ok(_) => return c.in_kernel(true, || kernel(c.fd)),
                Err(e) => {
                    c.tx_lock.unlock();
                    return Err(e);
                }
            }
        }
    }

    /// The kernel's part of a send of which something is in the ring already, or which a handler has interrupted, and the end of the
    /// sender's lock: the rest follows before anything of anybody else's, as far as the socket takes it at once. TCP, too, lets others
    /// in between where it waits for room, and only there.
    #[cold]
    pub(super) fn rest_in_kernel(
        &self,
        w: &mut Walk,
        flags: i32,
        rest: Rest,
        kernel: impl Fn(&Walk, i32) -> Result<usize, i32>,
    ) -> Result<usize, i32> {
        let at_once = self.asks_kernel(|| kernel(w, flags | libc::MSG_DONTWAIT));
        w.skip(at_once.unwrap_or(0));
        let is_full = w.left() > 0 && matches!(at_once, Ok(_) | Err(libc::EAGAIN));
        let sent = at_once.unwrap_or(0);
        if !is_full || rest == Rest::NoWait {
            self.tx_lock.unlock();
            return at_once;
        }
        // A handler that has run meanwhile ends the wait for room before it begins.
        if let Some(e) = room::ends_wait(sent > 0 || rest == Rest::Part, || self.has_send_limit()) {
            self.tx_lock.unlock();
            return if sent > 0 { Ok(sent) } else { Err(e) };
        }
        if sent == 0 && rest == Rest::Whole {
            return self.in_kernel(true, || kernel(w, flags));
        }
        // A call that has sent something succeeds, and leaves the connection's error to the next one. The kernel's send would take
        // it, and there may be nowhere to keep it: the program may end the connection meanwhile.
        let waits = !self.has_send_limit();
        let rest = || match waits && !room::comes(self.fd) {
            true => Ok(0),
            false => kernel(w, flags | libc::MSG_NOSIGNAL),
        };
        match self.in_kernel(true, rest) {
            Ok(more) => Ok(sent + more),
            Err(e) if sent > 0 => {
                self.keep_error_of_send(e);
                Ok(sent)
            }
            Err(e) => Err(e),
        }
    }

    /// A send of the kernel's, and what it tells of the connection.
    fn asks_kernel(&self, kernel: impl FnOnce() -> Result<usize, i32>) -> Result<usize, i32> {
        let result = kernel();
        match result {
            Ok(n) => drop(self.tx_kernel.fetch_add(n as u64, Ordering::Relaxed)),
            Err(e) => self.was_told(e),
        }
        result
    }

    /// The kernel's part of a send, and the end of the sender's lock.
    pub(super) fn in_kernel(
        &self,
        may_wait: bool,
        kernel: impl FnOnce() -> Result<usize, i32>,
    ) -> Result<usize, i32> {
        if may_wait {
            // Outside the lock, but counted: no switch while it runs (E5).
            self.tx_flight.fetch_add(1, Ordering::SeqCst);
            self.tx_lock.unlock();
        }
        let result = self.asks_kernel(kernel);
        if may_wait {
            self.tx_flight.fetch_sub(1, Ordering::SeqCst);
        } else {
            self.tx_lock.unlock();
        }
        result
    }
}
