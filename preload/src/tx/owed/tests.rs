use core::cell::Cell;
use core::sync::atomic::AtomicUsize;
use std::thread;
use std::time::{Duration, Instant};

use dp_edge::ring;
use dp_edge::sys::raw;

use super::*;
use crate::testing::{receive, send, Pair};
use crate::{epoll, life, ops, wait};

/// A sender whose receiver has become somebody who knows no channels, while the kernel had no room; and how many bytes it has.
fn owes() -> (Pair, usize) {
    let pair = Pair::live();
    let (to, from) = (pair.client, pair.server);
    assert_eq!(send(to, b"first", 0), Ok(5));
    assert_eq!(receive(from, 100).as_deref(), Ok(&b"first"[..]));
    assert_eq!(send(to, &[7; 1000], 0), Ok(1000));
    let (block, mut full) = (vec![0u8; 65536], 0);
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the block.
    let fill = || unsafe { raw::send(to.fd, block.as_ptr(), block.len(), flags) };
    while let Ok(n) = fill() {
        full += n;
    }
    from.receiving().word.leave_raw(false);
    to.follow_if_left();
    assert!(to.has(Conn::OWES));
    (pair, full)
}

/// Such a sender `waits` for the answer to all that it has sent.
fn goes_to_tcp(waits: impl FnOnce(Channel)) {
    let (pair, full) = owes();
    let (to, from) = (pair.client, pair.server);
    let (came, until) = (AtomicUsize::new(0), Instant::now() + Duration::from_secs(8));
    thread::scope(|s| {
        s.spawn(|| {
            // The wait has begun, and found no room.
            thread::sleep(Duration::from_millis(300));
            let mut room = vec![0u8; 1 << 20];
            while came.load(Ordering::Relaxed) < full + 1000 && Instant::now() < until {
                // SAFETY: the room.
                match unsafe { raw::recv(from.fd, room.as_mut_ptr(), room.len(), libc::MSG_DONTWAIT) } {
                    Ok(n) => drop(came.fetch_add(n, Ordering::Relaxed)),
                    Err(_) => thread::sleep(Duration::from_millis(5)),
                }
            }
            // SAFETY: a byte.
            assert_eq!(unsafe { raw::send(from.fd, [1u8].as_ptr(), 1, libc::MSG_NOSIGNAL) }, Ok(1));
        });
        waits(to);
    });
    let came = came.into_inner();
    // A bell is there, too.
    assert!(came >= full + 1000, "{came} bytes of {full} and 1000");
    assert!(!to.has(Conn::OWES));
}

fn ms(ns: i64) -> i32 {
    if ns < 0 {
        -1
    } else {
        (ns / 1_000_000) as i32
    }
}

#[test]
fn a_poll_puts_on_tcp_what_is_owed() {
    goes_to_tcp(|to| {
        let mut list = [libc::pollfd { fd: to.fd, events: libc::POLLIN, revents: 0 }];
        let poll = |fds: &mut [libc::pollfd], ns| {
            // SAFETY: as many as there are.
            Ok(unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as _, ms(ns)) })
        };
        assert_eq!(wait::poll(&mut list, -1, true, poll), Ok(1));
    });
}

/// Waits until there is something to read, in a set with nothing else.
fn waits_in_a_set(fd: i32) {
    waits_in_a_set_after(|| {}, fd);
}

fn waits_in_a_set_after(what: impl FnOnce(), fd: i32) {
    // SAFETY: a number.
    let set = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    let n = epoll::born(set).expect("room");
    what();
    let mut events = [libc::epoll_event { events: libc::EPOLLIN as u32, u64: 7 }; 2];
    assert_eq!(epoll::ctl(set, libc::EPOLL_CTL_ADD, fd, Some(events[0])), Some(Ok(())));
    let sleeps = |set, events: *mut libc::epoll_event, max, ns| {
        // SAFETY: the array above.
        Ok(unsafe { libc::epoll_wait(set, events, max, ms(ns)) })
    };
    assert_eq!(epoll::wait(set, n, events.as_mut_ptr(), 2, -1, true, sleeps), Some(Ok(1)));
    fdtable::set(set, Entry::None);
    epoll::close(set, n);
    raw::close(set);
}

