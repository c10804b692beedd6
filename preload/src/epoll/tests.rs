use std::os::fd::AsRawFd;
use std::os::fd::{FromRawFd, OwnedFd};

use dp_channel::bell::BY_BELL;
use dp_channel::family::Stage;

use super::*;
use crate::leave;
use crate::own::tests::another_has;
use crate::testing::{self, Pair};

fn kernels_set() -> OwnedFd {
    // SAFETY: made by the call, ours alone.
    unsafe { OwnedFd::from_raw_fd(libc::epoll_create1(libc::EPOLL_CLOEXEC)) }
}

fn event() -> Option<libc::epoll_event> {
    Some(libc::epoll_event { events: libc::EPOLLIN as u32, u64: 7 })
}

#[test]
fn a_set_that_we_did_not_see_begin_is_ours_from_the_first_connection_on() {
    let pair = Pair::live();
    let set = kernels_set();
    let (set, fd) = (set.as_raw_fd(), pair.server.fd);
    let mut pipe = [0; 2];
    // SAFETY: room for two.
    assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
    assert_eq!(ctl(set, libc::EPOLL_CTL_ADD, pipe[0], event()), None, "nothing of ours");
    assert_eq!(ctl(set, libc::EPOLL_CTL_MOD, fd, event()), None, "it cannot be in there");
    assert_eq!(ctl(set, libc::EPOLL_CTL_ADD, fd, event()), Some(Ok(())));
    assert!(matches!(fdtable::get(set), Entry::Epoll(_)));
    assert_eq!(pair.server.watched.load(Ordering::SeqCst), 1);
    assert_eq!(ctl(set, libc::EPOLL_CTL_ADD, fd, event()), Some(Err(libc::EEXIST)), "as in the kernel");
    assert_eq!(ctl(set, libc::EPOLL_CTL_DEL, fd, None), Some(Ok(())));
    assert_eq!(pair.server.watched.load(Ordering::SeqCst), 0);
    let Entry::Epoll(i) = fdtable::set(set, Entry::None) else { panic!("a set") };
    close(set, i);
}

#[test]
fn a_socket_that_is_registered_before_it_is_connected_is_that_connection_in_its_set() {
    let pair = Pair::new();
    let c = pair.client;
    let word = fdtable::clear(c.fd);
    let i = fdtable::conn_of(word).unwrap();
    let kernel = kernels_set();
    let set = kernel.as_raw_fd();
    let n = born(set).unwrap();
    // Not ours yet: the kernel's, by way of the set.
    if ctl(set, libc::EPOLL_CTL_ADD, c.fd, event()).is_none() {
        raw::epoll_ctl(set, libc::EPOLL_CTL_ADD, c.fd, event()).unwrap();
    }
    assert_eq!(c.watched.load(Ordering::SeqCst), 0);
    fdtable::begin(c.fd, i);
    connected(c.fd, i);
    assert_eq!(c.watched.load(Ordering::SeqCst), 1);
    assert_eq!(ctl(set, libc::EPOLL_CTL_DEL, c.fd, None), Some(Ok(())));
    assert_eq!(c.watched.load(Ordering::SeqCst), 0);
    fdtable::set(set, Entry::None);
    close(set, n);
}

#[test]
fn a_word_that_a_receive_made_hot_too_early_is_cold_in_a_set() {
    let pair = Pair::live();
    let c = pair.server;
    let kernel = kernels_set();
    let set = kernel.as_raw_fd();
    let n = born(set).unwrap();
    // The other end is live, and sends into the ring; this one has not noticed.
    c.set_stage(Stage::Accepted);
    assert!(c.receiving().word.make_hot());
    assert_eq!(ctl(set, libc::EPOLL_CTL_ADD, c.fd, event()), Some(Ok(())));
    assert!(!c.receiving().word.is_hot(), "a token would owe no bell, and nobody looks");
    assert_eq!(ctl(set, libc::EPOLL_CTL_DEL, c.fd, None), Some(Ok(())));
    fdtable::set(set, Entry::None);
    close(set, n);
}

/// A set in which a thread sleeps, with the server's end of a channel hot.
struct Slept {
    pair: Pair,
    kernel: OwnedFd,
    n: u32,
}

