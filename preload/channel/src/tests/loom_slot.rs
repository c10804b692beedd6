//! The offer's states: no ring byte before LIVE, no harm from a late writer of an earlier generation (E4, E11).

use dp_edge::sync::{AtomicU64, Ordering};
use dp_edge::testing::explore;
use loom::sync::Arc;
use loom::thread;

use crate::slot::{Fate, Side, Slot, State, Tuple};

fn tuple(port: u16) -> Tuple {
    Tuple { client_port: port, server_port: 1, ..Tuple::default() }
}

/// A slot, and in place of its rings one word for each side that counts who used them.
struct Shared {
    slot: Slot,
    used: [AtomicU64; 2],
}

fn shared() -> Arc<Shared> {
    Arc::new(Shared { slot: Slot::default(), used: [AtomicU64::new(0), AtomicU64::new(0)] })
}

impl Shared {
    /// A side sends if the slot is LIVE; nobody else's word says it may.
    fn use_ring(&self, side: Side, generation: u32) -> bool {
        let live = self.slot.is(generation, State::Live);
        if live {
            self.used[side as usize - 1].store(u64::from(generation), Ordering::Relaxed);
        }
        live
    }
    fn was_used(&self) -> bool {
        self.used.iter().any(|u| u.load(Ordering::Relaxed) != 0)
    }
}

/// The server: looks once, takes a matching offer, uses the ring if it is LIVE at its next call.
fn serve(s: &Shared, port: u16) -> Option<u32> {
    let (generation, state) = s.slot.get()?;
    if state != State::Offered || !s.slot.matches(&tuple(port), 7) || !s.slot.accept(generation) {
        return None;
    }
    s.use_ring(Side::Server, generation);
    Some(generation)
}

#[test]
fn loom_offer_accept_confirm() {
    explore(Some(3), || {
        let s = shared();
        let server = {
            let s = s.clone();
            thread::spawn(move || serve(&s, 9))
        };
        let generation = s.slot.offer(&tuple(9), 1, 7, 0);
        assert!(!s.use_ring(Side::Client, generation));
        let live = s.slot.confirm(generation);
        assert_eq!(live, s.use_ring(Side::Client, generation));
        let accepted = server.join().unwrap();
        assert!(!live || accepted == Some(generation));
        if !live {
            assert!(!s.was_used());
        }
        // Nothing is lost for good: the client confirms in a later call if the server took it.
        assert_eq!(s.slot.confirm(generation), !live && accepted.is_some());
    });
}

#[test]
fn loom_withdraw_or_accept_but_not_both() {
    explore(Some(3), || {
        let s = shared();
        let generation = s.slot.offer(&tuple(9), 1, 7, 0);
        let server = {
            let s = s.clone();
            thread::spawn(move || serve(&s, 9))
        };
        let withdrawn = s.slot.withdraw(generation);
        let accepted = server.join().unwrap().is_some();
        assert_ne!(withdrawn, accepted);
        assert!(!s.was_used());
        let want = if withdrawn { State::Dead } else { State::Accepted };
        assert!(s.slot.is(generation, want));
    });
}

/// The client gives the slot to another connection when its offer is over, which it is not where the server has taken it.
fn give_up_or_wait(fate: fn(&Slot, u32) -> Fate) {
    let s = shared();
    let generation = s.slot.offer(&tuple(9), 1, 7, 0);
    let server = {
        let s = s.clone();
        thread::spawn(move || serve(&s, 9))
    };
    let over = fate(&s.slot, generation) == Fate::Over;
    let accepted = server.join().unwrap().is_some();
    assert!(!(over && accepted), "the server has a slot that is another's");
}

#[test]
fn loom_an_offer_is_open_until_it_is_taken() {
    explore(Some(3), || give_up_or_wait(Slot::fate));
}

