//! The connecting side: it makes the offer, proves itself, confirms.

use core::sync::atomic::Ordering;

use dp_channel::family::{Conn, Family, Reason, Stage};
use dp_channel::slot::{Side, Slot, State};

use super::{base_position, give_up, go_live, is_another_try, patient, same_socket, MOVES_ON};
use crate::channel::note_inq;
use crate::channel::{exclusive, slot};
use crate::client::Answer;
use crate::{client, proof, socket, state};

/// Whether it is time for the first offer, which comes later where channels to the server do not pay.
pub(super) fn is_due(family: Family, c: &Conn, turn: u32) -> bool {
    if !state::LEARNS.load(Ordering::Relaxed) {
        return true;
    }
    let mut first = c.first.load(Ordering::Relaxed);
    if first == 0 {
        first = client::first_turn(family, c);
        c.first.store(first, Ordering::Relaxed);
    }
    turn >= first
}

/// Turns since the first offer was due, that one included.
fn turns_since_due(c: &Conn, turn: u32) -> u32 {
    turn.saturating_sub(c.first.load(Ordering::Relaxed).saturating_sub(1))
}

fn no_door() -> Reason {
    if state::unix_is_forbidden() {
        Reason::NoUnix
    } else {
        Reason::NoDoor
    }
}

/// Makes the offer, if it can be made. Under the receiver's lock.
pub(super) fn post(family: Family, fd: i32, c: &Conn, turn: u32) {
    if !exclusive(family, c) {
        return give_up(fd, c, Reason::Shared);
    }
    // Before the socket is asked six questions.
    if client::has_nobody(family, c) {
        return give_up(fd, c, no_door());
    }
    if socket::is_unsuited(fd) {
        return give_up(fd, c, Reason::Option);
    }
    match client::offer(family, fd, c) {
        Ok(()) => {
            note_inq(fd, c);
            c.set_stage(Stage::Offered);
        }
        Err(client::No::Never(Reason::NoDoor)) => give_up(fd, c, no_door()),
        Err(client::No::Never(why)) => give_up(fd, c, why),
        Err(client::No::Later) if !patient(c, turn) => give_up(fd, c, Reason::Silent),
        Err(client::No::Later) => {}
    }
}

/// Was the offer taken? Under the receiver's lock.
pub(super) fn await_answer(family: Family, fd: i32, c: &Conn, turn: u32) {
    let (Some(s), generation) = (slot(c), c.generation.load(Ordering::Relaxed)) else { return };
    let turn = turns_since_due(c, turn);
    if s.is(generation, State::Accepted) {
        if proof::is_shown(c) {
            return confirm(family, fd, c, s, generation);
        }
        // Taken by somebody who has proven nothing.
        s.kill(generation);
        client::leave(c);
        return elsewhere(family, fd, c, turn, Answer::Wrong);
    }
    if !s.is(generation, State::Offered) {
        client::release(c);
        return give_up(fd, c, Reason::Silent);
    }
    let answer = client::look_at_answer(fd, c, s);
    let over = !patient(c, turn);
    // Perhaps another worker of the server took the last introduction, or another family serves the address by now.
    let move_on = match answer {
        Answer::Proven => false,
        Answer::Wrong => true,
        Answer::Nothing if proof::is_shown(c) || turn < 4 => false,
        Answer::Nothing => is_another_try(turn) && (turn >= MOVES_ON || client::has_another(family, c)),
    };
    if (over || move_on) && s.withdraw(generation) {
        client::release(c);
        proof::put_back(fd, c);
        if over {
            give_up(fd, c, if c.wrong.load(Ordering::Relaxed) > 0 { Reason::Owner } else { Reason::Silent });
        } else {
            elsewhere(family, fd, c, turn, answer);
        }
    }
}

/// Answers that prove to be wrong before a connection is left alone.
const WRONG: u32 = 8;

/// Nobody takes the offer where it was; it is made somewhere else. Under the receiver's lock.
fn elsewhere(family: Family, fd: i32, c: &Conn, turn: u32, answer: Answer) {
    c.set_stage(Stage::Candidate);
    if answer == Answer::Wrong && c.wrong.fetch_add(1, Ordering::Relaxed) >= WRONG {
        return give_up(fd, c, Reason::Owner);
    }
    client::give_up_here(family, c, turn >= MOVES_ON);
    post(family, fd, c, turn);
}

/// The server took the offer; from here on receives count first, and either side may switch. Under the
/// receiver's lock: no receive of ours may be in the kernel while the position is read.
fn confirm(family: Family, fd: i32, c: &Conn, s: &Slot, generation: u32) {
    if !same_socket(fd, c, s, Side::Client) {
        s.kill(generation);
        client::leave(c);
        give_up(fd, c, Reason::State);
    } else if exclusive(family, c) {
        c.link.store(s.link.load(Ordering::Relaxed), Ordering::Relaxed);
        c.set_stage(Stage::Accepted);
        if base_position(fd, c) && s.confirm(generation) {
            proof::put_back(fd, c);
            go_live(family, fd, c);
        } else {
            c.set_stage(Stage::Offered);
        }
    }
}
