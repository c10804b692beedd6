//! A connection's way from plain TCP to a channel (PROTOCOLS E1-E5, E13).
//!
//! Both sides start as candidates: their calls go to the kernel and are only counted. A connection that
//! lives long enough to be worth it is offered by the client, taken by the server, confirmed by the
//! client; each step happens inside a call the program makes anyway, none adds a round trip.

mod client_side;
mod policy;
mod server_side;

use core::sync::atomic::{fence, Ordering};

use dp_channel::family::{Conn, Reason, Stage};
use dp_channel::slot::{Side, Slot};
use dp_channel::tcp;
use dp_edge::sys::raw;

use crate::channel::Channel;
use crate::guests::{self, Search};
use crate::{door, events, state};

impl Channel {
    /// One call on a candidate is about to go to the kernel: does it move a step? Afterwards the stage says
    /// whether the call may go there just so (`Candidate`, `Offered`, `Plain`) or must count first.
    pub fn advance(&self) -> Stage {
        let stage = self.stage();
        if !matches!(stage, Stage::Candidate | Stage::Offered) {
            return stage;
        }
        let calls = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let after = self.after().unwrap_or_else(|| state::AFTER.load(Ordering::Relaxed));
        if calls <= after {
            return stage;
        }
        let turn = calls - after;
        let client = self.is_client();
        // A proof under way is looked at in every call: it is over soon.
        let search = policy::search_at(turn).or_else(|| self.shows_proof().then_some(Search::Mapped));
        let tries = policy::tries(search, client, || self.offer_is_due(turn));
        if stage == Stage::Candidate && !tries {
            return stage;
        }
        // One thread at a time, and by the stage as it is now: one that comes late would take a channel that
        // another has just confirmed for an offer that was refused.
        if self.rx_lock.try_lock(state::me()) {
            match (self.stage(), client) {
                (Stage::Candidate, true) => self.post_offer(turn),
                (Stage::Offered, _) => self.await_answer(turn),
                (Stage::Candidate, false) => {
                    self.look_for_offer(turn, search.unwrap_or(Search::Mapped));
                    if self.stage() != Stage::Candidate {
                        door::sweep();
                    }
                }
                _ => {}
            }
            self.rx_lock.unlock();
        }
        self.stage()
    }

    /// Whether somebody may still answer. The clock is asked only where that matters, and not in every call.
    fn is_patient(&self, turn: u32) -> bool {
        let patience = policy::patience(self.has(Conn::REQUIRED));
        if turn <= patience {
            return true;
        }
        let began = self.since.load(Ordering::Relaxed);
        if began == 0 {
            self.since.store(state::now(), Ordering::Relaxed);
        }
        policy::is_patient(turn, patience, began, state::now)
    }

    /// It stays on TCP.
    pub fn give_up(&self, why: Reason) {
        self.put_proof_back();
        self.sends_at_once();
        self.reason.store(why as u32, Ordering::Relaxed);
        state::count(why);
        events::leave(self, why);
        self.set_stage(Stage::Plain);
        if self.has(Conn::REQUIRED) {
            state::count(Reason::Refused);
            tcp::disconnect(self.fd);
        }
    }

    /// Whether `fd` is the socket of the offer (E9). A descriptor replaced behind our back is another one; a socket
    /// that was disconnected and connected anew keeps its cookie and has another tuple.
    fn is_socket_of(&self, s: &Slot, side: Side) -> bool {
        let (Some(local), Some(peer)) = (tcp::local(self.fd), tcp::peer(self.fd)) else { return false };
        if (local, peer) != (self.local(), self.peer()) {
            return false;
        }
        let (tuple, cookie) = match side {
            Side::Client => {
                (tcp::tuple(local, peer), tcp::cookie(self.fd) == Some(s.cookie.load(Ordering::Relaxed)))
            }
            Side::Server => (tcp::tuple(peer, local), true),
        };
        cookie && s.matches(&tuple, tcp::netns(self.fd))
    }

    /// Reads the receive position. The stage already says that new receives take the lock; those that were
    /// under way before are counted by `rx_flight`.
    fn take_base_position(&self) -> bool {
        if self.rx_flight.load(Ordering::SeqCst) != 0 {
            return false;
        }
        let Some(at) = tcp::consumed(self.fd) else { return false };
        self.rx_kernel.store(at, Ordering::Relaxed);
        self.rx_data.store(0, Ordering::Relaxed);
        self.rx_counted.store(0, Ordering::Relaxed);
        self.forget_drain();
        self.receiving().rx.consumed.store(at, Ordering::Relaxed);
        true
    }

    /// From here on receives count first. False where the sending side was shut down before: the other end could not be told of
    /// that in a slot which may be taken back yet, and would take the FIN for a death.
    fn go_between(&self) -> bool {
        self.set_stage(Stage::Accepted);
        // As in `tells_of_end`.
        fence(Ordering::SeqCst);
        !self.has(Conn::SHUT_WR)
    }

    /// How far the connection has come, when nobody is just moving it: one that is Accepted for a moment, to see whether a receive is
    /// under way, may fall back, but for the one that is asked for here.
    pub fn settled_stage(&self) -> Stage {
        match self.stage() {
            Stage::Accepted => self.as_receiver(|| self.stage()).unwrap_or(Stage::Accepted),
            stage => stage,
        }
    }

    /// Both sides agreed. Under the receiver's lock.
    pub fn go_live(&self) {
        // A bell held back by Nagle's algorithm would wait for an acknowledgement, up to 40 ms, one under a
        // cork longer (W14). What the program asked for is remembered for its questions.
        for name in [libc::TCP_NODELAY, libc::TCP_CORK] {
            let theirs = raw::getsockopt_int(self.fd, libc::IPPROTO_TCP, name);
            self.holds_nothing_back(name, theirs.is_ok_and(|v| v != 0));
        }
        self.sending().tx.ends_abruptly(raw::resets_at_close(self.fd));
        self.first.store(self.positions(), Ordering::Relaxed);
        self.set_stage(Stage::Live);
        // A connection is one, also where the family has both ends.
        if self.is_client() || !guests::is_a_relatives(self) {
            self.family.header().channels.fetch_add(1, Ordering::Relaxed);
        }
        events::live(self);
    }

    /// That the program has set TCP_NODELAY or TCP_CORK, or cleared it, is remembered, and the socket has what a channel's is to have.
    pub fn holds_nothing_back(&self, name: i32, theirs: bool) {
        let (flag, ours) =
            if name == libc::TCP_NODELAY { (Conn::NODELAY, true) } else { (Conn::CORK, false) };
        if theirs {
            self.set(flag);
        } else {
            self.clear(flag);
        }
        if theirs != ours {
            let _ = raw::setsockopt_int(self.fd, libc::IPPROTO_TCP, name, ours.into());
        }
    }

    /// Server: has the client confirmed? Cheap; asked in every call while `Accepted`.
    pub fn check_live(&self) -> Stage {
        if !self.is_client() && self.slot_live() && self.rx_lock.try_lock(state::me()) {
            if self.stage() == Stage::Accepted {
                self.go_live();
            }
            self.rx_lock.unlock();
        }
        self.stage()
    }
}
