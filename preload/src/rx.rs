//! Receiving: ring first, kernel where the direction is on TCP, sleeping only in the kernel.
//!
//! A receive is a loop of [`step`]s that never block. When a step finds nothing, a non-blocking call
//! [`settle`]s (arms, looks again, drains the bells it counted before) and returns EAGAIN; a blocking
//! one looks for a while, then sleeps in the kernel's own recv with MSG_PEEK, so that SO_RCVTIMEO,
//! SA_RESTART and cancellation are the kernel's (PROTOCOLS W2, W4, E6).

use core::sync::atomic::Ordering;

use dpfd::edge::ring::Cursor;
use dpfd::edge::stream;
use dpfd::edge::switch::{in_ring, View};
use dpfd::edge::Error;
use dpfd::family::{Conn, Family, Stage};
use dpfd::sys::raw;

use crate::channel::{self, End};
use crate::state;
use crate::walk::{Discard, Walk};

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

/// What [`settle`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// Something to step for.
    News,
    /// Nothing; a new byte will be a new bell.
    Quiet,
    /// End of file.
    Eof,
    /// A pending error, still the kernel's.
    Err,
}

/// Whether the direction's ring, or a switch, may have something to say. Two or three loads; [`news`] knows.
#[inline(always)]
pub fn hint(c: &Conn, rx: &End) -> bool {
    let r = c.rx_epoch.load(Ordering::Relaxed);
    (in_ring(r) && stream::waiting(&rx.ring, &rx.rx.cursor)) || rx.tx.moved(r)
}

/// Whether the ring has something for the program. What is on TCP, the kernel's readiness tells.
#[inline]
pub fn news(family: Family, fd: i32, c: &Conn, rx: &End) -> bool {
    if !hint(c, rx) {
        return false;
    }
    if rx.tx.moved(c.rx_epoch.load(Ordering::Relaxed)) {
        c.rx_lock.lock(state::me(), family);
        catch_up(fd, c, rx);
        c.rx_lock.unlock();
    }
    in_ring(c.rx_epoch.load(Ordering::Acquire)) && stream::waiting(&rx.ring, &rx.rx.cursor)
}

/// Switches followed in one go.
const SWITCHES: u32 = 64;
/// Turns of a loop that only a hostile peer can keep going.
const TURNS: u32 = 10_000;

/// Goes into the next epoch as long as everything of the present one was taken. Under the lock. False when
/// the sender's line cannot be.
fn catch_up(fd: i32, c: &Conn, rx: &End) -> bool {
    // An honest sender needs our acknowledgement for every second switch; a hostile one must not keep us.
    for _ in 0..SWITCHES {
        let r = c.rx_epoch.load(Ordering::Relaxed);
        match rx.tx.view(r) {
            Ok(View::Same) => return true,
            Ok(View::RingAt(p)) => {
                let at = c.rx_kernel.load(Ordering::Relaxed);
                if at > p {
                    return false;
                }
                // Bells of the epoch before are all that may still lie in front of the switch.
                let bells = c.rx_data.load(Ordering::Relaxed).min(p).saturating_sub(at) as usize;
                if at < p && (bells == 0 || drain(fd, c, bells) == 0) {
                    return true;
                }
                if c.rx_kernel.load(Ordering::Relaxed) == p {
                    c.rx_epoch.store(r + 1, Ordering::Release);
                }
            }
            Ok(View::TcpAt { end, q }) => {
                let at = Cursor::unpack(rx.rx.cursor.load(Ordering::Acquire));
                if !at.frozen && at.pos != end {
                    // Tokens were published before the hand-back was: there must be one.
                    return stream::waiting(&rx.ring, &rx.rx.cursor)
                        || Cursor::unpack(rx.rx.cursor.load(Ordering::Acquire)).pos == end;
                }
                c.rx_data.store(q, Ordering::Relaxed);
                c.rx_epoch.store(r + 1, Ordering::Release);
                rx.rx.acknowledge(r + 1);
            }
            Err(_) => return false,
        }
    }
    false
}

