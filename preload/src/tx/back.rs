//! What the receiver has not taken from the ring goes onto TCP (PROTOCOLS E8), as far as the socket takes it at once.
//!
//! The program's send returned long ago, and its call now may be any; the receiver may be one that never reads. So nobody
//! here waits, and no process is started for it. Where all of it does not go:
//!
//! - A receiver that reads on, or has a relay that does, keeps the rest in the ring, in front of what comes on TCP.
//! - A stranger cannot see the ring. Then this end *owes* the rest ([`Conn::OWES`]): it puts more there in each later call
//!   on the connection, and in most waits ([`owed`]), and a send waits behind it as behind any full buffer. Time-outs of a peer that
//!   takes nothing are the kernel's, whose buffer is full. Until it is paid, the connection's end is a reset, so that the stranger does not
//!   take a part for the whole.

use core::sync::atomic::Ordering;

use dp_channel::family::{Conn, End, Reason};
use dp_channel::leaving;
use dp_channel::stream;
use dp_edge::ring::{Cursor, Lines};
use dp_edge::sys::raw;

use self::room::Room;
use super::owed;
use crate::channel::Channel;
use crate::walk::Walk;
use crate::{inside, kept};

pub mod room;
#[cfg(test)]
mod tests;

impl Channel {
    /// Whether what the receiver has not taken stays in the ring, for it to read on: TCP does not take it at once. Under the
    /// sender's lock.
    pub(super) fn rest_stays(&self, out: &End) -> bool {
        let at = Cursor::unpack(out.rx.cursor.load(Ordering::Acquire));
        let lines = self.tail().pos.since(at.pos).min(out.ring().count());
        if leaving::is_little(lines) || !out.word.is_read_on() {
            return false;
        }
        let mut room = Room::new(*self);
        let fits = room.has(leaving::bytes(lines)) || room.widen(leaving::bytes(lines));
        room.put_back();
        !fits
    }

    /// Freezes the cursor. What is behind it is owed from here on. Under the sender's lock.
    pub(super) fn freeze_rest(&self, out: &End) -> Cursor {
        // First: if this process is killed now, its relatives must not put anything else there.
        self.set(Conn::OWES);
        let at = stream::freeze(&out.rx.cursor);
        self.owed().store(at.pack(), Ordering::Relaxed);
        self.linger.store(0, Ordering::Relaxed);
        at
    }

    /// Puts on TCP what is owed, as far as that goes now. Under the sender's lock.
    pub(super) fn pay_rest(&self, out: &End) {
        let mut room = Room::new(*self);
        let mut result = self.put_rest(out);
        let owed = Cursor::unpack(self.owed().load(Ordering::Relaxed));
        let lines = self.tail().pos.since(owed.pos).min(out.ring().count());
        if result == Err(libc::EAGAIN) && room.widen_at_any_price(leaving::bytes(lines)) {
            result = self.put_rest(out);
        }
        room.put_back();
        match result {
            Ok(()) => {}
            Err(libc::EAGAIN) => {
                owed::note();
                return self.ends_by_a_reset();
            }
            // Whoever has another number for it goes on.
            Err(libc::ESTALE) => return owed::note(),
            Err(libc::EBADMSG) => {
                self.reset_by(Reason::Corrupt);
                self.error.store(libc::ECONNRESET as u32, Ordering::Relaxed);
            }
            // The kernel says that again to each send, with SIGPIPE.
            Err(libc::EPIPE) => {}
            // W13: the program's next call gets it. What the peer sent before may still be read.
            Err(e) => self.error.store(e as u32, Ordering::Relaxed),
        }
        self.ends_as_it_was();
        self.clear(Conn::OWES);
        // What the program asked for meanwhile comes behind it.
        if let (Ok(()), true, Some(fd)) = (result, self.has(Conn::SHUT_WR), self.number()) {
            let args = [fd as usize, libc::SHUT_WR as usize, 0, 0, 0, 0];
            // SAFETY: numbers.
            let _ = unsafe { raw::call(libc::SYS_shutdown, args) };
        }
    }
}

