use std::net::TcpListener;
use std::os::fd::AsRawFd;

use super::*;
use crate::testing;

/// Does `f` while no other test receives hellos.
fn by_itself(port: u16) -> bool {
    while BUSY.load(Ordering::Relaxed) != 0 {
        std::thread::yield_now();
    }
    receive_hellos(port)
}

fn open_for(listener: &TcpListener) -> (u32, tcp::Addr) {
    let addr = tcp::local(listener.as_raw_fd()).unwrap();
    (open_at(addr).expect("a door"), addr)
}

/// What the program puts at the number of a caller that says nothing is neither read nor closed.
#[test]
fn a_caller_that_says_nothing_is_out_of_the_programs_way() {
    testing::start();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (door, addr) = open_for(&listener);
    let caller = raw::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0).unwrap();
    let (un, len) = intro::door_address(addr, 0);
    // SAFETY: the address outlives the call.
    unsafe { raw::connect(caller, (&raw const un).cast(), len) }.unwrap();
    let waiting = || WAITING.iter().map(|w| w.conn.load(Ordering::Relaxed)).find(|&conn| conn >= 0);
    while waiting().is_none() {
        assert!(!by_itself(addr.port));
    }
    let conn = waiting().unwrap();
    assert!(own::is(conn) && conn > listener.as_raw_fd() + 100, "{conn}");
    // By dup2(2), which the shim sees.
    fdtable::set(conn, fdtable::Entry::None);
    // SAFETY: numbers.
    assert_eq!(unsafe { libc::dup2(listener.as_raw_fd(), conn) }, conn);
    while waiting().is_some() {
        assert!(!by_itself(addr.port));
    }
    assert!(raw::fcntl(conn, libc::F_GETFD, 0).is_ok(), "the program's");
    raw::close(conn);
    raw::close(caller);
    release(door);
}

/// A client that finds behind the door a stranger too many, or is killed there, has said nothing wrong.
#[test]
fn a_caller_that_goes_without_a_word_is_not_corrupt() {
    testing::start();
    let [near, far] = raw::socket_pair().unwrap();
    raw::close(far);
    assert!(matches!(intro::recv_hello(near), Err(intro::Bad::Gone)));
    let [near, far] = raw::socket_pair().unwrap();
    // SAFETY: a byte.
    assert_eq!(unsafe { raw::send(far, [1u8].as_ptr(), 1, 0) }, Ok(1));
    assert!(matches!(intro::recv_hello(near), Err(intro::Bad::Shape)));
    [near, far].into_iter().for_each(raw::close);
}

/// As nginx with a socket for each of its workers.
#[test]
fn sockets_that_listen_at_one_address_share_a_door() {
    testing::start();
    let first = TcpListener::bind("127.0.0.1:0").unwrap();
    let second = first.try_clone().unwrap();
    let (door, _) = open_for(&first);
    assert_eq!(open_for(&second).0, door);
    let fd = || OPEN[door as usize - 1].fd.load(Ordering::Relaxed);
    release(door);
    assert!(fd() >= 0, "one still listens");
    // Of another address, also at the same port.
    let port = first.local_addr().unwrap().port();
    let other = TcpListener::bind(("127.0.0.2", port)).unwrap();
    let (another, _) = open_for(&other);
    assert_ne!(another, door);
    release(another);
    while fd() >= 0 {
        OPEN[door as usize - 1].refs.fetch_max(1, Ordering::Relaxed);
        release(door);
    }
}

/// Another thread closes the last number of a listener while this one makes a copy: what it has noted of its door is over.
#[test]
fn a_copy_of_a_listener_whose_door_was_closed_has_not_that_door() {
    testing::start();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (door, addr) = open_for(&listener);
    let d = &OPEN[door as usize - 1];
    assert!(retain(door, listener.as_raw_fd()));
    assert_eq!(d.refs.load(Ordering::Relaxed), 2);
    release(door);
    while d.fd.load(Ordering::Relaxed) >= 0 && d.is_at(addr) {
        d.refs.store(1, Ordering::Relaxed);
        release(door);
    }
    assert!(!retain(door, listener.as_raw_fd()));
    let copy = listener.try_clone().unwrap();
    let [old, new] = [&listener, &copy].map(AsRawFd::as_raw_fd);
    fdtable::set(old, fdtable::Entry::Listener(door));
    crate::life::copied(old, new, crate::life::copying(old));
    let fdtable::Entry::Listener(i) = fdtable::get(new) else { panic!("{:?}", fdtable::get(new)) };
    let is_open = |d: &Door| d.fd.load(Ordering::Relaxed) >= 0 && d.is_at(addr);
    assert!(i == 0 || is_open(&OPEN[i as usize - 1]), "{i} of {door}");
    for fd in [old, new] {
        fdtable::set(fd, fdtable::Entry::None);
    }
    release(i);
}

/// The place of the door is another listener's by then.
#[test]
fn a_copy_of_a_listener_has_not_the_door_of_another() {
    testing::start();
    let [first, second] = [0, 0].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    let (door, _) = open_for(&second);
    assert!(!retain(door, first.as_raw_fd()));
    assert_eq!(OPEN[door as usize - 1].refs.load(Ordering::Relaxed), 1);
    release(door);
}
