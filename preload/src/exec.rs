//! Other programs: what one that is started inherits is plain TCP (PROTOCOLS E8).

use core::cell::Cell;
use core::sync::atomic::Ordering;

use dp_channel::family::Reason;
use dp_edge::sys::raw;

use crate::channel::Channel;
use crate::fdtable::{self, Entry};
use crate::give::{give, give_number, share_whole};
use crate::leave::leave;
use crate::{epoll, life, meant, relay, socket, state};

/// Before this process starts another program beside itself: channels that one would inherit leave.
pub fn before_spawn() {
    walk(|fd, _| {
        leave(fd, Reason::Exec);
    });
}

/// Before this process becomes another program.
pub fn before() {
    walk(|fd, standard| {
        let Some(c) = Channel::of(fd) else { return };
        let mine = !state::is_borrowed_memory() && c.is_ours_alone();
        if mine || standard {
            give_number(fd, Reason::Exec);
        } else if meant::is(fd) {
            share_number(fd, fd);
        } else {
            // Others have it as well, and read the rest of the ring. The program has it by chance: a relay would take that from them.
            leave(fd, Reason::Exec);
        }
    });
    let_others_have();
    if !state::is_borrowed_memory() {
        epoll::before_exec();
    }
}

/// In a child of vfork, `new` is a copy of `old` from now on. Its parent's table cannot say so, and what the child executes has it:
/// so the connection leaves at once.
pub fn copied(old: i32, new: i32) {
    let (Some(family), Some(i)) = (state::family(), fdtable::conn(old)) else { return };
    // The child may have something else at the number.
    if !socket::is(old, family.conn(i)) {
        return;
    }
    if new > 2 {
        share_number(old, new);
    } else {
        put_end(old, new, give);
    }
}

/// The program has the connection behind `fd` at `number`, as it is meant to, and others have it as well.
fn share_number(fd: i32, number: i32) {
    put_end(fd, number, share_whole);
}

/// Puts at `number` what is `given` for the connection behind `fd`, unless that is the connection itself.
fn put_end(fd: i32, number: i32, given: fn(i32, Reason) -> i32) {
    let Some(i) = fdtable::conn(fd) else { return };
    // One relay for all of them: two would each take a part.
    let pid = raw::getpid();
    let end = match GIVEN.get() {
        Some((child, conn, end)) if (child, conn) == (pid, i) => end,
        _ => given(fd, Reason::Exec),
    };
    if end != fd {
        if state::is_borrowed_memory() {
            GIVEN.set(Some((pid, i, end)));
        }
        relay::put_at(end, number);
    }
}

thread_local! {
    /// In the memory that a child of vfork has together with this thread: that child, a connection, and the end of a relay that the child
    /// has for it.
    static GIVEN: Cell<Option<(u32, u32, i32)>> = const { Cell::new(None) };
}

/// Before this process becomes another program: relatives alone have what is closed with that. Else each of them would be
/// taken for one of several for as long as the program lasts.
fn let_others_have() {
    let (Some(family), Some(me)) = (state::family(), state::member_if_joined()) else { return };
    if state::is_borrowed_memory() {
        return;
    }
    fdtable::each(|fd, e| {
        let Entry::Conn(i) = e else { return };
        let c = family.conn(i);
        if !family.holders(c).has(me) {
            return;
        }
        let mut lasts = stays(fd);
        if !lasts && fdtable::refs(i) > 1 {
            fdtable::each(|n, e| lasts |= e == Entry::Conn(i) && stays(n));
        }
        // The last one keeps it: whoever finds this process gone does what is to be done.
        if !lasts && family.holders(c).remove(me) {
            family.holders(c).add(me);
        }
    });
}

/// It did not become another program.
pub fn failed() {
    let (Some(family), Some(me)) = (state::family(), state::member_if_joined()) else { return };
    if state::is_borrowed_memory() {
        return;
    }
    fdtable::each(|fd, e| {
        let Entry::Conn(i) = e else { return };
        let c = family.conn(i);
        if family.holders(c).has(me) {
            return;
        }
        let again = family.holders(c).add_again(me);
        if !again || !socket::stands_for(fd, c) {
            // Relatives have ended it meanwhile.
            fdtable::clear(fd);
            if again {
                life::forget(i);
            }
        }
    });
}

fn stays(fd: i32) -> bool {
    raw::fcntl(fd, libc::F_GETFD, 0).is_ok_and(|f| f as i32 & libc::FD_CLOEXEC == 0)
}

/// Calls `f` for every connection that a program started now would have, and whether it is a standard stream.
fn walk(f: impl Fn(i32, bool)) {
    let Some(family) = state::family().filter(|_| state::ON.load(Ordering::Relaxed)) else { return };
    let borrowed = state::is_borrowed_memory();
    fdtable::each(|fd, e| {
        let Entry::Conn(i) = e else { return };
        // A child of vfork has its parent's table and descriptors of its own: it may have closed the number, or have something else
        // there. What it does not hand on its parent still has, and follows by itself.
        if borrowed {
            if stays(fd) && socket::is(fd, family.conn(i)) {
                f(fd, fd < 3);
            }
        } else if fd < 3 || stays(fd) {
            f(fd, fd < 3);
        } else {
            // The kernel may close it without a word.
            Channel::new(family, fd, i).follow_if_left();
        }
    });
}
