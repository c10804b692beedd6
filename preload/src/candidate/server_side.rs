//! The accepting side: it looks for the offer, has it proven, takes it.

use core::sync::atomic::Ordering;

use dp_channel::arena::Arena;
use dp_channel::family::{Conn, Family, Reason, Stage};
use dp_channel::slot::Side;
use dp_channel::tcp;

use super::{base_position, give_up, patient, same_socket, MOVES_ON};
use crate::channel::note_inq;
use crate::channel::{attach, exclusive};
use crate::guests::Search;
use crate::{door, proof, socket};

/// Is there an offer? Under the receiver's lock.
pub(super) fn look_for_offer(family: Family, fd: i32, c: &Conn, turn: u32, search: Search) {
    if !exclusive(family, c) {
        return;
    }
    door::walking(|walking| {
        if proof::is_shown(c) {
            return await_proof(fd, c, turn, walking);
        }
        match door::find_offer(fd, c, search, walking) {
            Some(offer) => door::answer(fd, c, &offer, walking),
            None if patient(c, turn) => {}
            None if c.wrong.load(Ordering::Relaxed) > 0 => give_up(fd, c, Reason::Owner),
            None => give_up(fd, c, Reason::NoOffer),
        }
    });
}

/// Has the client shown that it holds the other end? Then its arena is mapped and the offer taken.
fn await_proof(fd: i32, c: &Conn, turn: u32, walking: &door::Walking) {
    let wrong = || {
        c.wrong.fetch_add(1, Ordering::Relaxed);
    };
    match door::is_shown(c, walking) {
        door::Shown::NotYet if turn < MOVES_ON || !turn.is_power_of_two() => return,
        // It may be somebody else's offer, which hides the true one.
        door::Shown::NotYet => wrong(),
        door::Shown::Gone => {}
        door::Shown::Said => {
            let proven = door::expected(c, walking)
                .is_some_and(|number| proof::other_shows(c, tcp::netns(fd), number));
            if proven {
                let (n, generation) = (c.slot.load(Ordering::Relaxed), c.generation.load(Ordering::Relaxed));
                return match door::admit(c, walking) {
                    door::Admission::Yes(arena) => {
                        proof::put_back(fd, c);
                        accept(fd, c, &arena, n, generation)
                    }
                    door::Admission::No => give_up(fd, c, Reason::Slots),
                    // The next call tries again, with the same proofs.
                    door::Admission::Later => {}
                };
            }
            wrong();
        }
    }
    proof::put_back(fd, c);
}

/// Takes the offer.
fn accept(fd: i32, c: &Conn, arena: &Arena, n: u32, generation: u32) {
    let Some(s) = arena.slot(n) else { return give_up(fd, c, Reason::Memory) };
    if socket::is_unsuited(fd) {
        give_up(fd, c, Reason::Option);
    } else if !same_socket(fd, c, s, Side::Server) {
        give_up(fd, c, Reason::State);
    } else if attach(c, arena, n, Side::Server, generation) {
        let [ours, theirs] = door::links(c);
        note_inq(fd, c);
        c.link.store(ours, Ordering::Relaxed);
        s.link.store(theirs, Ordering::Relaxed);
        c.set_stage(Stage::Accepted);
        if !(base_position(fd, c) && s.accept(generation)) {
            c.set_stage(Stage::Candidate);
            c.offer.store(0, Ordering::Release);
        }
    }
}
