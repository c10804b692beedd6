//! Receiving: ring first, kernel where the direction is on TCP, sleeping only in the kernel.
//!
//! A receive is a loop of [`step`]s that never block. When a step finds nothing, a non-blocking call
//! [`settle`]s (arms, looks again, drains the bells it counted before) and returns EAGAIN; a blocking
//! one looks for a while, then sleeps in the kernel's own recv with MSG_PEEK, so that SO_RCVTIMEO,
//! SA_RESTART and cancellation are the kernel's (PROTOCOLS W2, W4, E6).

mod epoch;
mod peek;
mod settle;
mod spin;
mod step;

use core::sync::atomic::Ordering;

use dpfd::edge::ring::Cursor;
use dpfd::edge::stream;
use dpfd::edge::switch::in_ring;
use dpfd::family::{Conn, Family, Stage};
use dpfd::sys::raw;

use crate::channel::{self, End};
use crate::walk::Walk;
pub use epoch::{drain_for_close, locked, news, unread, Patience};
pub use peek::readable_bytes;
use peek::{peek, More};
use settle::{bells_out, settle_and, tidy};
pub use settle::{ended, settle, Settled};
use spin::look_a_while;
pub use spin::{may_spin, spin_and_learn, spin_budget, spin_until};
use step::{step, GOING_ON};

/// What one step brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Bytes.
    Got(usize),
    /// Nothing now.
    Nothing,
    /// The peer has shut down, and everything it sent was delivered.
    Eof,
    /// An errno.
    Err(i32),
}

/// Whether the direction's ring, or a switch, may have something to say. Two or three loads; [`news`] knows.
#[inline(always)]
pub fn hint(c: &Conn, rx: &End) -> bool {
    let r = c.rx_epoch.load(Ordering::Relaxed);
    (in_ring(r) && stream::waiting(&rx.ring(), &rx.rx.cursor)) || rx.tx.moved(r)
}

/// Whether bytes of the program's are known to be on TCP: counted, and not taken yet.
pub fn counted(c: &Conn) -> bool {
    let at = c.rx_kernel.load(Ordering::Relaxed);
    !in_ring(c.rx_epoch.load(Ordering::Relaxed))
        && c.rx_counted.load(Ordering::Relaxed) > at
        && at >= c.rx_data.load(Ordering::Relaxed)
}

/// The fast path: what is in the ring right now. `None`: take the long way.
#[inline(always)]
pub fn quick(family: Family, fd: i32, c: &Conn, w: &mut Walk) -> Option<usize> {
    if c.stage() != Stage::Live || !in_ring(c.rx_epoch.load(Ordering::Relaxed)) {
        return None;
    }
    let rx = channel::receiving(c);
    match stream::pull_where(|| rx.ring(), &rx.rx.cursor, w, false) {
        Ok(n) => {
            took(c, &rx, n);
            if bells_out(c, &rx) {
                tidy(family, fd, c, &rx);
            }
            if w.left() > 0 && rx.tx.moved(c.rx_epoch.load(Ordering::Relaxed)) {
                return Some(n + more(family, fd, c, w));
            }
            Some(n)
        }
        Err(_) => None,
    }
}

/// The rest of a receive whose direction goes on beyond a switch, as far as it is there.
#[cold]
fn more(family: Family, fd: i32, c: &Conn, w: &mut Walk) -> usize {
    let mut sum = 0;
    while w.left() > 0 {
        match step(family, fd, c, w, GOING_ON) {
            Step::Got(n) => sum += n,
            _ => break,
        }
    }
    sum
}

#[inline(always)]
fn took(c: &Conn, rx: &End, n: usize) {
    let sum = c.rx_bytes.load(Ordering::Relaxed);
    c.rx_bytes.store(sum + n as u64, Ordering::Relaxed);
    // W5: while nobody looks in user space, a new byte must be a new edge for whoever waits.
    if !rx.word.is_hot() && rx.word.is_rung() {
        rx.word.arm();
    }
}

