use std::sync::mpsc;

use dp_channel::slot::Side;

use super::*;

use crate::give::give;
use crate::life;
use crate::ops::{option, recv};
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

/// A live channel whose receiver has left with ten bytes unread in its ring.
fn left_with_a_rest() -> Pair {
    let pair = Pair::live();
    let (to, from) = (pair.client, pair.server);
    assert_eq!(send(to, &[7; 20], 0), Ok(20));
    assert_eq!(receive(from, 10), Ok(vec![7; 10]));
    leave_and_read(from.fd, Reason::Option);
    assert_eq!(from.stage(), Stage::Live, "for those who can read the rest");
    pair
}

/// What an option or a plug-in made a connection leave for, the kernel alone brings about: when the rest was read, all that comes is
/// its own, whether the sender has looked by then or not.
#[test]
fn a_connection_that_left_with_a_rest_is_the_kernels_when_that_is_read() {
    for follows in [false, true] {
        let pair = left_with_a_rest();
        let (to, from) = (pair.client, pair.server);
        if follows {
            to.follow_if_left();
        }
        let mut bytes = [0u8; 100];
        let mut receive = || {
            // SAFETY: the buffer.
            unsafe { recv::recv(from.fd, bytes.as_mut_ptr().cast(), bytes.len(), libc::MSG_DONTWAIT) }
        };
        assert_eq!(receive(), 10);
        assert_eq!(receive(), -1, "nothing is left");
        assert_eq!(from.stage(), Stage::Plain, "{follows}");
        assert_eq!(send(to, b"over TCP", 0), Ok(8));
        assert_eq!(receive(), 8);
    }
}

/// What a program asks of TCP behind a leave is asked of the kernel, which has all that it sends.
#[test]
fn options_that_are_set_behind_a_leave_are_the_kernels() {
    let pair = left_with_a_rest();
    let c = pair.server;
    for (name, value) in
        [(libc::TCP_NODELAY, 1), (libc::TCP_CORK, 1), (libc::TCP_CORK, 0), (libc::TCP_NODELAY, 0)]
    {
        let value: i32 = value;
        // SAFETY: an int.
        let rc = unsafe { option::setsockopt(c.fd, libc::IPPROTO_TCP, name, (&raw const value).cast(), 4) };
        assert_eq!(rc, 0);
        assert_eq!(raw::getsockopt_int(c.fd, libc::IPPROTO_TCP, name), Ok(value), "option {name}");
    }
    assert_eq!(c.stage(), Stage::Live, "the rest is still to be read");
}

#[test]
fn an_option_from_nowhere_is_a_fault_of_the_caller() {
    let pair = Pair::live();
    let nowhere = core::ptr::without_provenance::<core::ffi::c_void>(8);
    for name in [libc::TCP_NODELAY, libc::TCP_CORK] {
        // SAFETY: the kernel says so; nobody reads there.
        let rc = unsafe { option::setsockopt(pair.client.fd, libc::IPPROTO_TCP, name, nowhere, 4) };
        assert_eq!((rc, crate::errno::errno()), (-1, libc::EFAULT));
    }
}

/// A receiver ends between the bytes that it takes from TCP and their count, on a connection whose client has confirmed it and gone to its
/// ring: who leaves then counts them, or would wait for them, and take the bell behind them for one.
#[test]
fn who_leaves_a_connection_counts_what_a_receiver_took_before_it_ended() {
    let (pair, arena, generation) = Pair::offered();
    let (to, from) = (pair.client, pair.server);
    let slot = arena.slot(0).expect("mapped");
    assert!(slot.accept(generation) && slot.confirm(generation));
    assert!(from.attach(&arena, 0, Side::Server, generation), "mapped");
    from.set_stage(Stage::Accepted);
    to.go_live();
    assert_eq!(send(to, b"over TCP", libc::MSG_DONTROUTE), Ok(8));
    assert_eq!(send(to, b"ring", 0), Ok(4));
    assert!(in_ring(to.sending().tx.epoch()));
    let ends = || {
        assert!(from.rx_lock.try_lock(state::me()));
        let mut bytes = [0u8; 8];
        // SAFETY: the buffer.
        assert_eq!(unsafe { raw::recv(from.fd, bytes.as_mut_ptr(), 8, libc::MSG_DONTWAIT) }, Ok(8));
    };
    std::thread::scope(|scope| scope.spawn(ends).join().expect("bytes"));
    leave_and_read(from.fd, Reason::Option);
    assert_eq!(from.stage(), Stage::Live);
    assert_eq!(receive(from, 100).as_deref(), Ok(&b"ring"[..]));
}

/// Another thread closes one of a connection's two numbers while this one gives it away: what has the number is none of ours by then, and
/// the other number loses nothing.
#[test]
fn a_number_that_is_closed_while_it_is_given_away_leaves_the_other_what_it_has() {
    let pair = Pair::live();
    let (to, from) = (pair.client, pair.server);
    assert_eq!(send(to, b"unread", 0), Ok(6));
    // SAFETY: numbers.
    let copy = unsafe { libc::fcntl(from.fd, libc::F_DUPFD_CLOEXEC, 3) };
    life::copied(from.fd, copy, life::copying(from.fd));
    let i = fdtable::conn(from.fd).expect("a connection");
    let (tell, told) = mpsc::channel();
    let (given, word) = std::thread::scope(|scope| {
        let closes = scope.spawn(move || {
            assert!(from.rx_lock.try_lock(state::me()));
            tell.send(()).expect("somebody waits");
            for _ in 0..1000 {
                raw::nap(1_000_000);
                if from.rx_lock.is_wanted() {
                    break;
                }
            }
            let word = fdtable::change(from.fd).expect("a connection");
            assert!(!fdtable::drop_ref(i));
            from.rx_lock.unlock();
            word
        });
        told.recv().expect("the lock is held");
        (give(from.fd, Reason::Passed), closes.join().expect("no panic"))
    });
    fdtable::changed(from.fd, word);
    assert_eq!(given, from.fd, "nothing is given for it");
    let from = from.by(copy);
    assert_eq!((from.stage(), from.slot_live()), (Stage::Live, true));
    assert_eq!(receive(from, 100).as_deref(), Ok(&b"unread"[..]));
    assert_eq!(send(to, b"more", 0), Ok(4));
    assert_eq!(receive(from, 100).as_deref(), Ok(&b"more"[..]));
    fdtable::clear(copy);
    raw::close(copy);
}