#[test]
#[should_panic(expected = "a slot that is another's")]
fn loom_broken_fate_by_two_looks() {
    explore(Some(3), || {
        give_up_or_wait(|slot, generation| match () {
            () if slot.is(generation, State::Accepted) => Fate::Taken,
            () if slot.is(generation, State::Offered) => Fate::Open,
            () => Fate::Over,
        });
    });
}

/// The slot goes to another connection between the server's look and its swap: it takes the tuple it
/// looked at, or nothing.
fn reoffer(accept: fn(&Slot, u32) -> bool) {
    let s = shared();
    let first = s.slot.offer(&tuple(9), 1, 7, 0);
    let server = {
        let s = s.clone();
        thread::spawn(move || {
            let (generation, state) = s.slot.get().unwrap();
            (state == State::Offered && s.slot.matches(&tuple(9), 7) && accept(&s.slot, generation))
                .then_some(generation)
        })
    };
    if s.slot.withdraw(first) {
        let second = s.slot.offer(&tuple(10), 2, 7, 0);
        assert_eq!(server.join().unwrap(), None, "took the offer of another connection");
        assert!(s.slot.is(second, State::Offered));
    } else {
        assert_eq!(server.join().unwrap(), Some(first));
    }
}

#[test]
fn loom_slot_reused_under_the_servers_eyes() {
    explore(Some(3), || reoffer(Slot::accept));
}

#[test]
#[should_panic(expected = "another connection")]
fn loom_broken_accept_of_whatever_generation() {
    explore(Some(3), || {
        reoffer(|slot, _| {
            let now = slot.get();
            now.is_some_and(|(generation, state)| state == State::Offered && slot.accept(generation))
        });
    });
}

#[test]
fn loom_kill_beside_confirm() {
    explore(Some(3), || {
        let s = shared();
        let generation = s.slot.offer(&tuple(9), 1, 7, 0);
        assert!(s.slot.accept(generation));
        let server = {
            let s = s.clone();
            thread::spawn(move || s.slot.kill(generation))
        };
        s.slot.confirm(generation);
        server.join().unwrap();
        assert!(s.slot.is(generation, State::Dead));
        assert!(!s.use_ring(Side::Client, generation));
    });
}

/// Both leave: exactly one learns that it was the last, and what both did is done for the next user.
#[test]
fn loom_last_to_leave_frees_the_slot() {
    explore(Some(3), || {
        let s = shared();
        let generation = s.slot.offer(&tuple(9), 1, 7, 0);
        assert!(s.slot.accept(generation) && s.slot.confirm(generation));
        let server = {
            let s = s.clone();
            thread::spawn(move || {
                s.used[1].store(1, Ordering::Relaxed);
                s.slot.leave(generation, Side::Server)
            })
        };
        let last = s.slot.leave(generation, Side::Client);
        if last {
            // Ordered by the swap alone, not by a join.
            assert_eq!(s.used[1].load(Ordering::Relaxed), 1);
            assert!(s.slot.both_left() && s.slot.is(generation, State::Dead));
        }
        assert_ne!(last, server.join().unwrap());
        assert!(s.slot.both_left());
    });
}

/// sock_diag knew neither cookie, so the slot was given to a new connection while a process of the old one
/// was still on its way out (E11): its leave must not count for the new one.
#[test]
fn loom_late_leave_of_an_earlier_generation() {
    explore(Some(3), || {
        let s = shared();
        let first = s.slot.offer(&tuple(9), 1, 7, 0);
        let late = {
            let s = s.clone();
            thread::spawn(move || {
                s.slot.leave(first, Side::Server);
                s.slot.kill(first);
            })
        };
        assert!(s.slot.withdraw(first));
        let second = s.slot.offer(&tuple(10), 2, 7, 0);
        assert!(s.slot.accept(second) && s.slot.confirm(second));
        late.join().unwrap();
        assert!(s.slot.is(second, State::Live));
        assert!(!s.slot.leave(second, Side::Client), "the server of the second connection is still there");
        assert!(!s.slot.both_left());
    });
}
