//! Messages in pieces, and what goes beside them: dp_writev(3), dp_sendmsg(3), dp_immediate(3).

use std::ffi::{c_char, c_int, c_uint, CStr};
use std::io::IoSlice;
use std::mem::offset_of;
use std::slice;

use dpfd::driver::user::endpoint::MAX_MESSAGE;
use dpfd::driver::Step;
use dpfd::edge::parts::MOST_PIECES;
use dpfd::endpoint::wait;
use dpfd::{Addr, Error, Parts};
use libc::{iovec, ssize_t};

use crate::calls::{address, send_steps, sent, Sent, PATIENCE};
use crate::fault::{fail, Fault, Res};
use crate::foreign::Foreign;
use crate::table::{self, Direction, Use};
use crate::thread;

/// See dp_sendmsg(3).
#[repr(C)]
pub struct Msg {
    size: usize,
    iov: *const iovec,
    iovcnt: c_int,
    flags: c_uint,
    nid: c_int,
    dpid: c_int,
    immediate: u64,
    route: *const c_char,
}

/// The smallest that was ever released.
const FIRST_MSG: usize = offset_of!(Msg, route);

const MSG_IMMEDIATE: c_uint = 1;
const MSG_TO: c_uint = 2;
const MSG_ROUTE: c_uint = 4;

/// The arguments of one call.
#[derive(Clone, Copy)]
struct Call<'a> {
    fd: c_int,
    to: Option<(c_int, c_int)>,
    immediate: Option<u64>,
    route: Option<&'a str>,
}

/// See dp_writev(3).
///
/// # Safety
///
/// `iov` has `iovcnt` pieces, each readable for its length.
#[no_mangle]
pub unsafe extern "C-unwind" fn dp_writev(fd: c_int, iov: *const iovec, iovcnt: c_int) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { send(Call { fd, to: None, immediate: None, route: None }, iov, iovcnt) }
}

/// See dp_sendmsg(3).
///
/// # Safety
///
/// `msg` is NULL, or readable for the size that it says; its pieces as those of [`dp_writev`]; its route, if it has one, is NULL or
/// a text that ends with a NUL.
#[no_mangle]
pub unsafe extern "C-unwind" fn dp_sendmsg(fd: c_int, msg: *const Msg) -> ssize_t {
    if msg.is_null() {
        return fail(Fault::Null("the message")) as ssize_t;
    }
    // SAFETY: the caller's promise; the rest is read only where it is as long as that.
    let size = unsafe { (*msg).size };
    if size < FIRST_MSG {
        return fail(Fault::MsgSize(size)) as ssize_t;
    }
    // SAFETY: as above, for the fields that there were from the first.
    let (iov, iovcnt, flags) = unsafe { ((*msg).iov, (*msg).iovcnt, (*msg).flags) };
    // SAFETY: as above.
    let (nid, dpid, immediate) = unsafe { ((*msg).nid, (*msg).dpid, (*msg).immediate) };
    if flags & !(MSG_IMMEDIATE | MSG_TO | MSG_ROUTE) != 0 {
        return fail(Fault::MsgFlags(flags)) as ssize_t;
    }
    let mut route = None;
    if flags & MSG_ROUTE != 0 {
        if size < size_of::<Msg>() {
            return fail(Fault::MsgSize(size)) as ssize_t;
        }
        // SAFETY: as above; it is that long.
        let name = unsafe { (*msg).route };
        if name.is_null() {
            return fail(Fault::Null("the name of the route")) as ssize_t;
        }
        // SAFETY: the caller's promise. Text that is none is no route's name.
        route = Some(unsafe { CStr::from_ptr(name) }.to_str().unwrap_or("?"));
    }
    let to = (flags & MSG_TO != 0).then_some((nid, dpid));
    let immediate = (flags & MSG_IMMEDIATE != 0).then_some(immediate);
    // SAFETY: the caller's promise.
    unsafe { send(Call { fd, to, immediate, route }, iov, iovcnt) }
}

