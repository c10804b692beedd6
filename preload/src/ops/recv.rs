//! read, recv and their kin.

use core::ffi::{c_int, c_uint, c_void};
use core::sync::atomic::Ordering;

use dp_channel::family::{Conn, Family, Stage};
use dp_edge::sys::raw;
use libc::{iovec, mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t, timespec};

use super::{fail, took, Outcome, RWF_NOWAIT};
use crate::channel::Channel;
use crate::inside::brief::briefly;
use crate::inside::Inside;
use crate::real;
use crate::walk::{is_no_length, nowhere, Walk};
use crate::{fdtable, state};

#[inline(always)]
fn receive(fd: c_int, w: &mut Walk, flags: c_int) -> Outcome {
    // A receive is a cancellation point, also where it need not wait; it takes nothing then. No caller has anything to
    // drop, so the unwinding may pass.
    // SAFETY: no arguments.
    unsafe { super::pthread_testcancel() };
    let entry = fdtable::settled(fd);
    let Some(i) = fdtable::conn_of(entry) else { return Outcome::Kernel };
    let Some(family) = state::family() else { return Outcome::Kernel };
    let c = Channel::new(family, fd, i);
    if flags & !libc::MSG_DONTWAIT == 0 && w.left() > 0 && !w.is_bad() {
        if let Some(n) = c.quick_receive(entry, w) {
            return Outcome::Done(Ok(n));
        }
    }
    slow(fd, w, flags)
}

#[cold]
#[inline(never)]
fn slow(fd: c_int, w: &mut Walk, flags: c_int) -> Outcome {
    super::inside_of(fd, w, |c, inside, w| within(c, inside, w, flags))
}

fn within(c: Channel, inside: Inside, w: &mut Walk, flags: c_int) -> Outcome {
    let stage = match c.stage_of_call() {
        Stage::Accepted => c.settled_stage(),
        Stage::Live if c.ends_leave() => Stage::Plain,
        stage => stage,
    };
    match stage {
        Stage::Unused => return Outcome::Kernel,
        Stage::Plain => return c.stays(inside),
        Stage::Candidate | Stage::Offered => {
            // Counted, then asked again: the thread that moves the stage counts after it (candidate.rs), and so does one that
            // puts another connection at the number.
            c.rx_flight.fetch_add(1, Ordering::SeqCst);
            let stage = c.settled_stage();
            let same = inside.stands(c.fd);
            if same && matches!(stage, Stage::Plain | Stage::Candidate | Stage::Offered) {
                return Outcome::Counted(&c.conn.rx_flight, inside);
            }
            c.rx_flight.fetch_sub(1, Ordering::SeqCst);
            if !same {
                return Outcome::Again;
            }
            if stage == Stage::Unused {
                return Outcome::Kernel;
            }
        }
        Stage::Accepted | Stage::Live => {}
    }
    if flags & (libc::MSG_OOB | libc::MSG_ERRQUEUE) != 0 {
        // Out-of-band bytes and error queues are the kernel's.
        return Outcome::Kernel;
    }
    if w.is_refused() {
        return Outcome::Done(Err(libc::EFAULT));
    }
    // One of no bytes is not to begin a wait anew.
    let more = usize::from(w.left() > 0);
    let sleep = |fd, there| {
        let mut byte = 0u8;
        // MSG_TRUNC: on TCP nothing is copied, whatever the length.
        let all = if there > 0 { libc::MSG_WAITALL | libc::MSG_TRUNC } else { 0 };
        let flags = libc::MSG_PEEK | all;
        // SAFETY: one byte, or none; libc's own function, so that a cancelled thread unwinds from here.
        took(unsafe { real::recv()(fd, (&raw mut byte).cast(), there + more, flags) })
    };
    Outcome::Done(match w.is_bad() && flags & libc::MSG_TRUNC == 0 {
        true => c.receive_nowhere(&inside, flags, &sleep),
        false => c.receive(&inside, w, flags, &sleep),
    })
}

/// read(2).
///
/// # Safety
///
/// As for the call it replaces.
#[inline(always)]
pub unsafe fn read(fd: c_int, buf: *mut c_void, n: size_t) -> ssize_t {
    // SAFETY: the program's arguments, as they came.
    let real = || unsafe { real::read()(fd, buf, n) };
    // Unlike recv, read of nothing returns at once, and so does one of no length.
    if fdtable::conn(fd).is_none() || n == 0 || is_no_length(n) {
        return real();
    }
    let mut w = Walk::one(buf.cast(), n);
    receive(fd, &mut w, 0).go(real)
}

