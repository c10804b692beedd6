use super::*;
use crate::testing;

fn readable(fd: i32) -> bool {
    raw::is_readable(fd)
}

#[test]
fn a_byte_at_the_far_end_is_heard_at_the_near_one() {
    testing::start();
    let poke = Poke::new();
    assert!(poke.near().is_none());
    let far = poke.far(|_| true).expect("a pair");
    let near = poke.near().expect("its other end");
    assert!(!readable(near) && wake(far) && readable(near));
    assert_eq!(poke.far(|_| panic!("watched twice")), Some(far));
    poke.take(near);
    assert!(!readable(near) && poke.near() == Some(near));
    poke.close();
    assert!(poke.near().is_none());
}

#[test]
fn a_pair_that_cannot_be_watched_is_none() {
    testing::start();
    let poke = Poke::new();
    let mut seen = -1;
    assert!(poke
        .far(|near| {
            seen = near;
            false
        })
        .is_none());
    assert!(poke.near().is_none() && seen >= 0);
}

#[test]
fn bytes_are_taken_now_and_then() {
    testing::start();
    let poke = Poke::new();
    let far = poke.far(|_| true).expect("a pair");
    for _ in 0..SOME - 1 {
        assert!(wake(far));
        poke.heard();
    }
    assert!(readable(poke.near().unwrap()));
    assert!(wake(far));
    poke.heard();
    assert!(!readable(poke.near().unwrap()));
    poke.close();
}

/// Whoever has the far end can write, fill it, pass descriptors, clear its O_NONBLOCK, and shut it down.
#[test]
fn a_stranger_who_floods_is_not_heard_any_more_and_nobody_waits() {
    testing::start();
    let poke = Poke::new();
    let far = poke.far(|_| true).expect("a pair");
    raw::fcntl(far, libc::F_SETFL, 0).expect("blocking from now on");
    let fits = (0..1_000_000).take_while(|_| wake(far)).count();
    assert!(fits > TAKEN * TIMES, "{fits}");
    let near = poke.near().unwrap();
    poke.take(near);
    assert!(poke.near().is_none() && !wake(far), "it is still heard");
    poke.close();

    let poke = Poke::new();
    let far = poke.far(|_| true).expect("a pair");
    let _ = raw::shutdown(far, libc::SHUT_WR);
    assert!(!wake(far) && readable(poke.near().unwrap()));
    poke.take(poke.near().unwrap());
    assert!(poke.near().is_none(), "each poll would end at once");
    poke.close();
}

#[test]
fn descriptors_that_come_along_are_closed() {
    testing::start();
    let poke = Poke::new();
    let far = poke.far(|_| true).expect("a pair");
    let [one, other] = raw::socket_pair().expect("another pair");
    rights::send(far, &mut [b'!'; 8], other).expect("sent");
    raw::close(other);
    poke.take(poke.near().unwrap());
    let mut byte = 0u8;
    // SAFETY: one byte.
    let end = unsafe { raw::recv(one, &mut byte, 1, libc::MSG_DONTWAIT) };
    assert_eq!(end, Ok(0), "somebody has the other end");
    raw::close(one);
    poke.close();
}
