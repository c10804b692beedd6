//! What the descriptor tells, whatever comes late.

use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use crate::driver::user::link::Destination;
use crate::driver::user::packet::ring;
use crate::driver::user::testing;
use crate::edge::arm::Due;
use crate::error::Error;
use dp_edge::sys::unix;

/// A sender that published a message and was stopped before it looked whether to ring: the message is taken meanwhile, and
/// the bell that comes then is for the number under which the receiver waits for the next one.
#[test]
fn a_bell_for_a_message_that_was_taken_does_not_stand_for_the_next() {
    let ((from, sender), (to, receiver)) = (testing::open_whole(7231), testing::open_whole(7232));
    to.pool(64 << 10).expect("a pool");
    to.set_spin(0);
    to.set_nonblocking(true).expect("a descriptor");
    let readable = |ms| unix::wait(to.as_fd().as_raw_fd(), libc::POLLIN, ms).expect("poll") != 0;
    let end = Instant::now() + Duration::from_secs(20);
    // Until messages come over an edge.
    while receiver.rx().tokens.taken().0 < 2 || receiver.rx().tokens.edges().all(|edge| edge.taken.0 == 0) {
        assert!(Instant::now() < end, "no edge");
        from.send_to(b"by an edge", to.addr()).expect("room");
        assert!(readable(10_000), "the first are told");
        drop(to.recv().expect("a message"));
    }
    for turn in 0..3 {
        assert!(receiver.rx().wake.is_settled() && !readable(0), "turn {turn}");
        match &mut sender.tx().links[0].destination {
            Destination::Pool { back, bell, .. } => assert!(bell.owed() == Due::Bell && ring(back)),
            way => panic!("{way:?}"),
        }
        // It is the turn of senders without an edge to be heard.
        receiver.rx().others.0 = 0;
        assert!(matches!(to.recv(), Err(Error::WouldBlock)));
        assert!(!readable(0), "the bell is taken, turn {turn}");
        from.send_to(b"the next", to.addr()).expect("room");
        assert!(readable(10_000), "the next message is not told, turn {turn}");
        assert_eq!(to.recv().expect("a message").to_vec(), b"the next");
    }
}
