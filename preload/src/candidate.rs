//! A connection's way from plain TCP to a channel (PROTOCOLS E1-E5, E13).
//!
//! Both sides start as candidates: their calls go to the kernel and are only counted. A connection that
//! lives long enough to be worth it is offered by the client, taken by the server, confirmed by the
//! client; each step happens inside a call the program makes anyway, none adds a round trip.

mod client_side;
mod server_side;

use core::sync::atomic::Ordering;

use dp_channel::family::{Conn, Family, Reason, Stage};
use dp_channel::slot::{Side, Slot};
use dp_channel::tcp;
use dp_edge::sys::raw;

use crate::channel::{positions, receiving, sending, slot_live};
use crate::guests::Search;
use crate::{door, proof, state};

/// One call on a candidate is about to go to the kernel: does it move a step? Afterwards the stage says
/// whether the call may go there just so (`Candidate`, `Offered`, `Plain`) or must count first.
pub fn advance(family: Family, fd: i32, c: &Conn) -> Stage {
    let stage = c.stage();
    if !matches!(stage, Stage::Candidate | Stage::Offered) {
        return stage;
    }
    let calls = c.calls.fetch_add(1, Ordering::Relaxed) + 1;
    let after = state::AFTER.load(Ordering::Relaxed);
    if calls <= after {
        return stage;
    }
    let turn = calls - after;
    let client = c.side.load(Ordering::Relaxed) == Side::Client as u32;
    // A proof under way is looked at in every call: it is over soon.
    let search = Search::at(turn).or_else(|| proof::is_shown(c).then_some(Search::Mapped));
    let tries = match search {
        // A client has nothing to search: it makes its offer.
        Some(search) if client => search == Search::Everywhere && client_side::is_due(family, c, turn),
        search => search.is_some(),
    };
    if stage == Stage::Candidate && !tries {
        return stage;
    }
    // One thread at a time, and by the stage as it is now: one that comes late would take a channel that
    // another has just confirmed for an offer that was refused.
    if c.rx_lock.try_lock(state::me()) {
        match (c.stage(), client) {
            (Stage::Candidate, true) => client_side::post(family, fd, c, turn),
            (Stage::Offered, _) => client_side::await_answer(family, fd, c, turn),
            (Stage::Candidate, false) => {
                server_side::look_for_offer(family, fd, c, turn, search.unwrap_or(Search::Mapped));
                if c.stage() != Stage::Candidate {
                    door::sweep();
                }
            }
            _ => {}
        }
        c.rx_lock.unlock();
    }
    c.stage()
}

/// Turns at which something is tried once more: often enough to be done in a connection of some thirty exchanges, then now
/// and then.
fn is_another_try(turn: u32) -> bool {
    turn.is_power_of_two() || turn % if turn < 64 { 8 } else { 64 } == 0
}

impl Search {
    /// Always at first. A client may make its offer at any turn.
    fn at(turn: u32) -> Option<Search> {
        if turn < 8 || is_another_try(turn) {
            Some(Search::Everywhere)
        } else {
            (turn % 8 == 0).then_some(Search::Mapped)
        }
    }
}

/// From this turn on an offer that nobody answers is made anew, behind another hello, and an answer that is not followed by
/// a proof counts as wrong.
const MOVES_ON: u32 = 16;

/// After this many calls *and* this long without an answer the connection is plain TCP for good.
const PATIENCE: u32 = 1 << 10;

const PATIENCE_NS: u64 = 2_000_000_000;

fn patient(c: &Conn, turn: u32) -> bool {
    if turn <= PATIENCE {
        return true;
    }
    // The clock is asked only from here on, and not in every call.
    let began = c.since.load(Ordering::Relaxed);
    if began == 0 {
        c.since.store(state::now(), Ordering::Relaxed);
    }
    began == 0 || turn % 64 != 0 || state::now() - began < PATIENCE_NS
}

pub fn give_up(fd: i32, c: &Conn, why: Reason) {
    proof::put_back(fd, c);
    proof::sends_at_once(fd, c);
    c.reason.store(why as u32, Ordering::Relaxed);
    state::count(why);
    c.set_stage(Stage::Plain);
}

/// Whether `fd` is the socket of the offer (E9). A descriptor replaced behind our back is another one; a socket
/// that was disconnected and connected anew keeps its cookie and has another tuple.
fn same_socket(fd: i32, c: &Conn, s: &Slot, side: Side) -> bool {
    let (Some(local), Some(peer)) = (tcp::local(fd), tcp::peer(fd)) else { return false };
    if (local, peer) != (c.local(), c.peer()) {
        return false;
    }
    let (tuple, cookie) = match side {
        Side::Client => (tcp::tuple(local, peer), tcp::cookie(fd) == Some(s.cookie.load(Ordering::Relaxed))),
        Side::Server => (tcp::tuple(peer, local), true),
    };
    cookie && s.matches(&tuple, tcp::netns(fd))
}

/// Reads the receive position. The stage already says that new receives take the lock; those that were
/// under way before are counted by `rx_flight`.
fn base_position(fd: i32, c: &Conn) -> bool {
    if c.rx_flight.load(Ordering::SeqCst) != 0 {
        return false;
    }
    let Some(at) = tcp::consumed(fd) else { return false };
    c.rx_kernel.store(at, Ordering::Relaxed);
    c.rx_data.store(0, Ordering::Relaxed);
    c.rx_counted.store(0, Ordering::Relaxed);
    receiving(c).rx.consumed.store(at, Ordering::Relaxed);
    true
}

/// Both sides agreed. Under the receiver's lock.
pub fn go_live(family: Family, fd: i32, c: &Conn) {
    // A bell held back by Nagle's algorithm would wait for an acknowledgement, up to 40 ms, one under a
    // cork longer (W14). What the program asked for is remembered for its questions.
    for (name, flag, ours) in [(libc::TCP_NODELAY, Conn::NODELAY, 1), (libc::TCP_CORK, Conn::CORK, 0)] {
        let theirs = raw::getsockopt_int(fd, libc::IPPROTO_TCP, name).map_or(0, |v| i32::from(v != 0));
        if theirs != 0 {
            c.set(flag);
        }
        if theirs != ours {
            let _ = raw::setsockopt_int(fd, libc::IPPROTO_TCP, name, ours);
        }
    }
    sending(c).tx.ends_abruptly(raw::resets_at_close(fd));
    c.first.store(positions(c), Ordering::Relaxed);
    c.set_stage(Stage::Live);
    family.header().channels.fetch_add(1, Ordering::Relaxed);
}

/// Server: has the client confirmed? Cheap; asked in every call while `Accepted`.
pub fn check_live(family: Family, fd: i32, c: &Conn) -> Stage {
    if c.side.load(Ordering::Relaxed) == Side::Server as u32
        && slot_live(c)
        && c.rx_lock.try_lock(state::me())
    {
        if c.stage() == Stage::Accepted {
            go_live(family, fd, c);
        }
        c.rx_lock.unlock();
    }
    c.stage()
}
