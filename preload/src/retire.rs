//! The shim withdraws from a process that forbids itself what the shim needs: system calls, by seccomp(2), the
//! processor's clock, or descriptors, by setrlimit(2).
//!
//! A filter allows what its program calls, and kills for the rest, so from its first moment on we must call nothing that
//! the program does not. Before it is in force, every connection goes back to TCP for good, epoll sets become the
//! kernel's alone, doors close, and the table of descriptors is switched off. A hook then finds nothing that is ours, and
//! makes the program's call. The same holds in its children, until they execute another program.
//!
//! A filter that was there when the program started is another's choice (a container's, a service manager's) and stops
//! nothing: dp-preload(7) has the list of what it must allow.

use core::sync::atomic::Ordering;

use dp_channel::family::Reason;

use crate::errno::{errno, fail};
use crate::fdtable::{self, Entry};
use crate::{door, epoll, give, life, log, state};

/// From here on as if we had not been loaded.
#[cold]
pub fn retire() {
    if !state::ON.load(Ordering::Relaxed) || state::is_borrowed_memory() {
        return;
    }
    let errno = errno();
    give::give_up_all(Reason::Sandbox);
    // Sets first: what they have of a connection is said to the kernel while both are known.
    fdtable::each(|fd, e| {
        if let Entry::Epoll(i) = e {
            epoll::hand_over(fd, i);
        }
    });
    fdtable::each(|fd, e| match e {
        Entry::Conn(_) => life::let_be(fd),
        Entry::Listener(i) => {
            fdtable::set(fd, Entry::None);
            door::release(i);
        }
        _ => {}
    });
    log::told("alone", Reason::Sandbox.text());
    log::end();
    state::ON.store(false, Ordering::Release);
    fdtable::switch_off();
    fail(errno);
}
