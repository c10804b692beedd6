use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::mpsc;

use super::*;
use crate::ops::option;
use crate::testing::{receive, send, Pair};
use crate::{fdtable, life, state};

/// linux/socket.h.
const SO_BUF_LOCK: i32 = 72;

/// The limit of its send buffer, whether that is the program's, the low-water mark of what is not sent, and whether its close is a reset.
fn settings(fd: i32) -> [i32; 4] {
    let get = |level, name| raw::getsockopt_int(fd, level, name).expect("an option");
    [
        get(libc::SOL_SOCKET, libc::SO_SNDBUF),
        get(libc::SOL_SOCKET, SO_BUF_LOCK),
        get(libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT),
        raw::resets_at_close(fd).into(),
    ]
}

/// A channel with a small send buffer, and another number for it.
fn with_little_room() -> (Pair, i32) {
    let pair = Pair::live();
    let c = pair.client;
    raw::setsockopt_int(c.fd, libc::SOL_SOCKET, libc::SO_SNDBUF, 8192).expect("an option");
    // SAFETY: numbers.
    let copy = unsafe { libc::fcntl(c.fd, libc::F_DUPFD_CLOEXEC, 3) };
    life::copied(c.fd, copy, life::copying(c.fd));
    (pair, copy)
}

/// The number of a connection is closed by another thread while this one is in the middle of a rest that goes onto TCP: what has the number
/// by then keeps its own settings, and the connection gets its own back.
#[test]
fn what_has_the_number_by_now_keeps_its_settings() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    for turn in 0..3 {
        let (pair, copy) = with_little_room();
        let c = pair.client;
        let before = settings(copy);
        let other = TcpStream::connect(listener.local_addr().expect("bound")).expect("connected");
        let others = settings(other.as_raw_fd());
        let mut room = Room::new(c);
        if turn == 0 {
            assert!(room.widen(100_000), "an ordinary buffer");
            assert_ne!(settings(copy), before);
        }
        let put = || {
            // SAFETY: numbers.
            unsafe { libc::dup2(other.as_raw_fd(), c.fd) }
        };
        assert_eq!(life::in_one_step(c.fd, None, put), c.fd);
        match turn {
            0 => room.put_back(),
            1 => assert!(!room.widen(100_000)),
            _ => c.ends_by_a_reset(),
        }
        assert_eq!(settings(other.as_raw_fd()), others, "{turn}");
        let mut after = before;
        after[3] = (turn == 2).into();
        assert_eq!(settings(copy), after, "{turn}");
        fdtable::clear(copy);
        raw::close(copy);
    }
}

/// A last close waits for whoever puts the rest on TCP: until it has closed the number, that is the one by which the settings are put back.
#[test]
fn a_last_close_that_waits_closes_the_socket_as_the_program_had_it() {
    let pair = Pair::live();
    let c = pair.client;
    raw::setsockopt_int(c.fd, libc::SOL_SOCKET, libc::SO_SNDBUF, 8192).expect("an option");
    let before = settings(c.fd);
    c.set(Conn::OWES);
    c.ends_by_a_reset();
    let mut room = Room::new(c);
    assert!(room.widen(100_000), "an ordinary buffer");
    assert_ne!(settings(c.fd), before);
    let word = fdtable::change(c.fd).expect("a connection");
    room.put_back();
    c.ends_as_it_was();
    assert_eq!(settings(c.fd), before);
    fdtable::changed(c.fd, word);
}

/// All is paid by a thread that has no number of the connection's any more.
#[test]
fn a_last_close_of_what_was_paid_without_a_number_is_no_reset() {
    let pair = Pair::live();
    let c = pair.client;
    c.set(Conn::OWES);
    c.ends_by_a_reset();
    assert!(raw::resets_at_close(c.fd));
    let i = fdtable::conn_of(fdtable::clear(c.fd)).expect("a connection");
    c.ends_as_it_was();
    c.clear(Conn::OWES);
    inside::closes(c.fd, || life::end(c.fd, i));
    assert!(!raw::resets_at_close(c.fd));
    // Its entries may be others' by now.
    core::mem::forget(pair);
}

