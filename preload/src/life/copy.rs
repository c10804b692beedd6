//! Copies of a number: dup(2), dup2(2) and F_DUPFD.
//!
//! Another thread may close the number meanwhile, and something else have it. If the kernel's copy is made before that, it stands for
//! the connection all the same, which therefore must not have ended: so it is held from before the kernel is asked.

use dp_channel::watch::SetName;

use super::{end, forget_stale};
use crate::fdtable::{self, Entry};
use crate::{door, epoll, inside, socket, state};

/// What a number stands for of which a copy is about to be made.
#[must_use]
#[derive(Clone, Copy)]
pub struct Copying {
    /// The entry by which a connection is held.
    held: Option<u32>,
    set: Option<SetName>,
}

/// A copy of `old` is about to be made. Only its own handlers come between where there is one thread: a close in one of them is
/// a last close.
pub fn copying(old: i32) -> Copying {
    let held = if inside::alone() { None } else { fdtable::hold(old) };
    Copying { held, set: epoll::at(old) }
}

/// No copy was made.
pub fn not_copied(before: Copying) {
    if let Some(held) = before.held {
        give_back(held);
    }
}

/// `new` is a copy of `old`, which stood for `before`.
pub fn copied(old: i32, new: i32, before: Copying) {
    forget_stale(new);
    let is = |&held: &u32| is_socket_of(new, held);
    if let Some(held) = before.held {
        if fdtable::word(old) == held || is(&held) {
            return stands_for(new, held);
        }
        // Something else had the number by then.
        give_back(held);
    }
    match fdtable::get(old) {
        Entry::Conn(_) => {
            let Some(held) = fdtable::hold(old) else { return };
            // One that has got the number since may have it from another socket than the copy is one of.
            if inside::alone() || is(&held) {
                stands_for(new, held);
            } else {
                give_back(held);
            }
        }
        Entry::Listener(i) => {
            // Another thread may have closed the last number of the listener, and so its door, just before.
            let listener = if door::retain(i, new) { Entry::Listener(i) } else { door::open(new) };
            fdtable::set(new, listener);
        }
        Entry::Epoll(i) => {
            if before.set.is_some_and(|set| set.place == i && epoll::retain(set)) {
                fdtable::set(new, Entry::Epoll(i));
            }
        }
        Entry::Elsewhere => {
            fdtable::set(new, Entry::Elsewhere);
        }
        Entry::Unconnected(_) => fdtable::no_more_alone(old),
        Entry::Internal | Entry::None => {}
    }
}

fn is_socket_of(fd: i32, held: u32) -> bool {
    let conn = state::family().zip(fdtable::conn_of(held));
    conn.is_some_and(|(family, i)| socket::is(fd, family.conn(i)))
}

/// `new` stands for the connection that is held.
fn stands_for(new: i32, held: u32) {
    fdtable::place(new, held);
    if let Some(i) = fdtable::conn_of(held) {
        epoll::reopened(new, i);
    }
}

/// What is held gets no further number. If the others were closed meanwhile, that is its end.
fn give_back(held: u32) {
    let Some(i) = fdtable::conn_of(held).filter(|_| fdtable::give_back(held)) else { return };
    if inside::ends_with_calls(held) {
        inside::sweep();
    } else {
        end(-1, i);
    }
}
