use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize};
use std::sync::{mpsc, Mutex, PoisonError};

use dp_channel::slot::Tuple;
use dp_edge::ring::Cursor;

use super::*;

use crate::enforce;
use crate::testing::{self, receive, send, Pair};
use crate::walk::Walk;

/// While another thread is in a call by the number of a connection at `stage`, counted or not: what [`is_quiet`] says.
fn quiet_beside_a_call(stage: Stage, counted: bool) -> bool {
    let pair = Pair::new();
    let c = pair.client;
    c.set_stage(stage);
    let word = fdtable::word(c.fd);
    let i = fdtable::conn_of(word).expect("a connection");
    assert!(is_quiet(c.fd, i, word), "nobody is in a call");
    let (tell, told) = mpsc::channel();
    let (go, going) = mpsc::channel::<()>();
    let quiet = std::thread::scope(|scope| {
        scope.spawn(move || {
            let frame = 0u8;
            let inside = inside::Inside::enter(c.fd, &frame).expect("a connection");
            assert!(!inside.is_sole(), "this program has two threads");
            c.tx_flight.fetch_add(counted.into(), Ordering::SeqCst);
            tell.send(()).expect("somebody waits");
            // Until the other end of this is dropped.
            let _ = going.recv();
            c.tx_flight.fetch_sub(counted.into(), Ordering::SeqCst);
            inside.leave();
        });
        told.recv().expect("the call began");
        let quiet = is_quiet(c.fd, i, word);
        drop(go);
        quiet
    });
    assert!(is_quiet(c.fd, i, word), "the call is over");
    quiet
}

#[test]
fn a_call_on_what_stays_on_tcp_is_found_by_its_note_and_not_waited_for_for_ever() {
    assert!(!quiet_beside_a_call(Stage::Plain, false));
}

#[test]
fn a_call_on_a_candidate_is_found_by_its_count() {
    assert!(!quiet_beside_a_call(Stage::Candidate, true));
}

#[test]
fn a_call_in_a_channel_finds_its_number_by_itself() {
    assert!(quiet_beside_a_call(Stage::Accepted, false));
}

/// A page of a program's that is not there yet: whoever touches it waits in [`wait_for_memory`].
static PAGE: AtomicUsize = AtomicUsize::new(0);
/// 1: a send is in the middle of that; 2: the memory may come.
static STEP: AtomicU32 = AtomicU32::new(0);
/// What is done there: nothing, or this number is closed.
static CLOSES: AtomicI32 = AtomicI32::new(-1);
const LENGTH: usize = 4096;

fn wait_for_step(n: u32) {
    for _ in 0..50_000 {
        if STEP.load(Ordering::SeqCst) >= n {
            return;
        }
        raw::nap(100_000);
    }
}

/// Memory that is slow to come: the thread that touches it stands in the middle of what it does.
extern "C" fn wait_for_memory(signal: c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let page = PAGE.load(Ordering::SeqCst);
    // SAFETY: the kernel's.
    let at = unsafe { (*info).si_addr() }.addr();
    if !(page..page + LENGTH).contains(&at) {
        // SAFETY: no handler of ours; the fault comes again.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        return;
    }
    let fd = CLOSES.load(Ordering::SeqCst);
    if fd >= 0 {
        in_one_step(fd, None, || 0);
    }
    STEP.store(1, Ordering::SeqCst);
    wait_for_step(2);
    // SAFETY: the page.
    unsafe { libc::mprotect(page as *mut libc::c_void, LENGTH, libc::PROT_READ) };
}