/// A whole receive on an `Accepted` or `Live` connection: bytes, 0, or -errno.
///
/// `sleep(there)` must block in the kernel until more than `there` bytes are queued, and return what its recv
/// of one byte more, with MSG_PEEK, returned; it is libc's function, a cancellation point.
pub fn receive(
    family: Family,
    fd: i32,
    c: &Conn,
    w: &mut Walk,
    flags: i32,
    sleep: &dyn Fn(usize) -> Result<usize, i32>,
) -> Result<usize, i32> {
    let mut sum = 0;
    let want = w.left();
    if want == 0 {
        // Waits as any other, and takes nothing.
        let mut byte = 0u8;
        let mut one = Walk::one(&mut byte, 1);
        return receive(family, fd, c, &mut one, flags | libc::MSG_PEEK, sleep).map(|_| 0);
    }
    let mut looked = false;
    // A sleep that ended without a byte saw the end of the stream: then the kernel is asked.
    let mut ask = false;
    let peeking = flags & libc::MSG_PEEK != 0;
    let mut peeked = (0, More::Came);
    loop {
        let going = if sum > 0 { GOING_ON } else { 0 };
        match if peeking { peek(family, fd, c, w, flags) } else { step(family, fd, c, w, flags | going) } {
            Step::Got(n) if peeking => {
                let all = flags & libc::MSG_WAITALL != 0 && flags & libc::MSG_DONTWAIT == 0;
                if n >= want || !all || peeked.1 == More::No || peeked == (n, More::There) {
                    return Ok(n);
                }
                if raw::is_nonblocking(fd) || c.has(Conn::SHUT_RD) {
                    return Ok(n);
                }
                peeked = (n, peek::wait(fd, c, n, sleep));
                continue;
            }
            Step::Got(n) => {
                sum += n;
                // What FIONREAD promised comes in one piece, across a switch too.
                let rx = channel::receiving(c);
                if sum < want && rx.tx.moved(c.rx_epoch.load(Ordering::Relaxed)) {
                    continue;
                }
                if flags & libc::MSG_WAITALL == 0 || sum >= want {
                    return Ok(sum);
                }
                looked = false;
                continue;
            }
            Step::Eof => return Ok(sum),
            Step::Err(_) if sum > 0 => return Ok(sum),
            // A broken connection is Plain by now, and not asked again.
            Step::Err(_) if c.stage() == Stage::Live && news(family, fd, c, &channel::receiving(c)) => {
                continue
            }
            Step::Err(e) => return outcome(verdict(c, e)),
            Step::Nothing if sum > 0 && flags & libc::MSG_WAITALL == 0 => return Ok(sum),
            Step::Nothing => {}
        }
        crate::leave::follow_if_left(family, fd, c);
        if c.has(Conn::SHUT_RD) {
            return Ok(sum);
        }
        if flags & libc::MSG_DONTWAIT != 0 || raw::is_nonblocking(fd) {
            if sum > 0 {
                return Ok(sum);
            }
            let hot = channel::receiving(c).word.is_hot();
            match settle(family, fd, c, !hot) {
                Settled::News => continue,
                Settled::Quiet => return Err(libc::EAGAIN),
                Settled::Eof => return Ok(0),
                Settled::Err => return outcome(verdict(c, pending(fd))),
                Settled::Busy => return Err(libc::EAGAIN),
            }
        }
        if !looked && look_a_while(c) {
            looked = true;
            continue;
        }
        let rx = channel::receiving(c);
        match settle_and(family, fd, c, true, ask) {
            Settled::News => continue,
            Settled::Eof => return Ok(sum),
            Settled::Err if sum > 0 => return Ok(sum),
            Settled::Err => return outcome(verdict(c, pending(fd))),
            // It must not wait for the receive that it interrupted.
            Settled::Busy if sum > 0 => return Ok(sum),
            Settled::Busy => return Err(libc::EAGAIN),
            Settled::Quiet => {}
        }
        rx.word.sleep();
        let slept = if news(family, fd, c, &rx) { Ok(1) } else { sleep(0) };
        rx.word.awake();
        looked = false;
        match slept {
            Ok(n) => ask = n == 0,
            Err(_) if c.stage() == Stage::Live && news(family, fd, c, &rx) => {}
            Err(_) if sum > 0 => return Ok(sum),
            Err(e) => return outcome(verdict(c, e)),
        }
    }
}

fn outcome(s: Step) -> Result<usize, i32> {
    match s {
        Step::Err(e) => Err(e),
        _ => Ok(0),
    }
}

/// Takes the pending error, for the program; there may be bells in front of it.
fn pending(fd: i32) -> i32 {
    match raw::getsockopt_int(fd, libc::SOL_SOCKET, libc::SO_ERROR) {
        Ok(e) if e > 0 => e,
        // Somebody else took it meanwhile; the connection is as dead as it was.
        _ => libc::ECONNRESET,
    }
}

/// W12: an error after a peer that had read everything it was sent is an end of file.
fn verdict(c: &Conn, e: i32) -> Step {
    if c.stage() == Stage::Plain {
        return Step::Err(e);
    }
    // A peer that closed has drained its bells, so its reset was meant; one that died may have left one.
    if e == libc::ECONNRESET && channel::slot_live(c) {
        let tx = channel::sending(c);
        let taken = Cursor::unpack(tx.rx.cursor.load(Ordering::Acquire));
        if in_ring(tx.tx.epoch()) && taken.off == 0 && taken.pos == c.tail().pos {
            return Step::Eof;
        }
    }
    Step::Err(e)
}

/// The peer wrote what no honest peer writes: the connection is reset (ECONNRESET), nothing else.
fn broken(fd: i32, c: &Conn) -> Step {
    crate::tx::reset(fd, c, dpfd::family::Reason::Corrupt);
    Step::Err(libc::ECONNRESET)
}