#[test]
fn a_wait_on_a_set_puts_on_tcp_what_is_owed() {
    goes_to_tcp(|to| waits_in_a_set(to.fd));
}

/// Until all is paid, or for some seconds: a wait for something that nobody else knows anything of.
fn waits_for_a_pipe(to: Channel, wait: impl FnOnce(i32)) {
    let mut pipe = [0; 2];
    // SAFETY: room for two.
    assert_eq!(unsafe { libc::pipe2(pipe.as_mut_ptr(), libc::O_CLOEXEC) }, 0);
    thread::scope(|s| {
        s.spawn(|| {
            let until = Instant::now() + Duration::from_secs(8);
            while to.has(Conn::OWES) && Instant::now() < until {
                thread::sleep(Duration::from_millis(5));
            }
            // SAFETY: a byte.
            assert_eq!(unsafe { libc::write(pipe[1], [1u8].as_ptr().cast(), 1) }, 1);
        });
        wait(pipe[0]);
    });
    pipe.into_iter().for_each(raw::close);
}

#[test]
fn a_poll_of_what_is_no_channel_puts_on_tcp_what_is_owed() {
    goes_to_tcp(|to| {
        waits_for_a_pipe(to, |fd| {
            let mut list = [libc::pollfd { fd, events: libc::POLLIN, revents: 0 }];
            // SAFETY: one entry.
            assert_eq!(unsafe { ops::wait::poll(list.as_mut_ptr(), 1, -1) }, 1);
            assert_eq!(list[0].revents, libc::POLLIN);
        });
    });
}

#[test]
fn a_select_of_what_is_no_channel_puts_on_tcp_what_is_owed() {
    goes_to_tcp(|to| {
        waits_for_a_pipe(to, |fd| {
            let null = core::ptr::null_mut();
            // SAFETY: the set.
            unsafe {
                let mut set: libc::fd_set = core::mem::zeroed();
                libc::FD_SET(fd, &mut set);
                assert_eq!(ops::select::select(fd + 1, &mut set, null, null, null.cast()), 1);
                assert!(libc::FD_ISSET(fd, &set));
            }
        });
    });
}

/// A loop that never sleeps.
#[test]
fn a_poll_that_always_finds_something_puts_on_tcp_what_is_owed() {
    goes_to_tcp(|to| {
        let another = Pair::live();
        assert_eq!(send(another.client, b"there", 0), Ok(5));
        let fd = another.server.fd;
        let until = Instant::now() + Duration::from_secs(8);
        while to.has(Conn::OWES) && Instant::now() < until {
            let mut list = [libc::pollfd { fd, events: libc::POLLIN, revents: 0 }];
            // SAFETY: one entry.
            assert_eq!(unsafe { ops::wait::poll(list.as_mut_ptr(), 1, -1) }, 1);
        }
    });
}

/// A set that looks after that each second looks for wake-ups that were lost at longer and longer times all the same.
#[test]
fn a_set_finds_what_was_lost_while_something_is_owed() {
    let _owes = owes();
    let pair = Pair::live();
    let c = pair.server;
    // Both are in the ring afterwards.
    assert_eq!(send(pair.client, b"first", 0), Ok(5));
    assert_eq!(receive(c, 100).as_deref(), Ok(&b"first"[..]));
    // SAFETY: a number.
    let set = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    let n = epoll::born(set).expect("room");
    let mut events = [libc::epoll_event { events: libc::EPOLLIN as u32, u64: 7 }; 2];
    assert_eq!(epoll::ctl(set, libc::EPOLL_CTL_ADD, c.fd, Some(events[0])), Some(Ok(())));
    let (slept, is_lost) = (Cell::new(0), Cell::new(false));
    // It brings nothing, at once. The time of the first net is over when a token comes without a bell.
    let sleeps = |_, _: *mut libc::epoll_event, _, ns: i64| {
        if slept.get() > 20_000_000_000 {
            return Err(libc::EINTR);
        }
        if slept.get() >= 1_500_000_000 && !is_lost.get() {
            let to = pair.client;
            ring::commit(&to.sending().ring(), to.tail().pos, 4, ring::Kind::Data).expect("room");
            is_lost.set(true);
        }
        slept.set(slept.get() + ns);
        Ok(0)
    };
    assert_eq!(epoll::wait(set, n, events.as_mut_ptr(), 2, -1, true, sleeps), Some(Ok(1)));
    assert!(slept.get() <= 4_000_000_000, "after {} ns", slept.get());
    fdtable::set(set, Entry::None);
    epoll::close(set, n);
    raw::close(set);
}

