//! Opening, sending, receiving, closing. What they do is in section 3 of the manual; `dp.h` has it in short.

use std::ffi::{c_char, c_int, c_void};
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::slice;
use std::time::Duration;

use dp_edge::sys::raw;
use dpfd::driver::user::endpoint::MAX_MESSAGE;
use dpfd::driver::{self, Sleep, Step};
use dpfd::endpoint::wait;
use dpfd::{Addr, Dpid, Error, Nid};
use libc::ssize_t;

use crate::fault::{fail, Fault, Res};
use crate::foreign::{Descriptor, Foreign};
use crate::table::{self, Direction, Use};
use crate::thread;

/// How long a sender waits before it looks whether its thread was cancelled.
pub(crate) const PATIENCE: Duration = Duration::from_millis(100);

/// An int that must be a DPID.
fn dpid(number: c_int) -> Result<Dpid, Error> {
    Dpid::try_from(number).map_err(|_| Error::BadDpid(number.into()))
}

/// Where to: a NID and a DPID.
pub(crate) fn address(nid: c_int, number: c_int) -> Result<Addr, Error> {
    let nid = Nid::try_from(nid).map_err(|_| Error::BadNid(nid.into()))?;
    Ok(Addr { nid, dpid: dpid(number)? })
}

/// See dp_open(3).
#[no_mangle]
pub extern "C" fn dp_open(number: c_int) -> c_int {
    let open = || {
        let (fd, served) = driver::open(None, dpid(number)?)?;
        // As open(2) does; a Rust program's descriptors do not outlive an exec.
        raw::fcntl(fd.as_raw_fd(), libc::F_SETFD, 0).map_err(|e| Fault::system("fcntl", e))?;
        table::enter(fd, served)
    };
    thread::guarded(open).unwrap_or(-1)
}

/// See dp_close(3).
#[no_mangle]
pub extern "C" fn dp_close(fd: c_int) -> c_int {
    let close = || {
        let found = table::find(fd, Direction::Out)?;
        table::forget(fd, &found);
        raw::close(fd);
        table::closed(found);
        Ok(0)
    };
    thread::guarded(close).unwrap_or(-1)
}

/// See dp_target(3).
#[no_mangle]
pub extern "C" fn dp_target(fd: c_int, nid: c_int, dpid: c_int) -> c_int {
    let target = || {
        let set = |own: &Use| wait::target(own, fd, address(nid, dpid)?);
        table::on(fd, Direction::Out, set, |_| Err(Fault::OnlyOpener(fd)))
    };
    thread::guarded(target).map_or(-1, |()| 0)
}

/// What a call of sending comes to.
pub(crate) enum Sent {
    Done,
    /// The endpoint is another process's.
    Plainly(Descriptor),
}

/// Makes steps until a message is on its way, and looks between them whether the thread was cancelled. None: it failed, and
/// errno is set.
#[inline(always)]
pub(crate) fn send_steps(step: impl Fn() -> Res<Step<Sent>>) -> Option<Sent> {
    let look_up = |_| {
        thread::may_be_cancelled();
        Ok(())
    };
    wait::until_done(|| thread::guarded(&step), look_up).ok()
}

/// A step is over: with the message sent, or by a wait that lasted as long as a thread may go without looking up.
#[inline(always)]
pub(crate) fn sent(fd: c_int, done: Result<(), Error>) -> Result<Step<Sent>, Error> {
    match done {
        Ok(()) => Ok(Step::Done(Sent::Done)),
        Err(Error::WouldBlock) if !raw::is_nonblocking(fd) => Ok(Step::Wait(Sleep::Moment(Duration::ZERO))),
        Err(e) => Err(e),
    }
}

#[inline(always)]
fn send_step(fd: c_int, to: Option<(c_int, c_int)>, msg: &[u8]) -> Res<Step<Sent>> {
    let ours = |own: &Use| {
        let to = to.map(|(nid, dpid)| address(nid, dpid)).transpose()?;
        sent(fd, wait::send(own, PATIENCE, fd, to, msg))
    };
    let theirs = |foreign: &Foreign| match to {
        Some(_) => Err(Fault::OnlyOpener(fd)),
        None => Ok(Step::Done(Sent::Plainly(foreign.descriptor))),
    };
    table::on(fd, Direction::Out, ours, theirs)
}

#[inline(always)]
unsafe fn send(fd: c_int, to: Option<(c_int, c_int)>, msg: *const c_void, len: usize) -> ssize_t {
    let bytes: &[u8] = if len == 0 {
        &[]
    } else if msg.is_null() {
        return fail(Fault::Null("the message")) as ssize_t;
    } else if len > ssize_t::MAX as usize {
        return fail(Error::TooLong { len, to: Addr::default(), limit: MAX_MESSAGE }.into()) as ssize_t;
    } else {
        // SAFETY: the caller's promise, for every function of the interface: `len` readable bytes.
        unsafe { slice::from_raw_parts(msg.cast(), len) }
    };
    let done = match send_steps(|| send_step(fd, to, bytes)) {
        Some(Sent::Done) => true,
        Some(Sent::Plainly(what)) => {
            // SAFETY: as above.
            unsafe { thread::send_plainly(fd, what, bytes.as_ptr().cast(), len) }.is_ok()
        }
        None => false,
    };
    if done {
        len as ssize_t
    } else {
        -1
    }
}

/// See dp_write(3).
///
/// # Safety
///
/// `msg` is readable for `len` bytes.
#[no_mangle]
pub unsafe extern "C-unwind" fn dp_write(fd: c_int, msg: *const c_void, len: usize) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { send(fd, None, msg, len) }
}

