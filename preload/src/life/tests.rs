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

#[test]
fn a_registration_that_was_deleted_does_not_live_on_with_a_file_that_was_given_away() {
    let pair = Pair::live();
    let c = pair.server;
    // SAFETY: made by the call.
    let set = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    let i = epoll::born(set).expect("a set");
    let event = Some(libc::epoll_event { events: libc::EPOLLIN as u32, u64: 7 });
    assert_eq!(epoll::ctl(set, libc::EPOLL_CTL_ADD, c.fd, event), Some(Ok(())));
    // What a bell announced is looked at without the kernel from then on.
    crate::testing::send(pair.client, b"some", 0).expect("room");
    let mut told = libc::epoll_event { events: 0, u64: 0 };
    let waited = epoll::wait(i, &mut told, 1, 0, true, |_, _, _| panic!("it is not to sleep"));
    assert_eq!((waited, { told.u64 }), (Some(Ok(1)), 7));
    assert!(c.receiving().word.is_hot());
    assert_eq!(crate::testing::receive(c, 10), Ok(b"some".to_vec()));
    assert_eq!(epoll::ctl(set, libc::EPOLL_CTL_DEL, c.fd, None), Some(Ok(())));
    let kernel_has_it = || raw::epoll_ctl(set, libc::EPOLL_CTL_ADD, c.fd, event).is_err();
    assert!(kernel_has_it(), "it is told before the set sleeps, or the file may live on");
    crate::leave::leave_and_read(c.fd, Reason::Passed);
    let conn = fdtable::conn(c.fd).expect("a connection");
    unregister(c.fd, conn);
    assert!(!kernel_has_it());
    fdtable::set(set, Entry::None);
    epoll::close(set, i);
    raw::close(set);
}
