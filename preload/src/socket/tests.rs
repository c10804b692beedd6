use super::*;
use crate::ops::option::is_kernels_own;
use crate::testing::Pair;

/// What a program may set before its connection is one, and after: the same options keep it from being a channel, and take
/// it out of one.
#[test]
fn options_that_change_how_receives_work_are_the_kernels() {
    let cases = [
        (libc::SO_RCVLOWAT, 1, false),
        (libc::SO_RCVLOWAT, 2, true),
        (libc::SO_PEEK_OFF, 0, true),
        (libc::SO_TIMESTAMP, 1, true),
        (libc::SO_TIMESTAMPNS, 1, true),
        (libc::SO_TIMESTAMPNS, 0, false),
        (libc::SO_KEEPALIVE, 1, false),
        (libc::SO_RCVBUF, 1 << 16, false),
        (libc::SO_BUSY_POLL, 0, false),
    ];
    for (name, n, own) in cases {
        let pair = Pair::new();
        let fd = pair.client.fd;
        raw::setsockopt_int(fd, libc::SOL_SOCKET, name, n).unwrap();
        assert_eq!((is_kernels_own(name, n), is_unsuited(fd)), (own, own), "option {name} set to {n}");
    }
    assert!(!is_kernels_own(libc::SO_RCVLOWAT, 0) && !is_kernels_own(libc::SO_PEEK_OFF, -1));
}

#[test]
fn who_waits_for_sigio_waits_for_the_kernels_bytes() {
    let pair = Pair::new();
    let fd = pair.client.fd;
    let flags = raw::fcntl(fd, libc::F_GETFL, 0).unwrap();
    raw::fcntl(fd, libc::F_SETFL, flags | libc::O_ASYNC as usize).unwrap();
    assert!(is_unsuited(fd));
    raw::fcntl(fd, libc::F_SETFL, flags).unwrap();
    assert!(!is_unsuited(fd));
}

#[test]
fn an_end_is_told_from_bytes_and_from_an_error() {
    let pair = Pair::new();
    let (ours, theirs) = (pair.client.fd, pair.server.fd);
    assert!(state(ours) == Kernel::Nothing && !ended(ours));
    // SAFETY: a byte.
    unsafe { raw::send(theirs, b"x".as_ptr(), 1, 0) }.unwrap();
    assert!(state(ours) == Kernel::Bytes);
    // SAFETY: numbers.
    unsafe { raw::call(libc::SYS_shutdown, [theirs as usize, libc::SHUT_WR as usize, 0, 0, 0, 0]) }.unwrap();
    assert!(state(ours) == Kernel::Bytes, "they lie before the end");
    assert_eq!(peek_one(ours), Ok(1));
    let mut byte = 0u8;
    // SAFETY: a byte.
    unsafe { raw::recv(ours, &mut byte, 1, 0) }.unwrap();
    assert!(state(ours) == Kernel::Fin && ended(ours) && !is_over(ours));
    assert!(state(999_999) == Kernel::Error, "closed behind our back");
}
