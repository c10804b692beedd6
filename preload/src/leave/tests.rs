use super::*;

use crate::ops::option;
use crate::testing::{receive, send, Pair};

/// An option that makes the bytes on TCP other ones is set while the server has taken the offer and the client has not confirmed it: no
/// channel comes of that any more.
#[test]
fn a_connection_that_is_to_be_encrypted_by_the_kernel_becomes_no_channel() {
    let (pair, arena, generation) = Pair::offered();
    let slot = arena.slot(0).expect("mapped");
    assert!(slot.accept(generation));
    let name = c"tls";
    // SAFETY: a string of three bytes. Whether this kernel has it does not matter.
    unsafe {
        option::setsockopt(pair.client.fd, libc::IPPROTO_TCP, libc::TCP_ULP, name.as_ptr().cast(), 3);
    }
    assert_eq!(pair.client.stage(), Stage::Plain);
    assert!(!slot.confirm(generation), "nobody can");
}

/// What the ring had is back on TCP by the time that the receiver looks whether it is clear, but for the bell: that lies behind
/// bytes that were not read yet, and is no byte of the program's.
#[test]
fn a_bell_behind_unread_bytes_is_none_of_them() {
    let pair = Pair::live();
    let (to, from) = (pair.client, pair.server);
    assert_eq!(send(to, b"before", libc::MSG_DONTROUTE), Ok(6), "what the kernel alone can do");
    assert_eq!(send(to, b"ring", 0), Ok(4));
    assert!(in_ring(to.sending().tx.epoch()) && from.receiving().word.bells() == 1);
    // The receiver says that it leaves, and its sender is quicker than the rest of that.
    from.receiving().word.leave_raw(true);
    to.follow_if_left();
    assert_eq!(
        leave_and_read(from.fd, Reason::Option),
        Left::Stranded,
        "a stranger would take the bell for a byte"
    );
    assert_eq!(from.stage(), Stage::Live);
    assert_eq!(receive(from, 100), Ok(b"beforering".to_vec()));
}
