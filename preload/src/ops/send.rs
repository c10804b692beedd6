//! write, send and their kin.

use core::ffi::{c_int, c_uint, c_void};
use core::sync::atomic::Ordering;

use dp_channel::family::{Family, Reason, Stage};
use dp_edge::sys::raw;
use libc::{iovec, mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t};

use super::{fail, took, Outcome, RWF_NOWAIT};
use crate::channel::Channel;
use crate::inside::Inside;
use crate::real;
use crate::walk::{is_no_length, nowhere, Walk};
use crate::{fdtable, leave, state, tx};

#[inline(always)]
fn transmit(fd: c_int, w: &mut Walk, flags: c_int) -> Outcome {
    // As every receive: a cancellation point, also where it need not wait.
    // SAFETY: no arguments; no caller has anything to drop.
    unsafe { super::pthread_testcancel() };
    let entry = fdtable::settled(fd);
    let (Some(family), Some(i)) = (state::family(), fdtable::conn_of(entry)) else { return Outcome::Kernel };
    let c = Channel::new(family, fd, i);
    if flags & !tx::FLAGS == 0 && !w.is_bad() {
        if let Some(n) = c.quick_send(entry, w) {
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
    if flags & libc::MSG_OOB != 0 && c.stage() != Stage::Live {
        // FIONREAD ends at an urgent byte, so the other side could not tell where its stream stands when it agrees.
        leave::leave_and_read(c.fd, Reason::Option);
    }
    c.outcome_of_send(inside).unwrap_or_else(|| {
        let send =
            |w: &mut Walk, flags| c.send(&inside, w, flags, |w, flags| c.rest_by_kernel(&inside, w, flags));
        Outcome::Done(match w.is_bad() {
            true if w.is_refused() => Err(libc::EFAULT),
            // The connection's end or error is told before that.
            true => {
                send(&mut Walk::one(core::ptr::null_mut(), 0), flags & !libc::MSG_OOB).and(Err(libc::EFAULT))
            }
            false => send(w, flags),
        })
    })
}

impl Channel {
    /// What to do where the channel is not live; `None` where it is.
    fn outcome_of_send(&self, inside: Inside) -> Option<Outcome> {
        match self.stage_of_call() {
            Stage::Unused => Some(Outcome::Kernel),
            Stage::Plain => Some(self.stays(inside)),
            Stage::Live => None,
            _ => {
                // Counted, then asked again: another thread may have gone live, and switched, meanwhile, or have put another
                // connection at the number.
                self.tx_flight.fetch_add(1, Ordering::SeqCst);
                let same = inside.stands(self.fd);
                if same && self.stage() != Stage::Live {
                    return Some(Outcome::Counted(&self.conn.tx_flight, inside));
                }
                self.tx_flight.fetch_sub(1, Ordering::SeqCst);
                (!same).then_some(Outcome::Again)
            }
        }
    }
}

/// A call whose bytes only the kernel can move to `fd`, by the number that it is given.
pub fn by_kernel(fd: c_int, real: impl Fn(c_int) -> ssize_t) -> ssize_t {
    let call = |c: Channel, inside, _: &mut u8| {
        let live = || Outcome::Done(c.send_by_kernel(&inside, |fd| took(real(fd))));
        c.outcome_of_send(inside).unwrap_or_else(live)
    };
    super::inside_of(fd, &mut 0, call).go(|| real(fd))
}

/// No SIGPIPE from a call that has sent something.
fn quiet(sent: usize) -> c_int {
    if sent > 0 {
        libc::MSG_NOSIGNAL
    } else {
        0
    }
}

impl Channel {
    /// What is left goes to the kernel, in libc's own function: a cancellation point, and SIGPIPE as ever. What cannot wait is
    /// sent under the sender's lock, where nobody is to be cancelled.
    fn rest_by_kernel(&self, at: &Inside, w: &Walk, flags: c_int) -> Result<usize, i32> {
        let mut pieces = [iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }; 32];
        let mut w = *w;
        let mut sum = 0;
        loop {
            // The program's own list where that is longer: one call has the socket to itself, and two have not.
            let (list, n, asked) =
                w.whole_pieces().filter(|list| list.1 > pieces.len()).unwrap_or_else(|| {
                    let list = w.fill_list(&mut pieces, usize::MAX);
                    (list.as_ptr(), list.len(), list.iter().map(|p| p.iov_len).sum())
                });
            // SAFETY: plain data.
            let mut msg: msghdr = unsafe { core::mem::zeroed() };
            msg.msg_iov = list.cast_mut();
            msg.msg_iovlen = n as _;
            let (fd, flags) = (at.fd(), flags | quiet(sum));
            // SAFETY: the list covers the program's own buffers.
            let sent = unsafe {
                if flags & libc::MSG_DONTWAIT != 0 {
                    raw::sendmsg(fd, &msg, flags)
                } else {
                    took(real::sendmsg()(fd, &msg, flags))
                }
            };
            match sent {
                Ok(n) => {
                    sum += n;
                    w.skip(n);
                    if n < asked || w.left() == 0 {
                        return Ok(sum);
                    }
                }
                Err(e) if sum > 0 => {
                    self.keep_error_of_send(e);
                    return Ok(sum);
                }
                Err(e) => return Err(e),
            }
        }
    }
}

/// write(2).
///
/// # Safety
///
/// As for the call it replaces.
#[inline(always)]
pub unsafe fn write(fd: c_int, buf: *const c_void, n: size_t) -> ssize_t {
    // SAFETY: the program's arguments, as they came.
    let real = || unsafe { real::write()(fd, buf, n) };
    // Unlike send, write does not take what it can of no length.
    if fdtable::conn(fd).is_none() || is_no_length(n) {
        return real();
    }
    let mut w = Walk::one(buf.cast_mut().cast(), n);
    transmit(fd, &mut w, 0).go(real)
}

/// send(2).
///
/// # Safety
///
/// As for the call it replaces.
#[inline(always)]
pub unsafe fn send(fd: c_int, buf: *const c_void, n: size_t, flags: c_int) -> ssize_t {
    // SAFETY: the program's arguments, as they came.
    let real = || unsafe { real::send()(fd, buf, n, flags) };
    if fdtable::conn(fd).is_none() {
        return real();
    }
    let mut w = Walk::one(buf.cast_mut().cast(), n);
    transmit(fd, &mut w, flags).go(real)
}

/// sendto(2). On a connected TCP socket the address is ignored.
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn sendto(
    fd: c_int,
    buf: *const c_void,
    n: size_t,
    flags: c_int,
    to: *const sockaddr,
    len: socklen_t,
) -> ssize_t {
    // SAFETY: the program's arguments, as they came.
    let real = || unsafe { real::sendto()(fd, buf, n, flags, to, len) };
    if fdtable::conn(fd).is_none() || flags & libc::MSG_FASTOPEN != 0 {
        return real();
    }
    let mut w = Walk::one(buf.cast_mut().cast(), n);
    transmit(fd, &mut w, flags).go(real)
}

/// sendmsg(2). On an AF_UNIX socket it may carry descriptors of ours away (see [`super::leave`]).
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn sendmsg(fd: c_int, msg: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the program's arguments, as they came, or a copy of them.
    let real = |msg| unsafe { real::sendmsg()(fd, msg, flags) };
    if nowhere(msg) {
        return real(msg);
    }
    // SAFETY: the program's message header.
    let m = unsafe { &*msg };
    // Control data means nothing to a channel, and little to TCP: the bytes go the channel's way.
    if fdtable::conn(fd).is_none() {
        // SAFETY: the program's message header.
        return unsafe {
            if super::leave::passes(m) {
                super::leave::passing(m, real)
            } else {
                real(msg)
            }
        };
    }
    // SAFETY: the program's scatter list.
    let mut w = match unsafe { Walk::list(m.msg_iov, m.msg_iovlen) } {
        Ok(w) => w,
        Err(e) => return fail(e),
    };
    transmit(fd, &mut w, flags).go(|| real(msg))
}

/// sendmmsg(2): message by message.
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn sendmmsg(fd: c_int, v: *mut mmsghdr, n: c_uint, flags: c_int) -> c_int {
    // SAFETY: below n; the program's messages.
    let passes = |i: c_uint| unsafe { super::leave::passes(&(*v.add(i as usize)).msg_hdr) };
    if fdtable::conn(fd).is_none() && (nowhere(v) || !(0..n.min(1024)).any(passes)) {
        // SAFETY: the program's arguments.
        return unsafe { real::sendmmsg()(fd, v, n, flags) };
    }
    let frame = 0u8;
    // One call, and one open file: whatever becomes of the number between two messages.
    let inside = Inside::enter(fd, &frame);
    // SAFETY: the program's arguments.
    let done = unsafe { messages(inside, fd, v, n, flags) };
    if let Some(inside) = inside {
        inside.leave();
    }
    done
}

/// [`sendmmsg`], on a connection, or with descriptors among the messages.
///
/// # Safety
///
/// As for the call it replaces.
unsafe fn messages(at: Option<Inside>, fd: c_int, v: *mut mmsghdr, n: c_uint, flags: c_int) -> c_int {
    let mut done = 0;
    if n > 0 && nowhere(v) {
        return fail(libc::EFAULT) as c_int;
    }
    // The kernel takes no more than that at a time.
    for i in 0..(n as usize).min(libc::UIO_MAXIOV as usize) {
        // SAFETY: below n.
        let m = unsafe { &mut *v.add(i) };
        let sent = match (state::family(), at) {
            // SAFETY: the program's message.
            (Some(family), Some(at)) => unsafe { message(family, at, &m.msg_hdr, flags) },
            // SAFETY: the program's message.
            _ => unsafe { sendmsg(fd, &m.msg_hdr, flags) },
        };
        if sent < 0 {
            return if done > 0 { done } else { -1 };
        }
        m.msg_len = sent as c_uint;
        done += 1;
        // SAFETY: the scatter list of a message that was sent.
        let whole = unsafe { Walk::list(m.msg_hdr.msg_iov, m.msg_hdr.msg_iovlen) }.map_or(0, |w| w.left());
        // Nothing may follow one that went out in part, or its rest would be missing.
        if (sent as usize) < whole {
            break;
        }
    }
    done
}

/// One message of [`sendmmsg`]: a sendmsg on an open file, whose number may have changed.
///
/// # Safety
///
/// As for sendmsg(2).
unsafe fn message(family: Family, at: Inside, m: &msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the program's scatter list.
    match unsafe { Walk::list(m.msg_iov, m.msg_iovlen) } {
        // SAFETY: the program's arguments, as they came.
        Ok(mut w) => on_file(family, at, &mut w, flags, &|fd| unsafe { real::sendmsg()(fd, m, flags) }),
        Err(e) => fail(e),
    }
}

/// Bytes of ours that are part of a call on an open file, whose number may have changed.
pub(super) fn piece(family: Family, at: Inside, bytes: &[u8], flags: c_int) -> ssize_t {
    let mut w = Walk::one(bytes.as_ptr().cast_mut(), bytes.len());
    // SAFETY: the bytes.
    on_file(family, at, &mut w, flags, &|fd| unsafe {
        real::send()(fd, bytes.as_ptr().cast(), bytes.len(), flags)
    })
}

/// A send on an open file; `real` is the kernel's, by the number that it is given.
fn on_file(
    family: Family,
    at: Inside,
    w: &mut Walk,
    flags: c_int,
    real: &dyn Fn(c_int) -> ssize_t,
) -> ssize_t {
    let fd = at.fd();
    let (entry, c) = (fdtable::word(fd), Channel::new(family, fd, at.conn()));
    if flags & !tx::FLAGS == 0 && at.is(entry) && !w.is_bad() {
        if let Some(n) = c.quick_send(entry, w) {
            return n as ssize_t;
        }
    }
    match within(c, at, w, flags) {
        Outcome::Done(result) => super::give(result),
        Outcome::Kernel | Outcome::Noted(_) => real(fd),
        Outcome::Again => on_file(family, at, w, flags, real),
        Outcome::Counted(flight, _) => {
            let n = real(fd);
            flight.fetch_sub(1, Ordering::SeqCst);
            n
        }
    }
}

/// writev(2).
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn writev(fd: c_int, iov: *const iovec, n: c_int) -> ssize_t {
    // SAFETY: the program's arguments, as they came.
    unsafe { gather(fd, iov, n, 0, || real::writev()(fd, iov, n)) }
}

/// A gathered send, or `real` where the kernel has it all.
///
/// # Safety
///
/// `iov` is the program's list of `n` pieces.
unsafe fn gather(
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
    // Unlike sendmsg, writev of nothing does not even look at the connection.
    if w.left() == 0 && !w.is_bad() {
        return real();
    }
    transmit(fd, &mut w, flags).go(real)
}

/// pwritev2(2): with offset -1 it is a plain writev, with flags.
///
/// # Safety
///
/// As for the call it replaces.
pub unsafe fn pwritev2(fd: c_int, iov: *const iovec, n: c_int, at: i64, flags: c_int) -> ssize_t {
    // SAFETY: the program's arguments, as they came.
    let real = || unsafe { real::pwritev2()(fd, iov, n, at, flags) };
    if at != -1 {
        return real();
    }
    // SAFETY: the program's scatter list.
    unsafe { gather(fd, iov, n, if flags & RWF_NOWAIT != 0 { libc::MSG_DONTWAIT } else { 0 }, real) }
}
