//! The accepting side: it looks for the offer, has it proven, takes it.

use core::sync::atomic::Ordering;

use dp_channel::arena::Arena;
use dp_channel::family::{self, Reason, Stage};
use dp_channel::slot::{Side, Slot};
use dp_channel::tcp;

use super::policy;
use crate::channel::Channel;
use crate::guests::Search;
use crate::{diag, door, events, socket, state};

impl Channel {
    /// Is there an offer? Under the receiver's lock.
    pub(super) fn look_for_offer(&self, turn: u32, search: Search) {
        if !self.is_ours_alone() {
            return;
        }
        door::walking(|walking| {
            if self.shows_proof() {
                return self.await_proof(turn, walking);
            }
            match door::find_offer(self, search, walking) {
                Some(offer) => door::answer(self, &offer, walking),
                None if self.is_patient(turn) => {}
                None => self.give_up(policy::why_given_up(
                    self.wrong.load(Ordering::Relaxed),
                    diag::why_unproven(),
                    // The client's offer, if it has made one, is for another address.
                    if tcp::is_translated(self.fd, self.local()) { Reason::Nat } else { Reason::NoOffer },
                )),
            }
        });
    }

    /// Has the client shown that it holds the other end? Then its arena is mapped and the offer taken.
    fn await_proof(&self, turn: u32, walking: &door::Walking) {
        let wrong = || {
            self.wrong.fetch_add(1, Ordering::Relaxed);
        };
        match door::is_shown(self, walking) {
            door::Shown::NotYet if !policy::doubts(turn) => return,
            // It may be somebody else's offer, which hides the true one.
            door::Shown::NotYet => wrong(),
            door::Shown::Gone => {}
            door::Shown::Said => {
                let proven = door::expected(self, walking)
                    .is_some_and(|number| self.other_end_shows(tcp::netns(self.fd), number));
                if proven {
                    let (n, generation) =
                        (self.slot.load(Ordering::Relaxed), self.generation.load(Ordering::Relaxed));
                    return match door::admit(self, walking) {
                        door::Admission::Yes(arena) => {
                            self.put_proof_back();
                            // Where the guest was taken away meanwhile the next call tries again.
                            if let Some(version) = door::spoken(self) {
                                self.accept_offer(&arena, n, generation, version);
                            }
                        }
                        door::Admission::No => self.give_up(Reason::Slots),
                        // The next call tries again, with the same proofs.
                        door::Admission::Later => {}
                    };
                }
                wrong();
            }
        }
        self.put_proof_back();
    }

    /// Takes the offer. `version`: of layouts, which its client and we speak.
    fn accept_offer(&self, arena: &Arena, n: u32, generation: u32, version: u32) {
        let Some(s) = arena.slot(n) else { return self.give_up(Reason::Memory) };
        if socket::is_unsuited(self.fd) {
            self.give_up(Reason::Option);
        } else if !self.is_socket_of(s, Side::Server) {
            self.give_up(Reason::State);
        } else if !self.is_ours_alone() {
            // Mapped first, and then asked: a child that is forked after that has the memory where we have it. One that was
            // forked before has the connection, which must not lead there.
        } else if self.attach(arena, n, Side::Server, generation) {
            self.accept_in(s, generation, version);
        }
    }

    /// The rest of that, in its slot.
    fn accept_in(&self, s: &Slot, generation: u32, version: u32) {
        let [ours, theirs] = door::links(self);
        self.note_options();
        self.link.store(ours, Ordering::Relaxed);
        // By it the client tells when we have ended. That of a later server is rarely to be made unknown.
        if s.is_of(generation) {
            s.is_linked_by(generation, theirs);
        }
        if let Some(me) = state::member_if_joined() {
            s.is_taken_by(generation, self.family.member(me as usize).pid(), family::space());
        }
        self.speak(version);
        s.speak(generation, version);
        let goes = self.go_between();
        // A child that was forked before that found no slot to say so in; `go_between` has a fence.
        if !self.is_ours_alone() {
            s.shared.fetch_or(Side::Server as u32, Ordering::Relaxed);
        }
        if goes && self.take_base_position() && s.accept(generation) {
            events::accept(self);
        } else {
            self.set_stage(Stage::Candidate);
            self.offer.store(0, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests;
