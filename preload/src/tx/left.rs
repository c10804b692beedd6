//! The other end has left for plain TCP, or this one does: what it has not read goes after it ([`back`](super::back)), and so
//! does everything from then on (PROTOCOLS E8).

use core::sync::atomic::Ordering;

use dp_channel::family::{Conn, Family, Reason, Stage};
use dp_channel::switch::in_ring;

use super::{back, gone, hand_back, under_lock};
use crate::channel::{self, End};
use crate::{proof, state};

/// Sender: what the receiver has not taken goes onto TCP, unless it stays where it is, and so does everything after it.
/// Under the sender's lock. After a FIN nothing can.
pub fn clear(fd: i32, c: &Conn, out: &End) {
    if !c.has(Conn::SHUT_WR) {
        proof::sends_at_once(fd, c);
    }
    if !c.has(Conn::SHUT_WR) && in_ring(out.tx.epoch()) {
        if back::stays(fd, c, out) {
            hand_back(fd, c, out);
        } else {
            let at = back::freeze(c, out);
            // Data is data again from here on: told before the first of it is there.
            out.tx.to_tcp(at.pos, c.tx_kernel.load(Ordering::Relaxed));
            back::pay(fd, c, out);
            c.back.fetch_add(1, Ordering::Relaxed);
        }
    }
    c.set(Conn::TX_TCP);
}

/// The same right after a hand-back: nothing was put on TCP since, so the rest of the ring still comes before it.
pub fn clear_behind(fd: i32, c: &Conn, out: &End) {
    if !c.has(Conn::TX_TCP | Conn::SHUT_WR) && !back::stays(fd, c, out) {
        back::freeze(c, out);
        back::pay(fd, c, out);
    }
    c.set(Conn::TX_TCP);
}

/// The peer left: follows it, or goes on with what is owed. Under the sender's lock. What lies in the ring was sent before this
/// call: if the peer has died with that unread, it is a reset.
pub fn follow(fd: i32, c: &Conn, out: &End) {
    if c.has(Conn::OWES | Conn::TX_TCP) {
        follow_behind(fd, c, out);
    } else {
        gone::meets_reset(fd, c, || follow_behind(fd, c, out));
    }
}

/// The same behind what this call has put into the ring itself.
pub fn follow_behind(fd: i32, c: &Conn, out: &End) {
    if c.has(Conn::OWES) {
        back::pay(fd, c, out);
    } else if !c.has(Conn::TX_TCP) {
        c.reason.store(Reason::PeerLeft as u32, Ordering::Relaxed);
        state::count(Reason::PeerLeft);
        clear(fd, c, out);
    }
}

/// If the peer left, follows it. Cheap when it did not; called where a bell may mean just that.
pub fn follow_if_left(family: Family, fd: i32, c: &Conn) {
    // Only a live one has an edge to look at.
    let follows = || c.has(Conn::OWES) || !c.has(Conn::TX_TCP) && channel::sending(c).word.is_raw();
    if c.stage() == Stage::Live && follows() {
        // A signal handler inside our own send leaves that to the send's end.
        under_lock(family, fd, c, || follow(fd, c, &channel::sending(c)));
    }
}

/// Before a FIN: if the peer left, what it has not read goes onto TCP while that is possible.
pub fn before_end(family: Family, fd: i32, c: &Conn) {
    if c.stage() == Stage::Live {
        channel::sending(c).tx.will_end();
        follow_if_left(family, fd, c);
    }
}
