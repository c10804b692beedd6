//! Sending behind what this end still owes to TCP ([`Conn::OWES`]): it waits as any send that finds no room does, for as
//! long as SO_SNDTIMEO says, and until a signal comes whose handler does not restart the call.

use core::sync::atomic::Ordering;

use dp_channel::family::Conn;

use crate::channel::Channel;
use crate::{errno, real, signals, socket, state};

/// The longest time between two looks, ms: another process of the family may have paid.
const LOOK: i32 = 1000;

impl Channel {
    /// Nothing may pass what was taken back from the ring: waits until that is on TCP, if the call may wait. EAGAIN comes
    /// after the kernel has said so itself, and knows that somebody wants to hear of room.
    #[cold]
    pub fn wait_behind(&self, blocking: bool) -> Result<(), i32> {
        let limit = if blocking { socket::limit(self.fd, libc::SO_SNDTIMEO) } else { Some(0) };
        let began = state::now();
        loop {
            let pay = || self.follow(&self.sending());
            if self.has(Conn::OWES) && self.as_sender(pay).is_none() {
                return Err(libc::EAGAIN);
            }
            if !self.has(Conn::OWES) {
                break;
            }
            sleep(self.fd, libc::POLLOUT, limit, began)?;
        }
        match self.error.swap(0, Ordering::Relaxed) {
            0 => Ok(()),
            e => Err(e as i32),
        }
    }
}

/// A receive that began at `began` waits for bytes, or for room for what is owed.
#[cold]
pub fn wait_for_either(fd: i32, began: u64) -> Result<(), i32> {
    sleep(fd, libc::POLLIN | libc::POLLOUT, socket::limit(fd, libc::SO_RCVTIMEO), began)
}

/// Waits for one of these, or for [`LOOK`]. EAGAIN: the time since `began` is over.
fn sleep(fd: i32, events: i16, limit: Option<u64>, began: u64) -> Result<(), i32> {
    let left = limit.map(|ns| ns.saturating_sub(state::now() - began));
    if left == Some(0) {
        return Err(libc::EAGAIN);
    }
    // Rounded up, as every timeout of the kernel is.
    let ms = left.map_or(LOOK, |ns| ns.div_ceil(1_000_000).min(LOOK as u64) as i32);
    let mut p = libc::pollfd { fd, events, revents: 0 };
    // SAFETY: one entry.
    match errno::took(unsafe { real::poll()(&mut p, 1, ms) } as isize) {
        // No handler restarts a call that has a time limit.
        Err(libc::EINTR) if limit.is_none() && !signals::interrupted() => Ok(()),
        other => other.map(|_| ()),
    }
}
