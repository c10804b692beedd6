//! Waiting: the only place where a call of an endpoint sleeps, whichever driver serves it.
//!
//! ```text
//!   step: the driver tries, spins, arms, looks again -> done
//!                                                    -> sleep there, tell the driver, once more
//! ```
//!
//! Threads of Rust programs sleep here. Those of C programs sleep where they can be cancelled, and have [`until_done`] for
//! the rest; futures wait in `tasks` for what wakes a task. (The kernel driver's calls may sleep in the kernel: where a
//! thread waits without end for room, that is one call instead of three.)

#[cfg(feature = "tokio")]
pub(super) mod tasks;

use std::io::IoSlice;
use std::time::{Duration, Instant};

use crate::addr::Addr;
use crate::driver::kernel::KernelEndpoint;
use crate::driver::user::endpoint::UserEndpoint;
use crate::driver::user::sending::Sending;
use crate::driver::{Served, Sleep, Step};
use crate::edge::parts::{Parts, MOST_PIECES};
use crate::error::{Error, Result};
use crate::sys::device;
use crate::sys::loaned::{Copied, Got};
use dp_edge::sys::{process, raw, unix};

/// How often a sender that has room looks whether its receiver has got a pool.
const POOL_LOOK: Duration = Duration::from_millis(1);
/// Longest sleep for room, ms.
const MOST: i32 = 60_000;

/// Makes steps until one is done. In between `sleep` sleeps there, and tells the driver.
///
/// # Errors
///
/// Those of a step or a sleep.
#[inline(always)]
pub fn until_done<T, E>(
    mut step: impl FnMut() -> core::result::Result<Step<T>, E>,
    mut sleep: impl FnMut(Sleep) -> core::result::Result<(), E>,
) -> core::result::Result<T, E> {
    loop {
        match step()? {
            Step::Done(done) => return Ok(done),
            Step::Wait(how) => sleep(how)?,
        }
    }
}

/// Sleeps.
///
/// # Errors
///
/// [`Error::Interrupted`]; [`Error::WouldBlock`] (SO_RCVTIMEO is over); [`Error::NotAnEndpoint`].
pub fn sleep(fd: i32, how: Sleep) -> Result<()> {
    match how {
        Sleep::Socket(_) => unix::await_message(fd).map_err(Error::system("recv")),
        Sleep::Device => device::await_message(fd).map_err(|errno| match errno {
            libc::EBADF | libc::ENOTTY | libc::ENXIO => Error::NotAnEndpoint(fd),
            errno => Error::system("read")(errno),
        }),
        Sleep::Routes { since, routes, time } => {
            let fd = if since.is_some() { fd } else { -1 };
            await_routes(fd, routes, time).map_err(Error::system("poll"))
        }
        Sleep::Edge(key, _) => key.sleep().map_err(Error::system("futex")),
        Sleep::Room(time) => await_room(fd, time).map(drop),
        Sleep::Moment(time) => {
            process::rest(time);
            Ok(())
        }
    }
}

/// Until a message is on the descriptor, or something on routes. SO_RCVTIMEO is counted anew in each sleep.
fn await_routes(fd: i32, routes: i32, time: Option<Duration>) -> core::result::Result<(), i32> {
    let limit = if fd < 0 { Duration::ZERO } else { unix::receive_timeout(fd) };
    if limit.is_zero() || time.is_some_and(|time| time < limit) {
        return unix::await_either(fd, routes, time).map(drop);
    }
    match unix::await_either(fd, routes, Some(limit)) {
        Ok(false) => Err(libc::EAGAIN),
        woken => woken.map(drop),
    }
}

/// Whether the descriptor takes something before so much time is over.
fn await_room(fd: i32, time: Duration) -> Result<bool> {
    let ms = i32::try_from(time.as_millis()).unwrap_or(MOST).min(MOST);
    let events = unix::wait(fd, libc::POLLOUT, ms).map_err(Error::system("poll"))?;
    Ok(events & libc::POLLOUT != 0)
}

/// The next message, loaned until it is released; where [`Served::recv_soon`] found none.
///
/// # Errors
///
/// As [`crate::Endpoint::recv`].
#[cold]
pub fn recv(served: &Served, fd: i32) -> Result<Got> {
    receive(served, fd, || served.try_recv(fd))
}

/// The next message as far as `into` has room; where [`Served::recv_from_soon`] found none.
///
/// # Errors
///
/// As [`crate::Endpoint::recv`].
#[cold]
pub fn recv_from(served: &Served, fd: i32, into: &mut [u8]) -> Result<Copied> {
    receive(served, fd, || served.try_recv_from(fd, into))
}

