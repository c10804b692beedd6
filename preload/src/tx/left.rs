//! The other end has left for plain TCP, or this one does: what it has not read goes after it ([`back`](super::back)), and so
//! does everything from then on (PROTOCOLS E8).

use core::sync::atomic::{fence, Ordering};

use dp_channel::family::{Conn, End, Reason, Stage};
use dp_channel::switch::in_ring;

use crate::channel::Channel;
use crate::state;

impl Channel {
    /// Sender: what the receiver has not taken goes onto TCP, unless it stays where it is, and so does everything after it.
    /// Under the sender's lock. After a FIN nothing can.
    pub fn clear_direction(&self, out: &End) {
        if !self.has(Conn::SHUT_WR) {
            self.sends_at_once();
        }
        if !self.has(Conn::SHUT_WR) && in_ring(out.tx.epoch()) {
            if self.rest_stays(out) {
                self.hand_back(out);
            } else {
                let at = self.freeze_rest(out);
                // Data is data again from here on: told before the first of it is there.
                out.tx.to_tcp(at.pos, self.tx_kernel.load(Ordering::Relaxed));
                self.pay_rest(out);
                self.back.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.set(Conn::TX_TCP);
    }

    /// The same right after a hand-back: nothing was put on TCP since, so the rest of the ring still comes before it.
    pub fn clear_behind(&self, out: &End) {
        if !self.has(Conn::TX_TCP | Conn::SHUT_WR) && !self.rest_stays(out) {
            self.freeze_rest(out);
            self.pay_rest(out);
        }
        self.set(Conn::TX_TCP);
    }

    /// The peer left: follows it, or goes on with what is owed. Under the sender's lock. What lies in the ring was sent before this
    /// call: if the peer has died with that unread, it is a reset.
    pub fn follow(&self, out: &End) {
        if self.has(Conn::OWES | Conn::TX_TCP) {
            self.follow_behind(out);
        } else {
            self.meets_reset(|| self.follow_behind(out));
        }
    }

    /// The same behind what this call has put into the ring itself.
    pub fn follow_behind(&self, out: &End) {
        if self.has(Conn::OWES) {
            self.pay_rest(out);
        } else if !self.has(Conn::TX_TCP) {
            self.reason.store(Reason::PeerLeft as u32, Ordering::Relaxed);
            state::count(Reason::PeerLeft);
            self.clear_direction(out);
        }
    }

    /// If the peer left, follows it. Cheap when it did not; called where a bell may mean just that.
    pub fn follow_if_left(&self) {
        let follows = || {
            // Only a live one has an edge to look at.
            self.stage() == Stage::Live
                && (self.has(Conn::OWES) || !self.has(Conn::TX_TCP) && self.sending().word.is_raw())
        };
        // A signal handler inside our own send leaves that to the send's end. Asked again under the lock: a caller that is in no call
        // on the connection, as one that polls it, may find another one in the same entry by then.
        let follow = || follows().then(|| self.follow(&self.sending()));
        if follows() {
            self.as_sender(follow);
        }
    }

    /// Before a FIN: if the peer left, what it has not read goes onto TCP while that is possible.
    pub fn before_end(&self) {
        self.tells_of_end();
        self.follow_if_left();
    }

    /// The other end hears that a FIN of ours is no death, from the moment on from which it may use its ring: that is before this
    /// one knows that it does. Where no offer was taken yet, none is taken or confirmed any more (`candidate.rs`).
    pub fn tells_of_end(&self) {
        // One of the two sees the other: the mark, and this stage.
        fence(Ordering::SeqCst);
        // The slot may be another connection's where the offer was taken back.
        if matches!(self.stage(), Stage::Accepted | Stage::Live) && self.is_of_slot() {
            self.sending().tx.will_end();
        }
    }
}
