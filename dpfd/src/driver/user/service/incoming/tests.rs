//! Room that could not be told at once is told, and the next time again.

use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use nix::sys::socket::{socketpair, AddressFamily, SockFlag, SockType};

use super::*;
use crate::driver::user::process::Process;
use crate::driver::user::testing;
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

/// The next gateway's proxy need not ask again: who has to read first may be done a moment after its word came.
#[test]
fn who_is_held_back_is_let_in_without_another_word() {
    let (_fd, receiver) = testing::open(7119);
    receiver.start_pool(Some(64 << 10)).unwrap();
    let shared = receiver.process.clone();
    let door = shared.registry.door_path(&shared.member.name);
    let (from, to) = (Addr { nid: 5, dpid: 9 }, Addr::local(7119));
    let attach = |link| {
        let conn = unix::connect(&door).unwrap();
        assert_eq!(send_note(&conn, Note::Attach { link, from, to }, &[]), Sent::Done);
        conn
    };
    let hear = |conn: &OwnedFd| {
        let mut bytes = [0; 64];
        unix::recv(conn.as_raw_fd(), &mut bytes, libc::MSG_DONTWAIT).ok()?;
        Note::decode(&bytes[..note::LEN])
    };
    let wait_for = |conn: &OwnedFd, is_it: fn(Note) -> bool| {
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            match hear(conn) {
                Some(note) if is_it(note) => return,
                Some(Note::Attached { .. }) | None => std::thread::sleep(Duration::from_millis(1)),
                Some(note) => panic!("{note:?}"),
            }
            assert!(Instant::now() < end);
        }
    };
    let former = attach(7);
    wait_for(&former, |note| matches!(note, Note::Pool { link: 7 }));
    // In a call: nobody can tell what is unread.
    let reading = receiver.rx();
    let next = attach(8);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(hear(&next), None, "it waits");
    drop(reading);
    wait_for(&next, |note| matches!(note, Note::Attached { link: 8, .. }));
}
