use core::sync::atomic::Ordering;

use dp_edge::sys::raw;

use super::*;
use crate::testing::{self, Pair};

fn socket_pair() -> [i32; 2] {
    let mut pair = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: two numbers.
    assert_eq!(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, pair.as_mut_ptr()) }, 0);
    pair
}

fn has_hung_up(fd: i32, within: i32) -> bool {
    let mut one = libc::pollfd { fd, events: 0, revents: 0 };
    // SAFETY: one entry.
    (unsafe { libc::poll(&raw mut one, 1, within) }) == 1 && one.revents & libc::POLLHUP != 0
}

/// The client takes a slot for free when the link has hung up, and a relay reads what is in its rings.
#[test]
fn a_relay_keeps_the_link_of_its_connection_as_long_as_it_runs() {
    testing::start();
    let pair = Pair::live();
    let ([linked, client], [other, ready], [closed, unlinked]) =
        (socket_pair(), socket_pair(), socket_pair());
    let (name, _) = link::begin(linked, 0).expect("room");
    let (c, i) = (pair.server, crate::fdtable::conn(pair.server.fd).expect("ours"));
    c.link.store(name, Ordering::Relaxed);
    // SAFETY: the child makes system calls only.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let done = alone([c.fd, other], i, &c).map(|[_, other]| {
            // SAFETY: a byte.
            let _ = unsafe { raw::send(other, [1u8].as_ptr(), 1, 0) };
            // Until the test closes its end.
            has_hung_up(other, 20_000)
        });
        exit(done != Some(true));
    }
    [other, closed].into_iter().for_each(raw::close);
    let mut byte = 0u8;
    // SAFETY: a byte.
    assert_eq!(unsafe { libc::recv(ready, (&raw mut byte).cast(), 1, 0) }, 1, "it runs");
    c.link.store(0, Ordering::Relaxed);
    link::end(name);
    assert!(has_hung_up(unlinked, 0), "it has closed the others");
    assert!(!has_hung_up(client, 0), "the client would give its slot away");
    raw::close(ready);
    assert!(has_hung_up(client, 20_000), "it has ended");
    let mut status = -1;
    // SAFETY: the status outlives the call.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    [client, unlinked].into_iter().for_each(raw::close);
}

/// A stranger that only shuts its end down may still read, and means the end for all who have the connection.
#[test]
fn an_end_that_is_shut_down_is_not_closed() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let far = std::net::TcpStream::connect(listener.local_addr().expect("its name")).expect("connected");
    let (near, _) = listener.accept().expect("accepted");
    let fd = std::os::fd::AsRawFd::as_raw_fd(&near);
    assert!(!is_closed(fd));
    far.shutdown(std::net::Shutdown::Write).expect("shut down");
    assert!(!is_closed(fd));
    drop(far);
    assert!(is_closed(fd));
}