fn receive<T>(served: &Served, fd: i32, step: impl FnMut() -> Result<Step<T>>) -> Result<T> {
    let mut told = false;
    until_done(step, |how| {
        // Told for nothing: another thread was quicker, or the number has come to mean something else.
        if core::mem::replace(&mut told, true) && !served.is_behind(fd) {
            served.slept(how, false);
            return Err(Error::NotAnEndpoint(fd));
        }
        let woken = sleep(fd, how);
        served.slept(how, woken.is_ok());
        woken
    })
}

/// Sets the default destination.
///
/// # Errors
///
/// As [`crate::Endpoint::target`].
pub fn target(served: &Served, fd: i32, to: Addr) -> Result<()> {
    until_done(|| served.try_target(fd, to), |how| sleep(fd, how))
}

/// Sends one message, to the target or elsewhere; a wait ends with [`Error::WouldBlock`] after about `patience`.
///
/// # Errors
///
/// As [`crate::Endpoint::send_to`].
#[inline(always)]
pub fn send(served: &Served, patience: Duration, fd: i32, to: Option<Addr>, message: &[u8]) -> Result<()> {
    match served {
        Served::User(inner) if inner.send_soon(to, message)? => Ok(()),
        Served::User(inner) => send_late(inner, patience, fd, to, Parts::new(&[IoSlice::new(message)])),
        Served::Kernel(inner) => send_by_kernel(inner, patience, fd, to, message),
    }
}

/// Sends pieces as one message, with an immediate if it has one; as [`send`] in all else.
///
/// # Errors
///
/// As [`crate::Endpoint::send_parts`].
#[inline]
pub fn send_parts(
    served: &Served,
    patience: Duration,
    fd: i32,
    to: Option<Addr>,
    message: Parts<'_>,
) -> Result<()> {
    let (count, limit) = (message.pieces().len(), MOST_PIECES);
    if count > limit {
        return Err(Error::TooManyPieces { count, limit });
    }
    if let Some(name) = message.route() {
        served.permit_route(name)?;
    }
    match served {
        Served::User(inner) if inner.send_soon(to, &message)? => Ok(()),
        Served::User(inner) => send_late(inner, patience, fd, to, message),
        Served::Kernel(inner) => {
            with_patience(patience, fd, |waits| inner.send_parts(fd, to, &message, waits))
        }
    }
}

#[cold]
fn send_late(
    inner: &UserEndpoint,
    patience: Duration,
    fd: i32,
    to: Option<Addr>,
    message: Parts<'_>,
) -> Result<()> {
    let mut sending = Sending::of_a_thread(inner, to, message);
    let mut begun = None;
    let step = || match sending.attempt(fd)? {
        None => Ok(Step::Done(())),
        Some(_) => Ok(Step::Wait(sending.sleep())),
    };
    until_done(step, |how| {
        match how {
            Sleep::Room(time) => {
                let room = await_room(fd, time)?;
                if inner.is_closed() {
                    return Err(Error::Closed);
                }
                if room {
                    // It waits for its receiver's pool, not for room.
                    process::rest(POOL_LOOK);
                }
            }
            Sleep::Routes { .. } => {
                let inside = inner.process.inside.get();
                let led = inside.map(|inside| inside.begin_wait(false));
                let woken = sleep(fd, how);
                inside.zip(led).iter().for_each(|(inside, led)| inside.end_wait(*led));
                woken?;
            }
            how => sleep(fd, how)?,
        }
        if begun.get_or_insert_with(Instant::now).elapsed() >= patience {
            return Err(Error::WouldBlock);
        }
        Ok(())
    })
}

#[inline(never)] // the library's own path stays short
fn send_by_kernel(
    inner: &KernelEndpoint,
    patience: Duration,
    fd: i32,
    to: Option<Addr>,
    message: &[u8],
) -> Result<()> {
    with_patience(patience, fd, |waits| inner.send(fd, to, message, waits))
}

/// The kernel waits; or, for a caller that looks up now and then, this does, for what was refused just now.
fn with_patience(patience: Duration, fd: i32, send: impl Fn(bool) -> Result<()>) -> Result<()> {
    if patience == Duration::MAX {
        return send(true);
    }
    match send(false) {
        Err(Error::WouldBlock) if !raw::is_nonblocking(fd) => {
            await_room(fd, patience)?;
            send(false)
        }
        done => done,
    }
}
