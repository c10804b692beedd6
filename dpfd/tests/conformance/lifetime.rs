//! Opening, closing, coming back.

use std::fs;
use std::io::Write;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::path::Path;

use dpfd::driver::Driver;
use dpfd::{Endpoint, Message};

use crate::kit::*;

pub fn a_number_is_free_at_once_after_close(d: Driver) {
    let n = numbers(1);
    for _ in 0..200 {
        drop(open(d, n));
    }
    // Another process, told only that it is closed, can have it at once, too. (It is there before the endpoint is
    // opened, or it would hold it as well.)
    let (told, tell) = nix::unistd::pipe().expect("a pipe");
    let (mut told, mut tell) = (fs::File::from(told), fs::File::from(tell));
    let c = child(move || {
        use std::io::Read;
        told.read_exact(&mut [0]).expect("told");
        Endpoint::open_on(d, n).is_ok()
    });
    let e = open(d, n);
    let error = Endpoint::open_on(d, n).unwrap_err();
    assert_eq!(error.errno(), libc::EADDRINUSE, "{error}");
    drop(e);
    tell.write_all(b"x").expect("a byte");
    c.ok();
}

pub fn a_plain_close_is_enough(d: Driver) {
    let (a, b) = pair(d);
    let n = b.dpid();
    let (fd, _) = (file(&b).into_raw_fd(), drop(b));
    // SAFETY: ours, and not used again.
    assert_eq!(unsafe { libc::close(fd) }, 0);
    let b = reopen(d, n);
    a.send(b"to the new one").expect("kept until then");
    assert_eq!(recv(&b), b"to the new one");
}

pub fn closing_with_messages_waiting(d: Driver) {
    for pool in [false, true] {
        let (a, b) = pair(d);
        if pool {
            b.pool(64 << 10).expect("a pool");
        }
        (0..10).for_each(|i| a.send(&numbered(i, 30)).expect("room"));
        let n = b.dpid();
        assert!(becomes_readable(&b));
        drop(b);
        // Those died with their receiver; later ones are for the next.
        let b = reopen(d, n);
        until("the new one is found", || {
            a.send(&numbered(99, 30)).expect("room");
            std::thread::sleep(std::time::Duration::from_millis(2));
            readable(&b)
        });
        // Some may not have reached the old one: those come first.
        let mut next = 0;
        loop {
            match number_of(&recv(&b)) {
                99 => break,
                i => {
                    assert!((next..10).contains(&i), "message {i} after {next}");
                    next = i + 1;
                }
            }
        }
    }
}

pub fn what_was_written_before_the_close_arrives(d: Driver) {
    for late in [false, true] {
        let first = numbers(2);
        let a = open(d, first);
        a.target(local(first + 1)).expect("a target");
        let b = (!late).then(|| open(d, first + 1));
        (0..50u64).for_each(|i| {
            if i % 2 == 0 {
                write(&a, &numbered(i, 30))
            } else {
                a.send(&numbered(i, 30)).expect("room")
            }
        });
        drop(a);
        let b = b.unwrap_or_else(|| open(d, first + 1));
        (0..50u64).for_each(|i| assert_eq!(number_of(&recv(&b)), i));
    }
}

pub fn a_target_that_comes_back(d: Driver) {
    let (a, b) = pair(d);
    let n = b.dpid();
    a.send(b"first").expect("room");
    assert_eq!(recv(&b), b"first");
    drop(b);
    for i in 0..5u64 {
        let b = reopen(d, n);
        until("it is found again", || {
            a.send(&numbered(i, 16)).expect("room");
            std::thread::sleep(std::time::Duration::from_millis(2));
            readable(&b)
        });
        drop(b.recv());
    }
}

