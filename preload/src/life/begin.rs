//! The beginning of a connection: an entry of the family is its.

use core::sync::atomic::{fence, Ordering};

use dp_channel::family::Reason;
use dp_channel::slot::Side;
use dp_channel::tcp;

use super::{dead, late};
use crate::channel::Channel;
use crate::leave::leave;
use crate::{epoll, fdtable, own, state};

/// Makes `fd` a candidate. False when there is no room for it, or there are to be none; it then stays plain TCP.
pub fn track(fd: i32, side: Side, local: tcp::Addr, peer: tcp::Addr) -> bool {
    let Some(pid) = state::pid().filter(|_| fdtable::covers(fd)) else { return false };
    let Some(family) = own::family_or_make() else { return false };
    let unseen = match fd {
        // stdio reads and writes the standard streams inside itself.
        0..=2 => Some(Reason::Stdio),
        _ => state::ended(),
    };
    if let Some(why) = unseen {
        family.count(why);
        return false;
    }
    let Some(member) = state::member() else {
        family.count(Reason::Slots);
        return false;
    };
    late::look_again();
    let before = family.header().high.load(Ordering::Relaxed);
    let again = || {
        dead::clear(family, true);
        family.claim()
    };
    let Some(i) = family.claim().or_else(again) else {
        family.count(Reason::Slots);
        return false;
    };
    if i >= before {
        dead::at_a_new_entry(family, i);
    }
    let c = family.conn(i);
    c.reset(side as u32, local, peer);
    family.holders(c).begin(member);
    epoll::begins(i);
    c.pid.store(pid, Ordering::Relaxed);
    c.fd.store(fd as u32, Ordering::Relaxed);
    #[cfg(test)]
    MEANWHILE.get()();
    if fdtable::begin(fd, i) == fdtable::Entry::Elsewhere {
        keep_plain(fd, Reason::IoUring);
    }
    // Whoever ends all channels says so, and then looks for connections: asked again, now that it would find this one.
    fence(Ordering::SeqCst);
    if let Some(why) = state::ended() {
        leave(fd, why);
        return false;
    }
    true
}

#[cfg(test)]
thread_local! {
    /// What another thread does just before a connection of this one is in the table.
    pub(super) static MEANWHILE: core::cell::Cell<fn()> = const { core::cell::Cell::new(|| ()) };
}

/// The connection behind `fd`, which was just tracked, stays on TCP.
pub fn keep_plain(fd: i32, why: Reason) {
    if let Some(c) = Channel::of(fd) {
        c.give_up(why);
    }
}
