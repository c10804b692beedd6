//! Immediates: 8 bytes beside a message, told with it and with no other.

use std::io::IoSlice;
#[cfg(feature = "kernel-tests")]
use std::os::fd::AsRawFd;
use std::thread;
use std::time::Duration;

use dpfd::driver::Driver;
use dpfd::{Endpoint, Parts};

use crate::kit::*;

/// Some have one, some have none; each has another one.
fn immediate_of(i: u64) -> Option<u64> {
    (i % 3 != 1).then_some([0, u64::MAX, 1 << 63][i as usize % 3] ^ i)
}

fn send(e: &Endpoint, i: u64, message: &[u8]) {
    let pieces = [IoSlice::new(&message[..message.len() / 3]), IoSlice::new(&message[message.len() / 3..])];
    let parts = Parts::new(&pieces);
    let sent = match immediate_of(i) {
        Some(immediate) => e.send_parts(parts.with_immediate(immediate)),
        None => e.send(message),
    };
    sent.unwrap_or_else(|error| panic!("message {i}: {error}"));
}

fn expect(e: &Endpoint, i: u64, message: &[u8]) {
    let got = e.recv().expect("a message");
    assert!(got.to_vec() == message, "message {i}: {} bytes, not {}", got.len(), message.len());
    assert_eq!(got.immediate(), immediate_of(i), "message {i}");
}

pub fn it_comes_with_its_message_and_no_other(d: Driver) {
    let (a, b) = pair(d);
    for round in 0..100u64 {
        // Several in a row, and one at a time.
        let (first, count) = (round * 5, 1 + round % 5);
        (first..first + count).for_each(|i| send(&a, i, &numbered(i, 8 + (i * 7 % 200) as usize)));
        (first..first + count).for_each(|i| expect(&b, i, &numbered(i, 8 + (i * 7 % 200) as usize)));
    }
    for immediate in [0, 1, u64::MAX] {
        a.send_parts_to(Parts::new(&[]).with_immediate(immediate), b.addr()).expect("room");
        let got = b.recv().expect("an empty message");
        assert_eq!((got.len(), got.immediate(), got.from()), (0, Some(immediate), a.addr()));
    }
}

pub fn it_is_no_part_of_the_message(d: Driver) {
    let (a, b) = pooled(d, 64 << 10);
    for i in 0..30u64 {
        if i == 1 {
            // Of what comes by the descriptor until there is an edge, the length is known when it is received.
            until("the sender has an edge", || is_direct(d, &a, &b));
        }
        send(&a, 3 * i, b"five!");
        assert!(becomes_readable(&b));
        if i % 2 == 1 {
            until("its length is told", || b.stat().next_len == Some(5));
        }
        expect(&b, 3 * i, b"five!");
    }
    assert_eq!((a.stat().sent, b.stat().received), ((30, 150), (30, 150)));
    assert!(is_quiet(&b));
}

pub fn it_keeps_its_place_among_messages_of_every_size(d: Driver) {
    let (a, b) = pooled(d, 64 << 10);
    let around =
        [48, 56, 64, 4088, 16_376, 32_696, 32_760, 65_456, 65_528, 131_072, 212_936, 300_000, 1 << 20];
    let sizes: Vec<usize> = around.iter().flat_map(|n| n - 9..=n + 9).collect();
    let of = move |i: u64| numbered(i, sizes[i as usize % sizes.len()]);
    let (count, of_sender) = (247 * 2, of.clone());
    let sender = thread::spawn(move || {
        (0..count).for_each(|i| send(&a, i, &of_sender(i)));
        a
    });
    (0..count).for_each(|i| expect(&b, i, &of(i)));
    drop(sender.join().expect("the sender"));
    assert_eq!(b.stat().loaned, 0);
}

pub fn it_waits_with_its_message(d: Driver) {
    let (a, b) = pooled(d, 8 << 10);
    let sender = thread::spawn(move || {
        (0..2000u64).for_each(|i| send(&a, i, &numbered(i, 300)));
        a
    });
    for i in 0..2000u64 {
        if i % 500 == 0 {
            thread::sleep(Duration::from_millis(5)); // until it is full, and its sender sleeps
        }
        expect(&b, i, &numbered(i, 300));
    }
    drop(sender.join().expect("the sender"));
}