/// The kernel keeps such pieces apart: one that was longer than a small receive buffer's window would go out by a timer.
const PIECE: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_EOR;

/// The longest piece that one send puts there. Each takes memory of the socket's beside its bytes.
const LONGEST: usize = 4096;
/// The same where there is only the stack, which may be a small one.
const LITTLE: usize = 256;

impl Channel {
    /// EAGAIN: the socket takes no more. EBADMSG: the ring does not hold what was put there. ESTALE: the number is the connection's no
    /// more. A close waits a moment for whoever has the sender's lock, so that is asked before each piece.
    fn put_rest(&self, out: &End) -> Result<(), i32> {
        // SAFETY: not more than there is, and any bytes are bytes.
        let long = |place| self.put_rest_by(out, unsafe { core::slice::from_raw_parts_mut(place, LONGEST) });
        kept::with(long).unwrap_or_else(|| self.put_rest_by(out, &mut [0; LITTLE]))
    }

    fn put_rest_by(&self, out: &End, buf: &mut [u8]) -> Result<(), i32> {
        let mut at = Cursor::unpack(self.owed().load(Ordering::Relaxed));
        let end = self.tail().pos;
        loop {
            // The cursor was the peer's to write, and so is the ring: it must not lead past the end, or for ever.
            match end.since(at.pos) {
                0 => return Ok(()),
                lines if lines > out.ring().count() => return Err(libc::EBADMSG),
                _ => {}
            }
            let mut next = at;
            let n =
                match stream::retrieve(&out.ring(), &mut next, &mut Walk::one(buf.as_mut_ptr(), buf.len())) {
                    Ok(n) if n > 0 => n,
                    _ => return Err(libc::EBADMSG),
                };
            if inside::is_another(self.fd, self.family, self) {
                return Err(libc::ESTALE);
            }
            // SAFETY: the buffer.
            let sent = match unsafe { raw::send(self.fd, buf.as_ptr(), n, PIECE) } {
                Ok(sent) => sent,
                Err(libc::EINTR) => continue,
                Err(e) => return Err(e),
            };
            self.tx_kernel.fetch_add(sent as u64, Ordering::Relaxed);
            if sent < n {
                // The headers may have changed since: then this is another place, or none.
                next = at;
                let mut w = Walk::one(buf.as_mut_ptr(), sent);
                if stream::retrieve(&out.ring(), &mut next, &mut w) != Ok(sent) {
                    return Err(libc::EBADMSG);
                }
            }
            at = next;
            self.owed().store(at.pack(), Ordering::Relaxed);
        }
    }

    /// However this end goes now, the other one is told that something is missing.
    fn ends_by_a_reset(&self) {
        if let (0, Some(fd)) = (self.linger.load(Ordering::Relaxed), self.number()) {
            let mut linger = libc::linger { l_onoff: 0, l_linger: 0 };
            let _ = raw::getsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER, &mut linger);
            self.linger.store(leaving::pack_linger(linger.l_onoff != 0, linger.l_linger), Ordering::Relaxed);
            raw::reset_at_close(fd);
        }
    }

    /// Its end is what the program asked for.
    pub fn ends_as_it_was(&self) {
        // Where there is no number to say it by, it is for the last close to say ([`Channel::ends_paid`]).
        let Some(fd) = self.number() else { return };
        if let Some((on, seconds)) = leaving::unpack_linger(self.linger.swap(0, Ordering::Relaxed)) {
            let linger = libc::linger { l_onoff: on.into(), l_linger: seconds };
            let _ =
                raw::setsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER, &linger, size_of::<libc::linger>());
        }
    }

    /// The same at a close: whoever has paid all may have had no number to say so by.
    pub fn ends_paid(&self) {
        if !self.has(Conn::OWES) {
            self.ends_as_it_was();
        }
    }

    /// The program has changed SO_LINGER meanwhile.
    pub fn lingers_anew(&self) {
        if self.linger.swap(0, Ordering::Relaxed) != 0 && self.has(Conn::OWES) {
            self.ends_by_a_reset();
        }
    }
}
