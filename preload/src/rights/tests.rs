use std::io::{ErrorKind, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::time::{Duration, Instant};

use super::*;

/// Both ends of a connection at a door: ours, and the stranger's.
fn pair() -> [i32; 2] {
    let mut fds = [-1; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: two numbers.
    assert_eq!(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) }, 0);
    fds
}

/// One message with these descriptors, of so many bytes.
fn hand_over(to: i32, fds: &[i32], bytes: usize) {
    let data = [7u8; 8];
    let mut iov = libc::iovec { iov_base: data.as_ptr().cast_mut().cast(), iov_len: bytes };
    let mut control = Control([0; ALL]);
    let len = size_of_val(fds);
    // SAFETY: plain data; the descriptors have room.
    unsafe {
        let mut msg: libc::msghdr = zeroed();
        msg.msg_iov = &mut iov;
        msg.msg_iovlen = 1;
        msg.msg_control = (&raw mut control).cast();
        msg.msg_controllen = libc::CMSG_SPACE(len as u32) as _;
        let head = libc::CMSG_FIRSTHDR(&msg);
        (*head).cmsg_level = libc::SOL_SOCKET;
        (*head).cmsg_type = libc::SCM_RIGHTS;
        (*head).cmsg_len = libc::CMSG_LEN(len as u32) as _;
        libc::CMSG_DATA(head).copy_from_nonoverlapping(fds.as_ptr().cast(), len);
        assert_eq!(raw::sendmsg(to, &msg, 0), Ok(bytes));
    }
}

/// What has no room the kernel would close itself, as it finds it.
#[test]
fn all_descriptors_of_a_message_are_received() {
    let [ours, theirs] = pair();
    raw::setsockopt_int(ours, libc::SOL_SOCKET, libc::SO_PASSCRED, 1).unwrap();
    hand_over(theirs, &[ours; 253], 8);
    let (mut came, mut sender) = (0, false);
    let each = |passed| match passed {
        Passed::Descriptor(fd) => {
            came += 1;
            raw::close(fd);
        }
        Passed::Sender(_) => sender = true,
    };
    // SAFETY: a number.
    assert_eq!(unsafe { receive(ours, &mut 0u64, each) }, Ok(8));
    assert_eq!((came, sender), (253, true));
    [ours, theirs].into_iter().for_each(raw::close);
}

/// The kernel puts credentials beside the end of a stream, too.
#[test]
fn the_end_of_a_stream_is_no_message() {
    let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    theirs.write_all(b"12345678").unwrap();
    let _ = raw::shutdown(ours.as_raw_fd(), libc::SHUT_RD);
    assert_eq!(take_all(ours.as_raw_fd()), 1);
    let [ours, theirs] = pair();
    hand_over(theirs, &[theirs], 0);
    raw::close(theirs);
    assert_eq!(take_all(ours), 1);
    raw::close(ours);
}

/// A socket whose close waits for seconds, and the end that takes nothing.
fn one_that_lingers() -> (i32, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let takes_nothing = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut lingers = listener.accept().unwrap().0;
    lingers.set_nonblocking(true).unwrap();
    loop {
        match lingers.write(&[0; 1 << 16]) {
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock => break,
            Err(e) => panic!("{e}"),
        }
    }
    let time = libc::linger { l_onoff: 1, l_linger: 5 };
    let len = size_of::<libc::linger>();
    raw::setsockopt(lingers.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, &time, len).unwrap();
    // Blocking again: else its close would not wait.
    lingers.set_nonblocking(false).unwrap();
    (lingers.into_raw_fd(), takes_nothing)
}

#[test]
fn what_a_stranger_has_handed_over_unasked_keeps_nobody() {
    for before in [None, Some(0), Some(8)] {
        let [ours, theirs] = pair();
        let (lingers, _other) = one_that_lingers();
        if let Some(bytes) = before {
            hand_over(theirs, &[ours], bytes);
        }
        hand_over(theirs, &[lingers], 8);
        raw::close(lingers);
        let start = Instant::now();
        close_stranger(ours);
        assert!(start.elapsed() < Duration::from_secs(2), "{before:?}: {:?}", start.elapsed());
        raw::close(theirs);
    }
}

/// A relative may have a copy, and waits for what the other end says.
#[test]
fn what_came_for_a_relative_stays_where_one_may_have_the_socket() {
    crate::testing::start();
    for is_shared in [true, false] {
        let mut pair = [0; 2];
        // SAFETY: room for two.
        assert_eq!(unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_SEQPACKET, 0, pair.as_mut_ptr()) }, 0);
        let [ours, theirs] = pair;
        let relatives = own::copy(ours).unwrap();
        // SAFETY: one byte.
        unsafe { raw::send(theirs, [7u8].as_ptr(), 1, 0) }.unwrap();
        close_unless_shared(ours, fdtable::starts().wrapping_sub(u32::from(is_shared)));
        let mut byte = 0u8;
        // SAFETY: one byte.
        let got = unsafe { raw::recv(relatives, &mut byte, 1, libc::MSG_DONTWAIT) };
        assert_eq!(got.is_ok(), is_shared);
        [theirs, relatives].into_iter().for_each(raw::close);
    }
}