/// A connection is closed, by another thread or by a handler of the sender's own, while a send on it waits for its
/// memory in the middle.
fn closed_in_the_middle_of_a_send(by_handler: bool) {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let pair = Pair::live();
    let c = pair.client;
    let (word, fd) = (fdtable::word(c.fd), c.fd);
    let i = fdtable::conn_of(word).expect("a connection");
    // In the ring, and whoever sends there next owes a bell.
    assert_eq!(send(c, b"first", 0), Ok(5));
    assert_eq!(receive(pair.server, 100).as_deref(), Ok(&b"first"[..]));
    // SAFETY: fresh memory, and a handler for it.
    let page = unsafe {
        let page = libc::mmap(
            core::ptr::null_mut(),
            LENGTH,
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = wait_for_memory as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGSEGV, &action, core::ptr::null_mut()), 0);
        page
    };
    PAGE.store(page.addr(), Ordering::SeqCst);
    STEP.store(0, Ordering::SeqCst);
    CLOSES.store(if by_handler { fd } else { -1 }, Ordering::SeqCst);
    let (mut here, there) = UnixStream::pair().expect("two");
    std::thread::scope(|scope| {
        let address = page.addr();
        let sender = scope.spawn(move || {
            let mut w = Walk::one(address as *mut u8, 100);
            c.quick_send(word, &mut w)
        });
        wait_for_step(1);
        if !by_handler {
            in_one_step(fd, None, || 0);
        }
        // The number is another file's by now.
        // SAFETY: descriptors.
        unsafe { libc::dup2(there.as_raw_fd(), fd) };
        let kept = (c.family.in_use(i), c.stage(), c.slot_live());
        STEP.store(2, Ordering::SeqCst);
        assert_eq!(sender.join().expect("no panic"), Some(100));
        assert_eq!(kept, (true, Stage::Live, true), "nobody else gets its entry and slot meanwhile");
    });
    assert!(c.receiving().word.has_left(), "it was the last close");
    here.set_nonblocking(true).expect("a socket");
    let mut byte = [0];
    assert!(here.read(&mut byte).is_err(), "a bell in a foreign file: {byte:?}");
    late::look_again();
    assert!(c.stage() == Stage::Unused && !c.slot_live(), "they go back when it is over");
    // Its entries may be others' by now.
    core::mem::forget(pair);
}

#[test]
fn a_connection_that_another_thread_closes_stays_until_the_send_in_it_is_over() {
    closed_in_the_middle_of_a_send(false);
}

#[test]
fn a_connection_that_a_handler_closes_stays_until_the_send_that_it_interrupted_is_over() {
    closed_in_the_middle_of_a_send(true);
}

#[test]
fn a_registration_that_was_deleted_does_not_live_on_with_a_file_that_was_given_away() {
    let pair = Pair::live();
    let c = pair.server;
    // SAFETY: made by the call.
    let set = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    let i = epoll::born(set).expect("a set");
    let event = Some(libc::epoll_event { events: libc::EPOLLIN as u32, u64: 7 });
    assert_eq!(epoll::ctl(set, libc::EPOLL_CTL_ADD, c.fd, event), Some(Ok(())));
    // What a bell announced is looked at without the kernel from then on.
    crate::testing::send(pair.client, b"some", 0).expect("room");
    let mut told = libc::epoll_event { events: 0, u64: 0 };
    let waited = epoll::wait(set, i, &mut told, 1, 0, true, |_, _, _, _| panic!("it is not to sleep"));
    assert_eq!((waited, { told.u64 }), (Some(Ok(1)), 7));
    assert!(c.receiving().word.is_hot());
    assert_eq!(crate::testing::receive(c, 10), Ok(b"some".to_vec()));
    assert_eq!(epoll::ctl(set, libc::EPOLL_CTL_DEL, c.fd, None), Some(Ok(())));
    let kernel_has_it = || raw::epoll_ctl(set, libc::EPOLL_CTL_ADD, c.fd, event).is_err();
    assert!(kernel_has_it(), "it is told before the set sleeps, or the file may live on");
    crate::leave::leave_and_read(c.fd, Reason::Passed);
    let conn = fdtable::conn(c.fd).expect("a connection");
    unregister(c.fd, conn);
    assert!(!kernel_has_it());
    fdtable::set(set, Entry::None);
    epoll::close(set, i);
    raw::close(set);
}

/// The signals that wait, a bit each.
fn mask() -> u64 {
    let mask = raw::block_signals_but_faults();
    raw::set_blocked_signals(mask);
    mask
}

#[test]
fn no_handler_runs_until_a_fork_is_over() {
    let _pair = Pair::new();
    let before = mask();
    let prepared = prepare_fork(epoll::Others::Wait);
    let [alarm, fault] = [libc::SIGALRM, libc::SIGSEGV].map(|signal| mask() >> (signal - 1) & 1);
    parent_of_fork(&prepared);
    forget_fork(prepared);
    assert_eq!((alarm, fault), (1, 0), "it would find sets that are held");
    assert_eq!(mask(), before);
}

/// A poll finds a connection live, and is in no call on it: by the time that it makes the word hot, the connection may be over, and its
/// slot another's, whose set relies on bells.
#[test]
fn a_connection_that_is_over_is_not_looked_at() {
    let pair = Pair::live();
    let c = pair.server;
    crate::spin::heat(&c);
    assert!(c.receiving().word.is_hot());
    c.receiving().word.make_cold();
    c.set_stage(Stage::Unused);
    crate::spin::heat(&c);
    assert!(!c.receiving().word.is_hot());
    c.set_stage(Stage::Live);
}