/// The fast path: what is in the ring right now. `None`: take the long way.
#[inline(always)]
pub fn quick(family: Family, fd: i32, c: &Conn, w: &mut Walk) -> Option<usize> {
    if c.stage() != Stage::Live || !in_ring(c.rx_epoch.load(Ordering::Relaxed)) {
        return None;
    }
    let rx = channel::receiving(c);
    match stream::pull(&rx.ring, &rx.rx.cursor, w, false) {
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
        match step(family, fd, c, w, 0) {
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

/// After a receive: bells that are out go as soon as the ring is empty. They would make an end that
/// somebody else watches look readable, and turn the FIN of a process that dies into a reset, which loses
/// what it still had on TCP.
#[cold]
fn tidy(family: Family, fd: i32, c: &Conn, rx: &End) {
    c.rx_lock.lock(state::me(), family);
    let r = c.rx_epoch.load(Ordering::Relaxed);
    if in_ring(r) && !rx.tx.moved(r) {
        let there = raw::queued(fd).unwrap_or(0);
        if !rx.word.is_hot() {
            rx.word.arm();
        }
        if stream::waiting(&rx.ring, &rx.rx.cursor) {
            if there > 0 && !rx.word.is_hot() {
                rx.word.unarm();
            }
        } else if there > 0 && !rx.tx.moved(r) {
            drain(fd, c, there);
        }
    }
    c.rx_lock.unlock();
    // A bell that was drained may have been the one that says so.
    crate::leave::follow_if_left(family, fd, c);
}

/// One attempt that does not block and arms nothing.
pub fn step(family: Family, fd: i32, c: &Conn, w: &mut Walk, flags: i32) -> Step {
    let rx = channel::receiving(c);
    let peek = flags & libc::MSG_PEEK != 0;
    for _ in 0..TURNS {
        let r = c.rx_epoch.load(Ordering::Acquire);
        if !in_ring(r) {
            match tcp_step(family, fd, c, &rx, r, w, flags) {
                Some(s) => return s,
                None => continue,
            }
        }
        w.mark();
        let got = if flags & libc::MSG_TRUNC != 0 {
            stream::pull(&rx.ring, &rx.rx.cursor, &mut Discard::new(w.left()), peek)
        } else {
            stream::pull(&rx.ring, &rx.rx.cursor, w, peek)
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
            Err(Error::Empty) => {}
            Err(_) => return broken(fd, c),
        }
        if !rx.tx.moved(r) {
            return Step::Nothing;
        }
        c.rx_lock.lock(state::me(), family);
        let sane = catch_up(fd, c, &rx);
        c.rx_lock.unlock();
        if !sane {
            return broken(fd, c);
        }
    }
    broken(fd, c)
}

/// One attempt while the direction is on TCP: count first, look, then read no more than was counted.
/// `None`: the epoch changed, start over.
fn tcp_step(family: Family, fd: i32, c: &Conn, rx: &End, r: u64, w: &mut Walk, flags: i32) -> Option<Step> {
    c.rx_lock.lock(state::me(), family);
    let result = (|| {
        if c.rx_epoch.load(Ordering::Relaxed) != r {
            return None;
        }
        let there = match raw::queued(fd) {
            Ok(n) => n,
            Err(e) => return Some(Step::Err(e)),
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
        let bells = c.rx_data.load(Ordering::Relaxed).saturating_sub(at) as usize;
        if bells > 0 && limit > 0 {
            let n = drain(fd, c, bells.min(limit));
            return if n == 0 { Some(Step::Nothing) } else { None };
        }
        if limit == 0 {
            // Nothing to read of this epoch: is it the end, an error, or just nothing yet?
            let at_kernel = peek_one(fd);
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
            return match at_kernel {
                Ok(0) => Some(Step::Eof),
                Ok(_) if there == 0 => None,
                Ok(_) => Some(Step::Nothing),
                Err(libc::EAGAIN) => Some(Step::Nothing),
                Err(e) => Some(Step::Err(e)),
            };
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
                Some(if n == 0 { Step::Nothing } else { Step::Got(n) })
            }
            Err(libc::EAGAIN) => Some(Step::Nothing),
            Err(e) => Some(Step::Err(e)),
        }
    })();
    c.rx_lock.unlock();
    result
}

/// Takes up to `n` bells out of the kernel. Under the receive lock, and counted before.
fn drain(fd: i32, c: &Conn, n: usize) -> usize {
    let mut scratch = [0u8; 64];
    let mut sum = 0;
    while sum < n {
        let k = (n - sum).min(scratch.len());
        // SAFETY: the scratch buffer is that long.
        match unsafe { raw::recv(fd, scratch.as_mut_ptr(), k, libc::MSG_DONTWAIT) } {
            Ok(0) | Err(_) => break,
            Ok(got) => sum += got,
        }
    }
    c.rx_kernel.fetch_add(sum as u64, Ordering::Relaxed);
    c.drained.fetch_add(sum as u32, Ordering::Relaxed);
    sum
}

/// Before the last close: takes every bell that was counted, waiting a moment for one on its way, or the
/// kernel would answer the peer with a reset instead of a FIN.
pub fn drain_for_close(fd: i32, c: &Conn, rx: &End) {
    let end = state::now() + 1_000_000;
    loop {
        if !catch_up(fd, c, rx) {
            return;
        }
        let r = c.rx_epoch.load(Ordering::Relaxed);
        let there = raw::queued(fd).unwrap_or(0);
        if !rx.tx.moved(r) {
            let data = c.rx_data.load(Ordering::Relaxed);
            let at = c.rx_kernel.load(Ordering::Relaxed);
            let bells = if in_ring(r) { there } else { (data.saturating_sub(at) as usize).min(there) };
            let all = if in_ring(r) { !bells_out(c, rx) } else { data <= at };
            if bells > 0 {
                drain(fd, c, bells);
                continue;
            }
            if all {
                return;
            }
        }
        if state::now() > end {
            return;
        }
        core::hint::spin_loop();
    }
}

/// Whether the program has not read everything the peer put into the ring. Under the lock.
pub fn unread(fd: i32, c: &Conn, rx: &End) -> bool {
    catch_up(fd, c, rx);
    let r = c.rx_epoch.load(Ordering::Relaxed);
    // Tokens behind a switch that was not reached yet count as well.
    (in_ring(r) || rx.tx.moved(r)) && stream::waiting(&rx.ring, &rx.rx.cursor)
}

/// What the kernel says of a descriptor, taking nothing: neither bytes nor a pending error (W13).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kernel {
    Nothing,
    Bytes,
    Fin,
    Error,
}

fn kernel_state(fd: i32) -> Kernel {
    let mut p = libc::pollfd { fd, events: libc::POLLIN | libc::POLLRDHUP, revents: 0 };
    let t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let args = [&raw mut p as usize, 1, &raw const t as usize, 0, 8, 0];
    // SAFETY: one entry, a timeout of nothing, no mask.
    if unsafe { raw::call(libc::SYS_ppoll, args) }.is_err() {
        return Kernel::Nothing;
    }
    if p.revents & (libc::POLLERR | libc::POLLNVAL) != 0 {
        return Kernel::Error;
    }
    if p.revents & (libc::POLLIN | libc::POLLRDHUP | libc::POLLHUP) == 0 {
        return Kernel::Nothing;
    }
    match raw::queued(fd) {
        Ok(0) | Err(_) if p.revents & (libc::POLLRDHUP | libc::POLLHUP) != 0 => Kernel::Fin,
        Ok(0) => Kernel::Nothing,
        _ => Kernel::Bytes,
    }
}

fn peek_one(fd: i32) -> Result<usize, i32> {
    let mut byte = 0u8;
    // SAFETY: one byte.
    unsafe { raw::recv(fd, &mut byte, 1, libc::MSG_PEEK | libc::MSG_DONTWAIT) }
}

/// Bells that were counted by the sender and not drained yet; a hint, the kernel has the truth.
fn bells_out(c: &Conn, rx: &End) -> bool {
    rx.word.bells() != c.drained.load(Ordering::Relaxed)
}

/// Before a wait, or an EAGAIN: arm, look again, drain what was counted before (W4).
///
/// `arm` is false for an edge that stays hot: then only stale bells are drained.
pub fn settle(family: Family, fd: i32, c: &Conn, arm: bool) -> Settled {
    settle_and(family, fd, c, arm, true)
}

/// The same; without `ask`, the kernel is not asked for FIN or error: the caller's sleep finds out.
fn settle_and(family: Family, fd: i32, c: &Conn, arm: bool, ask: bool) -> Settled {
    let rx = channel::receiving(c);
    c.rx_lock.lock(state::me(), family);
    let result = settle_locked(fd, c, &rx, arm, ask);
    c.rx_lock.unlock();
    // A bell that was drained may have been the one that says so.
    crate::leave::follow_if_left(family, fd, c);
    result
}

fn settle_locked(fd: i32, c: &Conn, rx: &End, arm: bool, ask: bool) -> Settled {
    let ringing = || in_ring(c.rx_epoch.load(Ordering::Relaxed)) && stream::waiting(&rx.ring, &rx.rx.cursor);
    for _ in 0..SWITCHES {
        if !catch_up(fd, c, rx) {
            break; // the next step finds out
        }
        let r = c.rx_epoch.load(Ordering::Relaxed);
        let ring = in_ring(r);
        // Counted before arming; what is counted now came before the epoch is looked at again below.
        let there = if !ring || bells_out(c, rx) { raw::queued(fd).unwrap_or(0) } else { 0 };
        if arm {
            rx.word.arm();
        }
        if ringing() {
            if arm && there > 0 {
                rx.word.unarm();
            } else if !arm && there > 0 && !rx.tx.moved(r) && !rx.word.has_sleepers() {
                // Somebody asleep in the kernel must still find it readable (W4).
                drain(fd, c, there);
            }
            return Settled::News;
        }
        if rx.tx.moved(r) {
            if !catch_up(fd, c, rx) || c.rx_epoch.load(Ordering::Relaxed) != r {
                continue;
            }
            // Bytes of this epoch wait in the kernel, or are still on their way, or will never come.
            let ended = ask && matches!(kernel_state(fd), Kernel::Fin | Kernel::Error);
            return if there > 0 || ended { Settled::News } else { Settled::Quiet };
        }
        let bells = if ring {
            there
        } else {
            let before =
                c.rx_data.load(Ordering::Relaxed).saturating_sub(c.rx_kernel.load(Ordering::Relaxed));
            (before as usize).min(there)
        };
        if bells > 0 {
            drain(fd, c, bells);
        }
        let at_kernel = if ask { kernel_state(fd) } else { Kernel::Nothing };
        // FIN seen, ring looked at again (W11).
        if ringing() || rx.tx.moved(r) {
            continue;
        }
        return match at_kernel {
            Kernel::Fin => Settled::Eof,
            // In a ring epoch only another bell can be there: its token is, or was, too.
            Kernel::Bytes if ring => Settled::Quiet,
            Kernel::Bytes => Settled::News,
            Kernel::Nothing => Settled::Quiet,
            Kernel::Error => Settled::Err,
        };
    }
    Settled::News
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
    crate::tx::reset(fd, c);
    Step::Err(libc::ECONNRESET)
}

/// A whole receive on an `Accepted` or `Live` connection: bytes, 0, or -errno.
///
/// `sleep(flags)` must block in the kernel until the descriptor is readable, and return what its recv of
/// one byte with MSG_PEEK returned; it is libc's function, a cancellation point.
pub fn receive(
    family: Family,
    fd: i32,
    c: &Conn,
    w: &mut Walk,
    flags: i32,
    sleep: &dyn Fn() -> Result<usize, i32>,
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
    loop {
        match step(family, fd, c, w, flags) {
            Step::Got(n) => {
                sum += n;
                let peek = flags & libc::MSG_PEEK != 0;
                // What FIONREAD promised comes in one piece, across a switch too.
                let rx = channel::receiving(c);
                if !peek && sum < want && rx.tx.moved(c.rx_epoch.load(Ordering::Relaxed)) {
                    continue;
                }
                if flags & libc::MSG_WAITALL == 0 || peek || sum >= want {
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
            Settled::Quiet => {}
        }
        rx.word.sleep();
        let slept = if news(family, fd, c, &rx) { Ok(1) } else { sleep() };
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

/// FIONREAD: bytes for the program, in the ring and before the switch, never bells.
pub fn readable_bytes(fd: i32, c: &Conn) -> Result<usize, i32> {
    let rx = channel::receiving(c);
    let r = c.rx_epoch.load(Ordering::Acquire);
    let at = c.rx_kernel.load(Ordering::Relaxed);
    let ring = || stream::bytes_waiting(&rx.ring, &rx.rx.cursor, 4096);
    let there = || raw::queued(fd).map(|n| n as u64);
    let after = |q: u64, there: u64| there.saturating_sub(q.saturating_sub(at));
    Ok(match rx.tx.view(r) {
        Ok(View::Same) if in_ring(r) => ring(),
        Ok(View::TcpAt { q, .. }) => ring() + after(q, there()?) as usize,
        Ok(View::RingAt(p)) => {
            let there = there()?;
            let bells = c.rx_data.load(Ordering::Relaxed).saturating_sub(at);
            let before = there.min(p.saturating_sub(at)).saturating_sub(bells);
            before as usize + ring() + rx.tx.beyond(r).map_or(0, |q| after(q, there)) as usize
        }
        _ => after(c.rx_data.load(Ordering::Relaxed), there()?) as usize,
    })
}

/// Whether looking before sleeping can pay: another CPU runs the peer.
#[inline]
pub fn may_spin(c: &Conn, rx: &End) -> bool {
    if state::CPUS.load(Ordering::Relaxed) < 2 || c.has(Conn::ARMED) {
        return false;
    }
    let mine = state::cpu();
    // Plain stores: each side keeps its own number up to date, and only when it changed.
    if rx.rx.cpu.load(Ordering::Relaxed) != mine {
        rx.rx.cpu.store(mine, Ordering::Relaxed);
    }
    let theirs = rx.tx.cpu.load(Ordering::Relaxed);
    theirs != 0 && theirs != mine
}

/// Spins while nothing is there; true when something came. Adapts to how often that helps.
fn look_a_while(c: &Conn) -> bool {
    let rx = channel::receiving(c);
    if !may_spin(c, &rx) {
        return false;
    }
    let longest = state::SPIN.load(Ordering::Relaxed);
    let budget = c.rx_spin.load(Ordering::Relaxed).min(longest);
    if budget == 0 {
        // Try again now and then: traffic changes.
        c.rx_spin.store(longest / 16, Ordering::Relaxed);
        return false;
    }
    // Not while an epoll set relies on the kernel's readiness: then senders must go on ringing.
    let hot = c.watched.load(Ordering::Relaxed) == 0 && rx.word.heat();
    let _ = hot;
    let hit = spin_until(budget, || hint(c, &rx));
    let next = if hit { (budget * 2).clamp(1_000, longest) } else { budget / 2 };
    c.rx_spin.store(if next < 500 { 0 } else { next }, Ordering::Relaxed);
    hit
}

/// Looks until `f` holds or `budget` nanoseconds are over.
#[inline]
pub fn spin_until(budget: u32, mut f: impl FnMut() -> bool) -> bool {
    for _ in 0..64 {
        if f() {
            return true;
        }
        core::hint::spin_loop();
    }
    let end = state::now() + u64::from(budget);
    loop {
        for _ in 0..64 {
            if f() {
                return true;
            }
            core::hint::spin_loop();
        }
        if state::now() >= end {
            return false;
        }
    }
}