/// recv(2).
///
/// # Safety
///
/// As for the call it replaces.
#[inline(always)]
pub unsafe fn recv(fd: c_int, buf: *mut c_void, n: size_t, flags: c_int) -> ssize_t {
    // SAFETY: the program's arguments, as they came.
    let real = || unsafe { real::recv()(fd, buf, n, flags) };
    if fdtable::conn(fd).is_none() {
        return real();
    }
    let mut w = Walk::one(buf.cast(), n);
    receive(fd, &mut w, flags).go(real)
}

/// recvfrom(2). A TCP socket fills in no address.
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn recvfrom(
    fd: c_int,
    buf: *mut c_void,
    n: size_t,
    flags: c_int,
    from: *mut sockaddr,
    len: *mut socklen_t,
) -> ssize_t {
    // SAFETY: the program's arguments, as they came.
    let real = move || unsafe { real::recvfrom()(fd, buf, n, flags, from, len) };
    if fdtable::conn(fd).is_none() {
        return real();
    }
    let mut w = Walk::one(buf.cast(), n);
    let outcome = receive(fd, &mut w, flags);
    if let (Outcome::Done(Ok(_)), false) = (&outcome, from.is_null() || len.is_null()) {
        // SAFETY: the program gave it for being written.
        unsafe { *len = 0 };
    }
    outcome.go(real)
}

/// recvmsg(2). A TCP socket fills in neither address nor control data (timestamps are not served).
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn recvmsg(fd: c_int, msg: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the program's arguments, as they came.
    let real = move || unsafe { real::recvmsg()(fd, msg, flags) };
    if fdtable::conn(fd).is_none() || nowhere(msg) {
        return real();
    }
    // SAFETY: the program's message header.
    let m = unsafe { &mut *msg };
    // SAFETY: the program's scatter list.
    let mut w = match unsafe { Walk::list(m.msg_iov, m.msg_iovlen) } {
        Ok(w) => w,
        Err(e) => return fail(e),
    };
    let outcome = receive(fd, &mut w, flags);
    answered(fd, m, matches!(outcome, Outcome::Done(Ok(_))), flags);
    outcome.go(real)
}

/// recvmmsg(2): message by message.
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn recvmmsg(fd: c_int, v: *mut mmsghdr, n: c_uint, flags: c_int, timeout: *mut timespec) -> c_int {
    // SAFETY: no arguments.
    unsafe { super::pthread_testcancel() };
    let frame = 0u8;
    // One call, and one open file: whatever becomes of the number between two messages.
    let (Some(family), Some(inside)) = (state::family(), Inside::enter(fd, &frame)) else {
        // SAFETY: the program's arguments.
        return unsafe { real::recvmmsg()(fd, v, n, flags, timeout) };
    };
    // SAFETY: the program's arguments.
    let done = unsafe { messages(family, inside, v, n, flags, timeout) };
    inside.leave();
    done
}

