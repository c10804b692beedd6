//! Both modes of an endpoint, in and out of the runtime.

use std::io::Write;
use std::os::fd::{AsFd, AsRawFd};

use dpfd::{AsyncEndpoint, Error};

use crate::kit::*;

#[tokio::test]
async fn a_plain_endpoint_stays_plain_while_it_is_read() {
    let (a, b) = pair().await;
    let mut buf = [0; 16];
    for i in 0..500 {
        a.send(&message(0, i, 12)).await.expect("room");
        let n = soon("a message", b.read(&mut buf)).await.expect("a message");
        assert_eq!(buf[..n], message(0, i, 12));
    }
    assert_eq!(b.get_ref().stat().received, (0, 0), "counted where messages are read in place");
}

#[tokio::test]
async fn a_short_buffer_cuts_the_message_in_either_mode() {
    let (a, b) = pair().await;
    for pool in [false, true] {
        if pool {
            b.get_ref().pool(64 << 10).expect("a pool");
        }
        let mut buf = [0; 4];
        for long in [&b"0123456789"[..], b"", b"abc"] {
            a.send(long).await.expect("room");
            let n = soon("a message", b.read(&mut buf)).await.expect("a message");
            assert_eq!(&buf[..n], &long[..long.len().min(4)]);
        }
        assert_eq!(b.get_ref().stat().loaned, 0);
    }
}

#[tokio::test]
async fn copies_tell_their_length_and_their_sender() {
    let (a, b) = pooled(64 << 10).await;
    for i in 0..300 {
        a.send(&message(1, i, 100)).await.expect("room");
        let (mut buf, len) = ([0; 100], if i % 3 == 0 { 60 } else { 100 });
        let got = soon("a message", b.recv_from(&mut buf[..len])).await.expect("a message");
        assert_eq!(got, (100, a.addr()));
        assert_eq!(buf[..len], message(1, i, 100)[..len]);
    }
    assert!(waits(b.recv_from(&mut [0; 4])).await);
    a.send(b"kept").await.expect("room");
    assert_eq!(soon("a message", b.recv_from(&mut [0; 4])).await.expect("a message"), (4, a.addr()));
}

#[tokio::test]
async fn messages_are_read_in_place_and_released_when_dropped() {
    let (a, b) = pooled(64 << 10).await;
    for i in 0..200 {
        a.send(&message(1, i, 100)).await.expect("room");
        a.send(&message(1, i, 100)).await.expect("room");
        let first = soon("a message", b.recv()).await.expect("a message");
        let second = soon("a message", b.recv()).await.expect("a message");
        assert_eq!((first.from(), b.get_ref().stat().loaned), (a.addr(), 2));
        assert_eq!(first.to_vec(), second.to_vec());
        drop(first);
        drop(second);
        assert_eq!(b.get_ref().stat().loaned, 0);
    }
}

#[tokio::test]
async fn what_came_plainly_is_there_in_pool_mode() {
    let (a, b) = pair().await;
    for i in 0..20 {
        a.send(&message(0, i, 50)).await.expect("room");
    }
    let mut ledger = Ledger::new(1);
    let mut buf = [0; 100];
    for _ in 0..10 {
        let n = soon("a message", b.read(&mut buf)).await.expect("a message");
        ledger.enter(&buf[..n]);
    }
    for _ in 0..10 {
        ledger.enter(&soon("a message", b.recv()).await.expect("a message").to_vec());
    }
    assert!(waits(b.recv()).await);
}

#[tokio::test]
async fn a_program_that_writes_plainly_is_received() {
    let (a, b) = pair().await;
    let mut file = std::fs::File::from(a.as_fd().try_clone_to_owned().expect("a duplicate"));
    let wait = tokio::spawn(async move {
        let first = soon("a message", b.recv()).await.expect("a message").to_vec();
        (first, b)
    });
    tokio::task::yield_now().await;
    assert_eq!(file.write(b"plain").expect("room"), 5);
    assert_eq!(wait.await.expect("the task").0, b"plain");
}

#[tokio::test]
async fn in_and_out_of_the_runtime() {
    let (a, b) = pooled(64 << 10).await;
    let number = b.as_raw_fd();
    let b = b.into_inner();
    assert_eq!((b.as_raw_fd(), b.recv().unwrap_err().errno()), (number, libc::EAGAIN));
    a.send(b"one").await.expect("room");
    b.set_nonblocking(false).expect("a flag");
    assert_eq!(b.recv().expect("a message").to_vec(), b"one");
    let b = AsyncEndpoint::new(b).expect("a runtime");
    a.send(b"two").await.expect("room");
    assert_eq!(soon("a message", b.recv()).await.expect("a message").to_vec(), b"two");
}

#[tokio::test]
async fn errors_are_those_of_other_endpoints() {
    let a = open().await;
    let no_target = a.send(b"?").await.unwrap_err();
    assert_eq!(no_target.errno(), libc::EDESTADDRREQ, "{no_target}");
    let elsewhere = a.send_to(b"?", "77/5000".parse().expect("an address")).await.unwrap_err();
    assert_eq!(elsewhere.errno(), libc::EHOSTUNREACH, "{elsewhere}");
    let too_long = a.send_to(&vec![0; (16 << 20) + 1], nobody()).await.unwrap_err();
    assert_eq!(too_long.errno(), libc::EMSGSIZE, "{too_long}");
    assert!(matches!(AsyncEndpoint::open(a.dpid()).await, Err(Error::InUse(n)) if n == a.dpid()));
}