impl Slept {
    fn new() -> Slept {
        let pair = Pair::live();
        let c = pair.server;
        testing::send(pair.client, b"x", 0).unwrap();
        assert_eq!(testing::receive(c, 1).unwrap(), b"x");
        let kernel = kernels_set();
        let n = born(kernel.as_raw_fd()).unwrap();
        assert_eq!(ctl(kernel.as_raw_fd(), libc::EPOLL_CTL_ADD, c.fd, event()), Some(Ok(())));
        let slept = Slept { pair, kernel, n };
        with_index(n, |set, w| {
            assert!(w.make_hot(slept.conn()));
            set.enter(state::tid(), w);
            set.sleeps(state::tid(), true);
            w.each_group(|group| group.doze(BY_BELL));
        });
        slept
    }

    fn conn(&self) -> u32 {
        self.pair.server.family.entry_of(&self.pair.server)
    }

    /// Whether the kernel wakes whoever sleeps.
    fn is_told(&self) -> bool {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 2];
        // SAFETY: room for two.
        unsafe { raw::epoll_poll(self.kernel.as_raw_fd(), events.as_mut_ptr(), 2) == Ok(1) }
    }
}

impl Drop for Slept {
    fn drop(&mut self) {
        with_index(self.n, |set, w| set.leave(state::tid(), w));
        fdtable::set(self.kernel.as_raw_fd(), Entry::None);
        close(self.kernel.as_raw_fd(), self.n);
    }
}

#[test]
fn whoever_sleeps_in_a_set_hears_of_it_when_another_takes_its_bell_in_front_of_data() {
    let slept = Slept::new();
    let c = slept.pair.server;
    // A token, for which the bell is, more of them, and what has no room in the ring.
    let sent = testing::send(slept.pair.client, &[7; 100_000], 0).unwrap();
    assert!(sent > 8192, "{sent}");
    let mut got = 0;
    while got < sent {
        got += testing::receive(c, 100_000).unwrap().len();
    }
    assert_eq!(raw::queued(c.fd), Ok(0), "the bell as well");
    assert!(slept.is_told());
}

/// Another thread takes the bytes, leaves the bell, and then leaves the channel.
#[test]
fn whoever_sleeps_in_a_set_hears_of_it_when_a_channel_ends_with_its_bell() {
    let slept = Slept::new();
    let c = slept.pair.server;
    testing::send(slept.pair.client, b"y", 0).unwrap();
    assert_eq!(testing::receive(c, 1).unwrap(), b"y");
    assert_eq!(raw::queued(c.fd), Ok(1), "it stays for who sleeps");
    leave::leave(c.fd, dp_channel::family::Reason::Option);
    assert_eq!(raw::queued(c.fd), Ok(0), "a stranger would take it for a byte");
    assert!(slept.is_told());
}

/// This thread finds that out in the middle of a change of the set, or another one does while this is in there.
#[test]
fn whoever_sleeps_in_a_set_is_woken_when_it_is_free() {
    for another in [false, true] {
        let slept = Slept::new();
        let place = place(slept.n).unwrap();
        let locked = place.lock(slept.n).unwrap();
        match another {
            false => bell_was_taken(slept.conn()),
            true => std::thread::scope(|scope| drop(scope.spawn(|| bell_was_taken(slept.conn())))),
        }
        assert!(!slept.is_told(), "nobody else changes it");
        locked.unlock();
        assert!(slept.is_told());
    }
}

/// Nobody is in a set that is held for a fork.
#[test]
fn who_forks_may_use_its_sets_and_has_them_still() {
    let slept = Slept::new();
    let place = place(slept.n).unwrap();
    let _kept = place.lock(slept.n).unwrap();
    place.lock.keep_for_a_fork();
    let other =
        || std::thread::scope(|scope| scope.spawn(|| place.lock_soon(slept.n).is_some()).join().unwrap());
    with_index(slept.n, |set, _| assert!(set.is_slept_in()));
    assert!(place.lock_soon(slept.n).map(Locked::unlock).is_some());
    assert!(!other());
    assert!(place.lock.unlock_after_a_fork());
    place.lock(slept.n).unwrap().unlock();
}

