use std::sync::mpsc;

use super::*;

use crate::testing::Pair;

/// While another thread is in a call by the number of a connection at `stage`, counted or not: what [`is_quiet`] says.
fn quiet_beside_a_call(stage: Stage, counted: bool) -> bool {
    let pair = Pair::new();
    let c = pair.client;
    c.set_stage(stage);
    let word = fdtable::word(c.fd);
    let i = fdtable::conn_of(word).expect("a connection");
    assert!(is_quiet(c.fd, i, word), "nobody is in a call");
    let (tell, told) = mpsc::channel();
    let (go, going) = mpsc::channel::<()>();
    let quiet = std::thread::scope(|scope| {
        scope.spawn(move || {
            let frame = 0u8;
            let inside = inside::Inside::enter(c.fd, &frame).expect("a connection");
            assert!(!inside.is_sole(), "this program has two threads");
            c.tx_flight.fetch_add(counted.into(), Ordering::SeqCst);
            tell.send(()).expect("somebody waits");
            // Until the other end of this is dropped.
            let _ = going.recv();
            c.tx_flight.fetch_sub(counted.into(), Ordering::SeqCst);
            inside.leave();
        });
        told.recv().expect("the call began");
        let quiet = is_quiet(c.fd, i, word);
        drop(go);
        quiet
    });
    assert!(is_quiet(c.fd, i, word), "the call is over");
    quiet
}

#[test]
fn a_call_on_what_stays_on_tcp_is_found_by_its_note_and_not_waited_for_for_ever() {
    assert!(!quiet_beside_a_call(Stage::Plain, false));
}

#[test]
fn a_call_on_a_candidate_is_found_by_its_count() {
    assert!(!quiet_beside_a_call(Stage::Candidate, true));
}

#[test]
fn a_call_in_a_channel_finds_its_number_by_itself() {
    assert!(quiet_beside_a_call(Stage::Accepted, false));
}
