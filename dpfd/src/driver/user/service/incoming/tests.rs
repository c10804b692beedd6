//! Room that could not be told at once is told, and the next time again.

use std::os::fd::AsRawFd;

use nix::sys::socket::{socketpair, AddressFamily, SockFlag, SockType};

use super::*;
use crate::driver::user::process::Process;
use dp_edge::sys::unix;

#[test]
fn room_is_told_again_after_the_socket_was_full() {
    let (family, kind) = (AddressFamily::Unix, SockType::SeqPacket);
    let (ours, theirs) = socketpair(family, kind, None, SockFlag::SOCK_CLOEXEC).unwrap();
    let heard = || {
        let next = || unix::recv(theirs.as_raw_fd(), &mut [0; 64], libc::MSG_DONTWAIT).ok();
        std::iter::from_fn(next).count()
    };
    let mut conn = Conn::new(ours, Role::In(Incoming::new(0, true)));
    let shared = Process::current().unwrap().shared.clone();
    let end = Arc::new(SenderEnd::new(shared, u32::MAX, conn.fd.clone(), 7));
    let Role::In(incoming) = &mut conn.role else { unreachable!() };
    let given = Given::Edge { key: 0, len: 0 };
    let peer = Peer { serial: 0, from: Addr::local(1), end: end.clone(), given, how: How::default() };
    incoming.links.insert(7, peer);

    let note = Note::Room { link: 7 };
    while send_note(&conn.fd, note, &[]) == Sent::Done {}
    end.room();
    assert!(end.owed.load(Ordering::Acquire), "it is the service's to tell");
    heard();
    // What the service does.
    assert_eq!(conn.send(note, &[]), Sent::Done);
    assert!(!end.owed.load(Ordering::Acquire), "told: the next one is another");
    assert_eq!(heard(), 1);
}