/// See dp_immediate(3).
///
/// # Safety
///
/// `immediate` is NULL, or a number can be written there.
#[no_mangle]
pub unsafe extern "C" fn dp_immediate(fd: c_int, immediate: *mut u64) -> c_int {
    // A process that was given the endpoint reads plainly, and sees no immediate.
    let last = || table::on(fd, Direction::In, |own| Ok(own.immediate()), |_| Ok(None));
    let Ok(last) = thread::guarded(last) else { return -1 };
    // SAFETY: the caller's promise; NULL is left alone.
    if let (Some(last), Some(to)) = (last, unsafe { immediate.as_mut() }) {
        *to = last;
    }
    c_int::from(last.is_some())
}

/// # Safety
///
/// As [`dp_writev`].
unsafe fn send(call: Call<'_>, iov: *const iovec, iovcnt: c_int) -> ssize_t {
    let Ok(count) = usize::try_from(iovcnt) else { return fail(Fault::MsgPieces(iovcnt)) as ssize_t };
    if count > MOST_PIECES {
        return fail(Error::TooManyPieces { count, limit: MOST_PIECES }.into()) as ssize_t;
    }
    if count == 0 {
        return send_pieces(call, &[]);
    }
    if iov.is_null() {
        return fail(Fault::Null("the list of pieces")) as ssize_t;
    }
    // SAFETY: the caller's promise.
    let pieces = unsafe { slice::from_raw_parts(iov, count) };
    if pieces.iter().any(|piece| piece.iov_base.is_null() && piece.iov_len > 0) {
        return fail(Fault::Null("a piece of the message")) as ssize_t;
    }
    let len = pieces.iter().fold(0usize, |sum, piece| sum.saturating_add(piece.iov_len));
    if len > MAX_MESSAGE {
        return fail(Error::TooLong { len, to: Addr::default(), limit: MAX_MESSAGE }.into()) as ssize_t;
    }
    if pieces.iter().any(|piece| piece.iov_base.is_null()) {
        // SAFETY: as above.
        return unsafe { send_with_gaps(call, pieces) };
    }
    // SAFETY: IoSlice is iovec by its documentation; each names as many readable bytes by the caller's promise.
    send_pieces(call, unsafe { slice::from_raw_parts(iov.cast::<IoSlice<'_>>(), count) })
}

/// The same, where pieces of no bytes have no address either, which no slice may have. On the stack: a thread that is
/// cancelled in the call runs no destructor.
///
/// # Safety
///
/// As [`dp_writev`].
#[inline(never)]
unsafe fn send_with_gaps(call: Call<'_>, pieces: &[iovec]) -> ssize_t {
    let mut slices = [IoSlice::new(&[]); MOST_PIECES];
    for (slice, piece) in slices.iter_mut().zip(pieces).filter(|(_, piece)| !piece.iov_base.is_null()) {
        // SAFETY: the caller's promise.
        *slice = IoSlice::new(unsafe { slice::from_raw_parts(piece.iov_base.cast(), piece.iov_len) });
    }
    send_pieces(call, &slices[..pieces.len().min(MOST_PIECES)])
}

fn send_step(call: Call<'_>, message: Parts<'_>) -> Res<Step<Sent>> {
    let Call { fd, to, immediate, route } = call;
    let ours = |own: &Use| {
        let to = to.map(|(nid, dpid)| address(nid, dpid)).transpose()?;
        sent(fd, wait::send_parts(own, PATIENCE, fd, to, message))
    };
    let theirs = |foreign: &Foreign| match (to, immediate, route) {
        (None, None, None) => Ok(Step::Done(Sent::Plainly(foreign.descriptor))),
        _ => Err(Fault::OnlyOpener(fd)),
    };
    table::on(fd, Direction::Out, ours, theirs)
}

fn send_pieces(call: Call<'_>, pieces: &[IoSlice<'_>]) -> ssize_t {
    let parts = Parts::new(pieces);
    let message = call.immediate.map_or(parts, |immediate| parts.with_immediate(immediate));
    let message = call.route.map_or(message, |route| message.by_route(route));
    let done = match send_steps(|| send_step(call, message)) {
        Some(Sent::Done) => true,
        Some(Sent::Plainly(what)) => {
            thread::send_pieces_plainly(call.fd, what, pieces, message.len()).is_ok()
        }
        None => false,
    };
    if done {
        message.len() as ssize_t
    } else {
        -1
    }
}