/// A wait that began before there was something to pay, in a thread that nothing else wakes for `rest`: another thread begins to owe,
/// and goes elsewhere. `waits` lasts until its descriptor, which is no channel, has a byte.
fn sleeps_since_before(rest: Duration, waits: impl FnOnce(i32) + Send) {
    let mut pipe = [0; 2];
    // SAFETY: room for two.
    assert_eq!(unsafe { libc::pipe2(pipe.as_mut_ptr(), libc::O_CLOEXEC) }, 0);
    thread::scope(|s| {
        s.spawn(|| waits(pipe[0]));
        thread::sleep(rest);
        let (pair, full) = owes();
        let from = pair.server;
        let (mut came, until) = (0, Instant::now() + Duration::from_secs(2));
        let mut room = vec![0u8; 1 << 20];
        while came < full + 1000 && Instant::now() < until {
            // SAFETY: the room.
            match unsafe { raw::recv(from.fd, room.as_mut_ptr(), room.len(), libc::MSG_DONTWAIT) } {
                Ok(n) => came += n,
                Err(_) => thread::sleep(Duration::from_millis(5)),
            }
        }
        // SAFETY: a byte.
        assert_eq!(unsafe { libc::write(pipe[1], [1u8].as_ptr().cast(), 1) }, 1);
        assert!(came >= full + 1000, "{came} bytes of {full} and 1000");
    });
    pipe.into_iter().for_each(raw::close);
}

/// Of a set in which there is no channel nobody tells anything, and no net is cast.
#[test]
fn a_thread_that_sleeps_in_a_set_already_puts_on_tcp_what_another_begins_to_owe() {
    sleeps_since_before(Duration::from_millis(300), waits_in_a_set);
}

/// The same of a set that was there at a fork, of whose child nobody has heard.
#[test]
fn a_fork_from_before_is_in_no_sleepers_way() {
    let _family = Pair::live();
    let forks = || {
        epoll::hold_still(epoll::Others::GoOn);
        epoll::go_on();
    };
    sleeps_since_before(Duration::from_millis(300), |fd| waits_in_a_set_after(forks, fd));
}

/// The third net of a poll, which is cast after seven seconds, comes too late.
#[test]
fn a_thread_that_sleeps_in_a_poll_already_puts_on_tcp_what_another_begins_to_owe() {
    let pair = Pair::live();
    let c = pair.server;
    c.link.store(1 << 32 | 1, Ordering::Relaxed);
    sleeps_since_before(Duration::from_millis(3500), |fd| {
        let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let poll = |fds: &mut [libc::pollfd], ns| {
            // SAFETY: as many as there are.
            Ok(unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as _, ms(ns)) })
        };
        assert_eq!(wait::poll(&mut [entry(c.fd), entry(fd)], -1, true, poll), Ok(1));
    });
}

/// The number of a connection is closed by another thread, which puts something else there, and the connection has another number yet:
/// whoever had found it just before that puts nothing into what is there now.
#[test]
fn what_is_owed_does_not_go_to_what_has_the_number_by_now() {
    let (pair, _) = owes();
    let to = pair.client;
    // SAFETY: numbers.
    let copy = unsafe { libc::fcntl(to.fd, libc::F_DUPFD_CLOEXEC, 3) };
    life::copied(to.fd, copy, life::copying(to.fd));
    let [near, far] = raw::socket_pair().expect("a pair");
    // SAFETY: numbers.
    assert_eq!(life::in_one_step(to.fd, None, || unsafe { libc::dup2(near, to.fd) }), to.fd);
    to.follow_if_left();
    let mut byte = 0u8;
    // SAFETY: a byte.
    assert_eq!(unsafe { raw::recv(far, &mut byte, 1, libc::MSG_DONTWAIT) }, Err(libc::EAGAIN));
    assert!(to.has(Conn::OWES));
    fdtable::clear(copy);
    [copy, near, far].into_iter().for_each(raw::close);
}
