use super::*;

use crate::testing::{moved_and_back, Pair};

/// Another thread looks whether the connection can become a channel, and finds that it cannot: the receive that began meanwhile is
/// counted, as on any candidate.
#[test]
fn a_receive_beside_one_that_keeps_a_connection_from_becoming_a_channel_is_counted() {
    let pair = Pair::live();
    let c = pair.server;
    c.set_stage(Stage::Candidate);
    // SAFETY: a byte.
    assert_eq!(unsafe { raw::send(pair.client.fd, b"x".as_ptr(), 1, 0) }, Ok(1));
    let mut byte = 0u8;
    let mut w = Walk::one(&raw mut byte, 1);
    let outcome = moved_and_back(c, || {
        let inside = Inside::enter(c.fd, &w).expect("a connection");
        within(c, inside, &mut w, libc::MSG_DONTWAIT)
    });
    let Outcome::Counted(flight, inside) = outcome else { panic!("taken for a channel") };
    assert_eq!(flight.fetch_sub(1, Ordering::SeqCst), 1);
    inside.leave();
}
