//! When a descriptor is given away and its channel cannot follow.
//!
//! A receiver that leaves a channel asks the sender to take back what is unread ([`crate::leave`]). A sender that is on TCP
//! already, has shut down, closed or died cannot: what it put on TCP would come before the rest of the ring. Then
//! a small process of our own goes on reading the channel, and the stranger gets an end of a plain connection to
//! it:
//!
//! ```text
//!   peer ==== channel, TCP ==== relay ---- TCP on the same addresses ---- stranger
//! ```
//!
//! The relay is a program that uses hooked calls like any other, so order, switches, FIN and reset are what they
//! always are. It is a copy of the process that gave the descriptor, without its descriptors, signals and
//! session, and ends when both directions have. The stranger's end is kept here, out of the program's way, for
//! further copies of the same connection, as long as the program has the connection itself.

mod pair;
mod run;

use dp_channel::family::{Conn, Family};
use dp_edge::sys::raw;

use crate::channel::Channel;
use crate::{ends, epoll, fdtable, life, own, state};

/// Starts a relay for connection `i` behind `fd`: the end to give away.
pub fn start(c: &Channel, i: u32) -> Option<i32> {
    let family = c.family;
    let (ours, theirs) = pair::pair(c)?;
    let started = reserve(family, c).is_some_and(|n| {
        let started = split(family, n, || run::relay(c, i, theirs, n));
        if !started {
            release(family, c, n);
        }
        started
    });
    raw::close(theirs);
    if !started {
        raw::close(ours);
        return None;
    }
    let ours = own::high(ours)?;
    // A child of vfork shares the table with a parent that does not have this descriptor.
    if !state::is_borrowed_memory() {
        ends::keep(i, ours);
    }
    Some(ours)
}

/// Puts the end at `fd`, in place of the connection, with the same flags, and in the same epoll sets.
pub fn put_at(end: i32, fd: i32) {
    let flags = raw::fcntl(fd, libc::F_GETFD, 0).unwrap_or(0);
    // With the last descriptor of the connection the kept one goes as well.
    let Ok(copy) = raw::fcntl(end, libc::F_DUPFD_CLOEXEC, 3) else { return };
    // In a child of vfork the sets' numbers are its parent's, too, and so are the sets.
    let conn = fdtable::conn(fd).filter(|_| !state::is_borrowed_memory());
    if let Some(i) = conn {
        epoll::replacing(fd, i);
    }
    let cloexec = if flags as i32 & libc::FD_CLOEXEC != 0 { libc::O_CLOEXEC } else { 0 };
    life::in_one_step(fd, None, || {
        // SAFETY: descriptors only.
        let _ = unsafe { raw::call(libc::SYS_dup3, [copy, fd as usize, cloexec as usize, 0, 0, 0]) };
        0
    });
    if conn.is_some() {
        epoll::replaced(fd);
    }
    raw::close(copy as i32);
}

/// A place among the members for a process that has connection `c`.
fn reserve(family: Family, c: &Conn) -> Option<u32> {
    let me = state::member_if_joined()?;
    let n = life::reserve(family, b"dp-relay")?;
    if !life::hold(family, family.entry_of(c), n, me) {
        family.member(n as usize).clear();
        return None;
    }
    Some(n)
}

/// There is no such process after all.
fn release(family: Family, c: &Conn, n: u32) {
    life::release_reserved(family, family.entry_of(c), n);
    family.member(n as usize).clear();
}

/// How often it is looked whether a process that was started is there, and for how long a look waits, ns.
const LOOKS: u32 = 1000;
const LOOK: u32 = 50_000;

/// Starts a process, member `n` of the family. Its parent is gone at once, so nobody here has a child to wait for, and
/// the program is sent no SIGCHLD. Signals are blocked meanwhile: a handler of the program's must not run in a copy of
/// it. The child lets them in when the handlers are no longer its own ([`run`]).
fn split(family: Family, n: u32, child: impl FnOnce()) -> bool {
    let blocked = raw::block_signals();
    let started = split_unheard(family, n, child);
    raw::set_blocked_signals(blocked);
    started
}

fn split_unheard(family: Family, n: u32, child: impl FnOnce()) -> bool {
    let member = family.member(n as usize);
    let program = member.pid();
    match clone() {
        Ok(0) => match clone() {
            Ok(0) => {
                child();
                run::exit(false)
            }
            Ok(_) => {
                // The program may end as soon as this process has: its child must count by itself by then.
                (0..LOOKS).take_while(|_| member.pid() == program).for_each(|_| raw::nap(LOOK));
                run::exit(false)
            }
            Err(_) => run::exit(true),
        },
        Ok(first) => {
            let mut status = 0i32;
            let args = [first, &raw mut status as usize, libc::__WCLONE as usize, 0, 0, 0];
            // SAFETY: the status outlives the call.
            while unsafe { raw::call(libc::SYS_wait4, args) } == Err(libc::EINTR) {}
            status == 0
        }
        Err(_) => false,
    }
}

/// A fork that runs nobody's handlers, and whose end raises no signal.
fn clone() -> Result<usize, i32> {
    // SAFETY: no flags: memory is copied, the stack too.
    unsafe { raw::call(libc::SYS_clone, [0; 6]) }
}
