//! The connecting side: it makes the offer, proves itself, confirms.

use core::sync::atomic::Ordering;

use dp_channel::family::{Reason, Stage};
use dp_channel::layouts;
use dp_channel::slot::{Fate, Side, Slot};
use dp_channel::tcp;

use super::policy;
use crate::channel::Channel;
use crate::client::Answer;
use crate::{client, diag, events, socket, state};

impl Channel {
    /// Whether it is time for the first offer, which comes later where channels to the server do not pay.
    pub(super) fn offer_is_due(&self, turn: u32) -> bool {
        if !state::LEARNS.load(Ordering::Relaxed) || self.after().is_some() {
            return true;
        }
        let mut first = self.first.load(Ordering::Relaxed);
        if first == 0 {
            first = client::first_turn(self);
            self.first.store(first, Ordering::Relaxed);
        }
        turn >= first
    }
}

impl Channel {
    fn no_door(&self) -> Reason {
        if state::unix_is_forbidden() {
            Reason::NoUnix
        } else {
            let why = self.or_translated(Reason::NoDoor);
            if why == Reason::Nat {
                client::note_nat(self.peer());
            }
            why
        }
    }

    /// Why nobody answers: `silence`, or that the connection does not end at the address that it was made to. Asked once a
    /// second where nobody has a door, else when a connection is given up, and the costly question only where netfilter follows it: on this side that knows what we
    /// meant, and not where it went. Both ends are this host's, so the kernel has the other one by our addresses, unless they were
    /// translated; or it has closed, and then it says nothing of where it was.
    fn or_translated(&self, silence: Reason) -> Reason {
        let Some(local) = tcp::local(self.fd) else { return silence };
        let goes_elsewhere = tcp::is_followed(self.fd, local)
            && diag::is_gone(self.peer(), local, tcp::netns(self.fd))
            && !socket::ended(self.fd);
        if goes_elsewhere {
            Reason::Nat
        } else {
            silence
        }
    }

    /// Makes the offer, if it can be made. Under the receiver's lock.
    pub(super) fn post_offer(&self, turn: u32) {
        if !self.is_ours_alone() {
            return self.give_up(Reason::Shared);
        }
        // Before the socket is asked six questions.
        if client::has_nobody(self) {
            let known = if client::is_nat(self.peer()) { Reason::Nat } else { Reason::NoDoor };
            return self.give_up(if state::unix_is_forbidden() { Reason::NoUnix } else { known });
        }
        if socket::is_unsuited(self.fd) {
            return self.give_up(Reason::Option);
        }
        match client::offer(self) {
            Ok(()) => {
                self.note_options();
                self.set_stage(Stage::Offered);
                events::offer(self);
            }
            Err(client::No::Never(Reason::NoDoor)) => self.give_up(self.no_door()),
            Err(client::No::Never(why)) => self.give_up(why),
            Err(client::No::Later) if !self.is_patient(turn) => self.give_up(Reason::Silent),
            Err(client::No::Later) => {}
        }
    }

    /// Was the offer taken? Under the receiver's lock.
    pub(super) fn await_answer(&self, turn: u32) {
        let (Some(s), generation) = (self.slot(), self.generation.load(Ordering::Relaxed)) else { return };
        let turn = policy::turns_since_due(turn, self.first.load(Ordering::Relaxed));
        match s.fate(generation) {
            Fate::Open => {}
            Fate::Taken if self.shows_proof() => return self.confirm_offer(s, generation),
            Fate::Taken => {
                // By somebody who has proven nothing.
                s.kill(generation);
                client::leave(self);
                return self.offer_elsewhere(turn, Answer::Wrong);
            }
            Fate::Over => {
                client::release(self);
                return self.give_up(Reason::Silent);
            }
        }
        let answer = client::look_at_answer(self, s);
        let over = !self.is_patient(turn);
        // Perhaps another worker of the server took the last introduction, or another family serves the address by now.
        let move_on = policy::moves_on(answer, turn, self.shows_proof(), || client::has_another(self));
        if (over || move_on) && s.withdraw(generation) {
            client::release(self);
            self.put_proof_back();
            if over {
                self.give_up(policy::why_given_up(
                    self.wrong.load(Ordering::Relaxed),
                    diag::why_unproven(),
                    self.or_translated(Reason::Silent),
                ));
            } else {
                self.offer_elsewhere(turn, answer);
            }
        }
    }
}

impl Channel {
    /// Nobody takes the offer where it was; it is made somewhere else. Under the receiver's lock.
    fn offer_elsewhere(&self, turn: u32, answer: Answer) {
        self.set_stage(Stage::Candidate);
        if answer == Answer::Wrong && self.wrong.fetch_add(1, Ordering::Relaxed) >= policy::WRONG {
            return self.give_up(diag::why_unproven());
        }
        client::give_up_here(self, turn >= policy::MOVES_ON);
        self.post_offer(turn);
    }

    /// The server took the offer; from here on receives count first, and either side may switch. Under the
    /// receiver's lock: no receive of ours may be in the kernel while the position is read.
    fn confirm_offer(&self, s: &Slot, generation: u32) {
        if !self.is_socket_of(s, Side::Client) {
            s.kill(generation);
            client::leave(self);
            self.give_up(Reason::State);
        } else if self.is_ours_alone() {
            self.link.store(s.link(), Ordering::Relaxed);
            self.speak(s.spoken(generation, layouts::arena()));
            if self.go_between() && self.take_base_position() && s.confirm(generation) {
                self.put_proof_back();
                self.go_live();
            } else {
                self.set_stage(Stage::Offered);
            }
        }
    }
}
