//! The sleeper's side of a link: it is told how to wake us.

use core::sync::atomic::{AtomicI32, Ordering};

use dp_channel::family::Conn;
use dp_edge::sys::{process, raw};

use super::{made, used, Link, Told};
use crate::{intro, own, rights, state};

/// The process at the other end of `c` is told of a sleeper of ours that has `event`, unless it was. Where it would not
/// take an eventfd of us, it gets a socket: `watch` adds our end of that to what the sleeper waits for, edge-triggered.
/// True if there is a socket.
pub fn tell(c: &Conn, number: u32, event: i32, watch: &dyn Fn(i32) -> bool) -> bool {
    used(c, |l| l.tell(number, event, watch)).unwrap_or(false)
}

impl Link {
    fn tell(&self, number: u32, event: i32, watch: &dyn Fn(i32) -> bool) -> bool {
        if let Some((_, socket)) = self.ours.iter().find(|(n, _)| n.load(Ordering::Relaxed) == number) {
            return socket.load(Ordering::Relaxed) != 0;
        }
        // Sets of two threads may be told at once; one of them is told once more later. Numbers count up, so the lowest is
        // the oldest.
        let Some((oldest, socket)) = self.ours.iter().min_by_key(|(n, _)| n.load(Ordering::Relaxed)) else {
            return false;
        };
        let Some(fd) = self.fd().filter(|_| !state::is_borrowed_memory()) else { return false };
        oldest.store(number, Ordering::Relaxed);
        self.close_soon(socket.swap(0, Ordering::Relaxed) - 1);
        let believed =
            intro::peer_credentials(fd).is_some_and(|c| process::may_be_signalled(c.pid as u32, c.uid));
        if believed {
            // Where it cannot be told, bells are rung.
            let _ = rights::send(fd, &mut Told { number, _pad: 0 }, event);
            return false;
        }
        let Ok([near, far]) = raw::socketpair(libc::SOCK_STREAM) else { return false };
        let near = own::keep(near).filter(|&near| {
            let watched = watch(near);
            if !watched {
                own::forget(near);
            }
            watched
        });
        if let Some(near) = near {
            self.close_soon(socket.swap(near + 1, Ordering::Relaxed) - 1);
            let _ = rights::send(fd, &mut Told { number, _pad: 0 }, far);
        }
        raw::close(far);
        near.is_some()
    }

    /// Our ends of socket pairs.
    pub(super) fn forget_ours(&self) {
        self.ours.iter().for_each(|(_, socket)| own::close(socket.swap(0, Ordering::Relaxed) - 1));
    }
}

/// Does `f` with our ends of the socket pairs for sleeper `number`.
fn each_socket(number: u32, f: impl Fn(&Link, &AtomicI32)) {
    for l in made() {
        l.used(l.serial.load(Ordering::Acquire), |l| {
            let of_it = l.ours.iter().filter(|(n, _)| n.load(Ordering::Relaxed) == number);
            of_it.for_each(|(_, socket)| f(l, socket));
        });
    }
}

/// What the sockets of sleeper `number` hold is taken, before they are full. One byte is there for each time it was woken,
/// unless somebody fills one: then that one's senders ring.
#[cold]
pub fn drain(number: u32) {
    each_socket(number, |_, socket| {
        let mut bytes = [0u8; 256];
        let fd = socket.load(Ordering::Relaxed) - 1;
        if own::is(fd) {
            // SAFETY: the buffer is ours.
            let _ = unsafe { raw::recv(fd, bytes.as_mut_ptr(), bytes.len(), libc::MSG_DONTWAIT) };
        }
    });
}

/// Sleeper `number` is not woken by sockets any more; `unwatch` takes each out of what it waits for. A process that was
/// forked meanwhile may have copies, so closing them would not.
pub fn end_sockets(number: u32, unwatch: impl Fn(i32)) {
    each_socket(number, |l, socket| {
        let fd = socket.swap(0, Ordering::Relaxed) - 1;
        if own::is(fd) {
            unwatch(fd);
            l.close_soon(fd);
        }
    });
}
