//! Receiving: ring first, kernel where the direction is on TCP, sleeping only in the kernel.
//!
//! A receive is a loop of [`step`]s that never block. When a step finds nothing, a non-blocking call
//! [`settle`]s (arms, looks again, drains the bells it counted before) and returns EAGAIN; a blocking
//! one looks for a while, then sleeps in the kernel's own recv with MSG_PEEK, so that SO_RCVTIMEO,
//! SA_RESTART and cancellation are the kernel's (PROTOCOLS W2, W4, E6).

mod epoch;
mod peek;
mod settle;
mod step;

use core::sync::atomic::Ordering;

use dp_channel::family::{Conn, Family, Reason, Stage};
use dp_channel::stream;
use dp_channel::switch::in_ring;
use dp_edge::ring::Cursor;
use dp_edge::segment::Mapped;
use dp_edge::sys::raw;

use crate::channel::{self, End};
use crate::fdtable;
use crate::inside::brief::briefly;
use crate::inside::Inside;
use crate::state;
use crate::tx;
use crate::tx::{behind, gone};
use crate::walk::Walk;
use crate::{signals, socket, spin};
pub use epoch::{drain_for_close, locked, news, unread, Patience};
pub use peek::readable_bytes;
use peek::{peek, More};
use settle::{bells_out, settle_and, tidy};
pub use settle::{settle, settle_unasked, Settled};
use step::{step, Part};

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

/// Whether the ring has tokens, whatever lies on TCP before them.
pub fn has_tokens(c: &Conn) -> bool {
    c.stage() == Stage::Live && {
        let rx = channel::receiving(c);
        stream::waiting(&rx.ring(), &rx.rx.cursor)
    }
}

/// Whether the ring has tokens, and a receive now would bring bytes: theirs, or those that lie on TCP before them. A sender
/// that has gone back to its ring leaves the tail of what it sent on TCP to the kernel, which sends it when the receiver
/// has room: until that has come there is nothing to read.
pub fn has_reachable_tokens(family: Family, fd: i32, c: &Conn) -> bool {
    if !has_tokens(c) || is_below_mark(fd, c) {
        return false;
    }
    if in_ring(c.rx_epoch.load(Ordering::Relaxed)) || news(family, fd, c, &channel::receiving(c)) {
        return true;
    }
    let bells = c.rx_data.load(Ordering::Relaxed).saturating_sub(c.rx_kernel.load(Ordering::Relaxed));
    raw::queued(fd).is_ok_and(|n| n as u64 > bells)
}

