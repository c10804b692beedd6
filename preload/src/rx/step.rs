//! One attempt to receive: the ring without a lock, TCP under the lock and counted first (PROTOCOLS E6).

use core::sync::atomic::Ordering;

use dp_channel::family::{Conn, Family};
use dp_channel::stream;
use dp_channel::switch::{in_ring, View};
use dp_edge::sys::raw;
use dp_edge::Error;

use super::epoch::{catch_up, drain, locked};
use super::{bells_out, broken, tidy, took, Step};
use crate::channel::{self, End};
use crate::socket;
use crate::walk::{Discard, Walk};

/// Which part of a receive a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// The first bytes of it.
    First,
    /// It has something already.
    More,
}

/// Turns of a loop that only a hostile peer can keep going.
const TURNS: u32 = 10_000;

/// One attempt that does not block and arms nothing.
pub(super) fn step(family: Family, fd: i32, c: &Conn, w: &mut Walk, flags: i32, part: Part) -> Step {
    let rx = channel::receiving(c);
    let peek = flags & libc::MSG_PEEK != 0;
    for _ in 0..TURNS {
        let r = c.rx_epoch.load(Ordering::Acquire);
        if !in_ring(r) {
            match tcp_step(family, fd, c, &rx, r, w, (flags, part)) {
                Some(s) => return s,
                None => continue,
            }
        }
        w.mark();
        let got = if flags & libc::MSG_TRUNC != 0 {
            stream::pull_where(|| channel::ring_of(c, &rx), &rx.rx.cursor, &mut Discard::new(w.left()), peek)
        } else {
            stream::pull_where(|| channel::ring_of(c, &rx), &rx.rx.cursor, w, peek)
        };
        match got {
            Ok(n) => {
                if flags & libc::MSG_TRUNC != 0 {
                    w.skip(n);
                }
                if !peek {
                    took(c, &rx, n);
                    if bells_out(c, &rx) {
                        tidy(family, fd, c, &rx);
                    }
                }
                return Step::Got(n);
            }
            Err(Error::Empty) if !channel::is_of_slot(c) => return taken_over(fd, c),
            Err(Error::Empty) => {}
            Err(_) => return broken(fd, c),
        }
        if !rx.tx.moved(r) {
            return Step::Nothing;
        }
        match locked(family, fd, c, || catch_up(fd, c, &rx)) {
            Some(true) => {}
            Some(false) => return broken(fd, c),
            None => return Step::Nothing,
        }
    }
    broken(fd, c)
}

/// One attempt while the direction is on TCP: count first, look, then read no more than was counted.
/// `None`: the epoch changed, start over.
fn tcp_step(
    family: Family,
    fd: i32,
    c: &Conn,
    rx: &End,
    r: u64,
    w: &mut Walk,
    (flags, part): (i32, Part),
) -> Option<Step> {
    let attempt = || {
        if c.rx_epoch.load(Ordering::Relaxed) != r {
            return None;
        }
        let known = c.rx_counted.load(Ordering::Relaxed).saturating_sub(c.rx_kernel.load(Ordering::Relaxed));
        // Where less is known than is asked for, there may be more by now, and a short receive says that there is not.
        let there = match known as usize {
            n if n < w.left().max(1) => match raw::queued(fd) {
                Ok(n) => n,
                Err(e) => return Some(Step::Err(e)),
            },
            n => n,
        };
        if !catch_up(fd, c, rx) {
            return Some(broken(fd, c));
        }
        if c.rx_epoch.load(Ordering::Relaxed) != r {
            return None;
        }
        let at = c.rx_kernel.load(Ordering::Relaxed);
        let limit = match rx.tx.view(r) {
            Ok(View::RingAt(p)) => there.min(p.saturating_sub(at) as usize),
            _ => there,
        };
        // A reader of small pieces asks the kernel once for all of them.
        c.rx_counted.store(at + limit as u64, Ordering::Relaxed);
        let mut limit = limit;
        let bells = c.rx_data.load(Ordering::Relaxed).saturating_sub(at) as usize;
        if bells > 0 && limit > 0 {
            let n = drain(fd, c, bells.min(limit));
            return if n == 0 { Some(Step::Nothing) } else { None };
        }
        if limit == 0 {
            // Nothing to read of this epoch: is it the end, an error, or just nothing yet?
            let at_kernel = socket::peek_one(fd);
            if rx.tx.moved(r) && at_kernel != Err(libc::EAGAIN) && there == 0 {
                // It said where it went before it ended (W11). If that place is never reached, the end took
                // bytes with it: a reset, whatever the kernel calls it.
                return match (catch_up(fd, c, rx), at_kernel) {
                    (true, _) if c.rx_epoch.load(Ordering::Relaxed) != r => None,
                    (_, Err(e)) => Some(Step::Err(e)),
                    _ if raw::queued(fd).is_ok_and(|n| n > 0) => None,
                    _ => Some(Step::Err(libc::ECONNRESET)),
                };
            }
            let steps_over = there == 0 && part == Part::First && flags & libc::MSG_PEEK == 0;
            match at_kernel {
                // Nothing follows it. A receive that begins there steps over it all the same: it is urgent no more.
                Ok(0) | Err(libc::EAGAIN) if steps_over && socket::at_mark(fd) => limit = usize::MAX,
                Ok(0) => return Some(Step::Eof),
                // FIONREAD ends at an urgent byte, also when that was read. Who sent one never switches again.
                Ok(_) if there == 0 && socket::at_mark(fd) => {
                    limit = usize::MAX;
                }
                Ok(_) if there == 0 => return None,
                Ok(_) => return Some(Step::Nothing),
                Err(libc::EAGAIN) => return Some(Step::Nothing),
                Err(e) => return Some(Step::Err(e)),
            }
        }
        if part == Part::More && socket::at_mark(fd) {
            return Some(Step::Err(libc::EAGAIN)); // no receive goes across
        }
        let mut pieces = [libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }; 16];
        let list = w.fill_list(&mut pieces, limit);
        if list.is_empty() {
            return Some(Step::Got(0));
        }
        // SAFETY: msghdr is plain data.
        let mut msg: libc::msghdr = unsafe { core::mem::zeroed() };
        msg.msg_iov = list.as_mut_ptr();
        msg.msg_iovlen = list.len() as _;
        let keep = flags & (libc::MSG_PEEK | libc::MSG_TRUNC);
        // SAFETY: the list covers the program's own buffers.
        match unsafe { raw::recvmsg(fd, &mut msg, keep | libc::MSG_DONTWAIT) } {
            Ok(n) => {
                if flags & libc::MSG_PEEK == 0 {
                    c.rx_kernel.store(at + n as u64, Ordering::Relaxed);
                    rx.rx.consumed.store(at + n as u64, Ordering::Release);
                    w.skip(n);
                }
                if n == 0 {
                    c.rx_counted.store(0, Ordering::Relaxed);
                }
                Some(if n == 0 { Step::Nothing } else { Step::Got(n) })
            }
            Err(libc::EAGAIN) => {
                // Somebody else took what was counted.
                c.rx_counted.store(0, Ordering::Relaxed);
                Some(Step::Nothing)
            }
            Err(e) => Some(Step::Err(e)),
        }
    };
    locked(family, fd, c, attempt).unwrap_or(Some(Step::Nothing))
}

/// The slot was given to another connection, as the kernel knew nothing of this one any more: what it says now.
#[cold]
pub(super) fn taken_over(fd: i32, c: &Conn) -> Step {
    let ended = socket::peek_one(fd) == Ok(0);
    let reset = broken(fd, c);
    if ended {
        Step::Eof
    } else {
        reset
    }
}