/// What the two ends of a slot's direction have said there.
fn said(e: &End) -> impl PartialEq + std::fmt::Debug {
    let word = (e.word.bells(), e.word.has_left(), e.word.is_hot(), e.word.is_rung(), e.word.has_sleepers());
    let sender = (e.tx.epoch(), e.tx.beginnings(), e.tx.ring(), e.tx.wants(), e.tx.is_ending(), e.tx.bells());
    (word, sender, e.rx.cursor.load(Ordering::Relaxed), e.rx.caught_up(e.tx), e.rx.granted())
}

/// The client has reset the connection, and the kernel knows nothing of the server's end, which has a descriptor of it all the same: the
/// slot is the next connection's by the time that the server does something (PROTOCOLS E11).
#[test]
fn a_server_that_is_late_changes_nothing_of_the_next_connection_in_its_slot() {
    type Does = fn(Channel);
    let all: [(&str, Does); 7] = [
        ("sends", |c| assert!(testing::send(c, b"late", 0).is_err())),
        ("sends much", |c| assert!(testing::send(c, &[1; 5000], 0).is_err())),
        ("receives", |c| assert_ne!(testing::receive(c, 100), Err(libc::EAGAIN))),
        ("waits", |c| {
            c.settle(true);
            crate::spin::heat(&c);
            c.has_news(&c.receiving());
        }),
        ("leaves", |c| {
            crate::leave::leave(c.fd, Reason::Passed);
        }),
        ("shuts down", |c| {
            c.before_end();
            c.follow_if_left();
        }),
        ("closes", |c| {
            c.before_end();
            c.farewell();
        }),
    ];
    for has_left in [false, true] {
        for (what, does) in all {
            let pair = testing::Pair::live();
            let (client, late) = (pair.client, pair.server);
            assert_eq!(testing::send(client, b"request", 0), Ok(7));
            assert_eq!(testing::receive(late, 100).as_deref(), Ok(&b"request"[..]));
            assert_eq!(testing::send(late, b"answer", 0), Ok(6));
            assert_eq!(testing::receive(client, 100).as_deref(), Ok(&b"answer"[..]));
            let ends = [late.sending(), late.receiving()];
            let slot = client.slot().expect("a slot");
            dp_channel::tcp::disconnect(client.fd);
            let before = ends.each_ref().map(|e| Cursor::unpack(e.rx.cursor.load(Ordering::Relaxed)).pos);
            for (e, at) in ends.iter().zip(before) {
                e.tx.reset();
                e.word.reset();
                e.rx.reset(at.add(64));
                assert!(e.tx.to_ring(e.rx, 7));
            }
            let generation = slot.offer(&Tuple::default(), 1, 1, 1);
            assert!(slot.accept(generation) && slot.confirm(generation));
            if has_left {
                // The next one's client goes back to TCP.
                ends[0].word.leave_raw(false);
            }
            let there = ends.each_ref().map(said);
            does(late);
            assert!(there == ends.each_ref().map(said), "{what}: {there:?}, {:?}", ends.each_ref().map(said));
            assert!(slot.is(generation, State::Live), "{what}");
        }
    }
}

/// As fclose(3) and freopen(3) do of a stream that has the connection's number, in a program with several threads.
#[test]
fn who_closes_the_number_inside_libc_ends_the_connection_as_tcp_would() {
    let pair = Pair::live();
    let (to, from) = (pair.client, pair.server);
    assert_eq!(send(to, b"unread", 0), Ok(6));
    assert!(!inside::alone(), "this program has two threads");
    before_close(from.fd);
    let mut linger = libc::linger { l_onoff: 0, l_linger: -1 };
    let mut size = size_of_val(&linger) as libc::socklen_t;
    // SAFETY: the option's place, and its size.
    let rc = unsafe {
        libc::getsockopt(from.fd, libc::SOL_SOCKET, libc::SO_LINGER, (&raw mut linger).cast(), &raw mut size)
    };
    assert_eq!((rc, linger.l_onoff, linger.l_linger), (0, 1, 0), "what was not read makes a reset");
}

/// Another thread closes the last number of a connection between a dup(2) of the kernel's and what is noted of it: the copy is a sound
/// descriptor, as on TCP.
#[test]
fn a_copy_that_was_made_before_the_last_close_is_the_connection() {
    let pair = Pair::live();
    let (to, from) = (pair.client, pair.server);
    assert_eq!(send(from, b"unread", 0), Ok(6));
    let i = fdtable::conn(to.fd).expect("a connection");
    let before = copying(to.fd);
    // SAFETY: numbers.
    let copy = unsafe { libc::fcntl(to.fd, libc::F_DUPFD_CLOEXEC, 3) };
    // The pair closes the number itself.
    std::thread::scope(|scope| drop(scope.spawn(|| in_one_step(to.fd, None, || 0))));
    copied(to.fd, copy, before);
    let c = to.by(copy);
    assert_eq!((fdtable::conn(copy), fdtable::refs(i), c.stage()), (Some(i), 1, Stage::Live));
    assert_eq!(receive(c, 100).as_deref(), Ok(&b"unread"[..]));
    assert_eq!(send(c, b"answer", 0), Ok(6));
    assert_eq!(receive(from, 100).as_deref(), Ok(&b"answer"[..]));
    fdtable::clear(copy);
    raw::close(copy);
}