/// Whether this end left its ring for the sake of a low-water mark, and what it has not read is less than that. The sender
/// puts it on TCP when it looks; till then the kernel does not know of it.
pub fn is_below_mark(fd: i32, c: &Conn) -> bool {
    let left =
        channel::receiving(c).word.is_raw() && c.reason.load(Ordering::Relaxed) == Reason::Option as u32;
    left && raw::getsockopt_int(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT)
        .is_ok_and(|mark| readable_bytes(fd, c).is_ok_and(|n| (n as u64) < mark as u64))
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
pub fn quick(family: Family, fd: i32, entry: u32, c: &Conn, w: &mut Walk) -> Option<usize> {
    if !in_ring(c.rx_epoch.load(Ordering::Relaxed)) {
        return None;
    }
    let (n, armed, is_all) = briefly(|| {
        // Asked for behind the note: whoever unmaps its rings has found it neither live nor noted.
        if c.stage() != Stage::Live {
            return None;
        }
        let rx = channel::receiving(c);
        // The descriptor may have been closed since its entry was read, and the connection's place, or that of its rings, be
        // another's. Looked at after the cursor was: a cursor of the other's is not taken, and an older one cannot be
        // committed.
        let ring = || if fdtable::word(fd) == entry { channel::ring_of(c, &rx) } else { Mapped::none() };
        let n = stream::pull_where(ring, &rx.rx.cursor, w, false).ok()?;
        let armed = took(c, &rx, n);
        let goes_on = |w: &Walk| w.left() > 0 && (armed || rx.tx.moved(c.rx_epoch.load(Ordering::Relaxed)));
        let is_all = !(bells_out(c, &rx) || goes_on(w));
        Some((n, armed, is_all))
    })?;
    if is_all {
        return Some(n);
    }
    Some(n + besides(family, fd, entry, c, w, armed))
}

/// What a receive from the ring leaves to be done, if the connection still is what the entry said: bells, and what there is
/// beyond a switch, or in the ring since it was looked at (W16). How many bytes that brought.
#[cold]
fn besides(family: Family, fd: i32, entry: u32, c: &Conn, w: &mut Walk, armed: bool) -> usize {
    let Some(inside) = Inside::enter(fd, w) else { return 0 };
    let mut sum = 0;
    if inside.is(entry) {
        let rx = channel::receiving(c);
        if bells_out(c, &rx) {
            tidy(family, fd, c, &rx);
        }
        if w.left() > 0 && (armed || rx.tx.moved(c.rx_epoch.load(Ordering::Relaxed))) {
            sum = more(family, fd, c, w);
        }
    }
    inside.leave();
    sum
}

/// The rest of a receive, as far as it is there.
#[cold]
fn more(family: Family, fd: i32, c: &Conn, w: &mut Walk) -> usize {
    let mut sum = 0;
    while w.left() > 0 {
        match step(family, fd, c, w, 0, Part::More) {
            Step::Got(n) => sum += n,
            Step::Err(e) => {
                keep(c, e);
                break;
            }
            Step::Nothing | Step::Eof => break,
        }
    }
    sum
}

/// Counts what was taken. True when the word was armed here: what the sender published in between, it announced
/// by no bell, so a caller with room left must look again.
#[inline(always)]
fn took(c: &Conn, rx: &End, n: usize) -> bool {
    let sum = c.rx_bytes.load(Ordering::Relaxed);
    c.rx_bytes.store(sum + n as u64, Ordering::Relaxed);
    arm_if_rung(rx)
}

/// W5: while nobody looks in user space, a new byte must be a new edge for whoever waits.
#[inline(always)]
fn arm_if_rung(rx: &End) -> bool {
    let rung = !rx.word.is_hot() && rx.word.is_rung();
    if rung {
        rx.word.arm();
    }
    rung
}

/// Whether a receive with room left must look again before it may return (W16): the direction goes on elsewhere, or
/// something is known to be there.
fn goes_on(c: &Conn, rx: &End) -> bool {
    let r = c.rx_epoch.load(Ordering::Relaxed);
    rx.tx.moved(r) || counted(c) || (in_ring(r) && stream::waiting(&rx.ring(), &rx.rx.cursor))
}

/// W13: an error that a receive met which has bytes to give. The next call that finds nothing more gets it.
fn keep(c: &Conn, e: i32) {
    if matches!(e, libc::EAGAIN | libc::EINTR) || c.stage() == Stage::Plain {
        return;
    }
    if let Step::Err(e) = verdict(c, e) {
        c.error.store(e as u32, Ordering::Relaxed);
    }
}

/// The end of the stream, or the error that was kept, or what became of a peer that died.
fn end_or_error(family: Family, fd: i32, c: &Conn) -> Result<usize, i32> {
    match c.error.swap(0, Ordering::Relaxed) {
        0 if c.stage() == Stage::Live && gone::died_with_unread(family, fd, c) => Err(libc::ECONNRESET),
        0 => Ok(0),
        e => Err(e as i32),
    }
}

/// A whole receive on an `Accepted` or `Live` connection: bytes, 0, or -errno.
///
/// `sleep(fd, there)` must block in the kernel until more than `there` bytes are queued, and return what its recv
/// of one byte more, with MSG_PEEK, returned; it is libc's function, a cancellation point.
pub fn receive(
    family: Family,
    at: &Inside,
    c: &Conn,
    w: &mut Walk,
    flags: i32,
    sleep: &dyn Fn(i32, usize) -> Result<usize, i32>,
) -> Result<usize, i32> {
    let mut sum = 0;
    let want = w.left();
    if want == 0 {
        // Waits as any other, and takes nothing.
        let mut byte = 0u8;
        let mut one = Walk::one(&mut byte, 1);
        return receive(family, at, c, &mut one, flags | libc::MSG_PEEK, sleep).map(|_| 0);
    }
    let mut looked = false;
    let mut began = None;
    signals::begin();
    // A sleep that ended without a byte saw the end of the stream, and one that ended with bytes that are none of the
    // program's may have met a stranger's: then the kernel is asked.
    let mut ask = false;
    let peeking = flags & libc::MSG_PEEK != 0;
    let mut peeked = (0, More::Came);
    loop {
        // The program may close its number meanwhile: then it is another one.
        let fd = at.fd();
        let part = if sum > 0 { Part::More } else { Part::First };
        match if peeking { peek(family, fd, c, w, flags) } else { step(family, fd, c, w, flags, part) } {
            Step::Got(n) if peeking => {
                let all = flags & libc::MSG_WAITALL != 0 && flags & libc::MSG_DONTWAIT == 0;
                if n >= want || !all || peeked.1 == More::No || peeked == (n, More::There) {
                    return Ok(n);
                }
                if channel::is_nonblocking(fd, c) || c.has(Conn::SHUT_RD) {
                    return Ok(n);
                }
                peeked = (n, peek::wait(fd, c, n, &|there| sleep(fd, there)));
                continue;
            }
            Step::Got(n) => {
                sum += n;
                ask = false;
                // W16: a short receive means that nothing is left, whatever borders lie between.
                if sum < want && goes_on(c, &channel::receiving(c)) {
                    continue;
                }
                if flags & libc::MSG_WAITALL == 0 || sum >= want {
                    return Ok(sum);
                }
                looked = false;
                continue;
            }
            Step::Eof if sum > 0 => return Ok(sum),
            Step::Eof => return end_or_error(family, fd, c),
            Step::Err(e) if sum > 0 => {
                keep(c, e);
                return Ok(sum);
            }
            // A broken connection is Plain by now, and not asked again.
            Step::Err(e) if c.stage() == Stage::Live && news(family, fd, c, &channel::receiving(c)) => {
                keep(c, e);
                continue;
            }
            Step::Err(e) => return outcome(verdict(c, e)),
            Step::Nothing if sum > 0 && flags & libc::MSG_WAITALL == 0 => return Ok(sum),
            Step::Nothing => {}
        }
        if c.error.load(Ordering::Relaxed) != 0 {
            return if sum > 0 { Ok(sum) } else { end_or_error(family, fd, c) };
        }
        tx::left::follow_if_left(family, fd, c);
        if c.has(Conn::SHUT_RD) {
            // An error is told all the same.
            return match socket::peek_one(fd) {
                Err(e) if sum == 0 && e != libc::EAGAIN => outcome(verdict(c, e)),
                _ => Ok(sum),
            };
        }
        if flags & libc::MSG_DONTWAIT != 0 || channel::is_nonblocking(fd, c) {
            if sum > 0 {
                return Ok(sum);
            }
            let hot = channel::receiving(c).word.is_hot();
            match settle(family, fd, c, !hot) {
                Settled::News => continue,
                Settled::Quiet => return Err(libc::EAGAIN),
                Settled::Eof => return end_or_error(family, fd, c),
                Settled::Err => return outcome(pending(fd, c)),
                Settled::Busy if at.fd() != fd => continue,
                Settled::Busy => return Err(libc::EAGAIN),
            }
        }
        if !looked && spin_a_while(c) {
            looked = true;
            continue;
        }
        let rx = channel::receiving(c);
        match settle_and(family, fd, c, true, ask) {
            Settled::News => continue,
            Settled::Eof if sum > 0 => return Ok(sum),
            Settled::Eof => return end_or_error(family, fd, c),
            Settled::Err if sum > 0 => return Ok(sum),
            Settled::Err => return outcome(pending(fd, c)),
            Settled::Busy if at.fd() != fd => continue,
            // It must not wait for the receive that it interrupted.
            Settled::Busy if sum > 0 => return Ok(sum),
            Settled::Busy => return Err(libc::EAGAIN),
            Settled::Quiet => {}
        }
        rx.word.sleep();
        let slept = if news(family, fd, c, &rx) {
            Ok(1)
        } else if signals::interrupted() {
            Err(libc::EINTR)
        } else if c.has(Conn::OWES) {
            // What it waits for may be the answer to that.
            behind::wait_for_either(fd, *began.get_or_insert_with(state::now)).map(|()| 1)
        } else {
            sleep(fd, 0)
        };
        rx.word.awake();
        looked = false;
        match slept {
            Ok(_) => ask = true,
            Err(e) if c.stage() == Stage::Live && news(family, fd, c, &rx) => {
                settle::count_if_lost(fd, c, &rx, e);
                keep(c, e);
            }
            Err(e) if sum > 0 => {
                keep(c, e);
                return Ok(sum);
            }
            Err(e) => return outcome(verdict(c, e)),
        }
    }
}

/// Spins while nothing is there; true when something came. Adapts to how often that helps.
fn spin_a_while(c: &Conn) -> bool {
    let rx = channel::receiving(c);
    // The end of the stream comes through the kernel, and no looking finds it there.
    if rx.tx.is_ending() || !spin::can_pay(c, &rx) {
        return false;
    }
    let budget = spin::budget(c);
    if budget == 0 {
        return false;
    }
    // Not while an epoll set relies on the kernel's readiness: then senders must go on ringing.
    if c.watched.load(Ordering::Relaxed) == 0 {
        rx.word.make_hot();
    }
    spin::and_learn(c, budget, || hint(c, &rx) || rx.tx.is_ending())
}

fn outcome(s: Step) -> Result<usize, i32> {
    match s {
        Step::Err(e) => Err(e),
        _ => Ok(0),
    }
}

/// What the kernel would tell a receive of a connection with a pending error. Behind a FIN that is the end of the
/// stream, and the error stays for the next send, which gets EPIPE (W17).
fn pending(fd: i32, c: &Conn) -> Step {
    match socket::peek_one(fd) {
        Ok(0) => return Step::Eof,
        Err(libc::EAGAIN) | Ok(_) => {}
        Err(e) => return verdict(c, e),
    }
    // Bells are in front of it.
    match raw::getsockopt_int(fd, libc::SOL_SOCKET, libc::SO_ERROR) {
        // The kernel says that to a send anyway.
        Ok(libc::EPIPE) => Step::Eof,
        Ok(e) if e > 0 => verdict(c, e),
        // Somebody else took it meanwhile; the connection is as dead as it was.
        _ => Step::Err(libc::ECONNRESET),
    }
}

/// W12: an error after a peer that had read everything it was sent is an end of file.
fn verdict(c: &Conn, e: i32) -> Step {
    if c.stage() == Stage::Plain {
        return Step::Err(e);
    }
    // A peer that closed has drained its bells, so its reset was meant; one that died may have left one, unless it asked
    // for a reset.
    if e == libc::ECONNRESET && channel::slot_live(c) && !channel::receiving(c).tx.is_abrupt() {
        let tx = channel::sending(c);
        let taken = Cursor::unpack(tx.rx.cursor.load(Ordering::Acquire));
        // To one that has left nobody rings.
        if in_ring(tx.tx.epoch()) && !tx.word.is_raw() && taken.off == 0 && taken.pos == c.tail().pos {
            return Step::Eof;
        }
    }
    gone::was_told(c, e);
    Step::Err(e)
}

/// The peer wrote what no honest peer writes: the connection is reset (ECONNRESET), nothing else.
fn broken(fd: i32, c: &Conn) -> Step {
    crate::tx::reset(fd, c, dp_channel::family::Reason::Corrupt);
    Step::Err(libc::ECONNRESET)
}