/// What the program sets while a buffer is longer for a moment is what it has afterwards; and it is not told of that moment.
#[test]
fn an_option_that_is_set_beside_a_rest_that_goes_onto_tcp_stays() {
    let (pair, copy) = with_little_room();
    let c = pair.client;
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            assert!(c.tx_lock.try_lock(state::me()));
            let mut room = Room::new(c);
            assert!(room.widen(100_000), "an ordinary buffer");
            tell.send(()).expect("somebody waits");
            for _ in 0..100 {
                raw::nap(1_000_000);
            }
            room.put_back();
            c.tx_lock.unlock();
        });
        told.recv().expect("a wide buffer");
        let (mut n, mut len) = (0, 4);
        let of = |n: &mut i32| core::ptr::from_mut(n).cast::<libc::c_void>();
        // SAFETY: ints.
        unsafe {
            let rc = option::getsockopt(c.fd, libc::SOL_SOCKET, libc::SO_SNDBUF, of(&mut n), &mut len);
            assert_eq!((rc, n), (0, 2 * 8192));
            n = 20_000;
            let rc = option::setsockopt(c.fd, libc::SOL_SOCKET, libc::SO_SNDBUF, of(&mut n), 4);
            assert_eq!(rc, 0);
            n = 1000;
            let rc = option::setsockopt(c.fd, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, of(&mut n), 4);
            assert_eq!(rc, 0);
        }
    });
    assert_eq!(settings(copy), [2 * 20_000, 1, 1000, 0]);
    fdtable::clear(copy);
    raw::close(copy);
}

/// A kernel that does not say whether the limit of a buffer is the program's: this thread sees one.
fn forgets_buf_lock() {
    let op = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let (load, is, end) =
        (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, libc::BPF_JMP | libc::BPF_JEQ, libc::BPF_RET);
    let mut filter = [
        op(load, 0, 0, 0),
        op(is, 0, 3, libc::SYS_getsockopt as u32),
        op(load, 0, 0, 32),
        op(is, 0, 1, SO_BUF_LOCK as u32),
        op(end, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOPROTOOPT as u32),
        op(end, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: numbers, and a program that stays until the kernel has it.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program), 0);
    }
}

/// Where it cannot be put back that the kernel grows the buffer as it likes, the buffer stays as it is.
#[test]
fn a_buffer_whose_growth_would_end_is_not_widened() {
    let (pair, copy) = with_little_room();
    let c = pair.client;
    let before = settings(copy);
    let widens = || {
        forgets_buf_lock();
        Room::new(c).widen(100_000)
    };
    assert!(!std::thread::scope(|scope| scope.spawn(widens).join().expect("no panic")));
    assert_eq!(settings(copy), before);
    fdtable::clear(copy);
    raw::close(copy);
}

/// A stranger cannot read the ring, and a close before all is on TCP would lose the rest: there it is worth the buffer's growth.
#[test]
fn a_buffer_whose_growth_would_end_is_widened_for_a_stranger() {
    let (pair, copy) = with_little_room();
    let (to, from) = (pair.client, pair.server);
    assert_eq!(send(to, b"first", 0), Ok(5));
    assert_eq!(receive(from, 100).as_deref(), Ok(&b"first"[..]));
    assert_eq!(send(to, &[7; 1000], 0), Ok(1000));
    let block = [0u8; 65536];
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the block.
    while unsafe { raw::send(to.fd, block.as_ptr(), block.len(), flags) }.is_ok() {}
    let before = settings(copy);
    from.receiving().word.leave_raw(false);
    let follows = || {
        forgets_buf_lock();
        to.follow_if_left();
    };
    std::thread::scope(|scope| scope.spawn(follows).join().expect("no panic"));
    assert!(!to.has(Conn::OWES), "it is all there");
    assert_eq!(settings(copy), before);
    fdtable::clear(copy);
    raw::close(copy);
}