/// Something else has the number by the time that the kernel makes the copy.
#[test]
fn a_copy_of_what_has_the_number_by_now_is_no_connection() {
    for none in [false, true] {
        let pair = Pair::live();
        let to = pair.client;
        let i = fdtable::conn(to.fd).expect("a connection");
        let [near, far] = raw::socket_pair().expect("a pair");
        let before = copying(to.fd);
        in_one_step(to.fd, None, || {
            // SAFETY: numbers.
            unsafe { libc::dup2(near, to.fd) }
        });
        assert_eq!((fdtable::refs(i), to.stage()), (1, Stage::Live), "it is held");
        // SAFETY: numbers.
        let copy = unsafe { libc::fcntl(to.fd, libc::F_DUPFD_CLOEXEC, 3) };
        if none {
            not_copied(before);
        } else {
            copied(to.fd, copy, before);
        }
        assert_eq!(fdtable::get(copy), Entry::None);
        assert_eq!((fdtable::refs(i), to.stage()), (0, Stage::Unused), "it is over");
        [near, far, copy].into_iter().for_each(raw::close);
        // Its entries may be others' by now.
        core::mem::forget(pair);
    }
}

/// A dup(2) fails while another thread closes the number: the end of the connection is what a close makes of it, and its file is there
/// for that until the call is over.
#[test]
fn a_last_close_beside_a_copy_that_fails_is_a_close() {
    let pair = Pair::live();
    let to = pair.client;
    let frame = 0u8;
    let inside = inside::Inside::enter(to.fd, &frame).expect("a connection");
    let before = copying(to.fd);
    std::thread::scope(|scope| drop(scope.spawn(|| in_one_step(to.fd, None, || 0))));
    assert!(to.stage() == Stage::Live && !to.receiving().word.has_left());
    not_copied(before);
    inside.leave();
    assert!(to.receiving().word.has_left(), "it has said that it ends");
    assert_eq!(to.stage(), Stage::Unused);
    core::mem::forget(pair);
}

/// Two threads close a set's number, or a listener's, at once: the second has found what it was, and it is closed once.
#[test]
fn what_two_threads_close_at_once_is_closed_once() {
    testing::start();
    // SAFETY: made by the call.
    let set = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    let i = epoll::born(set).expect("a set");
    let name = epoll::at(set).expect("a set");
    // A further number.
    assert!(epoll::retain(name));
    assert!(forgets(set, Entry::Epoll(i)));
    assert!(!forgets(set, Entry::Epoll(i)), "the other thread was quicker");
    assert_eq!(fdtable::get(set), Entry::None);
    fdtable::set(set, Entry::Epoll(i));
    assert_eq!(epoll::at(set), Some(name), "by that number it goes on");
    before_close(set);
    fdtable::set(set, Entry::Epoll(i));
    assert_ne!(epoll::at(set), Some(name), "and now it is over");
    fdtable::set(set, Entry::None);
    raw::close(set);
}

/// Somebody who does not see channels is there just when a connection begins: whoever ends all channels may have looked before it is in
/// the table.
#[test]
fn a_connection_that_begins_while_all_channels_end_stays_on_tcp() {
    testing::start();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let socket = TcpStream::connect(listener.local_addr().expect("bound")).expect("connected");
    let fd = socket.as_raw_fd();
    let (local, peer) = (dp_channel::tcp::local(fd), dp_channel::tcp::peer(fd));
    begin::MEANWHILE.set(|| state::end_channels(Reason::IoUring));
    let tracked = track(fd, Side::Client, local.expect("bound"), peer.expect("connected"));
    state::end_channels(Reason::None);
    begin::MEANWHILE.set(|| ());
    let c = Channel::of(fd).expect("an entry");
    assert_eq!((tracked, c.stage()), (false, Stage::Plain));
    let word = fdtable::word(fd);
    enforce::turn_away(socket.into_raw_fd());
    assert_ne!(fdtable::word(fd), word, "nothing is left of it where the rules require a channel");
}
