//! Descriptors, memory and address space run out, and come back.

use std::io::Write;
use std::os::fd::{AsFd, AsRawFd};
use std::thread::sleep;
use std::time::{Duration, Instant};

use dpfd::{Addr, Dpid, Endpoint, Error};
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::resource::{getrlimit, setrlimit, Resource};

use crate::kit::*;

const NUMBER: Dpid = 3200;

/// Bytes that tell sender and number.
fn message(k: u64, i: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![(k * 31 + i) as u8; len.max(16)];
    bytes[..8].copy_from_slice(&k.to_ne_bytes());
    bytes[8..16].copy_from_slice(&i.to_ne_bytes());
    bytes
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at * 8..at * 8 + 8].try_into().expect("eight bytes"))
}

/// Waits for a message without a call of the library.
fn readable(e: &Endpoint) -> bool {
    let mut fds = [PollFd::new(e.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::from(50u16)).expect("a poll") > 0
}

const SENDERS: u64 = 12;
const EACH: u64 = 40;

/// Senders that come while the receiver has no descriptor left: small messages and long ones, on edges, through the
/// descriptor, plainly.
fn senders() -> bool {
    let all: Vec<_> = (0..SENDERS)
        .map(|k| {
            let e = Endpoint::open(NUMBER + 1 + k as Dpid).expect("an endpoint");
            e.target(Addr::local(NUMBER)).expect("a target");
            std::thread::spawn(move || {
                for i in 0..EACH {
                    let m = message(k, i, if i % 16 == 9 { 300_000 } else { 100 });
                    match i % 3 {
                        0 if m.len() < 1000 => {
                            let mut file =
                                std::fs::File::from(e.as_fd().try_clone_to_owned().expect("a copy"));
                            file.write_all(&m).expect("a write");
                        }
                        _ => e.send(&m).expect("room"),
                    }
                }
                // Until the receiver has everything.
                let back = e.recv().expect("an answer").to_vec();
                back == b"all"
            })
        })
        .collect();
    all.into_iter().all(|t| t.join().unwrap_or(false))
}

#[test]
fn a_receiver_without_descriptors_loses_nothing() {
    let _turn = alone();
    for pool in [4096, 1 << 20] {
        let board = Board::new();
        let receiver = child(move || {
            limit_descriptors(64);
            let b = Endpoint::open(NUMBER).expect("an endpoint");
            b.pool(pool).expect("a pool");
            b.set_nonblocking(true).expect("a flag");
            // The one that is left is for the connection.
            let mut used = use_up_descriptors(1);
            board.set(0, 1);
            let (mut next, mut refused) = ([0u64; SENDERS as usize], 0);
            let mut phases = [Duration::ZERO; 2];
            let begun = Instant::now();
            while next.iter().any(|n| *n < EACH) {
                let phase = usize::from(begun.elapsed() > Duration::from_millis(500));
                if phase == 1 && !used.is_empty() {
                    phases[0] = cpu(std::process::id() as i32, true);
                    used.clear();
                }
                match b.recv() {
                    Ok(m) => {
                        let (from, m) = (m.from().dpid, m.to_vec());
                        let (k, i) = (word(&m, 0), word(&m, 1));
                        assert_eq!(u64::from(from), u64::from(NUMBER) + 1 + k, "who sent message {i}");
                        assert_eq!((i, &m), (next[k as usize], &message(k, i, m.len())));
                        next[k as usize] += 1;
                    }
                    Err(Error::WouldBlock) => drop(readable(&b)),
                    Err(e) => {
                        assert_eq!(e.errno(), libc::EMFILE, "{e}");
                        assert!(
                            e.to_string().contains("RLIMIT_NOFILE") && e.to_string().contains("64"),
                            "{e}"
                        );
                        refused += 1;
                        sleep(Duration::from_millis(5));
                    }
                }
                assert!(begun.elapsed() < SOON, "{next:?}");
            }
            phases[1] = cpu(std::process::id() as i32, true);
            assert!(phases[0] < Duration::from_millis(100), "the service used {phases:?}");
            for k in 0..SENDERS {
                b.send_to(b"all", Addr::local(NUMBER + 1 + k as Dpid)).expect("room");
            }
            // They are answered when they have it.
            board.set(1, 1 + refused);
            until("answers", || board.get(2) == 1);
            true
        });
        until("the receiver", || board.get(0) == 1);
        let senders = child(senders);
        until("all messages", || board.get(1) > 0 || receiver.ended().is_some() || senders.ended().is_some());
        senders.ok();
        board.set(2, 1);
        receiver.ok();
        assert!(board.get(1) > 1, "the receiver was never short of descriptors");
    }
}

#[test]
fn a_sender_without_descriptors_is_told_so_and_loses_nothing() {
    let _turn = alone();
    let board = Board::new();
    let receiver = child(move || {
        let b = Endpoint::open(NUMBER).expect("an endpoint");
        b.pool(64 << 10).expect("a pool");
        board.set(0, 1);
        for i in 0..200 {
            let m = b.recv().expect("a message").to_vec();
            assert_eq!(m, message(0, i, m.len()));
            board.set(1, i + 1);
        }
        true
    });
    until("the receiver", || board.get(0) == 1);
    child(move || {
        limit_descriptors(40);
        let a = Endpoint::open(NUMBER + 1).expect("an endpoint");
        let mut plain = std::fs::File::from(a.as_fd().try_clone_to_owned().expect("a copy"));
        let used = use_up_descriptors(0);
        a.target(Addr::local(NUMBER)).expect("a target");
        // Once its receiver is known, its first call needs a descriptor, for its name; a plain write needs none.
        let sent = match a.send(&message(0, 0, 100)) {
            Ok(()) => 1,
            Err(e) => {
                assert!(e.errno() == libc::EMFILE && e.to_string().contains("ulimit -n"), "{e}");
                0
            }
        };
        (sent..50).for_each(|i| plain.write_all(&message(0, i, 100)).expect("a write"));
        sleep(Duration::from_millis(300));
        let service = cpu(std::process::id() as i32, true);
        assert!(service < Duration::from_millis(100), "the service used {service:?}");
        drop(used);
        until("what was written", || board.get(1) == 50);
        // Once it has an edge, it needs none for small messages, but for each long one.
        (50..100).for_each(|i| a.send(&message(0, i, 100)).expect("room"));
        until("what was sent", || board.get(1) == 100);
        let used = use_up_descriptors(0);
        for i in 100..150 {
            let e = a.send(&message(0, i, 300_000)).expect_err("no descriptor");
            assert_eq!(e.errno(), libc::EMFILE, "{e}");
            a.send(&message(0, i, 100)).expect("room");
        }
        drop(used);
        (150..200).for_each(|i| a.send(&message(0, i, 300_000)).expect("room"));
        until("all of it", || board.get(1) == 200);
        true
    })
    .ok();
    receiver.ok();
}

/// dp_open with any number of descriptors left works, or fails in words and leaves nothing.
#[test]
fn opening_with_few_descriptors() {
    let _turn = alone();
    let names = || {
        let files = std::fs::read_dir(folder()).into_iter().flatten().flatten();
        files.map(|f| f.file_name().to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    for but in 0..14 {
        child(move || {
            limit_descriptors(64);
            let used = use_up_descriptors(but);
            if let Err(e) = Endpoint::open(NUMBER) {
                assert!(e.errno() == libc::EMFILE && e.to_string().contains("ulimit -n"), "{but}: {e}");
                // Either the process has joined, whole, or there is no trace of it.
                let own = format!("{}-", std::process::id());
                let files = names().iter().filter(|name| name.starts_with(&own)).count();
                assert!(files == 0 || files == 2, "{but}: {:?}", names());
                let entry = std::fs::read_link(folder().join(NUMBER.to_string())).unwrap_or_default();
                assert!(!entry.to_string_lossy().starts_with(&own), "{but}: {entry:?}");
            }
            drop(used);
            Endpoint::open(NUMBER).is_ok()
        })
        .ok();
    }
    // The next one clears away what processes left that ended without exit(3), and then itself.
    child(|| {
        let e = Endpoint::open(NUMBER).expect("an endpoint");
        drop(e);
        std::process::exit(0)
    })
    .ok();
    // Other tests may have made this very process a member.
    let own = format!("{}-", std::process::id());
    assert!(names().iter().all(|name| name.starts_with(&own)), "{:?}", names());
}

/// A process that cannot even ask must not take a number for free.
#[test]
fn a_process_without_descriptors_takes_nobodys_number() {
    let _turn = alone();
    let board = Board::new();
    let owner = child(move || {
        let e = Endpoint::open(NUMBER).expect("an endpoint");
        board.set(0, 1);
        let m = e.recv().expect("a message").to_vec();
        m == b"yours"
    });
    until("the owner", || board.get(0) == 1);
    child(move || {
        limit_descriptors(64);
        let first = Endpoint::open(NUMBER + 1).expect("an endpoint");
        for but in 0..6 {
            let used = use_up_descriptors(but);
            let e = Endpoint::open(NUMBER).map(|_| ()).expect_err("it is taken");
            assert!([libc::EMFILE, libc::EADDRINUSE].contains(&e.errno()), "{e}");
            drop(used);
        }
        first.send_to(b"yours", Addr::local(NUMBER)).expect("room");
        until("it is delivered", || first.stat().sent.0 == 1);
        true
    })
    .ok();
    owner.ok();
}

fn address_space() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").expect("statm");
    status.split(' ').next().and_then(|pages| pages.parse::<u64>().ok()).expect("pages") * 4096
}

#[test]
fn a_receiver_without_address_space_loses_nothing() {
    let _turn = alone();
    let board = Board::new();
    let receiver = child(move || {
        let b = Endpoint::open(NUMBER).expect("an endpoint");
        let text = |e: Error| (e.errno(), e.to_string());
        let (_, hard) = getrlimit(Resource::RLIMIT_AS).expect("a limit");
        setrlimit(Resource::RLIMIT_AS, address_space() + (8 << 20), hard).expect("a limit");
        // The pool itself is only a promise.
        b.pool(1 << 30).expect("a pool");
        board.set(0, 1);
        // An edge cannot be mapped, so it comes through the descriptor; and 16 MiB nowhere.
        let small = b.recv().expect("a message").to_vec();
        assert_eq!(small, b"small");
        board.set(0, 2);
        let (errno, words) = text(b.recv().map(|_| ()).expect_err("no room"));
        assert!(errno == libc::ENOMEM && words.contains("RLIMIT_AS"), "{words}");
        setrlimit(Resource::RLIMIT_AS, hard, hard).expect("a limit");
        let long = b.recv().expect("the same message, now");
        assert_eq!(long.len(), 16 << 20);
        drop(long);
        let last = b.recv().expect("a message").to_vec();
        assert_eq!(last, b"last");
        true
    });
    until("the receiver", || board.get(0) == 1);
    child(move || {
        let a = Endpoint::open(0).expect("an endpoint");
        a.target(Addr::local(NUMBER)).expect("a target");
        a.send(b"small").expect("room");
        until("the first", || board.get(0) == 2);
        a.send(&vec![5; 16 << 20]).expect("room");
        a.send(b"last").expect("room");
        until("all", || a.stat().sent.0 == 3);
        sleep(Duration::from_millis(200));
        true
    })
    .ok();
    receiver.ok();
}

/// Descriptors in flight are limited for all processes of a user.
#[test]
fn too_many_descriptors_in_flight() {
    let _turn = alone();
    if !nix::unistd::geteuid().is_root() {
        return crate::kit::skip(
            "endurance: the limit of descriptors in flight needs root to be another user",
        );
    }
    let dir = std::env::temp_dir().join(format!("dp-in-flight-{}", std::process::id()));
    let at = dir.clone();
    child(move || {
        std::env::set_var("DP_RUNTIME_DIR", &at);
        nix::unistd::setgid(nix::unistd::Gid::from_raw(65534)).expect("a group");
        nix::unistd::setuid(nix::unistd::Uid::from_raw(65534)).expect("a user");
        limit_descriptors(50);
        let b = Endpoint::open(NUMBER).expect("an endpoint");
        let a = Endpoint::open(NUMBER + 1).expect("an endpoint");
        a.target(b.addr()).expect("a target");
        a.set_nonblocking(true).expect("a flag");
        let (mut sent, mut quiet) = (0, 0);
        while quiet < 50 {
            match a.send(&message(1, sent, 100)) {
                Ok(()) => (sent, quiet) = (sent + 1, 0),
                Err(Error::WouldBlock) => {
                    quiet += 1;
                    sleep(Duration::from_millis(5));
                }
                Err(e) => panic!("{e}"),
            }
        }
        assert!((50..400).contains(&sent), "{sent} messages");
        let before = cpu(std::process::id() as i32, true);
        sleep(Duration::from_millis(300));
        let used = cpu(std::process::id() as i32, true) - before;
        assert!(used < Duration::from_millis(50), "the service used {used:?} in 300 ms");
        b.pool(1 << 20).expect("a pool");
        (0..sent).for_each(|i| assert_eq!(b.recv().expect("a message").to_vec(), message(1, i, 100)));
        true
    })
    .ok();
    let _ = std::fs::remove_dir_all(dir);
}

/// A long message that waits for a receiver which reads plainly costs nobody's time, and goes once it has a pool.
#[test]
fn a_long_message_waits_for_a_pool() {
    let _turn = alone();
    child(|| {
        let pid = std::process::id() as i32;
        let a = Endpoint::open(0).expect("an endpoint");
        let b = Endpoint::open(NUMBER).expect("an endpoint");
        b.pool(64 << 10).expect("a pool");
        a.target(b.addr()).expect("a target");
        a.send(b"first").expect("room");
        assert_eq!(b.recv().expect("a message").to_vec(), b"first");
        until("an edge", || b.stat().edges == 1);
        a.send(&vec![1; 1 << 20]).expect("room");
        assert_eq!(b.recv().expect("a message").len(), 1 << 20);
        // The next one has none of its own yet.
        drop(b);
        a.set_nonblocking(true).expect("a flag");
        let sent = a.send(&vec![2; 1 << 20]);
        let b = Endpoint::open(NUMBER).expect("an endpoint");
        sleep(Duration::from_millis(100));
        let before = cpu(pid, true);
        sleep(Duration::from_millis(500));
        let used = cpu(pid, true) - before;
        assert!(used < Duration::from_millis(50), "the service used {used:?} in 500 ms");
        if sent.is_ok() {
            assert_eq!(b.recv().expect("the message").len(), 1 << 20);
        }
        true
    })
    .ok();
}

/// The descriptor is full of others' messages: a long one waits for that, not for room in its own edge.
#[test]
fn a_long_message_waits_for_room_on_the_descriptor() {
    let _turn = alone();
    child(|| {
        let b = Endpoint::open(NUMBER).expect("an endpoint");
        b.pool(4096).expect("a pool");
        let a = Endpoint::open(0).expect("an endpoint");
        a.target(b.addr()).expect("a target");
        a.send(b"first").expect("room");
        assert_eq!(b.recv().expect("a message").to_vec(), b"first");
        until("an edge", || b.stat().edges == 1);
        let other = Endpoint::open(0).expect("an endpoint");
        other.target(b.addr()).expect("a target");
        other.set_nonblocking(true).expect("a flag");
        let (mut sent, mut quiet) = (0, 0);
        while quiet < 20 {
            match other.send(&message(2, sent, 1000)) {
                Ok(()) => (sent, quiet) = (sent + 1, 0),
                Err(_) => {
                    quiet += 1;
                    sleep(Duration::from_millis(2));
                }
            }
        }
        a.send(&vec![3; 100_000]).expect("room");
        sleep(Duration::from_millis(50));
        let (mut others, mut long) = (0, 0);
        b.set_nonblocking(true).expect("a flag");
        until("all of them", || {
            while let Ok(m) = b.recv() {
                if m.len() == 100_000 {
                    long += 1;
                } else {
                    assert_eq!(m.to_vec(), message(2, others, 1000));
                    others += 1;
                }
            }
            (others, long) == (sent, 1)
        });
        assert!(a.as_raw_fd() > 2);
        true
    })
    .ok();
}

#[test]
fn thousands_of_endpoints_in_one_process() {
    let _turn = alone();
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
    if hard < 12_000 {
        return crate::kit::skip("endurance: 5000 endpoints need 12000 descriptors, the hard limit is below");
    }
    child(move || {
        limit_descriptors(12_000);
        let pid = std::process::id() as i32;
        let warm = Endpoint::open(0).expect("an endpoint");
        let before = descriptors(pid).len();
        let all: Vec<_> = (0..5000).map(|_| Endpoint::open(0).expect("an endpoint")).collect();
        for (k, e) in all.iter().enumerate().step_by(25) {
            e.send_to(&message(0, k as u64, 64), warm.addr()).expect("room");
            let m = warm.recv().expect("a message");
            assert_eq!((m.to_vec(), m.from()), (message(0, k as u64, 64), e.addr()));
        }
        // And one too many.
        let used = use_up_descriptors(1);
        let e = Endpoint::open(0).map(|_| ()).expect_err("no descriptor");
        assert!(e.to_string().contains("12000 descriptors"), "{e}");
        drop(used);
        drop(all);
        // The inbox of the one that received, and its connection to itself.
        until("descriptors come back", || descriptors(pid).len() <= before + 4);
        true
    })
    .ok();
}