#[test]
fn a_program_that_becomes_another_leaves_no_word_hot() {
    let pair = Pair::live();
    let c = pair.server;
    testing::send(pair.client, b"x", 0).unwrap();
    assert_eq!(testing::receive(c, 1).unwrap(), b"x");
    let kernel = kernels_set();
    let set = kernel.as_raw_fd();
    let n = born(set).unwrap();
    assert_eq!(ctl(set, libc::EPOLL_CTL_ADD, c.fd, event()), Some(Ok(())));
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 2];
    let mut looks = || {
        let now = |set, events, max, _| {
            // SAFETY: the array below.
            unsafe { raw::epoll_poll(set, events, max) }
        };
        wait(set, n, events.as_mut_ptr(), 2, 0, false, now).unwrap().unwrap()
    };
    while !c.receiving().word.is_hot() {
        testing::send(pair.client, b"y", 0).unwrap();
        assert_eq!(looks(), 1);
        assert_eq!(testing::receive(c, 1).unwrap(), b"y");
    }
    before_exec();
    assert!(!c.receiving().word.is_hot());
    // It did not become one.
    testing::send(pair.client, b"z", 0).unwrap();
    assert_eq!((looks(), looks()), (1, 1), "it is told");
    assert!(c.receiving().word.is_hot(), "and hot again");
    fdtable::set(set, Entry::None);
    close(set, n);
}

/// As Erlang's runtime has it: a socket that was told its one event in one set, and often has something, is watched by a second one.
#[test]
fn one_event_that_was_told_in_another_set_costs_no_bells_until_it_is_asked_for_again() {
    let pair = Pair::live();
    let (c, fd) = (pair.server, pair.server.fd);
    testing::send(pair.client, b"x", 0).unwrap();
    assert_eq!(testing::receive(c, 1).unwrap(), b"x");
    let kernels = [kernels_set(), kernels_set()];
    let [first, second] = kernels.each_ref().map(|set| (set.as_raw_fd(), born(set.as_raw_fd()).unwrap()));
    let looks = |(set, n)| {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 2];
        let now = |set, events, max, _| {
            // SAFETY: the array above.
            unsafe { raw::epoll_poll(set, events, max) }
        };
        wait(set, n, events.as_mut_ptr(), 2, 0, false, now).unwrap().unwrap()
    };
    let once = Some(libc::epoll_event { events: (libc::EPOLLIN | libc::EPOLLONESHOT) as u32, u64: 8 });
    assert_eq!(ctl(first.0, libc::EPOLL_CTL_ADD, fd, once), Some(Ok(())));
    testing::send(pair.client, b"y", 0).unwrap();
    assert_eq!(looks(first), 1);
    assert_eq!(testing::receive(c, 1).unwrap(), b"y");
    assert_eq!(ctl(second.0, libc::EPOLL_CTL_ADD, fd, event()), Some(Ok(())));
    let turns = || {
        let before = pair.client.bells.load(Ordering::Relaxed);
        for _ in 0..20 {
            testing::send(pair.client, b"z", 0).unwrap();
            assert_eq!(looks(second), 1);
            assert_eq!(testing::receive(c, 1).unwrap(), b"z");
        }
        pair.client.bells.load(Ordering::Relaxed) - before
    };
    assert_eq!((turns(), turns()), (1, 0), "the first makes it hot");
    // Both are to be told from here on, also of what comes before anybody looks.
    assert_eq!(ctl(first.0, libc::EPOLL_CTL_MOD, fd, once), Some(Ok(())));
    testing::send(pair.client, b"z", 0).unwrap();
    assert_eq!((looks(first), looks(second)), (1, 1));
    assert_eq!(testing::receive(c, 1).unwrap(), b"z");
    assert_eq!(ctl(first.0, libc::EPOLL_CTL_MOD, fd, once), Some(Ok(())));
    assert_eq!(turns(), 20, "each is to wake who sleeps in the first");
    // The same where the first try is refused.
    testing::send(pair.client, b"z", 0).unwrap();
    assert_eq!((looks(first), looks(second)), (1, 1));
    assert_eq!(testing::receive(c, 1).unwrap(), b"z");
    let no = Some(libc::epoll_event { events: (libc::EPOLLIN | libc::EPOLLEXCLUSIVE) as u32, u64: 8 });
    assert_eq!((turns(), turns()).1, 0, "it rests again");
    assert!(matches!(ctl(first.0, libc::EPOLL_CTL_MOD, fd, no), Some(Err(_))));
    assert_eq!(ctl(first.0, libc::EPOLL_CTL_MOD, fd, once), Some(Ok(())));
    assert_eq!(turns(), 20, "so is each behind a change that was refused");
    for (set, n) in [first, second] {
        fdtable::set(set, Entry::None);
        close(set, n);
    }
    assert_eq!(c.watched.load(Ordering::SeqCst), 0);
}

