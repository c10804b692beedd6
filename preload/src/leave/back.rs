//! What the receiver has not taken from the ring goes onto TCP.

use core::ops::Range;
use core::sync::atomic::Ordering;

use dpfd::edge::ring::{Cursor, Lines, Pos};
use dpfd::edge::stream;
use dpfd::family::{Conn, Reason};
use dpfd::sys::raw;

use crate::channel::End;
use crate::ops::took;
use crate::walk::Walk;
use crate::{hooks, relay, state, tx};

/// What was in the ring, on its way to TCP.
struct Back<'a> {
    out: &'a End<'a>,
    at: Cursor,
    end: Pos,
    buf: [u8; 4096],
    /// What of `buf` is still to be sent.
    rest: Range<usize>,
}

impl Back<'_> {
    /// Goes on, and waits `patience` ms at a time for room. EAGAIN: there was none; EBADMSG: the ring does not hold
    /// what was put there.
    fn go(&mut self, fd: i32, patience: i32) -> Result<(), i32> {
        loop {
            while !self.rest.is_empty() {
                let left = &self.buf[self.rest.clone()];
                // SAFETY: the buffer.
                match unsafe {
                    raw::send(fd, left.as_ptr(), left.len(), libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)
                } {
                    Ok(n) => self.rest.start += n,
                    Err(libc::EINTR) => {}
                    Err(libc::EAGAIN) => {
                        let mut p = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
                        // SAFETY: one entry.
                        if took(unsafe { hooks::poll::real()(&mut p, 1, patience) } as isize) == Ok(0) {
                            return Err(libc::EAGAIN);
                        }
                    }
                    Err(e) => return Err(e),
                }
            }
            // The cursor was the peer's to write, and so is the ring: it must not lead past the end, or for ever.
            match self.end.since(self.at.pos) {
                0 => return Ok(()),
                lines if lines > self.out.ring().count() => return Err(libc::EBADMSG),
                _ => {}
            }
            let mut w = Walk::one(self.buf.as_mut_ptr(), self.buf.len());
            match stream::retrieve(&self.out.ring(), &mut self.at, &mut w) {
                Ok(n) if n > 0 => self.rest = 0..n,
                _ => return Err(libc::EBADMSG),
            }
        }
    }
}

/// How long a call waits for room on TCP before it leaves that to a process of its own, ms.
const MOMENT: i32 = 5;
/// How long it waits if there can be none, ms.
const PATIENCE: i32 = 5000;

/// The program's send returned long ago, and its call now may be any, so it does not wait for room: the peer may be
/// leaving as well, and read nothing until it has. Under the sender's lock.
pub(super) fn take_back(fd: i32, c: &Conn, out: &End, at: Cursor) {
    let mut back = Back { out, at, end: c.tail().pos, buf: [0; 4096], rest: 0..0 };
    let mut result = back.go(fd, MOMENT);
    if let (Err(libc::EAGAIN), Some(family)) = (result, state::family()) {
        if relay::push(family, fd, c, |fd| taken_back(fd, c, back.go(fd, -1))) {
            return;
        }
        result = back.go(fd, PATIENCE);
    }
    if let Err(e) = taken_back(fd, c, result) {
        // W13: the program's next call gets it. What the peer sent before may still be read.
        c.error.store(e as u32, Ordering::Relaxed);
    }
}

/// The stranger must not take a part for the whole.
fn taken_back(fd: i32, c: &Conn, result: Result<(), i32>) -> Result<(), i32> {
    let why = match result {
        Err(libc::EAGAIN) => Reason::PeerLeft,
        Err(libc::EBADMSG) => Reason::Corrupt,
        _ => return result,
    };
    tx::reset(fd, c, why);
    Err(libc::ECONNRESET)
}