pub fn from_before_the_pool(d: Driver) {
    let first = numbers(2);
    let a = open(d, first);
    a.target(local(first + 1)).expect("a target");
    // Before there is anybody, and before it has a pool.
    (0..6).for_each(|i| send(&a, i, &numbered(i, if i == 3 { 1 << 20 } else { 100 })));
    let b = open(d, first + 1);
    thread::sleep(Duration::from_millis(50));
    (6..12).for_each(|i| send(&a, i, &numbered(i, 100)));
    (0..12).for_each(|i| expect(&b, i, &numbered(i, if i == 3 { 1 << 20 } else { 100 })));
    (12..200).for_each(|i| {
        send(&a, i, &numbered(i, 100));
        expect(&b, i, &numbered(i, 100));
    });
}

pub fn who_reads_plainly_sees_nothing_of_it(d: Driver) {
    let (a, b) = pair(d);
    for i in 0..100u64 {
        let message = numbered(i, 8 + (i * 379 % 30_000) as usize);
        send(&a, i, &message);
        assert!(becomes_readable(&b));
        assert_eq!(fionread(&b) as usize, message.len());
        assert!(read(&b) == message, "message {i}");
    }
    a.send_parts(Parts::new(&[]).with_immediate(7)).expect("room");
    a.send(b"next").expect("room");
    assert_eq!((read(&b).len(), read(&b)), (0, b"next".to_vec()));
}

pub fn it_comes_with_a_copy(d: Driver) {
    let (a, b) = pooled(d, 64 << 10);
    let mut into = [0; 4000];
    for i in 0..300u64 {
        let message = numbered(i, 8 + (i * 31 % 3900) as usize);
        send(&a, i, &message);
        let (len, from) = b.recv_from(&mut into).expect("a message");
        assert!((&into[..len], from) == (&message[..], a.addr()), "message {i}");
        assert_eq!(b.stat().loaned, 0);
    }
}

pub fn more_senders_than_edges(d: Driver) {
    let first = numbers(41);
    let b = open(d, first);
    b.pool(16 << 10).expect("a pool");
    let senders: Vec<Endpoint> = (1..=40).map(|n| open(d, first + n)).collect();
    for a in &senders {
        a.target(b.addr()).expect("a target");
    }
    for i in 0..20u64 {
        for (n, a) in (0u64..).zip(&senders) {
            send(a, i + n, &numbered(i + n, 60));
            let got = b.recv().expect("a message");
            assert_eq!(
                (got.from(), got.immediate(), number_of(&got.to_vec())),
                (a.addr(), immediate_of(i + n), i + n)
            );
        }
    }
}

/// A program that was made before there were immediates is sent none, and nothing is lost; where it comes late, it is not let
/// in to what it could not read.
#[cfg(feature = "kernel-tests")]
pub fn older_programs_are_sent_none(d: Driver) {
    let open_old = |dpid: u16| {
        let fd = dpfd::sys::device::open().expect("the device");
        let mut what = dp_abi::Open { dpid: dpid.into(), version: 0, pool: 0 };
        // SAFETY: a structure of this call's.
        let result = unsafe { libc::ioctl(fd.as_raw_fd(), dp_abi::IOC_OPEN as _, &mut what) };
        (result == 0).then_some(fd).ok_or_else(|| std::io::Error::last_os_error().raw_os_error())
    };
    let first = numbers(4);
    let a = open(d, first);
    let old = open_old(first + 1).expect("a free number");
    let parts = Parts::new(&[]).with_immediate(1);
    let error = a.send_parts_to(parts, local(first + 1)).unwrap_err();
    assert_eq!(error.errno(), libc::EPROTONOSUPPORT);
    assert!(error.to_string().contains(&(first + 1).to_string()), "{error}");
    a.send_to(b"plain", local(first + 1)).expect("room");
    let mut buf = [0; 16];
    assert_eq!(nix::unistd::read(&old, &mut buf), Ok(5));
    // Left for a number that nobody has opened.
    a.send_parts_to(parts, local(first + 2)).expect("it waits");
    assert_eq!(open_old(first + 2).err(), Some(Some(libc::EPROTONOSUPPORT)));
    let late = open(d, first + 2);
    assert_eq!(late.recv().expect("it still is there").immediate(), Some(1));
    // Nor do frames have a place for it: refused, not stripped.
    assert_eq!(
        a.send_parts_to(parts, dpfd::Addr { nid: 77, dpid: 1 }).unwrap_err().errno(),
        libc::EPROTONOSUPPORT
    );
}