#[test]
fn a_fork_waits_for_whoever_is_in_a_set_and_keeps_others_out() {
    crate::testing::start();
    let kernel = kernels_set();
    let set = kernel.as_raw_fd();
    let n = born(set).unwrap();
    let place = place(n).unwrap();
    let (inside, over) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let locked = place.lock(n).unwrap();
            inside.store(true, Ordering::SeqCst);
            std::thread::sleep(std::time::Duration::from_millis(3));
            over.store(true, Ordering::SeqCst);
            locked.unlock();
        });
        while !inside.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        hold_still(Others::Wait);
        assert!(over.load(Ordering::SeqCst), "the child would have it half changed");
        // Others that fork at the same time, too.
        let kept_out = scope.spawn(|| {
            go_on();
            place.lock_soon(n).is_none()
        });
        assert!(kept_out.join().unwrap());
        // Its set was closed just before it was held.
        place.taken.store(false, Ordering::Relaxed);
        go_on();
        place.taken.store(true, Ordering::Relaxed);
        assert!(place.lock_soon(n).map(Locked::unlock).is_some());
    });
    fdtable::set(set, Entry::None);
    close(set, n);
}

/// A set ends the last registration of a connection while another one, which has noted itself, is about to count its own.
#[test]
fn a_registration_that_begins_beside_the_end_of_the_last_one_is_found() {
    let pair = Pair::live();
    let fd = pair.server.fd;
    let conn = fdtable::conn(fd).unwrap();
    let kernels = [kernels_set(), kernels_set()];
    let sets = kernels.each_ref().map(|set| (set.as_raw_fd(), born(set.as_raw_fd()).unwrap()));
    assert_eq!(ctl(sets[0].0, libc::EPOLL_CTL_ADD, fd, event()), Some(Ok(())));
    assert!(world::note(conn, sets[1].1));
    assert_eq!(ctl(sets[0].0, libc::EPOLL_CTL_DEL, fd, None), Some(Ok(())));
    assert!(!matches!(world::registered(conn), world::Registered::Nowhere));
    begins(conn);
    assert!(matches!(world::registered(conn), world::Registered::Nowhere), "another connection");
    for (fd, i) in sets {
        fdtable::set(fd, Entry::None);
        close(fd, i);
    }
}

/// The program has put something at the number of a set's event, and closed that; now another one of ours has the number.
#[test]
fn a_set_is_woken_by_bells_where_its_event_is_gone() {
    crate::testing::start();
    let kernel = kernels_set();
    let set = kernel.as_raw_fd();
    let n = born(set).unwrap();
    let event = &place(n).unwrap().event;
    let (number, fd) = event.of(set).unwrap();
    assert_eq!(event.how(), number);
    let other = another_has(fd);
    assert_eq!(event.how(), BY_BELL);
    fdtable::set(set, Entry::None);
    close(set, n);
    assert_eq!(other.fd(), Some(fd), "it is not the set's to close");
    other.close();
}

