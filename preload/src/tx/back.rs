//! What the receiver has not taken from the ring goes onto TCP (PROTOCOLS E8), as far as the socket takes it at once.
//!
//! The program's send returned long ago, and its call now may be any; the receiver may be one that never reads. So nobody
//! here waits, and no process is started for it. Where all of it does not go:
//!
//! - A receiver that reads on, or has a relay that does, keeps the rest in the ring, in front of what comes on TCP.
//! - A stranger cannot see the ring. Then this end *owes* the rest ([`Conn::OWES`]): it puts more there in each later call
//!   on the connection, and a send waits behind it as behind any full buffer. Time-outs of a peer that takes nothing are
//!   the kernel's, whose buffer is full. Until it is paid, the connection's end is a reset, so that the stranger does not
//!   take a part for the whole.

use core::sync::atomic::Ordering;

use dp_channel::family::{Conn, Reason};
use dp_channel::leaving;
use dp_channel::stream;
use dp_edge::ring::{Cursor, Lines};
use dp_edge::sys::raw;

use self::room::Room;
use super::reset;
use crate::channel::End;
use crate::kept;
use crate::walk::Walk;

mod room;

/// Whether what the receiver has not taken stays in the ring, for it to read on: TCP does not take it at once. Under the
/// sender's lock.
pub(super) fn stays(fd: i32, c: &Conn, out: &End) -> bool {
    let at = Cursor::unpack(out.rx.cursor.load(Ordering::Acquire));
    let lines = c.tail().pos.since(at.pos).min(out.ring().count());
    if leaving::is_little(lines) || !out.word.is_read_on() {
        return false;
    }
    let mut room = Room::new(fd);
    let fits = room.has(leaving::bytes(lines)) || room.widen(leaving::bytes(lines));
    room.put_back();
    !fits
}

/// Freezes the cursor. What is behind it is owed from here on. Under the sender's lock.
pub(super) fn freeze(c: &Conn, out: &End) -> Cursor {
    // First: if this process is killed now, its relatives must not put anything else there.
    c.set(Conn::OWES);
    let at = stream::freeze(&out.rx.cursor);
    c.owed().store(at.pack(), Ordering::Relaxed);
    c.linger.store(0, Ordering::Relaxed);
    at
}

/// Puts on TCP what is owed, as far as that goes now. Under the sender's lock.
pub(super) fn pay(fd: i32, c: &Conn, out: &End) {
    let mut room = Room::new(fd);
    let mut result = put(fd, c, out);
    let owed = Cursor::unpack(c.owed().load(Ordering::Relaxed));
    let lines = c.tail().pos.since(owed.pos).min(out.ring().count());
    if result == Err(libc::EAGAIN) && room.widen(leaving::bytes(lines)) {
        result = put(fd, c, out);
    }
    room.put_back();
    match result {
        Ok(()) => {}
        Err(libc::EAGAIN) => return ends_by_a_reset(fd, c),
        Err(libc::EBADMSG) => {
            reset(fd, c, Reason::Corrupt);
            c.error.store(libc::ECONNRESET as u32, Ordering::Relaxed);
        }
        // W13: the program's next call gets it. What the peer sent before may still be read.
        Err(e) => c.error.store(e as u32, Ordering::Relaxed),
    }
    ends_as_it_was(fd, c);
    c.clear(Conn::OWES);
    // What the program asked for meanwhile comes behind it.
    if result == Ok(()) && c.has(Conn::SHUT_WR) {
        let args = [fd as usize, libc::SHUT_WR as usize, 0, 0, 0, 0];
        // SAFETY: numbers.
        let _ = unsafe { raw::call(libc::SYS_shutdown, args) };
    }
}

/// The kernel keeps such pieces apart: one that was longer than a small receive buffer's window would go out by a timer.
const PIECE: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_EOR;

/// The longest piece that one send puts there. Each takes memory of the socket's beside its bytes.
const LONGEST: usize = 4096;
/// The same where there is only the stack, which may be a small one.
const LITTLE: usize = 256;

/// EAGAIN: the socket takes no more. EBADMSG: the ring does not hold what was put there.
fn put(fd: i32, c: &Conn, out: &End) -> Result<(), i32> {
    // SAFETY: not more than there is, and any bytes are bytes.
    let long = |place| put_by(fd, c, out, unsafe { core::slice::from_raw_parts_mut(place, LONGEST) });
    kept::with(long).unwrap_or_else(|| put_by(fd, c, out, &mut [0; LITTLE]))
}

fn put_by(fd: i32, c: &Conn, out: &End, buf: &mut [u8]) -> Result<(), i32> {
    let mut at = Cursor::unpack(c.owed().load(Ordering::Relaxed));
    let end = c.tail().pos;
    loop {
        // The cursor was the peer's to write, and so is the ring: it must not lead past the end, or for ever.
        match end.since(at.pos) {
            0 => return Ok(()),
            lines if lines > out.ring().count() => return Err(libc::EBADMSG),
            _ => {}
        }
        let mut next = at;
        let n = match stream::retrieve(&out.ring(), &mut next, &mut Walk::one(buf.as_mut_ptr(), buf.len())) {
            Ok(n) if n > 0 => n,
            _ => return Err(libc::EBADMSG),
        };
        // SAFETY: the buffer.
        let sent = match unsafe { raw::send(fd, buf.as_ptr(), n, PIECE) } {
            Ok(sent) => sent,
            Err(libc::EINTR) => continue,
            Err(e) => return Err(e),
        };
        c.tx_kernel.fetch_add(sent as u64, Ordering::Relaxed);
        if sent < n {
            // The headers may have changed since: then this is another place, or none.
            next = at;
            let mut w = Walk::one(buf.as_mut_ptr(), sent);
            if stream::retrieve(&out.ring(), &mut next, &mut w) != Ok(sent) {
                return Err(libc::EBADMSG);
            }
        }
        at = next;
        c.owed().store(at.pack(), Ordering::Relaxed);
    }
}

/// However this end goes now, the other one is told that something is missing.
fn ends_by_a_reset(fd: i32, c: &Conn) {
    if c.linger.load(Ordering::Relaxed) == 0 {
        let mut linger = libc::linger { l_onoff: 0, l_linger: 0 };
        let _ = raw::getsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER, &mut linger);
        c.linger.store(leaving::pack_linger(linger.l_onoff != 0, linger.l_linger), Ordering::Relaxed);
        raw::reset_at_close(fd);
    }
}

fn ends_as_it_was(fd: i32, c: &Conn) {
    if let Some((on, seconds)) = leaving::unpack_linger(c.linger.swap(0, Ordering::Relaxed)) {
        let linger = libc::linger { l_onoff: on.into(), l_linger: seconds };
        let _ = raw::setsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER, &linger, size_of::<libc::linger>());
    }
}

/// The program has changed SO_LINGER meanwhile.
pub fn lingers_anew(fd: i32, c: &Conn) {
    if c.has(Conn::OWES) && c.linger.swap(0, Ordering::Relaxed) != 0 {
        ends_by_a_reset(fd, c);
    }
}
