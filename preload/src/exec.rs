//! Other programs: what one that is started inherits is plain TCP (PROTOCOLS E8).

use core::sync::atomic::Ordering;

use dp_channel::family::Reason;
use dp_channel::tcp;
use dp_edge::sys::raw;

use crate::channel::Channel;
use crate::fdtable::{self, Entry};
use crate::give::give;
use crate::leave::leave;
use crate::{epoll, life, relay, socket, state};

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
        // Where others have it as well, they read the rest of the ring, unless it is about to be a standard stream.
        if !mine && standard == 0 {
            leave(fd, Reason::Exec);
            return;
        }
        let end = give(fd, Reason::Exec);
        if end != fd {
            for k in (0..3).filter(|k| standard & 1 << k != 0 && *k != fd) {
                relay::put_at(end, k);
            }
            relay::put_at(end, fd);
        }
    });
    let_others_have();
    if !state::is_borrowed_memory() {
        epoll::before_exec();
    }
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
        if !lasts && fdtable::refs(i).load(Ordering::Relaxed) > 1 {
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

/// Calls `f` for every connection that a program started now would have; with it, the standard streams that are
/// the same connection, a bit each.
fn walk(f: impl Fn(i32, u32)) {
    let Some(family) = state::family().filter(|_| state::ON.load(Ordering::Relaxed)) else { return };
    // A child of vfork may have put a connection there without our seeing it.
    let unseen = |fd: i32| stays(fd) && !matches!(fdtable::get(fd), Entry::Conn(_));
    let standard = [0, 1, 2].map(|fd| if unseen(fd) { tcp::cookie(fd).unwrap_or(0) } else { 0 });
    fdtable::each(|fd, e| {
        let Entry::Conn(i) = e else { return };
        let mut bits = u32::from(fd < 3) << (fd & 3);
        if standard != [0; 3] {
            let cookie = tcp::cookie(fd).unwrap_or(u64::MAX);
            bits |= (0..3).filter(|&k| standard[k] == cookie).fold(0, |b, k| b | 1 << k);
        }
        if bits != 0 || stays(fd) {
            f(fd, bits);
        } else {
            // The kernel may close it without a word.
            Channel::new(family, fd, i).follow_if_left();
        }
    });
}