/// What its parent has sent to wake threads of its own is in the kernel's set, which both have.
#[test]
fn a_child_wakes_its_threads_by_what_is_its_own() {
    crate::testing::start();
    let kernel = kernels_set();
    let set = kernel.as_raw_fd();
    let n = born(set).unwrap();
    with_index(n, |_, w| assert!(w.kick(1)));
    let values = || {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 4];
        // SAFETY: room for four.
        let got = unsafe { raw::epoll_poll(set, events.as_mut_ptr(), 4) }.unwrap_or(0) as usize;
        events.map(|e| e.u64)[..got].iter().fold(0, |all, value| all | 1 << value)
    };
    let mut status = -1;
    // SAFETY: the child makes system calls, and nothing else, until it ends.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            let mut w = Ground::new(place(n).unwrap(), n);
            let put = w.kick(2);
            let both = put && values() == 1 << 1 | 1 << 2;
            w.unkick();
            libc::_exit(i32::from(!both));
        }
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
    }
    assert_eq!(status, 0, "its own is not in the set");
    with_index(n, |_, w| {
        w.unkick();
        assert!(w.kick(4));
    });
    assert_eq!(values(), 1 << 4);
    fdtable::set(set, Entry::None);
    close(set, n);
}

/// The thread that slept in the other set was cancelled there, or its relative is stopped: nobody takes the bell that tells it.
#[test]
fn a_wait_does_not_wake_for_ever_by_a_bell_that_is_for_a_set_which_never_wakes() {
    let slept = Slept::new();
    let c = slept.pair.server;
    let kernel = kernels_set();
    let set = kernel.as_raw_fd();
    let n = born(set).unwrap();
    assert_eq!(ctl(set, libc::EPOLL_CTL_ADD, c.fd, event()), Some(Ok(())));
    testing::send(slept.pair.client, b"y", 0).unwrap();
    assert_eq!(testing::receive(c, 1).unwrap(), b"y");
    assert_eq!(raw::queued(c.fd), Ok(1), "it stays for who sleeps");
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 2];
    let calls = core::cell::Cell::new(0);
    let sleeps = |set, events: *mut libc::epoll_event, max, timeout: i64| {
        calls.set(calls.get() + 1);
        // SAFETY: the array above.
        match unsafe { libc::epoll_wait(set, events, max, ((timeout + 999_999) / 1_000_000) as i32) } {
            n @ 0.. => Ok(n),
            _ => Err(crate::errno::errno()),
        }
    };
    assert_eq!(wait(set, n, events.as_mut_ptr(), 2, 900_000_000, false, sleeps), Some(Ok(0)));
    assert!(calls.get() < 200, "{}", calls.get());
    assert_eq!(raw::queued(c.fd), Ok(0), "nobody would take it any more");
    assert!(slept.is_told(), "it may wake after all");
    fdtable::set(set, Entry::None);
    close(set, n);
}

/// The handler of a signal that came in the middle of another change of the set.
#[test]
fn what_a_handler_inside_a_set_registers_is_the_kernels_to_tell_of() {
    let pair = Pair::live();
    let c = pair.server;
    let kernel = kernels_set();
    let set = kernel.as_raw_fd();
    let n = born(set).unwrap();
    assert!(c.receiving().word.make_hot());
    let locked = place(n).unwrap().lock(n).unwrap();
    assert_eq!(ctl(set, libc::EPOLL_CTL_ADD, c.fd, event()), None);
    locked.unlock();
    assert!(!c.receiving().word.is_hot() && c.armed_by.load(Ordering::SeqCst) != 0, "nobody looks");
    fdtable::set(set, Entry::None);
    close(set, n);
}

/// Another thread closes the last number of a set while this one makes a copy of it, and a further set has its place: the copy's close
/// would close that.
#[test]
fn a_copy_of_a_set_that_was_closed_is_not_the_next_one() {
    testing::start();
    let kernel = kernels_set();
    let fd = kernel.as_raw_fd();
    let i = born(fd).unwrap();
    let set = at(fd).unwrap();
    let refs = || place(i).unwrap().refs.load(Ordering::Relaxed);
    assert!(retain(set));
    assert_eq!(refs(), 2);
    assert!(!retain(SetName { life: set.life.wrapping_sub(1), ..set }));
    assert_eq!(refs(), 2);
    close(-1, i);
    fdtable::set(fd, Entry::None);
    assert_eq!(at(fd), None);
    close(fd, i);
    assert!(!retain(set));
}