pub fn a_reused_descriptor_never_reaches_the_old_endpoint(d: Driver) {
    let (a, b) = pair(d);
    let number = a.as_raw_fd();
    drop(a);
    let c = open(d, numbers(1));
    // The lowest free number is likely the same; whichever it is, it has no target.
    let error = c.send(b"stray").unwrap_err();
    assert_eq!(error.errno(), libc::EDESTADDRREQ, "{number}: {error}");
    b.set_nonblocking(true).expect("a flag");
    assert!(is_would_block(&b.recv().unwrap_err()));
}

pub fn sending_on_a_replaced_descriptor_is_an_error(d: Driver) {
    let (a, b) = pair(d);
    // As often as it takes until calls do not look at the descriptor any more.
    for i in 0..100 {
        a.send(&numbered(i, 16)).expect("room");
        assert_eq!(number_of(&recv(&b)), i);
    }
    let null = fs::File::open("/dev/null").expect("a file");
    // SAFETY: the number stays open, and ours: what changes is only what it stands for.
    assert!(unsafe { libc::dup2(null.as_raw_fd(), a.as_raw_fd()) } >= 0);
    let entry = folder().join(a.dpid().to_string());
    until("its number is free", || fs::symlink_metadata(&entry).is_err());
    until("the driver has noticed, too", || a.send(b"after").is_err());
    for to in [None, Some(b.addr()), Some(local(numbers(1)))] {
        let sent = to.map_or_else(|| a.send(b"after"), |to| a.send_to(b"after", to));
        let error = sent.unwrap_err();
        assert!([libc::EBADF, libc::ESHUTDOWN].contains(&error.errno()), "to {to:?}: {error}");
    }
}

pub fn what_was_written_before_the_exit_arrives(d: Driver) {
    let first = numbers(2);
    let b = open(d, first + 1);
    // Ends by exit(3) right behind its writes.
    let c = child(move || {
        let a = open(d, first);
        a.target(local(first + 1)).expect("a target");
        (0..15u64).for_each(|i| write(&a, &numbered(i, 30)));
        (15..30u64).for_each(|i| a.send(&numbered(i, 30)).expect("room"));
        std::mem::forget(a);
        std::process::exit(0)
    });
    c.ok();
    (0..30u64).for_each(|i| assert_eq!(number_of(&recv(&b)), i));
}

pub fn many_endpoints_in_one_process(d: Driver) {
    let all: Vec<_> = (0..500).map(|_| open(d, 0)).collect();
    let a = open(d, 0);
    for b in all.iter().step_by(50) {
        a.send_to(b"you", b.addr()).expect("room");
        assert_eq!(recv(b), b"you");
    }
    let mut numbers: Vec<_> = all.iter().map(Endpoint::dpid).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 500);
}

pub fn nothing_is_left(d: Driver) {
    let first = numbers(40);
    // In a process of its own: others are at work in this one.
    child(move || {
        let lasts = |link: &Path| !link.to_string_lossy().contains("inotify");
        let opened = || {
            // The service keeps its watch of the registry until something happens there.
            let all = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
            all.filter(|f| fs::read_link(f.path()).is_ok_and(|link| lasts(&link))).count()
        };
        let turn = |k: u16| {
            let (a, b) = (open(d, first + 2 * k), open(d, first + 2 * k + 1));
            a.target(b.addr()).expect("a target");
            (0..100).for_each(|i| a.send(&numbered(i, 100)).expect("room"));
            (0..100).all(|i| number_of(&recv(&b)) == i)
        };
        let mut good = turn(0);
        std::thread::sleep(std::time::Duration::from_millis(100));
        let before = opened();
        for k in 1..20 {
            good &= turn(k);
        }
        until("descriptors come back", || opened() <= before);
        good
    })
    .ok();
    let left = |n: u16| fs::symlink_metadata(folder().join(n.to_string())).is_ok();
    assert!(!(first..first + 40).any(left), "entries left");
}

/// A program may catch its own panics around calls.
#[test]
fn endpoints_are_as_unwind_safe_as_with_a_mutex() {
    fn is<T: std::panic::UnwindSafe + std::panic::RefUnwindSafe>() {}
    is::<Endpoint>();
    is::<Message<'_>>();
}