/// See dp_sendto(3).
///
/// # Safety
///
/// `msg` is readable for `len` bytes.
#[no_mangle]
pub unsafe extern "C-unwind" fn dp_sendto(
    fd: c_int,
    msg: *const c_void,
    len: usize,
    nid: c_int,
    dpid: c_int,
) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { send(fd, Some((nid, dpid)), msg, len) }
}

/// A message of ours, or where to sleep for one.
#[inline(always)]
fn looked<T>(fd: c_int, own: &Use, found: Step<T>) -> Result<Step<T>, Error> {
    let Step::Wait(how) = found else { return Ok(found) };
    if own.is_behind(fd).is_ok_and(|same| same) {
        return Ok(Step::Wait(how));
    }
    own.slept(how, false);
    Err(Error::NotAnEndpoint(fd)) // not any more: once again
}

/// The sleep is over.
fn slept(fd: c_int, how: Sleep, woken: bool) {
    if !matches!(how, Sleep::Socket(Some(_)) | Sleep::Routes { .. } | Sleep::Edge(..)) {
        return;
    }
    let ours = |own: &Use| {
        own.slept(how, woken);
        Ok(())
    };
    // Not ours any more: the next look says so.
    let _ = thread::guarded(|| table::on(fd, Direction::In, ours, |_| Ok(())));
}

/// Makes steps until one finds a message, and sleeps between them. None: it failed, and errno is set.
#[inline(always)]
fn receive<T>(fd: c_int, step: impl Fn() -> Res<Step<T>>) -> Option<T> {
    let sleep = |how| {
        let woken = thread::sleep_for_message(fd, how);
        slept(fd, how, woken.is_ok());
        woken.map_err(fail)
    };
    wait::until_done(|| thread::guarded(&step), sleep).ok()
}

/// See dp_read(3).
///
/// # Safety
///
/// `message` is NULL, or a pointer can be written there.
#[no_mangle]
pub unsafe extern "C-unwind" fn dp_read(fd: c_int, message: *mut *mut c_char) -> ssize_t {
    let step = || {
        let ours = |own: &Use| {
            let step = own.recv_soon(fd).map_or_else(|| own.try_recv(fd), |got| Ok(Step::Done(got)))?;
            Ok(match looked(fd, own, step)? {
                Step::Done(got) => Step::Done((got.address(), got.size())),
                Step::Wait(how) => Step::Wait(how),
            })
        };
        let theirs = |foreign: &Foreign| foreign.recv(fd);
        table::on(fd, Direction::In, ours, theirs)
    };
    let Some((address, len)) = receive(fd, step) else { return -1 };
    if !message.is_null() {
        // SAFETY: the caller's promise.
        unsafe { *message = address.cast_mut().cast() };
    }
    len as ssize_t
}

/// See dp_recvfrom(3).
///
/// # Safety
///
/// `buf` is writable for `len` bytes; `nid` and `dpid` are NULL, or an int can be written there.
#[no_mangle]
pub unsafe extern "C-unwind" fn dp_recvfrom(
    fd: c_int,
    buf: *mut c_void,
    len: usize,
    nid: *mut c_int,
    dpid: *mut c_int,
) -> ssize_t {
    if buf.is_null() && len > 0 {
        return fail(Fault::Null("the buffer")) as ssize_t;
    }
    let step = || {
        let into = || {
            // What is longer than any message stays as it is.
            let (at, room) = (buf.cast::<u8>(), len.min(MAX_MESSAGE));
            let at = if room == 0 { NonNull::dangling().as_ptr() } else { at };
            // SAFETY: the caller's promise; one such slice is there at a time, for a call that copies into it.
            unsafe { slice::from_raw_parts_mut(at, room) }
        };
        let ours = |own: &Use| match own.recv_from_soon(fd, into()) {
            Some(copied) => Ok(Step::Done(copied)),
            None => looked(fd, own, own.try_recv_from(fd, into())?),
        };
        let theirs = |foreign: &Foreign| foreign.recv_from(fd, into());
        table::on(fd, Direction::In, ours, theirs)
    };
    let Some(copied) = receive(fd, step) else { return -1 };
    // SAFETY: the caller's promise.
    unsafe { tell(copied.from(), nid, dpid) };
    copied.size() as ssize_t
}

/// # Safety
///
/// Both are NULL, or an int can be written there.
unsafe fn tell(from: Addr, nid: *mut c_int, dpid: *mut c_int) {
    // SAFETY: the caller's promise; NULL is left alone.
    unsafe {
        if let Some(nid) = nid.as_mut() {
            *nid = from.nid.into();
        }
        if let Some(dpid) = dpid.as_mut() {
            *dpid = from.dpid.into();
        }
    }
}

/// See dp_peer(3).
///
/// # Safety
///
/// `nid` and `dpid` are NULL, or an int can be written there.
#[no_mangle]
pub unsafe extern "C" fn dp_peer(fd: c_int, nid: *mut c_int, dpid: *mut c_int) -> c_int {
    let peer = || table::on(fd, Direction::In, |own| Ok(own.peer()), |foreign| Ok(foreign.peer()));
    let Ok(from) = thread::guarded(peer) else { return -1 };
    // SAFETY: the caller's promise.
    unsafe { tell(from, nid, dpid) };
    0
}

/// See dp_fsync(3).
#[no_mangle]
pub extern "C" fn dp_fsync(fd: c_int, n: c_int) -> c_int {
    let release = || {
        let count = usize::try_from(n).map_err(|_| Fault::Negative(n))?;
        table::on(fd, Direction::In, |own| own.release_oldest(fd, count), |foreign| foreign.release(count))
    };
    thread::guarded(release).map_or(-1, |()| 0)
}