/// [`recvmmsg`] on a connection.
///
/// # Safety
///
/// As for the call it replaces.
unsafe fn messages(
    family: Family,
    at: Inside,
    v: *mut mmsghdr,
    n: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> c_int {
    let until = match Deadline::of(timeout) {
        Ok(until) => until,
        Err(e) => return fail(e) as c_int,
    };
    // Unlike any other receive, this one is told of an error before it looks for bytes.
    if let Some(e) = Channel::new(family, at.fd(), at.conn()).pending_error() {
        return fail(e) as c_int;
    }
    if n > 0 && nowhere(v) {
        return fail(libc::EFAULT) as c_int;
    }
    let mut done = 0;
    for i in 0..n as usize {
        let wait = if done > 0 && flags & libc::MSG_WAITFORONE != 0 { libc::MSG_DONTWAIT } else { 0 };
        // SAFETY: below n.
        let m = unsafe { &mut *v.add(i) };
        // SAFETY: the program's message.
        let got = unsafe { message(family, at, &mut m.msg_hdr, (flags & !libc::MSG_WAITFORONE) | wait) };
        if got < 0 {
            Channel::new(family, at.fd(), at.conn()).keep_error(done as usize);
            return if done > 0 { done } else { -1 };
        }
        // At the end of the stream every message has no bytes, and is one.
        m.msg_len = got as c_uint;
        done += 1;
        // SAFETY: the program's time limit, or null.
        if unsafe { until.is_over(timeout) } {
            break;
        }
    }
    done
}

impl Channel {
    /// An error behind messages that were received: the next call is told, but for those that say "not now".
    pub(super) fn keep_error(&self, done: usize) {
        let e = super::errno();
        if done > 0 && !matches!(e, libc::EAGAIN | libc::EINTR) {
            self.is_told_next(e);
        }
    }

    /// The error that the connection has to tell, which is told by this.
    fn pending_error(&self) -> Option<i32> {
        let of_kernel =
            || raw::getsockopt_int(self.fd, libc::SOL_SOCKET, libc::SO_ERROR).ok().filter(|&e| e > 0);
        if self.error.load(Ordering::Relaxed) == 0 {
            if let Some(e) = of_kernel() {
                self.was_told(e);
                return Some(e);
            }
        }
        Some(self.take_error()).filter(|&e| e != 0)
    }
}

/// One message of [`recvmmsg`]: a recvmsg on an open file, whose number may have changed.
///
/// # Safety
///
/// As for recvmsg(2).
unsafe fn message(family: Family, at: Inside, m: &mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the program's arguments, as they came.
    let real = |m: *mut msghdr| unsafe { real::recvmsg()(at.fd(), m, flags) };
    // SAFETY: the program's scatter list.
    let mut w = match unsafe { Walk::list(m.msg_iov, m.msg_iovlen) } {
        Ok(w) => w,
        Err(e) => return fail(e),
    };
    match within(Channel::new(family, at.fd(), at.conn()), at, &mut w, flags) {
        Outcome::Done(result) => {
            answered(at.fd(), m, result.is_ok(), flags);
            super::give(result)
        }
        Outcome::Kernel | Outcome::Noted(_) => real(m),
        // SAFETY: as this call.
        Outcome::Again => unsafe { message(family, at, m, flags) },
        Outcome::Counted(flight, _) => {
            let n = real(m);
            flight.fetch_sub(1, Ordering::SeqCst);
            n
        }
    }
}

/// A receive into memory of ours that is part of a call on an open file, whose number may have changed.
pub(super) fn piece(family: Family, at: Inside, buf: &mut [u8], flags: c_int) -> ssize_t {
    let (fd, p, n) = (at.fd(), buf.as_mut_ptr(), buf.len());
    // SAFETY: the buffer.
    let real = || unsafe { real::recv()(fd, p.cast(), n, flags) };
    let (mut w, entry, c) = (Walk::one(p, n), fdtable::word(fd), Channel::new(family, fd, at.conn()));
    if flags & !libc::MSG_DONTWAIT == 0 && at.is(entry) {
        if let Some(n) = c.quick_receive(entry, &mut w) {
            return n as ssize_t;
        }
    }
    match within(c, at, &mut w, flags) {
        Outcome::Done(result) => super::give(result),
        Outcome::Kernel | Outcome::Noted(_) => real(),
        Outcome::Again => piece(family, at, buf, flags),
        Outcome::Counted(flight, _) => {
            let n = real();
            flight.fetch_sub(1, Ordering::SeqCst);
            n
        }
    }
}

/// What a message header says after a receive from a channel.
fn answered(fd: c_int, m: &mut msghdr, received: bool, flags: c_int) {
    if !received {
        return;
    }
    if !m.msg_name.is_null() {
        m.msg_namelen = 0;
    }
    m.msg_flags = flags & libc::MSG_CMSG_CLOEXEC;
    let conn = Channel::of(fd);
    let left = conn.filter(|c| c.has(Conn::INQ)).and_then(|c| briefly(|| c.readable_bytes()).ok());
    match left {
        Some(left) => tell(m, left.min(c_int::MAX as usize) as c_int),
        None => m.msg_controllen = 0,
    }
}

/// TCP_INQ: a control message with what is left, if there is room for it.
#[cold]
fn tell(m: &mut msghdr, left: c_int) {
    // SAFETY: arithmetic.
    let (len, space) = unsafe { (libc::CMSG_LEN(4) as usize, libc::CMSG_SPACE(4) as usize) };
    let room = if m.msg_control.is_null() { 0 } else { m.msg_controllen };
    if room < len {
        m.msg_flags |= libc::MSG_CTRUNC;
        m.msg_controllen = 0;
        return;
    }
    let header = libc::cmsghdr { cmsg_len: len, cmsg_level: libc::IPPROTO_TCP, cmsg_type: libc::TCP_CM_INQ };
    // SAFETY: the program's control buffer has room for both, aligned or not.
    unsafe {
        m.msg_control.cast::<libc::cmsghdr>().write_unaligned(header);
        m.msg_control.byte_add(libc::CMSG_LEN(0) as usize).cast::<c_int>().write_unaligned(left);
    }
    m.msg_controllen = room.min(space);
}

/// When recvmmsg stops: asked after each message only, as the kernel does.
struct Deadline(Option<u64>);

impl Deadline {
    fn of(timeout: *const timespec) -> Result<Deadline, i32> {
        if timeout.is_null() {
            return Ok(Deadline(None));
        }
        if nowhere(timeout) {
            return Err(libc::EFAULT);
        }
        // SAFETY: the program's time limit.
        let t = unsafe { timeout.read() };
        if t.tv_sec < 0 || !(0..1_000_000_000).contains(&t.tv_nsec) {
            return Err(libc::EINVAL);
        }
        let ns = (t.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(t.tv_nsec as u64);
        Ok(Deadline(Some(state::now().saturating_add(ns))))
    }

    /// Says in `timeout` what is left.
    ///
    /// # Safety
    ///
    /// `timeout` is what this was made of.
    unsafe fn is_over(&self, timeout: *mut timespec) -> bool {
        let Some(until) = self.0 else { return false };
        let left = until.saturating_sub(state::now());
        let left_spec =
            timespec { tv_sec: (left / 1_000_000_000) as _, tv_nsec: (left % 1_000_000_000) as _ };
        // SAFETY: the caller's promise; it is not null, or there was no limit.
        unsafe { timeout.write(left_spec) };
        left == 0
    }
}

/// readv(2).
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn readv(fd: c_int, iov: *const iovec, n: c_int) -> ssize_t {
    // SAFETY: the program's arguments, as they came.
    unsafe { scatter(fd, iov, n, 0, || real::readv()(fd, iov, n)) }
}

/// A scattered receive, or `real` where the kernel has it all.
///
/// # Safety
///
/// `iov` is the program's list of `n` pieces.
unsafe fn scatter(
    fd: c_int,
    iov: *const iovec,
    n: c_int,
    flags: c_int,
    real: impl Fn() -> ssize_t,
) -> ssize_t {
    if fdtable::conn(fd).is_none() || n <= 0 {
        return real();
    }
    // SAFETY: the program's scatter list.
    let Ok(mut w) = (unsafe { Walk::list(iov, n as usize) }) else { return fail(libc::EINVAL) };
    // Unlike recvmsg, readv of nothing returns at once.
    if w.left() == 0 && !w.is_bad() {
        return real();
    }
    receive(fd, &mut w, flags).go(real)
}

/// What -D_FORTIFY_SOURCE makes of read: glibc's own check ends the program.
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn read_chk(fd: c_int, buf: *mut c_void, n: size_t, room: size_t) -> ssize_t {
    if n > room || fdtable::conn(fd).is_none() {
        // SAFETY: the program's arguments.
        return unsafe { real::__read_chk()(fd, buf, n, room) };
    }
    // SAFETY: the program's arguments.
    unsafe { read(fd, buf, n) }
}

/// The same of recv.
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn recv_chk(fd: c_int, buf: *mut c_void, n: size_t, room: size_t, flags: c_int) -> ssize_t {
    if n > room || fdtable::conn(fd).is_none() {
        // SAFETY: the program's arguments.
        return unsafe { real::__recv_chk()(fd, buf, n, room, flags) };
    }
    // SAFETY: the program's arguments.
    unsafe { recv(fd, buf, n, flags) }
}

/// The same of recvfrom.
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn recvfrom_chk(
    fd: c_int,
    buf: *mut c_void,
    n: size_t,
    room: size_t,
    flags: c_int,
    from: *mut sockaddr,
    len: *mut socklen_t,
) -> ssize_t {
    if n > room || fdtable::conn(fd).is_none() {
        // SAFETY: the program's arguments.
        return unsafe { real::__recvfrom_chk()(fd, buf, n, room, flags, from, len) };
    }
    // SAFETY: the program's arguments.
    unsafe { recvfrom(fd, buf, n, flags, from, len) }
}

/// preadv2(2): with offset -1 it is a plain readv, with flags.
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn preadv2(fd: c_int, iov: *const iovec, n: c_int, at: i64, flags: c_int) -> ssize_t {
    // SAFETY: the program's arguments, as they came.
    let real = || unsafe { real::preadv2()(fd, iov, n, at, flags) };
    if at != -1 {
        return real();
    }
    // SAFETY: the program's scatter list.
    unsafe { scatter(fd, iov, n, if flags & RWF_NOWAIT != 0 { libc::MSG_DONTWAIT } else { 0 }, real) }
}

#[cfg(test)]
mod tests;
